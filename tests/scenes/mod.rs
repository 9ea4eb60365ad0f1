//! Scenes of failure, for the short forms in `deaths` and the long ones in `faults`.
//!
//! A scene is called by a test of its own name in both roles: in the process that directs, and in those of the ranks.
#![allow(dead_code, reason = "each test program uses a part")]
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

pub(crate) mod count;
pub(crate) mod death;
pub(crate) mod forked;
pub(crate) mod leave;
pub(crate) mod scarce;
pub(crate) mod stop;
pub(crate) mod stranger;

use std::fs;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use collect::config::{Timeout, Wait};
use collect::store::FileStore;
use collect::{Call, CallOptions, Datatype, Error, Op, Request, Target, World, WorldOptions};

use super::ranks;

/// No deadline at all: what ends an operation is what was seen of the peers.
pub(crate) fn patient() -> WorldOptions {
    WorldOptions { timeout: Timeout::Never, wait: Wait::Block, ..ranks::options() }
}

/// The world of a rank that is a process, over the store in the folder of the test.
pub(crate) fn join(size: usize, options: &WorldOptions) -> Result<World, Error> {
    let store = FileStore::open(ranks::folder().join("store")).unwrap();
    World::create(&store, ranks::rank(), size, options)
}

pub(crate) fn sum(world: &World, values: &mut [u64], timeout: Timeout) -> Result<(), Error> {
    let target = Target::of(values);
    let (source, datatype, op) = (target.in_place(), Datatype::U64, Op::Sum);
    let options = CallOptions { timeout, ..CallOptions::default() };
    world.run(&Call::Allreduce { source, target, datatype, op }, &options)
}

pub(crate) fn barrier(world: &World) -> Result<(), Error> {
    world.run(&Call::Barrier, &CallOptions::default())
}

/// Numbers that a sum in a wrong order, or of another round, does not give by chance.
pub(crate) fn value(rank: usize, at: usize) -> u64 {
    (at as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15).wrapping_add(rank as u64 + 1)
}

pub(crate) fn values(rank: usize, count: usize) -> Vec<u64> {
    (0..count).map(|at| value(rank, at)).collect()
}

/// Whether these are the sums over all ranks.
pub(crate) fn are_sums(values: &[u64], size: usize) -> bool {
    are_sums_at(values, size, 1)
}

/// Whether every so many of these are.
pub(crate) fn are_sums_at(values: &[u64], size: usize, step: usize) -> bool {
    let sum = |at| (0..size).fold(0u64, |sum, rank| sum.wrapping_add(value(rank, at)));
    values.iter().enumerate().step_by(step).all(|(at, value)| *value == sum(at))
}

/// An allreduce under way on memory of its own.
pub(crate) struct Running {
    pub(crate) request: Request,
    values: *mut [u64],
}

impl Running {
    pub(crate) fn start(world: &World, count: usize) -> Result<Self, Error> {
        Self::start_on(world, values(world.rank(), count))
    }

    /// As [`Running::start`], on all ranks at about the same time.
    pub(crate) fn start_together(world: &World, count: usize) -> Result<Self, Error> {
        let values = values(world.rank(), count);
        barrier(world)?;
        Self::start_on(world, values)
    }

    fn start_on(world: &World, values: Vec<u64>) -> Result<Self, Error> {
        let values: &'static mut [u64] = Vec::leak(values);
        let bytes = size_of_val(values);
        let values: *mut [u64] = values;
        // SAFETY: the memory is leaked, and not looked at before the request has ended.
        let target = unsafe { Target::from_raw(values.cast(), bytes) };
        let (source, datatype, op) = (target.in_place(), Datatype::U64, Op::Sum);
        let call = Call::Allreduce { source, target, datatype, op };
        let request = world.start(&call, &CallOptions::default())?;
        Ok(Self { request, values })
    }

    /// Lets it run for a moment. Whether it has not ended then.
    pub(crate) fn is_in_the_middle(&self) -> bool {
        self.request.wait_for(Some(Duration::from_millis(5))).is_none()
    }

    /// Waits for the end. The results are right, or there are none.
    pub(crate) fn end(self, size: usize) -> Result<(), Error> {
        self.request.wait()?;
        // SAFETY: the request has ended, so the memory is ours again.
        let values = unsafe { &*self.values };
        assert!(are_sums(values, size), "an allreduce that succeeded has a wrong number");
        Ok(())
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.request.wait();
        // SAFETY: the request has ended, so the memory is ours again; it was leaked from a boxed slice of this type.
        drop(unsafe { Box::from_raw(self.values) });
    }
}

/// The letter of a process's state; `None` if it is gone. (A dead one that nobody waits for counts as gone.)
pub(crate) fn state_of(pid: u32) -> Option<char> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let state = stat.rsplit(')').next()?.trim().chars().next()?;
    (!"ZX".contains(state)).then_some(state)
}

/// Waits until something holds.
pub(crate) fn eventually(what: &str, holds: impl Fn() -> bool) {
    let until = Instant::now() + ranks::DEADLINE;
    while !holds() {
        assert!(Instant::now() < until, "never: {what}");
        thread::sleep(Duration::from_millis(2));
    }
}

/// How many entries a folder of `/proc/self` has.
pub(crate) fn entries(folder: &str) -> usize {
    fs::read_dir(Path::new("/proc/self").join(folder)).unwrap().count()
}
