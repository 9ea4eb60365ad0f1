//! What each rank brings to a call and what it gets, block by block, stated without a plan or the library's layouts.
#![forbid(unsafe_code)]

use std::ops::Range;

use half::{bf16, f16};

use super::case::Call;
use crate::datatype::{Datatype, Op};
use crate::link::sim::random::{Random, mix};
use crate::memory::{Region, Source, Target};
use crate::plan::Collective;
use crate::reduce::{Custom, reduce};

/// Bytes of an element of the caller's own reduction: a matrix of 2 x 2 wrapping integers.
pub(super) const MATRIX: usize = 16;

/// Matrices multiply, which does not commute.
pub(super) fn product(left: &[u8], right: &[u8], result: &mut [u8]) {
    let at = |matrix: &[u8], i: usize| {
        i32::from_ne_bytes(matrix[4 * i..4 * i + 4].try_into().expect("four bytes"))
    };
    let all = left.chunks(MATRIX).zip(right.chunks(MATRIX)).zip(result.chunks_mut(MATRIX));
    for ((a, b), c) in all {
        for (row, column) in [(0, 0), (0, 1), (1, 0), (1, 1)] {
            let first = at(a, 2 * row).wrapping_mul(at(b, column));
            let second = at(a, 2 * row + 1).wrapping_mul(at(b, 2 + column));
            let place = 4 * (2 * row + column);
            c[place..place + 4].copy_from_slice(&first.wrapping_add(second).to_ne_bytes());
        }
    }
}

/// The blocks that a rank brings, by slot.
pub(super) fn inputs(call: &Call, size: usize, rank: usize) -> Vec<usize> {
    let is_root = rank == call.root as usize;
    match call.collective.regular() {
        Collective::Allgather | Collective::Gather => vec![rank],
        Collective::ReduceScatter => (0..size).collect(),
        Collective::Scatter if is_root => (0..size).collect(),
        Collective::Alltoall => (0..size).map(|to| rank * size + to).collect(),
        Collective::Scatter => Vec::new(),
        Collective::Broadcast if !is_root => Vec::new(),
        _ => vec![0],
    }
}

/// The blocks that a rank gets, by slot.
pub(super) fn outputs(call: &Call, size: usize, rank: usize) -> Vec<usize> {
    let is_root = rank == call.root as usize;
    match call.collective.regular() {
        Collective::Allgather => (0..size).collect(),
        Collective::Gather if is_root => (0..size).collect(),
        Collective::Scatter | Collective::ReduceScatter => vec![rank],
        Collective::Alltoall => (0..size).map(|from| from * size + rank).collect(),
        Collective::Gather => Vec::new(),
        Collective::Reduce if !is_root => Vec::new(),
        _ => vec![0],
    }
}

/// Whose contributions a block that a rank gets is made of.
pub(super) fn contributors(call: &Call, size: usize, rank: usize, block: usize) -> Range<usize> {
    let one = |rank: usize| rank..rank + 1;
    match call.collective.regular() {
        Collective::Broadcast | Collective::Scatter => one(call.root as usize),
        Collective::Allgather | Collective::Gather => one(block),
        Collective::Alltoall => one(block / size),
        Collective::Scan => 0..rank + 1,
        Collective::Exscan => 0..rank,
        _ => 0..size,
    }
}

/// Elements of a block.
pub(super) fn elements(call: &Call, size: usize, block: usize) -> usize {
    if !call.collective.is_irregular() {
        return call.count;
    }
    // An exchange in place needs as much room for what comes as for what goes.
    let (from, to) = (block / size, block % size);
    let pair = if call.collective == Collective::Alltoallv {
        (from.min(to), from.max(to))
    } else {
        (from, to)
    };
    let number = mix(call.variety ^ ((pair.0 as u64) << 32 | pair.1 as u64));
    if number.is_multiple_of(4) { 0 } else { (number >> 8) as usize % (call.count + 1) }
}

/// Where slots begin, in elements, and where the last one ends.
pub(super) fn starts(
    call: &Call,
    size: usize,
    blocks: &[usize],
    has_gaps: bool,
) -> (Vec<usize>, usize) {
    let mut end = 0;
    let starts = blocks.iter().map(|block| {
        if has_gaps {
            end += mix(call.variety ^ *block as u64) as usize % 3;
        }
        end += elements(call, size, *block);
        end - elements(call, size, *block)
    });
    (starts.collect(), end)
}

/// Whether a rank's slots may lie apart.
pub(super) fn has_gaps(call: &Call, is_output: bool) -> bool {
    match call.collective {
        Collective::Allgatherv | Collective::Gatherv => is_output,
        Collective::Scatterv => !is_output,
        Collective::Alltoallv => true,
        _ => false,
    }
}

/// What a rank brings of a block, in one of its buffers.
pub(super) fn contribution(
    (seed, number, call): (u64, usize, &Call),
    rank: usize,
    (block, buffer): (usize, usize),
    size: usize,
) -> Vec<u8> {
    if call.collective == Collective::Barrier {
        return vec![1 << (rank % 8)];
    }
    let place = (number as u64) << 40 | (rank as u64) << 32 | (block as u64) << 8 | buffer as u64;
    let mut random = Random::new(seed ^ place);
    let mut out = Vec::new();
    for _ in 0..elements(call, size, block) {
        if call.op == Op::Custom {
            out.extend(random.next().to_ne_bytes());
            out.extend(random.next().to_ne_bytes());
        } else {
            element(call.datatype, random.next(), &mut out);
        }
    }
    out
}

/// Small whole numbers where the type rounds: their sums are exact in every type, whatever the order.
pub(super) fn element(datatype: Datatype, number: u64, out: &mut Vec<u8>) {
    let small = (number % 8) as u8;
    match datatype {
        Datatype::F16 => out.extend(f16::from_f32(small.into()).to_ne_bytes()),
        Datatype::Bf16 => out.extend(bf16::from_f32(small.into()).to_ne_bytes()),
        Datatype::F32 => out.extend(f32::from(small).to_ne_bytes()),
        Datatype::F64 => out.extend(f64::from(small).to_ne_bytes()),
        other => out.extend_from_slice(&number.to_ne_bytes()[..other.bytes()]),
    }
}

/// What a rank gets of a block.
pub(super) fn expected(
    (seed, number, call): (u64, usize, &Call),
    rank: usize,
    block: usize,
    size: usize,
) -> Vec<u8> {
    let all = contributors(call, size, rank, block);
    let each = all.clone().flat_map(|rank| {
        let buffers = 0..usize::from(call.buffers);
        buffers.map(move |i| contribution((seed, number, call), rank, (block, i), size))
    });
    let each: Vec<Vec<u8>> = each.collect();
    if !call.collective.reduces() && call.collective != Collective::Barrier {
        return each.into_iter().next().unwrap_or_default();
    }
    if call.op == Op::Custom {
        let folded = each.into_iter().reduce(|left, right| {
            let mut result = vec![0; left.len()];
            product(&left, &right, &mut result);
            result
        });
        return folded.unwrap_or_default();
    }
    let mut out = vec![0; each.first().map_or(0, Vec::len)];
    let sources: Vec<Region> = each.iter().map(|i| Source::of(i.as_slice()).region()).collect();
    let divisor = (call.op == Op::Avg).then_some(sources.len() as u64);
    if !sources.is_empty() {
        reduce(call.datatype, call.op, &Target::of(&mut out).region(), &sources, divisor);
    }
    out
}

/// The reduction of matrices.
pub(super) fn matrices() -> Custom {
    Custom::new(MATRIX, false, product).expect("a valid size")
}
