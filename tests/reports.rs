//! Replays of what users of other libraries have reported, one test a report: what fails there must not fail here.
//!
//! Each comment names the project and the issue. The reports are about these libraries' versions of their time.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "reports/blocked.rs"]
mod blocked;
#[path = "reports/gone.rs"]
mod gone;
mod ranks;
mod scenes;

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Barrier};
use std::thread;
use std::time::Duration;

use collect::config::Timeout;
use collect::store::HashStore;
use collect::{
    Algorithm, Call, CallOptions, Datatype, Error, ForkOptions, Op, Source, Target, World,
};
use scenes::{Running, are_sums, barrier, entries, eventually, sum, value, values};

/// A right sum over all ranks.
fn works(world: &World) {
    let mut numbers = values(world.rank(), 5000);
    sum(world, &mut numbers, Timeout::Default).unwrap();
    assert!(are_sums(&numbers, world.size()));
}

fn all_succeed(name: &str, size: usize) {
    let mut processes = ranks::Ranks::spawn(name, size);
    for (rank, status) in processes.wait_all().into_iter().enumerate() {
        assert!(status.success(), "rank {rank}: {status}");
    }
    all_began(name, &processes);
}

/// A test program that knows no test of this name succeeds too.
fn all_began(name: &str, processes: &ranks::Ranks) {
    let began = |rank| processes.folder.join(format!("began.{rank}")).exists();
    assert!((0..processes.children.len()).all(began), "no test is called {name}");
}

/// A rank that is a process begins.
fn begin() {
    ranks::mark(&format!("began.{}", ranks::rank()));
}

/// pytorch/gloo 456, NVIDIA/nccl 1394, PrimeIntellect-ai/prime-diloco 68: ranks that pass different sizes end the process,
/// or get a wrong result. Here both ranks get an error that holds both sizes, and everything else goes on.
#[test]
fn a_size_mismatch_ends_no_process() {
    let name = "a_size_mismatch_ends_no_process";
    ranks::both(name, 2, |world: &World| {
        let sibling = world.fork(&ForkOptions::default()).unwrap();
        for counts in [[1024, 1000], [3, 300_000], [300_000, 200_000]] {
            for algorithm in [Algorithm::Ring, Algorithm::Direct, Algorithm::Doubling] {
                let fork = world.fork(&ForkOptions::default()).unwrap();
                let mut numbers = values(world.rank(), counts[world.rank()]);
                let target = Target::of(&mut numbers);
                let (source, datatype, op) = (target.in_place(), Datatype::U64, Op::Sum);
                let call = Call::Allreduce { source, target, datatype, op };
                let options = CallOptions { algorithm: Some(algorithm), ..CallOptions::default() };
                let error = fork.run(&call, &options).unwrap_err();
                let Error::Mismatch(text) = &error else { panic!("{error:?}") };
                let both = counts.map(|count| format!("allreduce(u64, {count}, sum)"));
                assert!(both.iter().all(|side| text.contains(side)), "{text}");
                assert_eq!(fork.error(), Some(error));
                works(&sibling);
                works(world);
            }
        }
    });
}

/// pytorch/gloo: the time-out of one operation closes all connections of its context, those of unrelated peers too
/// (`tcp/unbound_buffer.cc`). pytorch/pytorch 130345: whoever wants to go on must sit the time-out out. Here one world
/// fails, with the rank that did not come; siblings and other worlds do not notice, nor does what is under way in them.
#[test]
fn a_timeout_on_one_world_leaves_unrelated_worlds_usable() {
    const SIZE: usize = 3;
    let other = HashStore::new();
    let is_over = Barrier::new(SIZE);
    ranks::threads(SIZE, &ranks::blocking(), &|world: &World| {
        let rank = world.rank();
        let independent = World::create(&other, rank, SIZE, &ranks::blocking()).unwrap();
        let sibling = world.fork(&ForkOptions::default()).unwrap();
        let late = world.fork(&ForkOptions::default()).unwrap();
        // Under way on the others all the time: rank 2 comes when the time-out is over.
        let waiting: Vec<Running> = if rank == 2 {
            Vec::new()
        } else {
            [&sibling, &independent].map(|world| Running::start(world, 10_000).unwrap()).into()
        };
        if rank != 1 {
            let timeout = Timeout::After(Duration::from_secs(1));
            let error = sum(&late, &mut values(rank, 1000), timeout).unwrap_err();
            assert!(matches!(error, Error::TimedOut { rank: Some(1), .. }), "{error:?}");
        }
        is_over.wait();
        let waiting = match rank {
            2 => [&sibling, &independent].map(|w| Running::start(w, 10_000).unwrap()).into(),
            _ => waiting,
        };
        for running in waiting {
            running.end(SIZE).unwrap();
        }
        let error = barrier(&late).unwrap_err();
        assert!(matches!(error, Error::TimedOut { rank: Some(1), .. }), "{error:?}");
        [world, &sibling, &independent].into_iter().for_each(works);
        works(&world.fork(&ForkOptions::default()).unwrap());
    });
}

/// pytorch/gloo 308: handles that are freed while their operations run hang, or leave the memory in use. Here a handle may
/// go at any time; the operation ends, and its callback says so.
#[test]
fn request_handles_freed_in_flight() {
    const SIZE: usize = 3;
    const REQUESTS: usize = 40;
    let name = "request_handles_freed_in_flight";
    ranks::both(name, SIZE, |world: &World| {
        let ended = Arc::new(AtomicUsize::new(0));
        let counts = (0..REQUESTS).map(|at| [1, 1000, 100_000][at % 3]);
        let buffers: Vec<(*mut u64, usize)> = counts
            .map(|count| {
                let numbers: &'static mut [u64] = Vec::leak(values(world.rank(), count));
                (numbers.as_mut_ptr(), count)
            })
            .collect();
        for (at, (numbers, count)) in buffers.iter().enumerate() {
            // SAFETY: the memory is leaked, and nobody looks at it before the operation has ended.
            let target = unsafe { Target::from_raw(numbers.cast(), count * 8) };
            let (source, datatype, op) = (target.in_place(), Datatype::U64, Op::Sum);
            let call = Call::Allreduce { source, target, datatype, op };
            let request = world.start(&call, &CallOptions::default()).unwrap();
            let count = Arc::clone(&ended);
            let end = move |outcome: Result<(), Error>| {
                outcome.unwrap();
                count.fetch_add(1, Ordering::SeqCst);
            };
            request.on_complete(end).unwrap();
            drop(request);
            if at % 7 == world.rank() {
                thread::sleep(Duration::from_millis(2));
            }
        }
        eventually("all end", || ended.load(Ordering::SeqCst) == REQUESTS);
        barrier(world).unwrap();
        for (numbers, count) in buffers {
            // SAFETY: leaked from a vector of this length, and no operation has it any more.
            let numbers =
                unsafe { Box::from_raw(std::ptr::slice_from_raw_parts_mut(numbers, count)) };
            assert!(are_sums(&numbers, SIZE));
        }
    });
}

/// pytorch/gloo 444: two ranks of a lazily connected context send to each other at once and free their buffers; now and then
/// the connection times out. Here dials that cross make one link, and what was sent arrives.
#[test]
fn crossing_first_sends_whose_handles_are_freed() {
    for round in 0..50 {
        let store = HashStore::new();
        let together = Barrier::new(3);
        thread::scope(|scope| {
            let start = |rank: usize| {
                let (store, together) = (&store, &together);
                scope.spawn(move || {
                    let world = World::create(store, rank, 3, &ranks::blocking()).unwrap();
                    let peer = [0, 2, 1][rank];
                    together.wait();
                    if rank > 0 {
                        // Ranks 1 and 2 have no link yet.
                        let numbers: &'static [u64] = Vec::leak(values(rank, 100 + round));
                        let (source, datatype) = (Source::of(numbers), Datatype::U64);
                        let call = Call::Send { source, datatype, to: peer, tag: 1 };
                        drop(world.start(&call, &CallOptions::default()).unwrap());
                        let mut got = vec![0; 100 + round];
                        let target = Target::of(&mut got);
                        let call = Call::Receive { target, datatype, from: Some(peer), tag: 1 };
                        world.run(&call, &CallOptions::default()).unwrap();
                        assert!(got == values(peer, 100 + round));
                    }
                    barrier(&world).unwrap();
                })
            };
            ranks::join((0..3).map(start).collect());
        });
    }
}

/// pytorch/pytorch 75097, 109478: a process group that is destroyed while a thread is inside hangs, or crashes. Here the
/// last handle counts, and a thread that is inside has one.
#[test]
fn destroy_while_another_thread_is_inside() {
    const SIZE: usize = 2;
    const THREADS: u64 = 4;
    let name = "destroy_while_another_thread_is_inside";
    if !ranks::is_rank() {
        return all_succeed(name, SIZE);
    }
    begin();
    let make = |name: String| {
        scenes::join(SIZE, &collect::WorldOptions { name, ..scenes::patient() }).unwrap()
    };
    drop(make("first".into()));
    let before = (entries("fd"), entries("task"));
    for round in 0..10 {
        let world = make(format!("round {round}"));
        let rank = world.rank();
        let inside = AtomicUsize::new(0);
        thread::scope(|scope| {
            for key in 0..THREADS {
                let (world, inside) = (world.clone(), &inside);
                scope.spawn(move || {
                    if rank == 1 {
                        // The other rank is inside by now, and has dropped its first handle.
                        thread::sleep(Duration::from_millis(20));
                    }
                    inside.fetch_add(1, Ordering::SeqCst);
                    let mut numbers = values(rank, 2000);
                    let target = Target::of(&mut numbers);
                    let (source, datatype, op) = (target.in_place(), Datatype::U64, Op::Sum);
                    let call = Call::Allreduce { source, target, datatype, op };
                    let options = CallOptions { key: Some(key), ..CallOptions::default() };
                    world.run(&call, &options).unwrap();
                    assert!(are_sums(&numbers, SIZE));
                });
            }
            eventually("all are inside", || inside.load(Ordering::SeqCst) == THREADS as usize);
            drop(world);
        });
        eventually("ended threads are gone", || entries("task") <= before.1);
        assert_eq!((entries("fd"), entries("task")), before, "round {round}");
    }
}

/// The same where nobody is inside, and a request is under way: it ends, and so does that of the other rank, which learns
/// who has left. (In C a request keeps its world, `tests/c/requests.c`.)
#[test]
fn destroy_while_a_request_is_under_way() {
    const SIZE: usize = 2;
    ranks::both("destroy_while_a_request_is_under_way", SIZE, |world: &World| {
        for leaver in 0..SIZE {
            let fork = world.fork(&ForkOptions::default()).unwrap();
            if world.rank() == leaver {
                let running = Running::start(&fork, 100_000).unwrap();
                drop(fork);
                let error = running.end(SIZE).unwrap_err();
                assert!(matches!(error, Error::Aborted(_)), "{error:?}");
                barrier(world).unwrap();
            } else {
                barrier(world).unwrap();
                let outcome = Running::start(&fork, 100_000).and_then(|it| it.end(SIZE));
                let error = outcome.unwrap_err();
                let told = matches!(error, Error::PeerLost { rank, .. } if rank == leaver);
                assert!(told, "{error:?}");
            }
        }
        works(world);
    });
}

/// pytorch/pytorch 85234, pytorch/gloo 179: nothing at all to send, or a world of one, crashes.
#[test]
fn nothing_to_send_and_nobody_to_send_it_to() {
    for size in [1, 2] {
        ranks::threads(size, &ranks::blocking(), &|world: &World| {
            sum(world, &mut [], Timeout::Default).unwrap();
            let (data, mut all) = ([value(world.rank(), 0)], vec![0; size]);
            let (source, target) = (Source::of(&data), Target::of(&mut all));
            let call = Call::Allgather { source, target, datatype: Datatype::U64 };
            world.run(&call, &CallOptions::default()).unwrap();
            assert!(all.iter().enumerate().all(|(rank, got)| *got == value(rank, 0)));
            barrier(world).unwrap();
        });
    }
}
