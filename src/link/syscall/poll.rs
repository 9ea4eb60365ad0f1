//! poll(2): waiting for descriptors, or just for time to pass.
//!
//! An interrupted wait returns as if nothing was ready: whoever waits looks at its deadline and waits again. So does one
//! for which the kernel has no memory, a little later.

use std::hash::{BuildHasher, Hasher, RandomState};
use std::io;
use std::marker::PhantomData;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::time::{Duration, Instant};

use super::epoll;
use super::socket::SHORTAGE_PAUSE;

/// What to wait for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Interest {
    /// Bytes to read, a connection to accept, or the peer's end.
    Readable,
    /// Room for bytes.
    Writable,
}

/// A descriptor to wait for, and, after the wait, whether it is ready.
#[derive(Debug)]
#[repr(transparent)]
pub(crate) struct Entry<'a> {
    raw: libc::pollfd,
    descriptor: PhantomData<BorrowedFd<'a>>,
}

impl<'a> Entry<'a> {
    /// An entry that is not ready.
    pub(crate) fn new(descriptor: BorrowedFd<'a>, interest: Interest) -> Self {
        let events = match interest {
            Interest::Readable => libc::POLLIN,
            Interest::Writable => libc::POLLOUT,
        };
        let raw = libc::pollfd { fd: descriptor.as_raw_fd(), events, revents: 0 };
        Self { raw, descriptor: PhantomData }
    }

    /// Whether the last wait found it ready, broken or ended: a read or write tells which.
    pub(crate) fn is_ready(&self) -> bool {
        self.raw.revents != 0
    }
}

/// Waits until an entry is ready, for at most `limit` (`None`: without end). May return early.
///
/// # Errors
///
/// The system refuses to wait.
pub(crate) fn wait_any(entries: &mut [Entry<'_>], limit: Option<Duration>) -> io::Result<()> {
    wait_for_signal(entries, limit).map(|_| ())
}

/// As [`wait_any`]; tells whether a signal that this thread has handled has ended the wait.
///
/// # Errors
///
/// The system refuses to wait.
pub(crate) fn wait_for_signal(
    entries: &mut [Entry<'_>],
    limit: Option<Duration>,
) -> io::Result<bool> {
    let count = libc::nfds_t::try_from(entries.len()).map_err(io::Error::other)?;
    for entry in entries.iter_mut() {
        entry.raw.revents = 0;
    }
    let entries = entries.as_mut_ptr().cast::<libc::pollfd>();
    // SAFETY: `Entry` is transparent over `pollfd`, so this points to `count` of them, borrowed mutably by this call.
    let result = unsafe { libc::poll(entries, count, milliseconds(limit)) };
    if result >= 0 {
        return Ok(false);
    }
    match io::Error::last_os_error() {
        e if e.kind() == io::ErrorKind::Interrupted => Ok(true),
        // The kernel has no memory for its tables now.
        e if e.kind() == io::ErrorKind::OutOfMemory => {
            epoll::pause_until(Instant::now() + SHORTAGE_PAUSE);
            Ok(false)
        }
        e => Err(e),
    }
}

/// Waits until one descriptor is ready, for at most `limit`. May return early.
///
/// # Errors
///
/// The system refuses to wait.
pub(crate) fn wait(
    descriptor: BorrowedFd<'_>,
    interest: Interest,
    limit: Duration,
) -> io::Result<()> {
    wait_any(&mut [Entry::new(descriptor, interest)], Some(limit))
}

/// Lets time pass before something is tried again that nobody announces: between half of `limit` and all of it, so
/// that many who wait do not come together, and at most until `deadline`.
pub(crate) fn pause(deadline: Instant, limit: Duration) {
    // A `RandomState` has random keys: a number without a system call.
    let random = RandomState::new().build_hasher().finish();
    let part = u32::try_from(random % 500).map_or(1000, |n| 500 + n);
    let left = deadline.saturating_duration_since(Instant::now());
    // A refused or interrupted wait only means that the next try comes sooner.
    let _ = wait_any(&mut [], Some(left.min(limit * part / 1000)));
}

/// Rounds up: a wait that ends a little early would be repeated many times at its end.
fn milliseconds(limit: Option<Duration>) -> libc::c_int {
    limit.map_or(-1, |limit| {
        libc::c_int::try_from(limit.as_nanos().div_ceil(1_000_000)).unwrap_or(libc::c_int::MAX)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use std::os::fd::AsFd;
    use std::os::unix::net::UnixStream;

    #[test]
    fn only_what_is_ready_is_marked() {
        let (a, mut b) = UnixStream::pair().unwrap();
        b.write_all(b"x").unwrap();
        let mut entries = [
            Entry::new(a.as_fd(), Interest::Readable),
            Entry::new(b.as_fd(), Interest::Readable),
            Entry::new(b.as_fd(), Interest::Writable),
        ];
        wait_any(&mut entries, None).unwrap();
        assert_eq!(entries.map(|e| e.is_ready()), [true, false, true]);
    }

    #[test]
    fn a_limit_is_rounded_up_and_bounded() {
        assert_eq!(milliseconds(None), -1);
        assert_eq!(milliseconds(Some(Duration::ZERO)), 0);
        assert_eq!(milliseconds(Some(Duration::from_nanos(1))), 1);
        assert_eq!(milliseconds(Some(Duration::MAX)), libc::c_int::MAX);
    }
}
