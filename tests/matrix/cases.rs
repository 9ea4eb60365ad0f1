//! Which calls are tried: the parameters of each collective, their values, and the rows that sampling makes of them.

use collect::plan::{self, Collective};
use collect::{Algorithm, Datatype, Op};

use super::pairs::{self, Random, Row};
use crate::reference::case::{Case, InPlace, Variety};

/// A call, and how it is made.
#[derive(Debug, Clone)]
pub(crate) struct Trial {
    pub(crate) case: Case,
    /// Whether as a request; else the call waits.
    pub(crate) is_request: bool,
}

/// The collectives of the matrix.
pub(crate) fn collectives() -> impl Iterator<Item = Collective> {
    Collective::ALL.into_iter().filter(|collective| *collective != Collective::Message)
}

/// What a parameter of a call can be.
struct Values {
    collective: Collective,
    datatypes: Vec<Datatype>,
    ops: Vec<Op>,
    counts: Vec<usize>,
    roots: Vec<usize>,
    in_place: Vec<InPlace>,
    algorithms: Vec<(Option<Algorithm>, u16)>,
    varieties: Vec<Variety>,
    buffers: Vec<usize>,
    shifts: Vec<usize>,
}

/// In the order of `Values`; requests come last.
const OP: usize = 1;
const IN_PLACE: usize = 4;
const BUFFERS: usize = 7;

impl Values {
    fn of(collective: Collective, size: usize, counts: &[usize]) -> Self {
        let is_barrier = collective == Collective::Barrier;
        let mut counts = if is_barrier { vec![0] } else { counts.to_vec() };
        counts.sort_unstable();
        counts.dedup();
        let some = |flag: bool, many: usize| if flag { many } else { 1 };
        let has_two_sides = !is_barrier && collective != Collective::Broadcast;
        let in_place = [InPlace::Nobody, InPlace::Everybody, InPlace::Some];
        let is_irregular = collective.is_irregular();
        let may_be_displaced = is_irregular && collective != Collective::ReduceScatterv;
        let varieties = [(true, false), (true, true), (false, false), (false, true)];
        let varieties = varieties.map(|(lengths_differ, displaced)| Variety {
            lengths_differ: lengths_differ && is_irregular,
            displaced: displaced && may_be_displaced,
        });
        let mut varieties = varieties.to_vec();
        varieties.dedup();
        varieties.truncate(some(is_irregular, 4));
        Self {
            collective,
            datatypes: Datatype::ALL[..some(!is_barrier, Datatype::ALL.len())].to_vec(),
            ops: ops(collective),
            counts,
            roots: (0..some(collective.has_root(), size)).collect(),
            in_place: in_place[..some(has_two_sides, 3)].to_vec(),
            algorithms: algorithms(collective),
            varieties,
            buffers: vec![1, 2, 3][..some(collective == Collective::Allreduce, 3)].to_vec(),
            shifts: vec![0, 3],
        }
    }

    fn lengths(&self) -> [usize; 10] {
        [
            self.datatypes.len(),
            self.ops.len(),
            self.counts.len(),
            self.roots.len(),
            self.in_place.len(),
            self.algorithms.len(),
            self.varieties.len(),
            self.buffers.len(),
            self.shifts.len(),
            2,
        ]
    }

    /// Whether two values may meet; the first one's parameter comes first.
    fn allows(&self, one: (usize, usize), other: (usize, usize)) -> bool {
        match (one, other) {
            ((0, datatype), (OP, op)) if self.collective.reduces() => {
                self.ops[op].allows(self.datatypes[datatype])
            }
            // The buffers of an allreduce_multi are in place always.
            ((IN_PLACE, in_place), (BUFFERS, buffers)) => in_place == 0 || buffers == 0,
            _ => true,
        }
    }

    fn trial(&self, row: &Row, seed: u64) -> Trial {
        let (algorithm, degree) = self.algorithms[row[5]];
        let case = Case {
            collective: self.collective,
            datatype: self.datatypes[row[0]],
            op: self.ops[row[OP]],
            count: self.counts[row[2]],
            root: self.roots[row[3]],
            in_place: self.in_place[row[IN_PLACE]],
            algorithm,
            degree,
            key: None,
            buffers: self.buffers[row[BUFFERS]],
            variety: self.varieties[row[6]],
            shift: self.shifts[row[8]],
            seed,
        };
        Trial { case, is_request: row[9] == 1 }
    }
}

/// The library's choice, and every algorithm with parameters from the smallest on.
fn algorithms(collective: Collective) -> Vec<(Option<Algorithm>, u16)> {
    let named = plan::algorithms(collective).iter().flat_map(|algorithm| {
        let degrees: &[u16] = match algorithm {
            Algorithm::Knomial => &[0, 2, 3],
            Algorithm::Pairwise => &[0, 1, 3],
            _ => &[0],
        };
        degrees.iter().map(|degree| (Some(*algorithm), *degree))
    });
    [(None, 0)].into_iter().chain(named).collect()
}

/// The reductions; a scan has no average. A caller's own is tested apart: it has no types.
fn ops(collective: Collective) -> Vec<Op> {
    let is_scan = matches!(collective, Collective::Scan | Collective::Exscan);
    let serves = |op: &Op| *op != Op::Custom && !(is_scan && *op == Op::Avg);
    let all = Op::ALL.into_iter().filter(serves);
    if collective.reduces() { all.collect() } else { vec![Op::Sum] }
}

/// Trials of all collectives in a world of `size`, in a random order: every pair of values of each collective.
pub(crate) fn trials(size: usize, counts: &[usize], seed: u64) -> Vec<Trial> {
    let mut random = Random(seed ^ size as u64);
    let mut trials = Vec::new();
    for collective in collectives() {
        let values = Values::of(collective, size, counts);
        let allows = |one, other| values.allows(one, other);
        let rows = pairs::rows(&values.lengths(), &allows, &mut random);
        trials.extend(rows.iter().map(|row| values.trial(row, random.next())));
    }
    random.shuffle(&mut trials);
    trials
}
