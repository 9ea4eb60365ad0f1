//! Direct allreduce: every rank sends its input to all, and reduces all inputs in one pass in rank order. One step,
//! n(p-1) bytes sent and received; p-1 scratch slots.
//!
//! The shortest latency for few ranks, and an order of operands that serves operations that do not commute.

use super::{INPUT, OUTPUT};
use crate::plan::build::Builder;
use crate::plan::{Action, Range};

pub(super) fn emit(b: &mut Builder) {
    let (size, rank) = (b.shape().size, b.shape().rank);
    let slot = |peer: u32| Range::scratch(if peer < rank { peer } else { peer - 1 });
    for distance in 1..size {
        let (to, from) = ((rank + distance) % size, (rank + size - distance) % size);
        b.send(to, INPUT);
        b.recv(from, slot(from));
    }
    let sources = (0..size).map(|peer| if peer == rank { INPUT } else { slot(peer) }).collect();
    b.push(Action::Reduce { target: OUTPUT, sources, last: true });
}
