//! One link as the engine sees it: what came in and is not yet understood, what is to go out, and the credits.
#![forbid(unsafe_code)]

use std::collections::VecDeque;
use std::io::{self, IoSlice, IoSliceMut};

use super::limits::Limits;
use crate::link::Mesh;
use crate::link::frame::{HEADER_BYTES, Header};
use crate::memory::{Region, Scratch};

/// An operation by its place in the core; `id` tells it from an earlier one there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct OpRef {
    pub(super) slot: usize,
    pub(super) id: u64,
}

/// Whether frames can flow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum LinkState {
    /// Nobody has needed it.
    Idle,
    /// It is being made.
    Dialing,
    /// Frames flow.
    Up,
    /// It is gone, and will not come back.
    Gone,
}

/// Where the payload of the frame that is coming in goes.
#[derive(Debug)]
pub(super) enum Sink {
    /// Nowhere.
    Discard,
    /// Nowhere, and no credits go back: its world was not here when it began.
    Refuse,
    /// Into a buffer, until its receive can take it or its operation is called.
    Park(Vec<u8>),
    /// Into its step.
    Step { op: OpRef, slice: u32, step: u32 },
}

/// The frame that is coming in.
#[derive(Debug)]
pub(super) struct Incoming {
    pub(super) header: Header,
    /// Bytes of payload that have been dealt with.
    pub(super) taken: usize,
    pub(super) sink: Sink,
    /// Its payload counts when all of it is here, and its checksum right.
    pub(super) is_checked: bool,
}

/// Payload that is written straight from where it lies.
#[derive(Debug)]
pub(super) struct Body {
    pub(super) bytes: Region,
    pub(super) written: usize,
    pub(super) op: OpRef,
    pub(super) slice: u32,
    pub(super) step: u32,
}

/// Frames without payload that may wait behind others before a link's buffers grow.
const CONTROL_BYTES: usize = 64 * HEADER_BYTES;

/// Operations that may have bytes for one peer before its queue grows.
const READY: usize = 256;

/// One link.
#[derive(Debug)]
pub(super) struct Peer {
    pub(super) state: LinkState,
    input: Scratch,
    pub(super) input_region: Region,
    /// Bytes `start..end` of the input are there and not understood.
    pub(super) start: usize,
    pub(super) end: usize,
    pub(super) incoming: Option<Incoming>,
    collection: Scratch,
    /// What came of a frame whose checksum is compared before it is reduced.
    pub(super) collected: Region,
    /// Headers and small payloads; the first `written` bytes are gone.
    pub(super) output: Vec<u8>,
    written: usize,
    /// Follows the output.
    pub(super) body: Option<Body>,
    /// Frames that follow the body.
    later: Vec<u8>,
    /// What we may still have parked at the peer.
    pub(super) credits: usize,
    /// What the peer has back from us when we next write, over all worlds.
    pub(super) owed: usize,
    /// Operations that may have bytes for this peer, in turn.
    pub(super) ready: VecDeque<OpRef>,
    pub(super) is_dirty: bool,
    /// The world of which the peer was last told that it is not here any more.
    pub(super) told: Option<u64>,
    /// The peer's endpoint has said that it closes.
    pub(super) has_farewell: bool,
    /// So have we.
    pub(super) said_farewell: bool,
    /// Our sending side has ended.
    pub(super) is_shut: bool,
    /// When something last came.
    pub(super) heard_at: u64,
    /// Until when a link that is being made is wanted, if only to tell of a failure.
    pub(super) dial_until: Option<u64>,
    /// Frames queued so far, and those that have come.
    pub(super) frames_out: u64,
    /// See `frames_out`.
    pub(super) frames_in: u64,
    /// Bytes that have come.
    pub(super) bytes_in: u64,
}

impl Peer {
    pub(super) fn new(limits: &Limits) -> Self {
        Self {
            state: LinkState::Idle,
            input: Scratch::default(),
            input_region: Region::EMPTY,
            start: 0,
            end: 0,
            incoming: None,
            collection: Scratch::default(),
            collected: Region::EMPTY,
            output: Vec::new(),
            written: 0,
            body: None,
            later: Vec::new(),
            credits: limits.credits,
            owed: 0,
            ready: VecDeque::new(),
            is_dirty: false,
            told: None,
            has_farewell: false,
            said_farewell: false,
            is_shut: false,
            heard_at: 0,
            dial_until: None,
            frames_out: 0,
            frames_in: 0,
            bytes_in: 0,
        }
    }

    /// Frames can flow from now on.
    pub(super) fn come_up(&mut self, limits: &Limits) {
        self.state = LinkState::Up;
        self.input_region = self.input.lend(limits.input.max(HEADER_BYTES));
        // A frame is begun while less than `limits.output` waits; grants and credits come on top.
        self.output.reserve(limits.output + limits.copied + CONTROL_BYTES);
        self.later.reserve(CONTROL_BYTES);
        self.ready.reserve(READY);
    }

    /// It is not made after all; what waited for it is dropped.
    pub(super) fn go_idle(&mut self) {
        self.go_down();
        self.state = LinkState::Idle;
        self.dial_until = None;
        self.frames_out = 0;
    }

    /// Nothing flows any more; what was under way is dropped.
    pub(super) fn go_down(&mut self) {
        self.state = LinkState::Gone;
        self.incoming = None;
        self.output.clear();
        self.written = 0;
        self.body = None;
        self.later.clear();
        self.start = 0;
        self.end = 0;
        self.ready.clear();
    }

    /// Bytes that wait to be written, the body apart.
    pub(super) fn output_pending(&self) -> usize {
        self.output.len() + self.later.len() - self.written
    }

    /// Whether something waits to be written.
    pub(super) fn has_output(&self) -> bool {
        self.output_pending() > 0 || self.body.is_some()
    }

    /// Appends a frame that has no body, or whose payload is copied.
    pub(super) fn push(&mut self, header: &Header, payload: &[u8]) {
        self.frames_out += 1;
        self.make_room(HEADER_BYTES + payload.len());
        let to = if self.body.is_some() { &mut self.later } else { &mut self.output };
        to.extend_from_slice(&header.encode());
        to.extend_from_slice(payload);
    }

    /// Moves what waits in the output to its front where the output would have to grow else.
    fn make_room(&mut self, bytes: usize) {
        if self.written > 0 && self.output.len() + bytes > self.output.capacity() {
            self.output.drain(..self.written);
            self.written = 0;
        }
    }

    /// The body has gone, or what was left of it stands in the output.
    fn end_body(&mut self) -> Option<Body> {
        let body = self.body.take();
        self.make_room(self.later.len());
        self.output.append(&mut self.later);
        body
    }

    /// Makes room for so many bytes of a frame, at once as much as any frame needs.
    pub(super) fn reserve(&mut self, limits: &Limits, bytes: usize) {
        if self.collected.bytes() < bytes {
            self.collected = self.collection.lend(bytes.max(limits.frame_alone));
        }
    }

    /// Bytes of the input buffer.
    pub(super) fn input(&self, low: usize, high: usize) -> Region {
        self.input_region.part(low, high)
    }

    /// Reads once: first into `direct`, which lies before what the input buffer holds next, then into the buffer.
    /// Returns the bytes that went to `direct`, and whether more may be there.
    pub(super) fn fill_input(
        &mut self,
        mesh: &mut dyn Mesh,
        peer: usize,
        direct: Region,
    ) -> io::Result<(usize, bool)> {
        if self.start == self.end {
            self.start = 0;
            self.end = 0;
        } else if self.end == self.input_region.bytes() {
            let rest = self.end - self.start;
            self.input_region
                .part(0, rest)
                .copy_from(&self.input_region.part(self.start, self.end));
            self.start = 0;
            self.end = rest;
        }
        let space = self.input_region.part(self.end, self.input_region.bytes());
        let room = space.bytes() + direct.bytes();
        let count = direct.with_mut(|direct| {
            space.with_mut(|space| {
                if direct.is_empty() {
                    mesh.read(peer, &mut [IoSliceMut::new(space)])
                } else {
                    mesh.read(peer, &mut [IoSliceMut::new(direct), IoSliceMut::new(space)])
                }
            })
        })?;
        if count == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        self.bytes_in += count as u64;
        let straight = count.min(direct.bytes());
        self.end += count - straight;
        Ok((straight, count == room))
    }

    /// Writes once. Returns the bytes of the body that went.
    pub(super) fn write(&mut self, mesh: &mut dyn Mesh, peer: usize) -> io::Result<usize> {
        let output = &self.output[self.written..];
        let body = self
            .body
            .as_ref()
            .map_or(Region::EMPTY, |body| body.bytes.part(body.written, body.bytes.bytes()));
        let count = body.with(|body| match (output.is_empty(), body.is_empty()) {
            (true, true) => Ok(0),
            (false, true) => mesh.write(peer, &[IoSlice::new(output)]),
            (true, false) => mesh.write(peer, &[IoSlice::new(body)]),
            (false, false) => mesh.write(peer, &[IoSlice::new(output), IoSlice::new(body)]),
        })?;
        let of_output = count.min(output.len());
        self.written += of_output;
        if self.written == self.output.len() {
            self.output.clear();
            self.written = 0;
        }
        let of_body = count - of_output;
        if let Some(body) = &mut self.body {
            body.written += of_body;
        }
        Ok(of_body)
    }

    /// Takes the body out if all of it has gone.
    pub(super) fn take_written_body(&mut self) -> Option<Body> {
        let is_written = self.body.as_ref().is_some_and(|b| b.written == b.bytes.bytes());
        if is_written { self.end_body() } else { None }
    }

    /// Lets go of the memory of an operation that ends early: the begun frame's rest is copied, what comes in for it
    /// goes nowhere.
    pub(super) fn forget(&mut self, op: OpRef) {
        if let Some(body) = self.body.as_ref().filter(|body| body.op == op) {
            let rest = body.bytes.part(body.written, body.bytes.bytes());
            rest.with(|rest| self.output.extend_from_slice(rest));
            self.end_body();
        }
        if let Some(incoming) = &mut self.incoming
            && matches!(incoming.sink, Sink::Step { op: of, .. } if of == op)
        {
            incoming.sink = Sink::Discard;
        }
    }
}
