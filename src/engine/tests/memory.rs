//! A caller's buffers in a test: guarded, filled from the seed, compared with what they should hold, poisoned.
#![forbid(unsafe_code)]

use std::ops::Range;

use half::{bf16, f16};

use super::case::Call;
use crate::datatype::{Datatype, Op};
use crate::link::sim::random::Random;
use crate::memory::{Region, Source, Target};
use crate::plan::Collective;
use crate::reduce::reduce;

const GUARD: usize = 24;
const FENCE: u8 = 0xa5;
const POISON: u8 = 0x5a;
/// What an output holds before the call.
pub(super) const UNTOUCHED: u8 = 0xee;

/// A buffer between two fences.
#[derive(Debug)]
pub(super) struct Memory {
    bytes: Vec<u8>,
    start: usize,
    length: usize,
}

impl Memory {
    pub(super) fn new(content: &[u8], shift: usize) -> Self {
        let start = GUARD + shift % 8;
        let mut bytes = vec![FENCE; start + content.len() + GUARD];
        bytes[start..start + content.len()].copy_from_slice(content);
        Self { bytes, start, length: content.len() }
    }

    pub(super) fn region(&mut self) -> Region {
        let end = self.start + self.length;
        Target::of(&mut self.bytes[self.start..end]).region()
    }

    pub(super) fn content(&self) -> &[u8] {
        &self.bytes[self.start..self.start + self.length]
    }

    /// Whether nobody has written beside it.
    pub(super) fn is_fenced(&self) -> bool {
        let end = self.start + self.length;
        self.bytes[..self.start].iter().chain(&self.bytes[end..]).all(|byte| *byte == FENCE)
    }

    /// As a caller who uses the buffer for something else.
    pub(super) fn poison(&mut self) {
        let end = self.start + self.length;
        self.bytes[self.start..end].fill(POISON);
    }

    pub(super) fn is_poisoned(&self) -> bool {
        self.is_fenced() && self.content().iter().all(|byte| *byte == POISON)
    }
}

/// What a rank of the world brings in one of its buffers.
pub(super) fn input(seed: u64, number: usize, call: &Call, rank: usize, buffer: usize) -> Vec<u8> {
    if call.collective == Collective::Barrier {
        return vec![1 << (rank % 8)];
    }
    let mut random =
        Random::new(seed ^ ((number as u64) << 32 | (rank as u64) << 16 | buffer as u64));
    let mut out = Vec::with_capacity(call.count * call.datatype.bytes());
    for _ in 0..call.count {
        let number = random.next();
        // Small whole numbers: their sums are exact in every type, whatever the order.
        let small = (number % 8) as u8;
        match call.datatype {
            Datatype::F16 => out.extend(f16::from_f32(small.into()).to_ne_bytes()),
            Datatype::Bf16 => out.extend(bf16::from_f32(small.into()).to_ne_bytes()),
            Datatype::F32 => out.extend(f32::from(small).to_ne_bytes()),
            Datatype::F64 => out.extend(f64::from(small).to_ne_bytes()),
            other => out.extend_from_slice(&number.to_ne_bytes()[..other.bytes()]),
        }
    }
    out
}

/// The bytes of an allgather's result that a rank brings.
pub(super) fn block(call: &Call, size: usize, rank: usize) -> Range<usize> {
    let stride = call.count.div_ceil(size);
    let start = |rank: usize| (rank * stride).min(call.count) * call.datatype.bytes();
    start(rank)..start(rank + 1)
}

/// What every output holds in the end.
pub(super) fn expected(seed: u64, number: usize, call: &Call, size: usize) -> Vec<u8> {
    if call.collective == Collective::Allgather {
        return input(seed, number, call, 0, 0);
    }
    if call.collective == Collective::Broadcast {
        return input(seed, number, call, call.root as usize, 0);
    }
    let inputs: Vec<Vec<u8>> = (0..size)
        .flat_map(|rank| {
            (0..usize::from(call.buffers)).map(move |i| input(seed, number, call, rank, i))
        })
        .collect();
    let mut out = vec![0; inputs[0].len()];
    let sources: Vec<Region> = inputs.iter().map(|i| Source::of(i.as_slice()).region()).collect();
    let divisor = (call.op == Op::Avg).then_some(sources.len() as u64);
    reduce(call.datatype, call.op, &Target::of(&mut out).region(), &sources, divisor);
    out
}
