//! Values that options and environment variables take.
#![forbid(unsafe_code)]

use std::time::{Duration, Instant};

/// How long something may take, end to end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Timeout {
    /// The default of what it is for: that of an operation is its world's, that of a world [`Timeout::WORLD_DEFAULT`].
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

    /// When it passes, from now on, for what takes a point in time; by default after [`Timeout::WORLD_DEFAULT`]. For
    /// ever is a century, which as good as never passes and is an instant that can be told.
    #[must_use]
    pub fn deadline(self) -> Instant {
        const CENTURY: Duration = Duration::from_secs(100 * 365 * 24 * 3600);
        let limit = self.or(Some(Self::WORLD_DEFAULT)).unwrap_or(CENTURY);
        Instant::now() + limit.min(CENTURY)
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

    #[test]
    fn deadlines_are_bounded() {
        let now = Instant::now();
        let after = |timeout: Timeout| timeout.deadline().duration_since(now);
        let (hour, years) = (Duration::from_secs(3600), Duration::from_secs(99 * 365 * 24 * 3600));
        let default = after(Timeout::Default);
        assert!((Timeout::WORLD_DEFAULT..hour).contains(&default), "{default:?}");
        assert!(after(Timeout::After(Duration::ZERO)) < hour);
        for never in [Timeout::Never, Timeout::After(Duration::MAX), i64::MAX.into()] {
            assert!(after(never) > years, "{never:?}");
        }
    }
}
