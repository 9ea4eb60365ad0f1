//! Binomial broadcast: a tree rooted at any rank, the child with the largest subtree served first. ceil(log2 p) steps
//! of n bytes.
//!
//! A rank forwards what has arrived of a message while the rest is still under way: its sends come after its receive,
//! byte by byte.

use super::{INPUT, OUTPUT};
use crate::plan::build::Builder;

pub(super) fn emit(b: &mut Builder) {
    let shape = b.shape();
    let relative = (shape.rank + shape.size - shape.root) % shape.size;
    let absolute = |relative: u32| (relative + shape.root) % shape.size;
    // The subtree of a rank other than the root is as large as its lowest bit; the root's is the whole tree.
    let subtree = match relative {
        0 => shape.size.next_power_of_two(),
        _ => relative & relative.wrapping_neg(),
    };
    if relative != 0 {
        b.recv(absolute(relative - subtree), OUTPUT);
    }
    let source = if relative == 0 { INPUT } else { OUTPUT };
    let mut distance = subtree / 2;
    while distance > 0 {
        if relative + distance < shape.size {
            b.send(absolute(relative + distance), source);
        }
        distance /= 2;
    }
    if relative == 0 {
        b.copy(OUTPUT, INPUT);
    }
}
