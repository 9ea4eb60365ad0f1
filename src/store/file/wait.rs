//! Waits for changes of files: inotify where it works, and a look now and then where it does not (network file
//! systems; a user with too many inotify queues).

use std::io;
use std::path::Path;
use std::time::{Duration, Instant};

use crate::link::syscall::inotify::Inotify;
use crate::link::syscall::poll;

const FIRST: Duration = Duration::from_millis(5);
const LONGEST: Duration = Duration::from_millis(250);

/// Says when to look again.
#[derive(Debug)]
pub(super) struct Waiter {
    /// `None` where it does not work.
    inotify: Option<Inotify>,
    /// How long the next wait lasts at most.
    limit: Duration,
}

impl Waiter {
    /// Waits for files that are renamed into a directory.
    pub(super) fn for_arrivals(path: &Path) -> Self {
        Self::new(|inotify| inotify.watch_arrivals(path))
    }

    /// Waits for somebody to close a file.
    pub(super) fn for_closings(path: &Path) -> Self {
        Self::new(|inotify| inotify.watch_closings(path))
    }

    /// Waits until something may have changed, or the deadline.
    pub(super) fn wait(&mut self, deadline: Instant) -> io::Result<()> {
        let limit = self.limit.min(deadline.saturating_duration_since(Instant::now()));
        self.limit = (self.limit * 2).min(LONGEST);
        match &self.inotify {
            Some(inotify) => inotify.wait(limit),
            None => {
                poll::pause(deadline, limit);
                Ok(())
            }
        }
    }

    fn new(watch: impl FnOnce(&Inotify) -> io::Result<()>) -> Self {
        let inotify = Inotify::new().and_then(|inotify| watch(&inotify).map(|()| inotify));
        Self { inotify: inotify.ok(), limit: FIRST }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_inotify_it_looks_now_and_then() {
        let mut waiter = Waiter::new(|_| Err(io::ErrorKind::Unsupported.into()));
        let generous = Instant::now() + Duration::from_secs(600);
        for _ in 0..3 {
            waiter.wait(generous).unwrap();
        }
        assert!(Instant::now() < generous);
        assert_eq!(waiter.limit, FIRST * 8);
    }
}
