//! `collect bench tune`: measures what links and processors take, and makes a table of algorithms from that by the cost
//! model.
//!
//! Ranks 0 and 1 measure, the others wait: small messages to and fro give the latency, large ones the rate of a link,
//! small ones one after the other what each costs the sender, and a local sum the rate of reductions. Medians all.

use std::fs;
use std::path::Path;
use std::time::Instant;

use collect::memory::Region;
use collect::plan::{Model, Table, modelled};
use collect::reduce::reduce;
use collect::{Call, CallOptions, Datatype, Error, Op, Source, Target};
use serde_json::json;

use super::Bench;
use super::statistics::{percentile, sorted};

/// Bytes of a small message.
const SMALL: usize = 8;

/// Messages that are sent one after the other: few enough that none waits for credits.
const BURST: usize = 64;

/// Bytes of each buffer of the local sum.
const REDUCED: usize = 1 << 20;

/// Large messages, and local sums, that are measured at most: their times vary less.
const LARGE_MAX: usize = 20;

/// The transport's name, until there is more than one.
const TRANSPORT: &str = "tcp";

pub(super) fn measure(bench: &Bench<'_>) -> Result<u64, Error> {
    if bench.world.size() < 2 {
        return Err(Error::InvalidArgument("tune measures between two ranks: give -n 2".into()));
    }
    bench.barrier()?;
    if bench.world.rank() < 2 {
        let model = model(bench)?;
        if bench.is_first() {
            tell(bench, &model)?;
        }
    }
    Ok(0)
}

/// What ranks 0 and 1 find; of rank 1, only its part in the messages matters.
fn model(bench: &Bench<'_>) -> Result<Model, Error> {
    let arguments = bench.arguments;
    let (many, few) = (arguments.iterations.max(1), arguments.iterations.clamp(1, LARGE_MAX));
    let large = arguments.max.max(1 << 16);
    let one_way_s = one_way(bench, SMALL, many)?;
    let overhead_s = overhead(bench, many)?.min(one_way_s / 4.0);
    // What both have in common, such as the grant, falls out.
    let slope = one_way(bench, large, few)? - one_way(bench, large / 2, few)?;
    Ok(Model {
        alpha_s: one_way_s - 2.0 * overhead_s,
        beta_s: rate(slope, large - large / 2),
        gamma_s: rate(local_sum(few), REDUCED),
        overhead_s,
        ..Model::default()
    })
}

/// Seconds of a byte; of a clock that has seen no time pass, a terabyte takes one.
fn rate(seconds: f64, bytes: usize) -> f64 {
    (seconds / bytes as f64).max(1e-12)
}

/// Half the median time of a message to and fro.
fn one_way(bench: &Bench<'_>, bytes: usize, iterations: usize) -> Result<f64, Error> {
    let mut buffer = vec![0_u8; bytes];
    let mut times = Vec::with_capacity(iterations);
    for round in 0..bench.arguments.warmup + iterations {
        let start = Instant::now();
        if bench.is_first() {
            send(bench, &buffer)?;
            receive(bench, &mut buffer)?;
        } else {
            receive(bench, &mut buffer)?;
            send(bench, &buffer)?;
        }
        if round >= bench.arguments.warmup {
            times.push(start.elapsed().as_secs_f64() / 2.0);
        }
    }
    Ok(percentile(&sorted(times), 50.0))
}

/// The median time of a blocking send of a small message, which leaves at once.
fn overhead(bench: &Bench<'_>, bursts: usize) -> Result<f64, Error> {
    let mut buffer = [0_u8; SMALL];
    let mut times = Vec::with_capacity(bursts);
    for _ in 0..bursts {
        let start = Instant::now();
        for _ in 0..BURST {
            if bench.is_first() {
                send(bench, &buffer)?;
            } else {
                receive(bench, &mut buffer)?;
            }
        }
        times.push(start.elapsed().as_secs_f64() / BURST as f64);
        // Nobody runs ahead.
        if bench.is_first() {
            receive(bench, &mut buffer)?;
        } else {
            send(bench, &buffer)?;
        }
    }
    Ok(percentile(&sorted(times), 50.0))
}

/// The median time of a sum of two buffers of f32.
fn local_sum(iterations: usize) -> f64 {
    let mut buffers = [0, 1, 2].map(|seed| vec![seed as f32; REDUCED / size_of::<f32>()]);
    let mut times = Vec::with_capacity(iterations);
    for _ in 0..iterations + 1 {
        let [target, sources @ ..]: [Region; 3] =
            buffers.each_mut().map(|buffer| Target::of(buffer).region());
        let start = Instant::now();
        reduce(Datatype::F32, Op::Sum, &target, &sources, None);
        times.push(start.elapsed().as_secs_f64());
    }
    // The first one meets untouched memory.
    percentile(&sorted(times.split_off(1)), 50.0)
}

fn send(bench: &Bench<'_>, buffer: &[u8]) -> Result<(), Error> {
    let (source, to) = (Source::of(buffer), 1 - bench.world.rank());
    let call = Call::Send { source, datatype: Datatype::U8, to, tag: 0 };
    bench.world.run(&call, &CallOptions::default())
}

fn receive(bench: &Bench<'_>, buffer: &mut [u8]) -> Result<(), Error> {
    let (target, from) = (Target::of(buffer), Some(1 - bench.world.rank()));
    let call = Call::Receive { target, datatype: Datatype::U8, from, tag: 0 };
    bench.world.run(&call, &CallOptions::default())
}

/// Prints what was found, and the table, or writes it to a file.
fn tell(bench: &Bench<'_>, model: &Model) -> Result<(), Error> {
    let table = modelled(model)?;
    let text = format!("# Made by `collect bench tune` for {TRANSPORT}: {model}\n{table}");
    let output = bench.arguments.output.as_deref();
    if let Some(path) = output {
        let failed = |error| Error::system(format!("writing {}", path.display()), &error);
        fs::write(path, &text).map_err(failed)?;
    }
    if bench.is_json() {
        println!("{}", line(bench, model, &table, output));
        return Ok(());
    }
    match output {
        None => print!("{text}"),
        Some(path) => {
            println!("{TRANSPORT}: {model}");
            println!("{}: {} rules", path.display(), table.rules().len());
        }
    }
    Ok(())
}

fn line(bench: &Bench<'_>, model: &Model, table: &Table, output: Option<&Path>) -> String {
    let mut line = json!({
        "ranks": bench.world.size(), "transport": TRANSPORT,
        "alpha_us": model.alpha_s * 1e6, "beta_gbs": 1e-9 / model.beta_s,
        "gamma_gbs": 1e-9 / model.gamma_s, "overhead_us": model.overhead_s * 1e6,
        "rules": table.rules().len(),
    });
    match output {
        None => line["table"] = json!(table.to_string()),
        Some(path) => line["output"] = json!(path.display().to_string()),
    }
    line.to_string()
}
