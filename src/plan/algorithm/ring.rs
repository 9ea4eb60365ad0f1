//! Ring allreduce: reduce-scatter, then allgather (Patarasuk and Yuan, "Bandwidth optimal all-reduce algorithms",
//! J. Parallel Distrib. Comput. 69, 2009). 2(p-1) steps, 2n(p-1)/p bytes sent and received, n(p-1)/p bytes reduced.
//!
//! Rank r ends the first half with block r. A block's reduction starts at the rank after its owner and goes once
//! around, so operands are not in rank order; every rank gets the same bits, since each block is made once. The
//! allgather's receives are causal: a final block descends from every rank's part in it.

use crate::plan::build::Builder;
use crate::plan::{Action, Buffer, Range, Shape};

pub(super) fn emit(b: &mut Builder) {
    let shape = b.shape();
    let (next, previous) = ((shape.rank + 1) % shape.size, back(&shape, 1));
    for step in 0..shape.size - 1 {
        let source = if step == 0 { Buffer::In(0) } else { Buffer::Out(0) };
        b.send(next, Range::block(source, back(&shape, step + 1)));
        let block = back(&shape, step + 2);
        b.push(Action::RecvReduce {
            peer: previous,
            target: Range::block(Buffer::Out(0), block),
            local: Range::block(Buffer::In(0), block),
            incoming_first: true,
            last: step + 2 == shape.size,
        });
    }
    for step in 0..shape.size - 1 {
        b.send(next, Range::block(Buffer::Out(0), back(&shape, step)));
        b.recv_causal(previous, Range::block(Buffer::Out(0), back(&shape, step + 1)));
    }
}

/// Ring allgather: p-1 steps, n(p-1)/p bytes sent and received, of n bytes in all.
pub(super) fn allgather(b: &mut Builder) {
    let shape = b.shape();
    let (next, previous) = ((shape.rank + 1) % shape.size, back(&shape, 1));
    let own = Range { buffer: Buffer::In(0), slot: 0, block: shape.rank, blocks: 1 };
    b.copy(Range::block(Buffer::Out(0), shape.rank), own);
    for step in 0..shape.size - 1 {
        let source = Range::block(Buffer::Out(0), back(&shape, step));
        b.send(next, if step == 0 { own } else { source });
        b.recv(previous, Range::block(Buffer::Out(0), back(&shape, step + 1)));
    }
}

/// The blocks in the order in which [`emit`] first needs them.
pub(super) fn use_order(shape: &Shape) -> impl Iterator<Item = u32> {
    (1..=shape.size).map(|step| back(shape, step))
}

/// The blocks in the order in which their results arrive.
pub(super) fn arrival_order(shape: &Shape) -> impl Iterator<Item = u32> {
    (0..shape.size).map(|step| back(shape, step))
}

/// The rank, and block, `distance` places before this one on the ring; `distance` is at most the size.
fn back(shape: &Shape, distance: u32) -> u32 {
    (shape.rank + shape.size - distance) % shape.size
}
