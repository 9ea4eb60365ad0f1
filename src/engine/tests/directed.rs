//! What the random programs find by chance, on purpose: the text of errors, and bounds.
#![forbid(unsafe_code)]

use std::time::Duration;

use super::case::{Call, Case, SMALL, WorldSpec};
use super::fault::Fault;
use super::harness::Harness;
use super::memory::Memory;
use super::rank::{Act, world_id};
use super::verdict;
use crate::datatype::{Datatype, Op};
use crate::engine::Limits;
use crate::engine::core::Command;
use crate::error::Error;
use crate::link::sim::Settings;
use crate::plan::{Algorithm, Collective};

pub(super) fn allreduce(world: usize, count: usize) -> Call {
    Call {
        world,
        collective: Collective::Allreduce,
        algorithm: Algorithm::Direct,
        degree: 0,
        datatype: Datatype::F32,
        op: Op::Sum,
        root: 0,
        count,
        variety: 0,
        key: None,
        buffers: 1,
        in_place: 0,
        timeout_ns: None,
    }
}

pub(super) fn broadcast(world: usize, root: u32, count: usize) -> Call {
    let (collective, algorithm) = (Collective::Broadcast, Algorithm::Binomial);
    Call { collective, algorithm, root, ..allreduce(world, count) }
}

/// Worlds of all ranks, each forked from the first.
pub(super) fn case(ranks: usize, worlds: usize, calls: Vec<Call>, fault: Fault) -> Case {
    let peers: Vec<u32> = (0..u32::try_from(ranks).unwrap()).collect();
    let spec = |world| WorldSpec { parent: (world > 0).then_some(0), peers: peers.clone() };
    Case {
        seed: 1,
        ranks,
        worlds: (0..worlds).map(spec).collect(),
        calls,
        messages: Vec::new(),
        fault,
        limits: Limits { credits: 2048, early_frames: 1 << 16, ..SMALL },
        settings: Settings::new(1_000, 1 << 16),
        checksum: false,
        fork_timeout_ns: None,
        jump_max_ns: 100_000_000_000,
    }
}

/// Runs until nothing moves. What a rank's call came to.
pub(super) fn outcomes(harness: &Harness<'_>, call: usize) -> Vec<Option<Result<(), Error>>> {
    let of_rank = |rank: &super::rank::Rank| {
        let found = rank.running.iter().find(|running| running.act == Act::Call(call));
        found.and_then(|running| running.outcome.clone())
    };
    harness.ranks.iter().map(of_rank).collect()
}

pub(super) fn text(outcome: &Option<Result<(), Error>>) -> String {
    match outcome {
        Some(Err(error)) => error.to_string(),
        other => panic!("no error: {other:?}"),
    }
}

#[test]
fn two_ranks_allreduce() {
    let case = case(2, 1, vec![allreduce(0, 4), allreduce(0, 1000)], Fault::None);
    super::harness::run(&case, false);
}

#[test]
fn a_mismatch_names_both_sides_on_both_ranks() {
    let instead = allreduce(0, 5);
    let fault = Fault::Mismatch { call: 0, rank: 1, instead };
    let case = case(2, 1, vec![allreduce(0, 4)], fault);
    let mut harness = Harness::new(&case, false);
    harness.go();
    for outcome in outcomes(&harness, 0) {
        assert!(matches!(outcome, Some(Err(Error::Mismatch(_)))));
        assert_eq!(
            text(&outcome),
            "world \"w0\" operation 0: rank 0 called allreduce(f32, 4, sum), \
             rank 1 called allreduce(f32, 5, sum)"
        );
    }
}

#[test]
fn two_ranks_that_both_receive_find_out_by_waiting() {
    let fault = Fault::Mismatch { call: 0, rank: 0, instead: broadcast(0, 1, 4) };
    let case = case(2, 1, vec![broadcast(0, 0, 4)], fault);
    let mut harness = Harness::new(&case, false);
    harness.go();
    assert!(harness.network.now() >= case.limits.waiting_after_ns);
    for outcome in outcomes(&harness, 0) {
        assert_eq!(
            text(&outcome),
            "world \"w0\" operation 0: rank 0 called broadcast(f32, 4, root 1), \
             rank 1 called broadcast(f32, 4, root 0)"
        );
    }
}

#[test]
fn two_roots_of_a_large_broadcast_find_out() {
    let fault = Fault::Mismatch { call: 0, rank: 1, instead: broadcast(0, 1, 500) };
    let case = case(2, 1, vec![broadcast(0, 0, 500)], fault);
    let mut harness = Harness::new(&case, false);
    harness.go();
    for outcome in outcomes(&harness, 0) {
        assert!(text(&outcome).contains("rank 1 called broadcast(f32, 500, root 1)"));
    }
}

#[test]
fn a_mismatched_message_writes_nothing() {
    let fault = Fault::Mismatch { call: 0, rank: 1, instead: broadcast(0, 0, 3) };
    let case = case(2, 1, vec![broadcast(0, 0, 4)], fault);
    let mut harness = Harness::new(&case, false);
    harness.keeps_contents = true;
    harness.go();
    assert!(matches!(&outcomes(&harness, 0)[1], Some(Err(Error::Mismatch(_)))));
    let output = &harness.ranks[1].running[0].memories[0];
    assert_eq!(output.content(), [0xee; 12]);
}

#[test]
fn a_killed_peer_is_named_on_every_rank() {
    let calls = vec![allreduce(0, 100), allreduce(0, 100)];
    let case = case(4, 1, calls, Fault::Death { rank: 2, after: 3, other: 2, later: 3 });
    let mut harness = Harness::new(&case, false);
    harness.go();
    for (rank, outcome) in outcomes(&harness, 1).into_iter().enumerate().filter(|(r, _)| *r != 2) {
        let Some(Err(Error::PeerLost { rank: lost, text })) = outcome else {
            panic!("rank {rank}: {outcome:?}")
        };
        assert_eq!(lost, 2, "{text}");
        assert!(text.contains("lost rank 2 at sim:2"), "{text}");
    }
}

#[test]
fn a_deadline_names_the_rank_that_has_not_called() {
    let call = Call { timeout_ns: Some(1_000_000_000), ..allreduce(0, 10) };
    let case = case(3, 1, vec![call], Fault::Absent { call: 0, rank: 1 });
    let mut harness = Harness::new(&case, false);
    harness.go();
    for rank in [0, 2] {
        assert_eq!(
            text(&outcomes(&harness, 0)[rank]),
            "world \"w0\" operation 0, allreduce(f32, 10, sum): not complete within 1 s: rank 1 (sim:1) has not called \
             it (it has called 0 ordered operations of this world); this rank waits for rank 1 (0 of 40 bytes have \
             come, it has not called it, last heard 0.125 s ago, at sim:1)"
        );
    }
}

#[test]
fn late_callers_of_a_failed_fork_get_its_error_and_the_parent_stays_whole() {
    let calls = vec![allreduce(0, 4), allreduce(0, 300)];
    let case = case(3, 2, calls, Fault::ForkLate { world: 1, rank: 2 });
    let mut harness = Harness::new(&case, false);
    harness.go();
    verdict::of_operations(&harness);
    let late = harness.ranks[2].running.iter().find(|running| running.act == Act::Fork(1));
    let outcome = late.and_then(|running| running.outcome.clone());
    assert!(text(&outcome).contains("not complete within 0.05 s"), "{outcome:?}");
    assert!(outcomes(&harness, 1).iter().all(|outcome| *outcome == Some(Ok(()))));
}

#[test]
fn a_late_fork_that_is_known_to_have_failed_ends_without_a_word() {
    let case = case(2, 2, vec![allreduce(0, 4)], Fault::ForkLate { world: 1, rank: 1 });
    let mut harness = Harness::new(&case, false);
    harness.ranks[1].stalled_until = 100_000_000;
    while harness.network.now() < 100_000_000 {
        harness.once();
    }
    let late = &mut harness.ranks[1];
    for _ in 0..20 {
        late.core.work();
        late.core.poll(Some(Duration::ZERO)).unwrap();
    }
    late.act(&case, 0, false);
    late.core.work();
    late.collect();
    assert!(matches!(late.running[0].outcome, Some(Err(Error::TimedOut { .. }))));
}

/// What nobody ends asks for ever, so that something can always happen.
pub(super) fn go_for_a_minute(harness: &mut Harness<'_>) {
    let end = harness.network.now() + 60_000_000_000;
    while harness.network.now() < end && harness.once() {}
}

#[test]
fn operations_beyond_the_window_wait_in_order() {
    let calls = vec![allreduce(0, 4); 40];
    let case = case(2, 1, calls, Fault::Absent { call: 10, rank: 1 });
    let mut harness = Harness::new(&case, false);
    harness.ranks.iter_mut().for_each(|rank| rank.window = 1_000);
    go_for_a_minute(&mut harness);
    let outcomes: Vec<_> = (0..40).map(|call| outcomes(&harness, call)[0].is_some()).collect();
    assert!(outcomes[..10].iter().all(|is_ended| *is_ended));
    assert!(!outcomes[10..].iter().any(|is_ended| *is_ended));
    let (active, queued) = harness.ranks[0].core.operations_of(world_id(0));
    assert_eq!((active, queued), (case.limits.active_operations, 40 - 10 - active));
}

#[test]
fn a_long_queue_of_empty_operations_needs_little_stack() {
    let mut calls = vec![allreduce(0, 4)];
    calls.resize(20_000, allreduce(0, 0));
    let mut case = case(2, 1, calls, Fault::None);
    case.limits.active_operations = 1;
    let mut harness = Harness::new(&case, false);
    harness.ranks[0].window = 100_000;
    harness.ranks[1].stalled_until = 1_000_000_000;
    harness.go();
    assert!((0..20_000).all(|call| outcomes_are_well(&harness, call)));
}

fn outcomes_are_well(harness: &Harness<'_>, call: usize) -> bool {
    harness.ranks.iter().all(|rank| rank.running[call].outcome == Some(Ok(())))
}

#[test]
fn what_is_parked_for_a_world_that_is_not_called_is_bounded_while_a_sibling_goes_on() {
    let mut calls = vec![broadcast(0, 0, 8); 60];
    calls.extend([allreduce(1, 300); 5]);
    calls.extend([broadcast(1, 0, 8); 20]);
    let mut case = case(2, 2, calls, Fault::Absent { call: 0, rank: 1 });
    case.limits.active_operations = 100;
    let mut harness = Harness::new(&case, false);
    harness.ranks.iter_mut().for_each(|rank| rank.window = 1_000);
    go_for_a_minute(&mut harness);
    for call in 60..case.calls.len() {
        assert!(outcomes(&harness, call).iter().all(|outcome| *outcome == Some(Ok(()))));
    }
    let parked = harness.ranks[1].core.early_bytes(world_id(0));
    let frame = 32 + Limits::FRAME_CREDITS;
    assert_eq!(parked, case.limits.world_credits() / frame * 32);
}

#[test]
fn an_endpoint_that_fails_ends_every_operation_and_tells_its_peers() {
    let calls = vec![allreduce(0, 400), allreduce(1, 400)];
    let case = case(3, 2, calls, Fault::Absent { call: 1, rank: 2 });
    let mut harness = Harness::new(&case, false);
    go_for_a_minute(&mut harness);
    harness.ranks[0].core.fail_all(&Error::Internal("the driver has panicked".into()));
    harness.ranks[0].is_active = true;
    harness.go();
    for rank in [0, 1] {
        assert!(matches!(&outcomes(&harness, 1)[rank], Some(Err(Error::Internal(_)))));
        assert!(harness.ranks[rank].healths[0].failure().is_some());
    }
    assert!(harness.ranks[2].healths[1].failure().is_some());
}

#[test]
fn an_abort_lets_go_of_memory_at_once() {
    let mut case = case(2, 1, vec![allreduce(0, 2_000)], Fault::None);
    case.settings.window_bytes = 200;
    let mut harness = Harness::new(&case, false);
    while harness.ranks[0].running.is_empty() || harness.network.now() < 20_000 {
        harness.once();
    }
    let world = world_id(0);
    let error = Error::Aborted("enough".into());
    harness.ranks[0].core.command(Command::Fail { world, error });
    harness.ranks[0].core.work();
    harness.collect(0);
    assert!(text(&outcomes(&harness, 0)[0]).contains("enough"));
    harness.go();
    assert!(text(&outcomes(&harness, 0)[1]).contains("enough"));
    let mut all = harness.ranks.iter().flat_map(|rank| &rank.running[0].memories);
    assert!(all.all(Memory::is_poisoned));
}
