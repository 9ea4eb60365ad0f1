//! `fork(2)`: a child can do nothing with what its parent made, and disturbs nobody.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use collect::config::Timeout;
use collect::store::HashStore;
use collect::{Call, CallOptions, Error, ForkOptions, World};

use super::{Running, barrier, join, patient, sum, values};
use crate::ranks::{self, Ranks};

const SIZE: usize = 2;

/// Forks `rounds` times while other threads are inside.
pub(crate) fn disturbs_nobody(name: &str, rounds: usize) {
    if !ranks::is_rank() {
        let mut processes = Ranks::spawn(name, SIZE);
        for (rank, status) in processes.wait_all().into_iter().enumerate() {
            assert!(status.success(), "rank {rank}: {status}");
        }
        return;
    }
    let world = join(SIZE, &patient()).unwrap();
    let busy: Vec<World> = (0..3).map(|_| world.fork(&ForkOptions::default()).unwrap()).collect();
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        for fork in &busy {
            let is_over = &is_over;
            scope.spawn(move || keep_busy(fork, is_over));
        }
        for _ in 0..rounds {
            let fork = world.fork(&ForkOptions::default()).unwrap();
            let pending = Running::start(&fork, 100_000).unwrap();
            // SAFETY: the child makes calls that return early, and ends by `_exit`.
            let pid = unsafe { libc::fork() };
            if pid == 0 {
                let failed = child(world, fork, pending);
                // SAFETY: ends the child.
                unsafe { libc::_exit(failed) };
            }
            assert_eq!(end_of(pid), 0, "the number of a check that failed in the child");
            pending.end(SIZE).unwrap();
            barrier(&fork).unwrap();
        }
        is_over.store(true, Ordering::Relaxed);
        let mut all = values(world.rank(), 1000);
        sum(&world, &mut all, Timeout::Default).unwrap();
        assert!(super::are_sums(&all, SIZE));
    });
}

/// Until both ranks have had enough.
fn keep_busy(fork: &World, is_over: &AtomicBool) {
    loop {
        let mut enough = [u64::from(is_over.load(Ordering::Relaxed))];
        sum(fork, &mut enough, Timeout::Default).unwrap();
        if enough == [SIZE as u64] {
            return;
        }
    }
}

/// What a child tries. Takes copies of the parent's handles, and drops them. The number of the check that failed.
fn child(world: World, fork: World, pending: Running) -> i32 {
    let forked = Some(Err(Error::Forked));
    let mut numbers = [1, 2];
    let checks = [
        barrier(&world) == Err(Error::Forked),
        sum(&fork, &mut numbers, Timeout::Default) == Err(Error::Forked),
        matches!(fork.start(&Call::Barrier, &CallOptions::default()), Err(Error::Forked)),
        matches!(world.fork(&ForkOptions::default()), Err(Error::Forked)),
        fork.abort("not ours") == Err(Error::Forked),
        pending.request.wait_for(Some(Duration::from_millis(1))) == forked,
        pending.request.wait() == Err(Error::Forked),
        pending.request.outcome() == forked,
        world.error() == Some(Error::Forked),
        (world.size(), fork.size(), fork.local_size()) == (SIZE, SIZE, SIZE),
        numbers == [1, 2],
    ];
    let other = world.clone();
    drop((pending, fork, world, other));
    checks.iter().position(|holds| !holds).map_or(0, |at| i32::try_from(at + 1).unwrap_or(255))
}

/// A child of a process that is at rest makes worlds of its own.
pub(crate) fn begins_anew(name: &str) {
    if !ranks::is_rank() {
        let mut processes = Ranks::spawn(name, 1);
        assert!(processes.wait_all()[0].success());
        return;
    }
    let world = join(1, &patient()).unwrap();
    barrier(&world).unwrap();
    // SAFETY: no other thread holds a lock of the allocator or the library now; the child ends by `_exit`.
    let pid = unsafe { libc::fork() };
    if pid == 0 {
        let works = barrier(&world) == Err(Error::Forked) && works_alone() && {
            // SAFETY: as above, of a child of the child.
            let pid = unsafe { libc::fork() };
            if pid == 0 {
                // SAFETY: ends the grandchild.
                unsafe { libc::_exit(i32::from(!works_alone())) };
            }
            end_of(pid) == 0
        };
        // SAFETY: ends the child.
        unsafe { libc::_exit(i32::from(!works)) };
    }
    assert_eq!(end_of(pid), 0);
    barrier(&world).unwrap();
}

fn works_alone() -> bool {
    let Ok(world) = World::create(&HashStore::new(), 0, 1, &patient()) else { return false };
    let mut numbers = [7];
    sum(&world, &mut numbers, Timeout::Default).is_ok() && barrier(&world).is_ok() && numbers == [7]
}

/// The exit status of a child; one that hangs is a failure.
fn end_of(pid: libc::pid_t) -> i32 {
    assert!(pid > 0, "fork");
    let until = Instant::now() + ranks::DEADLINE;
    loop {
        let mut status = 0;
        // SAFETY: `status` is writable, and `pid` is our child.
        let ended = unsafe { libc::waitpid(pid, &raw mut status, libc::WNOHANG) };
        if ended == pid {
            return if libc::WIFEXITED(status) { libc::WEXITSTATUS(status) } else { -1 };
        }
        if Instant::now() > until {
            // SAFETY: `pid` is our child, which has not been waited for.
            unsafe { libc::kill(pid, libc::SIGKILL) };
            panic!("the child hangs");
        }
        thread::sleep(Duration::from_millis(1));
    }
}
