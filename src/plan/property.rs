//! What is known of an algorithm without making its plan: facts that all ranks agree on.

use std::ops::RangeInclusive;

use super::{Algorithm, Collective, Shape};

/// Whether the algorithm promises to combine operands in rank order, as operations that do not commute need.
#[must_use]
pub fn is_ordered(collective: Collective, algorithm: Algorithm) -> bool {
    use Algorithm::{Chain, Direct, Doubling, Halving, Knomial};
    collective.reduces() && matches!(algorithm, Direct | Doubling | Chain | Knomial | Halving)
}

/// The parameter that serves most: a radix of 4 for k-nomial trees, 8 messages at once for a pairwise exchange, 0 for
/// an algorithm that has none.
#[must_use]
pub fn default_degree(algorithm: Algorithm) -> u16 {
    match algorithm {
        Algorithm::Knomial => 4,
        Algorithm::Pairwise => 8,
        _ => 0,
    }
}

/// The parameters that the algorithm can have.
pub(super) fn degrees(algorithm: Algorithm) -> RangeInclusive<u16> {
    match algorithm {
        Algorithm::Knomial => 2..=64,
        Algorithm::Pairwise => 1..=1024,
        _ => 0..=0,
    }
}

impl Shape {
    /// Whether operands combine in rank order.
    #[must_use]
    pub fn is_ordered(&self) -> bool {
        is_ordered(self.collective, self.algorithm)
    }

    /// Whether all ranks run the plan slice by slice, each slice a piece of every block. Every range of every rank's
    /// plan is then one block.
    ///
    /// It depends on collective and algorithm only, so that ranks agree: the plans of one rank may use scratch where
    /// those of another do not. Plans that move runs of blocks through scratch are not sliced: their scratch is as long
    /// as the blocks.
    #[must_use]
    pub fn is_sliced(&self) -> bool {
        use Collective::{Allreduce, Alltoall, Barrier, Exscan, Reduce, ReduceScatter, Scan};
        let collective = self.collective.regular();
        match self.algorithm {
            Algorithm::Direct => matches!(collective, Allreduce | Reduce | ReduceScatter),
            Algorithm::Doubling => matches!(collective, Allreduce | Scan | Exscan),
            Algorithm::Ring | Algorithm::Pat => collective == ReduceScatter,
            Algorithm::Binomial | Algorithm::Knomial => collective == Reduce,
            Algorithm::Chain => matches!(collective, Reduce | Exscan),
            Algorithm::Bruck | Algorithm::Pairwise => collective == Alltoall,
            Algorithm::Dissemination => collective == Barrier,
            Algorithm::Circulant | Algorithm::Rabenseifner | Algorithm::Halving => false,
        }
    }
}
