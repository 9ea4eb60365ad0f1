//! The launcher's signals, taken one by one instead of by handlers.

use std::mem::MaybeUninit;
use std::time::Duration;
use std::{io, ptr};

/// What asks the run to end, and goes on to the ranks.
const REQUESTS: [i32; 4] = [libc::SIGINT, libc::SIGTERM, libc::SIGHUP, libc::SIGQUIT];

pub(crate) fn is_request(signal: i32) -> bool {
    REQUESTS.contains(&signal)
}

/// The set that is blocked in this process: requests, and the end of a child.
pub(crate) struct Signals(libc::sigset_t);

impl Signals {
    /// Blocks them, in this thread and in all that it starts. A request that the launcher was started to ignore
    /// (`nohup`, a shell's background job) stays ignored, here and in the ranks.
    pub(crate) fn block() -> Result<Self, String> {
        // SAFETY: no handler is installed. An ignored SIGCHLD would have the kernel reap ranks behind our back.
        unsafe { libc::signal(libc::SIGCHLD, libc::SIG_DFL) };
        let mut set = empty();
        let requests = REQUESTS.into_iter().filter(|signal| !is_ignored(*signal));
        for signal in requests.chain([libc::SIGCHLD]) {
            // SAFETY: an initialised set and a valid number.
            unsafe { libc::sigaddset(&raw mut set, signal) };
        }
        // SAFETY: an initialised set; the old one is not asked for.
        match unsafe { libc::pthread_sigmask(libc::SIG_BLOCK, &raw const set, ptr::null_mut()) } {
            0 => Ok(Self(set)),
            code => Err(format!("block signals: {}", io::Error::from_raw_os_error(code))),
        }
    }

    /// Waits for one of them, for `limit` at most. `None` is no signal (yet).
    pub(crate) fn wait(&self, limit: Option<Duration>) -> Option<i32> {
        let limit = limit.unwrap_or(Duration::from_secs(3600));
        let limit = libc::timespec {
            tv_sec: limit.as_secs().try_into().unwrap_or(libc::time_t::MAX),
            tv_nsec: limit.subsec_nanos().into(),
        };
        // SAFETY: an initialised set and limit; details are not asked for.
        let signal =
            unsafe { libc::sigtimedwait(&raw const self.0, ptr::null_mut(), &raw const limit) };
        (signal > 0).then_some(signal)
    }
}

/// Unblocks all signals. Safe between `fork` and `exec`.
pub(super) fn unblock_all() -> io::Result<()> {
    let set = empty();
    // SAFETY: an initialised set; the old one is not asked for.
    match unsafe { libc::sigprocmask(libc::SIG_SETMASK, &raw const set, ptr::null_mut()) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

fn is_ignored(signal: i32) -> bool {
    let mut action = MaybeUninit::<libc::sigaction>::zeroed();
    // SAFETY: sets nothing; the action now in force is written to a place large enough.
    unsafe { libc::sigaction(signal, ptr::null(), action.as_mut_ptr()) };
    // SAFETY: zeroes are a valid action, and so is what `sigaction` writes.
    unsafe { action.assume_init() }.sa_sigaction == libc::SIG_IGN
}

fn empty() -> libc::sigset_t {
    let mut set = MaybeUninit::uninit();
    // SAFETY: writable for a set.
    unsafe { libc::sigemptyset(set.as_mut_ptr()) };
    // SAFETY: `sigemptyset` cannot fail on a valid pointer.
    unsafe { set.assume_init() }
}
