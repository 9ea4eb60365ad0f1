//! From ranges to elements: where a plan's blocks lie for one element count.
//!
//! Blocks are `stride` elements long but for the last ones, which may be short or empty: block b begins at element
//! min(b·stride, count), and so does slot b of an input or output. A scratch slot is one stride long. (Where blocks
//! differ in length the caller's lengths take the place of all this.) Nothing here overflows or panics, whatever the
//! range.

use super::{Buffer, Plan, Range, interface};

/// A plan's blocks for one element count.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Layout {
    count: usize,
    stride: usize,
    /// Slots of each input, each output, and scratch.
    slots: [u32; 3],
}

impl Layout {
    /// The layout of `count` elements of all blocks together, cut as the plan says.
    #[must_use]
    pub fn new(plan: &Plan, count: usize) -> Self {
        let stride = count.div_ceil(plan.blocks.max(1) as usize);
        let slots = [Buffer::In(0), Buffer::Out(0), Buffer::Scratch];
        Self { count, stride, slots: slots.map(|buffer| interface::slots(plan, buffer)) }
    }

    /// Elements of all blocks together.
    #[must_use]
    pub fn count(&self) -> usize {
        self.count
    }

    /// Elements of a block that is not cut short, and of a scratch slot.
    #[must_use]
    pub fn stride(&self) -> usize {
        self.stride
    }

    /// Elements of a buffer; `None` where scratch would not fit an address space.
    #[must_use]
    pub fn elements(&self, buffer: Buffer) -> Option<usize> {
        let [input, output, scratch] = self.slots;
        match buffer {
            Buffer::In(_) => Some(self.start(input as usize)),
            Buffer::Out(_) => Some(self.start(output as usize)),
            Buffer::Scratch => self.stride.checked_mul(scratch as usize),
        }
    }

    /// Elements of a range's blocks: 0 for blocks past the end.
    #[must_use]
    pub fn len(&self, range: Range) -> usize {
        let first = range.block as usize;
        self.start(first.saturating_add(range.blocks as usize)) - self.start(first)
    }

    /// The elements of its buffer that a range stands for; `None` if they are not all in it, which the verifier
    /// excludes.
    #[must_use]
    pub fn span(&self, range: Range) -> Option<std::ops::Range<usize>> {
        let start = match range.buffer {
            Buffer::In(_) | Buffer::Out(_) => self.start(range.slot as usize),
            Buffer::Scratch => self.stride.checked_mul(range.slot as usize)?,
        };
        let end = start.checked_add(self.len(range))?;
        (end <= self.elements(range.buffer)?).then_some(start..end)
    }

    /// Where block `block` begins.
    fn start(&self, block: usize) -> usize {
        block.saturating_mul(self.stride).min(self.count)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::plan::{Algorithm, Collective, Shape};

    fn layout(count: usize, blocks: u32, scratch: u32) -> Layout {
        let shape = Shape {
            collective: Collective::Allreduce,
            algorithm: Algorithm::Ring,
            size: 1,
            rank: 0,
            root: 0,
            in_place: false,
            buffers: 1,
            degree: 0,
        };
        Layout::new(&Plan { shape, blocks, scratch, steps: Vec::new() }, count)
    }

    fn buffers() -> impl Strategy<Value = Buffer> {
        prop_oneof![any::<u16>().prop_map(Buffer::In), Just(Buffer::Out(0)), Just(Buffer::Scratch)]
    }

    proptest! {
        #[test]
        fn blocks_cover_the_buffer_once(count in 0_usize..5_000, blocks in 1_u32..70) {
            let layout = layout(count, blocks, 0);
            let mut end = 0;
            for block in 0..blocks {
                let span = layout.span(Range::block(Buffer::Out(0), block)).unwrap();
                prop_assert_eq!(span.start, end);
                prop_assert!(span.len() <= layout.stride());
                prop_assert!(span.len() == layout.stride() || span.end == count);
                end = span.end;
            }
            prop_assert_eq!(end, count);
        }

        #[test]
        fn several_blocks_are_as_long_as_each_together(
            count in 0_usize..5_000, blocks in 1_u32..70, slot in 0_u32..70, n in 0_u32..70,
        ) {
            let (slot, layout) = (slot % blocks, layout(count, blocks, 0));
            let n = 1 + n % (blocks - slot);
            let one = |b| layout.len(Range::block(Buffer::In(0), b));
            let all = Range { buffer: Buffer::In(0), slot, block: slot, blocks: n };
            prop_assert_eq!(layout.len(all), (slot..slot + n).map(one).sum::<usize>());
            prop_assert_eq!(layout.span(all).unwrap().len(), layout.len(all));
        }

        #[test]
        fn no_span_leaves_its_buffer_and_nothing_overflows(
            count: usize, blocks: u32, scratch: u32, buffer in buffers(), slot: u32, block: u32, n: u32,
        ) {
            let layout = layout(count, blocks, scratch);
            let range = Range { buffer, slot, block, blocks: n };
            if let (Some(span), Some(elements)) = (layout.span(range), layout.elements(buffer)) {
                prop_assert!(span.start <= span.end && span.end <= elements);
                prop_assert_eq!(span.len(), layout.len(range));
            }
        }
    }

    #[test]
    fn the_last_blocks_may_be_short_or_empty() {
        let layout = layout(5, 4, 2);
        let spans = |b| layout.span(Range::block(Buffer::Out(0), b));
        assert_eq!([0, 1, 2, 3].map(spans), [Some(0..2), Some(2..4), Some(4..5), Some(5..5)]);
        assert_eq!(layout.span(Range::scratch(1)), Some(2..4));
        assert_eq!(layout.span(Range::scratch(2)), None);
    }
}
