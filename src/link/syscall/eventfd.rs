//! An eventfd that ends another thread's wait in an epoll set.
//!
//! It is registered edge-triggered, so that nobody has to read it: each ring is a new edge.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

use super::check;
use super::fork::{Registration, close_in_child};

/// A counter in the kernel that one thread rings and an epoll set watches.
#[derive(Debug)]
pub struct EventFd {
    _registration: Registration,
    fd: OwnedFd,
}

impl EventFd {
    /// Makes one, not rung.
    ///
    /// # Errors
    ///
    /// The process or the system has no descriptor left.
    pub fn new() -> io::Result<Self> {
        // SAFETY: the call takes no pointer.
        let fd = check(unsafe { libc::eventfd(0, libc::EFD_CLOEXEC | libc::EFD_NONBLOCK) })?;
        // SAFETY: the kernel has just returned this descriptor, and nobody else has it.
        let fd = unsafe { OwnedFd::from_raw_fd(fd) };
        Ok(Self { _registration: close_in_child(fd.as_fd())?, fd })
    }

    /// Adds one. The only failure, a counter at 2^64 - 2, cannot be reached.
    pub fn ring(&self) {
        let one = 1_u64;
        // SAFETY: `one` is readable for its eight bytes.
        unsafe { libc::write(self.fd.as_raw_fd(), (&raw const one).cast(), size_of::<u64>()) };
    }
}

impl AsFd for EventFd {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}
