//! Tables made by the cost model: the fewest rules with which no call takes much longer than by its best algorithm.
//!
//! Every algorithm is modelled for some world sizes (rows) and numbers of bytes (columns). Rows next to each other share rules
//! where one list of algorithms, by bytes, is near the best in all of them. Larger worlds follow the last row.

use std::ops::Range;

use super::{Rule, Table};
use crate::error::Error;
use crate::plan::{Algorithm, Choice, Collective, Cost, Model, Shape};
use crate::plan::{algorithms, build, cost, default_degree, is_ordered};

/// A choice is wasteful that reduces so many times as much as another which takes at most so many times as long, if what
/// it reduces is more than this part of its time.
const WASTEFUL_WORK: f64 = 1.5;
const WASTEFUL_TIME: f64 = 1.05;
const NEGLIGIBLE_WORK: f64 = 0.02;

/// World sizes that are modelled.
const SIZES: [u32; 13] = [2, 3, 4, 5, 6, 8, 12, 16, 24, 32, 64, 128, 1024];

/// Bytes that are modelled, as powers of two: few of those that latency alone decides.
const BYTES: [u32; 18] = [3, 6, 9, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24, 26];

/// Bytes that are taken where ranks know only lengths of their own.
const BYTES_UNKNOWN: u64 = 1 << 20;

/// The most bytes for which an algorithm is taken whose scratch is as large as the data.
const FULL_SCRATCH_BYTES: u64 = 256 << 10;

/// How much longer than the best algorithm a near one takes: fewer rules are worth that much.
const NEAR: f64 = 1.2;

/// The table for links and processors like these.
///
/// # Errors
///
/// Those of the cost model.
pub fn modelled(model: &Model) -> Result<Table, Error> {
    let mut rules = Vec::new();
    for collective in Collective::ALL {
        if algorithms(collective).is_empty() {
            continue;
        }
        let plain = rules_of(collective, false, model)?;
        let keeps_order = |rule: &Rule| is_ordered(collective, rule.choice.algorithm);
        if collective.reduces() && !plain.iter().all(keeps_order) {
            rules.extend(rules_of(collective, true, model)?);
        }
        rules.extend(plain);
    }
    Table::new(rules)
}

/// The rules of a collective, of calls that need rank order or of all.
fn rules_of(collective: Collective, ordered: bool, model: &Model) -> Result<Vec<Rule>, Error> {
    let choices: Vec<Choice> = algorithms(collective)
        .iter()
        .filter(|algorithm| !ordered || is_ordered(collective, **algorithm))
        .flat_map(|algorithm| degrees(*algorithm))
        .collect();
    if let [only] = choices[..] {
        return Ok(vec![Rule { is_ordered: ordered, ..Rule::any(collective, only) }]);
    }
    let columns = columns(collective);
    let mut rows = Vec::new();
    for size in SIZES {
        rows.push(row(collective, size, &choices, &columns, model)?);
    }
    let parts = grouped(&rows);
    let mut rules = Vec::new();
    for (from, to) in parts {
        for (column, choice) in spans(&rows[from..to]) {
            let rule = Rule::any(collective, choices[choice]);
            rules.push(Rule {
                is_ordered: ordered,
                size_max: if to == SIZES.len() { u32::MAX } else { SIZES[to - 1] },
                bytes_max: if column == columns.len() { u64::MAX } else { columns[column - 1] },
                ..rule
            });
        }
    }
    Ok(rules)
}

/// The degrees that an algorithm is tried with: the default one, which a rule need not name, and others.
fn degrees(algorithm: Algorithm) -> impl Iterator<Item = Choice> {
    let others: &[u16] = match algorithm {
        Algorithm::Knomial => &[8],
        _ => &[],
    };
    std::iter::once(0).chain(others.iter().copied()).map(move |degree| Choice { algorithm, degree })
}

/// The numbers of bytes that are modelled.
fn columns(collective: Collective) -> Vec<u64> {
    match collective {
        Collective::Barrier => vec![1],
        _ if collective.has_own_lengths() => vec![BYTES_UNKNOWN],
        _ => BYTES.map(|power| 1 << power).to_vec(),
    }
}

/// For each number of bytes, how much longer than the best each choice takes: 1 for the best.
type Row = Vec<Vec<f64>>;

fn row(
    collective: Collective,
    size: u32,
    choices: &[Choice],
    columns: &[u64],
    model: &Model,
) -> Result<Row, Error> {
    let full_scratch: Vec<bool> =
        choices.iter().map(|choice| has_full_scratch(collective, *choice)).collect();
    let mut row = Vec::new();
    for bytes in columns {
        let mut costs = Vec::new();
        for choice in choices {
            costs.push(cost(&shape(collective, size, *choice), *bytes as usize, model)?);
        }
        let mut times = times(&costs);
        if *bytes > FULL_SCRATCH_BYTES && !full_scratch.iter().all(|full| *full) {
            let pairs = times.iter_mut().zip(&full_scratch);
            pairs.filter(|(_, full)| **full).for_each(|(time, _)| *time = f64::INFINITY);
        }
        let best = times.iter().copied().fold(f64::INFINITY, f64::min);
        row.push(times.iter().map(|time| time / best).collect());
    }
    Ok(row)
}

/// What choices are compared by: the time, and what the busiest rank reduces in it, since processors have other work
/// too. Infinite for a choice that reduces much more than another one that takes about as long.
fn times(costs: &[Cost]) -> Vec<f64> {
    let time = |cost: &Cost| cost.seconds + cost.processor_s;
    let is_wasteful = |cost: &Cost| {
        let better = |other: &Cost| {
            time(other) <= WASTEFUL_TIME * time(cost)
                && WASTEFUL_WORK * other.processor_s <= cost.processor_s
        };
        cost.processor_s > NEGLIGIBLE_WORK * cost.seconds && costs.iter().any(better)
    };
    costs.iter().map(|cost| if is_wasteful(cost) { f64::INFINITY } else { time(cost) }).collect()
}

fn shape(collective: Collective, size: u32, choice: Choice) -> Shape {
    let Choice { algorithm, degree } = choice;
    let degree = if degree == 0 { default_degree(algorithm) } else { degree };
    let (rank, root, in_place, buffers) = (0, 0, false, 1);
    Shape { collective, algorithm, size, rank, root, in_place, buffers, degree }
}

/// Whether some rank needs scratch in proportion to the bytes, however many there are.
fn has_full_scratch(collective: Collective, choice: Choice) -> bool {
    let shape = shape(collective, 8, choice);
    let mut plans = (0..shape.size).filter_map(|rank| build(&Shape { rank, ..shape }).ok());
    !shape.is_sliced() && plans.any(|plan| plan.scratch > 0)
}

/// The rows cut into groups, each `from..to`, with the fewest rules in all; of equals, the best times.
fn grouped(rows: &[Row]) -> Vec<(usize, usize)> {
    /// Rules, what they lose, and where the last group begins.
    #[derive(Clone, Copy)]
    struct Best(usize, f64, usize);
    let mut best = vec![Best(0, 0.0, 0)];
    for to in 1..=rows.len() {
        let candidates = (0..to).filter_map(|from| {
            let group = &rows[from..to];
            let spans = spans(group);
            let before = best[from];
            (!spans.is_empty())
                .then(|| Best(before.0 + spans.len(), before.1 + lost(group, &spans), from))
        });
        let found = candidates.min_by(|a, b| a.0.cmp(&b.0).then(a.1.total_cmp(&b.1)));
        best.push(found.unwrap_or(Best(usize::MAX, f64::INFINITY, to - 1)));
    }
    let mut groups = Vec::new();
    let mut to = rows.len();
    while to > 0 {
        groups.push((best[to].2, to));
        to = best[to].2;
    }
    groups.reverse();
    groups
}

/// The fewest choices that are near the best in all rows of a group, each up to before a column; none if there are none.
/// What serves many bytes serves as few as it is near for.
fn spans(group: &[Row]) -> Vec<(usize, usize)> {
    let mut spans = Vec::new();
    let mut to = group[0].len();
    while to > 0 {
        let mut near: Vec<usize> = (0..group[0][0].len()).collect();
        let mut from = to;
        while from > 0 {
            let is_near = |choice: &usize| group.iter().all(|row| row[from - 1][*choice] <= NEAR);
            let next: Vec<usize> = near.iter().copied().filter(is_near).collect();
            if next.is_empty() {
                break;
            }
            (near, from) = (next, from - 1);
        }
        if from == to {
            return Vec::new();
        }
        let loss = |choice: &usize| lost_between(group, from..to, *choice);
        let best = near.iter().min_by(|a, b| loss(a).total_cmp(&loss(b)));
        spans.push((to, *best.unwrap_or(&0)));
        to = from;
    }
    spans.reverse();
    spans
}

/// What a group loses by its choices against the best ones.
fn lost(group: &[Row], spans: &[(usize, usize)]) -> f64 {
    let starts = std::iter::once(0).chain(spans.iter().map(|(to, _)| *to));
    starts.zip(spans).map(|(from, (to, choice))| lost_between(group, from..*to, *choice)).sum()
}

fn lost_between(group: &[Row], columns: Range<usize>, choice: usize) -> f64 {
    let cells = group.iter().flat_map(|row| &row[columns.clone()]);
    cells.map(|times| times[choice] - 1.0).sum()
}
