//! Where the blocks of one rank lie, for one choice of their lengths.
//!
//! Blocks of one length lie as [`Layout`] says. Others have random lengths, many of them 0, and their slots lie in any
//! order with gaps between, as a caller's displacements allow.

use std::ops::Range as Span;

use super::random::{Random, mix};
use crate::plan::{Buffer, Collective, Layout, Plan, Range, interface};

/// The longest block of random length, and how many of as many more are empty.
const LONGEST: usize = 5;
const EMPTY: usize = 3;

pub(super) enum Geometry {
    Regular(Layout),
    Irregular {
        /// Of all blocks.
        lengths: Vec<usize>,
        /// Where each slot of the input, and of the output, begins.
        starts: [Vec<usize>; 2],
        /// Elements of input and output.
        elements: [usize; 2],
        scratch: usize,
    },
}

impl Geometry {
    /// About `count` elements of all blocks together; where lengths are random, none if it is 0.
    pub(super) fn new(plan: &Plan, count: usize) -> Self {
        let blocks = plan.blocks.max(1) as usize;
        if interface::is_uniform(&plan.shape) {
            return Self::Regular(Layout::new(plan, count.div_ceil(blocks) * blocks));
        }
        if !plan.shape.collective.is_irregular() {
            return Self::Regular(Layout::new(plan, count));
        }
        let lengths: Vec<usize> =
            (0..plan.blocks).map(|block| length(plan, block, count)).collect();
        let mut random = Random(u64::from(plan.shape.rank) << 32 | count as u64);
        let [(inputs, input), (outputs, output)] = [Buffer::In(0), Buffer::Out(0)].map(|buffer| {
            let mut order: Vec<u32> = (0..interface::slots(plan, buffer)).collect();
            let (mut starts, mut end) = (vec![0; order.len()], 0);
            while !order.is_empty() {
                let slot = order.swap_remove(random.below(order.len()));
                starts[slot as usize] = end + random.below(3);
                let block = interface::block_of(&plan.shape, buffer, slot);
                end = starts[slot as usize] + lengths[block as usize];
            }
            (starts, end)
        });
        let scratch = lengths.iter().max().unwrap_or(&0) * plan.scratch as usize;
        Self::Irregular { lengths, starts: [inputs, outputs], elements: [input, output], scratch }
    }

    pub(super) fn elements(&self, buffer: Buffer) -> usize {
        match (self, buffer) {
            (Self::Regular(layout), _) => layout.elements(buffer).unwrap_or(0),
            (Self::Irregular { elements, .. }, Buffer::In(_)) => elements[0],
            (Self::Irregular { elements, .. }, Buffer::Out(_)) => elements[1],
            (Self::Irregular { scratch, .. }, Buffer::Scratch) => *scratch,
        }
    }

    /// The elements of its buffer that a range stands for.
    pub(super) fn span(&self, range: Range) -> Result<Span<usize>, String> {
        let span = match self {
            Self::Regular(layout) => layout.span(range),
            Self::Irregular { lengths, starts, .. } => {
                let longest = lengths.iter().max().unwrap_or(&0);
                let slot = range.slot as usize;
                let start = match range.buffer {
                    Buffer::In(_) => starts[0].get(slot).copied(),
                    Buffer::Out(_) => starts[1].get(slot).copied(),
                    Buffer::Scratch => Some(slot * longest),
                };
                let length = lengths.get(range.block as usize).filter(|_| range.blocks == 1);
                start.zip(length).map(|(start, length)| start..start + length)
            }
        };
        let span = span.filter(|span| span.end <= self.elements(range.buffer));
        span.ok_or_else(|| format!("{range:?} leaves its buffer"))
    }
}

/// The random length of a block. Two blocks that share a slot when a rank is in place have one length.
fn length(plan: &Plan, block: u32, seed: usize) -> usize {
    if seed == 0 {
        return 0;
    }
    let (size, mut block) = (plan.shape.size, block);
    if plan.shape.collective == Collective::Alltoallv {
        block = block.min(block % size * size + block / size);
    }
    let random = mix(seed as u64 ^ u64::from(block) << 32) as usize;
    (random % (LONGEST + EMPTY + 1)).saturating_sub(EMPTY)
}
