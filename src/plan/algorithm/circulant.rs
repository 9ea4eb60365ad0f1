//! Circulant reduce-scatter and allgather (Träff, "Optimal, non-pipelined reduce-scatter and allreduce algorithms",
//! arXiv 2410.14234; Bruck et al., "Efficient algorithms for all-to-all communications", 1997): any size,
//! ceil(log2 p) rounds each, n(p-1)/p bytes sent; an allreduce is both. Scratch: none, a reduce-scatter alone
//! ceil(p/2) blocks, which are as long as the caller's.
//!
//! The allgather is Bruck's without the final rotation: blocks land where they belong, and a run of blocks that wraps
//! around the end is two messages. The reduce-scatter is the same backwards. Operands are not in rank order.

use super::{back, forward, own, run_of, runs};
use crate::plan::build::Builder;
use crate::plan::{Action, Buffer, Range};

/// What each rank has reduced, it gives to all.
pub(super) fn allreduce(b: &mut Builder) {
    reduce(b, |run, _| run_of(Buffer::Out(0), run));
    let rank = b.shape().rank;
    gather(b, Range::block(Buffer::Out(0), rank), true);
}

/// Partial results for the rank's own block and those after it are in scratch, from slot 0 on.
pub(super) fn reduce_scatter(b: &mut Builder) {
    let shape = b.shape();
    reduce(b, |(block, blocks), is_last| match is_last {
        true => own(&shape, Buffer::Out(0)),
        false => {
            let slot = (block + shape.size - shape.rank) % shape.size;
            Range { buffer: Buffer::Scratch, slot, block, blocks }
        }
    });
}

pub(super) fn allgather(b: &mut Builder) {
    let shape = b.shape();
    let mine = own(&shape, Buffer::In(0));
    b.copy(Range::block(Buffer::Out(0), shape.rank), mine);
    gather(b, mine, false);
}

/// The reduce-scatter; `partial` is where the result of a round (whether it is the last one) goes, run by run.
fn reduce(b: &mut Builder, partial: impl Fn((u32, u32), bool) -> Range) {
    let shape = b.shape();
    let (size, rank) = (shape.size, shape.rank);
    for (round, (big, small)) in rounds(size).into_iter().enumerate() {
        let here = |run| if round == 0 { run_of(Buffer::In(0), run) } else { partial(run, false) };
        if round == 0 && size % 2 == 1 {
            // The one block that this round leaves alone and the next one sends.
            let run = (forward(&shape, small - 1), 1);
            b.copy(partial(run, false), here(run));
        }
        for run in runs(rank + small, rank + big, size) {
            b.send(forward(&shape, small), here(run));
        }
        for run in runs(rank, rank + big - small, size) {
            b.push(Action::RecvReduce {
                peer: back(&shape, small),
                target: partial(run, small == 1),
                local: here(run),
                incoming_first: true,
                last: small == 1,
            });
        }
    }
}

/// From one block a rank, `own`, to all blocks in every output.
fn gather(b: &mut Builder, own: Range, is_causal: bool) {
    let shape = b.shape();
    let (size, rank) = (shape.size, shape.rank);
    for (round, (big, small)) in rounds(size).into_iter().rev().enumerate() {
        for run in runs(rank, rank + big - small, size) {
            let source = if round == 0 { own } else { run_of(Buffer::Out(0), run) };
            b.send(back(&shape, small), source);
        }
        for run in runs(rank + small, rank + big, size) {
            let (peer, target) = (forward(&shape, small), run_of(Buffer::Out(0), run));
            if is_causal {
                b.recv_causal(peer, target);
            } else {
                b.recv(peer, target);
            }
        }
    }
}

/// (blocks before, blocks after) each halving of the size, rounded up, down to one.
fn rounds(mut size: u32) -> Vec<(u32, u32)> {
    let mut rounds = Vec::new();
    while size > 1 {
        rounds.push((size, size.div_ceil(2)));
        size = size.div_ceil(2);
    }
    rounds
}
