//! Groups: several operations that begin together and end as one request.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod ranks;
mod reference;

use std::sync::Barrier;
use std::time::Duration;

use collect::config::Timeout;
use collect::plan::Collective;
use collect::{Batch, Call, CallOptions, Datatype, Error, ForkOptions, Op, Target, World};
use reference::buffers::Prepared;
use reference::calls::{barrier, receive, receive_of, send, send_of, sum};
use reference::case::{Case, InPlace};
use reference::values::mix;

/// Elements of small and of large messages and calls.
const COUNTS: [usize; 4] = [0, 1, 500, 40_000];

/// Vectors whose elements a group has while it exists: nobody else touches them while it is started.
struct Buffers(Vec<Vec<u64>>);

impl Buffers {
    fn new(many: usize, count: usize, value: impl Fn(usize, usize) -> u64) -> Self {
        Self((0..many).map(|at| (0..count).map(|i| value(at, i)).collect()).collect())
    }

    fn lend(&mut self, at: usize) -> &'static mut [u64] {
        let data = &mut self.0[at];
        // SAFETY: the vectors stay until the group has ended; they are looked at between its runs only.
        unsafe { std::slice::from_raw_parts_mut(data.as_mut_ptr(), data.len()) }
    }
}

/// A group of all collectives, each of every count, on several worlds.
fn every_collective(world: &World) {
    let fork = world.fork(&ForkOptions::default()).unwrap();
    // Of the higher ranks, in the opposite order; the others have no part in it.
    let members: Vec<usize> = (1..world.size()).rev().collect();
    let options = ForkOptions { members: Some(members), ..ForkOptions::default() };
    let subset = (world.rank() > 0).then(|| world.fork(&options).unwrap());
    let worlds = [Some(world), Some(&fork), subset.as_ref()];
    let all = Collective::ALL.into_iter().filter(|collective| *collective != Collective::Message);
    let mut cases = Vec::new();
    for (number, collective) in all.enumerate() {
        for (at, count) in COUNTS.into_iter().enumerate() {
            let number = number * COUNTS.len() + at;
            let in_place = [InPlace::Nobody, InPlace::Everybody, InPlace::Some][number % 3];
            let key = number.is_multiple_of(4).then_some(number as u64);
            let op = if number.is_multiple_of(2) { Op::PremulSum } else { Op::Max };
            let op = if collective.reduces() { op } else { Op::Sum };
            let seed = mix(number as u64);
            let datatype = Datatype::ALL[number % 14];
            cases.push(Case {
                datatype,
                op,
                in_place,
                key,
                seed,
                ..Case::plain(collective, count)
            });
        }
    }
    let mut batch = Batch::new();
    let mut all = Vec::new();
    for (number, case) in cases.iter().enumerate() {
        let Some(world) = worlds[number % worlds.len()] else { continue };
        let mut prepared = Box::new(Prepared::new(case, world.size(), world.rank()));
        batch.add(world, &prepared.call(), &case.options(world.rank())).unwrap();
        all.push(prepared);
    }
    for round in 0..5 {
        if round % 2 == 0 {
            batch.run().unwrap();
        } else {
            batch.start().unwrap().wait().unwrap();
        }
        all.iter().for_each(|prepared| prepared.check());
        all.iter_mut().for_each(|prepared| prepared.renew());
    }
}

#[test]
fn every_collective_on_several_worlds_is_one_request() {
    let name = "every_collective_on_several_worlds_is_one_request";
    ranks::both(name, 4, every_collective);
}

#[test]
fn a_group_ends_when_its_last_operation_has() {
    let is_going = Barrier::new(2);
    ranks::threads(2, &ranks::blocking(), &|world: &World| {
        if world.rank() == 1 {
            for tag in [2, 0, 1] {
                is_going.wait();
                send(world, &[tag], 0, tag).unwrap();
            }
            return;
        }
        let mut buffers = Buffers::new(3, 1, |_, _| 9);
        let mut batch = Batch::new();
        for at in 0..3 {
            let call = receive_of(buffers.lend(at), Some(1), at as u64);
            batch.add(world, &call, &CallOptions::default()).unwrap();
        }
        let request = batch.start().unwrap();
        for _ in 0..3 {
            assert_eq!(request.wait_for(Some(Duration::from_millis(10))), None);
            is_going.wait();
        }
        request.wait().unwrap();
        assert_eq!(buffers.0, [[0], [1], [2]]);
    });
}

/// Its operations match those of others one by one: as calls that wait, as requests, or in other groups.
#[test]
fn a_group_meets_calls_that_are_in_none() {
    ranks::both("a_group_meets_calls_that_are_in_none", 3, |world| {
        let options = CallOptions::default();
        for count in COUNTS {
            let cases = [Collective::Allreduce, Collective::Alltoall, Collective::Scan];
            let cases = cases.map(|collective| Case::plain(collective, count));
            let mut all = cases.each_ref().map(|case| Prepared::new(case, 3, world.rank()));
            let mut data = Buffers::new(2, count, |at, _| 7 * at as u64);
            if world.rank() == 1 {
                for (case, prepared) in cases.iter().zip(&mut all) {
                    world.run(&prepared.call(), &case.options(1)).unwrap();
                }
                assert_eq!(receive(world, count, 0, 3), Ok(vec![7u64; count]));
                send(world, &vec![8u64; count], 0, 3).unwrap();
            } else {
                let mut batch = Batch::new();
                for prepared in &mut all {
                    batch.add(world, &prepared.call(), &options).unwrap();
                }
                if world.rank() == 0 {
                    batch.add(world, &send_of(&*data.lend(1), 1, 3), &options).unwrap();
                    batch.add(world, &receive_of(data.lend(0), Some(1), 3), &options).unwrap();
                }
                batch.run().unwrap();
                assert!(world.rank() == 2 || data.0[0].iter().all(|x| *x == 8), "{count}");
            }
            all.iter().for_each(Prepared::check);
        }
    });
}

/// Each rank exchanges with both neighbours: no order of single calls would do.
#[test]
fn groups_of_messages_go_round_a_ring() {
    ranks::both("groups_of_messages_go_round_a_ring", 4, |world| {
        let (rank, size) = (world.rank(), world.size());
        let (above, below) = ((rank + 1) % size, (rank + size - 1) % size);
        for count in COUNTS {
            let value = |rank: usize, at: usize, i: usize| mix((rank * 2 + at) as u64) ^ i as u64;
            let mut sent = Buffers::new(2, count, |at, i| value(rank, at, i));
            let mut got = Buffers::new(2, count, |_, _| 0);
            let mut batch = Batch::new();
            let options = CallOptions::default();
            for (at, to, from) in [(0, above, below), (1, below, above)] {
                let tag = at as u64;
                batch.add(world, &send_of(&*sent.lend(at), to, tag), &options).unwrap();
                batch.add(world, &receive_of(got.lend(at), Some(from), tag), &options).unwrap();
            }
            let right = Buffers::new(2, count, |at, i| value([below, above][at], at, i)).0;
            for _ in 0..50 {
                batch.start().unwrap().wait().unwrap();
                assert!(got.0 == right, "{count}");
                got.0.iter_mut().for_each(|data| data.fill(1));
            }
        }
    });
}

/// Each operation has a factor of its own, and each run multiplies what the buffers hold then.
#[test]
fn a_group_of_multiplied_sums_multiplies_in_every_run() {
    ranks::both("a_group_of_multiplied_sums_multiplies_in_every_run", 3, |world| {
        let rank = world.rank();
        for count in COUNTS {
            let mut data = Buffers::new(4, count, |at, i| (at + i + rank) as u64);
            let mut batch = Batch::new();
            for at in 0..4 {
                let target = Target::of(data.lend(at));
                let (source, datatype, op) = (target.in_place(), Datatype::U64, Op::PremulSum);
                let call = Call::Allreduce { source, target, datatype, op };
                let factor = (rank * 4 + at + 1) as f64;
                batch.add(world, &call, &CallOptions { factor, ..CallOptions::default() }).unwrap();
            }
            let factor = |rank: usize, at: usize| (rank * 4 + at + 1) as u64;
            let mut right: Vec<Vec<u64>> = (0..4)
                .map(|at| {
                    let sum = |i: usize| (0..3).map(|r| factor(r, at) * (at + i + r) as u64).sum();
                    (0..count).map(sum).collect()
                })
                .collect();
            for _ in 0..3 {
                batch.run().unwrap();
                assert!(data.0 == right, "{count}");
                for (at, right) in right.iter_mut().enumerate() {
                    let all: u64 = (0..3).map(|rank| factor(rank, at)).sum();
                    right.iter_mut().for_each(|x| *x = x.wrapping_mul(all));
                }
            }
        }
    });
}

/// One world fails; what a group does on another one goes on, and the group has the error.
#[test]
fn a_part_that_fails_fails_the_group_and_its_world_only() {
    ranks::threads(2, &ranks::blocking(), &|world: &World| {
        let fork = world.fork(&ForkOptions::default()).unwrap();
        let mut data = Buffers::new(2, 3, |_, _| 1 + world.rank() as u64);
        let mut batch = Batch::new();
        // The counts differ on the fork.
        let counts = [2 + world.rank(), 3];
        for (at, world) in [&fork, world].into_iter().enumerate() {
            let target = Target::of(&mut data.lend(at)[..counts[at]]);
            let (source, datatype, op) = (target.in_place(), Datatype::U64, Op::Sum);
            let call = Call::Allreduce { source, target, datatype, op };
            batch.add(world, &call, &CallOptions::default()).unwrap();
        }
        let error = batch.start().unwrap().wait().unwrap_err();
        assert!(matches!(error, Error::Mismatch(_)), "{error:?}");
        assert_eq!(data.0[1], [3; 3], "the other part is complete");
        assert_eq!((fork.error(), world.error()), (Some(error.clone()), None));
        // It cannot begin again, and nothing of it does.
        assert_eq!(batch.run(), Err(error.clone()));
        assert_eq!(batch.start().unwrap_err(), error);
        assert_eq!(data.0[1], [3; 3]);
        barrier(world).unwrap();
        sum(world, &mut [1], &CallOptions::default()).unwrap();
    });
}

/// The deadline of a part that nobody answers ends the group.
#[test]
fn a_part_that_is_late_fails_the_group() {
    let is_over = Barrier::new(2);
    ranks::threads(2, &ranks::blocking(), &|world: &World| {
        let fork = world.fork(&ForkOptions::default()).unwrap();
        if world.rank() == 1 {
            send(world, &[5u64], 0, 1).unwrap();
            is_over.wait();
            return assert!(matches!(barrier(&fork), Err(Error::TimedOut { .. })));
        }
        let mut data = Buffers::new(2, 1, |_, _| 0);
        let mut batch = Batch::new();
        let timeout = Timeout::After(Duration::from_millis(100));
        let options = CallOptions { timeout, ..CallOptions::default() };
        batch.add(&fork, &receive_of(data.lend(0), Some(1), 1), &options).unwrap();
        batch.add(world, &receive_of(data.lend(1), Some(1), 1), &CallOptions::default()).unwrap();
        let error = batch.run().unwrap_err();
        assert!(
            matches!(&error, Error::TimedOut { text, .. } if text.contains("tag 1")),
            "{error:?}"
        );
        assert_eq!((data.0[1][0], world.error()), (5, None));
        is_over.wait();
    });
}

/// A group keeps its worlds, and its request outlives it.
#[test]
fn handles_may_go_before_the_group_has_ended() {
    ranks::both("handles_may_go_before_the_group_has_ended", 2, |world| {
        for _ in 0..20 {
            let fork = world.fork(&ForkOptions::default()).unwrap();
            let mut data = Buffers::new(2, 40_000, |_, _| 1);
            let group = |world: &World, data: &mut Buffers| {
                let mut batch = Batch::new();
                for at in 0..2 {
                    let target = Target::of(data.lend(at));
                    let (source, datatype, op) = (target.in_place(), Datatype::U64, Op::Sum);
                    let call = Call::Allreduce { source, target, datatype, op };
                    batch.add(world, &call, &CallOptions::default()).unwrap();
                }
                batch
            };
            let mut batch = group(&fork, &mut data);
            drop(fork);
            batch.run().unwrap();
            assert!(data.0.iter().flatten().all(|x| *x == 2));
            let mut batch = group(world, &mut data);
            let request = batch.start().unwrap();
            drop(batch);
            request.wait().unwrap();
            assert!(data.0.iter().flatten().all(|x| *x == 4));
        }
    });
}
