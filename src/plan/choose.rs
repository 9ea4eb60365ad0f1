//! Which algorithm serves a collective: a pure function of facts that all ranks agree on.
//!
//! Never of pointer kind, alignment, in place, load or this process's environment: ranks would choose differently, and
//! their messages would not meet.

use super::table::{Table, serves};
use super::{Algorithm, Collective, default_degree};

/// The algorithm for agreed facts: what the first rule of the table that fits says, if there is one, else the most
/// general algorithm. It serves the collective, in rank order if that is asked for and any algorithm does, whatever
/// the table says.
#[must_use]
pub fn choose(table: &Table, facts: &Facts) -> Choice {
    let Choice { algorithm, degree } = table.find(facts).unwrap_or_else(|| general(facts));
    Choice { algorithm, degree: if degree == 0 { default_degree(algorithm) } else { degree } }
}

/// What serves where no rule fits.
fn general(facts: &Facts) -> Choice {
    let all = algorithms(facts.collective);
    let found = all.iter().find(|algorithm| serves(facts, **algorithm)).or(all.first());
    Choice { algorithm: found.copied().unwrap_or(Algorithm::Direct), degree: 0 }
}

/// What the choice depends on: facts that all ranks agree on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Facts {
    /// What is done.
    pub collective: Collective,
    /// Members.
    pub size: u32,
    /// Bytes of the larger one of a rank's input and output, of all its blocks together; 0 where ranks know only lengths of
    /// their own (gatherv, scatterv, alltoallv).
    pub bytes: usize,
    /// Buffers per rank (allreduce_multi), else 1.
    pub buffers: u16,
    /// Whether operands must combine in rank order.
    pub is_ordered: bool,
}

/// An algorithm with its parameter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Choice {
    /// The algorithm.
    pub algorithm: Algorithm,
    /// Its parameter; 0 for an algorithm that has none.
    pub degree: u16,
}

/// The algorithms that serve a collective, the most general one first.
#[must_use]
pub fn algorithms(collective: Collective) -> &'static [Algorithm] {
    use Algorithm::{Binomial, Bruck, Chain, Circulant, Direct, Dissemination, Doubling, Halving};
    use Algorithm::{Knomial, Pairwise, Pat, Rabenseifner, Ring};
    match collective {
        Collective::Allreduce => {
            &[Ring, Direct, Doubling, Circulant, Rabenseifner, Halving, Knomial]
        }
        Collective::Broadcast => &[Binomial, Knomial, Chain],
        Collective::Barrier => &[Dissemination],
        Collective::Reduce => &[Binomial, Knomial, Chain, Direct],
        Collective::Allgather => &[Ring, Circulant, Pat, Direct],
        Collective::Allgatherv => &[Ring, Pat, Direct],
        Collective::Gather | Collective::Scatter => &[Direct, Binomial],
        Collective::Gatherv | Collective::Scatterv | Collective::Message => &[Direct],
        Collective::ReduceScatter => &[Ring, Circulant, Pat, Direct],
        Collective::ReduceScatterv => &[Ring, Pat, Direct],
        Collective::Alltoall => &[Pairwise, Bruck],
        Collective::Alltoallv => &[Pairwise],
        Collective::Scan | Collective::Exscan => &[Doubling, Chain],
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::table::Rule;

    fn facts(collective: Collective, size: u32, bytes: usize, is_ordered: bool) -> Facts {
        Facts { collective, size, bytes, buffers: 1, is_ordered }
    }

    fn allreduce(size: u32, bytes: usize) -> Algorithm {
        let facts = facts(Collective::Allreduce, size, bytes, false);
        choose(&Table::default(), &facts).algorithm
    }

    /// The default table, none, and one that says the same for every call.
    fn tables() -> Vec<Table> {
        let mut tables = vec![Table::default(), Table::new(Vec::new()).unwrap()];
        for collective in Collective::ALL {
            for algorithm in algorithms(collective) {
                let choice = Choice { algorithm: *algorithm, degree: 0 };
                tables.push(Table::new(vec![Rule::any(collective, choice)]).unwrap());
            }
        }
        tables
    }

    #[test]
    fn what_is_chosen_serves_whatever_the_table_says() {
        for table in tables() {
            for collective in Collective::ALL {
                let all = algorithms(collective);
                for size in [1, 2, 3, 4, 5, 8, 9, 64, 1 << 20, u32::MAX] {
                    for bytes in [0, 1, 4 << 10, 16 << 10, 64 << 10, 1 << 30, usize::MAX] {
                        for is_ordered in [false, true] {
                            let facts = facts(collective, size, bytes, is_ordered);
                            let chosen = choose(&table, &facts).algorithm;
                            let can = all.iter().any(|algorithm| serves(&facts, *algorithm));
                            assert!(!can || serves(&facts, chosen), "{facts:?} {chosen}\n{table}");
                        }
                    }
                }
            }
        }
    }

    #[test]
    fn small_allreduces_take_few_rounds_and_large_ones_few_bytes() {
        assert_eq!(allreduce(2, 8), Algorithm::Direct);
        assert_eq!(allreduce(2, 32 << 10), Algorithm::Direct);
        assert_eq!(allreduce(4, 4 << 10), Algorithm::Direct);
        assert_eq!(allreduce(1 << 16, 8), Algorithm::Doubling);
        for size in [4, 8, 64] {
            assert!(!matches!(allreduce(size, 64 << 20), Algorithm::Direct | Algorithm::Doubling));
        }
    }
}
