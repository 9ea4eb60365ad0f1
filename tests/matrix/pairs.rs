//! Pairwise sampling: so few rows that any value of a parameter meets any value of every other one, where it may.

use std::collections::HashSet;

/// A value of each parameter, by its index.
pub(crate) type Row = Vec<usize>;

/// Two parameters with a value each, the lower parameter first.
type Pair = [(usize, usize); 2];

/// Numbers that look random, always the same.
#[derive(Debug)]
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let word = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        word ^ (word >> 31)
    }

    pub(crate) fn below(&mut self, limit: usize) -> usize {
        (self.next() % limit as u64) as usize
    }

    pub(crate) fn shuffle<T>(&mut self, list: &mut [T]) {
        for at in (1..list.len()).rev() {
            list.swap(at, self.below(at + 1));
        }
    }
}

/// Rows over parameters of so many values each. `allows` says whether two values may meet; a row holds only pairs that
/// may, and every pair that may is in some row.
pub(crate) fn rows(
    values: &[usize],
    allows: &dyn Fn((usize, usize), (usize, usize)) -> bool,
    random: &mut Random,
) -> Vec<Row> {
    let mut missing: Vec<Pair> = Vec::new();
    for low in 0..values.len() {
        for high in low + 1..values.len() {
            for a in 0..values[low] {
                let may_meet = (0..values[high]).filter(|b| allows((low, a), (high, *b)));
                missing.extend(may_meet.map(|b| [(low, a), (high, b)]));
            }
        }
    }
    random.shuffle(&mut missing);
    let mut uncovered: HashSet<Pair> = missing.iter().copied().collect();
    let mut rows = Vec::new();
    for pair in missing {
        if !uncovered.contains(&pair) {
            continue;
        }
        let row = complete(pair, values, allows, &uncovered, random);
        let pairs =
            (0..row.len()).flat_map(|low| (low + 1..row.len()).map(move |high| (low, high)));
        for (low, high) in pairs {
            uncovered.remove(&[(low, row[low]), (high, row[high])]);
        }
        rows.push(row);
    }
    assert!(uncovered.is_empty());
    rows
}

/// A row with this pair: each other parameter, in a random order, takes the value that covers most.
fn complete(
    pair: Pair,
    values: &[usize],
    allows: &dyn Fn((usize, usize), (usize, usize)) -> bool,
    uncovered: &HashSet<Pair>,
    random: &mut Random,
) -> Row {
    let mut order: Vec<usize> =
        (0..values.len()).filter(|at| pair.iter().all(|it| it.0 != *at)).collect();
    random.shuffle(&mut order);
    let mut chosen = pair.to_vec();
    for parameter in order {
        let first = random.below(values[parameter]);
        let all = (0..values[parameter]).map(|at| (parameter, (at + first) % values[parameter]));
        let may = all.filter(|one| chosen.iter().all(|other| meets(allows, *one, *other)));
        let gain = |one: &(usize, usize)| {
            chosen.iter().filter(|other| uncovered.contains(&sorted(*one, **other))).count()
        };
        let best = may.max_by_key(gain);
        chosen.push(best.expect("some value goes with any two that may meet"));
    }
    chosen.sort_unstable();
    chosen.into_iter().map(|(_, value)| value).collect()
}

fn sorted(one: (usize, usize), other: (usize, usize)) -> Pair {
    if one < other { [one, other] } else { [other, one] }
}

fn meets(
    allows: &dyn Fn((usize, usize), (usize, usize)) -> bool,
    one: (usize, usize),
    other: (usize, usize),
) -> bool {
    let [low, high] = sorted(one, other);
    allows(low, high)
}

#[test]
fn every_pair_that_may_meet_does() {
    let values = [4, 1, 6, 3, 2];
    // The first parameter's last value goes only with the third's even ones.
    let allows = |a: (usize, usize), b: (usize, usize)| !(a == (0, 3) && b.0 == 2 && b.1 % 2 == 1);
    let rows = rows(&values, &allows, &mut Random(1));
    for low in 0..values.len() {
        for high in low + 1..values.len() {
            for (a, b) in (0..values[low]).flat_map(|a| (0..values[high]).map(move |b| (a, b))) {
                let is_there = rows.iter().any(|row| row[low] == a && row[high] == b);
                assert_eq!(is_there, allows((low, a), (high, b)), "{low}: {a}, {high}: {b}");
            }
        }
    }
    assert!(rows.len() < 40, "{} rows, the product is 144", rows.len());
}
