//! The lock that makes a change to the directory atomic between processes: flock(2) on a file of its own.
//!
//! The kernel releases it when its holder dies. Nobody announces that it is free, but inotify tells when a holder
//! closes the file, after it has unlocked it; a crashed one may be seen closing before the lock is free, so waits are
//! short.

use std::fs::{File, OpenOptions, TryLockError};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::time::Instant;

use super::wait::Waiter;

/// The lock, held until it is dropped.
#[derive(Debug)]
pub(super) struct Lock {
    file: File,
}

/// Takes the lock; `None` if somebody else held it until the deadline.
pub(super) fn take(path: &Path, deadline: Instant) -> io::Result<Option<Lock>> {
    let file = open(path)?;
    let mut waiter = None;
    loop {
        match file.try_lock() {
            Ok(()) => return Ok(Some(Lock { file })),
            Err(TryLockError::Error(e)) if e.kind() != io::ErrorKind::Interrupted => return Err(e),
            Err(_) => {}
        }
        match &mut waiter {
            // Try again after the watch has begun: what happened before it is not seen.
            None => waiter = Some(Waiter::for_closings(path)),
            Some(_) if Instant::now() >= deadline => return Ok(None),
            Some(waiter) => waiter.wait(deadline)?,
        }
    }
}

/// Opens the lock's file, and makes it if there is none.
pub(super) fn open(path: &Path) -> io::Result<File> {
    OpenOptions::new().create(true).truncate(false).write(true).mode(0o600).open(path)
}

impl Drop for Lock {
    fn drop(&mut self) {
        // Explicitly, and before the file is closed: a child of fork(2) may share the description, and who waits for
        // the closing must find the lock free. A failure leaves it to the closing.
        let _ = self.file.unlock();
    }
}
