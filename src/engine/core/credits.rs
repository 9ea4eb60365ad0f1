//! Credits: what small messages may occupy at their receivers before they are called for.
//!
//! A link has as many in each direction, of which one world may hold half; a small message costs its payload and its
//! header. They come back with whatever frame of their world goes to the sender next, or by themselves when enough have
//! come together.
#![forbid(unsafe_code)]

use std::mem;

use super::super::limits::Limits;
use super::super::world::World;
use super::Core;
use crate::link::frame::{Header, Kind};

impl Core {
    /// Credits that a frame brings back.
    pub(super) fn credit(&mut self, peer: usize, header: &Header) {
        let back = header.credits as usize;
        if back == 0 {
            return;
        }
        if let Some(world) = self.worlds.get_mut(&header.world)
            && let Some(rank) = world.members.rank(peer)
        {
            let member = &mut world.state[rank as usize];
            let back = back.min(member.outstanding);
            member.outstanding -= back;
            self.peers[peer].credits += back;
        }
    }

    /// Sets credits aside for a whole small message, if there are any.
    pub(super) fn may_send_eagerly(&mut self, id: u64, peer: usize, length: usize) -> bool {
        let cost = length + Limits::FRAME_CREDITS;
        let Some(world) = self.worlds.get_mut(&id) else { return false };
        let Some(rank) = world.members.rank(peer) else { return false };
        let member = &mut world.state[rank as usize];
        let link = &mut self.peers[peer];
        let is_within =
            cost <= link.credits && member.outstanding + cost <= self.limits.world_credits();
        if is_within {
            member.outstanding += cost;
            link.credits -= cost;
        }
        is_within
    }

    /// Credits for a small message that has been taken; they go back with the next frame, or when enough have come
    /// together.
    pub(super) fn owe(&mut self, id: u64, peer: usize, payload: usize) {
        let bytes = payload + Limits::FRAME_CREDITS;
        let Some(world) = self.worlds.get_mut(&id) else { return };
        let Some(rank) = world.members.rank(peer) else { return };
        let member = &mut world.state[rank as usize];
        member.owed += bytes;
        self.peers[peer].owed += bytes;
        if member.owed >= self.limits.credits / 8
            || self.peers[peer].owed >= self.limits.credits / 4
        {
            self.pay(peer);
        }
    }

    /// Gives back all that this peer has coming, world by world.
    pub(super) fn pay(&mut self, peer: usize) {
        let mut owing = mem::take(&mut self.owing);
        owing.extend(self.worlds.iter().filter_map(|(id, world)| {
            let rank = world.members.rank(peer)?;
            (world.state[rank as usize].owed > 0).then_some(*id)
        }));
        for id in owing.drain(..) {
            self.push_with_credits(peer, Header::control(Kind::Credit, id), &[]);
        }
        self.owing = owing;
    }

    /// Queues a frame, with the credits of its world that the peer has coming.
    pub(super) fn push_with_credits(&mut self, peer: usize, mut header: Header, payload: &[u8]) {
        if let Some(world) = self.worlds.get_mut(&header.world)
            && let Some(rank) = world.members.rank(peer)
        {
            let member = &mut world.state[rank as usize];
            let owed = mem::take(&mut member.owed);
            member.held -= owed.min(member.held);
            self.peers[peer].owed -= owed.min(self.peers[peer].owed);
            header.credits = u32::try_from(owed).unwrap_or(u32::MAX);
        }
        if header.kind == Kind::Credit && header.credits == 0 {
            return;
        }
        self.push(peer, &header, payload);
    }

    /// Takes back the credits that a world holds at a peer: the peer drops what it had parked.
    pub(super) fn reclaim(&mut self, world: &mut World, rank: usize, peer: usize) {
        let member = &mut world.state[rank];
        self.peers[peer].credits += mem::take(&mut member.outstanding);
        let owed = mem::take(&mut member.owed);
        self.peers[peer].owed -= owed.min(self.peers[peer].owed);
    }
}
