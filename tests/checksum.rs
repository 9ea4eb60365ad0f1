//! Worlds whose payload carries checksums: every collective gives what it gives without, and ranks must agree on it.
//!
//! That altered bytes are found is shown where bytes can be altered: on the simulated link (`src/engine/tests`), and
//! between processes (`tests/faults`).
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod ranks;
mod reference;

use std::sync::Arc;
use std::thread;

use collect::plan::Collective;
use collect::store::{HashStore, Store};
use collect::{Algorithm, Call, CallOptions, Datatype, Error, ForkOptions, Op, Source, Target};
use collect::{World, WorldOptions};
use reference::buffers::Prepared;
use reference::calls::{Lent, barrier, receive, send};
use reference::case::{Case, InPlace};

fn options() -> WorldOptions {
    WorldOptions { checksum: true, ..ranks::blocking() }
}

/// Makes one call, and checks every byte of its buffers.
fn try_one(world: &World, case: &Case) {
    let mut prepared = Prepared::new(case, world.size(), world.rank());
    let outcome = world.run(&prepared.call(), &case.options(world.rank()));
    outcome.unwrap_or_else(|error| panic!("rank {}: {error}: {case:?}", world.rank()));
    prepared.check();
}

/// Every collective with so many elements in a block: of one byte, of two that are computed in four, of eight.
fn every_collective(world: &World, count: usize) {
    let all = Collective::ALL.into_iter().filter(|it| *it != Collective::Message);
    for (collective, in_place) in all.flat_map(|it| [(it, InPlace::Nobody), (it, InPlace::Some)]) {
        for (datatype, op) in
            [(Datatype::U8, Op::Sum), (Datatype::Bf16, Op::Max), (Datatype::U64, Op::Sum)]
        {
            let case = Case { datatype, op, in_place, ..Case::plain(collective, count) };
            try_one(world, &Case { root: count % world.size(), shift: count % 3, ..case });
        }
    }
}

/// What an allreduce of floats that do not add up exactly gives.
fn floats(world: &World, count: usize, algorithm: Algorithm) -> Vec<u32> {
    let source: Vec<f32> =
        (0..count).map(|at| 0.1 + (at * 7 + world.rank()) as f32 / 3.0).collect();
    let mut target = vec![0f32; count];
    let (input, output) = (Source::of(&source), Target::of(&mut target));
    let call =
        Call::Allreduce { source: input, target: output, datatype: Datatype::F32, op: Op::Sum };
    let options = CallOptions { algorithm: Some(algorithm), ..CallOptions::default() };
    world.run(&call, &options).unwrap();
    target.into_iter().map(f32::to_bits).collect()
}

#[test]
fn every_collective_is_right_in_a_world_and_its_fork() {
    for size in [1, 2, 3, 5] {
        ranks::threads(size, &options(), &|world: &World| {
            for count in [0, 1, 1_000, 40_000] {
                every_collective(world, count);
            }
            let fork = world.fork(&ForkOptions::default()).unwrap();
            let members = Some(vec![size - 1, 0][..size.min(2)].to_vec());
            let few = ForkOptions { members, ..ForkOptions::default() };
            let of_few =
                (world.rank() == 0 || world.rank() == size - 1).then(|| fork.fork(&few).unwrap());
            for count in [1, 1_000] {
                every_collective(&fork, count);
                of_few.iter().for_each(|world| every_collective(world, count));
            }
        });
    }
}

#[test]
fn large_calls_are_right_between_processes() {
    let name = "large_calls_are_right_between_processes";
    ranks::processes(name, 3, &options(), &|world: &World| {
        let all = [Collective::Allreduce, Collective::Broadcast, Collective::Alltoallv];
        for collective in all {
            for (datatype, count) in [(Datatype::F32, 1 << 20), (Datatype::U8, (4 << 20) + 1)] {
                for algorithm in collect::plan::algorithms(collective) {
                    let algorithm = Some(*algorithm);
                    let degree = if algorithm == Some(Algorithm::Knomial) { 3 } else { 0 };
                    let plain = Case::plain(collective, count);
                    try_one(world, &Case { datatype, algorithm, degree, ..plain });
                }
            }
        }
    });
}

#[test]
fn results_have_the_same_bits_as_without() {
    let algorithms = [Algorithm::Ring, Algorithm::Direct, Algorithm::Doubling];
    ranks::threads(4, &options(), &|checked: &World| {
        let fork = checked.fork(&ForkOptions::default()).unwrap();
        for count in [1, 10_000, 1 << 20] {
            for algorithm in algorithms {
                assert_eq!(floats(checked, count, algorithm), floats(&fork, count, algorithm));
            }
        }
    });
    let bits = |options: &WorldOptions| {
        let all = std::sync::Mutex::new(Vec::new());
        ranks::threads(4, options, &|world: &World| {
            let own: Vec<_> = algorithms.map(|it| floats(world, 10_000, it)).to_vec();
            if world.rank() == 0 {
                all.lock().unwrap().extend(own);
            }
        });
        all.into_inner().unwrap()
    };
    assert_eq!(bits(&options()), bits(&ranks::blocking()));
}

#[test]
fn messages_are_right_whatever_their_size() {
    ranks::threads(2, &options(), &|world: &World| {
        for count in [0usize, 1, 100, 40_000, 1 << 20] {
            let data: Vec<u32> = (0..count).map(|at| 3 * at as u32).collect();
            if world.rank() == 0 {
                send(world, &data, 1, 5).unwrap();
                let late: Lent<u32> = Lent::receive(world, count, 1, 6);
                assert_eq!(late.end().unwrap().0, data);
            } else {
                let got: Vec<u32> = receive(world, count, None, 5).unwrap();
                assert_eq!(got, data);
                Lent::send(world, got, 0, 6).end().unwrap();
            }
        }
        // What comes before its receive is called is parked.
        if world.rank() == 0 {
            (0..50u32).for_each(|tag| send(world, &[tag; 9], 1, u64::from(tag)).unwrap());
        }
        barrier(world).unwrap();
        if world.rank() == 1 {
            for tag in (0..50u32).rev() {
                assert_eq!(receive::<u32>(world, 9, 0, u64::from(tag)).unwrap(), [tag; 9]);
            }
        }
    });
}

#[test]
fn ranks_that_disagree_are_refused_and_told_which_option_it_is() {
    for odd in 0..3 {
        let store: Arc<dyn Store> = Arc::new(HashStore::new());
        let create = |rank: usize| {
            let store = Arc::clone(&store);
            let options = WorldOptions { checksum: rank == odd, ..ranks::blocking() };
            thread::spawn(move || World::create(&*store, rank, 3, &options).map(|_| ()))
        };
        let all: Vec<_> = (0..3).map(create).collect();
        for (rank, created) in all.into_iter().enumerate() {
            let error = created.join().unwrap().unwrap_err();
            assert!(matches!(error, Error::Mismatch(_)), "rank {rank}: {error:?}");
            assert!(error.to_string().contains("checksum"), "rank {rank}: {error}");
        }
    }
}
