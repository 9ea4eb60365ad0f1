//! Thread cancellation (pthread_cancel(3)), which would unwind a thread out of the middle of the library.
//!
//! The libc crate lacks the call. Where the thread's cancellation is asynchronous and one is pending, the call that
//! enables it again does not return: it unwinds the stack. So it is declared as one that may unwind, and whoever calls
//! `Disabled::restore` owns nothing just then, up to the program's own frames.

/// `PTHREAD_CANCEL_DISABLE` of glibc and musl.
const DISABLE: libc::c_int = 1;

unsafe extern "C-unwind" {
    fn pthread_setcancelstate(state: libc::c_int, before: *mut libc::c_int) -> libc::c_int;
}

/// Disables cancellation of this thread. Returns the state before. No system call.
fn disable() -> libc::c_int {
    let mut before = DISABLE;
    // SAFETY: the state is valid, and `before` is writable. The call fails for other states only.
    unsafe { pthread_setcancelstate(DISABLE, &raw mut before) };
    before
}

/// Disables cancellation of a thread of ours: callers' functions that run on it may learn its number.
pub(crate) fn disable_for_good() {
    disable();
}

/// This thread cannot be cancelled. What comes meanwhile is kept.
#[cfg(feature = "capi")]
#[derive(Debug)]
#[must_use = "cancellation stays disabled until it is restored"]
pub(crate) struct Disabled {
    before: libc::c_int,
    // The state belongs to a thread: neither Send nor Sync.
    _thread: std::marker::PhantomData<*const ()>,
}

#[cfg(feature = "capi")]
impl Disabled {
    /// Disables cancellation of this thread.
    pub(crate) fn new() -> Self {
        Self { before: disable(), _thread: std::marker::PhantomData }
    }

    /// Lets this thread be cancelled again, if it could be before. May unwind instead of returning.
    pub(crate) fn restore(self) {
        let mut ours = DISABLE;
        // SAFETY: the state is one that the system has given, and `ours` is writable.
        unsafe { pthread_setcancelstate(self.before, &raw mut ours) };
    }
}

#[cfg(all(test, feature = "capi"))]
mod tests {
    use super::*;

    fn state() -> libc::c_int {
        let mut state = -1;
        // SAFETY: the state is valid, and the variable writable.
        unsafe { pthread_setcancelstate(DISABLE, &raw mut state) };
        // SAFETY: as above.
        unsafe { pthread_setcancelstate(state, std::ptr::null_mut()) };
        state
    }

    #[test]
    fn nested_guards_restore_what_was_before() {
        let enabled = state();
        assert_ne!(enabled, DISABLE);
        let outer = Disabled::new();
        assert_eq!(state(), DISABLE);
        let inner = Disabled::new();
        inner.restore();
        assert_eq!(state(), DISABLE, "an inner call enables nothing");
        outer.restore();
        assert_eq!(state(), enabled);
    }
}
