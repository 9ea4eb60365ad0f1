//! Ranks that die, stop, leave and fork: the long forms, `make test-faults`. The short ones are in `deaths`.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "faults/mod.rs"]
mod harness;
mod ranks;
mod reference;
mod scenes;

use scenes::death::Death;
use scenes::{count, death, forked, leave, stop, stranger};

#[test]
#[ignore = "long: make test-faults"]
fn every_rank_killed_in_turn_is_named() {
    each_in_turn("every_rank_killed_in_turn_is_named", Death::Killed);
}

#[test]
#[ignore = "long: make test-faults"]
fn every_rank_killed_in_turn_while_its_child_lives_is_named() {
    each_in_turn("every_rank_killed_in_turn_while_its_child_lives_is_named", Death::Survived);
}

#[test]
#[ignore = "long: make test-faults"]
fn every_rank_that_exits_in_turn_is_named() {
    each_in_turn("every_rank_that_exits_in_turn_is_named", Death::Exits);
}

/// Each rank is the victim five times.
fn each_in_turn(name: &str, death: Death) {
    if ranks::is_rank() {
        let victim = std::fs::read_to_string(ranks::folder().join("victim")).unwrap();
        return death::is_told(name, victim.parse().unwrap(), death);
    }
    (0..20).for_each(|round| death::is_told(name, round % 4, death));
}

#[test]
#[ignore = "long: make test-faults"]
fn stopped_peers_change_no_memory_many_times() {
    let name = "stopped_peers_change_no_memory_many_times";
    if ranks::is_rank() {
        let size = std::fs::read_to_string(ranks::folder().join("size")).unwrap();
        return stop::times_out(name, size.parse().unwrap());
    }
    (0..20).for_each(|round| stop::times_out(name, 2 + round % 3));
}

#[test]
#[ignore = "long: make test-faults"]
fn nobody_misses_the_last_data_a_thousand_times() {
    leave::at_once("nobody_misses_the_last_data_a_thousand_times", 1000, &[2, 3, 4], 1 << 20);
}

#[test]
#[ignore = "long: make test-faults"]
fn a_thousand_children_disturb_nobody() {
    forked::disturbs_nobody("a_thousand_children_disturb_nobody", 1000);
}

#[test]
#[ignore = "long: make test-faults"]
fn strangers_disturb_nobody_for_long() {
    stranger::disturbs_nobody("strangers_disturb_nobody_for_long", 4, 40);
}

#[test]
#[ignore = "long: make test-faults"]
fn two_thousand_worlds_leave_nothing_behind() {
    count::nothing_stays("two_thousand_worlds_leave_nothing_behind", 3, 2000);
}

#[test]
#[ignore = "long: make test-faults"]
fn a_thousand_random_faults_harm_nobody_else() {
    harness::sweep("a_thousand_random_faults_harm_nobody_else", 1000..2000, 2);
}
