//! Whom failed worlds name, over all cases: a race may name another one, but rarely.
#![forbid(unsafe_code)]

use std::collections::BTreeMap;

use super::fault::Fault;
use super::harness::Harness;
use super::rank::world_id;
use super::verdict::touches;
use crate::error::Error;

/// Of a thousand runs that failed, this many must name the right one on every rank.
const RIGHT_PER_THOUSAND: usize = 990;

/// Fewer failed runs than this say nothing.
const ENOUGH: usize = 1_000;

/// Runs in which the absent rank itself waits for others: it is as right as they are. Not judged.
const AMBIGUOUS: &str = "absence of one that waits itself (not judged)";

/// Runs in which somebody received from any rank, and can name nobody. Not judged.
const FROM_ANY: &str = "receive from any rank (not judged)";

/// What a case, or all of them, came to.
#[derive(Debug, Default)]
pub(super) struct Figures {
    /// By fault: runs in which a world failed, and those in which all its members name a right rank.
    runs: BTreeMap<&'static str, (usize, usize)>,
    /// Members that news of a failure have come to, by the ranks that these went through beyond log2(n) + 2.
    hops: BTreeMap<u32, usize>,
    /// Cases in which somebody was named wrongly.
    pub(super) wrong: Vec<u64>,
}

/// Looks at the worlds of a case that has run.
pub(super) fn figures(harness: &Harness<'_>) -> Figures {
    let mut figures = Figures::default();
    let Some((culprits, kind)) = harness.case.fault.culprits() else { return figures };
    let mut kind = if is_ambiguous(harness) { AMBIGUOUS } else { kind };
    let (mut has_failed, mut is_right) = (false, true);
    for (world, spec) in harness.case.worlds.iter().enumerate() {
        if !touches(harness.case, world) {
            continue;
        }
        for rank in harness.ranks.iter().filter(|rank| rank.is_alive && rank.is_open[world]) {
            let Some(error) = rank.healths[world].failure() else { continue };
            let is_one = culprits[0] == culprits[1] && culprits[0] == rank.number;
            if is_one || rank.has_left[world] {
                continue;
            }
            has_failed = true;
            if harness.is_tracing {
                println!("rank {} in world {world} {:?}: {error:?}", rank.number, spec.peers);
            }
            if error.rank().is_none() && error.to_string().contains("receive from any rank") {
                kind = FROM_ANY;
            }
            let named = error.rank().and_then(|rank| spec.peers.get(rank));
            let is_named = named.is_some_and(|named| culprits.contains(&(*named as usize)));
            // A parent of the world may have failed for want of another one.
            is_right &= is_named || matches!(error, Error::Aborted(_)) && kind == "two deaths";
            let most = spec.peers.len().ilog2() + 2;
            let hops = rank.core.hops_of(world_id(world)).unwrap_or(0);
            *figures.hops.entry(hops.saturating_sub(most)).or_default() += 1;
        }
    }
    if has_failed {
        figures.runs.insert(kind, (1, usize::from(is_right)));
        figures.wrong.extend((!is_right && is_judged(kind)).then_some(harness.case.seed));
    }
    figures
}

fn is_judged(kind: &str) -> bool {
    kind != AMBIGUOUS && kind != FROM_ANY
}

/// Whether a rank that does not call waits for others itself, who wait for it: it is as right as they are.
fn is_ambiguous(harness: &Harness<'_>) -> bool {
    let Fault::Absent { rank, .. } = harness.case.fault else { return false };
    harness.ranks[rank].running.iter().any(|running| !matches!(running.outcome, Some(Ok(()))))
}

impl Figures {
    pub(super) fn add(&mut self, other: Self) {
        for (kind, (failed, right)) in other.runs {
            let sum = self.runs.entry(kind).or_default();
            *sum = (sum.0 + failed, sum.1 + right);
        }
        for (beyond, members) in other.hops {
            *self.hops.entry(beyond).or_default() += members;
        }
        self.wrong.extend(other.wrong);
    }

    /// Prints them, and sees whether they are good enough.
    pub(super) fn judge(&self) {
        let percent = |part: usize, all: usize| 100.0 * part as f64 / all.max(1) as f64;
        let (mut all, mut well) = (0, 0);
        for (kind, (failed, right)) in &self.runs {
            let share = percent(*right, *failed);
            println!("{kind}: {failed} runs failed, {right} name the right rank ({share:.2} %)");
            if is_judged(kind) {
                all += failed;
                well += right;
            }
        }
        let share = percent(well, all);
        println!("all: {all} runs failed, {well} name the right rank ({share:.2} %)");
        let members: usize = self.hops.values().sum();
        let near = self.hops.get(&0).copied().unwrap_or(0);
        println!(
            "news went through at most log2(n) + 2 ranks for {near} of {members} members ({:.2} %), and {} more at \
             most",
            percent(near, members),
            self.hops.keys().max().unwrap_or(&0)
        );
        let few: Vec<_> = self.wrong.iter().take(20).collect();
        println!("named wrongly, for instance: seeds {few:?}");
        if all >= ENOUGH {
            assert!(1000 * well >= RIGHT_PER_THOUSAND * all, "{share:.2} % name the right rank");
            assert!(1000 * near >= RIGHT_PER_THOUSAND * members, "news take too long ways");
        }
    }
}
