//! Every kind of call allocates nothing in the long run: collectives of parts, keys, messages, factors, batches.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "cost/preload.rs"]
mod preload;
mod ranks;

use std::fs;
use std::process::Command;

use collect::store::FileStore;
use collect::{Batch, Call, CallOptions, Datatype, Op, Source, Target, World};
use preload::Counter;

const SIZE: usize = 3;

/// Calls of each kind before the counting, and while it is on.
const CALLS: usize = 300;

/// What the calls of one rank work on.
struct Memory {
    send: [i64; 4 * SIZE],
    recv: [i64; 4 * SIZE],
    batch: Batch<'static>,
}

/// The kinds of call, by name.
type Kind = (&'static str, fn(&World, &mut Memory, u64));

const KINDS: &[Kind] = &[
    ("keyed allreduce", keyed),
    ("gatherv", gatherv),
    ("alltoallv", alltoallv),
    ("reduce_scatterv", reduce_scatterv),
    ("reduce with a factor", scaled),
    ("sendrecv", sendrecv),
    ("batch", batch),
];

fn plain() -> CallOptions {
    CallOptions::default()
}

fn keyed(world: &World, memory: &mut Memory, round: u64) {
    let options = CallOptions { key: Some(round % 7), ..plain() };
    let (source, target) = (Source::of(&memory.send), Target::of(&mut memory.recv));
    let call = Call::Allreduce { source, target, datatype: Datatype::I64, op: Op::Sum };
    world.run(&call, &options).unwrap();
}

fn gatherv(world: &World, memory: &mut Memory, _: u64) {
    let (source, target) = (Source::of(&memory.send[..2]), Target::of(&mut memory.recv));
    let (counts, displacements) = (&[2; SIZE][..], Some(&[0, 3, 6][..]));
    let (datatype, root) = (Datatype::I64, 1);
    let call = Call::Gatherv { source, target, counts, displacements, datatype, root };
    world.run(&call, &plain()).unwrap();
}

fn alltoallv(world: &World, memory: &mut Memory, _: u64) {
    let call = Call::Alltoallv {
        source: Source::of(&memory.send),
        send_counts: &[3; SIZE],
        send_displacements: None,
        target: Target::of(&mut memory.recv),
        receive_counts: &[3; SIZE],
        receive_displacements: Some(&[0, 4, 8]),
        datatype: Datatype::I64,
    };
    world.run(&call, &plain()).unwrap();
}

fn reduce_scatterv(world: &World, memory: &mut Memory, _: u64) {
    let counts = [3, 4, 5];
    let target = Target::of(&mut memory.recv[..counts[world.rank()]]);
    let (source, datatype, op) = (Source::of(&memory.send), Datatype::I64, Op::Sum);
    let call = Call::ReduceScatterv { source, target, counts: &counts, datatype, op };
    world.run(&call, &plain()).unwrap();
}

/// Off the root its products are in memory of the operation's own.
fn scaled(world: &World, memory: &mut Memory, _: u64) {
    let options = CallOptions { factor: 2.0, ..plain() };
    let (source, target) = (Source::of(&memory.send), Target::of(&mut memory.recv));
    let (datatype, op) = (Datatype::I64, Op::PremulSum);
    let call = Call::Reduce { source, target, datatype, op, root: 1 };
    world.run(&call, &options).unwrap();
}

fn sendrecv(world: &World, memory: &mut Memory, round: u64) {
    let (rank, datatype) = (world.rank(), Datatype::I64);
    let (source, target) = (Source::of(&memory.send), Target::of(&mut memory.recv));
    let send = Call::Send { source, datatype, to: (rank + 1) % SIZE, tag: round % 5 };
    let from = Some((rank + SIZE - 1) % SIZE);
    let receive = Call::Receive { target, datatype, from, tag: round % 5 };
    world.sendrecv(&send, &receive, &plain()).unwrap();
}

fn batch(_: &World, memory: &mut Memory, _: u64) {
    memory.batch.start().unwrap().wait().unwrap();
}

/// A batch of an allreduce of leaked memory with a factor, and a barrier.
fn recorded(world: &World) -> Batch<'static> {
    let mut batch = Batch::new();
    let memory = Box::leak(Box::new([1i64; 8]));
    let target = Target::of(memory);
    let source = target.in_place();
    let call = Call::Allreduce { source, target, datatype: Datatype::I64, op: Op::PremulSum };
    batch.add(world, &call, &CallOptions { factor: 3.0, ..plain() }).unwrap();
    batch.add(world, &Call::Barrier, &plain()).unwrap();
    batch
}

#[test]
fn calls_of_every_kind_allocate_nothing_in_processes() {
    if !ranks::is_rank() {
        let name = "calls_of_every_kind_allocate_nothing_in_processes";
        let counter = preload::build();
        let mut ranks = ranks::Ranks::spawn_by(name, SIZE, |program, _, _| {
            let mut command = Command::new(program);
            command.env("LD_PRELOAD", &counter);
            command
        });
        assert!(ranks.wait_all().iter().all(|status| status.success()));
        return fs::remove_file(counter).unwrap();
    }
    let counter = Counter::find();
    let store = FileStore::open(ranks::folder().join("store")).unwrap();
    let world = World::create(&store, ranks::rank(), SIZE, &ranks::blocking()).unwrap();
    let (send, recv, batch) = ([1; 4 * SIZE], [0; 4 * SIZE], recorded(&world));
    let mut memory = Memory { send, recv, batch };
    for (name, call) in KINDS {
        // A barrier after each, so that no rank runs ahead: what comes early is kept in memory that grows.
        let mut calls = || {
            for round in 0..CALLS as u64 {
                call(&world, &mut memory, round);
                world.run(&Call::Barrier, &plain()).unwrap();
            }
        };
        calls();
        world.run(&Call::Barrier, &plain()).unwrap();
        counter.switch_on();
        calls();
        counter.switch_off();
        counter.must_be_zero(name);
        world.run(&Call::Barrier, &plain()).unwrap();
    }
}
