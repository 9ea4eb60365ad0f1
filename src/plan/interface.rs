//! What a collective reads and what it must leave behind: the contract that proof and tests judge plans by.
//!
//! A contributor is one buffer of one rank, numbered rank by rank.

use std::ops::Range;

use super::{Collective, Plan, Shape};

/// (buffer, slot, block) of each block that a rank's inputs hold at the start.
pub(super) fn inputs(plan: &Plan) -> Vec<(u16, u32, u32)> {
    let shape = &plan.shape;
    let whole = |buffer| (0..plan.blocks).map(move |block| (buffer, block, block));
    match shape.collective {
        Collective::Broadcast if shape.rank != shape.root => Vec::new(),
        Collective::Allgather => vec![(0, 0, shape.rank)],
        _ => (0..shape.buffers).flat_map(whole).collect(),
    }
}

/// The blocks that each of a rank's outputs must hold at the end, each in its own slot.
pub(super) fn outputs(plan: &Plan) -> Range<u32> {
    let shape = &plan.shape;
    let has_none = shape.collective == Collective::Reduce && shape.rank != shape.root;
    0..if has_none { 0 } else { plan.blocks }
}

/// Whose contributions a block of the result is made of.
pub(super) fn contributors(shape: &Shape, block: u32) -> Range<u32> {
    match shape.collective {
        Collective::Broadcast => shape.root..shape.root + 1,
        Collective::Allgather => block..block + 1,
        Collective::Allreduce | Collective::Barrier | Collective::Reduce => {
            0..shape.size * u32::from(shape.buffers)
        }
    }
}

/// The slot of output i that slot `slot` of input i is, in place.
pub(super) fn in_place_slot(shape: &Shape, slot: u32) -> u32 {
    if shape.collective == Collective::Allgather { slot + shape.rank } else { slot }
}
