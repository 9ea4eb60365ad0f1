//! Random programs of up to 30 acts on up to 3 worlds, with threads and with processes as ranks.
//!
//! The same on the simulated link is in `src/engine/tests`. Programs come from fixed seeds; `COLLECT_PROGRAMS=N` runs N.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "programs/program.rs"]
mod program;
#[path = "programs/rank.rs"]
mod rank;
mod ranks;
mod reference;

use std::fs;
use std::time::Duration;

use collect::config::Timeout;
use collect::store::FileStore;
use collect::{World, WorldOptions};
use program::{Program, program};
use proptest::strategy::{Strategy, ValueTree};
use proptest::test_runner::{Config, RngAlgorithm, TestCaseError, TestRng, TestRunner};

/// Programs that run with threads, and with processes.
const PROGRAMS: u32 = 1000;
const WITH_PROCESSES: u8 = 6;

/// Shorter than the tests' own deadline: a program that hangs is run again and again to make it smaller.
fn options() -> WorldOptions {
    WorldOptions { timeout: Timeout::After(Duration::from_secs(30)), ..ranks::options() }
}

fn runner(seed: u8, cases: u32) -> TestRunner {
    let config =
        Config { cases, failure_persistence: None, max_shrink_iters: 300, ..Config::default() };
    let rng = TestRng::from_seed(RngAlgorithm::ChaCha, &[seed; 32]);
    TestRunner::new_with_rng(config, rng)
}

/// Whether a program runs well with threads as ranks.
fn runs(program: &Program) -> Result<(), TestCaseError> {
    let run = || {
        ranks::threads(program.size, &options(), &|world: &World| rank::run(program, world));
    };
    std::panic::catch_unwind(std::panic::AssertUnwindSafe(run))
        .map_err(|_| TestCaseError::fail("a rank has panicked; see above"))
}

#[test]
fn random_programs_on_threads() {
    let cases = std::env::var("COLLECT_PROGRAMS").map_or(PROGRAMS, |many| many.parse().unwrap());
    let outcome = runner(1, cases).run(&program(), |program| runs(&program));
    if let Err(error) = outcome {
        panic!("{error}");
    }
}

/// The program of a seed, which each process makes for itself.
fn nth(seed: u8) -> Program {
    program().new_tree(&mut runner(seed, 1)).unwrap().current()
}

#[test]
fn random_programs_on_processes() {
    let name = "random_programs_on_processes";
    if ranks::is_rank() {
        let seed = fs::read_to_string(ranks::folder().join("seed")).unwrap().parse().unwrap();
        let program = nth(seed);
        let store = FileStore::open(ranks::folder().join("store")).unwrap();
        let world = World::create(&store, ranks::rank(), program.size, &options()).unwrap();
        return rank::run(&program, &world);
    }
    let with_several = (100..).filter(|seed| nth(*seed).size > 1);
    for seed in with_several.take(WITH_PROCESSES.into()) {
        let program = nth(seed);
        let told = [("seed", &*seed.to_string())];
        let mut processes = ranks::Ranks::spawn_told(name, program.size, &told);
        for (rank, status) in processes.wait_all().into_iter().enumerate() {
            assert!(status.success(), "rank {rank}, seed {seed}: {status}: {program:#?}");
        }
    }
}
