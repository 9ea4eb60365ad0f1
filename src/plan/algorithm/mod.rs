//! One file per algorithm: pure functions from a shape to a list of steps, one for each collective that it serves.
//!
//! An algorithm reads `In(0)` and leaves the result in `Out(0)`; whether the two are one memory, and the order of the
//! steps, is the builder's concern. What all have in common is here: a world of one rank, and several buffers per
//! rank, which are folded into `Out(0)` before the algorithm and copied from it afterwards.

mod binomial;
mod bruck;
mod chain;
mod circulant;
mod direct;
mod dissemination;
mod doubling;
mod fold;
mod halving;
mod knomial;
mod pairwise;
mod pat;
mod ring;
mod tree;

use super::build::Builder;
use super::{Action, Algorithm, Buffer, Collective, Range, Shape, interface};

/// The one block that many algorithms work on.
const INPUT: Range = Range { buffer: Buffer::In(0), slot: 0, block: 0, blocks: 1 };
const OUTPUT: Range = Range { buffer: Buffer::Out(0), slot: 0, block: 0, blocks: 1 };

/// Logical blocks that the algorithm cuts a buffer into.
pub(super) fn blocks(shape: &Shape) -> u32 {
    interface::blocks(shape).unwrap_or(match shape.algorithm {
        Algorithm::Ring | Algorithm::Circulant => shape.size,
        Algorithm::Rabenseifner | Algorithm::Halving => 1 << shape.size.ilog2(),
        _ => 1,
    })
}

/// Lists the steps.
pub(super) fn emit(b: &mut Builder) {
    let shape = b.shape();
    if shape.buffers == 1 {
        return emit_one(b);
    }
    match shape.algorithm {
        Algorithm::Ring => {
            fold_buffers(b, ring::use_order(&shape));
            emit_one(b);
            spread(b, ring::arrival_order(&shape));
        }
        _ => {
            let blocks = blocks(&shape);
            fold_buffers(b, 0..blocks);
            emit_one(b);
            spread(b, 0..blocks);
        }
    }
}

/// The algorithm itself, from `In(0)` to `Out(0)`.
fn emit_one(b: &mut Builder) {
    let shape = b.shape();
    match (shape.collective.regular(), shape.algorithm) {
        (Collective::Exscan, _) if shape.size == 1 => {}
        _ if shape.size == 1 => b.copy(OUTPUT, INPUT),
        (Collective::Allreduce, Algorithm::Ring) => ring::allreduce(b),
        (Collective::Allreduce, Algorithm::Direct) => direct::allreduce(b),
        (Collective::Allreduce, Algorithm::Doubling) => doubling::allreduce(b),
        (Collective::Allreduce, Algorithm::Circulant) => circulant::allreduce(b),
        (Collective::Allreduce, Algorithm::Rabenseifner) => halving::farthest_first(b),
        (Collective::Allreduce, Algorithm::Halving) => halving::nearest_first(b),
        (Collective::Allreduce, Algorithm::Knomial) => knomial::allreduce(b),
        (Collective::Broadcast, Algorithm::Binomial) => binomial::broadcast(b),
        (Collective::Broadcast, Algorithm::Knomial) => knomial::broadcast(b),
        (Collective::Broadcast, Algorithm::Chain) => chain::broadcast(b),
        (Collective::Barrier, Algorithm::Dissemination) => dissemination::barrier(b),
        (Collective::Reduce, Algorithm::Binomial) => binomial::reduce(b),
        (Collective::Reduce, Algorithm::Knomial) => knomial::reduce(b),
        (Collective::Reduce, Algorithm::Chain) => chain::reduce(b),
        (Collective::Reduce, Algorithm::Direct) => direct::reduce(b),
        (Collective::Allgather, Algorithm::Ring) => ring::allgather(b),
        (Collective::Allgather, Algorithm::Circulant) => circulant::allgather(b),
        (Collective::Allgather, Algorithm::Pat) => pat::allgather(b),
        (Collective::Allgather, Algorithm::Direct) => direct::allgather(b),
        (Collective::Gather, Algorithm::Direct) => direct::gather(b),
        (Collective::Gather, Algorithm::Binomial) => binomial::gather(b),
        (Collective::Scatter, Algorithm::Direct) => direct::scatter(b),
        (Collective::Scatter, Algorithm::Binomial) => binomial::scatter(b),
        (Collective::ReduceScatter, Algorithm::Ring) => ring::reduce_scatter(b),
        (Collective::ReduceScatter, Algorithm::Circulant) => circulant::reduce_scatter(b),
        (Collective::ReduceScatter, Algorithm::Pat) => pat::reduce_scatter(b),
        (Collective::ReduceScatter, Algorithm::Direct) => direct::reduce_scatter(b),
        (Collective::Alltoall, Algorithm::Pairwise) => pairwise::alltoall(b),
        (Collective::Alltoall, Algorithm::Bruck) => bruck::alltoall(b),
        (Collective::Scan, Algorithm::Doubling) => doubling::scan(b),
        (Collective::Scan, Algorithm::Chain) => chain::scan(b),
        (Collective::Exscan, Algorithm::Doubling) => doubling::exscan(b),
        (Collective::Exscan, Algorithm::Chain) => chain::exscan(b),
        (Collective::Message, Algorithm::Direct) => direct::message(b),
        // Refused by the builder's check, which has the list.
        _ => {}
    }
}

/// Reduces this rank's buffers into the first, block by block, so that the first message need not wait for the whole.
fn fold_buffers(b: &mut Builder, blocks: impl Iterator<Item = u32>) {
    let shape = b.shape();
    for block in blocks {
        let sources = (0..shape.buffers).map(|i| Range::block(Buffer::In(i), block)).collect();
        let target = Range::block(Buffer::Out(0), block);
        b.push(Action::Reduce { target, sources, last: shape.size == 1 });
    }
}

/// Copies the result from this rank's first buffer to the others.
fn spread(b: &mut Builder, blocks: impl Iterator<Item = u32>) {
    let buffers = b.shape().buffers;
    for block in blocks {
        for i in 1..buffers {
            b.copy(Range::block(Buffer::Out(i), block), Range::block(Buffer::Out(0), block));
        }
    }
}

/// The one block of this rank's that a buffer of one slot holds.
fn own(shape: &Shape, buffer: Buffer) -> Range {
    Range::at(buffer, 0, shape.rank)
}

/// The rank `distance` places after this one in the circle of all, or before it; `distance` is at most the size.
fn forward(shape: &Shape, distance: u32) -> u32 {
    (shape.rank + distance) % shape.size
}

fn back(shape: &Shape, distance: u32) -> u32 {
    (shape.rank + shape.size - distance) % shape.size
}

/// Slots of scratch that messages take in turn, at least. A step comes after all steps that used its slot before, if
/// blocks differ in length: then more slots make shorter lists.
fn slots(shape: &Shape) -> u32 {
    if interface::is_uniform(shape) { 2 } else { shape.size.isqrt().max(2) }
}

/// Rounds in which a distance that doubles from 1 reaches all of `size` ranks: ceil(log2 size).
fn rounds(size: u32) -> u32 {
    size.next_power_of_two().ilog2()
}

/// Blocks `low..high` modulo the size, as (first, count) of at most two contiguous runs. Both ends of a message cut
/// them at the same block; and as the cut is at the last block, short and empty blocks end a run, wherever it lies.
fn runs(low: u32, high: u32, size: u32) -> impl Iterator<Item = (u32, u32)> {
    let (first, count) = (low % size, high - low);
    let before_end = count.min(size - first);
    let both = [(first, before_end), (0, count - before_end)];
    both.into_iter().filter(|(_, count)| *count > 0)
}

/// A run of blocks, each in its own slot.
fn run_of(buffer: Buffer, (first, blocks): (u32, u32)) -> Range {
    Range { buffer, slot: first, block: first, blocks }
}
