//! What worlds leave behind: nothing.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use collect::config::Timeout;
use collect::{Error, ForkOptions, World, WorldOptions};

use super::{are_sums, barrier, entries, eventually, join, patient, sum, values};
use crate::ranks::{self, Ranks};

/// Worlds made and destroyed `rounds` times, each with two forks; descriptors and threads are as before.
pub(crate) fn nothing_stays(name: &str, size: usize, rounds: usize) {
    if !ranks::is_rank() {
        return all_succeed(name, size);
    }
    let round = |round: usize| {
        let options = WorldOptions { name: format!("round {round}"), ..patient() };
        let world = join(size, &options).unwrap();
        let forks: Vec<World> =
            (0..2).map(|_| world.fork(&ForkOptions::default()).unwrap()).collect();
        drop(world);
        for fork in &forks {
            let mut numbers = values(fork.rank(), 10_000);
            sum(fork, &mut numbers, Timeout::Default).unwrap();
            assert!(are_sums(&numbers, size));
        }
    };
    round(0); // Opens what stays for the life of the process.
    let before = (entries("fd"), entries("task"));
    (1..=rounds).for_each(round);
    eventually("ended threads are gone", || entries("task") <= before.1);
    assert_eq!((entries("fd"), entries("task")), before);
}

/// Two worlds of one process, made by two threads, used at once; the end of one is nothing to the other.
pub(crate) fn two_worlds(name: &str) {
    const SIZE: usize = 2;
    if !ranks::is_rank() {
        return all_succeed(name, SIZE);
    }
    let make = |name: &str| join(SIZE, &WorldOptions { name: name.into(), ..patient() }).unwrap();
    thread::scope(|scope| {
        for name in ["one", "other"] {
            scope.spawn(move || {
                let world = make(name);
                for _ in 0..50 {
                    let mut numbers = values(world.rank(), 5000);
                    sum(&world, &mut numbers, Timeout::Default).unwrap();
                    assert!(are_sums(&numbers, SIZE));
                }
                if name == "one" {
                    world.abort("enough of this one").unwrap();
                }
            });
        }
    });
}

/// One thread aborts while four are blocked inside.
pub(crate) fn abort_ends_all(name: &str) {
    const SIZE: usize = 2;
    const BLOCKED: usize = 4;
    if !ranks::is_rank() {
        return all_succeed(name, SIZE);
    }
    let world = join(SIZE, &patient()).unwrap();
    let fork = world.fork(&ForkOptions::default()).unwrap();
    let is_aborted = |error: &Error| matches!(error, Error::Aborted(text) if text.contains("enough") && text.contains("rank 0"));
    if world.rank() == 0 {
        let begun = AtomicUsize::new(0);
        thread::scope(|scope| {
            for _ in 0..BLOCKED {
                scope.spawn(|| {
                    begun.fetch_add(1, Ordering::Relaxed);
                    let error = barrier(&fork).unwrap_err();
                    assert!(is_aborted(&error), "{error}");
                });
            }
            eventually("all come", || begun.load(Ordering::Relaxed) == BLOCKED);
            thread::sleep(Duration::from_millis(100));
            fork.abort("enough").unwrap();
        });
    }
    barrier(&world).unwrap();
    let error = barrier(&fork).unwrap_err();
    assert!(is_aborted(&error), "{error}");
    barrier(&world).unwrap();
}

fn all_succeed(name: &str, size: usize) {
    let mut processes = Ranks::spawn(name, size);
    for (rank, status) in processes.wait_all().into_iter().enumerate() {
        assert!(status.success(), "rank {rank}: {status}");
    }
}
