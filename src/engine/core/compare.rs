//! Fingerprints: whether a frame means the operation that it is for, before a byte of it is written.
#![forbid(unsafe_code)]

use super::super::describe;
use super::super::name::Name;
use super::super::operation::Operation;
use super::super::peer::OpRef;
use super::Core;
use super::failure::of_operation;
use crate::error::Error;
use crate::link::frame::{Class, Header, Kind};

impl Core {
    /// Compares a frame with the operation that it is for; an unequal one fails the operation.
    pub(super) fn compare(&mut self, reference: OpRef, peer: usize, header: &Header) -> bool {
        let Some(op) = self.ops[reference.slot].as_deref_mut() else { return false };
        let Some(rank) = op.members.rank(peer) else { return false };
        let is_checked = op.run.checked.contains(&rank);
        if is_checked || op.fingerprint == header.fingerprint {
            if !is_checked {
                op.run.checked.push(rank);
            }
            return self.compare_lengths(reference, peer, header);
        }
        let Some(world) = self.worlds.get(&header.world) else { return false };
        let theirs = world.members.rank(peer).unwrap_or(rank);
        let differ =
            describe::mismatch((world.rank, &op.fingerprint), (theirs, &header.fingerprint));
        let text = format!(
            "world {:?} {}: {differ}",
            world.health.name(),
            describe::name(&op.name, world.rank)
        );
        self.fail_op(reference, &Error::Mismatch(text));
        false
    }

    /// Compares the length of a message, where each side knows it from arguments of its own; an unequal one fails the
    /// operation.
    fn compare_lengths(&mut self, reference: OpRef, peer: usize, header: &Header) -> bool {
        let Some(op) = self.ops[reference.slot].as_deref() else { return false };
        let Some(mine) = misfit(op, peer, header) else { return true };
        let error = self.length_mismatch(op, peer, header, mine);
        self.fail_op(reference, &error);
        false
    }

    /// What two ranks think of a message.
    pub(super) fn length_mismatch(
        &self,
        op: &Operation,
        peer: usize,
        header: &Header,
        mine: usize,
    ) -> Error {
        let world = self.worlds.get(&op.world);
        let name = world.map_or("", |world| world.health.name());
        let theirs = world.and_then(|world| world.members.rank(peer)).unwrap_or(u32::MAX);
        let me = world.map_or(u32::MAX, |world| world.rank);
        let sent = if header.is_token { 0 } else { header.message };
        let (from, to, count, room) = match header.kind {
            Kind::Grant | Kind::Waiting => (me, theirs, mine as u64, sent),
            _ => (theirs, me, sent, mine as u64),
        };
        Error::Mismatch(format!(
            "world {name:?} {}: rank {from} sends {count} bytes to rank {to}, which expects {room}",
            of_operation(op)
        ))
    }

    /// Compares a late frame with the ended operation that it is for.
    pub(super) fn compare_with_ended(&mut self, peer: usize, header: &Header, name: &Name) {
        let Some(world) = self.worlds.get(&header.world) else { return };
        let Some(mine) = world.ended(name) else { return };
        let payload_comes = matches!(header.kind, Kind::Data | Kind::Eager);
        if mine == header.fingerprint && !payload_comes {
            return;
        }
        let theirs = world.members.rank(peer).unwrap_or(u32::MAX);
        let differ = describe::mismatch((world.rank, &mine), (theirs, &header.fingerprint));
        let text = format!(
            "world {:?} {}: {differ}",
            world.health.name(),
            describe::name(name, world.rank)
        );
        if header.class == Class::Fork {
            return self.tell_fork_failed(
                header.world,
                header.operation,
                peer,
                &Error::Mismatch(text),
            );
        }
        self.fail_world(header.world, &Error::Mismatch(text));
    }
}

/// The bytes of a message as this side knows it, if a frame about it says otherwise; of a slice that is under way.
pub(super) fn misfit(op: &Operation, peer: usize, header: &Header) -> Option<usize> {
    if !op.program.plan().shape.collective.has_own_lengths() {
        return None;
    }
    let rank = op.members.rank(peer)?;
    let step = match header.kind {
        Kind::Data | Kind::Eager | Kind::Request => op.program.receive(rank, header.ordinal),
        Kind::Grant => op.program.send(rank, header.ordinal),
        _ => None,
    }?;
    if header.slice >= op.slices() {
        return Some(0);
    }
    let state = op.run.parts[op.part_of(header.slice)?].steps[step];
    let fits = state.length as u64 == header.message && state.is_token == header.is_token;
    (!fits).then_some(if state.is_token { 0 } else { state.length })
}
