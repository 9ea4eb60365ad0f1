//! No descriptors left: a clear error, and no hang.

use std::fs::File;
use std::os::fd::AsRawFd;
use std::thread;
use std::time::Duration;

use collect::config::Timeout;
use collect::store::HashStore;
use collect::{Error, World, WorldOptions};

use super::{barrier, join, patient, sum, values};
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
