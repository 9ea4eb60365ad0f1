//! No descriptors left: a clear error, and no hang.

use std::fs::File;
use std::net::TcpListener;
use std::os::fd::AsRawFd;
use std::thread;
use std::time::Duration;

use collect::config::{Connect, Timeout};
use collect::store::HashStore;
use collect::{Error, ForkOptions, World, WorldOptions};

use super::{are_sums, barrier, entries, eventually, join, patient, sum, values};
use crate::ranks::{self, Ranks};

const HIGH: u64 = 1024;

/// Only so many more descriptors may be opened from now on (if no higher number is in use).
fn leave_descriptors(spare: u64) {
    set_limit(HIGH);
    // The next descriptor has the lowest number that is free.
    let next = File::open("/dev/null").unwrap().as_raw_fd();
    set_limit(u64::try_from(next).unwrap() + spare);
}

fn set_limit(descriptors: u64) {
    let limit = libc::rlimit { rlim_cur: descriptors, rlim_max: HIGH };
    // SAFETY: `limit` is readable.
    assert_eq!(unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &raw const limit) }, 0);
}

/// Both ranks of a world are made in one process that has ever more descriptors to spare, until it works.
pub(crate) fn creation_says_so(name: &str) {
    if !ranks::is_rank() {
        let mut processes = Ranks::spawn(name, 1);
        assert!(processes.wait_all()[0].success());
        return;
    }
    drop(World::create(&HashStore::new(), 0, 1, &ranks::options()).unwrap());
    let before = (entries("fd"), entries("task"));
    for spare in 0..64 {
        leave_descriptors(spare);
        let store = HashStore::new();
        let timeout = Timeout::After(Duration::from_secs(1));
        let options = WorldOptions { timeout, ..ranks::options() };
        let outcomes: Vec<Result<(), Error>> = thread::scope(|scope| {
            let make = |rank| {
                let (store, options) = (store.clone(), &options);
                scope.spawn(move || {
                    World::create(&store, rank, 2, options).and_then(|w| barrier(&w))
                })
            };
            [0, 1].map(make).map(|made| made.join().unwrap()).into()
        });
        set_limit(HIGH);
        eventually("ended threads are gone", || entries("task") <= before.1);
        assert_eq!((entries("fd"), entries("task")), before, "{spare} to spare: {outcomes:?}");
        if outcomes.iter().all(Result::is_ok) {
            assert!(spare > 4, "so few descriptors cannot have been enough");
            return;
        }
        let says_so = |outcome: &Result<(), Error>| matches!(outcome, Err(Error::Resource(_)));
        assert!(outcomes.iter().any(says_so), "{spare} to spare: {outcomes:?}");
    }
    panic!("64 descriptors are not enough for two ranks");
}

/// A rank that has none left when it needs its first link to another says so; the others are told who it was.
pub(crate) fn first_link_says_so(name: &str) {
    const SIZE: usize = 4;
    if !ranks::is_rank() {
        let mut processes = Ranks::spawn(name, SIZE);
        for (rank, status) in processes.wait_all().into_iter().enumerate() {
            assert!(status.success(), "rank {rank}: {status}");
        }
        return;
    }
    let world = join(SIZE, &patient()).unwrap();
    if world.rank() == 2 {
        leave_descriptors(0);
    }
    let mut numbers = values(world.rank(), 1 << 20);
    let error = sum(&world, &mut numbers, Timeout::Default).unwrap_err();
    set_limit(HIGH);
    if world.rank() == 2 {
        assert!(matches!(&error, Error::Resource(text) if text.contains("ulimit")), "{error:?}");
    } else {
        assert!(matches!(error, Error::PeerLost { rank: 2, .. }), "{error:?}");
    }
    assert_eq!(barrier(&world), Err(error));
}

/// Runs ranks that must all end well.
fn all_succeed(name: &str, size: usize) {
    let mut processes = Ranks::spawn(name, size);
    for (rank, status) in processes.wait_all().into_iter().enumerate() {
        assert!(status.success(), "rank {rank}: {status}");
    }
}

/// A rank that has none left when it needs its first links gets some back before it gives up.
pub(crate) fn first_link_waits_for_one(name: &str) {
    const SIZE: usize = 4;
    if !ranks::is_rank() {
        return all_succeed(name, SIZE);
    }
    let world = join(SIZE, &patient()).unwrap();
    let mut numbers = values(world.rank(), 1 << 20);
    thread::scope(|scope| {
        if world.rank() == 2 {
            leave_descriptors(0);
            scope.spawn(|| {
                thread::sleep(Duration::from_millis(300));
                set_limit(HIGH);
            });
        }
        sum(&world, &mut numbers, Timeout::Default).unwrap();
    });
    assert!(are_sums(&numbers, SIZE));
    barrier(&world).unwrap();
}

/// A fork of a world whose links are there needs none, nor does its use or its end.
pub(crate) fn a_fork_needs_none(name: &str) {
    const SIZE: usize = 3;
    if !ranks::is_rank() {
        return all_succeed(name, SIZE);
    }
    let world = join(SIZE, &WorldOptions { connect: Connect::Eager, ..patient() }).unwrap();
    let before = entries("fd");
    leave_descriptors(0);
    let pair = ForkOptions { members: Some(vec![2, 0]), ..ForkOptions::default() };
    let forks = [Some(ForkOptions::default()), (world.rank() != 1).then_some(pair)];
    for options in forks.into_iter().flatten() {
        let fork = world.fork(&options).unwrap();
        let mut numbers = values(fork.rank(), 100_000);
        sum(&fork, &mut numbers, Timeout::Default).unwrap();
        assert!(are_sums(&numbers, fork.size()));
    }
    barrier(&world).unwrap();
    set_limit(HIGH);
    // Connections that lost the race to be a link may have ended meanwhile.
    assert!(entries("fd") <= before);
}

/// A rank that is told to listen where somebody else does says so, whichever rank it is; no other rank is blamed.
pub(crate) fn taken_port_is_named() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    for rank in 0..2 {
        let options = WorldOptions { listen: Some(address.clone()), ..ranks::options() };
        let error = World::create(&HashStore::new(), rank, 2, &options).unwrap_err();
        let told = matches!(&error, Error::System(text)
            if text.contains(&format!("listen on {address}")) && text.contains("another port"));
        assert!(told, "{error:?}");
        let mut exchange = |_: &[u8]| panic!("there is nothing to tell the others");
        let other = World::create_with(&mut exchange, rank, 2, &options).unwrap_err();
        assert_eq!(other, error);
    }
    drop(taken);
    let options = WorldOptions { listen: Some(address), ..ranks::options() };
    drop(World::create(&HashStore::new(), 0, 1, &options).unwrap());
}
