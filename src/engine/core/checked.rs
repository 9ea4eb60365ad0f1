//! Payload with checksums (CRC32C): it counts once a whole frame of it is here and its checksum is right.
//!
//! Where a receive copies, the bytes of a frame go to their place at once, and move no watermark before they are compared.
//! Where it reduces they are collected in memory of the link, and combined after that. What is parked is compared before
//! it is brought to its operation, and so are the reasons of failures, in every world. What is discarded is not: an
//! operation may end while a frame for it comes in. A wrong checksum ends the link.
#![forbid(unsafe_code)]

use super::super::peer::{Incoming, Sink};
use super::Core;
use crate::link::frame::{Header, Kind};
use crate::memory::Region;
use crate::plan::Action;

impl Core {
    /// Whether the payload of a frame from a peer is compared with a checksum.
    pub(super) fn is_checked(&self, header: &Header) -> bool {
        match header.kind {
            Kind::Abort | Kind::Reset => true,
            Kind::Data | Kind::Eager => self.checks_payload_of(header.world),
            _ => false,
        }
    }

    fn checks_payload_of(&self, world: u64) -> bool {
        self.has_checksums && self.worlds.get(&world).is_some_and(|world| world.checksum)
    }

    /// The checksum of a frame's payload in a world that has them, else 0.
    pub(super) fn checksum_of(&self, world: u64, payload: &Region) -> u32 {
        if self.checks_payload_of(world) { payload.with(crc32c::crc32c) } else { 0 }
    }

    /// Makes room for what is reduced when it has been compared.
    pub(super) fn make_room(&mut self, peer: usize, header: &Header, sink: &Sink) {
        let Sink::Step { op, step, .. } = *sink else { return };
        let Some(op) = self.under_way(op) else { return };
        if !matches!(op.program.plan().steps[step as usize].action, Action::RecvCopy { .. }) {
            self.peers[peer].reserve(&self.limits, header.length as usize);
        }
    }

    /// Where the payload of a frame for a step lies until it is compared: all of it. None if the operation has ended.
    pub(super) fn landing(&self, peer: usize, incoming: &Incoming) -> Option<Region> {
        let Sink::Step { op: reference, slice, step } = incoming.sink else { return None };
        let op = self.under_way(reference)?;
        let part = &op.run.parts[op.part_of(slice)?];
        let low = incoming.header.offset as usize;
        let length = incoming.header.length as usize;
        Some(match op.program.plan().steps[step as usize].action {
            Action::RecvCopy { .. } => op.payload_of(part, step as usize, low, low + length),
            _ => self.peers[peer].collected.part(0, length),
        })
    }

    /// Takes what the input buffer holds of a frame for a step.
    pub(super) fn collect(&mut self, peer: usize) {
        let Some(incoming) = &self.peers[peer].incoming else { return };
        let landing = self.landing(peer, incoming);
        let link = &mut self.peers[peer];
        let Some(incoming) = &mut link.incoming else { return };
        let taken = incoming.taken;
        let count = (incoming.header.length as usize - taken).min(link.end - link.start);
        let from = link.input_region.part(link.start, link.start + count);
        if let Some(landing) = landing {
            landing.part(taken, taken + count).copy_from(&from);
        }
        link.start += count;
        incoming.taken += count;
        self.end_frame_if_complete(peer);
    }

    /// Compares the payload of a whole frame, and lets its step take it.
    ///
    /// # Errors
    ///
    /// It is not what was sent: why its link ends.
    pub(super) fn check(&mut self, peer: usize, incoming: &Incoming) -> Result<(), String> {
        let (header, length) = (&incoming.header, incoming.header.length as usize);
        let landing = self.landing(peer, incoming);
        let checksum = match (&incoming.sink, landing) {
            (Sink::Park(payload), _) => crc32c::crc32c(payload),
            (_, Some(landing)) => landing.with(crc32c::crc32c),
            _ => return Ok(()),
        };
        if checksum != header.checksum {
            return Err(self.altered(peer, header));
        }
        let (Sink::Step { op: reference, slice, step }, Some(landing)) = (&incoming.sink, landing)
        else {
            return Ok(());
        };
        if let Some(op) = self.under_way(*reference)
            && let Some(index) = op.part_of(*slice)
        {
            if !length.is_multiple_of(op.unit(&op.run.parts[index].steps[*step as usize])) {
                return Err("it sent a part of an element".into());
            }
            let action = &op.program.plan().steps[*step as usize].action;
            if !matches!(action, Action::RecvCopy { .. }) {
                self.put(op, index, *step, header.offset as usize, landing);
            }
        }
        self.took(*reference, *slice, *step, length);
        Ok(())
    }

    fn altered(&self, peer: usize, header: &Header) -> String {
        let what = match header.kind {
            Kind::Abort | Kind::Reset => "the reason of a failure",
            _ => "payload",
        };
        let way = self.worlds.get(&header.world).and_then(|world| {
            let from = world.members.rank(peer)?;
            let name = world.health.name();
            Some(format!("from rank {from} to rank {} of world {name:?}", world.rank))
        });
        format!(
            "the checksum of {} bytes of {what} is wrong: they were altered on the way {}, or in a buffer that was \
             changed while its operation ran; create the world anew, and look at the network and the memory of both hosts",
            header.length,
            way.unwrap_or_else(|| "here".into())
        )
    }
}
