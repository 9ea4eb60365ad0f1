//! Pairwise exchange (Thakur, Rabenseifner and Gropp, "Optimization of collective communication operations in MPICH",
//! 2005, section 4.3): p-1 rounds, in each of which every rank sends one block and receives one, from another peer
//! each. n(p-1)/p bytes of n, blocks of any lengths.
//!
//! The receive of round i begins when that of round i - `degree` is done, so that at most `degree` messages at once are
//! under way to a rank, whatever the others do. No scratch; in place `degree` blocks, at least 2, or
//! sqrt(p) of different lengths.
//!
//! The distances are 1, -1, 2, -2 …: in place the block from a peer takes the slot of the block to it, and goes through
//! scratch until that is sent. With the two next to each other in the order of rounds, no round waits for a later one.

use super::{back, forward, slots};
use crate::plan::build::Builder;
use crate::plan::{Buffer, Range};

pub(super) fn alltoall(b: &mut Builder) {
    let shape = b.shape();
    let (size, rank) = (shape.size, shape.rank);
    let input = |peer| Range::at(Buffer::In(0), peer, rank * size + peer);
    let output = |peer| Range::at(Buffer::Out(0), peer, peer * size + rank);
    let degree = usize::from(shape.degree);
    let slots = degree.max(slots(&shape) as usize);
    let mut receives: Vec<u32> = Vec::new();
    b.copy(output(rank), input(rank));
    for distance in 1..=size / 2 {
        let mut arrived = Vec::new();
        for distance in pair(distance, size) {
            let (round, from) = (receives.len(), back(&shape, distance));
            let target = match shape.in_place {
                true => {
                    Range { buffer: Buffer::Scratch, slot: (round % slots) as u32, ..output(from) }
                }
                false => output(from),
            };
            b.send(forward(&shape, distance), input(forward(&shape, distance)));
            let gate = round.checked_sub(degree).map(|earlier| receives[earlier]);
            receives.push(b.recv_gated(from, target, gate));
            arrived.push((output(from), target));
        }
        arrived.into_iter().for_each(|(output, target)| b.copy(output, target));
    }
}

/// A distance and the same backwards, which may be the same.
fn pair(distance: u32, size: u32) -> impl Iterator<Item = u32> {
    std::iter::once(distance).chain((2 * distance != size).then_some(size - distance))
}
