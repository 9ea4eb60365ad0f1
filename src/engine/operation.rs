//! One operation under way: its arguments, and the watermarks of its parts.
//!
//! An operation runs its plan on one slice or on several; a [`Part`] is the plan on one slice. At most two parts of an
//! operation are under way at once, and slice k+2 begins when slice k is done, so that scratch stays small whatever the
//! count. Everything here is reused: an operation that ends goes back to a pool with its vectors.
#![forbid(unsafe_code)]

use std::sync::Arc;

use super::blame::Watch;
use super::completion::Completion;
use super::members::Members;
use super::name::Name;
use super::program::Program;
use super::scratches::Scratches;
use crate::datatype::{Datatype, Op};
use crate::link::frame::{Class, Fingerprint};
use crate::memory::{Region, Scratch};
use crate::plan::{Action, Buffer, Collective, Range};
use crate::reduce::{self, Custom};

/// Buffers for which a new operation has room.
const BUFFERS: usize = 8;

/// Parts under way at once.
const PARTS: usize = 2;

/// Steps per rank of a new operation's room: the ring, the longest plan, sends and receives 2(p-1) times.
const STEPS_PER_RANK: usize = 5;

/// Steps of a new operation's room, however many ranks.
const STEPS_MAX: usize = 128;

/// Slices of an operation that are under way at once.
const PARTS_MAX: usize = 2;

/// How an operation finds its counterparts on other ranks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Matching {
    /// By the order of submission in its world.
    Ordered,
    /// By this key; uses of one key by the order of submission.
    Keyed(u64),
    /// By this number, which follows from the members of the new world.
    Fork(u64),
    /// A message, by rank of the receiver in the world and by tag, in the order of submission among these. The program
    /// is rank 0's plan of a message, the members are of no account.
    Send { to: u32, tag: u64 },
    /// A message, by rank of the sender (`None`: whoever's comes first) and by tag. The program is rank 1's plan.
    Receive { from: Option<u32>, tag: u64 },
}

/// What a caller submits.
#[derive(Debug)]
pub struct Operation {
    /// How the other ranks' operations find it.
    pub matching: Matching,
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
    /// Bytes of an element: the type's, or those of a caller's own reduction.
    pub element: usize,
    /// The caller's own reduction, in the place of `op`.
    pub custom: Option<Arc<Custom>>,
    /// What an average is divided by.
    pub divisor: u64,
    /// Elements of all logical blocks together, which are of one length but for the last (an exchange of all with all
    /// among p ranks has p² blocks, in p slots). Unless `lengths` says otherwise.
    pub count: usize,
    /// Elements of a block's slice; a block's or more: one slice.
    pub slice_count: usize,
    /// Where blocks differ in length: the elements of each block that this rank knows of. Indexed by block, but in an
    /// exchange of all with all: first what goes to each rank, then what comes from each. Else empty.
    pub lengths: Vec<usize>,
    /// Where blocks differ in length: the first element of each slot of input 0, and of output 0.
    pub input_starts: Vec<usize>,
    /// See `input_starts`.
    pub output_starts: Vec<usize>,
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
    /// Memory of its own: what a caller's elements were multiplied into before it began.
    pub scaled: Scratch,
    /// What frames call it.
    pub(super) name: Name,
    /// What the engine knows of it.
    pub(super) run: Run,
}

/// The engine's side of an operation.
#[derive(Debug)]
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
    /// What stands for no elements: the byte that is sent, and the one that is received.
    pub(super) tokens: Region,
    /// Peers in whose `ready` queue it stands.
    pub(super) queued_at: Vec<u32>,
    /// Whom it waits for in the end.
    pub(super) watch: Watch,
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
    /// No element is to be moved, but the other side may think otherwise: one byte says so.
    pub(super) is_token: bool,
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
    /// The first element of each block that is in this slice.
    low: usize,
    /// The most elements of a block that are.
    most: usize,
    /// Elements of a block that is not cut short.
    stride: usize,
    /// Elements of a scratch slot.
    scratch_stride: usize,
    scratch: Option<Scratch>,
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
            matching: Matching::Ordered,
            name: Name::numbered(Class::Ordered, 0),
            world: 0,
            program,
            members,
            datatype: Datatype::U8,
            op: Op::Sum,
            element: 1,
            custom: None,
            divisor: 1,
            count: 0,
            slice_count: 0,
            lengths: Vec::new(),
            input_starts: Vec::new(),
            output_starts: Vec::new(),
            inputs: Vec::with_capacity(BUFFERS),
            outputs: Vec::with_capacity(BUFFERS),
            fingerprint: Fingerprint::default(),
            timeout_ns: None,
            completion: None,
            tokens,
            scaled: Scratch::default(),
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

    /// Elements of a block that is not cut short.
    fn stride(&self) -> usize {
        if self.lengths.is_empty() {
            self.count.div_ceil((self.program.plan().blocks as usize).max(1))
        } else {
            self.lengths.iter().copied().max().unwrap_or(0)
        }
    }

    /// How many slices it has.
    pub(super) fn slices(&self) -> u32 {
        let slices = self.stride().div_ceil(self.slice_count.max(1)).max(1);
        u32::try_from(slices).unwrap_or(u32::MAX)
    }

    /// The least that a step moves at once, in bytes: an element.
    pub(super) fn unit(&self, state: &StepState) -> usize {
        if state.is_token { 1 } else { self.element }
    }

    /// Starts the next slice; its index among the parts.
    pub(super) fn begin_part(&mut self, scratches: &mut Scratches) -> usize {
        let mut part = self.run.spare.pop().unwrap_or_default();
        let plan = self.program.plan();
        part.slice = self.run.slice_next;
        self.run.slice_next += 1;
        part.stride = self.stride();
        part.low = if self.slices() > 1 { part.slice as usize * self.slice_count } else { 0 };
        part.most = if self.slices() > 1 { self.slice_count } else { usize::MAX };
        part.scratch_stride = part.stride.min(part.most);
        if plan.scratch > 0 {
            let bytes = plan.scratch as usize * part.scratch_stride * self.element;
            let mut scratch = scratches.take(bytes);
            part.scratch_region = Some(scratch.lend(bytes));
            part.scratch = Some(scratch);
        }
        part.steps.clear();
        part.open = 0;
        let has_tokens = plan.shape.collective.has_own_lengths() && part.slice == 0;
        for step in &plan.steps {
            let elements = self.elements_of(&part, step.range());
            let is_token = has_tokens && elements == 0 && step.peer().is_some();
            let length = if is_token { 1 } else { elements * self.element };
            part.open += usize::from(length > 0);
            part.steps.push(StepState { length, is_token, ..StepState::default() });
        }
        if has_tokens {
            self.run.tokens = self.tokens.lend(2);
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
    pub(super) fn end_part(&mut self, index: usize, scratches: &mut Scratches) {
        let mut part = self.run.parts.swap_remove(index);
        part.scratch_region = None;
        part.scratch.take().into_iter().for_each(|scratch| scratches.give_back(scratch));
        part.parked.clear();
        self.run.spare.push(part);
    }

    /// How far a step may go now: the bytes that its predecessors have not done stop it where they meet its own.
    pub(super) fn limit(&self, part: &Part, index: usize) -> usize {
        let step = &self.program.plan().steps[index];
        let mut limit = part.steps[index].length;
        let is_open = |earlier: u32| {
            let state = &part.steps[earlier as usize];
            state.done < state.length
        };
        if step.gate.is_some_and(is_open) {
            return 0;
        }
        for earlier in step.after.iter().copied().filter(|earlier| is_open(*earlier)) {
            let other = &self.program.plan().steps[earlier as usize];
            let state = part.steps[earlier as usize];
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

    /// Elements of a range's blocks in this slice.
    fn elements_of(&self, part: &Part, range: Range) -> usize {
        let first = range.block as usize;
        let whole = if self.lengths.is_empty() {
            part.block_start(first + range.blocks as usize, self.count)
                - part.block_start(first, self.count)
        } else {
            let blocks = first..first + range.blocks as usize;
            blocks.map(|block| self.length_of(block)).sum()
        };
        whole.saturating_sub(part.low).min(part.most)
    }

    /// Elements of a block, where they differ; 0 for one that this rank knows nothing of.
    fn length_of(&self, block: usize) -> usize {
        let shape = &self.program.plan().shape;
        let (rank, size) = (shape.rank as usize, shape.size as usize);
        let index = match shape.collective {
            Collective::Alltoallv if block / size == rank => block % size,
            Collective::Alltoallv => size + block / size,
            _ => block,
        };
        self.lengths.get(index).copied().unwrap_or(0)
    }

    /// Where a range begins in its buffer, in bytes.
    fn start_of(&self, part: &Part, range: Range) -> usize {
        let slot = range.slot as usize;
        let of_slot = |starts: &[usize]| {
            starts.get(slot).copied().unwrap_or_else(|| part.block_start(slot, self.count))
        };
        let elements = match range.buffer {
            Buffer::Scratch => slot * part.scratch_stride,
            Buffer::In(_) => of_slot(&self.input_starts) + part.low,
            Buffer::Out(_) => of_slot(&self.output_starts) + part.low,
        };
        elements * self.element
    }

    /// The bytes `low..high` of a range.
    pub(super) fn bytes_of(&self, part: &Part, range: Range, low: usize, high: usize) -> Region {
        let start = self.start_of(part, range);
        let whole = match range.buffer {
            Buffer::In(index) => self.inputs.get(usize::from(index)),
            Buffer::Out(index) => self.outputs.get(usize::from(index)),
            Buffer::Scratch => part.scratch_region.as_ref(),
        };
        whole.copied().unwrap_or(Region::EMPTY).part(start + low, start + high)
    }

    /// The bytes `low..high` of what a send sends, or of where a receive without a reduction goes.
    pub(super) fn payload_of(&self, part: &Part, index: usize, low: usize, high: usize) -> Region {
        let (step, state) = (&self.program.plan().steps[index], &part.steps[index]);
        match (state.is_token, step.is_receive()) {
            (true, false) => self.run.tokens.part(low, high),
            (true, true) => self.run.tokens.part(1 + low, 1 + high),
            (false, _) => self.bytes_of(part, step.range(), low, high),
        }
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
        if let Some(custom) = &self.custom {
            return custom.fold(&target, sources);
        }
        let divisor = (last && self.op == Op::Avg).then_some(self.divisor);
        reduce::reduce(self.datatype, self.op, &target, sources, divisor);
    }

    /// Drops all that points to a caller's memory, and what belongs to one run; the vectors stay.
    pub(super) fn clear(&mut self, scratches: &mut Scratches) {
        self.inputs.clear();
        self.outputs.clear();
        self.lengths.clear();
        self.input_starts.clear();
        self.output_starts.clear();
        self.custom = None;
        while !self.run.parts.is_empty() {
            self.end_part(0, scratches);
        }
        self.run.slice_next = 0;
        self.run.deadline = None;
        self.run.waiting_at = None;
        self.run.checked.clear();
        self.run.queued_at.clear();
        self.run.watch.clear();
        self.run.tokens = Region::EMPTY;
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
            id: 0,
            deadline: None,
            waiting_at: None,
            slice_next: 0,
            tokens: Region::EMPTY,
            watch: Watch::with_room(size),
        }
    }
}

impl Part {
    fn with_room(steps: usize) -> Self {
        let (steps, parked) = (Vec::with_capacity(steps), Vec::with_capacity(steps));
        Self { steps, parked, ..Self::default() }
    }

    /// Where a block begins, where all are of one length but for the last; `count` elements in all.
    fn block_start(&self, block: usize, count: usize) -> usize {
        block.saturating_mul(self.stride).min(count)
    }
}
