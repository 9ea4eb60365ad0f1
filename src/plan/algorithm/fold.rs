//! The fold (Rabenseifner, "Optimization of collective reduction operations", 2004): how an allreduce among 2^k ranks
//! serves p = 2^k + e. Two more rounds of n bytes.
//!
//! Ranks 0, 2 ... 2(e-1) give their input to the rank after them and get the result from it; the others, the *core*,
//! run the allreduce. Ranks keep their order in it, so operands may still combine in rank order.

use crate::plan::build::Builder;
use crate::plan::{Action, Buffer, Range};

/// A rank's place among the 2^rounds ranks of the core.
pub(super) struct Core {
    pub(super) place: u32,
    pub(super) rounds: u32,
    /// Where its operand is.
    pub(super) here: Buffer,
    extra: u32,
}

impl Core {
    /// The rank in this place.
    pub(super) fn rank(&self, place: u32) -> u32 {
        if place < self.extra { 2 * place + 1 } else { place + self.extra }
    }
}

/// Runs `core` on the ranks of the core, which leaves the result of all `blocks` in the output.
pub(super) fn fold(b: &mut Builder, blocks: u32, core: impl FnOnce(&mut Builder, Core)) {
    let (size, rank) = (b.shape().size, b.shape().rank);
    let rounds = size.ilog2();
    let extra = size - (1 << rounds);
    let whole = |buffer| Range { buffer, slot: 0, block: 0, blocks };
    let (input, output) = (whole(Buffer::In(0)), whole(Buffer::Out(0)));
    if rank >= 2 * extra {
        core(b, Core { place: rank - extra, rounds, here: Buffer::In(0), extra });
    } else if rank.is_multiple_of(2) {
        b.send(rank + 1, input);
        b.recv_causal(rank + 1, output);
    } else {
        b.push(Action::RecvReduce {
            peer: rank - 1,
            target: output,
            local: input,
            incoming_first: true,
            last: false,
        });
        core(b, Core { place: rank / 2, rounds, here: Buffer::Out(0), extra });
        b.send(rank - 1, output);
    }
}
