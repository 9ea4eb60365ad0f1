//! An eventfd that ends another thread's wait in an epoll set, or in poll(2).
//!
//! In an epoll set it is registered edge-triggered, so that nobody has to read it: each ring is a new edge. Who polls it
//! clears it.

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
        loop {
            // SAFETY: `one` is readable for its eight bytes.
            let written = unsafe {
                libc::write(self.fd.as_raw_fd(), (&raw const one).cast(), size_of::<u64>())
            };
            if written >= 0 || io::Error::last_os_error().kind() != io::ErrorKind::Interrupted {
                return;
            }
        }
    }

    /// Makes it as not rung.
    pub fn clear(&self) {
        let mut rings = 0_u64;
        loop {
            // SAFETY: `rings` is writable for its eight bytes. Where nothing has rung the read fails, and changes nothing.
            let read = unsafe {
                libc::read(self.fd.as_raw_fd(), (&raw mut rings).cast(), size_of::<u64>())
            };
            if read >= 0 || io::Error::last_os_error().kind() != io::ErrorKind::Interrupted {
                return;
            }
        }
    }
}

impl AsFd for EventFd {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}
