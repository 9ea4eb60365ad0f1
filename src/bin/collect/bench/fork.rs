//! Forks: what they take, and that they take no descriptor, no thread and no store access.

use std::fs;
use std::time::Instant;

use collect::{Call, CallOptions, Error, ForkOptions};
use serde_json::json;

use super::Bench;
use super::statistics::{percentile, sorted};

/// What this process holds.
struct Held {
    descriptors: usize,
    threads: usize,
    resident: usize,
}

impl Held {
    fn now() -> Self {
        let entries = |path: &str| fs::read_dir(path).map_or(0, |entries| entries.count());
        let status = fs::read_to_string("/proc/self/statm").unwrap_or_default();
        let pages = status.split(' ').nth(1).and_then(|pages| pages.parse().ok());
        Self {
            descriptors: entries("/proc/self/fd"),
            threads: entries("/proc/self/task"),
            resident: pages.unwrap_or(0usize) * 4096,
        }
    }
}

pub(super) fn measure(bench: &Bench<'_>) -> Result<u64, Error> {
    let forks = bench.arguments.forks;
    bench.barrier()?;
    let first = bench.world.fork(&ForkOptions::default())?;
    let operations = bench.store.operations();
    let before = Held::now();
    let (mut worlds, mut fork_us) = (Vec::with_capacity(forks), Vec::with_capacity(forks));
    for _ in 0..forks {
        let start = Instant::now();
        worlds.push(bench.world.fork(&ForkOptions::default())?);
        fork_us.push(start.elapsed().as_secs_f64() * 1e6);
    }
    let during = Held::now();
    // Whoever goes on makes links for other calls: not before everybody has counted.
    bench.barrier()?;
    let operations = bench.sum(bench.store.operations() - operations)?;
    let mut grown = [
        (during.descriptors as f64) - (before.descriptors as f64),
        (during.threads as f64) - (before.threads as f64),
    ];
    bench.maximum(&mut grown)?;
    for world in &worlds {
        world.run(&Call::Barrier, &CallOptions::default())?;
    }
    let mut destroy_us = Vec::with_capacity(forks);
    for world in worlds.drain(..) {
        let start = Instant::now();
        drop(world);
        destroy_us.push(start.elapsed().as_secs_f64() * 1e6);
    }
    drop(first);
    bench.maximum(&mut fork_us)?;
    bench.maximum(&mut destroy_us)?;
    let (fork_us, destroy_us) = (sorted(fork_us), sorted(destroy_us));
    let bytes = during.resident.saturating_sub(before.resident) / forks.max(1);
    let line = json!({
        "ranks": bench.world.size(), "forks": forks,
        "fork_p50_us": percentile(&fork_us, 50.0), "destroy_p50_us": percentile(&destroy_us, 50.0),
        "descriptors_before": before.descriptors, "descriptors_during": during.descriptors,
        "threads_before": before.threads, "threads_during": during.threads,
        "bytes_per_fork": bytes, "store_operations": operations,
    });
    if bench.is_first() && bench.is_json() {
        println!("{line}");
    } else if bench.is_first() {
        println!(
            "fork: {forks} forks, median {:.1} us, destroyed in {:.1} us, {bytes} bytes each; descriptors {} to {}, threads {} to {}, store operations {operations}",
            percentile(&fork_us, 50.0),
            percentile(&destroy_us, 50.0),
            before.descriptors,
            during.descriptors,
            before.threads,
            during.threads
        );
    }
    let is_as_promised = grown == [0.0, 0.0] && operations == 0;
    if !is_as_promised && bench.is_first() {
        eprintln!("collect bench fork: descriptors, threads or store operations have grown");
    }
    Ok(u64::from(!is_as_promised))
}
