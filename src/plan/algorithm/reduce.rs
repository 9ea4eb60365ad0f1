//! Binomial reduce: a tree rooted at any rank, nearest children first. ceil(log2 p) steps of n bytes at the root.
//!
//! A rank combines its children's partial results with its own input, in one slot of scratch (the root: in its output),
//! and sends the sum on while later parts of it still arrive. Operands are in rank order only where the root is rank 0.

use super::{INPUT, OUTPUT};
use crate::plan::build::Builder;
use crate::plan::{Action, Range};

pub(super) fn emit(b: &mut Builder) {
    let shape = b.shape();
    let relative = (shape.rank + shape.size - shape.root) % shape.size;
    let absolute = |relative: u32| (relative + shape.root) % shape.size;
    let sum = if relative == 0 { OUTPUT } else { Range::scratch(0) };
    let mut here = INPUT;
    let mut distance = 1;
    while distance < shape.size && relative & distance == 0 {
        if relative + distance < shape.size {
            let is_last_child = relative + 2 * distance >= shape.size || distance * 2 >= shape.size;
            b.push(Action::RecvReduce {
                peer: absolute(relative + distance),
                target: sum,
                local: here,
                incoming_first: false,
                last: relative == 0 && is_last_child,
            });
            here = sum;
        }
        distance *= 2;
    }
    if relative != 0 {
        b.send(absolute(relative - distance), here);
    }
}
