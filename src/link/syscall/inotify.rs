//! inotify(7): waiting until something in a directory, or about a file, changes.
//!
//! Events are not parsed: whoever waits looks at the files again. Nothing is seen of what other hosts do to a network
//! file system, so waits are bounded and repeated.

use std::ffi::CString;
use std::fs::File;
use std::io::{self, ErrorKind, Read};
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::time::Duration;

use super::poll;

/// A queue of events about the paths that it watches.
#[derive(Debug)]
pub(crate) struct Inotify {
    queue: File,
}

impl Inotify {
    /// Makes a queue that watches nothing.
    ///
    /// # Errors
    ///
    /// EMFILE also when the user has too many queues (`fs.inotify.max_user_instances`, 128 by default).
    pub(crate) fn new() -> io::Result<Self> {
        // SAFETY: takes no pointers; the flags are valid.
        let descriptor = unsafe { libc::inotify_init1(libc::IN_CLOEXEC | libc::IN_NONBLOCK) };
        if descriptor < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the call above has just made the descriptor, and nobody else owns it.
        let owned = unsafe { OwnedFd::from_raw_fd(descriptor) };
        Ok(Self { queue: File::from(owned) })
    }

    /// Watches for files that are renamed into a directory, and for its own end. Files that are created or written in
    /// place are not seen: a store that shows whole values only has none, and each event wakes all who wait.
    ///
    /// # Errors
    ///
    /// The path cannot be watched.
    pub(crate) fn watch_arrivals(&self, directory: &Path) -> io::Result<()> {
        self.watch(directory, libc::IN_MOVED_TO | libc::IN_DELETE_SELF | libc::IN_MOVE_SELF)
    }

    /// Watches for closings of a file.
    ///
    /// # Errors
    ///
    /// The path cannot be watched.
    pub(crate) fn watch_closings(&self, path: &Path) -> io::Result<()> {
        self.watch(path, libc::IN_CLOSE)
    }

    /// Waits for an event, for at most `limit`, and takes what is queued. May return early.
    ///
    /// # Errors
    ///
    /// The system refuses to wait.
    pub(crate) fn wait(&self, limit: Duration) -> io::Result<()> {
        poll::wait(self.queue.as_fd(), poll::Interest::Readable, limit)?;
        let mut events = [0; 4096];
        match (&self.queue).read(&mut events) {
            Ok(_) => Ok(()),
            Err(e) if matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => Ok(()),
            Err(e) => Err(e),
        }
    }

    fn watch(&self, path: &Path, mask: u32) -> io::Result<()> {
        let path = CString::new(path.as_os_str().as_bytes())?;
        // SAFETY: the path is a C string that lives to the end of the call; the descriptor is ours and open.
        let watch = unsafe { libc::inotify_add_watch(self.queue.as_raw_fd(), path.as_ptr(), mask) };
        if watch < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Instant;

    #[test]
    fn a_file_that_arrives_ends_the_wait() {
        let directory = std::env::temp_dir().join(format!("inotify-{}", std::process::id()));
        std::fs::create_dir_all(&directory).unwrap();
        let inotify = Inotify::new().unwrap();
        inotify.watch_arrivals(&directory).unwrap();
        std::fs::write(directory.join("x"), b"1").unwrap();
        std::fs::rename(directory.join("x"), directory.join("y")).unwrap();
        let start = Instant::now();
        inotify.wait(Duration::from_secs(600)).unwrap();
        assert!(start.elapsed() < Duration::from_secs(500), "the wait ended by its limit");
        std::fs::remove_dir_all(&directory).unwrap();
        assert!(inotify.watch_arrivals(&directory).is_err());
    }
}
