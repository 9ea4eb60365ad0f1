//! Keys and messages on purpose: who meets whom, and the text of errors.
#![forbid(unsafe_code)]

use super::call::fingerprint;
use super::case::{Call, Case, Message, SMALL, WorldSpec};
use super::directed::go_for_a_minute;
use super::fault::Fault;
use super::harness::Harness;
use super::rank::{Act, world_id};
use crate::datatype::{Datatype, Op};
use crate::engine::Limits;
use crate::engine::core::Command;
use crate::error::Error;
use crate::link::sim::Settings;
use crate::plan::{Algorithm, Collective};

fn message(from: u32, to: u32, tag: u64, count: usize) -> Message {
    let datatype = Datatype::U16;
    Message { world: 0, from, to, tag, datatype, count, is_wild: false, timeout_ns: None }
}

fn from_any(from: u32, to: u32, tag: u64, count: usize) -> Message {
    Message { is_wild: true, ..message(from, to, tag, count) }
}

fn keyed(key: u64, count: usize) -> Call {
    Call {
        world: 0,
        collective: Collective::Allreduce,
        algorithm: Algorithm::Ring,
        degree: 0,
        datatype: Datatype::I32,
        op: Op::Sum,
        root: 0,
        count,
        variety: 0,
        key: Some(key),
        buffers: 1,
        in_place: 0,
        timeout_ns: None,
    }
}

fn case(ranks: usize, calls: Vec<Call>, messages: Vec<Message>) -> Case {
    let peers = (0..u32::try_from(ranks).unwrap()).collect();
    Case {
        seed: 7,
        ranks,
        worlds: vec![WorldSpec { parent: None, peers }],
        calls,
        messages,
        fault: Fault::None,
        limits: Limits { credits: 2048, early_frames: 1 << 16, ..SMALL },
        settings: Settings::new(1_000, 1 << 16),
        checksum: false,
        fork_timeout_ns: None,
        jump_max_ns: 100_000_000_000,
    }
}

/// How an act of a rank ended.
fn outcome(harness: &Harness<'_>, rank: usize, act: Act) -> Option<Result<(), Error>> {
    let mut all = harness.ranks[rank].running.iter();
    all.find(|running| running.act == act).and_then(|running| running.outcome.clone())
}

fn text(outcome: &Option<Result<(), Error>>) -> String {
    match outcome {
        Some(Err(error)) => error.to_string(),
        other => panic!("no error: {other:?}"),
    }
}

/// Runs with the scripts as they are given, rank by rank; those without one do nothing.
fn play<'a>(case: &'a Case, scripts: &[&[Act]]) -> Harness<'a> {
    let mut harness = Harness::new(case, false);
    let scripts = scripts.iter().copied().chain(std::iter::repeat(&[][..]));
    for (rank, script) in harness.ranks.iter_mut().zip(scripts) {
        rank.script[0] = script.iter().copied().collect();
        rank.loose[0].clear();
        rank.window = 1_000;
    }
    go_for_a_minute(&mut harness);
    harness
}

#[test]
fn messages_of_one_tag_meet_in_order_whatever_their_size() {
    let sizes = [1, 500, 0, 3, 2_000, 40];
    let messages = sizes.iter().map(|count| message(0, 1, 9, *count)).collect();
    let case = case(2, Vec::new(), messages);
    super::harness::run(&case, false);
}

#[test]
fn a_receive_behind_one_from_any_rank_gets_what_that_leaves() {
    // Rank 1 sends two messages with one tag; the first receive takes from anybody, the second from rank 1.
    let messages = vec![from_any(1, 0, 4, 300), message(1, 0, 4, 300)];
    let case = case(2, Vec::new(), messages);
    let receives = [Act::Receive(0), Act::Receive(1)];
    let harness = play(&case, &[&receives, &[Act::Send(0), Act::Send(1)]]);
    for act in receives {
        assert_eq!(outcome(&harness, 0, act), Some(Ok(())), "{}", harness.describe());
    }
}

#[test]
fn a_receive_from_any_rank_takes_a_message_to_oneself() {
    for count in [0, 5, 5_000] {
        let case = case(1, Vec::new(), vec![from_any(0, 0, 4, count)]);
        for script in [[Act::Send(0), Act::Receive(0)], [Act::Receive(0), Act::Send(0)]] {
            let harness = play(&case, &[&script]);
            assert!(script.iter().all(|act| outcome(&harness, 0, *act) == Some(Ok(()))));
        }
    }
}

#[test]
fn a_small_message_to_oneself_is_through_before_it_is_received_and_a_large_one_is_not() {
    let limits = SMALL.eager / 2;
    for (count, is_through) in [(limits, true), (limits + 1, false)] {
        let case = case(1, Vec::new(), vec![message(0, 0, 1, count)]);
        let harness = play(&case, &[&[Act::Send(0)]]);
        assert_eq!(outcome(&harness, 0, Act::Send(0)), is_through.then_some(Ok(())));
    }
}

#[test]
fn lengths_that_differ_fail_both_sides_with_both_numbers() {
    for (sent, expected) in [(4, 5), (0, 3), (3, 0), (400, 300), (400, 2), (2, 400)] {
        let messages = vec![message(0, 1, 3, sent), message(0, 1, 3, expected)];
        let case = case(2, Vec::new(), messages);
        let harness = play(&case, &[&[Act::Send(0)], &[Act::Receive(1)]]);
        let right =
            format!("rank 0 sends {} bytes to rank 1, which expects {}", 2 * sent, 2 * expected);
        let failures = harness.ranks.iter().map(|rank| rank.healths[0].failure());
        for failure in failures {
            let Some(Error::Mismatch(text)) = failure else {
                panic!("{sent} {expected}: {failure:?}")
            };
            assert!(text.contains(&right), "{text}");
        }
    }
}

#[test]
fn a_byte_is_told_from_the_absence_of_one() {
    let mut bytes = message(0, 1, 3, 1);
    bytes.datatype = Datatype::U8;
    let case = case(2, Vec::new(), vec![bytes, Message { count: 0, ..bytes }]);
    for (sent, received) in [(0, 1), (1, 0)] {
        let harness = play(&case, &[&[Act::Send(sent)], &[Act::Receive(received)]]);
        assert!(matches!(harness.ranks[1].healths[0].failure(), Some(Error::Mismatch(_))));
    }
}

#[test]
fn a_message_to_oneself_of_another_length_fails_the_world() {
    let case = case(1, Vec::new(), vec![message(0, 0, 3, 4), message(0, 0, 3, 5)]);
    let harness = play(&case, &[&[Act::Send(0), Act::Receive(1)]]);
    assert_eq!(
        text(&outcome(&harness, 0, Act::Receive(1))),
        "world \"w0\": rank 0 sent 8 bytes to itself as message(u16), and receives 10 bytes as message(u16)"
    );
}

#[test]
fn a_receive_that_nobody_serves_ends_by_its_deadline() {
    let limit = Some(2_000_000_000);
    let case = case(
        2,
        Vec::new(),
        vec![
            Message { timeout_ns: limit, ..message(1, 0, 8, 4) },
            Message { timeout_ns: limit, ..from_any(1, 0, 8, 4) },
        ],
    );
    let harness = play(&case, &[&[Act::Receive(0)]]);
    assert_eq!(
        text(&outcome(&harness, 0, Act::Receive(0))),
        "world \"w0\" message 0 from rank 1 with tag 8, message(u16): not complete within 2 s: rank 1 (sim:1) has not called it (it \
         has called 0 ordered operations of this world); this rank waits for rank 1 (0 of 8 bytes have come, it has \
         not called it, last heard 0.25 s ago, at sim:1)"
    );
    let harness = play(&case, &[&[Act::Receive(1)]]);
    assert_eq!(
        text(&outcome(&harness, 0, Act::Receive(1))),
        "world \"w0\" receive from any rank with tag 8: its counterpart has not come within 2 s"
    );
}

#[test]
fn a_receive_from_a_rank_that_leaves_fails() {
    let case = case(3, Vec::new(), vec![from_any(1, 0, 8, 4), message(1, 0, 8, 4)]);
    let mut harness = Harness::new(&case, false);
    for rank in &mut harness.ranks {
        rank.script[0].clear();
    }
    harness.ranks[0].script[0] = [Act::Receive(0), Act::Receive(1)].into();
    harness.ranks[1].script[0] = [Act::Leave].into();
    // Both others have to be known: a link tells that its rank has left.
    for rank in [1, 2] {
        harness.ranks[rank].core.command(Command::Connect { world: world_id(0) });
    }
    harness.go();
    let Some(Err(Error::PeerLost { rank, text })) = outcome(&harness, 0, Act::Receive(1)) else {
        panic!("{}", harness.describe())
    };
    assert_eq!(rank, 1);
    assert!(text.contains("receive from rank 1 with tag 8"), "{text}");
}

#[test]
fn a_key_in_use_is_refused_and_the_world_stays_whole() {
    let case = case(2, vec![keyed(5, 10), keyed(5, 10)], Vec::new());
    let both = [Act::Call(0), Act::Call(1)];
    let mut harness = Harness::new(&case, false);
    for rank in &mut harness.ranks {
        rank.loose[0].clear();
    }
    harness.ranks[0].script[0] = both.into();
    harness.ranks[0].window = 1_000;
    go_for_a_minute(&mut harness);
    assert_eq!(
        text(&outcome(&harness, 0, Act::Call(1))),
        "world \"w0\": key 5 is in use by an operation of this rank that is not complete; wait for it, or use another key"
    );
    harness.ranks[1].script[0] = [Act::Call(0)].into();
    harness.go();
    assert_eq!(outcome(&harness, 0, Act::Call(0)), Some(Ok(())));
    assert!(harness.ranks.iter().all(|rank| rank.healths[0].failure().is_none()));
}

#[test]
fn a_later_use_of_a_key_waits_for_its_own_turn() {
    // Rank 0 is through with the first use, a broadcast of its own, long before rank 2 has called it.
    let broadcast =
        Call { collective: Collective::Broadcast, algorithm: Algorithm::Binomial, ..keyed(5, 4) };
    let case = case(3, vec![broadcast, keyed(5, 40), Call { count: 7, ..broadcast }], Vec::new());
    let mut harness = Harness::new(&case, false);
    harness.ranks[2].stalled_until = 1_000_000_000;
    harness.go();
    for rank in 0..3 {
        for call in 0..3 {
            assert_eq!(outcome(&harness, rank, Act::Call(call)), Some(Ok(())));
        }
    }
}

#[test]
fn a_mismatch_of_a_keyed_call_names_the_key() {
    let mut case = case(2, vec![keyed(5, 4)], Vec::new());
    case.fault = Fault::Mismatch { call: 0, rank: 1, instead: keyed(5, 6) };
    assert_ne!(fingerprint(&keyed(5, 4)), fingerprint(&keyed(5, 6)));
    let mut harness = Harness::new(&case, false);
    harness.go();
    assert_eq!(
        text(&outcome(&harness, 0, Act::Call(0))),
        "world \"w0\" operation with key 5 (use 0): rank 0 called allreduce(i32, 4, sum), \
         rank 1 called allreduce(i32, 6, sum)"
    );
}

#[test]
fn more_messages_than_an_endpoint_holds_are_refused_one_by_one() {
    let mut case = case(2, Vec::new(), vec![message(0, 1, 1, 500); 40]);
    case.limits.unordered_operations = 30;
    let sends: Vec<Act> = (0..40).map(Act::Send).collect();
    let harness = play(&case, &[&sends]);
    let refused = sends
        .iter()
        .filter(|act| matches!(outcome(&harness, 0, **act), Some(Err(Error::Resource(_)))));
    assert_eq!(refused.count(), 10);
    assert!(harness.ranks[0].healths[0].failure().is_none());
}
