//! Worlds: creation, forks, failure that is told to all, and what holds for siblings.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod ranks;

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use collect::config::{Connect, Timeout};
use collect::store::{CountingStore, FileStore, HashStore, Store, TcpServer, TcpStore};
use collect::{Call, CallOptions, Datatype, Error, ForkOptions, Group, Op, Source, Target};
use collect::{World, WorldOptions};
use half::f16;

fn sum(world: &World, values: &mut [u64]) -> Result<(), Error> {
    let target = Target::of(values);
    let (source, datatype, op) = (target.in_place(), Datatype::U64, Op::Sum);
    world.run(&Call::Allreduce { source, target, datatype, op }, &CallOptions::default())
}

fn barrier(world: &World) -> Result<(), Error> {
    world.run(&Call::Barrier, &CallOptions::default())
}

/// What Caffe2 does with Gloo: four buffers a rank, on a world and on a fork of it.
fn caffe2(store: Arc<dyn Store>, rank: usize, size: usize) {
    let counted = CountingStore::new(store);
    let world = World::create(&counted, rank, size, &ranks::options()).unwrap();
    let after_creation = counted.operations();
    let fork = world.fork(&ForkOptions::default()).unwrap();
    for _ in 0..4 {
        for world in [&world, &fork] {
            let mut floats: Vec<Vec<f32>> =
                (0..4).map(|i| vec![(4 * rank + i) as f32; 10_000]).collect();
            let mut targets: Vec<Target<'_>> = floats.iter_mut().map(|b| Target::of(b)).collect();
            let (datatype, op) = (Datatype::F32, Op::Sum);
            let call = Call::AllreduceMulti { buffers: &mut targets, datatype, op };
            world.run(&call, &CallOptions::default()).unwrap();
            assert!(floats.iter().flatten().all(|x| *x == 496.0));

            let mut halves: Vec<Vec<f16>> =
                (0..4).map(|i| vec![f16::from_f32((4 * rank + i) as f32); 10_000]).collect();
            let mut targets: Vec<Target<'_>> = halves.iter_mut().map(|b| Target::of(b)).collect();
            let datatype = Datatype::F16;
            let call = Call::AllreduceMulti { buffers: &mut targets, datatype, op };
            world.run(&call, &CallOptions::default()).unwrap();
            assert!(halves.iter().flatten().all(|x| x.to_f32() == 496.0));
        }
    }
    assert_eq!(counted.operations(), after_creation, "the store is used after creation");
}

#[test]
fn the_caffe2_scenario_over_a_file_store() {
    if ranks::is_rank() {
        let store = FileStore::open(ranks::folder().join("store")).unwrap();
        return caffe2(Arc::new(store), ranks::rank(), 8);
    }
    let mut processes = ranks::Ranks::spawn("the_caffe2_scenario_over_a_file_store", 8);
    assert!(processes.wait_all().iter().all(|status| status.success()));
}

#[test]
fn the_caffe2_scenario_over_a_tcp_store() {
    if ranks::is_rank() {
        let folder = ranks::folder();
        ranks::await_mark(&folder, "address");
        let address = std::fs::read_to_string(folder.join("address.text")).unwrap();
        let until = Instant::now() + ranks::DEADLINE;
        let store = TcpStore::connect(&address, Some(b"token".to_vec()), until).unwrap();
        return caffe2(Arc::new(store), ranks::rank(), 8);
    }
    let any = SocketAddr::from(([127, 0, 0, 1], 0));
    let server = TcpServer::start(any, Some(b"token".to_vec())).unwrap();
    let mut processes = ranks::Ranks::spawn("the_caffe2_scenario_over_a_tcp_store", 8);
    let folder = processes.folder.clone();
    std::fs::write(folder.join("address.text"), server.address().to_string()).unwrap();
    std::fs::write(folder.join("address"), "").unwrap();
    assert!(processes.wait_all().iter().all(|status| status.success()));
}

#[test]
fn creation_takes_two_store_operations_and_bytes_that_do_not_grow() {
    let mut bytes_of_size = Vec::new();
    for size in [2, 8, 24] {
        let shared: Arc<dyn Store> = Arc::new(HashStore::new());
        let (operations, bytes) = (AtomicU64::new(0), AtomicU64::new(0));
        thread::scope(|scope| {
            let start = |rank| {
                let (shared, operations, bytes) = (Arc::clone(&shared), &operations, &bytes);
                scope.spawn(move || {
                    let counted = CountingStore::new(shared);
                    let world = World::create(&counted, rank, size, &ranks::options()).unwrap();
                    barrier(&world).unwrap();
                    operations.fetch_max(counted.operations(), Ordering::Relaxed);
                    bytes.fetch_max(counted.bytes_read(), Ordering::Relaxed);
                })
            };
            ranks::join((0..size).map(start).collect());
        });
        assert!(operations.into_inner() <= 2, "store operations of a rank, of {size} ranks");
        bytes_of_size.push(bytes.into_inner());
    }
    assert!(bytes_of_size.iter().all(|bytes| *bytes <= bytes_of_size[0] + 16), "{bytes_of_size:?}");
}

#[test]
fn a_world_is_created_by_the_callers_own_allgather() {
    let size = 4;
    let table = parking_lot::Mutex::new(Vec::<Vec<Option<Vec<u8>>>>::new());
    let came = parking_lot::Condvar::new();
    thread::scope(|scope| {
        let start = |rank| {
            let (table, came) = (&table, &came);
            scope.spawn(move || {
                let mut round = 0;
                let mut exchange = |mine: &[u8]| {
                    let mut rounds = table.lock();
                    if rounds.len() <= round {
                        rounds.resize(round + 1, vec![None; size]);
                    }
                    rounds[round][rank] = Some(mine.to_vec());
                    came.notify_all();
                    while rounds[round].iter().any(Option::is_none) {
                        came.wait(&mut rounds);
                    }
                    let all = rounds[round].iter().flatten().cloned().collect();
                    round += 1;
                    Ok(all)
                };
                let world =
                    World::create_with(&mut exchange, rank, size, &ranks::options()).unwrap();
                let mut values = [rank as u64];
                sum(&world, &mut values).unwrap();
                assert_eq!(values, [6]);
            })
        };
        ranks::join((0..size).map(start).collect());
    });
}

#[test]
fn missing_ranks_are_named_to_those_that_came() {
    let store = HashStore::new();
    let timeout = Timeout::After(Duration::from_millis(600));
    let options = WorldOptions { timeout, ..ranks::options() };
    thread::scope(|scope| {
        let start = |rank| {
            let (store, options) = (store.clone(), options.clone());
            scope.spawn(move || {
                let error = World::create(&store, rank, 5, &options).unwrap_err();
                let text = error.to_string();
                assert!(text.contains('2') && text.contains('4'), "rank {rank}: {text}");
            })
        };
        ranks::join([0, 1, 3].map(start).into());
    });
}

#[test]
fn worlds_of_one_rank_work_alone() {
    let world = World::create(&HashStore::new(), 0, 1, &ranks::options()).unwrap();
    let mut values = [7];
    sum(&world, &mut values).unwrap();
    barrier(&world).unwrap();
    let fork = world.fork(&ForkOptions::default()).unwrap();
    sum(&fork, &mut values).unwrap();
    assert_eq!((values, fork.size(), fork.local_size()), ([7], 1, 1));
}

#[test]
fn every_rank_knows_where_it_sits() {
    ranks::both("every_rank_knows_where_it_sits", 3, |world| {
        assert_eq!((world.local_rank(), world.local_size()), (world.rank(), 3));
        assert_eq!((world.host_index(), world.name()), (0, "world"));
    });
}

#[test]
fn links_can_be_made_at_creation_and_over_ipv6() {
    let options =
        WorldOptions { connect: Connect::Eager, listen: Some("[::1]".into()), ..ranks::blocking() };
    ranks::threads(4, &options, &|world: &World| {
        let mut values = [world.rank() as u64];
        sum(world, &mut values).unwrap();
        assert_eq!(values, [6]);
    });
}

#[test]
fn forks_of_subsets_in_any_order_outlive_their_parent() {
    ranks::both("forks_of_subsets_in_any_order_outlive_their_parent", 5, |world| {
        let world = world.clone();
        let members = vec![4, 2, 0];
        let is_in = members.contains(&world.rank());
        let options = ForkOptions { members: Some(members), ..ForkOptions::default() };
        let subset = is_in.then(|| world.fork(&options).unwrap());
        let all = world.fork(&ForkOptions::default()).unwrap();
        drop(world);
        if let Some(subset) = subset {
            assert_eq!(subset.size(), 3);
            let mut values = [subset.rank() as u64 + 1];
            sum(&subset, &mut values).unwrap();
            assert_eq!(values, [6]);
        }
        let mut values = [1];
        sum(&all, &mut values).unwrap();
        assert_eq!(values, [5]);
    });
}

#[test]
fn a_fork_that_differs_fails_and_its_parent_goes_on() {
    ranks::both("a_fork_that_differs_fails_and_its_parent_goes_on", 3, |world| {
        let name = if world.rank() == 2 { "other" } else { "one" };
        let options = ForkOptions { name: name.into(), ..ForkOptions::default() };
        let error = world.fork(&options).unwrap_err();
        assert!(matches!(error, Error::Mismatch(_)), "{error}");
        barrier(world).unwrap();
        let fork = world.fork(&ForkOptions::default()).unwrap();
        barrier(&fork).unwrap();
    });
}

#[test]
fn a_member_that_never_forks_is_named_and_the_parent_goes_on() {
    ranks::both("a_member_that_never_forks_is_named_and_the_parent_goes_on", 3, |world| {
        if world.rank() != 1 {
            let timeout = Timeout::After(Duration::from_millis(300));
            let options = ForkOptions { timeout, ..ForkOptions::default() };
            let error = world.fork(&options).unwrap_err();
            assert!(
                matches!(&error, Error::TimedOut { text: t, .. } if t.contains("rank 1")),
                "{error}"
            );
        }
        barrier(world).unwrap();
    });
}

/// Makes `call` differ on rank 1 of 3; every rank gets a mismatch, now or at its next call; a sibling goes on.
fn mismatch(name: &str, call: impl Fn(&World) -> Result<(), Error> + Sync) {
    ranks::both(name, 3, |world| {
        let fork = world.fork(&ForkOptions::default()).unwrap();
        // Nobody's fork is under way any more when the parent fails.
        barrier(&fork).unwrap();
        let first = call(world);
        let until = Instant::now() + ranks::DEADLINE;
        let mut outcome = first;
        while outcome.is_ok() && Instant::now() < until {
            let options = CallOptions { timeout: Timeout::Default, ..CallOptions::default() };
            outcome = world.run(&Call::Barrier, &options);
        }
        let error = outcome.unwrap_err();
        let text = error.to_string();
        assert!(matches!(error, Error::Mismatch(_)), "{text}");
        assert!(text.contains("rank 1 called") && text.contains("operation 0"), "{text}");
        assert_eq!(world.error().map(|error| error.group()), Some(Group::World));
        let mut values = [1];
        sum(&fork, &mut values).unwrap();
        assert_eq!(values, [3]);
    });
}

/// An allreduce whose target must keep its bytes if the call fails.
fn allreduce_or_untouched(
    world: &World,
    count: usize,
    datatype: Datatype,
    op: Op,
) -> Result<(), Error> {
    let source = vec![world.rank() as u64 + 1; count];
    let mut target = vec![u64::MAX - 7; count];
    let bytes = count * 8 / 8 * datatype.bytes();
    // SAFETY: both vectors hold at least as many bytes, and outlive the call.
    let from = unsafe { Source::from_raw(source.as_ptr().cast(), bytes) };
    // SAFETY: as above; nobody else uses the target.
    let to = unsafe { Target::from_raw(target.as_mut_ptr().cast(), bytes) };
    let call = Call::Allreduce { source: from, target: to, datatype, op };
    let outcome = world.run(&call, &CallOptions::default());
    if outcome.is_err() && count <= 4 {
        assert!(target.iter().all(|x| *x == u64::MAX - 7), "written by a mismatched frame");
    }
    outcome
}

#[test]
fn a_different_count_is_a_mismatch_on_all_ranks() {
    mismatch("a_different_count_is_a_mismatch_on_all_ranks", |world| {
        let count = if world.rank() == 1 { 3 } else { 4 };
        allreduce_or_untouched(world, count, Datatype::U64, Op::Sum)
    });
}

#[test]
fn a_different_type_is_a_mismatch_on_all_ranks() {
    mismatch("a_different_type_is_a_mismatch_on_all_ranks", |world| {
        let datatype = if world.rank() == 1 { Datatype::F64 } else { Datatype::U64 };
        allreduce_or_untouched(world, 4, datatype, Op::Sum)
    });
}

#[test]
fn a_different_operation_is_a_mismatch_on_all_ranks() {
    mismatch("a_different_operation_is_a_mismatch_on_all_ranks", |world| {
        let op = if world.rank() == 1 { Op::Max } else { Op::Sum };
        allreduce_or_untouched(world, 100_000, Datatype::U64, op)
    });
}

#[test]
fn a_different_root_is_a_mismatch_on_all_ranks() {
    mismatch("a_different_root_is_a_mismatch_on_all_ranks", |world| {
        let mut data = vec![0u8; 100_000];
        let (buffer, datatype) = (Target::of(&mut data), Datatype::U8);
        let call = Call::Broadcast { buffer, datatype, root: world.rank() % 2 };
        world.run(&call, &CallOptions::default())
    });
}

#[test]
fn a_different_root_of_a_small_broadcast_is_a_mismatch_on_all_ranks() {
    mismatch("a_different_root_of_a_small_broadcast_is_a_mismatch_on_all_ranks", |world| {
        let mut data = [0u8; 8];
        let (buffer, datatype) = (Target::of(&mut data), Datatype::U8);
        let call = Call::Broadcast { buffer, datatype, root: world.rank() % 2 };
        world.run(&call, &CallOptions::default())
    });
}

#[test]
fn a_different_collective_is_a_mismatch_on_all_ranks() {
    mismatch("a_different_collective_is_a_mismatch_on_all_ranks", |world| {
        if world.rank() == 1 {
            return barrier(world);
        }
        allreduce_or_untouched(world, 2, Datatype::U64, Op::Sum)
    });
}

#[test]
fn an_abort_reaches_every_rank_and_no_sibling() {
    ranks::both("an_abort_reaches_every_rank_and_no_sibling", 4, |world| {
        let fork = world.fork(&ForkOptions::default()).unwrap();
        // Nobody's fork is under way any more when the parent is aborted.
        barrier(&fork).unwrap();
        if world.rank() == 2 {
            world.abort("enough").unwrap();
        }
        let error = loop {
            if let Err(error) = barrier(world) {
                break error;
            }
        };
        assert!(matches!(&error, Error::Aborted(t) if t.contains("enough")), "{error}");
        assert!(error.to_string().contains("rank 2"), "{error}");
        let mut values = [1];
        sum(&fork, &mut values).unwrap();
        assert_eq!(values, [4]);
    });
}

#[test]
fn a_deadline_names_who_has_not_come() {
    ranks::both("a_deadline_names_who_has_not_come", 3, |world| {
        let fork = world.fork(&ForkOptions::default()).unwrap();
        if world.rank() != 1 {
            let timeout = Timeout::After(Duration::from_millis(300));
            let options = CallOptions { timeout, ..CallOptions::default() };
            let error = fork.run(&Call::Barrier, &options).unwrap_err();
            assert!(matches!(&error, Error::TimedOut { .. }), "{error}");
        }
        barrier(world).unwrap();
        let error = barrier(&fork).unwrap_err();
        assert!(
            matches!(&error, Error::TimedOut { text, .. } if text.contains("rank 1")),
            "{error}"
        );
    });
}

#[test]
fn a_member_that_has_left_is_named() {
    ranks::both("a_member_that_has_left_is_named", 3, |world| {
        let fork = world.fork(&ForkOptions::default()).unwrap();
        if world.rank() == 1 {
            drop(fork);
        } else {
            let error = barrier(&fork).unwrap_err();
            assert!(matches!(error, Error::PeerLost { rank: 1, .. }), "{error}");
        }
        barrier(world).unwrap();
    });
}

/// It leaves before its endpoint has looked at its links.
#[test]
fn a_member_that_leaves_at_once_is_not_taken_for_dead() {
    for _ in 0..50 {
        ranks::threads(4, &ranks::options(), &|world: &World| {
            if world.rank() != 1 {
                let options =
                    ForkOptions { members: Some(vec![0, 2, 3]), ..ForkOptions::default() };
                barrier(&world.fork(&options).unwrap()).unwrap();
            }
        });
    }
}

#[test]
fn sixteen_threads_drive_sixteen_forks() {
    const THREADS: usize = 16;
    ranks::processes(
        "sixteen_threads_drive_sixteen_forks",
        4,
        &ranks::options(),
        &|world: &World| {
            barrier(world).unwrap();
            let before = std::fs::read_dir("/proc/self/task").unwrap().count();
            let forks: Vec<World> =
                (0..THREADS).map(|_| world.fork(&ForkOptions::default()).unwrap()).collect();
            let most = AtomicU64::new(0);
            thread::scope(|scope| {
                let start = |(at, fork)| {
                    let most = &most;
                    scope.spawn(move || {
                        mixed_operations(fork, at);
                        let threads = std::fs::read_dir("/proc/self/task").unwrap().count();
                        most.fetch_max(threads as u64, Ordering::Relaxed);
                    })
                };
                ranks::join(forks.iter().enumerate().map(start).collect());
            });
            assert!(
                most.into_inner() as usize <= before + THREADS,
                "threads that are not the caller's"
            );
        },
    );
}

fn mixed_operations(world: &World, seed: usize) {
    let sizes = [0, 1, 1000, 5000, 131_072];
    for round in 0..500 {
        if (round + seed).is_multiple_of(5) {
            barrier(world).unwrap();
            continue;
        }
        // The largest now and then only: the machine has two processors.
        let pick = if round % 50 == 3 { 4 } else { (round * 7 + seed) % 4 };
        let mut values = vec![(world.rank() + round) as u64; sizes[pick]];
        sum(world, &mut values).unwrap();
        let right = (0..world.size()).map(|rank| (rank + round) as u64).sum::<u64>();
        assert!(values.iter().all(|x| *x == right));
    }
}

#[test]
fn a_hundred_thousand_requests_start_no_thread() {
    let name = "a_hundred_thousand_requests_start_no_thread";
    ranks::processes(name, 2, &ranks::options(), &|world: &World| {
        const REQUESTS: usize = 100_000;
        barrier(world).unwrap();
        let before = std::fs::read_dir("/proc/self/task").unwrap().count();
        let mut values = vec![1u64; REQUESTS];
        let start = values.as_mut_ptr();
        let mut requests = Vec::with_capacity(REQUESTS);
        for at in 0..REQUESTS {
            // SAFETY: each element belongs to one request, which is waited for before the vector goes.
            let target = unsafe { Target::from_raw(start.wrapping_add(at).cast(), 8) };
            let (source, datatype, op) = (target.in_place(), Datatype::U64, Op::Sum);
            let call = Call::Allreduce { source, target, datatype, op };
            requests.push(world.start(&call, &CallOptions::default()).unwrap());
        }
        assert_eq!(std::fs::read_dir("/proc/self/task").unwrap().count(), before);
        requests.iter().for_each(|request| request.wait().unwrap());
        assert!(values.iter().all(|value| *value == 2));
    });
}
