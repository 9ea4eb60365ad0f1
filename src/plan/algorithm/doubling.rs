//! Recursive doubling: ceil(log2 p) rounds in which a rank's partial result covers twice as many ranks as before, with
//! operands in rank order. Each round has a scratch slot of its own, so that every receive can be granted at once and
//! none waits for this rank's own send: received in place, large messages would wait for each other for ever.
//!
//! The allreduce (Thakur, Rabenseifner and Gropp, "Optimization of collective communication operations in MPICH", 2005,
//! section 4.5) exchanges between pairs: floor(log2 p) rounds of n bytes, and the fold.
//!
//! The scan (Hillis and Steele, "Data parallel algorithms", Comm. ACM 29, 1986) sends upwards only: ceil(log2 p) rounds
//! of n bytes. The exscan moves every input one rank up and scans without rank 0: ceil(log2 (p-1)) + 1 rounds.

use super::fold::{Core, fold};
use super::{INPUT, OUTPUT, rounds};
use crate::plan::build::Builder;
use crate::plan::{Action, Range};

pub(super) fn allreduce(b: &mut Builder) {
    fold(b, 1, exchange);
}

fn exchange(b: &mut Builder, core: Core) {
    let mut here = Range::block(core.here, 0);
    for round in 0..core.rounds {
        let peer = core.rank(core.place ^ (1 << round));
        let theirs = Range::scratch(round);
        b.send(peer, here);
        b.recv(peer, theirs);
        let sources = if peer < b.shape().rank { vec![theirs, here] } else { vec![here, theirs] };
        b.push(Action::Reduce { target: OUTPUT, sources, last: round + 1 == core.rounds });
        here = OUTPUT;
    }
}

pub(super) fn scan(b: &mut Builder) {
    scan_from(b, 0, INPUT, 0);
}

pub(super) fn exscan(b: &mut Builder) {
    let (size, rank) = (b.shape().size, b.shape().rank);
    if rank + 1 < size {
        b.send(rank + 1, INPUT);
    }
    if rank > 0 {
        // Not to the output: in place that is the input, and each rank would wait for the next one to take it.
        b.recv(rank - 1, Range::scratch(0));
        scan_from(b, 1, Range::scratch(0), 1);
    }
}

/// A scan among the ranks from `first` on, of which this is one; `here` is its operand, `slot` the first free slot.
fn scan_from(b: &mut Builder, first: u32, mut here: Range, slot: u32) {
    let (size, rank) = (b.shape().size, b.shape().rank);
    for round in 0..rounds(size - first) {
        let distance = 1 << round;
        if rank + distance < size {
            b.send(rank + distance, here);
        }
        if rank >= first + distance {
            let theirs = Range::scratch(slot + round);
            b.recv(rank - distance, theirs);
            b.push(Action::Reduce { target: OUTPUT, sources: vec![theirs, here], last: false });
            here = OUTPUT;
        }
    }
    b.copy(OUTPUT, here);
}
