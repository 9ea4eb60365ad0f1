//! Recursive doubling with the fold (Thakur, Rabenseifner and Gropp, "Optimization of collective communication
//! operations in MPICH", 2005). log2 p steps of n bytes, two more where p is no power of two; log2 p scratch slots.
//!
//! With p = 2^k + e, ranks 0, 2 ... 2(e-1) give their input to the rank after them and get the result from it; the
//! others double. Ranks keep their order, so operands combine in rank order. Each round has a scratch slot of its own,
//! so that every receive can be granted at once and none waits for this rank's own send: received in place, large
//! messages would wait for each other for ever.

use super::{INPUT, OUTPUT};
use crate::plan::build::Builder;
use crate::plan::{Action, Range};

pub(super) fn emit(b: &mut Builder) {
    let (size, rank) = (b.shape().size, b.shape().rank);
    let rounds = size.ilog2();
    let extra = size - (1 << rounds);
    if rank >= 2 * extra {
        exchange(b, rounds, rank - extra, INPUT);
    } else if rank.is_multiple_of(2) {
        b.send(rank + 1, INPUT);
        b.recv_causal(rank + 1, OUTPUT);
    } else {
        b.push(Action::RecvReduce {
            peer: rank - 1,
            target: OUTPUT,
            local: INPUT,
            incoming_first: true,
            last: false,
        });
        exchange(b, rounds, rank / 2, OUTPUT);
        b.send(rank - 1, OUTPUT);
    }
}

/// The rounds among the 2^rounds ranks that double; `place` is this one's number among them, `here` holds its operand.
fn exchange(b: &mut Builder, rounds: u32, place: u32, mut here: Range) {
    let (size, rank) = (b.shape().size, b.shape().rank);
    let extra = size - (1 << rounds);
    for round in 0..rounds {
        let other = place ^ (1 << round);
        let peer = if other < extra { 2 * other + 1 } else { other + extra };
        let theirs = Range::scratch(round);
        b.send(peer, here);
        b.recv(peer, theirs);
        let sources = if peer < rank { vec![theirs, here] } else { vec![here, theirs] };
        b.push(Action::Reduce { target: OUTPUT, sources, last: round + 1 == rounds });
        here = OUTPUT;
    }
}
