//! Collectives over a range of sizes.

use std::time::{Duration, Instant};

use collect::{Call, Datatype, Error, Op, Source, Target};
use indicatif::{ProgressBar, ProgressDrawTarget};

use super::report::Line;
use super::statistics::{percentile, sorted};
use super::{Bench, pattern};
use crate::args::BenchKind;

/// Measures every size; returns how many elements were wrong, over all ranks.
pub(super) fn measure(bench: &Bench<'_>) -> Result<u64, Error> {
    let sizes = sizes(bench);
    let bar = progress(bench, sizes.len());
    if bench.is_first() && !bench.is_json() {
        println!("{}", Line::heading());
    }
    let mut wrong = 0;
    for bytes in sizes {
        let line = measure_size(bench, bytes)?;
        wrong += line.wrong;
        bar.inc(1);
        if bench.is_first() {
            bar.suspend(|| {
                if bench.is_json() {
                    println!("{}", line.json());
                } else {
                    println!("{}", line.columns());
                }
            });
        }
    }
    bar.finish_and_clear();
    Ok(wrong)
}

fn sizes(bench: &Bench<'_>) -> Vec<usize> {
    let arguments = bench.arguments;
    if arguments.kind == BenchKind::Barrier {
        return vec![0];
    }
    let mut sizes = Vec::new();
    let mut bytes = arguments.min;
    while bytes <= arguments.max.max(arguments.min) {
        sizes.push(bytes);
        bytes = bytes.saturating_mul(arguments.factor.max(2)).max(1);
    }
    sizes
}

fn progress(bench: &Bench<'_>, steps: usize) -> ProgressBar {
    let bar = ProgressBar::new(steps as u64);
    if !bench.is_first() || bench.is_json() {
        bar.set_draw_target(ProgressDrawTarget::hidden());
    }
    bar.enable_steady_tick(Duration::from_millis(500));
    bar
}

/// The buffers of one size.
struct Buffers {
    /// Elements of a rank's part.
    part: usize,
    source: Vec<u8>,
    target: Vec<u8>,
}

/// Parts of a rank's source and target: as many as there are ranks where each rank has one in it.
fn parts(kind: BenchKind, size: usize) -> (usize, usize) {
    match kind {
        BenchKind::Allgather | BenchKind::Allgatherv | BenchKind::Gather | BenchKind::Gatherv => {
            (1, size)
        }
        BenchKind::Scatter
        | BenchKind::Scatterv
        | BenchKind::ReduceScatter
        | BenchKind::ReduceScatterv => (size, 1),
        BenchKind::Alltoall | BenchKind::Alltoallv => (size, size),
        _ => (1, 1),
    }
}

fn measure_size(bench: &Bench<'_>, bytes: usize) -> Result<Line, Error> {
    let arguments = bench.arguments;
    let (datatype, op) = (arguments.datatype, arguments.op);
    // As nccl-tests counts: the bytes are those of the larger one of source and target.
    let (sources, targets) = parts(arguments.kind, bench.world.size());
    let part = bytes / datatype.bytes() / sources.max(targets);
    let count = part * sources.max(targets);
    let target = vec![0; part * targets * datatype.bytes()];
    let mut buffers = Buffers { part, source: Vec::new(), target };
    let is_reduced = arguments.kind.reduces();
    for at in 0..part * sources {
        let value = pattern::value(bench.world.rank(), at, if is_reduced { op } else { Op::Sum });
        pattern::encode((value, 1), datatype, &mut buffers.source);
    }
    let mut wrong = 0;
    if arguments.check() {
        run_once(bench, &mut buffers)?;
        wrong = bench.sum(count_wrong(bench, &buffers))?;
    }
    for _ in 0..arguments.warmup {
        run_once(bench, &mut buffers)?;
    }
    let mut times = Vec::with_capacity(arguments.iterations);
    bench.barrier()?;
    for _ in 0..arguments.iterations {
        times.push(run_once(bench, &mut buffers)?.as_secs_f64() * 1e6);
    }
    bench.maximum(&mut times)?;
    let times = sorted(times);
    Ok(Line {
        collective: arguments.kind.name(),
        ranks: bench.world.size(),
        algorithm: bench.algorithm().map_or("auto", collect::Algorithm::name),
        bytes: count * datatype.bytes(),
        count,
        datatype: datatype.name(),
        op: if is_reduced { op.name() } else { "none" },
        iterations: times.len(),
        min_us: percentile(&times, 0.0),
        p50_us: percentile(&times, 50.0),
        p99_us: percentile(&times, 99.0),
        wrong,
    })
}

/// One call; how long it took.
fn run_once(bench: &Bench<'_>, buffers: &mut Buffers) -> Result<Duration, Error> {
    let arguments = bench.arguments;
    let is_broadcast = arguments.kind == BenchKind::Broadcast && bench.world.rank() == 0;
    if is_broadcast || (arguments.in_place && buffers.source.len() == buffers.target.len()) {
        buffers.target.copy_from_slice(&buffers.source);
    }
    if arguments.kind == BenchKind::Sendrecv {
        return exchange(bench, buffers);
    }
    let counts = vec![buffers.part; bench.world.size()];
    let call = call(bench, buffers, &counts);
    let start = Instant::now();
    bench.world.run(&call, &bench.call_options())?;
    Ok(start.elapsed())
}

/// Sends to the next rank, and receives from the one before.
fn exchange(bench: &Bench<'_>, buffers: &mut Buffers) -> Result<Duration, Error> {
    let (size, rank) = (bench.world.size(), bench.world.rank());
    let (to, from) = ((rank + 1) % size, (rank + size - 1) % size);
    let (source, target) = (Source::of(&buffers.source), Target::of(&mut buffers.target));
    let datatype = bench.arguments.datatype;
    let send = Call::Send { source, datatype, to, tag: 0 };
    let receive = Call::Receive { target, datatype, from: Some(from), tag: 0 };
    let start = Instant::now();
    bench.world.sendrecv(&send, &receive, &bench.call_options())?;
    Ok(start.elapsed())
}

/// The call of every kind but `sendrecv`; parts are of one length, also where they need not be.
fn call<'a>(bench: &Bench<'_>, buffers: &'a mut Buffers, counts: &'a [usize]) -> Call<'a> {
    let arguments = bench.arguments;
    let (datatype, op, root, displacements) = (arguments.datatype, arguments.op, 0, None);
    let target = Target::of(&mut buffers.target);
    let is_in_place = arguments.in_place && buffers.source.len() == target.bytes();
    let source = if is_in_place { target.in_place() } else { Source::of(&buffers.source) };
    match arguments.kind {
        BenchKind::Allreduce => Call::Allreduce { source, target, datatype, op },
        BenchKind::Reduce => Call::Reduce { source, target, datatype, op, root },
        BenchKind::Broadcast => Call::Broadcast { buffer: target, datatype, root },
        BenchKind::Allgather => Call::Allgather { source, target, datatype },
        BenchKind::Allgatherv => {
            Call::Allgatherv { source, target, counts, displacements, datatype }
        }
        BenchKind::Gather => Call::Gather { source, target, datatype, root },
        BenchKind::Gatherv => {
            Call::Gatherv { source, target, counts, displacements, datatype, root }
        }
        BenchKind::Scatter => Call::Scatter { source, target, datatype, root },
        BenchKind::Scatterv => {
            Call::Scatterv { source, target, counts, displacements, datatype, root }
        }
        BenchKind::ReduceScatter => Call::ReduceScatter { source, target, datatype, op },
        BenchKind::ReduceScatterv => Call::ReduceScatterv { source, target, counts, datatype, op },
        BenchKind::Alltoall => Call::Alltoall { source, target, datatype },
        BenchKind::Alltoallv => Call::Alltoallv {
            source,
            send_counts: counts,
            send_displacements: displacements,
            target,
            receive_counts: counts,
            receive_displacements: displacements,
            datatype,
        },
        BenchKind::Scan => Call::Scan { source, target, datatype, op },
        BenchKind::Exscan => Call::Exscan { source, target, datatype, op },
        _ => Call::Barrier,
    }
}

/// Elements that are not what they must be.
fn count_wrong(bench: &Bench<'_>, buffers: &Buffers) -> u64 {
    let arguments = bench.arguments;
    let (size, rank, part) = (bench.world.size(), bench.world.rank(), buffers.part.max(1));
    let has_none = match arguments.kind {
        BenchKind::Reduce | BenchKind::Gather | BenchKind::Gatherv => rank != 0,
        BenchKind::Exscan => rank == 0,
        BenchKind::Barrier => true,
        _ => false,
    };
    if has_none {
        return 0;
    }
    let width = Datatype::bytes(arguments.datatype);
    let copied = |rank: usize, at: usize| (pattern::value(rank, at, Op::Sum), 1);
    let reduced = |ranks: usize, at: usize| pattern::result(ranks, at, arguments.op);
    let mut right = Vec::new();
    for at in 0..buffers.target.len() / width {
        let fraction = match arguments.kind {
            BenchKind::Allreduce | BenchKind::Reduce => reduced(size, at),
            BenchKind::ReduceScatter | BenchKind::ReduceScatterv => reduced(size, rank * part + at),
            BenchKind::Scan => reduced(rank + 1, at),
            BenchKind::Exscan => reduced(rank, at),
            BenchKind::Scatter | BenchKind::Scatterv => copied(0, rank * part + at),
            BenchKind::Alltoall | BenchKind::Alltoallv => {
                copied(at / part, rank * part + at % part)
            }
            BenchKind::Sendrecv => copied((rank + size - 1) % size, at),
            BenchKind::Broadcast => copied(0, at),
            _ => copied(at / part, at % part),
        };
        pattern::encode(fraction, arguments.datatype, &mut right);
    }
    let pairs = buffers.target.chunks(width).zip(right.chunks(width));
    pairs.filter(|(mine, right)| mine != right).count() as u64
}
