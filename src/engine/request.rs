//! The handle of an operation under way.
#![forbid(unsafe_code)]

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::completion::Completion;
use super::lane::Lane;
use crate::error::Error;

/// One operation under way, or over. Dropping it does not end the operation: the buffers stay lent until it has ended.
#[derive(Debug)]
pub struct Request {
    lane: Arc<Lane>,
    /// There until the drop.
    completion: Option<Arc<Completion>>,
}

impl Request {
    pub(crate) fn new(lane: Arc<Lane>, completion: Arc<Completion>) -> Self {
        Self { lane, completion: Some(completion) }
    }

    /// How the operation ended, if it has. Never waits.
    ///
    /// # Errors
    ///
    /// None of its own; the outcome holds the operation's, and in a child of `fork(2)` [`Error::Forked`].
    #[must_use]
    pub fn outcome(&self) -> Option<Result<(), Error>> {
        if !self.lane.is_ours() {
            return Some(Err(Error::Forked));
        }
        self.completion.as_ref().and_then(|completion| self.lane.outcome(completion))
    }

    /// Waits until the operation has ended, at most for `limit` (`None`: however long). `None` if it has not ended; it
    /// goes on, and so does its deadline.
    #[must_use]
    pub fn wait_for(&self, limit: Option<Duration>) -> Option<Result<(), Error>> {
        if !self.lane.is_ours() {
            return Some(Err(Error::Forked));
        }
        let completion = self.completion.as_ref()?;
        if !completion.is_ended() {
            let until = limit.and_then(|limit| Instant::now().checked_add(limit));
            self.lane.wait(completion, until);
        }
        completion.outcome()
    }

    /// Waits until the operation has ended.
    ///
    /// # Errors
    ///
    /// What it ended with.
    pub fn wait(&self) -> Result<(), Error> {
        self.wait_for(None).unwrap_or_else(|| Err(Error::Internal("a wait without an end".into())))
    }
}

impl Drop for Request {
    fn drop(&mut self) {
        if let Some(completion) = self.completion.take()
            && self.lane.is_ours()
        {
            self.lane.give_back(completion);
        }
    }
}
