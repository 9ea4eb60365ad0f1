//! Recursive halving, then recursive doubling (Rabenseifner, "Optimization of collective reduction operations", 2004):
//! 2 log2 p rounds, 2n(p-1)/p bytes sent and received, n(p-1)/p reduced; where p is no power of two, the fold comes on
//! top. No scratch.
//!
//! In each round of the first half two ranks share what both hold: each gives one half and reduces the other. The
//! second half does the same backwards, with final blocks. Of 2^k blocks each rank of the core makes one.
//!
//! With the farthest partner first, place q makes block q. With the nearest first, partial results always cover ranks
//! next to each other, so that operands combine in rank order, and the long messages go to ranks nearby.

use super::fold::{Core, fold};
use super::run_of;
use crate::plan::build::Builder;
use crate::plan::{Action, Buffer};

/// Rabenseifner's own order.
pub(super) fn farthest_first(b: &mut Builder) {
    let rounds = b.shape().size.ilog2();
    fold(b, 1 << rounds, |b, core| exchange(b, &core, (0..rounds).rev()));
}

pub(super) fn nearest_first(b: &mut Builder) {
    let rounds = b.shape().size.ilog2();
    fold(b, 1 << rounds, |b, core| exchange(b, &core, 0..rounds));
}

/// `bits` says in which bit of its place the partner differs, round by round.
fn exchange(b: &mut Builder, core: &Core, bits: impl Iterator<Item = u32>) {
    let output = |run| run_of(Buffer::Out(0), run);
    let (mut first, mut count, mut here) = (0, 1 << core.rounds, core.here);
    let mut way_back = Vec::new();
    for bit in bits {
        let peer = core.rank(core.place ^ (1 << bit));
        count /= 2;
        let (lower, upper) = ((first, count), (first + count, count));
        let is_upper = core.place >> bit & 1 == 1;
        let (kept, given) = if is_upper { (upper, lower) } else { (lower, upper) };
        b.send(peer, run_of(here, given));
        b.push(Action::RecvReduce {
            peer,
            target: output(kept),
            local: run_of(here, kept),
            incoming_first: peer < b.shape().rank,
            last: count == 1,
        });
        way_back.push((peer, kept, given));
        (first, here) = (kept.0, Buffer::Out(0));
    }
    for (peer, kept, given) in way_back.into_iter().rev() {
        b.send(peer, output(kept));
        b.recv_causal(peer, output(given));
    }
}
