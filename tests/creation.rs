//! Creations whose other side is stopped, or never comes: each ends by its own deadline, and names who it was.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod ranks;
mod scenes;

use std::thread;
use std::time::{Duration, Instant};

use collect::config::{Connect, Timeout};
use collect::{Error, WorldOptions};
use ranks::Ranks;
use scenes::{barrier, eventually, join, patient, state_of};

/// A world of three, of which rank 2 never comes.
const SIZE: usize = 3;

fn within(milliseconds: u64) -> WorldOptions {
    let timeout = Timeout::After(Duration::from_millis(milliseconds));
    WorldOptions { timeout, ..patient() }
}

fn blames(error: &Error, culprit: usize, parts: &[&str]) {
    let Error::TimedOut { rank: Some(rank), text } = error else { panic!("{error:?}") };
    assert!(*rank == culprit && parts.iter().all(|part| text.contains(part)), "{error:?}");
}

/// Rank 0 waits for members, and is stopped `when` a member may or may not have called; that member has 1.5 s.
fn a_stopped_rank_0(name: &str, is_before_the_call: bool) {
    if !ranks::is_rank() {
        let mut processes = Ranks::spawn(name, 2);
        let record = processes.folder.join("store/collect%2Fworld");
        eventually("rank 0 leaves its record", || record.exists());
        let stop = |processes: &Ranks| {
            processes.signal(0, libc::SIGSTOP);
            let pid = processes.children[0].id();
            eventually("rank 0 is stopped", || state_of(pid) == Some('T'));
        };
        if is_before_the_call {
            stop(&processes);
            ranks::mark_in(&processes.folder, "go");
        } else {
            ranks::mark_in(&processes.folder, "go");
            ranks::await_mark(&processes.folder, "calls");
            // Time to be let in; the outcome is the same if it is not enough.
            thread::sleep(Duration::from_millis(300));
            stop(&processes);
        }
        let status = processes.wait(1, Instant::now() + ranks::DEADLINE);
        assert!(status.success(), "{status}");
        return;
    }
    if ranks::rank() == 0 {
        let _ = join(SIZE, &patient());
        return;
    }
    ranks::await_mark(&ranks::folder(), "go");
    ranks::mark("calls");
    let error = join(SIZE, &within(1500)).unwrap_err();
    blames(&error, 0, &["world \"world\"", "rank 0", "127.0.0.1:"]);
}

#[test]
fn a_rank_0_that_is_stopped_before_a_member_calls_is_named() {
    a_stopped_rank_0("a_rank_0_that_is_stopped_before_a_member_calls_is_named", true);
}

#[test]
fn a_rank_0_that_is_stopped_when_it_has_let_a_member_in_is_named() {
    a_stopped_rank_0("a_rank_0_that_is_stopped_when_it_has_let_a_member_in_is_named", false);
}

/// All are there, and one is stopped before the links of an eager world are made: their creation ends in time, too.
#[test]
fn a_member_that_is_stopped_while_the_links_are_made_is_named() {
    let name = "a_member_that_is_stopped_while_the_links_are_made_is_named";
    if !ranks::is_rank() {
        let mut processes = Ranks::spawn(name, SIZE);
        ranks::await_mark(&processes.folder, "made");
        processes.signal(2, libc::SIGSTOP);
        let pid = processes.children[2].id();
        eventually("rank 2 is stopped", || state_of(pid) == Some('T'));
        ranks::mark_in(&processes.folder, "go");
        for rank in 0..2 {
            let status = processes.wait(rank, Instant::now() + ranks::DEADLINE);
            assert!(status.success(), "rank {rank}: {status}");
        }
        return;
    }
    // Lazy on the victim, which so is through, and eager on the others.
    if ranks::rank() == 2 {
        let _world = join(SIZE, &within(60_000)).unwrap();
        ranks::mark("made");
        loop {
            thread::park();
        }
    }
    let options = WorldOptions { connect: Connect::Eager, ..within(6000) };
    let error = join(SIZE, &options).unwrap_err();
    ranks::await_mark(&ranks::folder(), "go");
    blames(&error, 2, &["rank 2"]);
}

/// A rank that never comes is named by all that do; the world can be made when it comes at last.
#[test]
fn a_rank_that_never_comes_is_named_and_may_come_later() {
    let name = "a_rank_that_never_comes_is_named_and_may_come_later";
    if !ranks::is_rank() {
        let mut processes = Ranks::spawn(name, SIZE);
        for (rank, status) in processes.wait_all().into_iter().enumerate() {
            assert!(status.success(), "rank {rank}: {status}");
        }
        return;
    }
    let told = |rank| format!("told.{rank}");
    if ranks::rank() == 2 {
        (0..2).for_each(|rank| ranks::await_mark(&ranks::folder(), &told(rank)));
    } else {
        ranks::mark(&format!("here.{}", ranks::rank()));
        ranks::await_mark(&ranks::folder(), &format!("here.{}", 1 - ranks::rank()));
        blames(&join(SIZE, &within(2000)).unwrap_err(), 2, &[": 2;"]);
        ranks::mark(&told(ranks::rank()));
    }
    barrier(&join(SIZE, &patient()).unwrap()).unwrap();
}
