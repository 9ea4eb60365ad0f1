//! From a shape to a plan: checks the shape, lets the algorithm list its steps, and derives their order.
//!
//! Order is never written by an algorithm. For each slot that a step touches it comes after the last writer and, if it
//! writes, after all readers since: one rule for read after write, write after read and write after write. In place,
//! two names of one memory become one before that (`interface::place`).
//!
//! Where blocks differ in length a slot of scratch may have held a long block, then a short one: who writes a long one
//! again comes after both, since nothing holds the short one's steps back beyond its end. So order grows with each
//! other block that a slot has held; an algorithm then takes more slots in turn.
//!
//! O(log n) a range: slots with one history are one segment.

use std::collections::{BTreeMap, HashMap};

use super::{Action, Buffer, Collective, Plan, Range, Shape, Step};
use super::{algorithm, algorithms, interface, property};
use crate::error::Error;

/// Ranks of an alltoall at most: its p² blocks are numbered in `u32`.
const ALLTOALL_MAX: u32 = u16::MAX as u32;

/// Ranks times buffers per rank that a plan is made for at most: bounds its memory, and keeps arithmetic on ranks,
/// blocks and slots far from the end of `u32`.
pub const CONTRIBUTIONS_MAX: u32 = 1 << 20;

/// The plan of one rank.
///
/// # Errors
///
/// [`Error::InvalidArgument`] where the shape is out of range or no algorithm serves it.
pub fn build(shape: &Shape) -> Result<Plan, Error> {
    check(shape)?;
    let mut builder = Builder::new(*shape, algorithm::blocks(shape));
    algorithm::emit(&mut builder);
    Ok(builder.finish())
}

/// Refuses what no plan can be made for.
pub(super) fn check(shape: &Shape) -> Result<(), Error> {
    let Shape { collective, algorithm, size, rank, root, in_place, buffers, degree } = *shape;
    let refuse = |text: String| Err(Error::InvalidArgument(format!("{collective}: {text}")));
    if size == 0 || buffers == 0 {
        return refuse(format!("{size} ranks of {buffers} buffers, both must be at least 1"));
    }
    if u64::from(size) * u64::from(buffers) > u64::from(CONTRIBUTIONS_MAX) {
        return refuse(format!(
            "{size} ranks of {buffers} buffers are more than {CONTRIBUTIONS_MAX} buffers"
        ));
    }
    if rank >= size || root >= size {
        return refuse(format!("rank {rank} or root {root} is not below the size, {size}"));
    }
    if root != 0 && !collective.has_root() {
        return refuse(format!("root {root} given to a collective without a root"));
    }
    if collective == Collective::Message && size != 2 {
        return refuse(format!("{size} ranks, a message has 2"));
    }
    if collective.regular() == Collective::Alltoall && size > ALLTOALL_MAX {
        return refuse(format!("{size} ranks are more than {ALLTOALL_MAX}"));
    }
    if !algorithms(collective).contains(&algorithm) {
        return refuse(format!("algorithm {algorithm} does not serve this collective"));
    }
    let degrees = property::degrees(algorithm);
    if !degrees.contains(&degree) {
        let (least, most) = degrees.into_inner();
        return refuse(format!("{algorithm} of degree {degree}, which is {least} to {most}"));
    }
    if buffers > 1 && collective != Collective::Allreduce {
        return refuse(format!("{buffers} buffers per rank, only allreduce takes more than one"));
    }
    if buffers > 1 && !in_place {
        return refuse(format!("{buffers} buffers per rank are reduced in place only"));
    }
    Ok(())
}

/// The steps of a plan under construction.
#[derive(Debug)]
pub(super) struct Builder {
    plan: Plan,
}

impl Builder {
    pub(super) fn new(shape: Shape, blocks: u32) -> Self {
        Self { plan: Plan { shape, blocks, scratch: 0, steps: Vec::new() } }
    }

    pub(super) fn shape(&self) -> Shape {
        self.plan.shape
    }

    /// Adds a step.
    pub(super) fn push(&mut self, action: Action) {
        self.push_step(action, false, None);
    }

    pub(super) fn send(&mut self, peer: u32, source: Range) {
        self.push(Action::Send { peer, source });
    }

    pub(super) fn recv(&mut self, peer: u32, target: Range) {
        self.push(Action::RecvCopy { peer, target });
    }

    /// A receive whose message descends from all that this rank has done with the range so far.
    pub(super) fn recv_causal(&mut self, peer: u32, target: Range) {
        self.push_step(Action::RecvCopy { peer, target }, true, None);
    }

    /// A receive that begins when the step `gate` is wholly done; the number of its step.
    pub(super) fn recv_gated(&mut self, peer: u32, target: Range, gate: Option<u32>) -> u32 {
        self.push_step(Action::RecvCopy { peer, target }, false, gate);
        self.plan.steps.len() as u32 - 1
    }

    /// Nothing where the two are one memory.
    pub(super) fn copy(&mut self, target: Range, source: Range) {
        let shape = &self.plan.shape;
        if interface::place(shape, target) != interface::place(shape, source) {
            self.push(Action::Copy { target, source });
        }
    }

    pub(super) fn push_step(&mut self, mut action: Action, causal: bool, gate: Option<u32>) {
        match &mut action {
            Action::Send { source, .. } => self.settle(source),
            Action::RecvCopy { target, .. } => self.settle(target),
            Action::RecvReduce { target, local: source, .. } | Action::Copy { target, source } => {
                self.settle(target);
                self.settle(source);
            }
            Action::Reduce { target, sources, .. } => {
                self.settle(target);
                sources.iter_mut().for_each(|source| self.settle(source));
            }
        }
        self.plan.steps.push(Step { action, ordinal: 0, causal, after: Vec::new(), gate });
    }

    /// Gives a range its one name, and counts the scratch that it needs.
    fn settle(&mut self, range: &mut Range) {
        *range = interface::place(&self.plan.shape, *range);
        if range.buffer == Buffer::Scratch {
            self.plan.scratch = self.plan.scratch.max(range.slot + range.blocks);
        }
    }

    /// Numbers the messages and derives the order.
    pub(super) fn finish(mut self) -> Plan {
        let mut ordinals = HashMap::new();
        let mut history: HashMap<Buffer, Touched> = HashMap::new();
        let is_uniform = interface::is_uniform(&self.plan.shape);
        for (index, step) in (0..).zip(&mut self.plan.steps) {
            let mut after = Vec::new();
            for source in step.sources() {
                history.entry(source.buffer).or_default().read(*source, index, &mut after);
            }
            if let Some(target) = step.target() {
                let keeps = target.buffer == Buffer::Scratch && !is_uniform;
                let touched = history.entry(target.buffer).or_default();
                touched.write(target, index, keeps, &mut after);
            }
            if !step.causal {
                after.retain(|earlier| *earlier != index);
                after.sort_unstable();
                after.dedup();
                step.after = after;
            }
            if let Some(peer) = step.peer() {
                let next = ordinals.entry((peer, step.is_receive())).or_insert(0);
                step.ordinal = *next;
                *next += 1;
            }
        }
        self.plan
    }
}

/// Who last wrote, and who has read since, each slot of one buffer.
#[derive(Debug, Default)]
struct Touched {
    /// Keyed by the first slot; each extends to the next. Slots before the first were never touched.
    segments: BTreeMap<u32, Segment>,
}

#[derive(Debug, Default, Clone)]
struct Segment {
    writer: Option<u32>,
    readers: Vec<u32>,
    /// The block less the slot, which says what the slots hold.
    shift: u32,
    /// Who touched the slots when they held other blocks, which may be longer; with the shift.
    before: Vec<(u32, u32)>,
}

impl Segment {
    /// Whom a write must wait for.
    fn all(&self) -> impl Iterator<Item = u32> {
        let before = self.before.iter().map(|(step, _)| *step);
        self.writer.into_iter().chain(self.readers.iter().copied()).chain(before)
    }

    /// Whom the writer of other blocks does not stand for.
    fn left_after(self, shift: u32) -> Vec<(u32, u32)> {
        let last = self.writer.into_iter().chain(self.readers).map(|step| (step, self.shift));
        self.before.into_iter().chain(last).filter(|(_, theirs)| *theirs != shift).collect()
    }
}

impl Touched {
    /// Adds to `after` whom a read must wait for.
    fn read(&mut self, range: Range, step: u32, after: &mut Vec<u32>) {
        self.cut(range.slot);
        self.cut(range.slot + range.blocks);
        for (_, segment) in self.segments.range_mut(range.slot..range.slot + range.blocks) {
            after.extend(segment.writer);
            segment.readers.push(step);
        }
    }

    /// Adds to `after` whom a write must wait for; `keeps` says that blocks in the slots may differ in length.
    fn write(&mut self, range: Range, step: u32, keeps: bool, after: &mut Vec<u32>) {
        self.cut(range.slot);
        self.cut(range.slot + range.blocks);
        let inside = self.segments.range(range.slot..range.slot + range.blocks);
        let starts: Vec<u32> = inside.map(|(start, _)| *start).collect();
        let shift = range.block.wrapping_sub(range.slot);
        for start in starts {
            let Some(segment) = self.segments.remove(&start) else { continue };
            after.extend(segment.all());
            if keeps {
                let before = segment.left_after(shift);
                self.segments.insert(
                    start,
                    Segment { writer: Some(step), shift, before, ..Segment::default() },
                );
            }
        }
        if !keeps {
            let segment = Segment { writer: Some(step), shift, ..Segment::default() };
            self.segments.insert(range.slot, segment);
        }
    }

    /// Makes `slot` the first of a segment.
    fn cut(&mut self, slot: u32) {
        let segment = match self.segments.range(..=slot).next_back() {
            Some((start, _)) if *start == slot => return,
            Some((_, segment)) => segment.clone(),
            None => Segment::default(),
        };
        self.segments.insert(slot, segment);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn range(slot: u32, blocks: u32) -> Range {
        Range { buffer: Buffer::Out(0), slot, block: slot, blocks }
    }

    #[test]
    fn a_write_waits_for_the_last_writer_and_the_readers_since() {
        let mut touched = Touched::default();
        let mut whom = |write: bool, slot, blocks, step| {
            let mut after = Vec::new();
            match write {
                true => touched.write(range(slot, blocks), step, false, &mut after),
                false => touched.read(range(slot, blocks), step, &mut after),
            }
            after.sort_unstable();
            after.dedup();
            after
        };
        assert!(whom(true, 0, 8, 0).is_empty());
        assert_eq!(whom(false, 2, 4, 1), [0]);
        assert_eq!(whom(false, 7, 3, 2), [0]);
        assert_eq!(whom(true, 0, 2, 3), [0]);
        assert_eq!(whom(true, 1, 4, 4), [0, 1, 3]);
        assert_eq!(whom(true, 0, 16, 5), [0, 1, 2, 3, 4]);
        assert_eq!(whom(false, 20, 1, 6), [0u32; 0]);
    }

    #[test]
    fn where_lengths_differ_a_write_waits_for_those_of_other_blocks_too() {
        let mut touched = Touched::default();
        let mut write = |block, step| {
            let mut after = Vec::new();
            touched.write(Range::at(Buffer::Scratch, 0, block), step, true, &mut after);
            touched.read(Range::at(Buffer::Scratch, 0, block), step + 1, &mut Vec::new());
            after.sort_unstable();
            after
        };
        assert_eq!(write(5, 0), [0u32; 0]);
        assert_eq!(write(6, 2), [0, 1]);
        assert_eq!(write(7, 4), [0, 1, 2, 3]);
        assert_eq!(write(6, 6), [0, 1, 2, 3, 4, 5]);
        assert_eq!(write(7, 8), [0, 1, 4, 5, 6, 7]);
    }
}
