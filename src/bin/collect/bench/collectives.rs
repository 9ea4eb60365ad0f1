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
    source: Vec<u8>,
    target: Vec<u8>,
}

fn measure_size(bench: &Bench<'_>, bytes: usize) -> Result<Line, Error> {
    let arguments = bench.arguments;
    let (datatype, op) = (arguments.datatype, arguments.op);
    // As nccl-tests counts: the bytes of an allgather are those of its output.
    let parts = if arguments.kind == BenchKind::Allgather { bench.world.size() } else { 1 };
    let count = bytes / datatype.bytes() / parts * parts;
    let mut buffers = Buffers { source: Vec::new(), target: vec![0; count * datatype.bytes()] };
    let is_reduced = matches!(arguments.kind, BenchKind::Allreduce | BenchKind::Reduce);
    for at in 0..count / parts {
        let value = pattern::value(bench.world.rank(), at, if is_reduced { op } else { Op::Sum });
        pattern::encode((value, 1), datatype, &mut buffers.source);
    }
    let mut wrong = 0;
    if arguments.check() {
        run_once(bench, &mut buffers)?;
        wrong = bench.sum(count_wrong(bench, &buffers, count))?;
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
    let datatype = arguments.datatype;
    let is_root = bench.world.rank() == 0;
    match arguments.kind {
        BenchKind::Broadcast if is_root => buffers.target.copy_from_slice(&buffers.source),
        BenchKind::Allreduce if arguments.in_place => {
            buffers.target.copy_from_slice(&buffers.source);
        }
        _ => {}
    }
    let call = match arguments.kind {
        BenchKind::Allreduce => {
            let target = Target::of(&mut buffers.target);
            let is_in_place = arguments.in_place;
            let source = if is_in_place { target.in_place() } else { Source::of(&buffers.source) };
            Call::Allreduce { source, target, datatype, op: arguments.op }
        }
        BenchKind::Reduce => {
            let (source, target) = (Source::of(&buffers.source), Target::of(&mut buffers.target));
            Call::Reduce { source, target, datatype, op: arguments.op, root: 0 }
        }
        BenchKind::Allgather => {
            let (source, target) = (Source::of(&buffers.source), Target::of(&mut buffers.target));
            Call::Allgather { source, target, datatype }
        }
        BenchKind::Broadcast => {
            Call::Broadcast { buffer: Target::of(&mut buffers.target), datatype, root: 0 }
        }
        _ => Call::Barrier,
    };
    let start = Instant::now();
    bench.world.run(&call, &bench.call_options())?;
    Ok(start.elapsed())
}

/// Elements that are not what they must be.
fn count_wrong(bench: &Bench<'_>, buffers: &Buffers, count: usize) -> u64 {
    let arguments = bench.arguments;
    if arguments.kind == BenchKind::Reduce && bench.world.rank() != 0 {
        return 0;
    }
    let each = (count / bench.world.size()).max(1);
    let mut right = Vec::new();
    for at in 0..count {
        let fraction = match arguments.kind {
            BenchKind::Allreduce | BenchKind::Reduce => {
                pattern::result(bench.world.size(), at, arguments.op)
            }
            BenchKind::Allgather => (pattern::value(at / each, at % each, Op::Sum), 1),
            _ => (pattern::value(0, at, Op::Sum), 1),
        };
        pattern::encode(fraction, arguments.datatype, &mut right);
    }
    let width = Datatype::bytes(arguments.datatype);
    let pairs = buffers.target.chunks(width).zip(right.chunks(width));
    pairs.filter(|(mine, right)| mine != right).count() as u64
}
