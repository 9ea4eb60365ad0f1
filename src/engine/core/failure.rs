//! Ends that nobody wished: a world that fails, a fork that fails, a peer that is lost or has left.
//!
//! A world is whole or failed. Who learns first that it has failed tells the members it has links to, and those at
//! distance 2^k whatever it takes; each of them does so once in turn, so that all learn it. Nobody's memory is touched
//! once its operation has been reported.
#![forbid(unsafe_code)]

use std::mem;

use super::super::name::Name;
use super::super::operation::Operation;
use super::super::peer::{LinkState, OpRef};
use super::super::world::{TOMBSTONES, World};
use super::super::{describe, reason};
use super::{ABORT_DIAL_NS, Core, GRAVES, Grave};
use crate::error::Error;
use crate::link::frame::{Class, Header, Kind};

/// "operation 17, allreduce(f32, 1024, sum)".
pub(super) fn of_operation(op: &Operation) -> String {
    format!("{}, {}", describe::operation(op), describe::call(&op.fingerprint))
}

/// A failure as its world's members hear it: what a rank lacks, they have lost that rank for.
fn as_told(error: &Error, rank: u32) -> Error {
    match error {
        Error::Resource(text) => Error::PeerLost {
            rank: rank as usize,
            text: format!("rank {rank} lacks what it needs: {text}"),
        },
        error => error.clone(),
    }
}

impl Core {
    /// Fails a world: everything in it ends with this error, and its members are told.
    pub(super) fn fail_world(&mut self, id: u64, error: &Error) {
        self.fail_world_after(0, id, error);
    }

    /// The same, of which this rank hears through so many others. Callers are told after the members ([`Core::work`]):
    /// a process that ends on the error must not be taken for the one that is at fault.
    pub(super) fn fail_world_after(&mut self, hops: u32, id: u64, error: &Error) {
        let Some(mut world) = self.worlds.remove(&id) else { return };
        let (name, me) = (world.health.name(), world.rank);
        log::debug!(
            target: "collect::world",
            "world {name:?} rank {me} fails after {hops} hops: {error}"
        );
        self.bury(id, error, hops);
        self.end_all(id, &mut world, error);
        let mut payload = Vec::new();
        let length = reason::encode(&as_told(error, world.rank), &mut payload);
        let header = Header { length, slice: hops, ..Header::control(Kind::Abort, id) };
        let size = world.state.len();
        for rank in 0..size {
            let peer = world.members.peer(u32::try_from(rank).unwrap_or(u32::MAX));
            self.reclaim(&mut world, rank, peer);
            let distance = (rank + size - world.rank as usize) % size;
            let is_near = distance.is_power_of_two() || (size - distance).is_power_of_two();
            let is_up = self.peers[peer].state == LinkState::Up;
            if distance != 0 && (is_up || is_near) && !world.state[rank].has_left {
                self.peers[peer].told = Some(id);
                self.push_soon(peer, &header, &payload);
            }
        }
        self.limit_dials_of(&world);
        world.health.fail(error);
    }

    /// Links that only a world which has failed wanted need not be made.
    fn limit_dials_of(&mut self, world: &World) {
        let until = self.now().saturating_add(ABORT_DIAL_NS);
        for peer in world.members.peers().iter().map(|peer| *peer as usize) {
            let link = &self.peers[peer];
            if link.state != LinkState::Dialing || link.dial_until.is_some() {
                continue;
            }
            let mut others = self.worlds.values();
            if !others.any(|other| other.is_active() && other.members.rank(peer).is_some()) {
                self.limit_dial(peer, Some(until));
            }
        }
    }

    fn bury(&mut self, id: u64, error: &Error, hops: u32) {
        if self.grave(id).is_some() {
            return;
        }
        if self.graves.len() == GRAVES {
            self.graves.pop_front();
        }
        self.graves.push_back(Grave { id, error: error.clone(), hops });
    }

    /// What is remembered of a world that has failed.
    pub(super) fn grave(&self, id: u64) -> Option<&Grave> {
        self.graves.iter().find(|grave| grave.id == id)
    }

    /// A world whose failure came before its registration.
    pub(super) fn refuse_the_dead(&mut self, id: u64) {
        if let Some(grave) = self.grave(id) {
            let (error, hops) = (grave.error.clone(), grave.hops);
            self.fail_world_after(hops, id, &error);
        }
    }

    /// Fails what an operation fails: its world; a fork only itself.
    pub(super) fn fail_op(&mut self, reference: OpRef, error: &Error) {
        let Some(op) = self.ops.get(reference.slot).and_then(Option::as_ref) else { return };
        if op.run.id != reference.id {
            return;
        }
        let (name, id) = (op.name, op.world);
        if name.class == Class::Fork {
            self.fail_fork(id, name.number, error)
        } else {
            self.fail_world(id, error)
        }
    }

    /// Ends an operation before its time: the engine lets go of the caller's memory, then the caller is told.
    pub(super) fn drop_op(&mut self, reference: OpRef, error: &Error) {
        let Some(mut op) = self.lift(reference) else { return };
        self.vacant.push(reference.slot);
        for link in &mut self.peers {
            link.forget(reference);
        }
        for parked in op.run.parts.iter_mut().flat_map(|part| mem::take(&mut part.parked)) {
            self.owe(op.world, op.members.peer(parked.rank), parked.payload.len());
            self.give_back(parked.payload);
        }
        self.retire_later(op, error);
    }

    /// Fails one fork, here and at its partners; its parent stays whole.
    fn fail_fork(&mut self, id: u64, number: u64, error: &Error) {
        let Some(world) = self.worlds.get_mut(&id) else { return };
        let name = Name::numbered(Class::Fork, number);
        let Some(reference) = world.find(&name) else { return };
        world.end(&name, 0);
        self.mark_fork(id, number, error);
        let Some(op) = self.ops[reference.slot].as_deref() else { return };
        let members = op.members.clone();
        self.drop_op(reference, error);
        for peer in members.peers().iter().map(|peer| *peer as usize) {
            self.tell_fork_failed(id, number, peer, error);
        }
    }

    /// Remembers that a fork has failed; what was kept for it is dropped.
    fn mark_fork(&mut self, id: u64, number: u64, error: &Error) {
        let Some(world) = self.worlds.get_mut(&id) else { return };
        let dropped = self.early.take(id, &Name::numbered(Class::Fork, number));
        if !world.tombstones.iter().any(|(n, _)| *n == number) {
            if world.tombstones.len() == TOMBSTONES {
                world.tombstones.pop_front();
            }
            world.tombstones.push_back((number, error.clone()));
        }
        let Some(mut dropped) = dropped else { return };
        while let Some(early) = self.early.next(&mut dropped) {
            self.count_early(&early.header, early.peer, false);
            self.discard(early.peer, &early.header, early.payload);
        }
    }

    /// Why a fork has failed, if a frame is for one that has.
    pub(super) fn tombstone(&self, header: &Header) -> Option<Error> {
        let world = self.worlds.get(&header.world)?;
        let of_fork = |(number, _): &&(u64, Error)| {
            header.class == Class::Fork && *number == header.operation
        };
        world.tombstones.iter().find(of_fork).map(|(_, error)| error.clone())
    }

    pub(super) fn tell_fork_failed(&mut self, id: u64, number: u64, peer: usize, error: &Error) {
        let mut payload = Vec::new();
        let length = reason::encode(error, &mut payload);
        let name = Name::numbered(Class::Fork, number);
        let header = Header { length, ..name.header(Kind::Abort, id) };
        if !self.is_me(peer) {
            self.push(peer, &header, &payload);
        }
    }

    /// A peer says that a world, or a fork, has failed.
    pub(super) fn on_abort(&mut self, header: &Header, error: &Error) {
        if header.class != Class::Fork {
            let hops = header.slice.saturating_add(1);
            if !self.worlds.contains_key(&header.world) {
                // A fork may fail at a member that is through before it is registered here.
                self.bury(header.world, error, hops);
            }
            return self.fail_world_after(hops, header.world, error);
        }
        let Some(world) = self.worlds.get(&header.world) else { return };
        let name = Name::numbered(Class::Fork, header.operation);
        if let Some(op) = world.find(&name) {
            self.fail_op(op, error);
        } else if world.ended(&name).is_none() {
            self.mark_fork(header.world, header.operation, error);
        }
    }

    /// A frame came for a world that is not there: it has failed, or everybody here has left it.
    ///
    /// The peer is told once: a stream of frames is under way from those who have not heard yet.
    pub(super) fn answer_stranger(&mut self, peer: usize, id: u64) {
        if self.peers[peer].told.replace(id) == Some(id) {
            return;
        }
        let mut payload = Vec::new();
        let grave = self.grave(id);
        let slice = grave.map_or(0, |grave| grave.hops);
        if let Some(grave) = grave {
            reason::encode(&grave.error, &mut payload);
        }
        let length = u32::try_from(payload.len()).unwrap_or(0);
        self.push(peer, &Header { length, slice, ..Header::control(Kind::Reset, id) }, &payload);
    }

    /// A member has left a world: what still needs it fails.
    pub(super) fn on_goodbye(&mut self, id: u64, peer: usize) {
        let Some(world) = self.worlds.get_mut(&id) else { return };
        let Some(rank) = world.members.rank(peer) else { return };
        let member = &mut world.state[rank as usize];
        member.has_left = true;
        // It has dropped what it had parked, and drops what is under way.
        self.peers[peer].credits += mem::take(&mut member.outstanding);
        for reference in world.all_active() {
            let Some(op) = self.ops[reference.slot].as_deref() else { continue };
            let Some(gone) = op.members.rank(peer) else { continue };
            // Later slices are asked when they begin: what they need from it may be here already.
            let mut parts = 0..op.run.parts.len();
            if parts.any(|index| self.partner_that_left(op, index) == Some(gone)) {
                self.fail_for_leaver(reference, gone);
            }
        }
        self.fail_receives_from(id, rank);
    }

    /// The link to a peer is gone, or broke the protocol, or could not be made.
    pub(super) fn lose(&mut self, peer: usize, why: &str) {
        self.end_link(peer, |rank, address, before| Error::PeerLost {
            rank,
            text: format!("{before}: lost rank {rank} at {address}: {why}"),
        });
    }

    /// The link to a peer could not be made for want of something here: the peer is not to blame.
    pub(super) fn lack(&mut self, peer: usize, what: &str) {
        self.end_link(peer, |_, _, before| Error::Resource(format!("{before}: {what}")));
    }

    /// Ends a link, and fails the worlds of its peer. `error` takes the peer's rank, its address, and the text that
    /// names world and operation.
    fn end_link(&mut self, peer: usize, error: impl Fn(usize, &str, &str) -> Error) {
        if self.peers[peer].state == LinkState::Gone {
            return;
        }
        let has_farewell = self.peers[peer].has_farewell;
        self.peers[peer].go_down();
        let address = self.mesh.address(peer);
        self.mesh.close(peer);
        let mut lost = mem::take(&mut self.owing);
        lost.extend(
            self.worlds.iter().filter_map(|(id, world)| world.members.rank(peer).map(|_| *id)),
        );
        for id in lost.drain(..) {
            if has_farewell {
                self.on_goodbye(id, peer);
                continue;
            }
            let Some(world) = self.worlds.get(&id) else { continue };
            let rank = world.members.rank(peer).unwrap_or(u32::MAX) as usize;
            let during = world.first_active().and_then(|op| self.ops[op.slot].as_deref());
            let during = during.map_or_else(String::new, |op| format!(" {}", of_operation(op)));
            let before = format!("world {:?}{during}", world.health.name());
            self.fail_world(id, &error(rank, &address, &before));
        }
        self.owing = lost;
    }
}
