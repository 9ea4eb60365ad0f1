//! Keyed operations: equal keys match, whatever the order of the calls, and a key may be used again and again.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod ranks;
mod reference;

use std::sync::Barrier;
use std::thread;

use collect::plan::Collective;
use collect::{
    Call, CallOptions, Datatype, Error, ForkOptions, Op, Request, Source, Target, World,
};
use reference::buffers::Prepared;
use reference::case::{Case, InPlace};
use reference::values::mix;

/// Threads of each rank, the keyed operations of each, and how often all of them are done.
const THREADS: usize = 8;
const OPERATIONS: usize = 200;
const ROUNDS: usize = 5;

/// The keys, the same in every round: numbers from everywhere, and both ends.
fn key(number: usize) -> u64 {
    match number {
        0 => 0,
        1 => u64::MAX,
        _ => mix(number as u64),
    }
}

/// Some call, always the same for a number.
fn some_case(number: u64, size: usize) -> Case {
    let random = mix(number);
    let choose = |at: u64, many: usize| (mix(random ^ at) % many as u64) as usize;
    const COLLECTIVES: [Collective; 10] = [
        Collective::Allreduce,
        Collective::Broadcast,
        Collective::Barrier,
        Collective::Reduce,
        Collective::Allgatherv,
        Collective::Scatter,
        Collective::ReduceScatter,
        Collective::Alltoallv,
        Collective::Scan,
        Collective::Gatherv,
    ];
    let count = [0, 1, 9, 100, 1000, 1000, 9000, 20_000][choose(1, 8)];
    Case {
        datatype: [Datatype::I32, Datatype::F32, Datatype::U8][choose(2, 3)],
        op: [Op::Sum, Op::Max][choose(3, 2)],
        root: choose(4, size),
        in_place: [InPlace::Nobody, InPlace::Everybody][choose(5, 2)],
        seed: random,
        ..Case::plain(COLLECTIVES[choose(6, COLLECTIVES.len())], count)
    }
}

/// An order of so many things that is different for every seed.
fn shuffled(many: usize, seed: u64) -> Vec<usize> {
    let mut order: Vec<usize> = (0..many).collect();
    order.sort_by_cached_key(|at| mix(seed ^ mix(*at as u64)));
    order
}

/// A call under way.
struct Started {
    prepared: Box<Prepared>,
    request: Request,
}

fn start(world: &World, case: &Case) -> Started {
    let mut prepared = Box::new(Prepared::new(case, world.size(), world.rank()));
    let request = world.start(&prepared.call(), &case.options(world.rank())).unwrap();
    Started { prepared, request }
}

/// One thread's share of a round: starts all, and waits in another order.
fn share(world: &World, round: usize, numbers: &[usize]) {
    let case = |number: usize| {
        let (key, unique) = (key(number), (round * THREADS * OPERATIONS + number) as u64);
        Case { key: Some(key), ..some_case(unique, world.size()) }
    };
    let started: Vec<Started> = numbers.iter().map(|number| start(world, &case(*number))).collect();
    for at in shuffled(numbers.len(), (world.rank() + round) as u64) {
        let Started { prepared, request } = &started[at];
        request.wait().unwrap_or_else(|error| panic!("key {}: {error}", key(numbers[at])));
        prepared.check();
    }
}

/// Ordered calls of one thread, which go on meanwhile.
fn ordered(world: &World, calls: u64) {
    for number in 0..calls {
        let started = start(world, &some_case(number << 32, world.size()));
        started.request.wait().unwrap();
        started.prepared.check();
    }
}

fn eight_threads(world: &World) {
    let fork = world.fork(&ForkOptions::default()).unwrap();
    thread::scope(|scope| {
        let others = [scope.spawn(|| ordered(world, 500)), scope.spawn(|| ordered(&fork, 500))];
        for round in 0..ROUNDS {
            let order = shuffled(THREADS * OPERATIONS, (round * 100 + world.rank()) as u64);
            thread::scope(|scope| {
                let run = |numbers| scope.spawn(move || share(world, round, numbers));
                ranks::join(order.chunks(OPERATIONS).map(run).collect());
            });
        }
        ranks::join(others.into_iter().collect());
    });
}

#[test]
fn eight_threads_of_each_rank_submit_in_different_orders() {
    ranks::both("eight_threads_of_each_rank_submit_in_different_orders", 3, eight_threads);
}

fn sum(world: &World, value: u64, key: u64) -> Result<u64, Error> {
    let mut values = [value];
    let target = Target::of(&mut values);
    let (source, datatype, op) = (target.in_place(), Datatype::U64, Op::Sum);
    let call = Call::Allreduce { source, target, datatype, op };
    world.run(&call, &CallOptions { key: Some(key), ..CallOptions::default() })?;
    Ok(values[0])
}

#[test]
fn the_uses_of_a_key_match_in_their_order() {
    ranks::both("the_uses_of_a_key_match_in_their_order", 4, |world| {
        for round in 0..300 {
            for key in [0, u64::MAX] {
                let value = round * 10 + key % 2 + world.rank() as u64;
                assert_eq!(sum(world, value, key), Ok(4 * (round * 10 + key % 2) + 6));
            }
        }
    });
}

/// The root of a small broadcast is through at once, and uses its key again before the others have called.
#[test]
fn a_key_is_used_again_before_others_have_used_it_once() {
    const USES: u64 = 400;
    let is_through = Barrier::new(3);
    ranks::threads(3, &ranks::blocking(), &|world: &World| {
        let broadcast = |value: u64| {
            let mut values = [value];
            let (buffer, datatype) = (Target::of(&mut values), Datatype::U64);
            let options = CallOptions { key: Some(77), ..CallOptions::default() };
            world.run(&Call::Broadcast { buffer, datatype, root: 1 }, &options).unwrap();
            values[0]
        };
        if world.rank() == 1 {
            (0..USES).for_each(|value| assert_eq!(broadcast(value), value));
            is_through.wait();
        } else {
            is_through.wait();
            (0..USES).for_each(|value| assert_eq!(broadcast(0), value));
        }
    });
}

#[test]
fn a_key_in_use_is_refused_and_the_world_stays_whole() {
    let was_refused = Barrier::new(2);
    ranks::threads(2, &ranks::blocking(), &|world: &World| {
        for key in [0, 5, u64::MAX] {
            if world.rank() == 1 {
                was_refused.wait();
                assert_eq!(sum(world, 2, key), Ok(3));
                continue;
            }
            let case = Case { key: Some(key), ..Case::plain(Collective::Allreduce, 1) };
            let mut first = [1u64];
            // SAFETY: the array stays until the request has ended, and nobody else uses it before.
            let target = unsafe { Target::from_raw(first.as_mut_ptr().cast(), 8) };
            let (source, datatype, op) = (target.in_place(), Datatype::U64, Op::Sum);
            let call = Call::Allreduce { source, target, datatype, op };
            let request = world.start(&call, &case.options(0)).unwrap();
            let refused = sum(world, 1, key).unwrap_err();
            let text = refused.to_string();
            assert!(matches!(refused, Error::InvalidArgument(_)), "{refused:?}");
            assert!(text.contains(&format!("key {key}")), "{text}");
            // Another key is free meanwhile, and so are calls without one.
            was_refused.wait();
            request.wait().unwrap();
            assert_eq!(first, [3]);
        }
        assert_eq!(world.error(), None);
        world.run(&Call::Barrier, &CallOptions::default()).unwrap();
        assert_eq!(sum(world, 1, 5), Ok(2));
    });
}

#[test]
fn different_calls_under_one_key_are_a_mismatch_with_both_sides_and_the_key() {
    let name = "different_calls_under_one_key_are_a_mismatch_with_both_sides_and_the_key";
    ranks::both(name, 2, |world| {
        for key in [0, 42, u64::MAX] {
            let fork = world.fork(&ForkOptions::default()).unwrap();
            let mut data = [1f32; 10];
            let options = CallOptions { key: Some(key), ..CallOptions::default() };
            let outcome = if world.rank() == 0 {
                let target = Target::of(&mut data);
                let (source, datatype, op) = (target.in_place(), Datatype::F32, Op::Sum);
                fork.run(&Call::Allreduce { source, target, datatype, op }, &options)
            } else {
                let (buffer, datatype) = (Target::of(&mut data), Datatype::F32);
                fork.run(&Call::Broadcast { buffer, datatype, root: 0 }, &options)
            };
            let error = outcome.unwrap_err();
            let text = error.to_string();
            assert!(matches!(error, Error::Mismatch(_)), "{error:?}");
            assert!(text.contains(&format!("key {key}")), "{text}");
            assert!(text.contains("rank 0 called allreduce(f32, 10, sum)"), "{text}");
            assert!(text.contains("rank 1 called broadcast(f32, 10, root 0)"), "{text}");
            assert_eq!(fork.error(), Some(error));
        }
        // Counts that differ under one key, too.
        let fork = world.fork(&ForkOptions::default()).unwrap();
        let (input, mut output) = ([0u64; 3], [0u64; 3]);
        let count = 2 + world.rank();
        let (source, target) = (Source::of(&input[..count]), Target::of(&mut output[..count]));
        let (datatype, op) = (Datatype::U64, Op::Max);
        let options = CallOptions { key: Some(9), ..CallOptions::default() };
        let error =
            fork.run(&Call::Allreduce { source, target, datatype, op }, &options).unwrap_err();
        let text = error.to_string();
        let names_both =
            text.contains("allreduce(u64, 2, max)") && text.contains("allreduce(u64, 3, max)");
        assert!(matches!(error, Error::Mismatch(_)) && names_both, "{text}");
        assert_eq!(world.error(), None);
    });
}

#[test]
fn a_message_takes_no_key() {
    ranks::threads(1, &ranks::options(), &|world: &World| {
        let options = CallOptions { key: Some(1), ..CallOptions::default() };
        let (source, datatype) = (Source::of(&[1u8]), Datatype::U8);
        let outcome = world.run(&Call::Send { source, datatype, to: 0, tag: 1 }, &options);
        assert!(matches!(outcome, Err(Error::InvalidArgument(_))), "{outcome:?}");
        assert_eq!(world.error(), None);
    });
}
