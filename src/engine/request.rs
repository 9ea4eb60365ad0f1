//! The handle of an operation under way.
#![forbid(unsafe_code)]

use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

use once_cell::sync::OnceCell;
use parking_lot::Mutex;

use super::completion::{Completion, Hook};
use super::lane::Lane;
use super::waiting::Terms;
use crate::error::Error;
use crate::link::syscall::eventfd::EventFd;

/// One operation under way, or over. Dropping it does not end the operation: the buffers stay lent until it has ended.
#[derive(Debug)]
pub struct Request {
    lane: Arc<Lane>,
    /// There until the drop.
    completion: Option<Arc<Completion>>,
    eventfd: OnceCell<Bell>,
}

/// What comes of a wait that a signal may end.
#[derive(Debug, Clone, PartialEq, Eq)]
#[must_use]
pub enum Waited<T> {
    /// The operation has ended, with this.
    Ended(T),
    /// The limit of the wait has passed. The operation goes on.
    InProgress,
    /// This thread has handled a signal. The operation goes on.
    Interrupted,
}

impl<T> Waited<T> {
    /// What it has ended with, if it has.
    pub fn ended(self) -> Option<T> {
        match self {
            Self::Ended(outcome) => Some(outcome),
            Self::InProgress | Self::Interrupted => None,
        }
    }
}

/// A descriptor that the end of the operation rings. It is closed with the request, whatever the operation does then.
#[derive(Debug)]
struct Bell {
    fd: Arc<EventFd>,
    /// For the end; taken away by the request's drop, which so waits for a ring that is under way.
    rope: Arc<Mutex<Option<Arc<EventFd>>>>,
}

impl Request {
    pub(crate) fn new(lane: Arc<Lane>, completion: Arc<Completion>) -> Self {
        Self { lane, completion: Some(completion), eventfd: OnceCell::new() }
    }

    /// Sees to it that the operation is begun, without waiting.
    pub(crate) fn prod(&self) {
        self.lane.prod();
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

    /// The rank in its world that a received message came from, once the operation has ended. `None` if it is no receive
    /// of one message.
    #[must_use]
    pub fn source(&self) -> Option<usize> {
        if !self.lane.is_ours() {
            return None;
        }
        let source = self.completion.as_ref().and_then(|completion| completion.source());
        source.and_then(|rank| usize::try_from(rank).ok())
    }

    /// Waits until the operation has ended, at most for `limit` (`None`: however long). `None` if it has not ended; it
    /// goes on, and so does its deadline.
    #[must_use]
    pub fn wait_for(&self, limit: Option<Duration>) -> Option<Result<(), Error>> {
        self.wait_on(terms(&[], limit)).ended()
    }

    /// As [`Request::wait_for`], but in a world that is interruptible ([`crate::WorldOptions::interruptible`]) a signal
    /// that this thread handles meanwhile ends the wait, not the operation. A signal is noticed while the thread sleeps:
    /// not before, and not while it works on what has come. So who must not miss one waits in slices of time, and looks
    /// in between what the handler has left. A process that was stopped, and goes on, may see it as a signal.
    pub fn wait_unless_interrupted(&self, limit: Option<Duration>) -> Waited<Result<(), Error>> {
        self.wait_on(terms(&[self], limit))
    }

    /// Waits until the operation has ended.
    ///
    /// # Errors
    ///
    /// What it ended with.
    pub fn wait(&self) -> Result<(), Error> {
        self.wait_for(None).unwrap_or_else(|| Err(Error::Internal("a wait without an end".into())))
    }

    /// Waits until one of several operations has ended, at most for `limit` (`None`: however long), and tells which: the
    /// first in the list that has. `None` if none has, or the list is empty. They may be of different worlds.
    #[must_use]
    pub fn wait_any(requests: &[&Self], limit: Option<Duration>) -> Option<usize> {
        Self::wait_any_on(requests, terms(&[], limit)).ended()
    }

    /// As [`Request::wait_any`], and if one of the worlds is interruptible a signal ends the wait, as in
    /// [`Request::wait_unless_interrupted`].
    pub fn wait_any_unless_interrupted(
        requests: &[&Self],
        limit: Option<Duration>,
    ) -> Waited<usize> {
        Self::wait_any_on(requests, terms(requests, limit))
    }

    /// Waits until all of several operations have ended, at most for `limit` (`None`: however long). The outcome is the
    /// first error in the order of the list, if there is one. `None` if not all have ended.
    #[must_use]
    pub fn wait_all(requests: &[&Self], limit: Option<Duration>) -> Option<Result<(), Error>> {
        Self::wait_all_on(requests, terms(&[], limit)).ended()
    }

    /// As [`Request::wait_all`], and if one of the worlds is interruptible a signal ends the wait, as in
    /// [`Request::wait_unless_interrupted`].
    pub fn wait_all_unless_interrupted(
        requests: &[&Self],
        limit: Option<Duration>,
    ) -> Waited<Result<(), Error>> {
        Self::wait_all_on(requests, terms(requests, limit))
    }

    /// Has the endpoint's background thread (`collect`) call `function` once, with what the operation ended with: soon
    /// if it has ended. Functions run one after the other, in the order in which operations end, with no lock held. They
    /// may call anything that does not wait, and should be short: nothing else is driven meanwhile unless a caller
    /// waits. Dropping the request changes nothing.
    ///
    /// # Errors
    ///
    /// The function is not called then: [`Error::Forked`] in a child of `fork(2)`; [`Error::Aborted`] if the last world
    /// of the endpoint is gone, and with it the thread.
    pub fn on_complete(
        &self,
        function: impl FnOnce(Result<(), Error>) + Send + 'static,
    ) -> Result<(), Error> {
        self.lane.on_complete(self.own_completion()?, Box::new(function))
    }

    /// A descriptor that is readable once the operation has ended, for poll(2) and its like. It is made by the first
    /// call, belongs to the request, and is closed with it; nobody needs to read from it.
    ///
    /// # Errors
    ///
    /// [`Error::Resource`] if there is no descriptor left; [`Error::Forked`] in a child of `fork(2)`.
    pub fn eventfd(&self) -> Result<BorrowedFd<'_>, Error> {
        let completion = self.own_completion()?;
        let bell = self.eventfd.get_or_try_init(|| {
            let fd = Arc::new(EventFd::new().map_err(|error| Error::system("eventfd", &error))?);
            let rope = Arc::new(Mutex::new(Some(Arc::clone(&fd))));
            let end = Arc::clone(&rope);
            completion.at_end(Hook::Run(Box::new(move |_| {
                end.lock().iter().for_each(|fd| fd.ring());
            })));
            if completion.is_ended() {
                // Other hooks may run first, which takes a moment.
                fd.ring();
            }
            Ok(Bell { fd, rope })
        })?;
        Ok(bell.fd.as_fd())
    }

    fn wait_on(&self, terms: Terms) -> Waited<Result<(), Error>> {
        if !self.lane.is_ours() {
            return Waited::Ended(Err(Error::Forked));
        }
        let Some(completion) = &self.completion else { return Waited::InProgress };
        let is_interrupted = !completion.is_ended() && self.lane.wait_on(completion, terms);
        match completion.outcome() {
            Some(outcome) => Waited::Ended(outcome),
            None if is_interrupted => Waited::Interrupted,
            None => Waited::InProgress,
        }
    }

    fn wait_any_on(requests: &[&Self], terms: Terms) -> Waited<usize> {
        let ended = || requests.iter().position(|request| request.outcome().is_some());
        if let Some(at) = ended() {
            return Waited::Ended(at);
        }
        let Some(first) = requests.first() else { return Waited::InProgress };
        let lane = &first.lane;
        let ticket = lane.ticket();
        for request in requests {
            // The driver of our own lane needs no call: it is not in the poll while it ends something.
            let is_far = !Arc::ptr_eq(&request.lane, lane);
            let hook = Hook::End(Arc::clone(&ticket), is_far.then(|| Arc::clone(lane.waker())));
            if let Some(completion) = &request.completion {
                completion.at_end(hook);
            }
        }
        let is_interrupted = lane.wait_on(&ticket, terms);
        for request in requests {
            request.completion.iter().for_each(|completion| completion.forget(&ticket));
        }
        lane.give_back(ticket);
        match ended() {
            Some(at) => Waited::Ended(at),
            None if is_interrupted => Waited::Interrupted,
            None => Waited::InProgress,
        }
    }

    fn wait_all_on(requests: &[&Self], terms: Terms) -> Waited<Result<(), Error>> {
        let mut all = Ok(());
        for request in requests {
            match request.wait_on(terms) {
                Waited::Ended(outcome) => all = all.and(outcome),
                not_ended => return not_ended,
            }
        }
        Waited::Ended(all)
    }

    /// The completion, in the process that made it.
    fn own_completion(&self) -> Result<&Arc<Completion>, Error> {
        if !self.lane.is_ours() {
            return Err(Error::Forked);
        }
        let completion = self.completion.as_ref();
        completion.ok_or_else(|| Error::Internal("a request without a completion".into()))
    }
}

/// The terms of a wait that signals end if one of these requests is of a world that is interruptible.
fn terms(heeding: &[&Request], limit: Option<Duration>) -> Terms {
    Terms {
        until: limit.and_then(|limit| Instant::now().checked_add(limit)),
        is_interruptible: heeding.iter().any(|request| request.lane.is_interruptible()),
    }
}

impl Drop for Request {
    fn drop(&mut self) {
        if let Some(completion) = self.completion.take()
            && self.lane.is_ours()
        {
            if let Some(bell) = self.eventfd.get() {
                bell.rope.lock().take();
            }
            self.lane.give_back(completion);
        }
    }
}
