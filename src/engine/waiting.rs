//! How long a thread waits, and what a driver does between two looks at the network: spin, yield, sleep.
//!
//! One loop with two numbers: look again without a pause for so long, then yield the processor between looks for so
//! long, then sleep until something happens. The only place in the library that yields.
#![forbid(unsafe_code)]

use std::thread;
use std::time::{Duration, Instant};

use crate::config::Wait;

/// How long the adaptive mode looks before it sleeps, whichever way it looks.
const ADAPTIVE: Duration = Duration::from_micros(50);

/// How long a thread waits.
#[derive(Debug, Clone, Copy)]
pub(super) struct Terms {
    /// `None`: for ever.
    pub(super) until: Option<Instant>,
    /// Whether a signal that the thread handles while it sleeps ends the wait.
    pub(super) is_interruptible: bool,
}

impl Terms {
    pub(super) fn are_over(&self) -> bool {
        self.until.is_some_and(|until| Instant::now() >= until)
    }
}

/// What to do next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Next {
    /// Look at once.
    Look,
    /// Sleep until something happens.
    Sleep,
}

/// One wait's progress through its phases.
#[derive(Debug)]
pub(super) struct Pace {
    spin: Duration,
    r#yield: Duration,
    began: Option<Instant>,
}

impl Pace {
    /// `fits`: this host's ranks have a processor each.
    pub(super) fn new(wait: Wait, fits: bool) -> Self {
        let (spin, r#yield) = match (wait, fits) {
            (Wait::Spin, _) => (Duration::MAX, Duration::ZERO),
            (Wait::Adaptive, true) => (ADAPTIVE, Duration::ZERO),
            (Wait::Adaptive, false) => (Duration::ZERO, ADAPTIVE),
            (Wait::Block, _) => (Duration::ZERO, Duration::ZERO),
        };
        Self { spin, r#yield, began: None }
    }

    /// Something has happened: the phases begin anew.
    pub(super) fn restart(&mut self) {
        self.began = None;
    }

    /// Nothing has: yields if that is the phase.
    pub(super) fn next(&mut self) -> Next {
        if self.spin.is_zero() && self.r#yield.is_zero() {
            return Next::Sleep;
        }
        let passed = self.began.get_or_insert_with(Instant::now).elapsed();
        if passed < self.spin {
            return Next::Look;
        }
        if passed < self.spin.saturating_add(self.r#yield) {
            thread::yield_now();
            return Next::Look;
        }
        Next::Sleep
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocking_sleeps_at_once_and_spinning_never() {
        assert_eq!(Pace::new(Wait::Block, true).next(), Next::Sleep);
        let mut spin = Pace::new(Wait::Spin, false);
        assert!((0..1000).all(|_| spin.next() == Next::Look));
    }

    #[test]
    fn adaptive_ends_in_sleep() {
        for fits in [true, false] {
            let mut pace = Pace::new(Wait::Adaptive, fits);
            assert_eq!(pace.next(), Next::Look);
            while pace.next() == Next::Look {}
            pace.restart();
            assert_eq!(pace.next(), Next::Look);
        }
    }
}
