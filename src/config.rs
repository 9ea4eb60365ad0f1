//! Values that options and environment variables take.
#![forbid(unsafe_code)]

use std::time::Duration;

/// How long an operation may take, end to end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Timeout {
    /// As long as the world allows.
    #[default]
    Default,
    /// This long.
    After(Duration),
    /// As long as it takes.
    Never,
}

impl Timeout {
    /// What a world allows if it is not told: ten minutes.
    pub const WORLD_DEFAULT: Duration = Duration::from_secs(600);

    /// The limit, with `default` where none was given; `None` is for ever.
    #[must_use]
    pub fn or(self, default: Option<Duration>) -> Option<Duration> {
        match self {
            Self::Default => default,
            Self::After(limit) => Some(limit),
            Self::Never => None,
        }
    }
}

impl From<i64> for Timeout {
    /// Reads the C form: 0 is the default, a negative number is for ever.
    fn from(nanoseconds: i64) -> Self {
        match nanoseconds {
            0 => Self::Default,
            n => u64::try_from(n).map_or(Self::Never, |n| Self::After(Duration::from_nanos(n))),
        }
    }
}

/// What a thread does while it waits for the network.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Wait {
    /// Spins for some tens of µs where this host's ranks fit the processors, else yields for at most 50 µs; then sleeps.
    #[default]
    Adaptive,
    /// Never sleeps (Caffe2's `sync` mode): lowest latency, one busy processor per waiting thread.
    Spin,
    /// Sleeps at once: the fewest processor cycles.
    Block,
}

/// When links are made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Connect {
    /// On first use.
    #[default]
    Lazy,
    /// All of them when the world is created.
    Eager,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zero_is_the_default_and_negative_is_for_ever() {
        assert_eq!(Timeout::from(0), Timeout::Default);
        assert_eq!(Timeout::from(i64::MIN), Timeout::Never);
        assert_eq!(Timeout::from(1_500), Timeout::After(Duration::from_nanos(1_500)));
    }
}
