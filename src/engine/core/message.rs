//! Point-to-point messages: how a send and a receive find each other.
//!
//! A message is an operation of two ranks, named by its pair, direction and tag, and counted among these on both sides. A
//! send, and a receive from one rank, have their name when they are called. A receive from any rank gets it when the
//! first frame of a message comes: a large message therefore announces itself (`Request`), as a small one does that has
//! no credits. Messages to oneself never meet a link.
#![forbid(unsafe_code)]

use std::sync::Arc;

use super::super::describe;
use super::super::messages::{Arrival, Own, wanted};
use super::super::name::Name;
use super::super::operation::Operation;
use super::Core;
use crate::error::Error;
use crate::link::frame::{Fingerprint, Header, Kind};
use crate::memory::Region;

impl Core {
    pub(super) fn submit_send(&mut self, op: Box<Operation>, to: u32, tag: u64) {
        if let Some(error) = self.lack_of_room(&op) {
            return self.retire(op, Err(error));
        }
        let Some(world) = self.worlds.get(&op.world) else { return };
        if to == world.rank {
            self.send_to_self(op, tag);
        } else {
            self.bind(op, to, tag, true);
        }
    }

    pub(super) fn submit_receive(&mut self, op: Box<Operation>, from: Option<u32>, tag: u64) {
        if let Some(error) = self.lack_of_room(&op) {
            return self.retire(op, Err(error));
        }
        let Some(world) = self.worlds.get_mut(&op.world) else { return };
        let is_behind = world.messages.is_behind(from, tag);
        if !is_behind {
            if let Some(from) = from.filter(|from| *from != world.rank) {
                return self.bind(op, from, tag, false);
            }
            let is_next = |arrival: &Arrival| {
                let series = (world.incoming(arrival.rank), arrival.rank, tag);
                arrival.rank == world.rank || arrival.turn == world.uses(series)
            };
            if let Some(arrival) = world.messages.first_arrival(from, tag, is_next) {
                return self.take_message(op, &arrival);
            }
        }
        if let Some(deadline) = op.run.deadline {
            self.due = self.due.min(deadline);
        }
        world.messages.pending.push_back(op);
        self.unmatched += 1;
    }

    /// A receive takes a message that is there.
    fn take_message(&mut self, op: Box<Operation>, arrival: &Arrival) {
        let Some(world) = self.worlds.get_mut(&op.world) else { return };
        if arrival.rank != world.rank {
            return self.bind(op, arrival.rank, arrival.tag, false);
        }
        match world.messages.take_own(arrival.rank, arrival.tag) {
            Some(Own::Copied { mut payload, fingerprint, .. }) => {
                let source = Region::lent(&mut payload);
                let _ = self.hand_over(op, source, &fingerprint);
                self.buffers.give_back(payload);
            }
            Some(Own::Lent { operation, .. }) => {
                self.unmatched -= 1;
                self.meet(operation, op);
            }
            None => {}
        }
    }

    /// Gives a message its name, and begins it.
    fn bind(&mut self, mut op: Box<Operation>, partner: u32, tag: u64, is_send: bool) {
        let Some(world) = self.worlds.get_mut(&op.world) else { return };
        let class = if is_send { world.outgoing(partner) } else { world.incoming(partner) };
        let mut name = Name { class, number: tag, turn: 0, partner };
        name.turn = world.next_use(name.series());
        op.name = name;
        let members = Arc::clone(&world.members);
        op.members = world.messages.pair(&members, (world.rank, partner), is_send);
        if !is_send {
            world.messages.forget(&Arrival { rank: partner, tag, turn: name.turn });
            if let Some(completion) = &op.completion {
                completion.note_source(partner);
            }
        }
        self.activate(op);
    }

    /// The first frame of a message has come, and no receive with its name was called: one that takes whatever comes
    /// takes it, or it waits for one.
    pub(super) fn on_arrival(&mut self, peer: usize, header: &Header) {
        let Some(world) = self.worlds.get_mut(&header.world) else { return };
        let Some(rank) = world.members.rank(peer) else { return };
        let starts = matches!(header.kind, Kind::Eager | Kind::Request);
        if !starts || rank == world.rank || header.class != world.incoming(rank) {
            return;
        }
        let arrival = Arrival { rank, tag: header.operation, turn: header.turn };
        world.messages.note(arrival);
        if arrival.turn == world.uses((header.class, rank, arrival.tag))
            && let Some(op) = world.messages.take_receive(rank, arrival.tag)
        {
            self.unmatched -= 1;
            self.bind(op, rank, arrival.tag, false);
        }
    }

    /// A small message is copied, so that its caller is through, as with a message to another rank.
    fn send_to_self(&mut self, op: Box<Operation>, tag: u64) {
        let Some(world) = self.worlds.get_mut(&op.world) else { return };
        if let Some(receive) = world.messages.take_receive(world.rank, tag) {
            self.unmatched -= 1;
            return self.meet(op, receive);
        }
        let source = op.inputs.first().copied().unwrap_or(Region::EMPTY);
        let is_small = source.bytes() <= self.limits.eager
            && world.messages.own_bytes + source.bytes() <= self.limits.world_credits();
        let rank = world.rank;
        if is_small {
            let mut payload = self.buffers.take(source.bytes());
            source.with(|bytes| payload.extend_from_slice(bytes));
            let fingerprint = op.fingerprint;
            world.messages.keep_own(rank, Own::Copied { tag, payload, fingerprint });
            return self.retire(op, Ok(()));
        }
        if let Some(deadline) = op.run.deadline {
            self.due = self.due.min(deadline);
        }
        world.messages.keep_own(rank, Own::Lent { tag, operation: op });
        self.unmatched += 1;
    }

    /// A message to oneself and its receive are both here.
    fn meet(&mut self, send: Box<Operation>, receive: Box<Operation>) {
        let source = send.inputs.first().copied().unwrap_or(Region::EMPTY);
        let outcome = self.hand_over(receive, source, &send.fingerprint);
        self.retire(send, outcome);
    }

    /// Copies a message to oneself to its receive. If they do not fit the world fails, before anybody learns of it.
    fn hand_over(
        &mut self,
        receive: Box<Operation>,
        source: Region,
        fingerprint: &Fingerprint,
    ) -> Result<(), Error> {
        let Some(world) = self.worlds.get(&receive.world) else { return Ok(()) };
        let target = receive.outputs.first().copied().unwrap_or(Region::EMPTY);
        let rank = world.rank;
        if target.bytes() == source.bytes() && receive.fingerprint == *fingerprint {
            target.copy_from(&source);
            if let Some(completion) = &receive.completion {
                completion.note_source(rank);
            }
            self.retire(receive, Ok(()));
            return Ok(());
        }
        let text = format!(
            "world {:?}: rank {rank} sent {} bytes to itself as {}, and receives {} bytes as {}",
            world.health.name(),
            source.bytes(),
            describe::call(fingerprint),
            target.bytes(),
            describe::call(&receive.fingerprint)
        );
        let error = Error::Mismatch(text);
        self.fail_world(receive.world, &error);
        self.retire(receive, Err(error.clone()));
        Err(error)
    }

    /// A member has left: a receive that only it could have served fails its world.
    pub(super) fn fail_receives_from(&mut self, id: u64, rank: u32) {
        let Some(world) = self.worlds.get(&id) else { return };
        let mut others =
            world.state.iter().enumerate().filter(|(at, _)| *at != world.rank as usize);
        let is_alone = others.all(|(_, member)| member.has_left);
        let hopeless = world.messages.pending.iter().find(|op| match wanted(op) {
            Some((Some(from), _)) => from == rank,
            Some((None, _)) => is_alone,
            None => false,
        });
        let Some(op) = hopeless else { return };
        let text = format!(
            "world {:?} {}: rank {rank} has left the world (destroyed its handle), so no message can come",
            world.health.name(),
            describe::unmatched(op)
        );
        self.fail_world(id, &Error::PeerLost { rank: rank as usize, text });
    }
}
