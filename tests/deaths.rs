//! Ranks that die, stop, leave and fork: the short forms. The long ones are in `faults`.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod ranks;
mod scenes;

use scenes::death::Death;
use scenes::{count, death, forked, leave, scarce, stop, stranger};

#[test]
fn a_killed_rank_is_named_because_its_connection_closed() {
    death::is_told("a_killed_rank_is_named_because_its_connection_closed", 2, Death::Killed);
}

#[test]
fn a_killed_rank_with_a_living_child_is_named_too() {
    death::is_told("a_killed_rank_with_a_living_child_is_named_too", 1, Death::Survived);
}

#[test]
fn a_rank_that_exits_in_an_operation_is_named() {
    death::is_told("a_rank_that_exits_in_an_operation_is_named", 3, Death::Exits);
}

#[test]
fn a_killed_store_server_with_a_living_child_is_seen() {
    death::of_a_store_is_seen("a_killed_store_server_with_a_living_child_is_seen");
}

#[test]
fn memory_is_the_callers_once_a_stopped_peer_has_timed_out() {
    stop::times_out("memory_is_the_callers_once_a_stopped_peer_has_timed_out", 2);
}

#[test]
fn nobody_misses_the_last_data_of_those_that_end_at_once() {
    let name = "nobody_misses_the_last_data_of_those_that_end_at_once";
    leave::at_once(name, 30, &[2, 3, 4], 1 << 20);
}

#[test]
fn a_child_made_by_fork_can_do_nothing_and_disturbs_nobody() {
    forked::disturbs_nobody("a_child_made_by_fork_can_do_nothing_and_disturbs_nobody", 20);
}

#[test]
fn a_child_made_by_fork_may_make_worlds_of_its_own() {
    forked::begins_anew("a_child_made_by_fork_may_make_worlds_of_its_own");
}

#[test]
fn strangers_at_the_door_disturb_nobody() {
    stranger::disturbs_nobody("strangers_at_the_door_disturb_nobody", 3, 5);
}

#[test]
fn a_creation_without_descriptors_says_so() {
    scarce::creation_says_so("a_creation_without_descriptors_says_so");
}

#[test]
fn a_first_link_without_descriptors_says_so() {
    scarce::first_link_says_so("a_first_link_without_descriptors_says_so");
}

#[test]
fn two_hundred_worlds_leave_nothing_behind() {
    count::nothing_stays("two_hundred_worlds_leave_nothing_behind", 2, 200);
}

#[test]
fn two_worlds_live_in_one_process() {
    count::two_worlds("two_worlds_live_in_one_process");
}

#[test]
fn an_abort_ends_all_threads_that_are_inside() {
    count::abort_ends_all("an_abort_ends_all_threads_that_are_inside");
}
