//! What ends a poll from another thread.
#![forbid(unsafe_code)]

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::atomic::{AtomicBool, Ordering};

use crate::link::Wake;
use crate::link::syscall::eventfd::EventFd;

/// Rings an eventfd, but only once until the poll has ended.
#[derive(Debug)]
pub(super) struct Waker {
    bell: EventFd,
    /// Whether the bell was rung and the poll has not heard it. Pairs the swaps of `wake` and `heard`: what a thread
    /// did before `wake`, the driver sees after `heard`, also when `wake` found the flag set.
    rung: AtomicBool,
}

impl Waker {
    pub(super) fn new() -> io::Result<Self> {
        Ok(Self { bell: EventFd::new()?, rung: AtomicBool::new(false) })
    }

    /// The driver has seen the bell's edge.
    pub(super) fn heard(&self) {
        self.rung.swap(false, Ordering::AcqRel);
    }
}

impl Wake for Waker {
    fn wake(&self) {
        if !self.rung.swap(true, Ordering::AcqRel) {
            self.bell.ring();
        }
    }
}

impl AsFd for Waker {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.bell.as_fd()
    }
}
