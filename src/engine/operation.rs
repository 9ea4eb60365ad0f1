//! One operation under way: its arguments, and the watermarks of its parts.
//!
//! An operation runs its plan on one slice or on several; a [`Part`] is the plan on one slice. At most two parts of an
//! operation are under way at once, and slice k+2 begins when slice k is done, so that scratch stays small whatever the
//! count. Everything here is reused: an operation that ends goes back to a pool with its vectors.
#![forbid(unsafe_code)]

use std::sync::Arc;

use super::completion::Completion;
use super::members::Members;
use super::program::Program;
use crate::datatype::{Datatype, Op};
use crate::link::frame::{Class, Fingerprint};
use crate::memory::{Region, Scratch};
use crate::plan::{Action, Buffer, Range};
use crate::reduce;

/// Buffers for which a new operation has room.
const BUFFERS: usize = 8;

/// Parts under way at once.
const PARTS: usize = 2;

/// Steps per rank of a new operation's room: the ring, the longest plan, sends and receives 2(p-1) times.
const STEPS_PER_RANK: usize = 5;

/// Steps of a new operation's room, however many ranks.
const STEPS_MAX: usize = 128;

/// Scratch of a new part, in bytes.
const SCRATCH: usize = 256;

/// Slices of an operation that are under way at once.
const PARTS_MAX: usize = 2;

/// What a caller submits.
#[derive(Debug)]
pub struct Operation {
    /// Whose numbering `number` is of.
    pub class: Class,
    /// Its number in its class. The engine numbers ordered ones.
    pub number: u64,
    /// The world that it runs in.
    pub world: u64,
    /// What it runs.
    pub program: Arc<Program>,
    /// Who the plan's ranks are.
    pub members: Arc<Members>,
    /// The type of the elements.
    pub datatype: Datatype,
    /// How they are reduced.
    pub op: Op,
    /// What an average is divided by.
    pub divisor: u64,
    /// Elements of each buffer.
    pub count: usize,
    /// Elements of a slice; `count` or more: one slice.
    pub slice_count: usize,
    /// The buffers that are read.
    pub inputs: Vec<Region>,
    /// The buffers that are written.
    pub outputs: Vec<Region>,
    /// What all ranks must agree on.
    pub fingerprint: Fingerprint,
    /// When it must have ended, in the mesh's nanoseconds from its submission; `None`: never.
    pub timeout_ns: Option<u64>,
    /// Told when it has ended; gone then.
    pub completion: Option<Arc<Completion>>,
    /// Two bytes of its own: what a barrier sends and receives.
    pub tokens: Scratch,
    /// What the engine knows of it.
    pub(super) run: Run,
}

/// The engine's side of an operation.
#[derive(Debug, Default)]
pub(super) struct Run {
    /// Unique in its core, so that a reference to an earlier operation in the same place is noticed.
    pub(super) id: u64,
    pub(super) deadline: Option<u64>,
    /// When it says what it waits for.
    pub(super) waiting_at: Option<u64>,
    pub(super) slice_next: u32,
    pub(super) parts: Vec<Part>,
    pub(super) spare: Vec<Part>,
    /// Members whose fingerprint has been seen to be equal.
    pub(super) checked: Vec<u32>,
    /// Peers in whose `ready` queue it stands.
    pub(super) queued_at: Vec<u32>,
}

/// How far one step has come, in bytes.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct StepState {
    /// All that it moves.
    pub(super) length: usize,
    /// The watermark: done; for a send, bytes whose source is free again.
    pub(super) done: usize,
    /// For a send, bytes handed to the link.
    pub(super) posted: usize,
    /// What the receiver has granted (at a send: been granted).
    pub(super) granted: usize,
    /// Whether the sender has asked for a grant.
    pub(super) is_requested: bool,
}

/// A small message that came before it could be taken.
#[derive(Debug)]
pub(super) struct Parked {
    pub(super) step: u32,
    pub(super) rank: u32,
    pub(super) payload: Vec<u8>,
}

/// The plan on one slice.
#[derive(Debug, Default)]
pub(super) struct Part {
    pub(super) slice: u32,
    /// Where the slice begins in each buffer, in elements.
    base: usize,
    /// Its elements.
    count: usize,
    /// Elements of a block.
    stride: usize,
    scratch: Scratch,
    scratch_region: Option<Region>,
    pub(super) steps: Vec<StepState>,
    /// Steps that are not done.
    pub(super) open: usize,
    pub(super) parked: Vec<Parked>,
}

impl Operation {
    /// An operation without arguments, with room for what small worlds run: whichever operation of the pool is used,
    /// and whenever for the first time, its lists need not grow.
    #[must_use]
    pub fn blank(program: Arc<Program>, members: Arc<Members>) -> Box<Self> {
        let run = Run::with_room(members.size());
        let mut tokens = Scratch::default();
        let _ = tokens.lend(2);
        Box::new(Self {
            class: Class::Ordered,
            number: 0,
            world: 0,
            program,
            members,
            datatype: Datatype::U8,
            op: Op::Sum,
            divisor: 1,
            count: 0,
            slice_count: 0,
            inputs: Vec::with_capacity(BUFFERS),
            outputs: Vec::with_capacity(BUFFERS),
            fingerprint: Fingerprint::default(),
            timeout_ns: None,
            completion: None,
            tokens,
            run,
        })
    }

    /// Makes its two tokens its buffers.
    pub fn lend_tokens(&mut self) {
        let tokens = self.tokens.lend(2);
        tokens.with_mut(|bytes| bytes.fill(0));
        self.inputs.push(tokens.part(0, 1));
        self.outputs.push(tokens.part(1, 2));
    }

    /// How many slices it has.
    pub(super) fn slices(&self) -> u32 {
        let slices = self.count.div_ceil(self.slice_count.max(1)).max(1);
        u32::try_from(slices).unwrap_or(u32::MAX)
    }

    /// Starts the next slice; its index among the parts.
    pub(super) fn begin_part(&mut self) -> usize {
        let mut part = self.run.spare.pop().unwrap_or_default();
        let plan = self.program.plan();
        let slices = self.slices() > 1;
        part.slice = self.run.slice_next;
        self.run.slice_next += 1;
        part.base = if slices { part.slice as usize * self.slice_count } else { 0 };
        part.count = if slices { self.slice_count.min(self.count - part.base) } else { self.count };
        part.stride = part.count.div_ceil((plan.blocks as usize).max(1));
        let element = self.datatype.bytes();
        part.scratch_region = (plan.scratch > 0)
            .then(|| part.scratch.lend(plan.scratch as usize * part.stride * element));
        part.steps.clear();
        part.open = 0;
        for step in &plan.steps {
            let length = part.elements_of(step.range()) * element;
            part.open += usize::from(length > 0);
            part.steps.push(StepState { length, ..StepState::default() });
        }
        self.run.parts.push(part);
        self.run.parts.len() - 1
    }

    /// The slices under way, the earliest first. They need not be neighbours: a slice may end before the one before it.
    pub(super) fn slices_under_way(&self) -> [Option<u32>; PARTS_MAX] {
        let mut slices = [None; PARTS_MAX];
        slices.iter_mut().zip(&self.run.parts).for_each(|(to, part)| *to = Some(part.slice));
        slices.sort_by_key(|slice| slice.unwrap_or(u32::MAX));
        slices
    }

    /// Where the part of a slice stands, if it is under way.
    pub(super) fn part_of(&self, slice: u32) -> Option<usize> {
        self.run.parts.iter().position(|part| part.slice == slice)
    }

    /// Takes a part that is done out.
    pub(super) fn end_part(&mut self, index: usize) {
        let mut part = self.run.parts.swap_remove(index);
        part.scratch_region = None;
        part.parked.clear();
        self.run.spare.push(part);
    }

    /// How far a step may go now: the bytes that its predecessors have not done stop it where they meet its own.
    pub(super) fn limit(&self, part: &Part, index: usize) -> usize {
        let step = &self.program.plan().steps[index];
        let mut limit = part.steps[index].length;
        for earlier in &step.after {
            let other = &self.program.plan().steps[*earlier as usize];
            let state = part.steps[*earlier as usize];
            if state.done >= state.length {
                continue;
            }
            let mut meet = |mine: Range, theirs: Range| {
                if mine.buffer == theirs.buffer {
                    let mine = self.start_of(part, mine);
                    let theirs = self.start_of(part, theirs);
                    let (undone, end) = (theirs + state.done, theirs + state.length);
                    if undone < end && mine < end && undone < mine + limit {
                        limit = undone.saturating_sub(mine);
                    }
                }
            };
            if let Some(target) = step.target() {
                other.target().into_iter().for_each(|theirs| meet(target, theirs));
                other.sources().iter().for_each(|theirs| meet(target, *theirs));
            }
            for source in step.sources() {
                other.target().into_iter().for_each(|theirs| meet(*source, theirs));
            }
        }
        limit
    }

    /// Where a range begins in its buffer, in bytes from the slice's begin.
    fn start_of(&self, part: &Part, range: Range) -> usize {
        part.start_of(range) * self.datatype.bytes()
    }

    /// The bytes `low..high` of a range.
    pub(super) fn bytes_of(&self, part: &Part, range: Range, low: usize, high: usize) -> Region {
        let start = self.start_of(part, range);
        let base = part.base * self.datatype.bytes();
        let (whole, start) = match range.buffer {
            Buffer::In(index) => (self.inputs.get(usize::from(index)), base + start),
            Buffer::Out(index) => (self.outputs.get(usize::from(index)), base + start),
            Buffer::Scratch => (part.scratch_region.as_ref(), start),
        };
        whole.copied().unwrap_or(Region::EMPTY).part(start + low, start + high)
    }

    /// Does bytes `low..high` of a local step, or of a receive-and-reduce with what came in.
    pub(super) fn compute(
        &self,
        part: &Part,
        index: usize,
        low: usize,
        high: usize,
        incoming: Region,
    ) {
        const OPERANDS: usize = 16;
        let bytes = |range: &Range| self.bytes_of(part, *range, low, high);
        match &self.program.plan().steps[index].action {
            Action::Send { .. } | Action::RecvCopy { .. } => {}
            Action::Copy { target, source } => bytes(target).copy_from(&bytes(source)),
            Action::RecvReduce { target, local, incoming_first, last, .. } => {
                let local = bytes(local);
                let pair = if *incoming_first { [incoming, local] } else { [local, incoming] };
                self.fold(bytes(target), &pair, *last);
            }
            Action::Reduce { target, sources, last } => {
                if let ([first], false) = (sources.as_slice(), *last) {
                    return bytes(target).copy_from(&bytes(first));
                }
                if sources.len() <= OPERANDS {
                    let mut operands = [Region::EMPTY; OPERANDS];
                    operands.iter_mut().zip(sources).for_each(|(to, from)| *to = bytes(from));
                    self.fold(bytes(target), &operands[..sources.len()], *last);
                } else {
                    let operands: Vec<Region> = sources.iter().map(bytes).collect();
                    self.fold(bytes(target), &operands, *last);
                }
            }
        }
    }

    fn fold(&self, target: Region, sources: &[Region], last: bool) {
        let divisor = (last && self.op == Op::Avg).then_some(self.divisor);
        reduce::reduce(self.datatype, self.op, &target, sources, divisor);
    }

    /// Drops all that points to a caller's memory, and what belongs to one run; the vectors stay.
    pub(super) fn clear(&mut self) {
        self.inputs.clear();
        self.outputs.clear();
        while !self.run.parts.is_empty() {
            self.end_part(0);
        }
        self.run.slice_next = 0;
        self.run.deadline = None;
        self.run.waiting_at = None;
        self.run.checked.clear();
        self.run.queued_at.clear();
    }
}

impl Run {
    /// Nothing is under way; room for a world of `size`.
    fn with_room(size: usize) -> Self {
        let steps = (STEPS_PER_RANK * size).min(STEPS_MAX);
        Self {
            parts: Vec::with_capacity(PARTS),
            spare: (0..PARTS).map(|_| Part::with_room(steps)).collect(),
            checked: Vec::with_capacity(size),
            queued_at: Vec::with_capacity(size),
            ..Self::default()
        }
    }
}

impl Part {
    fn with_room(steps: usize) -> Self {
        let mut scratch = Scratch::default();
        let _ = scratch.lend(SCRATCH);
        let (steps, parked) = (Vec::with_capacity(steps), Vec::with_capacity(steps));
        Self { scratch, steps, parked, ..Self::default() }
    }

    fn elements_of(&self, range: Range) -> usize {
        let first = range.block as usize;
        self.block_start(first + range.blocks as usize) - self.block_start(first)
    }

    fn block_start(&self, block: usize) -> usize {
        block.saturating_mul(self.stride).min(self.count)
    }

    /// Where a range begins, in elements.
    fn start_of(&self, range: Range) -> usize {
        match range.buffer {
            Buffer::Scratch => range.slot as usize * self.stride,
            Buffer::In(_) | Buffer::Out(_) => self.block_start(range.slot as usize),
        }
    }
}
