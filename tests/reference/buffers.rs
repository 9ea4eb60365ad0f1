//! The buffers of one rank in one call, with guards around, and what every byte of them must be afterwards.

use std::slice;

use collect::plan::Collective;
use collect::{Call, Source, Target};

use super::case::Case;
use super::values::mix;

/// What stands in bytes that nobody may write, and in outputs before the call.
const UNTOUCHED: u8 = 0xa5;

/// Bytes before and after a buffer.
const GUARD: usize = 64;

/// A buffer between guards.
#[derive(Debug)]
struct Memory {
    bytes: Vec<u8>,
    /// What it holds before the call, and what it must hold after it.
    before: Vec<u8>,
    expected: Vec<u8>,
    first: usize,
}

impl Memory {
    fn new(content: &[u8], shift: usize) -> Self {
        let first = GUARD + shift;
        let mut bytes = vec![UNTOUCHED; first + content.len() + GUARD];
        bytes[first..first + content.len()].copy_from_slice(content);
        Self { expected: bytes.clone(), before: bytes.clone(), bytes, first }
    }

    fn blank(bytes: usize, shift: usize) -> Self {
        Self::new(&vec![UNTOUCHED; bytes], shift)
    }

    fn put(&mut self, at: usize, content: &[u8]) {
        let at = self.first + at;
        self.bytes[at..at + content.len()].copy_from_slice(content);
        self.before[at..at + content.len()].copy_from_slice(content);
        self.expect(at - self.first, content);
    }

    fn expect(&mut self, at: usize, content: &[u8]) {
        let at = self.first + at;
        self.expected[at..at + content.len()].copy_from_slice(content);
    }
}

/// A part of one of the memories.
#[derive(Debug, Clone, Copy, Default)]
struct Part {
    memory: usize,
    at: usize,
    bytes: usize,
}

/// The parts of a rank's input or output, one for each block.
#[derive(Debug, Default)]
struct Side {
    blocks: Vec<usize>,
    counts: Vec<usize>,
    starts: Vec<usize>,
    /// Elements from the first to the end of the last one.
    end: usize,
}

/// What one rank calls with.
#[derive(Debug)]
pub(crate) struct Prepared {
    case: Case,
    size: usize,
    rank: usize,
    memories: Vec<Memory>,
    inputs: Vec<Part>,
    outputs: Vec<Part>,
    input: Side,
    output: Side,
    targets: Vec<Target<'static>>,
}

impl Prepared {
    pub(crate) fn new(case: &Case, size: usize, rank: usize) -> Self {
        let mut prepared = Self {
            case: case.clone(),
            size,
            rank,
            memories: Vec::new(),
            inputs: Vec::new(),
            outputs: Vec::new(),
            input: side(case, size, case.inputs(size, rank), true),
            output: side(case, size, case.outputs(size, rank), false),
            targets: Vec::new(),
        };
        if case.collective == Collective::Alltoallv && case.is_in_place(size, rank) {
            prepared.output.starts = prepared.input.starts.clone();
            prepared.output.end = prepared.input.end;
        }
        (0..case.buffers).for_each(|buffer| prepared.add(buffer));
        prepared
    }

    fn element(&self) -> usize {
        self.case.datatype.bytes()
    }

    /// Makes the memory of one buffer: of its input, of its output, or of both.
    fn add(&mut self, buffer: usize) {
        let (size, rank, shift) = (self.size, self.rank, self.case.shift);
        let number = self.memories.len();
        let is_shared = self.case.buffers > 1
            || self.case.collective == Collective::Broadcast
            || self.case.is_in_place(size, rank);
        if !is_shared {
            let mut input = Memory::blank(self.input.end * self.element(), shift);
            self.bring(&mut input, buffer, 0);
            self.inputs.push(Part {
                memory: number,
                at: 0,
                bytes: self.input.end * self.element(),
            });
            // An output that is to be ignored is given all the same, sometimes.
            let is_given = !self.output.blocks.is_empty() || mix(self.case.seed).is_multiple_of(2);
            let end = if self.output.blocks.is_empty() { self.case.count } else { self.output.end };
            let bytes = if is_given { end * self.element() } else { 0 };
            let mut output = Memory::blank(bytes, (shift * 3) % 8);
            self.expect(&mut output, 0);
            self.outputs.push(Part { memory: number + 1, at: 0, bytes });
            self.memories.extend([input, output]);
            return;
        }
        // The smaller side is this rank's part of the larger one.
        let (input, output) = (self.input.end, self.output.end);
        let element = self.element();
        let own = |side: &Side| side.starts.get(rank).copied().unwrap_or(0) * element;
        let (from, to) = match self.case.collective.regular() {
            Collective::Allgather | Collective::Gather => (own(&self.output), 0),
            Collective::Scatter | Collective::ReduceScatter => (0, own(&self.input)),
            _ => (0, 0),
        };
        let mut both = Memory::blank(input.max(output) * element, shift);
        self.bring(&mut both, buffer, from);
        self.expect(&mut both, to);
        self.inputs.push(Part { memory: number, at: from, bytes: input * element });
        self.outputs.push(Part { memory: number, at: to, bytes: output * element });
        self.memories.push(both);
    }

    fn bring(&self, memory: &mut Memory, buffer: usize, at: usize) {
        for (block, start) in self.input.blocks.iter().zip(&self.input.starts) {
            let content = self.case.contribution(self.size, (self.rank, buffer), *block);
            memory.put(at + start * self.element(), &content);
        }
    }

    fn expect(&self, memory: &mut Memory, at: usize) {
        if self.case.collective == Collective::Exscan && self.rank == 0 {
            return;
        }
        for (block, start) in self.output.blocks.iter().zip(&self.output.starts) {
            let content = self.case.expected(self.size, self.rank, *block);
            memory.expect(at + start * self.element(), &content);
        }
    }

    fn start_of(&mut self, part: Part) -> *mut u8 {
        let memory = &mut self.memories[part.memory];
        memory.bytes[memory.first + part.at..].as_mut_ptr()
    }

    fn source(&mut self) -> Source<'static> {
        let Some(part) = self.inputs.first().copied() else { return Source::of::<u8>(&[]) };
        // SAFETY: the bytes are in a memory that stays until the caller has waited; see `call`.
        unsafe { Source::from_raw(self.start_of(part), part.bytes) }
    }

    fn target(&mut self, buffer: usize) -> Target<'static> {
        let part = self.outputs.get(buffer).copied().unwrap_or_default();
        if part.bytes == 0 {
            return Target::of::<u8>(&mut []);
        }
        // SAFETY: as in `source`; nothing else is told of these bytes, unless the call works in place.
        unsafe { Target::from_raw(self.start_of(part), part.bytes) }
    }

    /// The call. Nobody may touch this object until the call has ended.
    pub(crate) fn call(&mut self) -> Call<'static> {
        let Case { collective, datatype, op, root, buffers, .. } = self.case;
        if collective == Collective::Barrier {
            return Call::Barrier;
        }
        if buffers > 1 {
            self.targets = (0..buffers).map(|buffer| self.target(buffer)).collect();
            let (first, many) = (self.targets.as_mut_ptr(), self.targets.len());
            // SAFETY: the list stays until the caller has waited.
            let buffers = unsafe { slice::from_raw_parts_mut(first, many) };
            return Call::AllreduceMulti { buffers, datatype, op };
        }
        let (source, target) = (self.source(), self.target(0));
        match collective {
            Collective::Allreduce => Call::Allreduce { source, target, datatype, op },
            Collective::Broadcast => Call::Broadcast { buffer: target, datatype, root },
            Collective::Reduce => Call::Reduce { source, target, datatype, op, root },
            Collective::Allgather => Call::Allgather { source, target, datatype },
            Collective::Gather => Call::Gather { source, target, datatype, root },
            Collective::Scatter => Call::Scatter { source, target, datatype, root },
            Collective::ReduceScatter => Call::ReduceScatter { source, target, datatype, op },
            Collective::Alltoall => Call::Alltoall { source, target, datatype },
            Collective::Scan => Call::Scan { source, target, datatype, op },
            Collective::Exscan => Call::Exscan { source, target, datatype, op },
            _ => self.irregular(source, target),
        }
    }

    fn irregular(&self, source: Source<'static>, target: Target<'static>) -> Call<'static> {
        let Case { collective, datatype, op, root, .. } = self.case;
        let displaced = self.case.variety.displaced;
        let lists = |side: &Side| {
            let starts = displaced.then(|| kept(&side.starts));
            (kept(&side.counts), starts)
        };
        let (input, output) = (lists(&self.input), lists(&self.output));
        match collective {
            Collective::Allgatherv => {
                let (counts, displacements) = output;
                Call::Allgatherv { source, target, counts, displacements, datatype }
            }
            Collective::Gatherv => {
                let (counts, displacements) = output;
                Call::Gatherv { source, target, counts, displacements, datatype, root }
            }
            Collective::Scatterv => {
                let (counts, displacements) = input;
                Call::Scatterv { source, target, counts, displacements, datatype, root }
            }
            Collective::ReduceScatterv => {
                let counts = input.0;
                Call::ReduceScatterv { source, target, counts, datatype, op }
            }
            Collective::Alltoallv => Call::Alltoallv {
                source,
                send_counts: input.0,
                send_displacements: input.1,
                target,
                receive_counts: output.0,
                receive_displacements: output.1,
                datatype,
            },
            other => unreachable!("{other} has no call of its own"),
        }
    }

    /// Checks every byte, of inputs and guards too. What is wrong, if anything is.
    pub(crate) fn fault(&self) -> Option<String> {
        let wrong = self.memories.iter().enumerate().find(|(_, it)| it.bytes != it.expected);
        let (number, memory) = wrong?;
        let mut pairs = memory.bytes.iter().zip(&memory.expected);
        let at = pairs.position(|(found, right)| found != right)?;
        let (found, right) = (memory.bytes[at], memory.expected[at]);
        let many = memory.bytes.iter().zip(&memory.expected).filter(|(a, b)| a != b).count();
        let (rank, size, case) = (self.rank, self.size, &self.case);
        let place = at as isize - memory.first as isize;
        Some(format!(
            "rank {rank} of {size}, buffer {number}, byte {place}: {found:#x} and not {right:#x}, {many} bytes are \
             wrong: {case:?}"
        ))
    }

    /// Makes all buffers as they were before the call, which has ended.
    pub(crate) fn renew(&mut self) {
        self.memories.iter_mut().for_each(|memory| memory.bytes.copy_from_slice(&memory.before));
    }

    /// Panics if a byte is wrong.
    pub(crate) fn check(&self) {
        if let Some(fault) = self.fault() {
            panic!("{fault}");
        }
    }
}

/// A list that stays where it is until the caller has waited.
fn kept(list: &[usize]) -> &'static [usize] {
    // SAFETY: the vector that holds it belongs to the prepared call, which nobody touches before.
    unsafe { slice::from_raw_parts(list.as_ptr(), list.len()) }
}

/// Lays blocks one after the other, or apart and perhaps in the opposite order.
fn side(case: &Case, size: usize, blocks: Vec<usize>, is_input: bool) -> Side {
    let counts: Vec<usize> = blocks.iter().map(|block| case.elements(size, *block)).collect();
    let has_lists = match case.collective {
        Collective::Allgatherv | Collective::Gatherv => !is_input,
        Collective::Scatterv => is_input,
        Collective::Alltoallv => true,
        _ => false,
    };
    let displaced = case.variety.displaced && has_lists;
    let is_reversed = displaced && mix(case.seed ^ u64::from(is_input)).is_multiple_of(2);
    let mut order: Vec<usize> = (0..blocks.len()).collect();
    if is_reversed {
        order.reverse();
    }
    let (mut starts, mut end) = (vec![0; blocks.len()], 0);
    for at in order {
        if displaced {
            end += mix(case.seed ^ at as u64) as usize % 3;
        }
        starts[at] = end;
        end += counts[at];
    }
    Side { blocks, counts, starts, end }
}
