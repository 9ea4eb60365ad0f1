//! An epoll set, and a pause for back-off.
//!
//! Everything is registered edge-triggered for both directions at once, so that a link costs one `epoll_ctl` in its
//! life. A time-out has nanoseconds (`epoll_pwait2`, Linux 5.11); older kernels get it rounded up to milliseconds.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::ptr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use super::check;
use super::fork::{Registration, close_in_child};

/// What a descriptor is ready for.
#[derive(Clone, Copy)]
#[repr(transparent)]
pub struct Ready(libc::epoll_event);

impl Ready {
    /// A place for `Epoll::wait` to write to.
    pub const EMPTY: Self = Self(libc::epoll_event { events: 0, u64: 0 });

    /// The number that the descriptor was added with.
    #[must_use]
    pub fn token(&self) -> u64 {
        self.0.u64
    }

    /// Whether a read would not block: bytes, the end, or an error.
    #[must_use]
    pub fn is_readable(&self) -> bool {
        let wanted = libc::EPOLLIN | libc::EPOLLRDHUP | libc::EPOLLHUP | libc::EPOLLERR;
        self.0.events & wanted as u32 != 0
    }

    /// Whether the end of what the peer sends has come, or the connection is broken.
    #[must_use]
    pub fn has_ended(&self) -> bool {
        let ends = (libc::EPOLLRDHUP | libc::EPOLLHUP | libc::EPOLLERR).cast_unsigned();
        self.0.events & ends != 0
    }

    /// Whether a write would not block: room, or an error.
    #[must_use]
    pub fn is_writable(&self) -> bool {
        let wanted = libc::EPOLLOUT | libc::EPOLLHUP | libc::EPOLLERR;
        self.0.events & wanted as u32 != 0
    }
}

impl std::fmt::Debug for Ready {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (token, events) = (self.0.u64, self.0.events);
        write!(f, "Ready {{ token: {token:#x}, events: {events:#x} }}")
    }
}

/// An epoll set.
#[derive(Debug)]
pub struct Epoll {
    _registration: Registration,
    fd: OwnedFd,
}

impl Epoll {
    /// Makes an empty set.
    ///
    /// # Errors
    ///
    /// The process or the system has no descriptor left.
    pub fn new() -> io::Result<Self> {
        // SAFETY: the call takes no pointer.
        let fd = check(unsafe { libc::epoll_create1(libc::EPOLL_CLOEXEC) })?;
        // SAFETY: the kernel has just returned this descriptor, and nobody else has it.
        let fd = unsafe { OwnedFd::from_raw_fd(fd) };
        Ok(Self { _registration: close_in_child(fd.as_fd())?, fd })
    }

    /// Adds a descriptor: an edge for each direction, reported with `token`.
    ///
    /// # Errors
    ///
    /// The descriptor is there already, or memory or the user's limit of watches ran out.
    pub fn add(&self, fd: BorrowedFd<'_>, token: u64) -> io::Result<()> {
        self.control(libc::EPOLL_CTL_ADD, fd, token)
    }

    /// Gives a descriptor another token. What it is ready for now is reported again.
    ///
    /// # Errors
    ///
    /// The descriptor is not in the set.
    pub fn rename(&self, fd: BorrowedFd<'_>, token: u64) -> io::Result<()> {
        self.control(libc::EPOLL_CTL_MOD, fd, token)
    }

    /// Takes a descriptor out.
    ///
    /// # Errors
    ///
    /// The descriptor is not in the set.
    pub fn remove(&self, fd: BorrowedFd<'_>) -> io::Result<()> {
        self.control(libc::EPOLL_CTL_DEL, fd, 0)
    }

    fn control(&self, operation: i32, fd: BorrowedFd<'_>, token: u64) -> io::Result<()> {
        let events = libc::EPOLLIN | libc::EPOLLOUT | libc::EPOLLRDHUP | libc::EPOLLET;
        let mut event = libc::epoll_event { events: events as u32, u64: token };
        let set = self.fd.as_raw_fd();
        // SAFETY: `event` lives through the call, which reads it; both descriptors are open, being borrowed.
        check(unsafe { libc::epoll_ctl(set, operation, fd.as_raw_fd(), &raw mut event) })?;
        Ok(())
    }

    /// Waits for at most `limit` (`None`: without end), and writes what is ready to the front of `ready`. Returns how
    /// many there are: 0 when the time is over, or when a signal came.
    ///
    /// # Errors
    ///
    /// The system refuses to wait; none is expected.
    pub fn wait(&self, ready: &mut [Ready], limit: Option<Duration>) -> io::Result<usize> {
        match self.wait_for_signal(ready, limit) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => Ok(0),
            result => result,
        }
    }

    /// As [`Epoll::wait`], and a signal that this thread has handled is an error. (So is, without a handler, a signal
    /// that has stopped the process and one that has let it go on.)
    ///
    /// # Errors
    ///
    /// `Interrupted`: a signal has ended the wait. Else as [`Epoll::wait`].
    pub fn wait_for_signal(
        &self,
        ready: &mut [Ready],
        limit: Option<Duration>,
    ) -> io::Result<usize> {
        static HAS_PWAIT2: AtomicBool = AtomicBool::new(true);
        let sleeps_exactly = limit.is_some_and(|limit| !limit.is_zero());
        if sleeps_exactly && HAS_PWAIT2.load(Ordering::Relaxed) {
            match self.wait_exactly(ready, limit.unwrap_or_default()) {
                Err(error) if refuses_the_call(&error) => {
                    HAS_PWAIT2.store(false, Ordering::Relaxed)
                }
                result => return result,
            }
        }
        self.wait_milliseconds(ready, limit)
    }

    fn wait_exactly(&self, ready: &mut [Ready], limit: Duration) -> io::Result<usize> {
        let limit = timespec(limit);
        // SAFETY: `Ready` is a transparent `epoll_event`, the slice is writable for its length, `limit` lives through
        // the call, and a null signal mask is allowed.
        let returned = unsafe {
            libc::syscall(
                libc::SYS_epoll_pwait2,
                self.fd.as_raw_fd(),
                ready.as_mut_ptr(),
                capacity(ready),
                &raw const limit,
                ptr::null::<libc::sigset_t>(),
                0_usize,
            )
        };
        let count = check(libc::c_int::try_from(returned).unwrap_or(-1))?;
        Ok(usize::try_from(count).unwrap_or(0))
    }

    fn wait_milliseconds(&self, ready: &mut [Ready], limit: Option<Duration>) -> io::Result<usize> {
        let limit = limit.map_or(-1, |limit| {
            i32::try_from(limit.as_nanos().div_ceil(1_000_000)).unwrap_or(i32::MAX)
        });
        let (set, events) = (self.fd.as_raw_fd(), ready.as_mut_ptr().cast());
        // SAFETY: `Ready` is a transparent `epoll_event`, and the slice is writable for its length.
        let count = check(unsafe { libc::epoll_wait(set, events, capacity(ready), limit) })?;
        Ok(usize::try_from(count).unwrap_or(0))
    }
}

impl AsFd for Epoll {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// Pauses the thread until `instant`: for back-off, where no descriptor tells that it is worth to try again.
pub fn pause_until(instant: Instant) {
    loop {
        let left = instant.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return;
        }
        let left = timespec(left);
        // SAFETY: `left` lives through the call, and no remainder is asked for. A signal only ends the round early.
        unsafe { libc::nanosleep(&raw const left, ptr::null_mut()) };
    }
}

fn timespec(duration: Duration) -> libc::timespec {
    libc::timespec {
        tv_sec: libc::time_t::try_from(duration.as_secs()).unwrap_or(libc::time_t::MAX),
        tv_nsec: duration.subsec_nanos().into(),
    }
}

fn capacity(ready: &[Ready]) -> i32 {
    i32::try_from(ready.len()).unwrap_or(i32::MAX)
}

/// Old kernels do not know the call; some containers' filters answer that it is not permitted.
fn refuses_the_call(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::ENOSYS | libc::EPERM))
}

#[cfg(test)]
mod tests {
    use super::super::eventfd::EventFd;
    use super::*;

    fn ring_and_wait(wait: impl Fn(&Epoll, &mut [Ready], Duration) -> io::Result<usize>) {
        let (epoll, bell) = (Epoll::new().unwrap(), EventFd::new().unwrap());
        epoll.add(bell.as_fd(), 7).unwrap();
        let mut ready = [Ready::EMPTY; 4];
        wait(&epoll, &mut ready, Duration::ZERO).unwrap(); // The eventfd is writable from the start.
        assert_eq!(wait(&epoll, &mut ready, Duration::from_micros(50)).unwrap(), 0);
        bell.ring();
        assert_eq!(wait(&epoll, &mut ready, Duration::from_secs(5)).unwrap(), 1);
        assert!(ready[0].is_readable());
        assert_eq!(ready[0].token(), 7);
        assert_eq!(wait(&epoll, &mut ready, Duration::ZERO).unwrap(), 0, "the edge came twice");
        bell.ring();
        assert_eq!(wait(&epoll, &mut ready, Duration::from_secs(5)).unwrap(), 1, "edge lost");
    }

    #[test]
    fn each_ring_of_an_eventfd_is_an_edge() {
        ring_and_wait(|epoll, ready, limit| epoll.wait(ready, Some(limit)));
        ring_and_wait(|epoll, ready, limit| epoll.wait_milliseconds(ready, Some(limit)));
    }

    #[test]
    fn a_pause_lasts_until_its_instant() {
        let end = Instant::now() + Duration::from_millis(3);
        pause_until(end);
        assert!(Instant::now() >= end);
    }
}
