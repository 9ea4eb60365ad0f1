//! Faults on purpose: who is named, by whom, and in which words.
#![forbid(unsafe_code)]

use super::case::{Call, Case, Message};
use super::content::MATRIX;
use super::directed::{allreduce, case, outcomes, text};
use super::fault::{DEADLINE, Fault, LONG};
use super::harness::Harness;
use super::rank::Act;
use crate::datatype::{Datatype, Op};
use crate::error::Error;
use crate::link::sim::Spot;
use crate::plan::{Algorithm, Collective};

fn message(from: u32, to: u32, is_wild: bool) -> Message {
    let (datatype, timeout_ns) = (Datatype::U8, Some(DEADLINE));
    Message { world: 0, from, to, tag: 7, datatype, count: 20, is_wild, timeout_ns }
}

fn timed(call: Call) -> Call {
    Call { timeout_ns: Some(DEADLINE), ..call }
}

/// Runs a case with these scripts in world 0; ranks without one keep their own.
fn play<'a>(case: &'a Case, scripts: &[(usize, &[Act])]) -> Harness<'a> {
    let mut harness = Harness::new(case, false);
    for (rank, script) in scripts {
        harness.ranks[*rank].script[0] = script.iter().copied().collect();
    }
    harness.go();
    harness
}

/// Whom each living rank names for the failure of world 0.
fn named(harness: &Harness<'_>) -> Vec<Option<usize>> {
    let alive = harness.ranks.iter().filter(|rank| rank.is_alive);
    alive.map(|rank| rank.healths[0].failure().and_then(|error| error.rank())).collect()
}

/// How an act of a rank has failed.
fn failure(harness: &Harness<'_>, rank: usize, act: Act) -> String {
    let found = harness.ranks[rank].running.iter().find(|running| running.act == act);
    text(&found.and_then(|running| running.outcome.clone()))
}

/// Each rank waits for a message of the next one, and the last one sends none: news that have gone through more ranks than
/// a message has.
#[test]
fn news_come_to_a_message_from_as_far_as_the_world_reaches() {
    let mut case = case(5, 1, vec![allreduce(0, 1)], Fault::None);
    case.messages = (0..4).map(|to| message(to + 1, to, false)).collect();
    case.messages[1..].iter_mut().for_each(|message| message.timeout_ns = None);
    let all: Vec<[Act; 1]> = (0..4).map(|number| [Act::Receive(number)]).collect();
    let mut scripts: Vec<(usize, &[Act])> =
        all.iter().enumerate().map(|(rank, acts)| (rank, &acts[..])).collect();
    scripts.push((4, &[]));
    let harness = play(&case, &scripts);
    assert_eq!(named(&harness), [Some(4); 5]);
    let text = failure(&harness, 0, Act::Receive(0));
    assert!(text.contains("rank 4 (sim:4) has not called it"), "{text}");
}

/// What rank 2 sent has come, and is parked until that of rank 1 can be reduced before it.
#[test]
fn who_has_sent_his_part_is_not_awaited() {
    let reduce = Call {
        collective: Collective::Reduce,
        datatype: Datatype::U8,
        op: Op::Custom,
        ..timed(allreduce(0, 2))
    };
    assert_eq!(reduce.element(), MATRIX);
    let case = case(3, 1, vec![reduce], Fault::Absent { call: 0, rank: 1 });
    let harness = play(&case, &[]);
    assert_eq!(named(&harness), [Some(1); 3]);
    let text = text(&outcomes(&harness, 0)[0]);
    assert!(text.contains("this rank waits for rank 1 (") && !text.contains("rank 2"), "{text}");
}

#[test]
fn both_ends_of_a_way_that_is_cut_in_one_direction_name_each_other() {
    for (from, to) in [(0, 1), (1, 0)] {
        for after in [3, 10, 30] {
            let fault = Fault::Cut { from, to, is_both: false, after };
            let case = case(2, 1, vec![timed(allreduce(0, 500)); 3], fault);
            let harness = play(&case, &[]);
            assert_eq!(named(&harness), [Some(1), Some(0)], "{fault:?}");
        }
    }
}

#[test]
fn a_receive_from_any_rank_that_is_too_late_names_whom_another_operation_waits_for() {
    let mut case = case(3, 1, vec![allreduce(0, 50)], Fault::Absent { call: 0, rank: 2 });
    case.messages = vec![message(1, 0, true)];
    let harness =
        play(&case, &[(0, &[Act::Call(0), Act::Receive(0)]), (1, &[Act::Call(0)]), (2, &[])]);
    let text = failure(&harness, 0, Act::Receive(0));
    assert!(text.contains("receive from any rank with tag 7"), "{text}");
    assert!(text.contains("within 60 s: rank 2 (sim:2) has not called it"), "{text}");
    assert_eq!(named(&harness), [Some(2); 3]);
}

#[test]
fn a_process_that_was_stopped_beyond_its_deadline_names_itself() {
    let fault = Fault::Freeze { rank: 1, after: 20, pause_ns: Some(LONG) };
    let mut case = case(2, 1, vec![allreduce(0, 50)], fault);
    case.messages = vec![message(0, 1, false)];
    let harness = play(&case, &[(0, &[Act::Call(0)]), (1, &[Act::Call(0), Act::Receive(0)])]);
    let text = failure(&harness, 1, Act::Receive(0));
    assert!(text.contains("this process itself, rank 1, was stopped"), "{text}");
    assert_eq!(named(&harness), [Some(1); 2]);
}

#[test]
fn a_silent_process_is_lost_without_a_deadline() {
    let fault = Fault::Freeze { rank: 2, after: 10, pause_ns: None };
    let mut case = case(4, 1, vec![allreduce(0, 200); 3], fault);
    case.limits.silence_ns = 30_000_000_000;
    let harness = play(&case, &[]);
    assert_eq!(named(&harness), [Some(2); 3]);
    for outcome in outcomes(&harness, 2).iter().filter(|outcome| outcome.is_some()) {
        let text = text(outcome);
        assert!(text.contains("it has said nothing for 30 s although it was asked"), "{text}");
    }
}

#[test]
fn without_deadline_and_silence_a_stopped_process_is_waited_for() {
    let fault = Fault::Freeze { rank: 1, after: 10, pause_ns: Some(LONG) };
    let case = case(3, 1, vec![allreduce(0, 200); 3], fault);
    super::harness::run(&case, false);
}

#[test]
fn an_altered_header_ends_the_link_and_the_world() {
    let fault = Fault::Corrupt { from: 0, to: 1, spot: Spot::Header(40), after: 5 };
    let case = case(3, 1, vec![allreduce(0, 500); 3], fault);
    let harness = play(&case, &[]);
    assert!(harness.network.has_read_damage(0, 1));
    assert!(named(&harness).iter().all(|rank| matches!(rank, Some(0 | 1))));
    let text = text(&outcomes(&harness, 2)[1]);
    assert!(text.contains("lost rank 0 at sim:0: a frame's header has a wrong checksum"), "{text}");
}

/// Whether it is copied to its place or reduced, parked before or read from the link: no byte of it counts.
#[test]
fn altered_payload_is_found_where_payload_carries_checksums() {
    for count in [4, 500] {
        for (collective, algorithm) in [
            (Collective::Allreduce, Algorithm::Direct),
            (Collective::Broadcast, Algorithm::Binomial),
        ] {
            for number in [0, 3, 12, 700] {
                let spot = Spot::Payload(number);
                let fault = Fault::Corrupt { from: 0, to: 1, spot, after: 0 };
                let call = Call { collective, algorithm, ..allreduce(0, count) };
                let mut case = case(2, 1, vec![call; 4], fault);
                case.checksum = true;
                case.seed = number as u64;
                let harness = play(&case, &[]);
                assert!(harness.network.has_read_damage(0, 1));
                assert!(harness.ranks[1].core.has_lost(0));
                assert_eq!(named(&harness), [Some(1), Some(0)]);
                let Some(Error::PeerLost { text, .. }) = harness.ranks[1].healths[0].failure()
                else {
                    panic!("{:?}", harness.ranks[1].healths[0].failure())
                };
                assert!(
                    text.contains("bytes of payload is wrong: they were altered on the way from rank 0 to rank 1 of world"),
                    "{text}"
                );
            }
        }
    }
}

#[test]
fn altered_payload_is_not_reduced() {
    let fault = Fault::Corrupt { from: 0, to: 1, spot: Spot::Payload(5), after: 0 };
    let reduce = Call { collective: Collective::Reduce, root: 1, ..allreduce(0, 500) };
    let mut case = case(2, 1, vec![reduce], fault);
    case.checksum = true;
    let mut harness = Harness::new(&case, false);
    harness.keeps_contents = true;
    harness.go();
    let output = &harness.ranks[1].running[0].memories[1];
    // The first frame was altered; none after it can have come.
    assert_eq!(output.content(), [0xee; 2000]);
}
