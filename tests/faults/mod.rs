//! The fault harness: worlds of 2 to 6 processes do random operations on several worlds, and one of them meets a fault.
//!
//! `scenario` draws a run from its seed, `play` is what each rank does, with right results checked, `inject` makes the
//! fault, from inside the engine, `direct` starts the ranks of one run, helps with the fault, and judges how they end,
//! `tally` sums over runs. One run again: `COLLECT_FAULT_SEED=N cargo test --test faulty`.
#![allow(dead_code, reason = "each test program uses a part")]
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod acts;
mod cancelled;
mod cut;
mod direct;
mod inject;
mod judge;
mod link;
mod play;
mod proxy;
mod report;
mod scenario;
mod tally;
mod wire;

use std::env;
use std::ops::Range;
use std::sync::Mutex;
use std::thread;

use crate::ranks;
use tally::Tally;

/// What a rank needs to know: everything else follows from it.
const SEED: &str = "COLLECT_FAULT_RUN";
/// The seed of the one run that is wanted.
const WANTED: &str = "COLLECT_FAULT_SEED";

/// Runs the seeds for the test called `name`, so many at a time, and judges them together.
pub(crate) fn sweep(name: &str, seeds: Range<u64>, at_a_time: usize) {
    if ranks::is_rank() {
        return play::be_a_rank();
    }
    let wanted: Option<u64> = env::var(WANTED).ok().map(|seed| seed.parse().unwrap());
    let seeds = wanted.map_or(seeds, |seed| seed..seed + 1);
    let (seeds, tally) = (Mutex::new(seeds), Mutex::new(Tally::default()));
    let next = || {
        let has_failed = tally.lock().unwrap().has_failed_too_often();
        seeds.lock().unwrap().next().filter(|_| !has_failed)
    };
    let work = || {
        while let Some(seed) = next() {
            let verdict = direct::run(name, seed);
            if wanted.is_some() {
                print!("{}", verdict.record);
            }
            tally.lock().unwrap().add(verdict);
        }
    };
    thread::scope(|scope| (0..at_a_time).for_each(|_| drop(scope.spawn(work))));
    let tally = tally.into_inner().unwrap();
    match wanted {
        Some(_) => tally.must_be_free_of_failures(),
        None => tally.must_be_right(),
    }
}
