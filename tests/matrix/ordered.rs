//! A reduction that does not commute, the product of 2 x 2 matrices, equals the product in rank order.

use std::sync::Arc;

use collect::plan::{self, Collective};
use collect::{Algorithm, Call, CallOptions, Custom, Datatype, Error, Op, Source, Target, World};

use super::ranks;
use crate::reference::values::mix;

/// Numbers of a matrix: two of the first row, two of the second.
const NUMBERS: usize = 4;

type Matrix = [u32; NUMBERS];

fn product(a: Matrix, b: Matrix) -> Matrix {
    let dot = |row: usize, column: usize| {
        let one = a[row * 2].wrapping_mul(b[column]);
        one.wrapping_add(a[row * 2 + 1].wrapping_mul(b[column + 2]))
    };
    [dot(0, 0), dot(0, 1), dot(1, 0), dot(1, 1)]
}

fn read(bytes: &[u8]) -> Matrix {
    std::array::from_fn(|at| u32::from_ne_bytes(bytes[at * 4..at * 4 + 4].try_into().unwrap()))
}

fn reduction() -> Arc<Custom> {
    let function = |left: &[u8], right: &[u8], result: &mut [u8]| {
        for ((left, right), result) in
            left.chunks(16).zip(right.chunks(16)).zip(result.chunks_mut(16))
        {
            let numbers = product(read(left), read(right)).map(u32::to_ne_bytes);
            result.copy_from_slice(numbers.as_flattened());
        }
    };
    Arc::new(Custom::new(16, false, function).unwrap())
}

/// The matrix that a contributor brings at a place. An odd determinant: no product loses what went into it.
fn matrix(contributor: usize, at: usize) -> Matrix {
    let random = |number: u64| mix((contributor as u64) << 40 | (at as u64) << 8 | number) as u32;
    product([1, random(0), 0, 1], [1, 0, random(1) | 1, 1])
}

fn contribution(contributor: usize, places: std::ops::Range<usize>) -> Vec<u32> {
    places.flat_map(|at| matrix(contributor, at)).collect()
}

/// The product of what these contributors bring.
fn expected(contributors: std::ops::Range<usize>, places: std::ops::Range<usize>) -> Vec<u32> {
    let at = |at| contributors.clone().map(|one| matrix(one, at)).reduce(product).unwrap();
    places.flat_map(at).collect()
}

/// Makes a reducing call of `count` matrices in all. What this rank must hold at the end, and what it holds; empty where
/// it gets nothing.
fn call(
    world: &World,
    (collective, count, root): (Collective, usize, usize),
    options: &CallOptions,
    in_place: bool,
) -> Result<(Vec<u32>, Vec<u32>), Error> {
    let (rank, size) = (world.rank(), world.size());
    let (datatype, op) = (Datatype::U8, Op::Custom);
    // Parts of the two that cut: equal ones, and ones of one more for each rank.
    let counts: Vec<usize> = (0..size).map(|part| (part + count) % 3 * (count / 3)).collect();
    let (total, mine) = match collective {
        Collective::ReduceScatter => (count * size, rank * count..(rank + 1) * count),
        Collective::ReduceScatterv => {
            let start = counts[..rank].iter().sum::<usize>();
            (counts.iter().sum(), start..start + counts[rank])
        }
        _ => (count, 0..count),
    };
    let mut input = contribution(rank, 0..total);
    let mut output = vec![0; mine.len() * NUMBERS];
    let before = input.clone();
    let (source, target) = if in_place {
        // SAFETY: the vector stays; the target is this rank's part of the source, as a call in place has it.
        let source = unsafe { Source::from_raw(input.as_ptr().cast(), input.len() * 4) };
        (source, Target::of(&mut input[mine.start * NUMBERS..mine.end * NUMBERS]))
    } else {
        (Source::of(&input), Target::of(&mut output))
    };
    let call = match collective {
        Collective::Allreduce => Call::Allreduce { source, target, datatype, op },
        Collective::Reduce => Call::Reduce { source, target, datatype, op, root },
        Collective::ReduceScatter => Call::ReduceScatter { source, target, datatype, op },
        Collective::ReduceScatterv => {
            Call::ReduceScatterv { source, target, counts: &counts, datatype, op }
        }
        Collective::Scan => Call::Scan { source, target, datatype, op },
        _ => Call::Exscan { source, target, datatype, op },
    };
    world.run(&call, options)?;
    let contributors = match collective {
        Collective::Scan => 0..rank + 1,
        Collective::Exscan => 0..rank,
        Collective::Reduce if rank != root => 0..0,
        _ => 0..size,
    };
    if contributors.is_empty() {
        let untouched = if in_place { before.clone() } else { vec![0; output.len()] };
        return Ok((untouched, if in_place { input } else { output }));
    }
    let right = expected(contributors, mine.clone());
    let result =
        if in_place { &input[mine.start * NUMBERS..mine.end * NUMBERS] } else { &output[..] };
    Ok((right, result.to_vec()))
}

const COLLECTIVES: [Collective; 6] = [
    Collective::Allreduce,
    Collective::Reduce,
    Collective::ReduceScatter,
    Collective::ReduceScatterv,
    Collective::Scan,
    Collective::Exscan,
];

fn equals_the_product(world: &World) {
    let size = world.size();
    let custom = Some(reduction());
    for collective in COLLECTIVES {
        let ordered = plan::algorithms(collective).iter().copied();
        let ordered: Vec<Algorithm> =
            ordered.filter(|algorithm| plan::is_ordered(collective, *algorithm)).collect();
        assert!(!ordered.is_empty(), "{collective}");
        for algorithm in [None].into_iter().chain(ordered.into_iter().map(Some)) {
            let options =
                CallOptions { algorithm, custom: custom.clone(), ..CallOptions::default() };
            for (at, count) in [0, 1, 1000].into_iter().enumerate() {
                let root = (at + size / 2) % size;
                for in_place in [false, true] {
                    let what = (collective, count, root);
                    let what_it_was = format!("{what:?} {algorithm:?} {in_place}");
                    let (right, result) = call(world, what, &options, in_place)
                        .unwrap_or_else(|error| panic!("{what_it_was}: {error}"));
                    assert!(right == result, "rank {} of {size}: {what_it_was}", world.rank());
                }
            }
        }
    }
}

#[test]
fn products_of_matrices_are_in_rank_order() {
    for size in 1..=9 {
        ranks::threads(size, &ranks::options(), &equals_the_product);
    }
}

/// Slices and segments come into play.
#[test]
fn products_of_many_matrices_are_in_rank_order() {
    ranks::threads(5, &ranks::options(), &|world: &World| {
        let custom = Some(reduction());
        for collective in COLLECTIVES {
            let options = CallOptions { custom: custom.clone(), ..CallOptions::default() };
            let (right, result) = call(world, (collective, 100_003, 2), &options, false).unwrap();
            assert!(right == result, "rank {}: {collective}", world.rank());
        }
    });
}

/// Several buffers per rank combine rank by rank, and of one rank by their number.
#[test]
fn products_of_several_buffers_are_in_the_order_of_ranks_and_buffers() {
    for size in [1, 2, 3, 5] {
        ranks::threads(size, &ranks::options(), &|world: &World| {
            let ordered = plan::algorithms(Collective::Allreduce).iter().copied();
            let ordered = ordered.filter(|it| plan::is_ordered(Collective::Allreduce, *it));
            for algorithm in [None].into_iter().chain(ordered.map(Some)) {
                let first = world.rank() * 3;
                let mut data: Vec<Vec<u32>> =
                    (0..3).map(|at| contribution(first + at, 0..50)).collect();
                let mut targets: Vec<Target<'_>> =
                    data.iter_mut().map(|buffer| Target::of(buffer)).collect();
                let (datatype, op) = (Datatype::U8, Op::Custom);
                let call = Call::AllreduceMulti { buffers: &mut targets, datatype, op };
                let custom = Some(reduction());
                let options = CallOptions { algorithm, custom, ..CallOptions::default() };
                world.run(&call, &options).unwrap();
                let right = expected(0..size * 3, 0..50);
                assert!(data.iter().all(|buffer| *buffer == right), "{size} {algorithm:?}");
            }
        });
    }
}

#[test]
fn algorithms_without_rank_order_are_refused_and_nothing_happens() {
    ranks::threads(3, &ranks::options(), &|world: &World| {
        for collective in COLLECTIVES {
            let all = plan::algorithms(collective).iter().copied();
            for algorithm in all.filter(|algorithm| !plan::is_ordered(collective, *algorithm)) {
                let custom = Some(reduction());
                let algorithm = Some(algorithm);
                let options = CallOptions { algorithm, custom, ..CallOptions::default() };
                let outcome = call(world, (collective, 10, 0), &options, false);
                let is_refused = matches!(outcome, Err(Error::InvalidArgument(_)));
                assert!(is_refused, "{collective} {algorithm:?}: {outcome:?}");
            }
        }
        assert!(world.error().is_none());
        world.run(&Call::Barrier, &CallOptions::default()).unwrap();
    });
}

/// One that commutes may be reduced by any algorithm; its elements are of a size that no type has.
#[test]
fn a_reduction_that_commutes_takes_every_algorithm() {
    let custom = Custom::new(3, true, |left: &[u8], right: &[u8], result: &mut [u8]| {
        let pairs = left.iter().zip(right);
        result.iter_mut().zip(pairs).for_each(|(result, (a, b))| *result = a.wrapping_add(*b));
    });
    let custom = Some(Arc::new(custom.unwrap()));
    ranks::threads(5, &ranks::options(), &|world: &World| {
        for algorithm in
            [None].into_iter().chain(plan::algorithms(Collective::Allreduce).iter().map(Some))
        {
            let mut bytes: Vec<u8> =
                (0..30_000).map(|at| (at * (world.rank() + 1)) as u8).collect();
            let target = Target::of(&mut bytes);
            let (source, datatype, op) = (target.in_place(), Datatype::U8, Op::Custom);
            let call = Call::Allreduce { source, target, datatype, op };
            let (algorithm, custom) = (algorithm.copied(), custom.clone());
            world.run(&call, &CallOptions { algorithm, custom, ..CallOptions::default() }).unwrap();
            let is_right = |(at, byte): (usize, &u8)| *byte == (at * 15) as u8;
            assert!(bytes.iter().enumerate().all(is_right), "{algorithm:?}");
        }
    });
}
