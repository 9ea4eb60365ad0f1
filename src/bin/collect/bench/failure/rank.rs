//! One rank of a round: joins, says that it is inside, makes calls until one fails, and says when it returned and why.

use std::process::ExitCode;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;

use collect::{Algorithm, Call, CallOptions, Datatype, Error, Op, Target, World};
use log::{LevelFilter, Log, Metadata, Record};
use serde_json::json;

use super::round::{INSIDE, monotonic_ns};
use crate::args::{BenchArguments, Scenario};
use crate::bench::options;

/// Elements of a call: 1 MiB.
const COUNT: usize = 256 << 10;

/// Takes part in a round in which `victim` is killed.
pub(super) fn take_part(arguments: &BenchArguments, victim: usize) -> Result<ExitCode, Error> {
    let heard = log::set_logger(&NEWS).map(|()| log::set_max_level(LevelFilter::Debug)).is_ok();
    let world = World::create_from_env(&options(arguments))?;
    let scenario = arguments.scenario.unwrap_or(Scenario::Ring);
    let mut buffer = vec![1f32; COUNT];
    // Everybody is there, and has the links that the calls need; of the rank that is idle, none is made.
    if scenario != Scenario::Idle {
        call(&world, scenario, victim, &mut buffer)?;
    }
    println!("{INSIDE}");
    if scenario == Scenario::Idle && world.rank() == victim {
        loop {
            thread::park();
        }
    }
    let error = loop {
        if let Err(error) = call(&world, scenario, victim, &mut buffer) {
            break error;
        }
    };
    let returned_ns = monotonic_ns();
    let hops = if heard { NEWS.hops() } else { None };
    let report = json!({
        "returned_ns": returned_ns, "culprit": error.rank(), "hops": hops, "text": error.to_string(),
    });
    println!("{report}");
    Ok(ExitCode::SUCCESS)
}

fn call(world: &World, scenario: Scenario, victim: usize, buffer: &mut [f32]) -> Result<(), Error> {
    let (target, datatype) = (Target::of(buffer), Datatype::F32);
    let by = |algorithm| CallOptions { algorithm: Some(algorithm), ..CallOptions::default() };
    match scenario {
        Scenario::Ring => {
            let source = target.in_place();
            let call = Call::Allreduce { source, target, datatype, op: Op::Max };
            world.run(&call, &by(Algorithm::Ring))
        }
        Scenario::Hub => {
            let call = Call::Broadcast { buffer: target, datatype, root: 0 };
            world.run(&call, &by(Algorithm::Binomial))
        }
        Scenario::Idle => {
            let from = Some(survivor_after(world.rank(), victim, world.size()));
            let call = Call::Receive { target, datatype, from, tag: 0 };
            world.run(&call, &CallOptions::default())
        }
    }
}

/// The next rank that is not killed.
fn survivor_after(rank: usize, victim: usize, size: usize) -> usize {
    let next = (rank + 1) % size;
    if next == victim { (next + 1) % size } else { next }
}

/// How many ranks the news of the failure went through, from what the library tells the log.
static NEWS: News = News { hops: AtomicU32::new(u32::MAX) };

struct News {
    /// `u32::MAX`: not told.
    hops: AtomicU32,
}

impl News {
    fn hops(&self) -> Option<u32> {
        let hops = self.hops.load(Ordering::Relaxed);
        (hops != u32::MAX).then_some(hops)
    }
}

impl Log for News {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target() == "collect::world"
    }

    fn log(&self, record: &Record<'_>) {
        if self.enabled(record.metadata())
            && let Some(hops) = hops_in(&record.args().to_string())
        {
            self.hops.store(hops, Ordering::Relaxed);
        }
    }

    fn flush(&self) {}
}

/// The number in `… fails after 2 hops: …`.
fn hops_in(text: &str) -> Option<u32> {
    let (_, rest) = text.split_once("fails after ")?;
    rest.split(' ').next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn survivors_wait_for_each_other_in_a_ring_without_the_victim() {
        let next = |rank| survivor_after(rank, 2, 4);
        assert_eq!([0, 1, 3].map(next), [1, 3, 0]);
        assert_eq!(survivor_after(2, 3, 4), 0);
    }

    #[test]
    fn hops_are_read_from_the_log() {
        assert_eq!(hops_in("world \"w\" rank 3 fails after 2 hops: rank 1 closed"), Some(2));
        assert_eq!(hops_in("world \"w\" rank 0 fails after 0 hops: x"), Some(0));
        assert_eq!(hops_in("world \"w\" is made"), None);
    }
}
