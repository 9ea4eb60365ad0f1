//! Sums over the runs of a test, and what they must be.

use std::collections::BTreeMap;
use std::time::Duration;

use collect::link::phase::Phase;

use super::judge::Verdict;

/// After so many runs that fail, the rest would tell nothing new.
const FAILURES_MAX: usize = 5;

const PHASES: [Phase; 7] = [
    Phase::Handshake,
    Phase::Parked,
    Phase::Granted,
    Phase::MidFrame,
    Phase::Reducing,
    Phase::Fork,
    Phase::Destroy,
];

#[derive(Debug, Default)]
pub(crate) struct Tally {
    runs: usize,
    skipped: usize,
    phases: BTreeMap<String, usize>,
    faults: BTreeMap<String, Line>,
    hops: Option<u32>,
    failed: Vec<u64>,
    slowest: (Duration, u64),
}

/// The runs with one fault.
#[derive(Debug, Default)]
struct Line {
    runs: usize,
    /// Runs in which somebody named a rank, and those in which all named the right one.
    named: usize,
    right: usize,
}

impl Tally {
    pub(crate) fn add(&mut self, verdict: Verdict) {
        if verdict.fault == "skipped" {
            self.skipped += 1;
            return;
        }
        for text in &verdict.failures {
            println!("seed {}: {}: FAILS: {text}", verdict.seed, verdict.fault);
        }
        for text in &verdict.misnomers {
            println!("seed {}: {}: {text}", verdict.seed, verdict.fault);
        }
        if !verdict.failures.is_empty() || !verdict.misnomers.is_empty() {
            print!("{}", verdict.record);
        }
        if !verdict.failures.is_empty() {
            self.failed.push(verdict.seed);
        }
        self.runs += 1;
        *self.phases.entry(verdict.phase).or_default() += 1;
        let line = self.faults.entry(verdict.fault).or_default();
        line.runs += 1;
        line.named += usize::from(verdict.names.is_some());
        line.right += usize::from(verdict.names == Some(true));
        self.hops = self.hops.max(verdict.hops);
        self.slowest = self.slowest.max((verdict.took, verdict.seed));
    }

    pub(crate) fn has_failed_too_often(&self) -> bool {
        self.failed.len() >= FAILURES_MAX
    }

    fn print(&self) {
        println!("{} runs, {} skipped; the engine at the fault:", self.runs, self.skipped);
        for (phase, count) in &self.phases {
            println!("  {phase:10} {count:5} {:5.1} %", 100.0 * *count as f64 / self.runs as f64);
        }
        println!("runs, those with a name, those with the right name:");
        for (fault, line) in &self.faults {
            println!("  {fault:10} {:5} {:5} {:5}", line.runs, line.named, line.right);
        }
        println!("the news went through {:?} ranks at most", self.hops);
        println!("the slowest run, seed {}, took {:?}", self.slowest.1, self.slowest.0);
    }

    /// Nothing hung, nobody crashed, no number was wrong, and nothing was harmed that must not be.
    pub(crate) fn must_be_free_of_failures(&self) {
        self.print();
        assert!(self.failed.is_empty(), "seeds {:?} have failed, see above", self.failed);
    }

    /// As before; and of a hundred runs at most one names a wrong rank, and every phase has two.
    pub(crate) fn must_be_right(&self) {
        self.must_be_free_of_failures();
        let wrong: usize = self.faults.values().map(|line| line.named - line.right).sum();
        let most = self.runs.div_ceil(100);
        assert!(wrong <= most, "{wrong} of {} runs name a wrong rank, see above", self.runs);
        for phase in PHASES {
            let count = self.phases.get(&phase.to_string()).copied().unwrap_or(0);
            assert!(count * 50 >= self.runs, "{count} runs had their fault in phase {phase}");
        }
    }
}
