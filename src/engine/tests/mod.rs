//! The protocol under simulation: random programs on random networks, with and without faults.
//!
//! `COLLECT_SIM_SEED=N cargo test --lib engine::tests -- --nocapture` runs one seed and prints its frames;
//! `COLLECT_SIM_SCHEDULES` says how many seeds run (10,000), `COLLECT_SIM_FIRST` which is the first.
#![forbid(unsafe_code)]

mod blame;
mod call;
mod case;
mod content;
mod culprits;
mod directed;
mod fault;
mod fuzz;
mod harness;
mod memory;
mod messages;
mod play;
mod rank;
mod script;
mod verdict;

use std::panic::{self, AssertUnwindSafe};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use blame::Figures;
use case::{Case, Size};

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|text| text.parse().expect("a number"))
}

/// Runs a case; else, what is wrong in it.
fn outcome(seed: u64, size: Size) -> Result<Figures, String> {
    let case = Case::random(seed, size);
    let run = panic::catch_unwind(AssertUnwindSafe(|| harness::run(&case, false)));
    run.map_err(|payload| {
        let text = payload.downcast_ref::<String>().cloned();
        let text = text.or_else(|| payload.downcast_ref::<&str>().map(|text| (*text).to_string()));
        text.unwrap_or_default()
    })
}

/// The smallest case of a seed that fails, in words.
fn smallest(seed: u64, full: String) -> String {
    for calls in [1, 2, 3, 5, 8, Size::FULL.calls] {
        for ranks in [2, 3, 4, 6, Size::FULL.ranks] {
            let size = Size { ranks, calls };
            if let Err(text) = outcome(seed, size) {
                let case = Case::random(seed, size);
                return format!(
                    "seed {seed} (also with {ranks} ranks at most and {calls} calls at most: {:?}): {text}",
                    case.fault
                );
            }
        }
    }
    full
}

#[test]
fn random_programs_under_random_schedules() {
    if let Some(seed) = number("COLLECT_SIM_SEED") {
        let full = Size::FULL;
        let ranks = number("COLLECT_SIM_RANKS").map_or(full.ranks, |ranks| ranks as usize);
        let calls = number("COLLECT_SIM_CALLS").map_or(full.calls, |calls| calls as usize);
        let case = Case::random(seed, Size { ranks, calls });
        println!("{case:#?}");
        return harness::run(&case, true).judge();
    }
    let schedules = number("COLLECT_SIM_SCHEDULES").unwrap_or(10_000);
    let first = number("COLLECT_SIM_FIRST").unwrap_or(0);
    let next = AtomicU64::new(first);
    let (failures, figures) = (Mutex::new(Vec::new()), Mutex::new(Figures::default()));
    let hook = panic::take_hook();
    panic::set_hook(Box::new(|_| {}));
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    let count = failures.lock().unwrap().len();
                    if seed >= first + schedules || count >= 20 {
                        return;
                    }
                    match outcome(seed, Size::FULL) {
                        Ok(of_case) => figures.lock().unwrap().add(of_case),
                        Err(text) => {
                            let text = smallest(seed, format!("seed {seed}: {text}"));
                            failures.lock().unwrap().push(text);
                        }
                    }
                }
            });
        }
    });
    panic::set_hook(hook);
    let failures = failures.into_inner().unwrap();
    assert!(failures.is_empty(), "{} seeds fail:\n{}", failures.len(), failures.join("\n"));
    figures.into_inner().unwrap().judge();
}
