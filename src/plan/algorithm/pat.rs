//! Parallel aggregated trees (Jeaugey, "PAT: a new algorithm for all-gather and reduce-scatter operations at scale",
//! arXiv 2506.20252, with all trees in parallel): any size, ceil(log2 p) rounds, n(p-1)/p bytes sent.
//!
//! Each block has a binomial tree of its own, rooted at its owner; a rank's *offset* in it is its distance from the
//! owner. The allgather takes the far dimension first, so that few blocks travel far. Its messages are one block each,
//! all of a round to one peer, so that blocks may differ in length; they leave together. No scratch.
//!
//! The reduce-scatter is the same backwards: near dimension first, partial results in scratch, a slot for each even
//! offset but 0, (p-2)/2 of them. Operands go around from the owner on, not in rank order.

use super::{back, forward, own, rounds};
use crate::plan::build::Builder;
use crate::plan::{Action, Buffer, Range};

pub(super) fn allgather(b: &mut Builder) {
    let shape = b.shape();
    let mine = own(&shape, Buffer::In(0));
    b.copy(Range::block(Buffer::Out(0), shape.rank), mine);
    for round in (0..rounds(shape.size)).rev() {
        let distance = 1 << round;
        for offset in parents(round, shape.size) {
            let held = Range::block(Buffer::Out(0), back(&shape, offset));
            b.send(forward(&shape, distance), if offset == 0 { mine } else { held });
        }
        for offset in parents(round, shape.size) {
            let block = back(&shape, offset + distance);
            b.recv(back(&shape, distance), Range::block(Buffer::Out(0), block));
        }
    }
}

pub(super) fn reduce_scatter(b: &mut Builder) {
    let shape = b.shape();
    // Where the block to which this rank has an offset is before a round, and is put after it.
    let input = |offset| Range::block(Buffer::In(0), back(&shape, offset));
    let partial = |offset: u32| match offset {
        0 => own(&shape, Buffer::Out(0)),
        _ => Range::at(Buffer::Scratch, offset / 2 - 1, back(&shape, offset)),
    };
    let is_leaf = |offset: u32| offset % 2 == 1 || offset + 1 == shape.size;
    for round in 0..rounds(shape.size) {
        let distance = 1 << round;
        for offset in parents(round, shape.size).map(|parent| parent + distance) {
            let held = if is_leaf(offset) { input(offset) } else { partial(offset) };
            b.send(back(&shape, distance), held);
        }
        for offset in parents(round, shape.size) {
            b.push(Action::RecvReduce {
                peer: forward(&shape, distance),
                target: partial(offset),
                local: if round == 0 { input(offset) } else { partial(offset) },
                incoming_first: false,
                last: offset == 0 && 2 * distance >= shape.size,
            });
        }
    }
}

/// The offsets from which a block goes on by 2^round in an allgather.
fn parents(round: u32, size: u32) -> impl Iterator<Item = u32> {
    (0..size.saturating_sub(1 << round)).step_by(2 << round)
}
