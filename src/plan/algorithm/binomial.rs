//! Binomial trees, rooted at any rank (Thakur, Rabenseifner and Gropp, "Optimization of collective communication
//! operations in MPICH", 2005, sections 4.2 and 4.5): ceil(log2 p) rounds.
//!
//! Broadcast and reduce move n bytes a round; a reduce has one block of scratch, and operands in rank order only where
//! the root is rank 0. Gather and scatter move n(p-1)/p bytes of n at the root, a message for each subtree; who is
//! between holds its subtree's blocks in scratch (at most p/2 of them), from its own on.
//!
//! Nobody waits for a whole message: sends come after receives byte by byte. The child with the largest subtree is
//! served first, or taken last.

use super::tree::Tree;
use super::{INPUT, OUTPUT, own, run_of, runs};
use crate::plan::build::Builder;
use crate::plan::{Action, Buffer, Range, Shape};

const RADIX: u32 = 2;

pub(super) fn broadcast(b: &mut Builder) {
    spread(b, RADIX);
}

/// A broadcast over the tree of this radix.
pub(super) fn spread(b: &mut Builder, radix: u32) {
    let shape = b.shape();
    let tree = Tree::new(relative(&shape), shape.size, radix);
    if let Some(parent) = tree.parent {
        b.recv(absolute(&shape, parent), OUTPUT);
    }
    let source = if tree.parent.is_none() { INPUT } else { OUTPUT };
    for (child, _) in tree.children.into_iter().rev() {
        b.send(absolute(&shape, child), source);
    }
    if tree.parent.is_none() {
        b.copy(OUTPUT, INPUT);
    }
}

pub(super) fn reduce(b: &mut Builder) {
    let shape = b.shape();
    let tree = Tree::new(relative(&shape), shape.size, RADIX);
    let is_root = tree.parent.is_none();
    let sum = if is_root { OUTPUT } else { Range::scratch(0) };
    let mut here = INPUT;
    for (child, end) in tree.children {
        b.push(Action::RecvReduce {
            peer: absolute(&shape, child),
            target: sum,
            local: here,
            incoming_first: false,
            last: is_root && end == shape.size,
        });
        here = sum;
    }
    if let Some(parent) = tree.parent {
        b.send(absolute(&shape, parent), here);
    }
}

pub(super) fn gather(b: &mut Builder) {
    let shape = b.shape();
    let tree = Tree::new(relative(&shape), shape.size, RADIX);
    let mine = own(&shape, Buffer::In(0));
    let Some(parent) = tree.parent else {
        b.copy(Range::block(Buffer::Out(0), shape.rank), mine);
        return tree.children.into_iter().for_each(|(child, end)| {
            for run in subtree(&shape, child, end) {
                b.recv(absolute(&shape, child), run_of(Buffer::Out(0), run));
            }
        });
    };
    let Some((_, end)) = tree.children.last().copied() else {
        return b.send(absolute(&shape, parent), mine);
    };
    b.copy(held(&shape, (shape.rank, 1)), mine);
    for (child, end) in tree.children {
        for run in subtree(&shape, child, end) {
            b.recv(absolute(&shape, child), held(&shape, run));
        }
    }
    for run in subtree(&shape, relative(&shape), end) {
        b.send(absolute(&shape, parent), held(&shape, run));
    }
}

pub(super) fn scatter(b: &mut Builder) {
    let shape = b.shape();
    let tree = Tree::new(relative(&shape), shape.size, RADIX);
    let mine = own(&shape, Buffer::Out(0));
    let Some(parent) = tree.parent else {
        tree.children.into_iter().rev().for_each(|(child, end)| {
            for run in subtree(&shape, child, end) {
                b.send(absolute(&shape, child), run_of(Buffer::In(0), run));
            }
        });
        return b.copy(mine, Range::block(Buffer::In(0), shape.rank));
    };
    let Some((_, end)) = tree.children.last().copied() else {
        return b.recv(absolute(&shape, parent), mine);
    };
    for run in subtree(&shape, relative(&shape), end) {
        b.recv(absolute(&shape, parent), held(&shape, run));
    }
    for (child, end) in tree.children.into_iter().rev() {
        for run in subtree(&shape, child, end) {
            b.send(absolute(&shape, child), held(&shape, run));
        }
    }
    b.copy(mine, held(&shape, (shape.rank, 1)));
}

/// The blocks of a subtree's ranks, in runs.
fn subtree(shape: &Shape, place: u32, end: u32) -> impl Iterator<Item = (u32, u32)> {
    runs(shape.root + place, shape.root + end, shape.size)
}

/// Where a rank between holds a run of its subtree's blocks.
fn held(shape: &Shape, (first, blocks): (u32, u32)) -> Range {
    let slot = (first + shape.size - shape.rank) % shape.size;
    Range { buffer: Buffer::Scratch, slot, block: first, blocks }
}

/// Places in the tree, from the root's, and ranks.
fn relative(shape: &Shape) -> u32 {
    (shape.rank + shape.size - shape.root) % shape.size
}

fn absolute(shape: &Shape, place: u32) -> u32 {
    (place + shape.root) % shape.size
}
