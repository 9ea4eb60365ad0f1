//! Frames that go out: whose turn it is, what the receiver can take, and what the link takes.
#![forbid(unsafe_code)]

use std::io;

use super::super::operation::Operation;
use super::super::peer::{Body, LinkState, OpRef};
use super::Core;
use crate::link::frame::{Header, Kind};

/// What became of an operation's turn at a link.
enum Turn {
    /// It made a frame, and may have more.
    Sent,
    /// It has nothing to send now.
    Nothing,
}

impl Core {
    /// The operation may have bytes for this peer.
    pub(super) fn make_ready(&mut self, op: &mut Operation, reference: OpRef, peer: usize) {
        let key = u32::try_from(peer).unwrap_or(u32::MAX);
        if op.run.queued_at.contains(&key) {
            return;
        }
        op.run.queued_at.push(key);
        self.dial(peer);
        self.peers[peer].ready.push_back(reference);
        self.dirty(peer);
    }

    /// Writes all that can be written now.
    pub(super) fn flush(&mut self) {
        let dirty = self.dirty.len();
        for at in 0..dirty {
            let peer = self.dirty[at];
            self.peers[peer].is_dirty = false;
            self.flush_peer(peer);
        }
        self.dirty.drain(..dirty);
        self.fail_for_leavers();
    }

    fn flush_peer(&mut self, peer: usize) {
        /// How often one link is written before others get their turn.
        const WRITES: usize = 8;
        for _ in 0..WRITES {
            if self.peers[peer].state != LinkState::Up {
                return;
            }
            self.fill(peer);
            if !self.peers[peer].has_output() {
                return self.finish_link(peer);
            }
            match self.peers[peer].write(&mut *self.mesh, peer) {
                Ok(body) => self.body_went(peer, body),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return self.lose_after_reading(peer, &error),
            }
        }
        self.dirty(peer);
    }

    /// A link takes nothing more; what its peer has said before that may tell why.
    fn lose_after_reading(&mut self, peer: usize, error: &io::Error) {
        let mut before = u64::MAX;
        while self.peers[peer].state == LinkState::Up && self.peers[peer].bytes_in != before {
            before = self.peers[peer].bytes_in;
            self.read(peer);
        }
        self.lose(peer, &error.to_string());
    }

    /// Everything is written: after a farewell the sending side ends.
    fn finish_link(&mut self, peer: usize) {
        let link = &mut self.peers[peer];
        if link.said_farewell && link.ready.is_empty() && !link.is_shut {
            link.is_shut = true;
            self.mesh.shutdown(peer);
        }
    }

    /// Bytes of the body have gone, so their source is free.
    fn body_went(&mut self, peer: usize, bytes: usize) {
        let Some(body) = &self.peers[peer].body else { return };
        let (reference, slice, step) = (body.op, body.slice, body.step);
        let _ = self.peers[peer].take_written_body();
        if bytes == 0 {
            return;
        }
        let Some(mut op) = self.lift(reference) else { return };
        self.advance(&mut op, reference, slice, step, bytes);
        self.end_part_if_done(&mut op, reference, slice);
        self.settle(reference.slot, op);
    }

    /// Lets operations make frames, in turn, until the output is full.
    fn fill(&mut self, peer: usize) {
        while self.peers[peer].body.is_none()
            && self.peers[peer].output_pending() < self.limits.output
            && let Some(reference) = self.peers[peer].ready.pop_front()
        {
            let Some(mut op) = self.lift(reference) else { continue };
            match self.frame_of(&mut op, reference, peer) {
                Turn::Sent => self.peers[peer].ready.push_back(reference),
                Turn::Nothing => {
                    let key = u32::try_from(peer).unwrap_or(u32::MAX);
                    op.run.queued_at.retain(|at| *at != key);
                }
            }
            for slice in op.slices_under_way().into_iter().flatten() {
                self.end_part_if_done(&mut op, reference, slice);
            }
            self.settle(reference.slot, op);
        }
    }

    /// Makes the next frame of an operation for this peer: of the earliest step that has bytes.
    fn frame_of(&mut self, op: &mut Operation, reference: OpRef, peer: usize) -> Turn {
        let Some(rank) = op.members.rank(peer) else { return Turn::Nothing };
        let program = op.program.clone();
        for slice in op.slices_under_way().into_iter().flatten() {
            let Some(index) = op.part_of(slice) else { continue };
            for step in program.sends_to(rank) {
                let part = &op.run.parts[index];
                let state = part.steps[step];
                if state.posted >= state.length {
                    continue;
                }
                let limit = op.limit(part, step);
                let is_small = state.length <= self.limits.eager;
                if !is_small && !state.is_requested && op.name.class.is_message() {
                    // Whoever receives from any rank has granted nothing yet.
                    self.request(op, index, step, peer);
                }
                if is_small && !op.run.parts[index].steps[step].is_requested {
                    if limit < state.length {
                        continue;
                    }
                    if self.may_send_eagerly(op.world, peer, state.length) {
                        self.send_eagerly(op, reference, index, step, peer);
                        return Turn::Sent;
                    }
                    self.request(op, index, step, peer);
                    continue;
                }
                // Whole elements: a receiver that reduces can take nothing less.
                let whole = op.unit(&state);
                let ready = limit.min(state.granted).saturating_sub(state.posted) / whole * whole;
                if ready > 0 {
                    self.send_granted(op, reference, index, step, peer, ready);
                    return Turn::Sent;
                }
            }
        }
        Turn::Nothing
    }

    fn send_eagerly(
        &mut self,
        op: &mut Operation,
        reference: OpRef,
        index: usize,
        step: usize,
        peer: usize,
    ) {
        let length = op.run.parts[index].steps[step].length;
        let header = self.header_of(op, Kind::Eager, index, step);
        self.send_payload(op, reference, index, step, peer, header, length);
    }

    fn send_granted(
        &mut self,
        op: &mut Operation,
        reference: OpRef,
        index: usize,
        step: usize,
        peer: usize,
        ready: usize,
    ) {
        let is_shared = !self.peers[peer].ready.is_empty();
        let most = if is_shared { self.limits.frame_shared } else { self.limits.frame_alone };
        let whole = op.unit(&op.run.parts[index].steps[step]);
        let count = ready.min((most / whole).max(1) * whole);
        let header = self.header_of(op, Kind::Data, index, step);
        self.send_payload(op, reference, index, step, peer, header, count);
    }

    /// Queues a frame of `count` bytes from where the step stands.
    #[allow(clippy::too_many_arguments, reason = "the place of a step is five of them")]
    fn send_payload(
        &mut self,
        op: &mut Operation,
        reference: OpRef,
        index: usize,
        step: usize,
        peer: usize,
        mut header: Header,
        count: usize,
    ) {
        let part = &mut op.run.parts[index];
        let from = part.steps[step].posted;
        part.steps[step].posted += count;
        let slice = part.slice;
        header.offset = from as u64;
        header.length = u32::try_from(count).unwrap_or(u32::MAX);
        let bytes = op.payload_of(&op.run.parts[index], step, from, from + count);
        header.checksum = self.checksum_of(op.world, &bytes);
        let step = u32::try_from(step).unwrap_or(u32::MAX);
        if count <= self.limits.copied {
            bytes.with(|payload| self.push_with_credits(peer, header, payload));
            self.advance(op, reference, slice, step, count);
        } else {
            self.push_with_credits(peer, header, &[]);
            self.peers[peer].body = Some(Body { bytes, written: 0, op: reference, slice, step });
        }
    }

    /// Asks the receiver of a small message to grant it, which then goes like a large one. Every message asks for
    /// itself: the receiver may be unable to take any other one before this.
    fn request(&mut self, op: &mut Operation, index: usize, step: usize, peer: usize) {
        op.run.parts[index].steps[step].is_requested = true;
        let header = self.header_of(op, Kind::Request, index, step);
        self.push_with_credits(peer, header, &[]);
    }

    /// A receiver says how far it can take a message.
    pub(super) fn on_grant(
        op: &mut Operation,
        index: usize,
        step: usize,
        header: &Header,
    ) -> Result<(), String> {
        let state = &mut op.run.parts[index].steps[step];
        let limit = usize::try_from(header.offset).unwrap_or(usize::MAX);
        if header.message as usize != state.length || limit > state.length {
            return Err("it granted a message of another length".into());
        }
        state.granted = state.granted.max(limit);
        Ok(())
    }

    /// Grants what a receive could write or reduce now, never more.
    pub(super) fn grant(&mut self, op: &mut Operation, slice: u32, step: u32) {
        let Some(index) = op.part_of(slice) else { return };
        let part = &op.run.parts[index];
        let state = part.steps[step as usize];
        if state.length <= self.limits.eager && !state.is_requested || state.done == state.length {
            return;
        }
        let whole = op.unit(&state);
        let limit = op.limit(part, step as usize) / whole * whole;
        let more = limit.saturating_sub(state.granted);
        // A sender that has not called keeps every grant: while nothing comes, it gets the first one and the whole.
        let is_unheard = state.granted > 0 && state.done == 0;
        let is_whole = limit == state.length;
        if more == 0 || (!is_whole && (is_unheard || more < self.limits.extend)) {
            return;
        }
        op.run.parts[index].steps[step as usize].granted = limit;
        let Some(rank) = op.program.plan().steps[step as usize].peer() else { return };
        let mut header = self.header_of(op, Kind::Grant, index, step as usize);
        header.offset = limit as u64;
        self.push_with_credits(op.members.peer(rank), header, &[]);
    }

    /// The header of a frame about a step.
    pub(super) fn header_of(
        &self,
        op: &Operation,
        kind: Kind,
        index: usize,
        step: usize,
    ) -> Header {
        let part = &op.run.parts[index];
        Header {
            slice: part.slice,
            ordinal: op.program.plan().steps[step].ordinal,
            message: part.steps[step].length as u64,
            is_token: part.steps[step].is_token,
            fingerprint: op.fingerprint,
            ..op.name.header(kind, op.world)
        }
    }
}
