//! Names and numbers of collectives and algorithms, for messages, the wire, the C ABI and the command line.

use std::fmt;

use super::{Algorithm, Collective};

impl Collective {
    /// Every collective, in the order of their numbers.
    pub const ALL: [Self; 17] = [
        Self::Allreduce,
        Self::Broadcast,
        Self::Barrier,
        Self::Reduce,
        Self::Allgather,
        Self::Gather,
        Self::Scatter,
        Self::ReduceScatter,
        Self::Alltoall,
        Self::Scan,
        Self::Exscan,
        Self::Message,
        Self::Allgatherv,
        Self::Gatherv,
        Self::Scatterv,
        Self::ReduceScatterv,
        Self::Alltoallv,
    ];

    /// The collective with this number.
    #[must_use]
    pub fn from_number(number: i32) -> Option<Self> {
        Self::ALL.into_iter().find(|collective| *collective as i32 == number)
    }

    /// The collective with this name.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|collective| collective.name() == name)
    }

    /// The name in messages and on the command line.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Allreduce => "allreduce",
            Self::Broadcast => "broadcast",
            Self::Barrier => "barrier",
            Self::Reduce => "reduce",
            Self::Allgather => "allgather",
            Self::Gather => "gather",
            Self::Scatter => "scatter",
            Self::ReduceScatter => "reduce_scatter",
            Self::Alltoall => "alltoall",
            Self::Scan => "scan",
            Self::Exscan => "exscan",
            Self::Message => "message",
            Self::Allgatherv => "allgatherv",
            Self::Gatherv => "gatherv",
            Self::Scatterv => "scatterv",
            Self::ReduceScatterv => "reduce_scatterv",
            Self::Alltoallv => "alltoallv",
        }
    }

    /// Whether one rank is the root.
    #[must_use]
    pub fn has_root(self) -> bool {
        matches!(self.regular(), Self::Broadcast | Self::Reduce | Self::Gather | Self::Scatter)
    }

    /// Whether operands are combined, so that the call names a reduction.
    #[must_use]
    pub fn reduces(self) -> bool {
        matches!(
            self.regular(),
            Self::Allreduce | Self::Reduce | Self::ReduceScatter | Self::Scan | Self::Exscan
        )
    }

    /// The same with blocks of one length: what a collective whose name ends in v is but for the lengths.
    #[must_use]
    pub fn regular(self) -> Self {
        match self {
            Self::Allgatherv => Self::Allgather,
            Self::Gatherv => Self::Gather,
            Self::Scatterv => Self::Scatter,
            Self::ReduceScatterv => Self::ReduceScatter,
            Self::Alltoallv => Self::Alltoall,
            other => other,
        }
    }

    /// Whether blocks differ in length.
    #[must_use]
    pub fn is_irregular(self) -> bool {
        self.regular() != self
    }

    /// Whether a message's receiver may expect another length than its sender sends: they know it from arguments of
    /// their own, which no fingerprint can cover.
    #[must_use]
    pub fn has_own_lengths(self) -> bool {
        matches!(self, Self::Message | Self::Gatherv | Self::Scatterv | Self::Alltoallv)
    }
}

impl fmt::Display for Collective {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl Algorithm {
    /// Every algorithm, in the order of their numbers.
    pub const ALL: [Self; 13] = [
        Self::Ring,
        Self::Direct,
        Self::Doubling,
        Self::Binomial,
        Self::Dissemination,
        Self::Circulant,
        Self::Rabenseifner,
        Self::Halving,
        Self::Knomial,
        Self::Chain,
        Self::Bruck,
        Self::Pairwise,
        Self::Pat,
    ];

    /// The algorithm with this number.
    #[must_use]
    pub fn from_number(number: i32) -> Option<Self> {
        Self::ALL.into_iter().find(|algorithm| *algorithm as i32 == number)
    }

    /// The algorithm with this name.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|algorithm| algorithm.name() == name)
    }

    /// The name in messages and on the command line.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Ring => "ring",
            Self::Direct => "direct",
            Self::Doubling => "doubling",
            Self::Binomial => "binomial",
            Self::Dissemination => "dissemination",
            Self::Circulant => "circulant",
            Self::Rabenseifner => "rabenseifner",
            Self::Halving => "halving",
            Self::Knomial => "knomial",
            Self::Chain => "chain",
            Self::Bruck => "bruck",
            Self::Pairwise => "pairwise",
            Self::Pat => "pat",
        }
    }
}

impl fmt::Display for Algorithm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_numbers_name_what_they_came_from() {
        for collective in Collective::ALL {
            assert_eq!(Collective::from_name(collective.name()), Some(collective));
            assert_eq!(Collective::from_number(collective as i32), Some(collective));
        }
        for algorithm in Algorithm::ALL {
            assert_eq!(Algorithm::from_name(&algorithm.to_string()), Some(algorithm));
            assert_eq!(Algorithm::from_number(algorithm as i32), Some(algorithm));
        }
        assert_eq!((Algorithm::from_number(0), Algorithm::from_name("Ring")), (None, None));
    }
}
