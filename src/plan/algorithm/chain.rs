//! Chains: each rank hands on to the next (the pipeline of Pješivac-Grbović et al., "Performance analysis of MPI
//! collective operations", Cluster Computing 10, 2007). p-1 rounds of n bytes, but no rank waits for the whole: what
//! has come is passed on at once, so that a long message takes n bytes' time and p frames'.
//!
//! Reductions combine in rank order. A reduce has an arm on each side of the root, and one block of scratch on its way;
//! a scan has none; an exscan has two, since a rank keeps what came and passes on more.

use super::{INPUT, OUTPUT, back, forward};
use crate::plan::build::Builder;
use crate::plan::{Action, Range};

pub(super) fn broadcast(b: &mut Builder) {
    let shape = b.shape();
    let (next, is_root) = (forward(&shape, 1), shape.rank == shape.root);
    if !is_root {
        b.recv(back(&shape, 1), OUTPUT);
    }
    if next != shape.root {
        b.send(next, if is_root { INPUT } else { OUTPUT });
    }
    if is_root {
        b.copy(OUTPUT, INPUT);
    }
}

pub(super) fn reduce(b: &mut Builder) {
    let shape = b.shape();
    let (rank, root, end) = (shape.rank, shape.root, shape.size - 1);
    let sum = if rank == root { OUTPUT } else { Range::scratch(0) };
    let mut here = INPUT;
    if rank > 0 && rank <= root {
        let last = rank == root && root == end;
        b.push(combine(rank - 1, sum, here, true, last));
        here = sum;
    }
    if rank >= root && rank < end {
        b.push(combine(rank + 1, sum, here, false, rank == root));
        here = sum;
    }
    if rank != root {
        b.send(if rank < root { rank + 1 } else { rank - 1 }, here);
    }
}

pub(super) fn scan(b: &mut Builder) {
    let (size, rank) = (b.shape().size, b.shape().rank);
    if rank == 0 {
        b.send(1, INPUT);
        return b.copy(OUTPUT, INPUT);
    }
    b.push(combine(rank - 1, OUTPUT, INPUT, true, false));
    if rank + 1 < size {
        b.send(rank + 1, OUTPUT);
    }
}

pub(super) fn exscan(b: &mut Builder) {
    let (size, rank) = (b.shape().size, b.shape().rank);
    if rank == 0 {
        return b.send(1, INPUT);
    }
    if rank + 1 == size {
        return b.recv(rank - 1, OUTPUT);
    }
    // Not to the output, which in place is the input.
    let (before, sum) = (Range::scratch(0), Range::scratch(1));
    b.recv(rank - 1, before);
    b.push(Action::Reduce { target: sum, sources: vec![before, INPUT], last: false });
    b.send(rank + 1, sum);
    b.copy(OUTPUT, before);
}

fn combine(peer: u32, target: Range, local: Range, incoming_first: bool, last: bool) -> Action {
    Action::RecvReduce { peer, target, local, incoming_first, last }
}
