//! Where a thread sleeps that waits, does not drive, and is to notice a signal: in poll(2) on an eventfd.
//!
//! A condition variable tells nobody of signals. Only waits that a signal may end come here; it costs them a descriptor
//! while they sleep.
#![forbid(unsafe_code)]

use std::os::fd::AsFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::completion::Completion;
use crate::link::Wake;
use crate::link::syscall::eventfd::EventFd;
use crate::link::syscall::poll::{self, Entry, Interest};

/// The time between two looks of a thread for which there was no descriptor.
const LOOK: Duration = Duration::from_millis(10);

/// Rung by a nudge and at the end of what a thread waits for.
#[derive(Debug)]
struct Bell {
    fd: Option<EventFd>,
}

impl Wake for Bell {
    fn wake(&self) {
        self.fd.iter().for_each(EventFd::ring);
    }
}

impl Bell {
    /// Sleeps until it rings, `until` passes, or this thread has handled a signal, which alone gives true.
    fn listen(&self, until: Option<Instant>) -> bool {
        let left = until.map(|until| until.saturating_duration_since(Instant::now()));
        let (mut entries, left) = match &self.fd {
            Some(fd) => (vec![Entry::new(fd.as_fd(), Interest::Readable)], left),
            None => (Vec::new(), Some(left.map_or(LOOK, |left| left.min(LOOK)))),
        };
        let signalled = poll::wait_for_signal(&mut entries, left);
        self.fd.iter().for_each(EventFd::clear);
        // A system that refuses to poll has no memory: the next look is the way out.
        signalled.unwrap_or(false)
    }
}

/// Sleeps until the operation has ended, somebody nudges, `until` passes, or this thread has handled a signal while the
/// operation goes on, which alone gives true.
pub(super) fn sleep(completion: &Completion, until: Option<Instant>) -> bool {
    sleep_by(Bell { fd: EventFd::new().ok() }, completion, until)
}

fn sleep_by(bell: Bell, completion: &Completion, until: Option<Instant>) -> bool {
    let bell = Arc::new(bell);
    let hung: Arc<dyn Wake> = Arc::clone(&bell) as Arc<dyn Wake>;
    // Hung up before the look, so that what comes after the look rings.
    completion.hang(&hung);
    let mut is_signalled = false;
    while !completion.take_news()
        && !is_signalled
        && until.is_none_or(|until| Instant::now() < until)
    {
        is_signalled = bell.listen(until);
    }
    completion.take_down(&hung);
    is_signalled && !completion.is_ended()
}
