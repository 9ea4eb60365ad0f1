//! Bruck's alltoall (Bruck, Ho, Kipnis, Upfal and Weathersby, "Efficient algorithms for all-to-all communications in
//! multiport message-passing systems", 1997, the index operation): ceil(log2 p) rounds, about n/2 bytes of n in each.
//!
//! A block goes the distance to its receiver as the sum of powers of two: in round k by 2^k if bit k is set. So a rank
//! sends to one peer in each round, one message a block, which leave together: nothing is packed or rotated, a block
//! is read from the input and ends where it belongs. On its way it has up to two slots of scratch at each rank, in
//! turn: with a single one, every rank would wait for the next to take what is in it. Less than 2p slots in all.
//!
//! For small blocks: p/2 times as many bytes as are sent at once in a pairwise exchange, in log2 p rounds.

use super::{back, forward, rounds};
use crate::plan::build::Builder;
use crate::plan::{Buffer, Range, Shape};

pub(super) fn alltoall(b: &mut Builder) {
    let shape = b.shape();
    let size = shape.size;
    let mut places = Places::new(&shape);
    let own = |buffer| Range::at(buffer, shape.rank, shape.rank * size + shape.rank);
    b.copy(own(Buffer::Out(0)), own(Buffer::In(0)));
    for distance in (1..size).filter(|distance| shape.in_place && meets_itself(*distance, size)) {
        let (from, to) = (places.of(distance, 0), places.stage(distance));
        b.copy(to, from);
    }
    for round in 0..rounds(size) {
        let step = 1 << round;
        let moved = || (1..size).filter(|distance| distance & step != 0);
        for distance in moved() {
            b.send(forward(&shape, step), places.of(distance, distance & (step - 1)));
        }
        for distance in moved() {
            b.recv(back(&shape, step), places.of(distance, distance & (2 * step - 1)));
        }
    }
}

/// Whether, in place, the block to the rank at this distance would be overwritten no later than it is sent: then both
/// would wait for each other. There are few such distances, about two for each power of two.
fn meets_itself(distance: u32, size: u32) -> bool {
    // It is sent in the round of its lowest bit; what comes there, from as far, in the round of its highest.
    (size - distance).ilog2() <= distance.trailing_zeros()
}

/// Where blocks are on a rank.
struct Places {
    shape: Shape,
    /// By distance: the first slot of scratch.
    slots: Vec<u32>,
    /// By distance: the slot of scratch that is read in place of the input.
    staged: Vec<Option<u32>>,
    used: u32,
}

impl Places {
    fn new(shape: &Shape) -> Self {
        let (mut slots, mut used) = (Vec::new(), 0);
        for distance in 0..shape.size {
            slots.push(used);
            used += distance.count_ones().saturating_sub(1).min(2);
        }
        Self { shape: *shape, slots, staged: vec![None; shape.size as usize], used }
    }

    /// Makes room for the block to the rank at this distance.
    fn stage(&mut self, distance: u32) -> Range {
        self.staged[distance as usize] = Some(self.used);
        self.used += 1;
        self.of(distance, 0)
    }

    /// The block that goes a distance, when it has gone as far as this rank.
    fn of(&self, distance: u32, gone: u32) -> Range {
        let sender = back(&self.shape, gone);
        let receiver = forward(&self.shape, distance - gone);
        let block = sender * self.shape.size + receiver;
        match self.staged[distance as usize] {
            Some(slot) if gone == 0 => Range::at(Buffer::Scratch, slot, block),
            _ if gone == 0 => Range::at(Buffer::In(0), receiver, block),
            _ if gone == distance => Range::at(Buffer::Out(0), sender, block),
            _ => {
                let slot = self.slots[distance as usize] + (gone.count_ones() - 1) % 2;
                Range::at(Buffer::Scratch, slot, block)
            }
        }
    }
}
