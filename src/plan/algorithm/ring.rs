//! Rings (Patarasuk and Yuan, "Bandwidth optimal all-reduce algorithms", J. Parallel Distrib. Comput. 69, 2009): p-1
//! steps of one block, to the next rank and from the one before.
//!
//! Of n bytes in all: reduce-scatter and allgather send and receive n(p-1)/p each, the allreduce is both; the first
//! reduces n(p-1)/p. Scratch: none, a reduce-scatter alone 2 blocks, or sqrt(p) of different lengths.
//!
//! Rank r ends a reduce-scatter with block r. A block's reduction starts at the rank after its owner and goes once
//! around, so operands are not in rank order; every rank gets the same bits, since each block is made once.

use super::{back, forward, own, slots};
use crate::plan::build::Builder;
use crate::plan::{Action, Buffer, Range, Shape};

/// The receives of the second half are causal: a final block descends from every rank's part in it.
pub(super) fn allreduce(b: &mut Builder) {
    let shape = b.shape();
    reduce(b, |_, block| Range::block(Buffer::Out(0), block));
    for step in 0..shape.size - 1 {
        b.send(forward(&shape, 1), Range::block(Buffer::Out(0), back(&shape, step)));
        b.recv_causal(back(&shape, 1), Range::block(Buffer::Out(0), back(&shape, step + 1)));
    }
}

/// Partial results take slots of scratch in turn, at least two: with a single one every rank would wait, around the
/// ring, for the next one to take what is in it.
pub(super) fn reduce_scatter(b: &mut Builder) {
    let shape = b.shape();
    let slots = slots(&shape);
    reduce(b, |step, block| match step + 2 == shape.size {
        true => own(&shape, Buffer::Out(0)),
        false => Range::at(Buffer::Scratch, step % slots, block),
    });
}

pub(super) fn allgather(b: &mut Builder) {
    let shape = b.shape();
    let mine = own(&shape, Buffer::In(0));
    b.copy(Range::block(Buffer::Out(0), shape.rank), mine);
    for step in 0..shape.size - 1 {
        let source = Range::block(Buffer::Out(0), back(&shape, step));
        b.send(forward(&shape, 1), if step == 0 { mine } else { source });
        b.recv(back(&shape, 1), Range::block(Buffer::Out(0), back(&shape, step + 1)));
    }
}

/// The reduce-scatter; `partial` is where the result of a step, for a block, goes.
fn reduce(b: &mut Builder, partial: impl Fn(u32, u32) -> Range) {
    let shape = b.shape();
    for step in 0..shape.size - 1 {
        let sent = back(&shape, step + 1);
        b.send(
            forward(&shape, 1),
            if step == 0 { Range::block(Buffer::In(0), sent) } else { partial(step - 1, sent) },
        );
        let block = back(&shape, step + 2);
        b.push(Action::RecvReduce {
            peer: back(&shape, 1),
            target: partial(step, block),
            local: Range::block(Buffer::In(0), block),
            incoming_first: true,
            last: step + 2 == shape.size,
        });
    }
}

/// The blocks in the order in which an allreduce first needs them.
pub(super) fn use_order(shape: &Shape) -> impl Iterator<Item = u32> {
    (1..=shape.size).map(|step| back(shape, step))
}

/// The blocks in the order in which their results arrive.
pub(super) fn arrival_order(shape: &Shape) -> impl Iterator<Item = u32> {
    (0..shape.size).map(|step| back(shape, step))
}
