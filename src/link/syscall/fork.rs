//! What happens to us in a child made by `fork(2)`.
//!
//! A page with `MADV_WIPEONFORK` holds the process's generation; the kernel zeroes it in a child, so a handle that
//! remembers the generation it was made in learns without a system call that it belongs to the parent. An atfork child
//! handler replaces each registered descriptor by an inert one: peers then see the end of the parent when it dies, the
//! child cannot disturb the parent's epoll sets, and the number stays taken, so that a handle dropped in the child
//! closes what it thinks it owns and nothing else. Handlers and page stay for the life of the process.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::ptr;
use std::sync::atomic::{AtomicU64, Ordering};

use once_cell::race::OnceRef;

use super::check;

/// Descriptors that may be registered: the kernel's default upper limit (`fs.nr_open`).
const DESCRIPTORS: usize = 1 << 20;

/// One bit for each descriptor; only the pages in use are ever backed by memory.
static REGISTERED: [AtomicU64; DESCRIPTORS / 64] = [const { AtomicU64::new(0) }; DESCRIPTORS / 64];

/// The highest generation given out. Copied by `fork`, unlike the page.
static LAST: AtomicU64 = AtomicU64::new(1);

/// The generation, in the page that is wiped by `fork`.
static PAGE: OnceRef<'static, AtomicU64> = OnceRef::new();

/// Keeps a descriptor registered; drop it before the descriptor.
#[derive(Debug)]
#[must_use = "dropping it takes the descriptor out again"]
pub struct Registration {
    fd: usize,
}

impl Drop for Registration {
    fn drop(&mut self) {
        if let Some(word) = REGISTERED.get(self.fd / 64) {
            word.fetch_and(!(1 << (self.fd % 64)), Ordering::Relaxed);
        }
    }
}

/// Lets a child made by `fork(2)` lose this descriptor. (Numbers of 2^20 and above, beyond the kernel's default limit,
/// are not covered.)
///
/// # Errors
///
/// The first call needs a page and an atfork handler, and memory ran out.
pub fn close_in_child(fd: BorrowedFd<'_>) -> io::Result<Registration> {
    page()?;
    let fd = usize::try_from(fd.as_raw_fd()).unwrap_or(usize::MAX);
    if let Some(word) = REGISTERED.get(fd / 64) {
        word.fetch_or(1 << (fd % 64), Ordering::Relaxed);
    }
    Ok(Registration { fd })
}

/// The generation of this process: differs between a process and every child made by `fork` after the library's
/// first descriptor was opened. No system call.
#[must_use]
pub fn fork_generation() -> u64 {
    let Some(page) = PAGE.get() else { return LAST.load(Ordering::Relaxed) };
    match page.load(Ordering::Relaxed) {
        0 => renew(page),
        generation => generation,
    }
}

/// Whether this process is a child made by `fork` from one that had opened the library.
#[must_use]
pub fn is_forked_child() -> bool {
    fork_generation() != 1
}

#[cold]
fn renew(page: &AtomicU64) -> u64 {
    let next = LAST.fetch_add(1, Ordering::Relaxed) + 1;
    match page.compare_exchange(0, next, Ordering::Relaxed, Ordering::Relaxed) {
        Ok(_) => next,
        Err(other) => other,
    }
}

fn page() -> io::Result<&'static AtomicU64> {
    PAGE.get_or_try_init(|| {
        let page = map()?;
        page.store(1, Ordering::Relaxed);
        // SAFETY: the handler only makes calls and touches statics that are safe in a forked child.
        let failed = unsafe { libc::pthread_atfork(None, None, Some(in_child)) };
        if failed == 0 { Ok(page) } else { Err(io::Error::from_raw_os_error(failed)) }
    })
}

/// Maps the page. Two threads that race for the first call leave one page more, once.
fn map() -> io::Result<&'static AtomicU64> {
    const BYTES: usize = 4096;
    let (protection, flags) =
        (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
    // SAFETY: a fresh anonymous mapping, at an address that the kernel chooses.
    let page = unsafe { libc::mmap(ptr::null_mut(), BYTES, protection, flags, -1, 0) };
    if page == libc::MAP_FAILED {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the range is the mapping above. A kernel without the advice (before 4.14) leaves the page as it is; the
    // atfork handler clears it too.
    unsafe { libc::madvise(page, BYTES, libc::MADV_WIPEONFORK) };
    // SAFETY: the page is zeroed, aligned, never unmapped, and only ever used as this atomic.
    Ok(unsafe { AtomicU64::from_ptr(page.cast()) })
}

/// Runs in a child before `fork` returns there. Async-signal-safe: atomics and system calls only.
unsafe extern "C" fn in_child() {
    if let Some(page) = PAGE.get() {
        page.store(0, Ordering::Relaxed);
    }
    // SAFETY: the call takes no pointer.
    let inert = unsafe { libc::eventfd(0, libc::EFD_CLOEXEC | libc::EFD_NONBLOCK) };
    for (index, word) in REGISTERED.iter().enumerate() {
        replace_all(index * 64, word.swap(0, Ordering::Relaxed), inert);
    }
    // SAFETY: it was opened above, and nothing else knows it. (-1 fails harmlessly.)
    unsafe { libc::close(inert) };
}

fn replace_all(first: usize, mut bits: u64, inert: libc::c_int) {
    while bits != 0 {
        let fd = first + bits.trailing_zeros() as usize;
        bits &= bits - 1;
        let fd = libc::c_int::try_from(fd).unwrap_or(-1);
        // SAFETY: the descriptor is one of ours by its registration, and its owner keeps a valid descriptor.
        if check(unsafe { libc::dup3(inert, fd, libc::O_CLOEXEC) }).is_err() {
            // SAFETY: as above; without a descriptor to spare, that peers see the parent's end matters more.
            unsafe { libc::close(fd) };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;
    use std::os::fd::AsFd;
    use std::os::unix::net::UnixStream;

    /// Runs `child` in a forked child, whose exit status is 0 if that returns true.
    fn in_forked_child(child: impl FnOnce() -> bool) -> libc::pid_t {
        // SAFETY: the child runs a few system calls and atomics, then leaves without unwinding.
        let pid = unsafe { libc::fork() };
        if pid == 0 {
            let status = i32::from(!child());
            // SAFETY: ends the child.
            unsafe { libc::_exit(status) };
        }
        pid
    }

    fn status(pid: libc::pid_t) -> i32 {
        let mut status = 0;
        // SAFETY: `status` is writable, and `pid` is our child.
        assert_eq!(unsafe { libc::waitpid(pid, &raw mut status, 0) }, pid);
        status
    }

    #[test]
    fn a_child_knows_itself_and_holds_no_descriptor_of_ours() {
        let (ours, mut peer) = UnixStream::pair().unwrap();
        let registration = close_in_child(ours.as_fd()).unwrap();
        let before = fork_generation();
        let mut pipe = [0; 2];
        // SAFETY: `pipe` has room for two descriptors.
        assert_eq!(unsafe { libc::pipe2(pipe.as_mut_ptr(), libc::O_CLOEXEC) }, 0);
        let [hold, release] = pipe;
        let fd = ours.as_raw_fd();
        let child = in_forked_child(|| {
            // SAFETY: takes no pointer.
            let taken = unsafe { libc::fcntl(fd, libc::F_GETFD) } == libc::FD_CLOEXEC;
            let differs = fork_generation() != before && is_forked_child();
            // SAFETY: takes no pointer.
            unsafe { libc::close(release) };
            let mut byte = 0_u8;
            // SAFETY: one byte may be written there. Lives on until the parent has seen the end.
            unsafe { libc::read(hold, (&raw mut byte).cast(), 1) };
            taken && differs
        });
        drop(registration);
        drop(ours);
        peer.set_read_timeout(Some(std::time::Duration::from_secs(10))).unwrap();
        assert_eq!(peer.read(&mut [0]).unwrap(), 0, "the child keeps the connection open");
        assert_eq!(fork_generation(), before);
        // SAFETY: takes no pointer; ends the child's wait.
        unsafe { libc::close(release) };
        assert_eq!(status(child), 0);
        // SAFETY: takes no pointer.
        unsafe { libc::close(hold) };
    }
}
