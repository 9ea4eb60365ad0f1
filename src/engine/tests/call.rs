//! Makes the operation of a call or of a message, with the buffers that it works on.
#![forbid(unsafe_code)]

use std::cell::RefCell;
use std::collections::HashMap;
use std::sync::Arc;

use super::case::{Call, Case, Message};
use super::content::{
    contribution, elements, expected, has_gaps, inputs, matrices, outputs, starts,
};
use super::memory::{Memory, UNTOUCHED};
use crate::datatype::Op;
use crate::engine::operation::{Matching, Operation};
use crate::engine::{Members, Program};
use crate::link::frame::Fingerprint;
use crate::memory::Region;
use crate::plan::{Algorithm, Collective, Shape, build};

/// A call at one rank.
pub(super) struct Place<'a> {
    pub(super) case: &'a Case,
    pub(super) number: usize,
    pub(super) call: &'a Call,
    pub(super) rank: usize,
    pub(super) size: usize,
}

/// Buffers, and which parts of them the operation is told of.
pub(super) struct Buffers {
    pub(super) memories: Vec<Memory>,
    inputs: Vec<Region>,
    outputs: Vec<Region>,
}

thread_local! {
    static PROGRAMS: RefCell<HashMap<Shape, Arc<Program>>> = RefCell::new(HashMap::new());
}

pub(super) fn program(shape: Shape) -> Arc<Program> {
    PROGRAMS.with_borrow_mut(|programs| {
        let make = || Arc::new(Program::new(build(&shape).expect("a valid shape")));
        Arc::clone(programs.entry(shape).or_insert_with(make))
    })
}

pub(super) fn fingerprint(call: &Call) -> Fingerprint {
    Fingerprint {
        collective: call.collective as u8,
        datatype: call.datatype as u8,
        op: if call.collective.reduces() { call.op as u8 } else { 0 },
        algorithm: call.algorithm as u8,
        root: call.root,
        count: if call.collective.has_own_lengths() { 0 } else { call.count as u64 },
        hash: if call.collective.is_irregular() { call.variety } else { u64::from(call.buffers) },
    }
}

impl Place<'_> {
    fn is_in_place(&self) -> bool {
        self.call.in_place >> self.rank & 1 == 1
    }

    /// Only where the two sides of the call can be one memory.
    fn is_shared(&self) -> bool {
        let has_both = !inputs(self.call, self.size, self.rank).is_empty()
            && !outputs(self.call, self.size, self.rank).is_empty();
        self.is_in_place() && has_both
    }

    fn shape(&self) -> Shape {
        Shape {
            collective: self.call.collective,
            algorithm: self.call.algorithm,
            size: u32::try_from(self.size).unwrap(),
            rank: u32::try_from(self.rank).unwrap(),
            root: self.call.root,
            in_place: self.is_shared(),
            buffers: self.call.buffers,
            degree: self.call.degree,
        }
    }

    /// Where the slots of one side lie, and what must be there afterwards.
    fn side(&self, is_output: bool) -> (Vec<usize>, Vec<usize>, usize) {
        let blocks = match is_output {
            true => outputs(self.call, self.size, self.rank),
            false => inputs(self.call, self.size, self.rank),
        };
        let gaps = has_gaps(self.call, is_output);
        // In place, both sides of an exchange lie alike: by the blocks that go.
        let of = inputs(self.call, self.size, self.rank);
        let alike = self.call.collective == Collective::Alltoallv;
        let (starts, end) = starts(self.call, self.size, if alike { &of } else { &blocks }, gaps);
        (blocks, starts, end)
    }

    /// A buffer with one of the two sides in it.
    fn memory(&self, is_output: bool, buffer: usize) -> Memory {
        let (blocks, starts, end) = self.side(is_output);
        let element = self.call.element();
        let mut content = vec![UNTOUCHED; end * element];
        if !is_output {
            for (block, start) in blocks.iter().zip(&starts) {
                let bytes = self.contribution(*block, buffer);
                content[start * element..start * element + bytes.len()].copy_from_slice(&bytes);
            }
        }
        Memory::new(&content, self.number + self.rank + 3 * usize::from(is_output))
    }

    fn contribution(&self, block: usize, buffer: usize) -> Vec<u8> {
        let of = (self.case.seed, self.number, self.call);
        contribution(of, self.rank, (block, buffer), self.size)
    }

    /// States what each slot of the output must hold.
    fn expect(&self, memory: &mut Memory, first: usize) {
        let (blocks, starts, _) = self.side(true);
        for (block, start) in blocks.iter().zip(&starts) {
            if self.call.collective == Collective::Exscan && self.rank == 0 {
                continue;
            }
            let of = (self.case.seed, self.number, self.call);
            let bytes = expected(of, self.rank, *block, self.size);
            memory.expect(first + start * self.call.element(), &bytes);
        }
    }

    pub(super) fn buffers(&self) -> Buffers {
        let count = usize::from(self.call.buffers);
        let mut all = Buffers { memories: Vec::new(), inputs: Vec::new(), outputs: Vec::new() };
        for buffer in 0..count {
            if self.is_shared() {
                self.shared(&mut all, buffer);
                continue;
            }
            if !inputs(self.call, self.size, self.rank).is_empty() {
                let mut memory = self.memory(false, buffer);
                all.inputs.push(memory.region());
                all.memories.push(memory);
            }
            if !outputs(self.call, self.size, self.rank).is_empty() {
                let mut memory = self.memory(true, buffer);
                self.expect(&mut memory, 0);
                all.outputs.push(memory.region());
                all.memories.push(memory);
            }
        }
        all
    }

    /// Both sides in one buffer: the smaller side is this rank's part of the larger one.
    fn shared(&self, all: &mut Buffers, buffer: usize) {
        let element = self.call.element();
        let part = |(blocks, starts, _): (Vec<usize>, Vec<usize>, usize)| {
            let start = starts[self.rank] * element;
            start..start + elements(self.call, self.size, blocks[self.rank]) * element
        };
        match self.call.collective.regular() {
            Collective::Allgather | Collective::Gather => {
                let part = part(self.side(true));
                let mut content = self.memory(true, buffer).content().to_vec();
                content[part.clone()].copy_from_slice(&self.contribution(self.rank, buffer));
                let mut memory = Memory::new(&content, self.number);
                self.expect(&mut memory, 0);
                all.inputs.push(memory.region().part(part.start, part.end));
                all.outputs.push(memory.region());
                all.memories.push(memory);
            }
            Collective::Scatter | Collective::ReduceScatter => {
                let part = part(self.side(false));
                let mut memory = self.memory(false, buffer);
                self.expect(&mut memory, part.start);
                all.outputs.push(memory.region().part(part.start, part.end));
                all.inputs.push(memory.region());
                all.memories.push(memory);
            }
            _ => {
                let mut memory = self.memory(false, buffer);
                self.expect(&mut memory, 0);
                all.inputs.push(memory.region());
                all.outputs.push(memory.region());
                all.memories.push(memory);
            }
        }
    }

    /// Sets all that the operation is told.
    pub(super) fn fill(&self, op: &mut Operation, buffers: &Buffers) {
        let (call, size) = (self.call, self.size);
        let shape = self.shape();
        op.matching = call.key.map_or(Matching::Ordered, Matching::Keyed);
        op.program = program(shape);
        op.datatype = call.datatype;
        op.op = call.op;
        op.element = call.element();
        op.custom = (call.op == Op::Custom).then(|| Arc::new(matrices()));
        op.divisor = size as u64 * u64::from(call.buffers);
        op.fingerprint = fingerprint(call);
        op.timeout_ns = call.timeout_ns;
        op.count = call.count
            * match call.collective {
                Collective::Allgather
                | Collective::Gather
                | Collective::Scatter
                | Collective::ReduceScatter => size,
                Collective::Alltoall => size * size,
                _ => 1,
            };
        if call.collective.is_irregular() {
            self.fill_lengths(op);
            op.input_starts.extend(self.side(false).1);
            op.output_starts.extend(self.side(true).1);
        }
        let of_slice = (self.case.limits.slice / op.element).max(1);
        op.slice_count = if shape.is_sliced() { of_slice } else { usize::MAX };
        op.inputs.extend(&buffers.inputs);
        op.outputs.extend(&buffers.outputs);
    }

    /// Where blocks differ: those that this rank knows.
    fn fill_lengths(&self, op: &mut Operation) {
        let (call, size, rank) = (self.call, self.size, self.rank);
        let own_only = matches!(call.collective, Collective::Gatherv | Collective::Scatterv)
            && rank != call.root as usize;
        if call.collective == Collective::Alltoallv {
            op.lengths.extend((0..size).map(|to| elements(call, size, rank * size + to)));
            op.lengths.extend((0..size).map(|from| elements(call, size, from * size + rank)));
        } else {
            let known = |block: usize| !own_only || block == rank;
            let length = |block| if known(block) { elements(call, size, block) } else { 0 };
            op.lengths.extend((0..size).map(length));
        }
        op.count = op.lengths.iter().sum();
    }
}

/// What a message carries.
pub(super) fn payload(seed: u64, number: usize, message: &Message) -> Vec<u8> {
    let mut random = crate::link::sim::random::Random::new(seed ^ 0xfeed ^ number as u64);
    let mut out = Vec::new();
    for _ in 0..message.count {
        super::content::element(message.datatype, random.next(), &mut out);
    }
    out
}

/// Sets all that the operation of one side of a message is told.
pub(super) fn fill_message(
    op: &mut Operation,
    message: &Message,
    is_send: bool,
    memory: &mut Memory,
) {
    let tag = message.tag;
    let from = (!message.is_wild).then_some(message.from);
    op.matching = if is_send {
        Matching::Send { to: message.to, tag }
    } else {
        Matching::Receive { from, tag }
    };
    op.program = program(Shape {
        collective: Collective::Message,
        algorithm: Algorithm::Direct,
        size: 2,
        rank: u32::from(!is_send),
        root: 0,
        in_place: false,
        buffers: 1,
        degree: 0,
    });
    op.datatype = message.datatype;
    op.op = Op::Sum;
    op.element = message.datatype.bytes();
    op.custom = None;
    op.divisor = 1;
    op.count = message.count;
    op.slice_count = usize::MAX;
    op.fingerprint = Fingerprint {
        collective: Collective::Message as u8,
        datatype: message.datatype as u8,
        algorithm: Algorithm::Direct as u8,
        ..Fingerprint::default()
    };
    op.timeout_ns = message.timeout_ns;
    if is_send { &mut op.inputs } else { &mut op.outputs }.push(memory.region());
}

/// Who takes part in the agreement on a fork.
pub(super) fn members(peers: &[u32]) -> Arc<Members> {
    Arc::new(Members::new(peers.to_vec()))
}
