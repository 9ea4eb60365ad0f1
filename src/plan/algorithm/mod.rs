//! One file per algorithm: a pure function from a shape to a list of steps.
//!
//! An algorithm reads `In(0)` and leaves the result in `Out(0)`; whether the two are one memory, and the order of the
//! steps, is the builder's concern. What all have in common is here: a world of one rank, and several buffers per
//! rank, which are folded into `Out(0)` before the algorithm and copied from it afterwards.

mod binomial;
mod circulant;
mod direct;
mod dissemination;
mod doubling;
mod reduce;
mod ring;

use super::build::Builder;
use super::{Action, Algorithm, Buffer, Collective, Range, Shape};

/// The one block that most algorithms work on.
const INPUT: Range = Range { buffer: Buffer::In(0), slot: 0, block: 0, blocks: 1 };
const OUTPUT: Range = Range { buffer: Buffer::Out(0), slot: 0, block: 0, blocks: 1 };

/// Logical blocks that the algorithm cuts a buffer into.
pub(super) fn blocks(shape: &Shape) -> u32 {
    match shape.algorithm {
        Algorithm::Ring | Algorithm::Circulant => shape.size,
        _ => 1,
    }
}

/// Lists the steps.
pub(super) fn emit(b: &mut Builder) {
    let shape = b.shape();
    if shape.buffers == 1 {
        return emit_one(b);
    }
    match shape.algorithm {
        Algorithm::Ring => {
            fold(b, ring::use_order(&shape));
            emit_one(b);
            spread(b, ring::arrival_order(&shape));
        }
        _ => {
            let blocks = blocks(&shape);
            fold(b, 0..blocks);
            emit_one(b);
            spread(b, 0..blocks);
        }
    }
}

/// The algorithm itself, from `In(0)` to `Out(0)`.
fn emit_one(b: &mut Builder) {
    let shape = b.shape();
    if shape.size == 1 {
        return b.copy(OUTPUT, INPUT);
    }
    match shape.algorithm {
        Algorithm::Ring if shape.collective == Collective::Allgather => ring::allgather(b),
        Algorithm::Ring => ring::emit(b),
        Algorithm::Direct => direct::emit(b),
        Algorithm::Doubling => doubling::emit(b),
        Algorithm::Binomial if shape.collective == Collective::Reduce => reduce::emit(b),
        Algorithm::Binomial => binomial::emit(b),
        Algorithm::Dissemination => dissemination::emit(b),
        Algorithm::Circulant if shape.collective == Collective::Allgather => {
            circulant::allgather(b);
        }
        Algorithm::Circulant => circulant::allreduce(b),
    }
}

/// Reduces this rank's buffers into the first, block by block, so that the first message need not wait for the whole.
fn fold(b: &mut Builder, blocks: impl Iterator<Item = u32>) {
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
