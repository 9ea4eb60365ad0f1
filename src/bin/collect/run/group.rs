//! Signals to process groups. Each rank leads one, so a signal reaches what the rank started as well.

/// A process group, named by its leader.
pub(super) type Group = libc::pid_t;

/// Sends `signal` to all of `group`. One that is gone already is no error.
pub(super) fn signal(group: Group, signal: i32) {
    // 0 would be our own group, and 1 every process there is.
    if group > 1 {
        // SAFETY: takes numbers only.
        unsafe { libc::kill(-group, signal) };
    }
}
