//! Failure: how long until every survivor of a killed rank knows, and whether all name the right one.
//!
//! Each round has processes of its own: this program again, once for each rank (`rank`), started and told by `round`. The
//! time of a round goes from just before the victim is killed until the last survivor's call has returned; both are read
//! from the clock that all processes of a host share.

mod rank;
mod round;

use std::env;
use std::process::ExitCode;

use clap::ValueEnum;
use serde_json::{Value, json};

use super::statistics::{percentile, sorted};
use crate::args::{BenchArguments, Scenario};
use round::{Round, Survivor};

/// Ranks if the command line does not say.
const RANKS: u32 = 8;
/// Fewer have no inner rank in a tree.
const RANKS_MIN: u32 = 4;

pub(super) fn measure(arguments: &BenchArguments) -> Result<ExitCode, String> {
    if let Some(victim) = arguments.victim {
        return rank::take_part(arguments, victim).map_err(|error| error.to_string());
    }
    if env::var_os("LIBCOLLECT_RANK").is_some() {
        return Err("failure starts ranks of its own: run it outside of `collect run`".into());
    }
    let ranks = arguments.ranks.unwrap_or(RANKS);
    if ranks < RANKS_MIN {
        return Err(format!("failure takes {RANKS_MIN} ranks or more, not {ranks}"));
    }
    let all = arguments.scenario.map_or(Scenario::value_variants().to_vec(), |one| vec![one]);
    let mut wrong = 0;
    for scenario in all {
        let outcome = play(arguments, scenario, ranks as usize)?;
        println!(
            "{}",
            if arguments.is_json() { outcome.json().to_string() } else { outcome.text() }
        );
        wrong += outcome.wrong;
    }
    Ok(if wrong == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// What the rounds of a scenario gave.
struct Outcome {
    scenario: Scenario,
    ranks: usize,
    /// Of the rounds, sorted.
    times_ms: Vec<f64>,
    /// The most ranks that the news of a death went through to reach a survivor; `None` if the log does not say.
    hops_max: Option<u32>,
    /// Survivors that named another rank, or none.
    wrong: usize,
}

/// Plays all rounds of a scenario.
fn play(arguments: &BenchArguments, scenario: Scenario, ranks: usize) -> Result<Outcome, String> {
    let (mut times_ms, mut hops_max, mut wrong) = (Vec::new(), None, 0);
    for number in 0..arguments.iterations.max(1) {
        let victim = victim(scenario, number, ranks);
        let round = Round::start(arguments, scenario, victim, ranks);
        let ended = round.and_then(|round| round.play(number));
        let ended = ended.map_err(|what| format!("{}, round {number}: {what}", scenario.name()))?;
        let last = ended.survivors.iter().map(|survivor| survivor.returned_ns).max();
        let last = last.unwrap_or(ended.killed_ns);
        times_ms.push(last.saturating_sub(ended.killed_ns) as f64 / 1e6);
        hops_max = ended.survivors.iter().map(|survivor| survivor.hops).fold(hops_max, Ord::max);
        for Survivor { rank, text, .. } in
            ended.survivors.iter().filter(|it| it.culprit != Some(victim))
        {
            eprintln!(
                "{}, round {number}: {victim} was killed, and rank {rank} says: {text}",
                scenario.name()
            );
            wrong += 1;
        }
    }
    Ok(Outcome { scenario, ranks, times_ms: sorted(times_ms), hops_max, wrong })
}

/// Who is killed in a round.
fn victim(scenario: Scenario, round: usize, ranks: usize) -> usize {
    match scenario {
        Scenario::Ring => round % ranks,
        // In the tree of root 0, of the ranks that pass data on the one with the most of them below.
        Scenario::Hub => (round % 2) << (ranks - 2).ilog2(),
        // All have a link to rank 0.
        Scenario::Idle => 1 + round % (ranks - 1),
    }
}

impl Outcome {
    fn p50_ms(&self) -> f64 {
        percentile(&self.times_ms, 50.0)
    }

    fn p99_ms(&self) -> f64 {
        percentile(&self.times_ms, 99.0)
    }

    fn max_ms(&self) -> f64 {
        percentile(&self.times_ms, 100.0)
    }

    fn json(&self) -> Value {
        json!({
            "scenario": self.scenario.name(), "ranks": self.ranks, "rounds": self.times_ms.len(),
            "p50_ms": self.p50_ms(), "p99_ms": self.p99_ms(), "max_ms": self.max_ms(),
            "hops_max": self.hops_max, "wrong": self.wrong,
        })
    }

    fn text(&self) -> String {
        let hops = self.hops_max.map_or(String::new(), |hops| format!(", at most {hops} hops"));
        format!(
            "failure, {}: {} ranks, {} rounds, median {:.2} ms, p99 {:.2} ms, at most {:.2} ms{hops}, {} wrong",
            self.scenario.name(),
            self.ranks,
            self.times_ms.len(),
            self.p50_ms(),
            self.p99_ms(),
            self.max_ms(),
            self.wrong
        )
    }
}

#[cfg(test)]
mod tests {
    use collect::Algorithm;
    use collect::plan::{Action, Collective, Shape, build};

    use super::*;

    #[test]
    fn the_victims_of_a_tree_are_its_root_and_a_rank_that_passes_data_on() {
        for size in RANKS_MIN..40 {
            let sends = |victim: usize| {
                let rank = u32::try_from(victim).unwrap();
                let (collective, algorithm) = (Collective::Broadcast, Algorithm::Binomial);
                let (root, in_place, buffers, degree) = (0, true, 1, 0);
                let shape =
                    Shape { collective, algorithm, size, rank, root, in_place, buffers, degree };
                let plan = build(&shape).unwrap();
                plan.steps.iter().any(|step| matches!(step.action, Action::Send { .. }))
            };
            let victims = [0, 1].map(|round| victim(Scenario::Hub, round, size as usize));
            assert!(victims[0] == 0 && victims[1] > 0 && victims.into_iter().all(sends), "{size}");
        }
    }

    #[test]
    fn a_rank_with_a_link_to_rank_0_only_is_not_rank_0() {
        let victims: Vec<_> = (0..8).map(|round| victim(Scenario::Idle, round, 4)).collect();
        assert_eq!(victims, [1, 2, 3, 1, 2, 3, 1, 2]);
    }

    #[test]
    fn hops_that_no_log_has_told_are_left_out() {
        let outcome = |hops_max| Outcome {
            scenario: Scenario::Ring,
            ranks: 8,
            times_ms: vec![1.0, 2.0, 4.0],
            hops_max,
            wrong: 0,
        };
        let text = "failure, ring: 8 ranks, 3 rounds, median 2.00 ms, p99 4.00 ms, at most 4.00 ms";
        assert_eq!(outcome(None).text(), format!("{text}, 0 wrong"));
        assert_eq!(outcome(Some(2)).text(), format!("{text}, at most 2 hops, 0 wrong"));
        assert!(outcome(None).json()["hops_max"].is_null());
    }
}
