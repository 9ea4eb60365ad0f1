//! Frames that come in: whose they are, and where their payload goes.
//!
//! A frame is compared before a byte of it is written: with the operation under way, with one that is over, or later,
//! when its operation is called. Payload within a grant goes straight to its place; a small message that cannot be taken
//! yet is parked. What breaks the protocol ends the link, and with it the worlds of that peer.
#![forbid(unsafe_code)]

use std::io;

use super::super::early::Early;
use super::super::limits::Limits;
use super::super::name::Name;
use super::super::operation::{Operation, Parked};
use super::super::peer::{Incoming, LinkState, OpRef, Sink};
use super::super::reason;
use super::Core;
use crate::link::frame::{HEADER_BYTES, Header, Kind};
use crate::link::phase::{Phase, note};
use crate::memory::Region;
use crate::plan::Action;

/// How often one link is read before others get their turn.
const READS: usize = 8;

impl Core {
    /// Reads a link until it has nothing more, or others should have their turn.
    pub(super) fn read(&mut self, peer: usize) {
        for _ in 0..READS {
            if self.peers[peer].state != LinkState::Up {
                return;
            }
            let direct = self.direct_target(peer);
            let link = &mut self.peers[peer];
            let more = match link.fill_input(&mut *self.mesh, peer, direct) {
                Ok((straight, more)) => {
                    self.peers[peer].heard_at = self.clock;
                    self.took_directly(peer, straight);
                    self.understand(peer);
                    self.fail_for_leavers();
                    more
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => true,
                Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
                    return self.lose(
                        peer,
                        "it closed its connection without leaving: the process has probably died",
                    );
                }
                Err(error) => return self.lose(peer, &error.to_string()),
            };
            if !more && !self.mesh.has_ended(peer) {
                // A short read has emptied the socket; whatever comes later is a new event.
                return;
            }
        }
        if !self.unread.contains(&peer) {
            self.unread.push(peer);
        }
    }

    /// Where the rest of the frame that is coming in can be read to without a copy.
    fn direct_target(&mut self, peer: usize) -> Region {
        let link = &self.peers[peer];
        let Some(incoming) = &link.incoming else { return Region::EMPTY };
        let Sink::Step { op, slice, step } = incoming.sink else { return Region::EMPTY };
        if link.start < link.end {
            return Region::EMPTY;
        }
        if incoming.is_checked {
            let whole = self.landing(peer, incoming);
            let length = incoming.header.length as usize;
            return whole.map_or(Region::EMPTY, |whole| whole.part(incoming.taken, length));
        }
        let low = incoming.header.offset as usize + incoming.taken;
        let high = incoming.header.offset as usize + incoming.header.length as usize;
        let Some(op) = self.under_way(op) else {
            return Region::EMPTY;
        };
        match (&op.program.plan().steps[step as usize].action, op.part_of(slice)) {
            (Action::RecvCopy { .. }, Some(index)) => {
                op.payload_of(&op.run.parts[index], step as usize, low, high)
            }
            _ => Region::EMPTY,
        }
    }

    /// Bytes have been read straight to their place.
    fn took_directly(&mut self, peer: usize, bytes: usize) {
        if bytes == 0 {
            return;
        }
        let Some(incoming) = &mut self.peers[peer].incoming else { return };
        incoming.taken += bytes;
        if let Sink::Step { op, slice, step } = incoming.sink
            && !incoming.is_checked
        {
            self.took(op, slice, step, bytes);
        }
        self.end_frame_if_complete(peer);
    }

    /// A receive has `bytes` more.
    pub(super) fn took(&mut self, reference: OpRef, slice: u32, step: u32, bytes: usize) {
        let Some(mut op) = self.lift(reference) else { return };
        self.advance(&mut op, reference, slice, step, bytes);
        self.poke(&mut op, reference, slice, step);
        self.end_part_if_done(&mut op, reference, slice);
        self.settle(reference.slot, op);
    }

    /// Deals with what stands in the input buffer.
    fn understand(&mut self, peer: usize) {
        loop {
            let link = &mut self.peers[peer];
            if link.state != LinkState::Up {
                return;
            }
            let there = link.end - link.start;
            if link.incoming.is_some() {
                if there == 0 || !self.take_payload(peer) {
                    return;
                }
                continue;
            }
            if there < HEADER_BYTES {
                return;
            }
            let mut bytes = [0; HEADER_BYTES];
            link.input(link.start, link.start + HEADER_BYTES).with(|b| bytes.copy_from_slice(b));
            link.start += HEADER_BYTES;
            match Header::decode(&bytes) {
                Ok(header) => {
                    self.peers[peer].frames_in += 1;
                    self.begin_frame(peer, header);
                }
                Err(bad) => return self.lose(peer, &bad.to_string()),
            }
        }
    }

    /// Feeds payload to the sink of the frame that is coming in. False if it needs more than is there.
    fn take_payload(&mut self, peer: usize) -> bool {
        let link = &mut self.peers[peer];
        let Some(incoming) = &mut link.incoming else { return true };
        if incoming.is_checked && matches!(incoming.sink, Sink::Step { .. }) {
            self.collect(peer);
            return true;
        }
        let rest = incoming.header.length as usize - incoming.taken;
        let mut count = rest.min(link.end - link.start);
        // Checked where there is a step; elsewhere the peer may have written anything.
        let offset = (incoming.header.offset as usize).saturating_add(incoming.taken);
        let mut step_done = None;
        let from = link.input_region.part(link.start, link.start + count);
        match &mut incoming.sink {
            Sink::Discard | Sink::Refuse => {}
            Sink::Park(buffer) => from.with(|bytes| buffer.extend_from_slice(bytes)),
            Sink::Step { op, slice, step } => step_done = Some((*op, *slice, *step)),
        }
        if let Some((reference, slice, step)) = step_done
            && let Some(op) = self.under_way(reference)
            && let Some(index) = op.part_of(slice)
        {
            let whole = op.unit(&op.run.parts[index].steps[step as usize]);
            count = count / whole * whole;
            if count == 0 {
                return false;
            }
            self.put(op, index, step, offset, from.part(0, count));
        }
        let link = &mut self.peers[peer];
        link.start += count;
        if let Some(incoming) = &mut link.incoming {
            incoming.taken += count;
        }
        if let Some((op, slice, step)) = step_done {
            self.took(op, slice, step, count);
        }
        self.end_frame_if_complete(peer);
        true
    }

    /// The frame is all there.
    pub(super) fn end_frame_if_complete(&mut self, peer: usize) {
        let link = &mut self.peers[peer];
        let is_complete =
            link.incoming.as_ref().is_some_and(|i| i.taken == i.header.length as usize);
        if !is_complete {
            note(Phase::MidFrame);
            return;
        }
        let Some(incoming) = link.incoming.take() else { return };
        if incoming.is_checked
            && let Err(text) = self.check(peer, &incoming)
        {
            return self.lose(peer, &text);
        }
        let header = incoming.header;
        match incoming.sink {
            Sink::Discard | Sink::Step { .. } if header.kind == Kind::Eager => {
                self.owe(header.world, peer, header.length as usize);
            }
            Sink::Discard | Sink::Refuse | Sink::Step { .. } => {}
            Sink::Park(payload) => self.on_parked(peer, &header, payload),
        }
    }

    /// A header is there: decides where its payload goes, and acts at once if there is none.
    fn begin_frame(&mut self, peer: usize, header: Header) {
        self.credit(peer, &header);
        let sink = match header.kind {
            Kind::Abort | Kind::Reset => Sink::Park(self.buffer(&header)),
            Kind::Data | Kind::Eager => match self.sink(peer, &header) {
                Ok(sink) => sink,
                Err(text) => return self.lose(peer, &text),
            },
            _ => Sink::Discard,
        };
        if self.peers[peer].state != LinkState::Up {
            return;
        }
        let is_checked = self.is_checked(&header);
        if is_checked {
            self.make_room(peer, &header, &sink);
        }
        self.peers[peer].incoming = Some(Incoming { header, taken: 0, sink, is_checked });
        if header.length > 0 {
            return;
        }
        self.end_frame_if_complete(peer);
        match header.kind {
            Kind::Farewell => self.on_farewell(peer, &header),
            Kind::Ping => self.on_ping(peer, &header),
            Kind::Pong => self.on_pong(peer, &header),
            Kind::Goodbye => self.on_goodbye(header.world, peer),
            Kind::Grant | Kind::Request | Kind::Waiting => {
                self.route(peer, &header, Vec::new());
            }
            _ => {}
        }
    }

    /// Where the payload of a message goes.
    fn sink(&mut self, peer: usize, header: &Header) -> Result<Sink, String> {
        let Some(world) = self.worlds.get_mut(&header.world) else {
            self.answer_stranger(peer, header.world);
            return Ok(Sink::Refuse);
        };
        let Some(rank) = world.members.rank(peer) else {
            return Err("it sent a message in a world of which it is no member".into());
        };
        if header.kind == Kind::Eager {
            let member = &mut world.state[rank as usize];
            let held = member.held + header.length as usize + Limits::FRAME_CREDITS;
            if held > self.limits.world_credits() {
                return Err("it sent more small messages than it has credits for".into());
            }
            member.held = held;
        }
        let name = Name::of(header, rank);
        if let Some(reference) = world.find(&name) {
            if !self.compare(reference, peer, header) {
                return Ok(Sink::Discard);
            }
            return self.sink_in(reference, peer, header);
        }
        if world.is_over(&name) {
            self.compare_with_ended(peer, header, &name);
            return Ok(Sink::Discard);
        }
        if header.kind == Kind::Data {
            if self.tombstone(header).is_some() {
                // Granted before the fork failed here; the sender hears of that behind its frame.
                return Ok(Sink::Discard);
            }
            return Err("it sent what nobody had granted".into());
        }
        Ok(Sink::Park(self.buffer(header)))
    }

    /// Where the payload of a message of an operation under way goes.
    fn sink_in(&mut self, reference: OpRef, peer: usize, header: &Header) -> Result<Sink, String> {
        let Some(op) = self.ops[reference.slot].as_deref() else { return Ok(Sink::Discard) };
        let Some(index) = op.part_of(header.slice) else {
            let is_later = header.slice >= op.run.slice_next && header.slice < op.slices();
            return if is_later && header.kind == Kind::Eager {
                Ok(Sink::Park(self.buffer(header)))
            } else {
                Err("it sent a message of a slice that is not under way".into())
            };
        };
        let found = op.members.rank(peer).and_then(|rank| op.program.receive(rank, header.ordinal));
        let Some(step) = found else { return Err("it sent a message that no step expects".into()) };
        let part = &op.run.parts[index];
        let state = part.steps[step];
        let end = header.offset as usize + header.length as usize;
        if header.message as usize != state.length || header.offset as usize != state.done {
            return Err("it sent a message of another length, or out of order".into());
        }
        let step_number = u32::try_from(step).unwrap_or(u32::MAX);
        let is_ready = op.limit(part, step) >= end;
        match header.kind {
            Kind::Data if end <= state.granted && is_ready => {}
            Kind::Data => return Err("it sent more than it was granted".into()),
            _ if is_ready => {}
            _ => return Ok(Sink::Park(self.buffer(header))),
        }
        Ok(Sink::Step { op: reference, slice: header.slice, step: step_number })
    }

    /// A frame whose payload was kept is all there.
    fn on_parked(&mut self, peer: usize, header: &Header, payload: Vec<u8>) {
        match header.kind {
            Kind::Abort => {
                let error = reason::decode(&payload);
                self.give_back(payload);
                self.on_abort(header, &error);
            }
            Kind::Reset => {
                let error = (!payload.is_empty()).then(|| reason::decode(&payload));
                self.give_back(payload);
                match error {
                    Some(error) => {
                        let hops = header.slice.saturating_add(1);
                        self.fail_world_after(hops, header.world, &error);
                    }
                    None => self.on_goodbye(header.world, peer),
                }
            }
            _ => self.route(peer, header, payload),
        }
    }

    /// Brings a whole frame to its operation, or keeps it until that is called.
    fn route(&mut self, peer: usize, header: &Header, payload: Vec<u8>) {
        let Some(world) = self.worlds.get(&header.world) else {
            self.give_back(payload);
            return self.answer_stranger(peer, header.world);
        };
        let Some(rank) = world.members.rank(peer) else {
            return self.lose(peer, "it sent a frame in a world of which it is no member");
        };
        let name = Name::of(header, rank);
        if let Some(reference) = world.find(&name) {
            if !self.compare(reference, peer, header) {
                return self.discard(peer, header, payload);
            }
            if let Some(kept) = self.deliver(reference, peer, header, payload) {
                self.keep_early(peer, header, kept);
            }
        } else if world.is_over(&name) {
            self.discard(peer, header, payload);
            self.compare_with_ended(peer, header, &name);
        } else if let Some(error) = self.tombstone(header) {
            self.discard(peer, header, payload);
            self.tell_fork_failed(header.world, header.operation, peer, &error);
        } else {
            self.keep_early(peer, header, payload);
            if header.class.is_message() {
                self.on_arrival(peer, header);
            }
        }
    }

    /// Drops a frame that was kept, or came too late; the credits of a living world go back.
    pub(super) fn discard(&mut self, peer: usize, header: &Header, payload: Vec<u8>) {
        if header.kind == Kind::Eager {
            self.owe(header.world, peer, payload.len());
        }
        self.give_back(payload);
    }

    /// Keeps a frame whose operation, or whose slice, has not begun here.
    fn keep_early(&mut self, peer: usize, header: &Header, payload: Vec<u8>) {
        let Some(world) = self.worlds.get(&header.world) else { return };
        let Some(rank) = world.members.rank(peer) else { return };
        let (ordered, others) = world.state[rank as usize].early;
        if ordered >= self.limits.early_frames || others >= 2 * self.limits.unordered_operations {
            return self.lose(peer, "it sent more frames ahead of time than the protocol allows");
        }
        let name = Name::of(header, rank);
        self.early.keep(header.world, name, Early { peer, header: *header, payload });
        self.count_early(header, peer, true);
    }

    /// Brings a frame to an operation under way. Gives the payload back if its slice has not begun.
    pub(super) fn deliver(
        &mut self,
        reference: OpRef,
        peer: usize,
        header: &Header,
        payload: Vec<u8>,
    ) -> Option<Vec<u8>> {
        if !self.compare(reference, peer, header) {
            self.discard(peer, header, payload);
            return None;
        }
        let mut op = self.lift(reference)?;
        if header.kind != Kind::Waiting
            && op.part_of(header.slice).is_none()
            && header.slice >= op.run.slice_next
            && header.slice < op.slices()
        {
            self.ops[reference.slot] = Some(op);
            return Some(payload);
        }
        let dispatched = self.dispatch(&mut op, reference, peer, header, payload);
        self.end_part_if_done(&mut op, reference, header.slice);
        self.settle(reference.slot, op);
        if let Err(text) = dispatched {
            self.lose(peer, &text);
        }
        self.fail_for_leavers();
        None
    }

    /// Acts on a frame whose slice is under way (or over).
    pub(super) fn dispatch(
        &mut self,
        op: &mut Operation,
        reference: OpRef,
        peer: usize,
        header: &Header,
        payload: Vec<u8>,
    ) -> Result<(), String> {
        let Some(rank) = op.members.rank(peer) else { return Ok(()) };
        let Some(index) = op.part_of(header.slice) else { return Ok(()) };
        match header.kind {
            Kind::Eager => {
                let found = op.program.receive(rank, header.ordinal);
                let Some(step) = found else {
                    return Err("it sent a message that no step expects".into());
                };
                let state = op.run.parts[index].steps[step];
                if payload.len() != state.length || state.done > 0 {
                    return Err("it sent a message of another length".into());
                }
                let step = u32::try_from(step).unwrap_or(u32::MAX);
                note(Phase::Parked);
                op.run.parts[index].parked.push(Parked { step, rank, payload });
                self.poke(op, reference, header.slice, step);
            }
            Kind::Grant => {
                let Some(step) = op.program.send(rank, header.ordinal) else {
                    return Err("it granted a message that no step sends".into());
                };
                note(Phase::Granted);
                Self::on_grant(op, index, step, header)?;
                let step = u32::try_from(step).unwrap_or(u32::MAX);
                self.poke(op, reference, header.slice, step);
            }
            Kind::Request => {
                let Some(step) = op.program.receive(rank, header.ordinal) else {
                    return Err("it asked to send a message that no step expects".into());
                };
                op.run.parts[index].steps[step].is_requested = true;
                let step = u32::try_from(step).unwrap_or(u32::MAX);
                self.poke(op, reference, header.slice, step);
            }
            _ => {}
        }
        Ok(())
    }

    /// An empty buffer for the payload of a frame.
    fn buffer(&mut self, header: &Header) -> Vec<u8> {
        self.buffers.take(header.length as usize)
    }

    /// The peer's endpoint closes: it has left every world.
    fn on_farewell(&mut self, peer: usize, header: &Header) {
        let before = self.peers[peer].frames_in - 1;
        if before != header.operation {
            let sent = header.operation;
            let why = format!("it sent {sent} frames before it left, of which {before} have come");
            return self.lose(peer, &why);
        }
        let worlds: Vec<u64> = self.worlds.keys().copied().collect();
        for world in worlds {
            self.on_goodbye(world, peer);
        }
        self.peers[peer].has_farewell = true;
    }
}
