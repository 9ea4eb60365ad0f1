//! What a run must come to. Who is named is counted; everything else is a failure.

use std::collections::BTreeSet;
use std::fmt::Write;
use std::os::unix::process::ExitStatusExt;
use std::time::Duration;

use super::direct::Outcome;
use super::scenario::{Fate, Fault, Part};

/// The judgement of one run.
#[derive(Debug, Default)]
pub(crate) struct Verdict {
    /// What the fault was, in a word.
    pub(crate) fault: String,
    /// What the engine was about when it happened.
    pub(crate) phase: String,
    /// Whether somebody had to name a rank, and all that did named the right one.
    pub(crate) names: Option<bool>,
    /// What was wrong about the names.
    pub(crate) misnomers: Vec<String>,
    /// The most ranks that the news of a failure went through.
    pub(crate) hops: Option<u32>,
    pub(crate) failures: Vec<String>,
    /// Everything that is known of the run.
    pub(crate) record: String,
    pub(crate) took: Duration,
    pub(crate) seed: u64,
}

impl Verdict {
    /// Of a run that is not possible on this host.
    pub(crate) fn skipped() -> Self {
        Self { fault: "skipped".into(), ..Self::default() }
    }
}

/// A rank's word on a world: `lasted`, or how it failed.
struct Word<'a> {
    /// Of the world, its creation, or a fork of it, after which it may go on.
    what: &'a str,
    world: usize,
    kind: &'a str,
    blamed: Option<usize>,
    text: &'a str,
}

pub(crate) fn judge(outcome: &Outcome) -> Verdict {
    let scenario = &outcome.scenario;
    let mut verdict = Verdict {
        fault: word_for(scenario.fault).into(),
        phase: phase(outcome).unwrap_or_else(|| "none".into()),
        took: outcome.took,
        seed: scenario.seed,
        hops: hops(outcome),
        ..Verdict::default()
    };
    // While worlds are left the other side may have gone first, so that there is nothing to cut.
    let is_cut = matches!(scenario.fault, Fault::Cut { .. } | Fault::Reset);
    if verdict.phase == "none" && !(is_cut && scenario.part == Part::End) {
        verdict.failures.push("the fault has not happened".into());
    }
    let culprits = culprits(outcome);
    for rank in 0..scenario.size {
        verdict.failures.extend(fault_of_end(outcome, rank));
        if !is_gone(outcome, rank) {
            judge_rank(outcome, rank, &culprits, &mut verdict);
        }
    }
    verdict.record = record(outcome);
    verdict
}

fn word_for(fault: Fault) -> &'static str {
    match fault {
        Fault::Kill => "kill",
        Fault::Exit { .. } => "exit",
        Fault::Stop { .. } => "stop",
        Fault::Reset => "reset",
        Fault::Cut { .. } => "cut",
        Fault::Header => "header",
        Fault::Payload => "payload",
        Fault::Slow => "slow",
        Fault::Scarce { .. } => "scarce",
        Fault::Cancel => "cancel",
    }
}

fn phase(outcome: &Outcome) -> Option<String> {
    if let Some(hit) = &outcome.hit {
        return Some(hit.phase.clone());
    }
    let told = &outcome.told[outcome.scenario.victim];
    told.iter().find(|line| line[0] == "fault").map(|line| line[1].clone())
}

fn hops(outcome: &Outcome) -> Option<u32> {
    let news = outcome.told.iter().flatten().filter(|line| line[0] == "news");
    let count =
        |line: &Vec<String>| line[1].split(" after ").nth(1)?.split(' ').next()?.parse().ok();
    news.filter_map(count).max()
}

/// Whom survivors may name.
fn culprits(outcome: &Outcome) -> BTreeSet<usize> {
    let scenario = &outcome.scenario;
    let mut culprits = BTreeSet::from([scenario.victim]);
    culprits.extend(outcome.hit.iter().flat_map(|hit| hit.ends));
    culprits.extend(outcome.other_end);
    if matches!(scenario.fault, Fault::Reset | Fault::Cut { .. }) && culprits.len() == 1 {
        // Nobody had accepted the connection yet.
        culprits.extend(0..scenario.size);
    }
    culprits
}

/// Whether the fault has ended this rank.
fn is_gone(outcome: &Outcome, rank: usize) -> bool {
    let ends = matches!(outcome.scenario.fault, Fault::Kill | Fault::Exit { .. });
    ends && rank == outcome.scenario.victim
}

/// What is wrong about how a rank ended.
fn fault_of_end(outcome: &Outcome, rank: usize) -> Option<String> {
    let Some(end) = outcome.ends[rank] else { return Some(format!("rank {rank} hangs")) };
    let is_killed = is_gone(outcome, rank) && outcome.scenario.fault == Fault::Kill;
    let is_right = match is_killed {
        true => end.signal() == Some(libc::SIGKILL),
        false => end.success(),
    };
    if !is_right {
        return Some(format!("rank {rank}: {end}"));
    }
    let has_ended = outcome.told[rank].iter().any(|line| line[0] == "end");
    (!has_ended && !is_gone(outcome, rank)).then(|| format!("rank {rank} has not come to its end"))
}

fn judge_rank(outcome: &Outcome, rank: usize, culprits: &BTreeSet<usize>, verdict: &mut Verdict) {
    let scenario = &outcome.scenario;
    let words: Vec<Word<'_>> = outcome.told[rank].iter().filter_map(|line| word(line)).collect();
    for (world, members) in scenario.worlds.iter().enumerate() {
        let last = words.iter().rfind(|word| word.world == world && word.what != "fork");
        let Some(last) = last else {
            if members.contains(&rank) && outcome.ends[rank].is_some_and(|end| end.success()) {
                let text = format!("rank {rank} says nothing of world {world}");
                verdict.failures.push(text);
            }
            continue;
        };
        let has_failed = last.kind != "lasted";
        let is_right = match scenario.fate_of(world) {
            Fate::Fails => has_failed,
            Fate::Lasts => !has_failed,
            Fate::Open => true,
        };
        if !is_right {
            let text = format!("world {world} {} on rank {rank}: {}", last.kind, last.text);
            verdict.failures.push(text);
        }
    }
    for word in words.iter().filter(|word| word.kind != "lasted") {
        if scenario.fate_of(word.world) == Fate::Lasts {
            let text = format!("rank {rank}, world {}: {}: {}", word.world, word.kind, word.text);
            verdict.failures.push(text);
        }
        judge_error(outcome, rank, word, culprits, verdict);
    }
}

/// Whether an error is of a kind that fits, and names who is to be named.
fn judge_error(
    outcome: &Outcome,
    rank: usize,
    word: &Word<'_>,
    culprits: &BTreeSet<usize>,
    verdict: &mut Verdict,
) {
    let scenario = &outcome.scenario;
    let is_victim = rank == scenario.victim;
    let lost_or_late = ["peer lost", "timed out"];
    let kinds: &[&str] = match scenario.fault {
        Fault::Kill | Fault::Exit { .. } if scenario.is_short() => &lost_or_late,
        Fault::Stop { .. } | Fault::Cut { .. } => &lost_or_late,
        Fault::Scarce { .. } if is_victim => &["resource"],
        Fault::Scarce { .. } => &lost_or_late,
        _ => &["peer lost"],
    };
    let Word { world, kind, text, .. } = word;
    if !kinds.contains(kind) {
        verdict.failures.push(format!("rank {rank}, world {world}: {kind}: {text}"));
        return;
    }
    // Who has slept, or lacks something itself, need not know who is to blame.
    if is_victim && matches!(scenario.fault, Fault::Stop { .. } | Fault::Scarce { .. }) {
        return;
    }
    let is_right = word.blamed.is_some_and(|blamed| culprits.contains(&blamed));
    let names = verdict.names.get_or_insert(true);
    *names &= is_right;
    if !is_right {
        let blamed = word.blamed.map_or_else(|| "nobody".into(), |rank| format!("rank {rank}"));
        let text = format!("rank {rank} names {blamed}, not of {culprits:?}: {kind}: {text}");
        verdict.misnomers.push(text);
    }
}

fn word(line: &[String]) -> Option<Word<'_>> {
    match line {
        [word, world] if word == "lasted" => Some(Word {
            what: "world",
            world: world.parse().unwrap(),
            kind: word,
            blamed: None,
            text: "",
        }),
        [word, what, world, kind, blamed, text] if word == "error" => Some(Word {
            what,
            world: world.parse().unwrap(),
            kind,
            blamed: blamed.parse().ok(),
            text,
        }),
        _ => None,
    }
}

/// All that is known of a run.
fn record(outcome: &Outcome) -> String {
    let scenario = &outcome.scenario;
    let mut text = format!("{scenario:?}\n");
    let _ = writeln!(text, "  hit {:?}, other end {:?}", outcome.hit, outcome.other_end);
    for rank in 0..scenario.size {
        let _ = writeln!(text, "  rank {rank}: {:?}", outcome.ends[rank]);
        for line in &outcome.told[rank] {
            let _ = writeln!(text, "    {}", line.join(" | "));
        }
        for line in outcome.printed[rank].lines() {
            let _ = writeln!(text, "    > {line}");
        }
    }
    text
}
