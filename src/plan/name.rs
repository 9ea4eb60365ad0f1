//! Names and numbers of collectives and algorithms, for messages, the wire, the C ABI and the command line.

use std::fmt;

use super::{Algorithm, Collective};

impl Collective {
    /// Every collective, in the order of their numbers.
    pub const ALL: [Self; 5] =
        [Self::Allreduce, Self::Broadcast, Self::Barrier, Self::Reduce, Self::Allgather];

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
        }
    }
}

impl fmt::Display for Collective {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl Algorithm {
    /// Every algorithm, in the order of their numbers.
    pub const ALL: [Self; 6] = [
        Self::Ring,
        Self::Direct,
        Self::Doubling,
        Self::Binomial,
        Self::Dissemination,
        Self::Circulant,
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
        }
    }

    /// Whether it promises to combine operands in rank order, as operations that do not commute need.
    #[must_use]
    pub fn is_ordered(self) -> bool {
        matches!(self, Self::Direct | Self::Doubling)
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
