//! The bytes that each rank sends are those that the cost model counts in its plan.
//!
//! Every byte that a rank gives to sendmsg(2) is kept by a preloaded library, and read as frames afterwards: headers have
//! checksums, so that payload is told apart exactly.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod ranks;
mod reference;

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use collect::link::frame::{Class, HEADER_BYTES, Header, Kind};
use collect::plan::{self, Collective, Layout, Shape};
use collect::store::FileStore;
use collect::{Algorithm, Batch, Call, CallOptions, Datatype, ForkOptions, Op, Target, World};
use ranks::Ranks;
use reference::buffers::Prepared;
use reference::calls::{receive, send, send_of};
use reference::case::{Case, InPlace};

/// Every collective whose ranks all know all lengths, by every algorithm, with few and many elements.
fn cases(size: usize) -> Vec<Case> {
    let mut cases = Vec::new();
    let is_counted =
        |collective: &Collective| !collective.is_irregular() && *collective != Collective::Message;
    for collective in Collective::ALL.into_iter().filter(is_counted) {
        for algorithm in plan::algorithms(collective) {
            let counts: &[usize] =
                if collective == Collective::Barrier { &[0] } else { &[0, 1, 1000, 70_001] };
            for (at, count) in counts.iter().enumerate() {
                let is_multi = collective == Collective::Allreduce && at % 2 == 1;
                cases.push(Case {
                    algorithm: Some(*algorithm),
                    datatype: [Datatype::F32, Datatype::U16][at % 2],
                    op: Op::Max,
                    root: if collective.has_root() { (at + 1) % size } else { 0 },
                    in_place: if is_multi { InPlace::Nobody } else { InPlace::Some },
                    buffers: if is_multi { 2 } else { 1 },
                    degree: if *algorithm == Algorithm::Knomial { 2 + at as u16 % 2 } else { 0 },
                    ..Case::plain(collective, *count)
                });
            }
        }
    }
    cases
}

/// What the model says.
fn modelled(case: &Case, size: usize, rank: usize) -> u64 {
    let small = |number: usize| u32::try_from(number).unwrap();
    let algorithm = case.algorithm.unwrap();
    let shape = Shape {
        collective: case.collective,
        algorithm,
        size: small(size),
        rank: small(rank),
        root: small(case.root),
        in_place: case.buffers > 1 || case.is_in_place(size, rank),
        buffers: u16::try_from(case.buffers).unwrap(),
        degree: if case.degree == 0 { plan::default_degree(algorithm) } else { case.degree },
    };
    let plan = plan::build(&shape).unwrap();
    let blocks = match case.collective {
        Collective::Allgather
        | Collective::Gather
        | Collective::Scatter
        | Collective::ReduceScatter => size,
        Collective::Alltoall => size * size,
        _ => 1,
    };
    if case.collective == Collective::Barrier {
        // A token of one byte in each message.
        return plan::bytes_sent(&plan, &Layout::new(&plan, 1), 1);
    }
    let layout = Layout::new(&plan, case.elements(size, 0) * blocks);
    plan::bytes_sent(&plan, &layout, case.datatype.bytes())
}

/// The frames that a rank has sent on one connection: each header, and in which call its first byte went.
fn frames(recorded: &[u8]) -> Vec<(usize, Header)> {
    let (mut stream, mut ends, mut at) = (Vec::new(), Vec::new(), 0);
    while at < recorded.len() {
        let bytes = u64::from_ne_bytes(recorded[at..at + 8].try_into().unwrap()) as usize;
        stream.extend_from_slice(&recorded[at + 8..at + 8 + bytes]);
        ends.push(stream.len());
        at += 8 + bytes;
    }
    let (mut frames, mut at) = (Vec::new(), 0);
    // The handshake comes before the first frame.
    while let Some(bytes) = stream.get(at..at + HEADER_BYTES) {
        let Ok(header) = Header::decode(bytes.try_into().unwrap()) else {
            at += 1;
            continue;
        };
        frames.push((ends.partition_point(|end| *end <= at), header));
        at += HEADER_BYTES + header.length as usize;
    }
    frames
}

/// The frames with elements that a rank has sent, by connection.
fn payloads(folder: &Path, rank: usize) -> Vec<Vec<(usize, Header)>> {
    let prefix = format!("stream.{rank}.");
    let files = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let is_its = |path: &PathBuf| path.file_name().unwrap().to_str().unwrap().starts_with(&prefix);
    let has_elements = |(_, header): &(usize, Header)| {
        matches!(header.kind, Kind::Data | Kind::Eager) && !header.is_token
    };
    files
        .filter(is_its)
        .map(|path| frames(&fs::read(path).unwrap()).into_iter().filter(has_elements).collect())
        .collect()
}

fn library(name: &str) -> PathBuf {
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/cost/stream.c");
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let library = folder.join(format!("{name}-{}.so", std::process::id()));
    let built = Command::new("cc")
        .args(["-std=gnu11", "-O1", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC", "-o"])
        .arg(&library)
        .args([source, "-ldl", "-lpthread"])
        .status()
        .unwrap();
    assert!(built.success());
    library
}

/// Runs the processes of a test with the library preloaded, which keeps what they send.
fn run(name: &str, size: usize) -> Ranks {
    let library = library(name);
    let mut ranks = Ranks::spawn_by(name, size, |program, rank, folder| {
        let mut command = Command::new(program);
        command.env("LD_PRELOAD", &library);
        command.env("COLLECT_TEST_STREAM", folder.join(format!("stream.{rank}")));
        command
    });
    for (rank, status) in ranks.wait_all().into_iter().enumerate() {
        assert!(status.success(), "rank {rank}: {status}");
    }
    fs::remove_file(library).unwrap();
    ranks
}

fn world(size: usize) -> World {
    let store = FileStore::open(ranks::folder().join("store")).unwrap();
    World::create(&store, ranks::rank(), size, &ranks::blocking()).unwrap()
}

fn sends_what_the_model_says(name: &str, size: usize) {
    let cases = cases(size);
    if ranks::is_rank() {
        let world = world(size);
        for case in &cases {
            let mut prepared = Prepared::new(case, size, world.rank());
            world.run(&prepared.call(), &case.options(world.rank())).unwrap();
            prepared.check();
        }
        return;
    }
    let ranks = run(name, size);
    let mut total = 0;
    for rank in 0..size {
        let mut counted: HashMap<u64, u64> = HashMap::new();
        for (_, header) in payloads(&ranks.folder, rank).iter().flatten() {
            if header.class == Class::Ordered {
                *counted.entry(header.operation).or_default() += u64::from(header.length);
            }
        }
        for (number, case) in cases.iter().enumerate() {
            let sent = counted.get(&(number as u64)).copied().unwrap_or(0);
            assert_eq!(sent, modelled(case, size, rank), "rank {rank} of {size}: {case:?}");
            total += sent;
        }
    }
    println!("{size} ranks: {} calls, {total} bytes of payload", cases.len());
    assert!(total > 0);
}

#[test]
fn three_processes_send_what_the_model_says() {
    sends_what_the_model_says("three_processes_send_what_the_model_says", 3);
}

#[test]
fn four_processes_send_what_the_model_says() {
    sends_what_the_model_says("four_processes_send_what_the_model_says", 4);
}

#[test]
fn six_processes_send_what_the_model_says() {
    sends_what_the_model_says("six_processes_send_what_the_model_says", 6);
}

const ROUNDS: usize = 100;

/// The frames of a group of `many` small operations left in one call, in each of the rounds; of them are those that
/// `is_its` says.
fn must_leave_together(
    ranks: &Ranks,
    (rank, many): (usize, usize),
    is_its: impl Fn(&Header) -> bool,
) {
    let mut calls: HashMap<(usize, usize), usize> = HashMap::new();
    for (connection, frames) in payloads(&ranks.folder, rank).iter().enumerate() {
        for (call, _) in frames.iter().filter(|(_, header)| is_its(header)) {
            *calls.entry((connection, *call)).or_default() += 1;
        }
    }
    let together = calls.values().filter(|frames| **frames == many).count();
    assert_eq!(
        (together, calls.len()),
        (ROUNDS, ROUNDS),
        "calls with {many} frames, and all calls"
    );
}

#[test]
fn small_messages_of_a_group_of_processes_leave_in_one_write() {
    const MESSAGES: usize = 16;
    let name = "small_messages_of_a_group_of_processes_leave_in_one_write";
    if !ranks::is_rank() {
        let ranks = run(name, 2);
        return must_leave_together(&ranks, (0, MESSAGES), |header| header.class == Class::Upward);
    }
    let world = world(2);
    let fork = world.fork(&ForkOptions::default()).unwrap();
    let worlds = [&world, &fork];
    let data: Vec<[u64; 2]> = (0..MESSAGES as u64).map(|at| [at, at * at]).collect();
    if world.rank() == 1 {
        for _ in 0..ROUNDS {
            for (at, data) in data.iter().enumerate() {
                assert_eq!(receive(worlds[at % 2], 2, 0, at as u64), Ok(data.to_vec()));
            }
            send(&world, &[1u64], 0, 99).unwrap();
        }
        return;
    }
    let mut batch = Batch::new();
    for (at, data) in data.iter().enumerate() {
        let call = send_of(data, 1, at as u64);
        batch.add(worlds[at % 2], &call, &CallOptions::default()).unwrap();
    }
    for _ in 0..ROUNDS {
        batch.run().unwrap();
        receive::<u64>(&world, 1, 1, 99).unwrap();
    }
}

/// In each of the sums every rank has one frame for the other one.
#[test]
fn small_sums_of_a_group_of_processes_leave_in_one_write() {
    const SUMS: usize = 8;
    let name = "small_sums_of_a_group_of_processes_leave_in_one_write";
    if !ranks::is_rank() {
        let ranks = run(name, 2);
        return (0..2).for_each(|rank| {
            must_leave_together(&ranks, (rank, SUMS), |header| {
                header.fingerprint.collective == Collective::Allreduce as u8
            });
        });
    }
    let world = world(2);
    let fork = world.fork(&ForkOptions::default()).unwrap();
    let mut data = [[1u64; 3]; SUMS];
    let mut batch = Batch::new();
    for (at, data) in data.iter_mut().enumerate() {
        let target = Target::of(data);
        let (source, datatype, op) = (target.in_place(), Datatype::U64, Op::Max);
        let call = Call::Allreduce { source, target, datatype, op };
        let algorithm = Some(Algorithm::Direct);
        let options = CallOptions { algorithm, ..CallOptions::default() };
        batch.add([&world, &fork][at % 2], &call, &options).unwrap();
    }
    (0..ROUNDS).for_each(|_| batch.run().unwrap());
}
