//! K-nomial trees (Wilkins et al., "Generalized collective algorithms for the exascale era", IEEE Cluster 2023):
//! ceil(log_k p) rounds, in each of which a rank serves up to k-1 others with n bytes. `degree` is k. A reduce has one
//! block of scratch, an allreduce, which is a reduce and a broadcast, none.
//!
//! Fewer rounds than a binomial tree where a rank can send several messages in the time of one latency.
//!
//! Reductions combine in rank order, whatever the root: one tree covers the ranks from the root on, with the root
//! first, another one, rooted at rank 0, the ranks before it, whose sum goes to the root last.

use super::tree::Tree;
use super::{INPUT, OUTPUT, binomial};
use crate::plan::build::Builder;
use crate::plan::{Action, Range};

pub(super) fn broadcast(b: &mut Builder) {
    let radix = u32::from(b.shape().degree);
    binomial::spread(b, radix);
}

pub(super) fn reduce(b: &mut Builder) {
    let shape = b.shape();
    collect(b, if shape.rank == shape.root { OUTPUT } else { Range::scratch(0) });
}

/// A reduce to rank 0 and a broadcast from it.
pub(super) fn allreduce(b: &mut Builder) {
    let shape = b.shape();
    collect(b, OUTPUT);
    let tree = Tree::new(shape.rank, shape.size, u32::from(shape.degree));
    if let Some(parent) = tree.parent {
        b.recv_causal(parent, OUTPUT);
    }
    for (child, _) in tree.children.into_iter().rev() {
        b.send(child, OUTPUT);
    }
}

/// The reduce; `sum` is where this rank's partial result is made.
fn collect(b: &mut Builder, sum: Range) {
    let shape = b.shape();
    let (rank, root) = (shape.rank, shape.root);
    let (first, end) = if rank < root { (0, root) } else { (root, shape.size) };
    let tree = Tree::new(rank - first, end - first, u32::from(shape.degree));
    let mut here = INPUT;
    for (child, child_end) in tree.children {
        let last = rank == 0 && root == 0 && child_end == shape.size;
        let peer = first + child;
        b.push(Action::RecvReduce { peer, target: sum, local: here, incoming_first: false, last });
        here = sum;
    }
    match tree.parent {
        Some(parent) => b.send(first + parent, here),
        None if rank < root => b.send(root, here),
        None if root > 0 => b.push(Action::RecvReduce {
            peer: 0,
            target: sum,
            local: here,
            incoming_first: true,
            last: true,
        }),
        None => {}
    }
}
