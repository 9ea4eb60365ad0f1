//! What the library costs: system calls, allocations, descriptors and threads, and memory. Counts only, no times.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "cost/preload.rs"]
mod preload;
mod ranks;
#[path = "cost/trace.rs"]
mod trace;

use std::fs;
use std::path::Path;
use std::process::Command;
use std::sync::Barrier;
use std::thread;
use std::time::{Duration, Instant};

use collect::store::FileStore;
use collect::{
    Batch, Call, CallOptions, Datatype, ForkOptions, Op, Request, Source, Target, World,
    WorldOptions,
};
use preload::Counter;
use trace::Trace;

fn sum(world: &World, values: &mut [f32]) {
    let target = Target::of(values);
    let (source, datatype, op) = (target.in_place(), Datatype::F32, Op::Sum);
    world.run(&Call::Allreduce { source, target, datatype, op }, &CallOptions::default()).unwrap();
}

/// Starts an allreduce of a part of a leaked buffer, which nothing else uses until the request has ended.
fn start(world: &World, values: *mut f32, count: usize) -> Request {
    // SAFETY: the buffer is leaked, holds this many elements, and belongs to one request.
    let target = unsafe { Target::from_raw(values.cast(), count * 4) };
    let (source, datatype, op) = (target.in_place(), Datatype::F32, Op::Sum);
    let call = Call::Allreduce { source, target, datatype, op };
    world.start(&call, &CallOptions::default()).unwrap()
}

fn barrier(world: &World) {
    world.run(&Call::Barrier, &CallOptions::default()).unwrap();
}

/// The world of this process, whose waits sleep at once.
fn world(size: usize) -> World {
    let store = FileStore::open(ranks::folder().join("store")).unwrap();
    World::create(&store, ranks::rank(), size, &ranks::blocking()).unwrap()
}

fn must_succeed(ranks: &mut ranks::Ranks) {
    for (rank, status) in ranks.wait_all().into_iter().enumerate() {
        assert!(status.success(), "rank {rank}: {status}");
    }
}

const OPERATIONS: &str = "COLLECT_TEST_OPERATIONS";

/// System calls of each rank, all and the background thread's, in a run of so many operations.
fn traced(name: &str, size: usize, operations: usize) -> Vec<(usize, usize)> {
    let mut ranks = ranks::Ranks::spawn_by(name, size, |program, rank, folder| {
        let mut command = trace::command(program, &folder.join(format!("trace.{rank}")));
        command.env(OPERATIONS, operations.to_string());
        command
    });
    must_succeed(&mut ranks);
    let path = |rank| ranks.folder.join(format!("trace.{rank}"));
    (0..size).map(|rank| Trace::read(&path(rank)).counts()).collect()
}

/// The difference of two runs, in calls per operation: the most that any rank makes, and any background thread.
fn calls_per_operation(name: &str, size: usize, most: f64) {
    const RUNS: [usize; 2] = [2_000, 12_000];
    if ranks::is_rank() {
        let world = world(size);
        let operations = std::env::var(OPERATIONS).unwrap().parse().unwrap();
        for _ in 0..operations {
            let mut values = [1.0];
            sum(&world, &mut values);
            assert_eq!(values, [size as f32]);
        }
        return;
    }
    if !trace::is_possible(name) {
        return;
    }
    let short = traced(name, size, RUNS[0]);
    let since = Instant::now();
    let long = traced(name, size, RUNS[1]);
    // The background thread looks ten times a second whether callers still drive: on a machine so slow that this shows,
    // that is not counted against it.
    let looks = 12.0 * since.elapsed().as_secs_f64() / (RUNS[1] - RUNS[0]) as f64;
    let per_operation =
        |few: usize, many: usize| (many as f64 - few as f64) / (RUNS[1] - RUNS[0]) as f64;
    for (rank, (few, many)) in short.into_iter().zip(long).enumerate() {
        let (all, background) = (per_operation(few.0, many.0), per_operation(few.1, many.1));
        println!(
            "rank {rank} of {size}: {all} system calls, {background} of the background thread"
        );
        assert!(all <= most, "rank {rank}: {all} system calls, at most {most}");
        assert!(background <= looks.max(0.05), "rank {rank}: {background} in the background");
    }
}

#[test]
fn two_processes_make_few_system_calls() {
    calls_per_operation("two_processes_make_few_system_calls", 2, 4.1);
}

#[test]
fn four_processes_make_few_system_calls() {
    calls_per_operation("four_processes_make_few_system_calls", 4, 12.1);
}

#[test]
fn an_idle_process_makes_no_system_call() {
    let name = "an_idle_process_makes_no_system_call";
    if ranks::is_rank() {
        let world = world(2);
        sum(&world, &mut [1.0]);
        let request = world.start(&Call::Barrier, &CallOptions::default()).unwrap();
        request.on_complete(|outcome| outcome.unwrap()).unwrap();
        request.wait().unwrap();
        // The background thread takes the lane back when nobody has called for a while.
        thread::sleep(Duration::from_secs(2));
        // Nobody else asks this: marks in the trace.
        // SAFETY: the call takes no pointer.
        unsafe { libc::getpriority(libc::PRIO_PGRP, 0) };
        thread::sleep(Duration::from_secs(5));
        // SAFETY: as above.
        unsafe { libc::getpriority(libc::PRIO_USER, 0) };
        ranks::mark(&format!("done.{}", ranks::rank()));
        ranks::await_mark(&ranks::folder(), &format!("done.{}", 1 - ranks::rank()));
        return;
    }
    if !trace::is_possible(name) {
        return;
    }
    let mut ranks = ranks::Ranks::spawn_by(name, 2, |program, rank, folder| {
        trace::command(program, &folder.join(format!("trace.{rank}")))
    });
    must_succeed(&mut ranks);
    for rank in 0..2 {
        let trace = Trace::read(&ranks.folder.join(format!("trace.{rank}")));
        let calls = trace.between("PRIO_PGRP", "PRIO_USER");
        let [(_, sleep)] = calls.as_slice() else { panic!("rank {rank}: {calls:#?}") };
        assert!(sleep.starts_with("clock_nanosleep("), "rank {rank}: {sleep}");
    }
}

/// Whether calls wait, or are requests of which so many are under way at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Form {
    Blocking,
    Requests,
}

/// Requests of one world that are under way at once.
const AT_ONCE: usize = 4;

/// How much is called.
#[derive(Debug, Clone, Copy)]
struct Load {
    form: Form,
    count: usize,
    /// Operations before the counting, then while it is on.
    warm: usize,
    counted: usize,
}

/// Makes so many calls in a world; the buffers have `AT_ONCE` times the load's elements.
fn call(world: &World, load: Load, operations: usize, buffers: &mut [f32]) {
    let Load { form, count, .. } = load;
    if form == Form::Blocking {
        (0..operations).for_each(|_| sum(world, &mut buffers[..count]));
        return;
    }
    let first = buffers.as_mut_ptr();
    for _ in 0..operations / AT_ONCE {
        let requests: [Request; AT_ONCE] =
            std::array::from_fn(|at| start(world, first.wrapping_add(at * count), count));
        requests.iter().for_each(|request| request.wait().unwrap());
    }
}

/// Each world is called by a thread of its own; none of the process may allocate after the warm-up.
fn allocate_nothing(worlds: &[World], load: Load) {
    let counter = Counter::find();
    let meet = Barrier::new(worlds.len() + 1);
    thread::scope(|scope| {
        for world in worlds {
            let meet = &meet;
            scope.spawn(move || {
                let many = if load.form == Form::Blocking { 1 } else { AT_ONCE };
                let mut buffers = vec![0.0; many * load.count];
                call(world, load, load.warm, &mut buffers);
                barrier(world);
                meet.wait();
                meet.wait();
                call(world, load, load.counted, &mut buffers);
                // Nobody ends a thread, which allocates, before the counting is off.
                meet.wait();
                meet.wait();
                barrier(world);
            });
        }
        meet.wait();
        counter.switch_on();
        meet.wait();
        meet.wait();
        counter.switch_off();
        meet.wait();
    });
    counter.must_be_zero(&format!("{} worlds, {load:?}", worlds.len()));
}

/// Runs the loads for one world and for eight, in processes under the counter.
fn processes_allocate_nothing(
    name: &str,
    size: usize,
    count: usize,
    one: [usize; 2],
    eight: [usize; 2],
) {
    if ranks::is_rank() {
        let world = world(size);
        let mut worlds = vec![world];
        for [warm, counted] in [one, eight] {
            for form in [Form::Blocking, Form::Requests] {
                allocate_nothing(&worlds, Load { form, count, warm, counted });
            }
            while worlds.len() < 8 {
                worlds.push(worlds[0].fork(&ForkOptions::default()).unwrap());
            }
        }
        return;
    }
    must_allocate_nothing(name, size);
}

/// Runs the processes of a test under the counter.
fn must_allocate_nothing(name: &str, size: usize) {
    let counter = preload::build();
    let mut ranks = ranks::Ranks::spawn_by(name, size, |program, _, _| {
        let mut command = Command::new(program);
        command.env("LD_PRELOAD", &counter);
        command
    });
    must_succeed(&mut ranks);
    fs::remove_file(counter).unwrap();
}

#[test]
fn small_calls_of_processes_allocate_nothing() {
    let name = "small_calls_of_processes_allocate_nothing";
    processes_allocate_nothing(name, 4, 1, [1000, 1000], [1000, 1000]);
}

/// Fewer operations than of small ones: each moves 32 MiB.
#[test]
fn large_calls_of_processes_allocate_nothing() {
    let name = "large_calls_of_processes_allocate_nothing";
    processes_allocate_nothing(name, 2, 4 << 20, [20, 40], [4, 8]);
}

/// Small and large calls of a world that compares checksums, and of its forks.
#[test]
fn calls_with_checksums_allocate_nothing() {
    let name = "calls_with_checksums_allocate_nothing";
    if !ranks::is_rank() {
        return must_allocate_nothing(name, 2);
    }
    let store = FileStore::open(ranks::folder().join("store")).unwrap();
    let options = WorldOptions { checksum: true, ..ranks::blocking() };
    let root = World::create(&store, ranks::rank(), 2, &options).unwrap();
    let fork = root.fork(&ForkOptions::default()).unwrap();
    let worlds = [root, fork];
    for (count, warm, counted) in [(1, 1000, 1000), (100_000, 100, 200), (1 << 20, 20, 40)] {
        for form in [Form::Blocking, Form::Requests] {
            allocate_nothing(&worlds, Load { form, count, warm, counted });
        }
    }
}

/// Starts of a group of messages, sums and products with a factor on two worlds: once it is made, it allocates nothing.
#[test]
fn groups_of_processes_allocate_nothing() {
    let name = "groups_of_processes_allocate_nothing";
    if !ranks::is_rank() {
        return must_allocate_nothing(name, 2);
    }
    let world = world(2);
    let fork = world.fork(&ForkOptions::default()).unwrap();
    let buffer = || Vec::leak(vec![1.0f32; 1000]).as_mut_ptr();
    // SAFETY: the buffers are leaked, and each belongs to one operation.
    let target = |start: *mut f32| unsafe { Target::from_raw(start.cast(), 4000) };
    let (datatype, other) = (Datatype::F32, 1 - world.rank());
    let mut batch = Batch::new();
    for (world, op, factor) in [(&world, Op::Max, 0.0), (&fork, Op::PremulSum, 0.5)] {
        let target = target(buffer());
        let call = Call::Allreduce { source: target.in_place(), target, datatype, op };
        batch.add(world, &call, &CallOptions { factor, ..CallOptions::default() }).unwrap();
        let source = Source::of(&[1.0f32; 10]);
        let call = Call::Send { source, datatype, to: other, tag: 1 };
        batch.add(world, &call, &CallOptions::default()).unwrap();
        let target = Target::of(Vec::leak(vec![0.0f32; 10]));
        let call = Call::Receive { target, datatype, from: Some(other), tag: 1 };
        batch.add(world, &call, &CallOptions::default()).unwrap();
    }
    (0..200).for_each(|_| batch.start().unwrap().wait().unwrap());
    barrier(&world);
    let counter = Counter::find();
    counter.switch_on();
    (0..1000).for_each(|_| batch.start().unwrap().wait().unwrap());
    counter.switch_off();
    barrier(&world);
    counter.must_be_zero("a group");
}

/// As the two before, from C; one thread calls all worlds in turn.
#[test]
fn calls_of_processes_through_c_allocate_nothing() {
    let folder = ranks::fresh_folder("through_c");
    let (library, program) = (folder.join("libcollect.so.0"), folder.join("through_c"));
    let test = std::env::current_exe().unwrap();
    let mut places = test.ancestors().skip(1).take(2).map(|folder| folder.join("libcollect.so"));
    let built = places.find(|path| path.exists()).expect("cargo builds the cdylib with the tests");
    std::os::unix::fs::symlink(built, &library).unwrap();
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let output = Command::new("cc")
        .args(["-std=gnu11", "-Wall", "-Wextra", "-Werror", "-I"])
        .args([root.join("include"), root.join("tests/cost/through_c.c"), library])
        .args([format!("-Wl,-rpath,{}", folder.display()), "-o".into()])
        .arg(&program)
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let counter = preload::build();
    for load in [["1", "1000", "1000"], ["4194304", "40", "40"]] {
        let output = Command::new(env!("CARGO_BIN_EXE_collect"))
            .args(["run", "-n", "2", "--", "env"])
            .arg(format!("LD_PRELOAD={}", counter.display()))
            .arg(&program)
            .args(load)
            .env("LIBCOLLECT_LISTEN", "127.0.0.1")
            .output()
            .unwrap();
        assert!(output.status.success(), "{load:?}: {}", String::from_utf8_lossy(&output.stderr));
    }
    fs::remove_file(counter).unwrap();
    fs::remove_dir_all(folder).unwrap();
}

#[test]
fn a_thousand_forks_of_processes_take_no_descriptor_and_no_thread() {
    let output = Command::new(env!("CARGO_BIN_EXE_collect"))
        .args(["bench", "fork", "-n", "8", "--forks", "1000", "--transport", "tcp", "--json"])
        .env("LIBCOLLECT_LISTEN", "127.0.0.1")
        .output()
        .unwrap();
    let (text, errors) =
        (String::from_utf8(output.stdout).unwrap(), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{}: {text}{errors}", output.status);
    let line: serde_json::Value = serde_json::from_str(text.trim()).unwrap();
    assert_eq!((&line["ranks"], &line["forks"]), (&8.into(), &1000.into()));
    assert_eq!(line["descriptors_before"], line["descriptors_during"]);
    assert_eq!(line["threads_before"], line["threads_during"]);
    assert_eq!(line["store_operations"], 0);
}

/// Bytes of this process in memory.
fn resident() -> usize {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.trim().trim_end_matches(" kB").parse::<usize>().unwrap() * 1024
}

/// Starts a broadcast from rank 0 of a buffer that is only read.
fn send(world: &World, buffer: &'static [u8]) -> Request {
    let start = buffer.as_ptr().cast_mut();
    // SAFETY: the buffer is leaked, and the root of a broadcast only reads it.
    let buffer = unsafe { Target::from_raw(start, buffer.len()) };
    let call = Call::Broadcast { buffer, datatype: Datatype::U8, root: 0 };
    world.start(&call, &CallOptions::default()).unwrap()
}

/// Sizes of what rank 0 sends in turn: one that must be granted, and one that is sent at once.
const SENT: [usize; 2] = [1 << 20, 16 << 10];

/// Messages of each size.
const MESSAGES: usize = 1000;

#[test]
fn a_silent_process_keeps_little_and_its_sibling_worlds_go_on() {
    let name = "a_silent_process_keeps_little_and_its_sibling_worlds_go_on";
    ranks::processes(name, 2, &ranks::blocking(), &|world: &World| {
        let sibling = world.fork(&ForkOptions::default()).unwrap();
        barrier(world);
        thread::scope(|scope| {
            let calls = scope.spawn(|| (0..1000).for_each(|_| sum(&sibling, &mut [1.0])));
            if world.rank() == 0 {
                let data: [&'static [u8]; 2] = SENT.map(|bytes| &*Vec::leak(vec![7u8; bytes]));
                let requests: Vec<Request> =
                    (0..2 * MESSAGES).map(|at| send(world, data[at % 2])).collect();
                ranks::mark("submitted");
                requests.iter().for_each(|request| request.wait().unwrap());
                return;
            }
            let (before, since) = (resident(), Instant::now());
            let mut most = before;
            ranks::await_mark(&ranks::folder(), "submitted");
            while since.elapsed() < Duration::from_secs(2) || !calls.is_finished() {
                thread::sleep(Duration::from_millis(10));
                most = most.max(resident());
            }
            assert!(most - before < 64 << 20, "{} bytes more in memory", most - before);
            for at in 0..2 * MESSAGES {
                let mut data = vec![0u8; SENT[at % 2]];
                let (buffer, datatype) = (Target::of(&mut data), Datatype::U8);
                let call = Call::Broadcast { buffer, datatype, root: 0 };
                world.run(&call, &CallOptions::default()).unwrap();
                assert!(data.iter().all(|byte| *byte == 7));
            }
        });
    });
}
