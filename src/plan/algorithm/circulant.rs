//! Circulant reduce-scatter and allgather (Träff, "Optimal, non-pipelined reduce-scatter and allreduce algorithms",
//! arXiv 2410.14234): any size, ceil(log2 p) rounds each, p-1 blocks sent; an allreduce is both, 2n(p-1)/p bytes.
//!
//! The allgather is Bruck's without the final rotation: blocks land where they belong, and a run of blocks that wraps
//! around the end is two messages. The reduce-scatter is the same backwards. Operands are not in rank order.

use crate::plan::build::Builder;
use crate::plan::{Action, Buffer, Range};

/// An allreduce: what each rank has reduced, it gives to all.
pub(super) fn allreduce(b: &mut Builder) {
    reduce_scatter(b);
    let rank = b.shape().rank;
    gather(b, Range::block(Buffer::Out(0), rank), true);
}

/// An allgather of one block a rank.
pub(super) fn allgather(b: &mut Builder) {
    let rank = b.shape().rank;
    let own = Range { buffer: Buffer::In(0), slot: 0, block: rank, blocks: 1 };
    b.copy(Range::block(Buffer::Out(0), rank), own);
    gather(b, own, false);
}

/// Afterwards rank r holds block r of the result in its output.
fn reduce_scatter(b: &mut Builder) {
    let (size, rank) = (b.shape().size, b.shape().rank);
    for (round, (big, small)) in rounds(size).into_iter().enumerate() {
        let here = if round == 0 { Buffer::In(0) } else { Buffer::Out(0) };
        if round == 0 && size % 2 == 1 {
            // The one block that this round leaves alone and the next one sends.
            let block = (rank + small - 1) % size;
            b.copy(Range::block(Buffer::Out(0), block), Range::block(Buffer::In(0), block));
        }
        for run in runs(rank + small, rank + big, size) {
            b.send((rank + small) % size, of(here, run));
        }
        for run in runs(rank, rank + big - small, size) {
            b.push(Action::RecvReduce {
                peer: (rank + size - small) % size,
                target: of(Buffer::Out(0), run),
                local: of(here, run),
                incoming_first: true,
                last: small == 1,
            });
        }
    }
}

/// From one block a rank, `own`, to all blocks in every output.
fn gather(b: &mut Builder, own: Range, is_causal: bool) {
    let (size, rank) = (b.shape().size, b.shape().rank);
    for (round, (big, small)) in rounds(size).into_iter().rev().enumerate() {
        for run in runs(rank, rank + big - small, size) {
            let source = if round == 0 { own } else { of(Buffer::Out(0), run) };
            b.send((rank + size - small) % size, source);
        }
        for run in runs(rank + small, rank + big, size) {
            let (peer, target) = ((rank + small) % size, of(Buffer::Out(0), run));
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

/// Blocks `low..high` modulo the size, as (first, count) of at most two contiguous runs; both ends of a message cut
/// them at the same block.
fn runs(low: u32, high: u32, size: u32) -> impl Iterator<Item = (u32, u32)> {
    let (first, count) = (low % size, high - low);
    let before_end = count.min(size - first);
    let both = [(first, before_end), (0, count - before_end)];
    both.into_iter().filter(|(_, count)| *count > 0)
}

fn of(buffer: Buffer, (first, blocks): (u32, u32)) -> Range {
    Range { buffer, slot: first, block: first, blocks }
}
