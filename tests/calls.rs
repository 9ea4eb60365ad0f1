//! How calls are made: every new collective once with counts and displacements, messages, keys, batches, factors and a
//! caller's own reduction, over worlds of threads.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod ranks;

use std::sync::Arc;
use std::thread;

use collect::{
    Algorithm, Batch, Call, CallOptions, Custom, Datatype, Error, ForkOptions, Op, Source, Target,
    World,
};
use ranks::{options, threads};

const I64: Datatype = Datatype::I64;

const SIZES: [usize; 4] = [1, 2, 3, 5];

fn plain() -> CallOptions {
    CallOptions::default()
}

/// What rank `rank` has at `index`.
fn value(rank: usize, index: usize) -> i64 {
    (1000 * rank + index) as i64
}

/// `count` elements of a rank.
fn values(rank: usize, count: usize) -> Vec<i64> {
    (0..count).map(|index| value(rank, index)).collect()
}

/// A rank's own length.
fn length(rank: usize) -> usize {
    if rank == 1 { 0 } else { 2 * rank + 1 }
}

/// Lengths of all ranks, and places with gaps, the last rank's first.
fn layout(size: usize) -> (Vec<usize>, Vec<usize>, usize) {
    let counts: Vec<usize> = (0..size).map(length).collect();
    let mut places = vec![0; size];
    let mut end = 1;
    for rank in (0..size).rev() {
        places[rank] = end;
        end += counts[rank] + 1;
    }
    (counts, places, end)
}

fn on_worlds(body: impl Fn(&World) + Sync) {
    for size in SIZES {
        threads(size, &options(), &body);
    }
}

#[test]
fn gathers_put_each_part_in_its_place_and_touch_nothing_else() {
    on_worlds(|world| {
        let (counts, places, end) = layout(world.size());
        let mine = values(world.rank(), length(world.rank()));
        let mut expected = vec![-1; end];
        for rank in 0..world.size() {
            expected[places[rank]..][..counts[rank]].copy_from_slice(&values(rank, counts[rank]));
        }
        for root in 0..world.size() {
            let mut all = vec![-1; end];
            let (source, target) = (Source::of(&mine), Target::of(&mut all));
            let (counts, displacements, datatype) = (&counts[..], Some(&places[..]), I64);
            let call = Call::Gatherv { source, target, counts, displacements, datatype, root };
            world.run(&call, &plain()).unwrap();
            let is_root = world.rank() == root;
            assert_eq!(all, if is_root { expected.clone() } else { vec![-1; end] });
        }
        let mut all = vec![-1; end];
        let (source, target) = (Source::of(&mine), Target::of(&mut all));
        let (counts, displacements, datatype) = (&counts[..], Some(&places[..]), I64);
        let call = Call::Allgatherv { source, target, counts, displacements, datatype };
        world.run(&call, &plain()).unwrap();
        assert_eq!(all, expected);
    });
}

#[test]
fn scatters_cut_by_counts_and_displacements() {
    on_worlds(|world| {
        let (counts, places, end) = layout(world.size());
        for root in 0..world.size() {
            let all = if world.rank() == root { values(7, end) } else { vec![] };
            let mut mine = vec![-1; length(world.rank())];
            let (source, target) = (Source::of(&all), Target::of(&mut mine));
            let (counts, displacements, datatype) = (&counts[..], Some(&places[..]), I64);
            let call = Call::Scatterv { source, target, counts, displacements, datatype, root };
            world.run(&call, &plain()).unwrap();
            let expected = (0..mine.len()).map(|at| value(7, places[world.rank()] + at));
            assert_eq!(mine, expected.collect::<Vec<_>>());
        }
    });
}

#[test]
fn parts_of_one_length_are_gathered_scattered_and_exchanged() {
    on_worlds(|world| {
        let (rank, size, datatype, root) = (world.rank(), world.size(), I64, world.size() - 1);
        let (mut all, mine) = (vec![-1; 3 * size], values(rank, 3));
        let (source, target) = (Source::of(&mine), Target::of(&mut all));
        world.run(&Call::Gather { source, target, datatype, root }, &plain()).unwrap();
        let gathered: Vec<i64> = (0..size).flat_map(|rank| values(rank, 3)).collect();
        assert!(rank != root || all == gathered);

        let mut back = vec![-1; 3];
        let (source, target) = (Source::of(&all), Target::of(&mut back));
        world.run(&Call::Scatter { source, target, datatype, root }, &plain()).unwrap();
        assert_eq!(back, mine);

        let (send, mut received) = (values(rank, 2 * size), vec![-1; 2 * size]);
        let (source, target) = (Source::of(&send), Target::of(&mut received));
        world.run(&Call::Alltoall { source, target, datatype }, &plain()).unwrap();
        let from = |other: usize| [value(other, 2 * rank), value(other, 2 * rank + 1)];
        assert_eq!(received, (0..size).flat_map(from).collect::<Vec<_>>());

        let mut both = send.clone();
        let target = Target::of(&mut both);
        let source = target.in_place();
        world.run(&Call::Alltoall { source, target, datatype }, &plain()).unwrap();
        assert_eq!(both, received);
    });
}

#[test]
fn exchanges_take_what_each_pair_agrees_on() {
    on_worlds(|world| {
        let (rank, size) = (world.rank(), world.size());
        // From i to j go (i + 2j) mod 4 elements.
        let send_counts: Vec<usize> = (0..size).map(|to| (rank + 2 * to) % 4).collect();
        let receive_counts: Vec<usize> = (0..size).map(|from| (from + 2 * rank) % 4).collect();
        let send = values(rank, 4);
        let mut received = vec![-1; receive_counts.iter().sum()];
        // What is sent is the same beginning for everybody.
        let call = Call::Alltoallv {
            source: Source::of(&send),
            send_counts: &send_counts,
            send_displacements: Some(&vec![0; size]),
            target: Target::of(&mut received),
            receive_counts: &receive_counts,
            receive_displacements: None,
            datatype: I64,
        };
        world.run(&call, &plain()).unwrap();
        let expected = (0..size).flat_map(|from| values(from, receive_counts[from]));
        assert_eq!(received, expected.collect::<Vec<_>>());
    });
}

#[test]
fn reductions_are_cut_and_scanned() {
    on_worlds(|world| {
        let (rank, size, datatype, op) = (world.rank(), world.size(), I64, Op::Sum);
        let sum = |ranks: std::ops::Range<usize>, index| -> i64 {
            ranks.map(|rank| value(rank, index)).sum()
        };
        let counts: Vec<usize> = (0..size).map(length).collect();
        let start: usize = counts[..rank].iter().sum();
        let all = values(rank, counts.iter().sum());
        let mut mine = vec![-1; length(rank)];
        let (source, target) = (Source::of(&all), Target::of(&mut mine));
        let call = Call::ReduceScatterv { source, target, counts: &counts, datatype, op };
        world.run(&call, &plain()).unwrap();
        let part = |start: usize, count: usize| -> Vec<i64> {
            (start..start + count).map(|index| sum(0..size, index)).collect()
        };
        assert_eq!(mine, part(start, length(rank)));

        let (all, mut mine) = (values(rank, 4 * size), vec![-1; 4]);
        let (source, target) = (Source::of(&all), Target::of(&mut mine));
        world.run(&Call::ReduceScatter { source, target, datatype, op }, &plain()).unwrap();
        assert_eq!(mine, part(4 * rank, 4));

        let (send, mut up) = (values(rank, 3), vec![-1; 3]);
        let (source, target) = (Source::of(&send), Target::of(&mut up));
        world.run(&Call::Scan { source, target, datatype, op }, &plain()).unwrap();
        assert_eq!(up, (0..3).map(|index| sum(0..rank + 1, index)).collect::<Vec<_>>());

        let mut before = vec![-1; 3];
        let (source, target) = (Source::of(&send), Target::of(&mut before));
        world.run(&Call::Exscan { source, target, datatype, op }, &plain()).unwrap();
        let expected = |index| if rank == 0 { -1 } else { sum(0..rank, index) };
        assert_eq!(before, (0..3).map(expected).collect::<Vec<_>>());
    });
}

#[test]
fn a_ring_passes_messages_on() {
    on_worlds(|world| {
        let (rank, size) = (world.rank(), world.size());
        for count in [0, 1, 100_000] {
            let (mine, mut theirs) = (values(rank, count), vec![-1; count]);
            let (source, target, datatype) = (Source::of(&mine), Target::of(&mut theirs), I64);
            let send = Call::Send { source, datatype, to: (rank + 1) % size, tag: 9 };
            let from = Some((rank + size - 1) % size);
            let receive = Call::Receive { target, datatype, from, tag: 9 };
            world.sendrecv(&send, &receive, &plain()).unwrap();
            assert_eq!(theirs, values((rank + size - 1) % size, count));
        }
    });
}

#[test]
fn messages_from_anybody_are_all_received() {
    threads(4, &options(), &|world| {
        let datatype = I64;
        if world.rank() > 0 {
            let mine = [value(world.rank(), 0)];
            let call = Call::Send { source: Source::of(&mine), datatype, to: 0, tag: 1 };
            return world.run(&call, &plain()).unwrap();
        }
        let mut seen = Vec::new();
        for _ in 1..4 {
            let mut buffer = [-1];
            let target = Target::of(&mut buffer);
            let call = Call::Receive { target, datatype, from: None, tag: 1 };
            world.run(&call, &plain()).unwrap();
            seen.push(buffer[0]);
        }
        seen.sort_unstable();
        assert_eq!(seen, [value(1, 0), value(2, 0), value(3, 0)]);
    });
}

#[test]
fn keys_match_threads_without_an_order() {
    const KEYS: u64 = 8;
    const ROUNDS: i64 = 20;
    threads(3, &options(), &|world| {
        let job = |key: u64| {
            let options = CallOptions { key: Some(key), ..plain() };
            for round in 0..ROUNDS {
                let mut sum = [key as i64 * 100 + round];
                let target = Target::of(&mut sum);
                let source = target.in_place();
                let call = Call::Allreduce { source, target, datatype: I64, op: Op::Sum };
                world.run(&call, &options).unwrap();
                assert_eq!(sum, [3 * (key as i64 * 100 + round)]);
            }
        };
        thread::scope(|scope| {
            // Each rank starts its threads in another order.
            let keys = (0..KEYS).map(|at| (at * 3 + world.rank() as u64 * 5) % KEYS);
            ranks::join(keys.map(|key| scope.spawn(move || job(key))).collect());
        });
    });
}

#[test]
fn keyed_forks_match_whatever_their_order() {
    threads(3, &options(), &|world| {
        let fork = |key: u64| {
            let options = ForkOptions { key: Some(key), ..ForkOptions::default() };
            let fork = world.fork(&options).unwrap();
            let mut sum = [key as i64];
            let target = Target::of(&mut sum);
            let source = target.in_place();
            let call = Call::Allreduce { source, target, datatype: I64, op: Op::Max };
            fork.run(&call, &plain()).unwrap();
            assert_eq!(sum, [key as i64]);
        };
        thread::scope(|scope| {
            let keys = (0..6).map(|at| (at + 2 * world.rank() as u64) % 6);
            ranks::join(keys.map(|key| scope.spawn(move || fork(key))).collect());
        });
    });
}

#[test]
fn a_batch_runs_again_and_again_with_what_the_buffers_hold() {
    threads(3, &options(), &|world| {
        let fork = world.fork(&ForkOptions::default()).unwrap();
        // Given back at the end.
        let buffer = |value: i64| Box::into_raw(Box::new([value; 4])).cast::<u8>();
        let (first, second) = (buffer(1), buffer(2));
        // SAFETY: the memory is there until the batch is gone, and is looked at between two runs only.
        let target = |start: *mut u8| unsafe { Target::from_raw(start, 32) };
        // SAFETY: as above.
        let at = |start: *mut u8| unsafe { *start.cast::<[i64; 4]>() };
        let mut batch = Batch::new();
        for (world, start) in [(world, first), (&fork, second)] {
            let target = target(start);
            let source = target.in_place();
            let call = Call::Allreduce { source, target, datatype: I64, op: Op::Sum };
            batch.add(world, &call, &plain()).unwrap();
        }
        batch.add(world, &Call::Barrier, &plain()).unwrap();
        for round in 1..5 {
            let request = batch.start().unwrap();
            assert_eq!(request.wait(), Ok(()));
            let power = 3i64.pow(round);
            assert_eq!((at(first), at(second)), ([power; 4], [2 * power; 4]));
        }
        batch.run().unwrap();
        assert_eq!(at(first), [243; 4]);
        drop(batch);
        for start in [first, second] {
            // SAFETY: it came from a box of this type, and nobody uses it any more.
            drop(unsafe { Box::from_raw(start.cast::<[i64; 4]>()) });
        }
    });
}

#[test]
fn a_batch_is_started_once_at_a_time_and_only_with_operations() {
    threads(2, &options(), &|world| {
        let mut batch = Batch::new();
        let text = batch.run().unwrap_err().to_string();
        assert!(text.contains("without operations"), "{text}");
        let other = World::create(&collect::store::HashStore::new(), 0, 1, &options()).unwrap();
        batch.add(world, &Call::Barrier, &plain()).unwrap();
        let text = batch.add(&other, &Call::Barrier, &plain()).unwrap_err().to_string();
        assert!(text.contains("were not forked from each other"), "{text}");
        if world.rank() == 0 {
            let request = batch.start().unwrap();
            let text = batch.start().unwrap_err().to_string();
            assert!(text.contains("has not ended"), "{text}");
            drop(request);
            assert!(matches!(batch.run(), Err(Error::InvalidArgument(_))));
            // Only now does the other rank come.
            let go = [1i64];
            let call = Call::Send { source: Source::of(&go), datatype: I64, to: 1, tag: 0 };
            world.run(&call, &plain()).unwrap();
            world.run(&Call::Barrier, &plain()).unwrap();
            batch.run().unwrap();
        } else {
            let mut go = [0i64];
            let target = Target::of(&mut go);
            let call = Call::Receive { target, datatype: I64, from: Some(0), tag: 0 };
            world.run(&call, &plain()).unwrap();
            batch.run().unwrap();
            world.run(&Call::Barrier, &plain()).unwrap();
            batch.run().unwrap();
        }
        world.abort("the end").unwrap();
        assert!(matches!(batch.run(), Err(Error::Aborted(_))));
    });
}

#[test]
fn elements_are_multiplied_by_each_ranks_factor() {
    on_worlds(|world| {
        let (rank, size) = (world.rank(), world.size());
        let options = CallOptions { factor: (rank + 1) as f64, ..plain() };
        let (datatype, op) = (I64, Op::PremulSum);
        let product = |rank: usize, index: usize| (rank as i64 + 1) * value(rank, index);
        let sum = |until: usize, index: usize| -> i64 {
            (0..until).map(|rank| product(rank, index)).sum()
        };
        let sums = |until: usize, indexes: std::ops::Range<usize>| -> Vec<i64> {
            indexes.map(|index| sum(until, index)).collect()
        };
        let send = values(rank, 2 * size);
        for root in 0..size {
            let mut recv = vec![-1; 2 * size];
            let (source, target) = (Source::of(&send), Target::of(&mut recv));
            let call = Call::Reduce { source, target, datatype, op, root };
            world.run(&call, &options).unwrap();
            let expected = if rank == root { sums(size, 0..2 * size) } else { vec![-1; 2 * size] };
            assert_eq!(recv, expected);
        }
        let mut recv = vec![-1; 2 * size];
        let (source, target) = (Source::of(&send), Target::of(&mut recv));
        world.run(&Call::Allreduce { source, target, datatype, op }, &options).unwrap();
        assert_eq!(recv, sums(size, 0..2 * size));
        let mut part = vec![-1; 2];
        let (source, target) = (Source::of(&send), Target::of(&mut part));
        world.run(&Call::ReduceScatter { source, target, datatype, op }, &options).unwrap();
        assert_eq!(part, sums(size, 2 * rank..2 * rank + 2));
        let mut before = vec![-1; 2 * size];
        let (source, target) = (Source::of(&send), Target::of(&mut before));
        world.run(&Call::Exscan { source, target, datatype, op }, &options).unwrap();
        assert_eq!(before, if rank == 0 { vec![-1; 2 * size] } else { sums(rank, 0..2 * size) });
        assert_eq!(send, values(rank, 2 * size), "what is sent is not changed");
    });
}

/// Composition of affine maps x -> a x + b over i64 pairs: associative, and does not commute.
fn compose(left: &[u8], right: &[u8], result: &mut [u8]) {
    let number = |bytes: &[u8]| i64::from_le_bytes(bytes.try_into().unwrap());
    for ((left, right), result) in left.chunks(16).zip(right.chunks(16)).zip(result.chunks_mut(16))
    {
        let (a, b) = (number(&left[..8]), number(&left[8..]));
        let (c, d) = (number(&right[..8]), number(&right[8..]));
        result[..8].copy_from_slice(&a.wrapping_mul(c).to_le_bytes());
        result[8..].copy_from_slice(&b.wrapping_mul(c).wrapping_add(d).to_le_bytes());
    }
}

#[test]
fn a_reduction_that_does_not_commute_is_done_in_rank_order() {
    on_worlds(|world| {
        let custom = Arc::new(Custom::new(16, false, compose).unwrap());
        let map = |rank: usize| [rank as i64 + 2, 3 * rank as i64 + 1];
        let apply = |x: i64, map: [i64; 2]| x.wrapping_mul(map[0]).wrapping_add(map[1]);
        let expected = |x: i64| (0..world.size()).fold(x, |x, rank| apply(x, map(rank)));
        let ordered = [None, Some(Algorithm::Direct), Some(Algorithm::Doubling)];
        for algorithm in ordered {
            let options = CallOptions { algorithm, custom: Some(Arc::clone(&custom)), ..plain() };
            let send: Vec<i64> = (0..50).flat_map(|_| map(world.rank())).collect();
            let mut recv = vec![0; 100];
            let (source, target) = (Source::of(&send), Target::of(&mut recv));
            let (datatype, op) = (Datatype::U8, Op::Custom);
            let call = Call::Allreduce { source, target, datatype, op };
            world.run(&call, &options).unwrap();
            for composed in recv.chunks_exact(2) {
                assert_eq!(apply(5, [composed[0], composed[1]]), expected(5));
            }
        }
        let options =
            CallOptions { algorithm: Some(Algorithm::Ring), custom: Some(custom), ..plain() };
        let mut recv = vec![0i64; 2];
        let target = Target::of(&mut recv);
        let source = target.in_place();
        let call = Call::Allreduce { source, target, datatype: Datatype::U8, op: Op::Custom };
        let text = world.run(&call, &options).unwrap_err().to_string();
        assert!(text.contains("in rank order"), "{text}");
    });
}
