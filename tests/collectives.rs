//! Collectives against what each rank can compute by itself, on worlds of threads and of processes.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod ranks;

use std::thread;
use std::time::Duration;

use collect::config::Timeout;
use collect::memory::Element;
use collect::{Algorithm, Call, CallOptions, Datatype, Error, Op, Source, Target, World};

const ALGORITHMS: [Option<Algorithm>; 5] = [
    None,
    Some(Algorithm::Ring),
    Some(Algorithm::Direct),
    Some(Algorithm::Doubling),
    Some(Algorithm::Circulant),
];

fn allreduce<T: Element>(
    world: &World,
    source: &[T],
    target: &mut [T],
    (datatype, op): (Datatype, Op),
    algorithm: Option<Algorithm>,
) -> Result<(), Error> {
    let (source, target) = (Source::of(source), Target::of(target));
    let call = Call::Allreduce { source, target, datatype, op };
    world.run(&call, &CallOptions { algorithm, ..CallOptions::default() })
}

/// What rank `rank` contributes at element `at`: small, so that every type holds the sums.
fn element(rank: usize, at: usize) -> u8 {
    u8::try_from((rank * 7 + at * 3) % 5 + 1).unwrap()
}

fn expected(size: usize, at: usize, op: Op) -> u64 {
    let all = (0..size).map(|rank| u64::from(element(rank, at)));
    match op {
        Op::Sum => all.sum(),
        Op::Avg => all.sum::<u64>() / size as u64,
        Op::Prod => all.map(|x| if x > 2 { 2 } else { 1 }).product(),
        Op::Min => all.min().unwrap(),
        Op::Max => all.max().unwrap(),
        Op::Band => all.fold(u64::MAX, |a, b| a & b),
        Op::Bor => all.fold(0, |a, b| a | b),
        Op::Bxor => all.fold(0, |a, b| a ^ b),
        Op::PremulSum | Op::Custom => unreachable!("{op} needs more than elements"),
    }
}

fn check_type<T: Element + PartialEq + std::fmt::Debug>(
    world: &World,
    datatype: Datatype,
    make: impl Fn(u64) -> T,
) {
    let size = world.size();
    for op in Op::ALL.into_iter().filter(|op| op.allows(datatype)) {
        if op == Op::Avg && datatype.is_float() || matches!(op, Op::PremulSum | Op::Custom) {
            continue;
        }
        let give = |rank, at| {
            let value = u64::from(element(rank, at));
            make(if op == Op::Prod { if value > 2 { 2 } else { 1 } } else { value })
        };
        for count in [0, 1, size + 1, 100] {
            for algorithm in ALGORITHMS {
                let source: Vec<T> = (0..count).map(|at| give(world.rank(), at)).collect();
                let mut target: Vec<T> = (0..count).map(|_| make(0)).collect();
                allreduce(world, &source, &mut target, (datatype, op), algorithm).unwrap();
                let right: Vec<T> = (0..count).map(|at| make(expected(size, at, op))).collect();
                assert_eq!(target, right, "{datatype} {op} {count} {algorithm:?}");
            }
        }
    }
}

#[allow(clippy::cast_possible_truncation, reason = "the values are small")]
fn every_type(world: &World) {
    use half::{bf16, f16};
    check_type(world, Datatype::I8, |x| x as i8);
    check_type(world, Datatype::U8, |x| x as u8);
    check_type(world, Datatype::I16, |x| x as i16);
    check_type(world, Datatype::U16, |x| x as u16);
    check_type(world, Datatype::I32, |x| x as i32);
    check_type(world, Datatype::U32, |x| x as u32);
    check_type(world, Datatype::I64, |x| x as i64);
    check_type(world, Datatype::U64, |x| x);
    check_type(world, Datatype::F16, |x| f16::from_f32(x as f32));
    check_type(world, Datatype::Bf16, |x| bf16::from_f32(x as f32));
    check_type(world, Datatype::F32, |x| x as f32);
    check_type(world, Datatype::F64, |x| x as f64);
    for (datatype, one) in [(Datatype::F8e4m3, 0x38), (Datatype::F8e5m2, 0x3c), (Datatype::Bool, 1)]
    {
        check_signs(world, datatype, one);
    }
}

/// Of types of one byte: products of 1 and, where there is one, of -1. A 0 at a few ranks makes it 0.
fn check_signs(world: &World, datatype: Datatype, one: u8) {
    let sign = if datatype == Datatype::Bool { 0 } else { 0x80 };
    let give = |rank, at| match element(rank, at) {
        1 if at % 3 == 0 => 0,
        2 => one | sign,
        _ => one,
    };
    for algorithm in ALGORITHMS {
        let source: Vec<u8> = (0..100).map(|at| give(world.rank(), at)).collect();
        let mut target = vec![9_u8; 100];
        allreduce(world, &source, &mut target, (datatype, Op::Prod), algorithm).unwrap();
        for (at, found) in target.iter().enumerate() {
            let all: Vec<u8> = (0..world.size()).map(|rank| give(rank, at)).collect();
            let magnitude = if all.contains(&0) { 0 } else { one };
            let negative = all.iter().filter(|byte| **byte & 0x80 != 0).count() % 2 == 1;
            let right = magnitude | if negative { 0x80 } else { 0 };
            assert_eq!(*found, right, "{datatype} {at} {algorithm:?}");
        }
    }
}

#[test]
fn allreduce_of_every_type_and_operation_on_1_and_2_ranks() {
    let name = "allreduce_of_every_type_and_operation_on_1_and_2_ranks";
    if !ranks::is_rank() {
        ranks::threads(1, &ranks::blocking(), &every_type);
    }
    ranks::both(name, 2, every_type);
}

#[test]
fn allreduce_of_every_type_and_operation_on_3_ranks() {
    ranks::both("allreduce_of_every_type_and_operation_on_3_ranks", 3, every_type);
}

#[test]
fn allreduce_of_every_type_and_operation_on_7_and_8_ranks() {
    if !ranks::is_rank() {
        ranks::threads(7, &ranks::options(), &every_type);
    }
    let name = "allreduce_of_every_type_and_operation_on_7_and_8_ranks";
    ranks::processes(name, 8, &ranks::options(), &every_type);
}

/// Counts around the edges of messages, frames, slices and segments; in place and not.
fn edges(world: &World) {
    let size = world.size();
    let words = |bytes: usize| bytes / 4;
    let edges = [words(32 << 10), words(64 << 10), words(256 << 10), 100_003, 1 << 20];
    for count in edges.into_iter().flat_map(|edge| [edge - 1, edge, edge + 1]) {
        for algorithm in ALGORITHMS {
            let source: Vec<i32> =
                (0..count).map(|at| i32::from(element(world.rank(), at))).collect();
            let mut target = vec![0i32; count];
            let what = (Datatype::I32, Op::Sum);
            allreduce(world, &source, &mut target, what, algorithm).unwrap();
            let is_right = |(at, sum): (usize, &i32)| {
                u64::try_from(*sum).unwrap() == expected(size, at, Op::Sum)
            };
            assert!(target.iter().enumerate().all(is_right), "{count} {algorithm:?}");

            let mut both = source;
            let target = Target::of(&mut both);
            let (source, datatype, op) = (target.in_place(), Datatype::I32, Op::Sum);
            let call = Call::Allreduce { source, target, datatype, op };
            world.run(&call, &CallOptions { algorithm, ..CallOptions::default() }).unwrap();
            assert!(both.iter().enumerate().all(is_right), "{count} {algorithm:?} in place");
        }
    }
}

#[test]
fn allreduce_of_counts_at_the_edges() {
    ranks::both("allreduce_of_counts_at_the_edges", 4, edges);
}

#[test]
fn allreduce_of_counts_at_the_edges_on_5_ranks() {
    ranks::both("allreduce_of_counts_at_the_edges_on_5_ranks", 5, edges);
}

#[test]
fn broadcast_from_every_root() {
    ranks::both("broadcast_from_every_root", 5, |world| {
        for root in 0..world.size() {
            for count in [0, 1, 1000, 100_003] {
                let is_root = world.rank() == root;
                let mut data: Vec<u64> =
                    (0..count).map(|at| if is_root { at * 3 + root as u64 } else { 0 }).collect();
                let buffer = Target::of(&mut data);
                let call = Call::Broadcast { buffer, datatype: Datatype::U64, root };
                world.run(&call, &CallOptions::default()).unwrap();
                assert!((0u64..).zip(&data).all(|(at, x)| *x == at * 3 + root as u64));
            }
        }
    });
}

#[test]
fn reduce_gives_the_root_the_result_and_touches_no_other_target() {
    let name = "reduce_gives_the_root_the_result_and_touches_no_other_target";
    ranks::both(name, 5, |world| {
        for root in 0..world.size() {
            for count in [0, 1, 1000, 100_003] {
                let is_root = world.rank() == root;
                let mut source: Vec<i32> =
                    (0..count).map(|at| i32::from(element(world.rank(), at))).collect();
                let mut target = vec![-1i32; count];
                let (datatype, op) = (Datatype::I32, Op::Sum);
                let call = Call::Reduce {
                    source: Source::of(&source),
                    target: Target::of(&mut target),
                    datatype,
                    op,
                    root,
                };
                world.run(&call, &CallOptions::default()).unwrap();
                let right = |at: usize| i32::try_from(expected(5, at, op)).unwrap();
                let is_right = |(at, x): (usize, &i32)| *x == if is_root { right(at) } else { -1 };
                assert!(target.iter().enumerate().all(is_right), "root {root}, {count}");

                let target = Target::of(if is_root { &mut source[..] } else { &mut [] });
                let mine: Vec<i32> =
                    (0..count).map(|at| i32::from(element(world.rank(), at))).collect();
                let from = if is_root { target.in_place() } else { Source::of(&mine) };
                let call = Call::Reduce { source: from, target, datatype, op, root };
                world.run(&call, &CallOptions::default()).unwrap();
                assert!(!is_root || source.iter().enumerate().all(|(at, x)| *x == right(at)));
            }
        }
    });
}

#[test]
fn allgather_brings_everything_everywhere_in_order() {
    ranks::both("allgather_brings_everything_everywhere_in_order", 5, |world| {
        let size = world.size();
        let value = |rank: usize, at: usize| (rank * 1_000_003 + at) as u64;
        for count in [0, 1, 100, 5000, 50_001] {
            for algorithm in [None, Some(Algorithm::Ring), Some(Algorithm::Circulant)] {
                let options = CallOptions { algorithm, ..CallOptions::default() };
                let source: Vec<u64> = (0..count).map(|at| value(world.rank(), at)).collect();
                let mut all = vec![0u64; count * size];
                let (source, target) = (Source::of(&source), Target::of(&mut all));
                let call = Call::Allgather { source, target, datatype: Datatype::U64 };
                world.run(&call, &options).unwrap();
                let is_right =
                    |(at, x): (usize, &u64)| *x == value(at / count.max(1), at % count.max(1));
                assert!(all.iter().enumerate().all(is_right), "{count} {algorithm:?}");

                let mine = world.rank() * count..(world.rank() + 1) * count;
                for at in (0..all.len()).filter(|at| !mine.contains(at)) {
                    all[at] = 0;
                }
                let target = Target::of(&mut all);
                let source = target.part_in_place(world.rank(), size).unwrap();
                let call = Call::Allgather { source, target, datatype: Datatype::U64 };
                world.run(&call, &options).unwrap();
                assert!(all.iter().enumerate().all(is_right), "{count} {algorithm:?} in place");
            }
        }
    });
}

#[test]
fn averages_divide_once() {
    ranks::both("averages_divide_once", 3, |world| {
        for algorithm in ALGORITHMS {
            let source = vec![world.rank() as f32 * 1.5; 1000];
            let mut target = vec![0f32; 1000];
            let what = (Datatype::F32, Op::Avg);
            allreduce(world, &source, &mut target, what, algorithm).unwrap();
            assert!(target.iter().all(|x| *x == 1.5), "{algorithm:?}: {}", target[0]);
        }
    });
}

#[test]
fn allreduce_multi_reduces_all_buffers_of_all_ranks() {
    ranks::both("allreduce_multi_reduces_all_buffers_of_all_ranks", 4, |world| {
        for (buffers, count) in [(1, 10), (2, 1), (4, 10_000), (3, 100_003)] {
            for algorithm in ALGORITHMS {
                let first = buffers * world.rank();
                let mut data: Vec<Vec<f32>> =
                    (0..buffers).map(|i| vec![(first + i) as f32; count]).collect();
                let mut targets: Vec<Target<'_>> =
                    data.iter_mut().map(|buffer| Target::of(buffer)).collect();
                let (datatype, op) = (Datatype::F32, Op::Sum);
                let call = Call::AllreduceMulti { buffers: &mut targets, datatype, op };
                let options = CallOptions { algorithm, ..CallOptions::default() };
                world.run(&call, &options).unwrap();
                let all = buffers * world.size();
                let right = (all * (all - 1) / 2) as f32;
                assert!(data.iter().flatten().all(|x| *x == right), "{buffers} {algorithm:?}");
            }
        }
    });
}

#[test]
fn nobody_leaves_a_barrier_before_the_last_has_come() {
    let name = "nobody_leaves_a_barrier_before_the_last_has_come";
    ranks::processes(name, 4, &ranks::blocking(), &|world: &World| {
        for last in 0..world.size() {
            let mark = format!("came {last}");
            if world.rank() == last {
                thread::sleep(Duration::from_millis(50));
                ranks::mark(&mark);
            }
            world.run(&Call::Barrier, &CallOptions::default()).unwrap();
            assert!(ranks::folder().join(&mark).exists(), "left before rank {last} came");
        }
    });
}

#[test]
fn sums_of_mixed_floats_are_equal_to_the_bit_everywhere_and_every_time() {
    let name = "sums_of_mixed_floats_are_equal_to_the_bit_everywhere_and_every_time";
    ranks::both(name, 5, |world| {
        let value = |at: usize| match (at + world.rank()) % 17 {
            0 => f32::NAN,
            1 => f32::INFINITY,
            k => ((at * 7919 + world.rank() * 104_729) % 1000) as f32 * 10f32.powi(k as i32 - 9),
        };
        let source: Vec<f32> = (0..20_000).map(value).collect();
        for algorithm in ALGORITHMS {
            let mut first = Vec::new();
            for round in 0..3 {
                let mut target = vec![0f32; source.len()];
                let what = (Datatype::F32, Op::Sum);
                allreduce(world, &source, &mut target, what, algorithm).unwrap();
                let bits: Vec<u32> = target.iter().map(|x| x.to_bits()).collect();
                let (mut low, mut high) = (bits.clone(), bits.clone());
                for (buffer, op) in [(&mut low, Op::Min), (&mut high, Op::Max)] {
                    let target = Target::of(buffer);
                    let source = target.in_place();
                    let call = Call::Allreduce { source, target, datatype: Datatype::U32, op };
                    world.run(&call, &CallOptions::default()).unwrap();
                }
                assert!(low == bits && high == bits, "{algorithm:?}: ranks differ");
                if round == 0 {
                    first = bits;
                } else {
                    assert!(first == bits, "{algorithm:?}: runs differ");
                }
            }
        }
    });
}

#[test]
fn requests_complete_in_any_order_of_waiting() {
    ranks::both("requests_complete_in_any_order_of_waiting", 3, |world| {
        let mut buffers: Vec<Vec<u64>> =
            (0..50).map(|i| vec![i + world.rank() as u64; 5000]).collect();
        let mut requests = Vec::new();
        for buffer in buffers.iter_mut() {
            // SAFETY: only the requests use the vectors until they are waited for, which is before the vectors go.
            let target =
                unsafe { Target::from_raw(buffer.as_mut_ptr().cast(), size_of_val(&buffer[..])) };
            let source = target.in_place();
            let call = Call::Allreduce { source, target, datatype: Datatype::U64, op: Op::Sum };
            requests.push(world.start(&call, &CallOptions::default()).unwrap());
        }
        let reverse = world.rank() == 1;
        let order: Vec<usize> = if reverse { (0..50).rev().collect() } else { (0..50).collect() };
        for at in order {
            requests[at].wait().unwrap();
            assert!(buffers[at].iter().all(|x| *x == 3 * at as u64 + 3));
        }
    });
}

#[test]
fn arguments_that_cannot_be_are_refused_and_nothing_happens() {
    ranks::both("arguments_that_cannot_be_are_refused_and_nothing_happens", 2, |world| {
        let refused = |call: Call<'_>| {
            let outcome = world.run(&call, &CallOptions::default());
            assert!(matches!(outcome, Err(Error::InvalidArgument(_))), "{outcome:?}");
        };
        let (short, mut long) = ([0f32; 3], [0f32; 4]);
        let datatype = Datatype::F32;
        let (source, target, op) = (Source::of(&short), Target::of(&mut long), Op::Sum);
        refused(Call::Allreduce { source, target, datatype, op });
        let (source, target, op) = (Source::of(&short[..0]), Target::of(&mut long[..0]), Op::Bxor);
        refused(Call::Allreduce { source, target, datatype, op });
        let (source, target) = (Source::of(&short), Target::of(&mut long));
        refused(Call::Allgather { source, target, datatype });
        let (source, target, op) = (Source::of(&short), Target::of(&mut long), Op::Sum);
        refused(Call::Reduce { source, target, datatype, op, root: 5 });
        refused(Call::Broadcast { buffer: Target::of(&mut long), datatype, root: 2 });
        let op = Op::Sum;
        refused(Call::AllreduceMulti { buffers: &mut [], datatype, op });
        let call = Call::Barrier;
        let options = CallOptions { algorithm: Some(Algorithm::Ring), ..CallOptions::default() };
        assert!(matches!(world.run(&call, &options), Err(Error::InvalidArgument(_))));
        let options = CallOptions { timeout: Timeout::Never, ..CallOptions::default() };
        world.run(&Call::Barrier, &options).unwrap();
    });
}
