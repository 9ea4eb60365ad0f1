//! How an operation's end reaches its caller.
//!
//! The driver of the lane ends it, once; any thread asks or waits. A waiting thread is also nudged when it should look
//! for the lane's driver role. Ended and reused without an allocation.
#![forbid(unsafe_code)]

use std::time::Instant;

use super::sync::{AtomicBool, Condvar, Mutex, Ordering};
use crate::error::Error;

#[derive(Debug, Default)]
struct State {
    outcome: Option<Result<(), Error>>,
    /// The role of the driver may be free: look.
    nudged: bool,
}

/// The end of one operation, now or later.
#[derive(Debug, Default)]
pub struct Completion {
    state: Mutex<State>,
    changed: Condvar,
    /// Whether `outcome` is there; Release at the end, Acquire where it is asked, so that results are seen too.
    is_ended: AtomicBool,
}

impl Completion {
    /// Whether the operation has ended, well or not.
    #[must_use]
    pub fn is_ended(&self) -> bool {
        self.is_ended.load(Ordering::Acquire)
    }

    /// How it ended, if it has.
    #[must_use]
    pub fn outcome(&self) -> Option<Result<(), Error>> {
        if self.is_ended() { self.state.lock().outcome.clone() } else { None }
    }

    /// Ends the operation; a second end is ignored.
    pub(crate) fn end(&self, outcome: Result<(), Error>) {
        let mut state = self.state.lock();
        if state.outcome.is_none() {
            state.outcome = Some(outcome);
            self.is_ended.store(true, Ordering::Release);
            self.changed.notify_all();
        }
    }

    /// Makes it as new. Nobody else holds it.
    pub(crate) fn renew(&mut self) {
        *self = Self::default();
    }

    /// Tells the waiting thread to look for the role.
    pub(crate) fn nudge(&self) {
        self.state.lock().nudged = true;
        self.changed.notify_all();
    }

    /// Sleeps until the operation has ended, somebody nudges, or `until` passes.
    pub(crate) fn sleep(&self, until: Option<Instant>) {
        let mut state = self.state.lock();
        while state.outcome.is_none() && !state.nudged {
            match until {
                None => self.changed.wait(&mut state),
                Some(until) => {
                    if self.changed.wait_until(&mut state, until).timed_out() {
                        break;
                    }
                }
            }
        }
        state.nudged = false;
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn the_first_end_counts() {
        let mut completion = Completion::default();
        completion.end(Ok(()));
        completion.end(Err(Error::Forked));
        assert_eq!(completion.outcome(), Some(Ok(())));
        completion.renew();
        assert_eq!(completion.outcome(), None);
    }

    #[test]
    fn a_nudge_ends_one_sleep() {
        let completion = Completion::default();
        completion.nudge();
        completion.sleep(None);
        let soon = Instant::now() + std::time::Duration::from_millis(1);
        completion.sleep(Some(soon));
        assert!(!completion.is_ended());
    }
}
