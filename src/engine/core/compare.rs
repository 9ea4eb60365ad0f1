//! Fingerprints: whether a frame means the operation that it is for, before a byte of it is written.
#![forbid(unsafe_code)]

use super::super::describe;
use super::super::peer::OpRef;
use super::Core;
use crate::error::Error;
use crate::link::frame::{Class, Header, Kind};

impl Core {
    /// Compares a frame with the operation that it is for; an unequal one fails the operation.
    pub(super) fn compare(&mut self, reference: OpRef, peer: usize, header: &Header) -> bool {
        let Some(op) = self.ops[reference.slot].as_deref_mut() else { return false };
        let Some(rank) = op.members.rank(peer) else { return false };
        if op.run.checked.contains(&rank) {
            return true;
        }
        if op.fingerprint == header.fingerprint {
            op.run.checked.push(rank);
            return true;
        }
        let Some(world) = self.worlds.get(&header.world) else { return false };
        let theirs = world.members.rank(peer).unwrap_or(rank);
        let differ =
            describe::mismatch((world.rank, &op.fingerprint), (theirs, &header.fingerprint));
        let text = format!(
            "world {:?} {}: {differ}",
            world.health.name(),
            describe::number(header.class, header.operation)
        );
        self.fail_op(reference, &Error::Mismatch(text));
        false
    }

    /// Compares a late frame with the ended operation that it is for.
    pub(super) fn compare_with_ended(&mut self, peer: usize, header: &Header) {
        let Some(world) = self.worlds.get(&header.world) else { return };
        let Some(mine) = world.ended(header.class, header.operation) else { return };
        let payload_comes = matches!(header.kind, Kind::Data | Kind::Eager);
        if mine == header.fingerprint && !payload_comes {
            return;
        }
        let theirs = world.members.rank(peer).unwrap_or(u32::MAX);
        let differ = describe::mismatch((world.rank, &mine), (theirs, &header.fingerprint));
        let text = format!(
            "world {:?} {}: {differ}",
            world.health.name(),
            describe::number(header.class, header.operation)
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
