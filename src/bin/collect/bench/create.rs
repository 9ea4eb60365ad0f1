//! Creation of worlds through the store.

use std::time::Instant;

use collect::{Error, World};
use serde_json::json;

use super::statistics::{percentile, sorted};
use super::{Bench, options};

pub(super) fn measure(bench: &Bench<'_>) -> Result<u64, Error> {
    let rounds = bench.arguments.iterations.clamp(1, 1000);
    let (rank, size) = (bench.world.rank(), bench.world.size());
    let (operations, bytes) = (bench.store.operations(), bench.store.bytes_read());
    let mut times = Vec::new();
    for round in 0..rounds {
        let mut options = options(bench.arguments);
        options.name = format!("bench.{round}");
        bench.barrier()?;
        let start = Instant::now();
        let world = World::create(bench.store(), rank, size, &options)?;
        times.push(start.elapsed().as_secs_f64() * 1e6);
        drop(world);
    }
    let mut counts = [
        (bench.store.operations() - operations) as f64 / rounds as f64,
        (bench.store.bytes_read() - bytes) as f64 / rounds as f64,
    ];
    bench.maximum(&mut counts)?;
    bench.maximum(&mut times)?;
    let times = sorted(times);
    if bench.is_first() && bench.is_json() {
        let line = json!({
            "ranks": size, "store": "tcp", "p50_us": percentile(&times, 50.0),
            "store_operations_per_rank": counts[0], "store_bytes_read_per_rank": counts[1],
        });
        println!("{line}");
    } else if bench.is_first() {
        println!(
            "create: {size} ranks, median {:.0} us, at most {:.1} store operations and {:.0} bytes read a rank",
            percentile(&times, 50.0),
            counts[0],
            counts[1]
        );
    }
    Ok(0)
}
