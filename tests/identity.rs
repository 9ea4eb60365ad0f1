//! Results are equal to the bit: on all ranks, and from run to run, whatever the data.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod ranks;
mod reference;

use std::sync::Mutex;

use collect::plan::{self, Collective};
use collect::{Algorithm, Call, CallOptions, Datatype, Op, Source, Target, World};
use reference::values::mix;

/// Elements of the calls: few, and so many that there are slices.
const COUNTS: [usize; 2] = [37, 70_001];

/// The only NaN that a reduction makes.
const NAN: u32 = 0x7fc0_0000;

/// Floats of very different magnitudes, among them infinities, zeros, and NaNs with payloads and signs.
fn float(rank: usize, at: usize) -> u32 {
    let random = mix((rank as u64) << 32 | at as u64);
    let (kind, bits) = (random % 64, (random >> 32) as u32);
    match kind {
        0 => bits | 0x7f80_0001,
        1 => bits & 0x8000_0000 | 0x7f80_0000,
        2 => bits & 0x8000_0000,
        3 => bits & 0x807f_ffff,
        // Exponents from -20 to 20.
        _ => bits & 0x807f_ffff | (107 + bits % 41) << 23,
    }
}

/// How one call is made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Way {
    collective: Collective,
    algorithm: Option<Algorithm>,
    degree: u16,
    count: usize,
}

/// All that reduce, by every algorithm.
fn ways(size: usize) -> Vec<Way> {
    let mut ways = Vec::new();
    use Collective::{Allreduce, Exscan, Reduce, ReduceScatter, Scan};
    for collective in [Allreduce, Reduce, ReduceScatter, Scan, Exscan] {
        let all = plan::algorithms(collective).iter().copied();
        for algorithm in [None].into_iter().chain(all.map(Some)) {
            let degrees: &[u16] =
                if algorithm == Some(Algorithm::Knomial) { &[0, 2] } else { &[0] };
            for (degree, count) in
                degrees.iter().flat_map(|degree| COUNTS.map(|count| (*degree, count)))
            {
                let is_cut = collective == ReduceScatter;
                let count = if is_cut { count.div_ceil(size) } else { count };
                ways.push(Way { collective, algorithm, degree, count });
            }
        }
    }
    ways
}

/// Makes the call, in place or not; the result's bits, as far as this rank has a result.
fn result(world: &World, way: Way, in_place: bool) -> Vec<u32> {
    let (rank, size) = (world.rank(), world.size());
    let is_cut = way.collective == Collective::ReduceScatter;
    let parts = if is_cut { size } else { 1 };
    let mut input: Vec<u32> = (0..way.count * parts).map(|at| float(rank, at)).collect();
    let mut output = vec![0u32; way.count];
    let mine = if is_cut { rank * way.count } else { 0 };
    let (source, target) = if in_place {
        // SAFETY: the vector stays; the target is this rank's part of the source, as a call in place has it.
        let source = unsafe { Source::from_raw(input.as_ptr().cast(), input.len() * 4) };
        (source, Target::of(&mut input[mine..mine + way.count]))
    } else {
        (Source::of(&input), Target::of(&mut output))
    };
    let (datatype, op, root) = (Datatype::F32, Op::Sum, size / 2);
    let call = match way.collective {
        Collective::Allreduce => Call::Allreduce { source, target, datatype, op },
        Collective::Reduce => Call::Reduce { source, target, datatype, op, root },
        Collective::ReduceScatter => Call::ReduceScatter { source, target, datatype, op },
        Collective::Scan => Call::Scan { source, target, datatype, op },
        _ => Call::Exscan { source, target, datatype, op },
    };
    let Way { algorithm, degree, .. } = way;
    let options = CallOptions { algorithm, degree, ..CallOptions::default() };
    world.run(&call, &options).unwrap_or_else(|error| panic!("{way:?}: {error}"));
    let has_result = match way.collective {
        Collective::Reduce => rank == root,
        Collective::Exscan => rank > 0,
        _ => true,
    };
    let bits = if in_place { input[mine..mine + way.count].to_vec() } else { output };
    if has_result { bits } else { Vec::new() }
}

/// What each rank of a new world gets of each way.
fn results(
    ways: &[Way],
    size: usize,
    in_place: impl Fn(usize) -> bool + Sync,
) -> Vec<Vec<Vec<u32>>> {
    let all = Mutex::new(vec![Vec::new(); size]);
    ranks::threads(size, &ranks::options(), &|world: &World| {
        let own = ways.iter().map(|way| result(world, *way, in_place(world.rank()))).collect();
        all.lock().unwrap()[world.rank()] = own;
    });
    all.into_inner().unwrap()
}

fn is_identical(size: usize) {
    let ways = ways(size);
    let first = results(&ways, size, |_| false);
    let second = results(&ways, size, |rank| rank % 2 == 0);
    let is_odd = |bits: &&u32| f32::from_bits(**bits).is_nan() && **bits != NAN;
    for (at, way) in ways.iter().enumerate() {
        for (rank, (once, again)) in first.iter().zip(&second).enumerate() {
            let (once, again) = (&once[at], &again[at]);
            if way.collective == Collective::Allreduce {
                assert!(*once == first[0][at], "ranks 0 and {rank} of {size} differ: {way:?}");
                assert!(once.contains(&NAN), "no NaN to see: {way:?}");
            }
            assert!(once == again, "runs differ at rank {rank} of {size}: {way:?}");
            // The sum of one operand is that operand, whatever NaN it is.
            let operands = match way.collective {
                Collective::Scan => rank + 1,
                Collective::Exscan => rank,
                _ => size,
            };
            let odd = once.iter().find(is_odd);
            assert!(operands < 2 || odd.is_none(), "rank {rank} of {size}: {odd:x?}: {way:?}");
        }
    }
}

#[test]
fn sums_of_floats_are_identical_on_2_to_5_ranks() {
    (2..=5).for_each(is_identical);
}

#[test]
fn sums_of_floats_are_identical_on_6_to_9_ranks() {
    (6..=9).for_each(is_identical);
}
