//! Signal masks: no thread of ours runs a handler of the program that it serves.

use std::io;
use std::mem::MaybeUninit;

/// Signals that a thread raises by its own fault. Blocked, they would kill the process without any handler's report.
const FAULTS: [libc::c_int; 5] =
    [libc::SIGSEGV, libc::SIGBUS, libc::SIGFPE, libc::SIGILL, libc::SIGTRAP];

/// The signals that were blocked before; dropping it, on the same thread, blocks just these again.
#[derive(Debug)]
#[must_use = "the signals are unblocked when it is dropped"]
pub(crate) struct BlockedSignals {
    before: libc::sigset_t,
    // A mask belongs to a thread: neither Send nor Sync.
    _thread: std::marker::PhantomData<*const ()>,
}

/// Blocks every signal but faults in this thread, and in those that it starts until the result is dropped.
///
/// # Errors
///
/// The system refuses, which it has no documented reason for.
pub(crate) fn block_signals() -> io::Result<BlockedSignals> {
    let mut set = MaybeUninit::<libc::sigset_t>::uninit();
    // SAFETY: points to memory for one set, which the call fills.
    if unsafe { libc::sigfillset(set.as_mut_ptr()) } != 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the call above has succeeded, so the set is initialised.
    let mut set = unsafe { set.assume_init() };
    for fault in FAULTS {
        // SAFETY: the set is initialised, and the signal number valid.
        unsafe { libc::sigdelset(&raw mut set, fault) };
    }
    let mut before = MaybeUninit::<libc::sigset_t>::uninit();
    // SAFETY: the first pointer is to an initialised set, the second to memory for one, which the call fills.
    let result =
        unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &raw const set, before.as_mut_ptr()) };
    if result != 0 {
        return Err(io::Error::from_raw_os_error(result));
    }
    // SAFETY: the call above has succeeded, so the set is initialised.
    let before = unsafe { before.assume_init() };
    Ok(BlockedSignals { before, _thread: std::marker::PhantomData })
}

impl Drop for BlockedSignals {
    fn drop(&mut self) {
        // SAFETY: the pointer is to an initialised set; no old set is asked for.
        unsafe {
            libc::pthread_sigmask(libc::SIG_SETMASK, &raw const self.before, std::ptr::null_mut())
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn blocked() -> String {
        let status = std::fs::read_to_string("/proc/thread-self/status").unwrap();
        status.lines().find(|line| line.starts_with("SigBlk")).unwrap().to_owned()
    }

    #[test]
    fn a_thread_inherits_the_mask_and_the_parent_gets_its_own_back() {
        let before = blocked();
        let guard = block_signals().unwrap();
        let inside = blocked();
        let child = std::thread::spawn(blocked).join().unwrap();
        drop(guard);
        assert_ne!(before, inside);
        assert_eq!(child, inside);
        assert_eq!(before, blocked());
    }
}
