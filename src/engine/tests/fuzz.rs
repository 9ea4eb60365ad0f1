//! A peer that sends frames at random, well-formed and not: no panic, no lost credit, no byte outside a buffer.
#![forbid(unsafe_code)]

use std::io::{IoSlice, IoSliceMut};
use std::time::Duration;

use super::case::{Case, Size};
use super::fault::Fault;
use super::harness::Harness;
use super::rank::world_id;
use crate::link::Mesh;
use crate::link::frame::{Class, Fingerprint, Header, Kind};
use crate::link::sim::random::Random;

const KINDS: [Kind; 12] = [
    Kind::Data,
    Kind::Eager,
    Kind::Grant,
    Kind::Request,
    Kind::Waiting,
    Kind::Credit,
    Kind::Abort,
    Kind::Goodbye,
    Kind::Reset,
    Kind::Farewell,
    Kind::Ping,
    Kind::Pong,
];

const CLASSES: [Class; 8] = [
    Class::Ordered,
    Class::Ordered,
    Class::Ordered,
    Class::Fork,
    Class::Control,
    Class::Keyed,
    Class::Upward,
    Class::Downward,
];

/// A frame that may well belong to an operation of the other side, whose fingerprints are `known`.
fn frame(random: &mut Random, known: &[Fingerprint], lengths: &[u64]) -> Vec<u8> {
    let number = |random: &mut Random| random.pick(&[0, 0, 1, 2, 7]);
    let rare = [Kind::Abort, Kind::Goodbye, Kind::Reset, Kind::Farewell];
    let mut kind = random.pick(&KINDS);
    if rare.contains(&kind) && random.chance(90) {
        kind = Kind::Eager;
    }
    let message = if kind == Kind::Pong { random.below(5) as u64 } else { random.pick(lengths) };
    let offset = random.pick(&[0, 0, 1, 8, message / 2, message, u64::MAX]);
    let length = match kind {
        Kind::Eager => message.min(1 << 16),
        Kind::Data => message.saturating_sub(offset).min(1 + random.below(200) as u64),
        Kind::Abort | Kind::Reset => random.below(40) as u64,
        _ => 0,
    };
    let payload = vec![0x77; usize::try_from(length).unwrap()];
    let header = Header {
        kind,
        class: random.pick(&CLASSES),
        world: random.pick(&[world_id(0), world_id(0), world_id(0), world_id(1), 5]),
        operation: u64::from(number(random)),
        turn: random.pick(&[0, 0, 0, 1, 2]),
        is_token: random.chance(5),
        slice: number(random),
        ordinal: if random.chance(5) { u32::MAX } else { number(random) },
        offset: if kind == Kind::Eager { 0 } else { offset },
        message,
        length: u32::try_from(length).unwrap(),
        credits: random.pick(&[0, 0, 0, 100, u32::MAX]),
        checksum: if random.chance(90) { crc32c::crc32c(&payload) } else { 7 },
        fingerprint: random.pick(known),
    };
    let mut out = header.encode().to_vec();
    if Header::decode(header.encode().first_chunk().unwrap()).is_err() {
        // Most of what is no frame would end the link at once.
        return if random.chance(3) { out } else { Vec::new() };
    }
    out.extend_from_slice(&payload);
    out
}

fn confuse(seed: u64) {
    let mut random = Random::new(seed);
    let mut case = Case::random(seed, Size { ranks: 2, calls: 4 });
    case.ranks = 2;
    case.fault = Fault::None;
    if seed.is_multiple_of(3) {
        // So that somebody is blamed, by what the peer has said.
        case.calls.iter_mut().for_each(|call| call.timeout_ns = Some(500_000_000));
    }
    if case.worlds[0].peers.len() != 2 {
        return;
    }
    let mut harness = Harness::new(&case, false);
    harness.ranks[1].is_alive = false;
    harness.is_confused = true;
    let mut mesh = harness.network.mesh(1);
    mesh.dial(0);
    let mut events = Vec::new();
    let known: Vec<Fingerprint> =
        (0..case.calls.len()).map(|call| super::call::fingerprint(&case.calls[call])).collect();
    let lengths: Vec<u64> = case
        .calls
        .iter()
        .flat_map(|call| {
            let bytes = (call.count * call.datatype.bytes()) as u64;
            [bytes, bytes.div_ceil(2), bytes.min(256), 0]
        })
        .collect();
    let mut pending: Vec<u8> = Vec::new();
    let mut buffer = [0; 4096];
    for _ in 0..3_000 {
        if !harness.once() {
            harness.network.advance_to(harness.network.now() + 1_000_000);
        }
        let _ = mesh.poll(Some(Duration::ZERO), &mut events);
        while matches!(mesh.read(0, &mut [IoSliceMut::new(&mut buffer)]), Ok(count) if count > 0) {}
        if pending.is_empty() && random.chance(30) {
            pending = frame(&mut random, &known, &lengths);
        }
        if !pending.is_empty()
            && let Ok(count) = mesh.write(0, &[IoSlice::new(&pending)])
        {
            pending.drain(..count);
        }
    }
    harness.ranks[0].core.audit();
    for memory in harness.ranks[0].running.iter().flat_map(|r| &r.memories) {
        assert!(memory.is_fenced());
    }
}

#[test]
fn a_confused_peer_does_no_harm() {
    for seed in 0..1_500 {
        let run = std::panic::catch_unwind(|| confuse(seed));
        assert!(run.is_ok(), "seed {seed}");
    }
}
