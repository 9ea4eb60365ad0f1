//! Statuses, and what is known of this thread's last error.

use std::cell::{Cell, UnsafeCell};
use std::ffi::{CStr, c_char};
use std::fmt::{self, Write};

use super::guard::guard;
use super::pointer::Out;
use crate::Group;
use crate::error::Error;

/// The outcome of a call: 0 is success, a negative number an error, a positive one neither.
///
/// The numbers are part of the ABI: none is ever changed or used again. Later versions may add
/// some, so treat a negative number that you do not know as an error like the others;
/// `collect_status_group` tells what it means for you.
///
/// ```c
/// collect_status status = collect_barrier(world, NULL, NULL);
/// if (status < 0) {
///   fprintf(stderr, "%s: %s\n", collect_status_name(status), collect_last_error_message());
///   if (collect_status_group(status) == COLLECT_GROUP_WORLD) {
///     // Destroy the world, and create or fork another one with those ranks that are left.
///   }
/// }
/// ```
#[repr(transparent)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct collect_status(pub i32);

/// The call did what was asked.
pub const COLLECT_OK: collect_status = collect_status(0);
/// Not an error: the operation of the request has not ended yet.
/// Ask again with `collect_request_test`, or wait with `collect_request_wait`.
pub const COLLECT_IN_PROGRESS: collect_status = collect_status(1);
/// Not an error: a signal has ended the wait. The operation goes on; wait again when the signal is dealt with.
/// Only of waits for requests, in worlds whose option `interruptible` is set.
pub const COLLECT_INTERRUPTED: collect_status = collect_status(2);
/// The caller broke a stated precondition (NULL, an unknown constant, a buffer that is too small).
/// Nothing happened.
/// The text names the argument and what it must be.
pub const COLLECT_ERR_INVALID_ARGUMENT: collect_status = collect_status(-1);
/// The request is valid, but this library, build or host cannot serve it. Nothing happened.
/// Also what a program gets that sets an option which this library is too old to know.
pub const COLLECT_ERR_UNSUPPORTED: collect_status = collect_status(-2);
/// Descriptors, memory or another bounded resource ran out. The call had no effect.
/// The text says which limit to raise. Only an operation that could not make a connection for want of a
/// descriptor has failed its world: then `collect_world_error` gives this too.
pub const COLLECT_ERR_RESOURCE: collect_status = collect_status(-3);
/// A system call failed. No world was affected.
/// The text names the call, what it was about, and why the system refused.
pub const COLLECT_ERR_SYSTEM: collect_status = collect_status(-4);
/// The store failed, cannot be reached, or serves another run. No world was affected.
/// The text has the key or the address. Once the store is mended, the call may be made again.
pub const COLLECT_ERR_STORE: collect_status = collect_status(-5);
/// This process came by fork(2) from the one that owns the handle. Nothing happened.
/// The parent is not disturbed. A child that is to communicate creates a world of its own.
pub const COLLECT_ERR_FORKED: collect_status = collect_status(-6);
/// A time-out passed. If it was an operation's, its world has failed, and `collect_last_error_rank` has the rank
/// that everybody waited for, if one is known.
/// A rank that waits itself is not blamed: the chain of those that wait is followed to its end. The text says
/// what this rank waited for, from which ranks, and how far they had come.
pub const COLLECT_ERR_TIMED_OUT: collect_status = collect_status(-7);
/// Ranks called different operations, or the same one with different arguments. The world has
/// failed; the text has both sides.
/// A mistake in the program: ranks must call the same operations in the same order. No buffer holds data
/// of the wrong operation.
pub const COLLECT_ERR_MISMATCH: collect_status = collect_status(-8);
/// A rank of the world is gone. The world has failed; `collect_last_error_rank` has the rank.
/// Its process has ended, or its host cannot be reached. Every rank that is left gets this error.
pub const COLLECT_ERR_PEER_LOST: collect_status = collect_status(-9);
/// The world was aborted, here or on another rank; the text has the reason. The world has failed.
/// By `collect_world_abort`.
pub const COLLECT_ERR_ABORTED: collect_status = collect_status(-10);
/// A bug in libcollect. The world, if the call was on one, has failed. Please report the text.
/// The library stays usable: worlds that are not its forks go on.
pub const COLLECT_ERR_INTERNAL: collect_status = collect_status(-11);

/// What a status means for the caller: one of the `COLLECT_GROUP_` constants.
/// Programs that only want to know what to do next look at this, and not at the single errors.
#[repr(transparent)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct collect_group(pub i32);

/// No error.
pub const COLLECT_GROUP_NONE: collect_group = collect_group(0);
/// The caller's mistake: nothing happened. Mend the program.
pub const COLLECT_GROUP_CALLER: collect_group = collect_group(1);
/// This call failed; the world, if there is one, is still whole. The call may be made again.
pub const COLLECT_GROUP_CALL: collect_group = collect_group(2);
/// The world, if the call was on one, has failed: every later call on it gets the same error.
/// Destroy it and create another.
pub const COLLECT_GROUP_WORLD: collect_group = collect_group(3);

/// What `status` means for the caller.
///
/// Never fails. A negative number that is no status is taken for the worst, `COLLECT_GROUP_WORLD`.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn collect_status_group(status: collect_status) -> collect_group {
    match status {
        collect_status(0..) => COLLECT_GROUP_NONE,
        COLLECT_ERR_INVALID_ARGUMENT | COLLECT_ERR_UNSUPPORTED | COLLECT_ERR_FORKED => {
            COLLECT_GROUP_CALLER
        }
        COLLECT_ERR_RESOURCE | COLLECT_ERR_SYSTEM | COLLECT_ERR_STORE => COLLECT_GROUP_CALL,
        _ => COLLECT_GROUP_WORLD,
    }
}

/// The name of `status`, as "COLLECT_ERR_PEER_LOST".
///
/// Never fails, and never returns NULL; for a number that is no status, it is "unknown collect_status". The
/// string is static: it is not freed, and stays valid as long as the process lives.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn collect_status_name(status: collect_status) -> *const c_char {
    name_of(status).as_ptr()
}

/// The text of this thread's last failed call: never NULL, empty before the first failure.
///
/// It says what failed, where (world, operation, rank, address) and what to do, in UTF-8 of at most 1023
/// bytes, cut between characters. The pointer is not freed, and stays valid while the thread lives; the
/// thread's next failure overwrites the text, a success leaves it.
///
/// ```c
/// fprintf(stderr, "allreduce: %s\n", collect_last_error_message());
/// ```
#[unsafe(no_mangle)]
pub extern "C-unwind" fn collect_last_error_message() -> *const c_char {
    LAST_ERROR.with(|last| last.text.get().cast_const().cast())
}

/// Tells which rank was at fault in this thread's last failed call, in the world of that call.
///
/// After `COLLECT_ERR_PEER_LOST` that is the rank that was lost. After `COLLECT_ERR_TIMED_OUT` it is the rank
/// that everybody waited for: one that has not called the operation, or does not answer. -1 where no single
/// rank is at fault or none is known, after every other failure, and before the first.
///
/// ```c
/// int32_t culprit = -1;
/// if (collect_status_group(status) == COLLECT_GROUP_WORLD &&
///     collect_last_error_rank(&culprit) == COLLECT_OK && culprit >= 0)
///   printf("without rank %d\n", (int)culprit);
/// ```
///
/// # Safety
///
/// - `rank`: writable, receives the rank; NULL is an error, which is then the last one itself.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn collect_last_error_rank(rank: *mut i32) -> collect_status {
    guard(|| {
        // SAFETY: NULL or writable (contract above).
        let rank = unsafe { Out::new(rank, "rank") }?;
        rank.set(LAST_ERROR.with(|last| last.rank.get()));
        Ok(COLLECT_OK)
    })
}

impl From<&Error> for collect_status {
    fn from(error: &Error) -> Self {
        match error {
            Error::InvalidArgument(_) => COLLECT_ERR_INVALID_ARGUMENT,
            Error::Unsupported(_) => COLLECT_ERR_UNSUPPORTED,
            Error::Resource(_) => COLLECT_ERR_RESOURCE,
            Error::System(_) => COLLECT_ERR_SYSTEM,
            Error::Store(_) => COLLECT_ERR_STORE,
            Error::Forked => COLLECT_ERR_FORKED,
            Error::TimedOut { .. } => COLLECT_ERR_TIMED_OUT,
            Error::Mismatch(_) => COLLECT_ERR_MISMATCH,
            Error::PeerLost { .. } => COLLECT_ERR_PEER_LOST,
            Error::Aborted(_) => COLLECT_ERR_ABORTED,
            Error::Internal(_) => COLLECT_ERR_INTERNAL,
        }
    }
}

impl From<Group> for collect_group {
    fn from(group: Group) -> Self {
        match group {
            Group::Caller => COLLECT_GROUP_CALLER,
            Group::Call => COLLECT_GROUP_CALL,
            Group::World => COLLECT_GROUP_WORLD,
        }
    }
}

fn name_of(status: collect_status) -> &'static CStr {
    match status {
        COLLECT_OK => c"COLLECT_OK",
        COLLECT_IN_PROGRESS => c"COLLECT_IN_PROGRESS",
        COLLECT_INTERRUPTED => c"COLLECT_INTERRUPTED",
        COLLECT_ERR_INVALID_ARGUMENT => c"COLLECT_ERR_INVALID_ARGUMENT",
        COLLECT_ERR_UNSUPPORTED => c"COLLECT_ERR_UNSUPPORTED",
        COLLECT_ERR_RESOURCE => c"COLLECT_ERR_RESOURCE",
        COLLECT_ERR_SYSTEM => c"COLLECT_ERR_SYSTEM",
        COLLECT_ERR_STORE => c"COLLECT_ERR_STORE",
        COLLECT_ERR_FORKED => c"COLLECT_ERR_FORKED",
        COLLECT_ERR_TIMED_OUT => c"COLLECT_ERR_TIMED_OUT",
        COLLECT_ERR_MISMATCH => c"COLLECT_ERR_MISMATCH",
        COLLECT_ERR_PEER_LOST => c"COLLECT_ERR_PEER_LOST",
        COLLECT_ERR_ABORTED => c"COLLECT_ERR_ABORTED",
        COLLECT_ERR_INTERNAL => c"COLLECT_ERR_INTERNAL",
        _ => c"unknown collect_status",
    }
}

/// Room for one text, its terminating NUL included: for the longest that another rank can tell (`REASON_BYTES_MAX`
/// of `link::frame`, which counts five bytes beside the text).
const MESSAGE_BYTES: usize = 1024;

struct LastError {
    text: UnsafeCell<[u8; MESSAGE_BYTES]>,
    rank: Cell<i32>,
}

thread_local! {
    /// Written in place and never freed: a pointer handed out earlier stays readable, no destructor runs at thread
    /// exit, and an error allocates nothing here.
    static LAST_ERROR: LastError =
        const { LastError { text: UnsafeCell::new([0; MESSAGE_BYTES]), rank: Cell::new(-1) } };
}

/// Keeps the text and the rank of `error` for this thread, and returns its status.
pub(super) fn record(error: &Error) -> collect_status {
    LAST_ERROR.with(|last| {
        last.rank.set(error.rank().map_or(-1, |rank| i32::try_from(rank).unwrap_or(i32::MAX)));
        // SAFETY: the array belongs to this thread, and no reference to it outlives this closure.
        let text = unsafe { &mut *last.text.get() };
        Line { text, end: 0 }.fill(error);
    });
    error.into()
}

/// One line of text, written into an array that ends with NUL.
struct Line<'a> {
    text: &'a mut [u8; MESSAGE_BYTES],
    end: usize,
}

impl Line<'_> {
    /// Writes all of `error` that there is room for.
    fn fill(mut self, error: &Error) {
        let _ = write!(self, "{error}"); // fails where the text is cut
        self.text[self.end] = 0;
    }
}

impl fmt::Write for Line<'_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let room = MESSAGE_BYTES - 1 - self.end;
        let fits = text.floor_char_boundary(room);
        self.text[self.end..self.end + fits].copy_from_slice(&text.as_bytes()[..fits]);
        self.end += fits;
        if fits == text.len() { Ok(()) } else { Err(fmt::Error) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn last_text() -> String {
        // SAFETY: the text ends with NUL, and this thread does not fail meanwhile.
        unsafe { CStr::from_ptr(collect_last_error_message()) }.to_str().unwrap().to_owned()
    }

    /// One of each.
    fn errors() -> [Error; 11] {
        let text = String::new;
        [
            Error::InvalidArgument(text()),
            Error::Unsupported(text()),
            Error::Resource(text()),
            Error::System(text()),
            Error::Store(text()),
            Error::Forked,
            Error::TimedOut { rank: Some(5), text: text() },
            Error::Mismatch(text()),
            Error::PeerLost { rank: 3, text: text() },
            Error::Aborted(text()),
            Error::Internal(text()),
        ]
    }

    #[test]
    fn a_long_text_is_cut_between_characters() {
        record(&Error::Unsupported("é".repeat(MESSAGE_BYTES)));
        assert_eq!(last_text(), "é".repeat((MESSAGE_BYTES - 1) / 2));
        record(&Error::Internal("x".repeat(MESSAGE_BYTES)));
        assert_eq!(last_text().len(), MESSAGE_BYTES - 1);
        record(&Error::Store("short".into()));
        assert_eq!(last_text(), "short");
    }

    #[test]
    fn errors_are_numbered_and_grouped() {
        for (error, number) in errors().iter().zip(1..) {
            let status = collect_status::from(error);
            assert_eq!(status, collect_status(-number));
            assert_eq!(collect_status_group(status), error.group().into(), "{status:?}");
            assert!(name_of(status).to_bytes().starts_with(b"COLLECT_ERR_"));
        }
        assert_eq!(collect_status_group(COLLECT_OK), COLLECT_GROUP_NONE);
        assert_eq!(collect_status_group(COLLECT_IN_PROGRESS), COLLECT_GROUP_NONE);
        assert_eq!(collect_status_group(COLLECT_INTERRUPTED), COLLECT_GROUP_NONE);
        assert_eq!(name_of(COLLECT_INTERRUPTED), c"COLLECT_INTERRUPTED");
        assert_eq!(collect_status_group(collect_status(-99)), COLLECT_GROUP_WORLD);
        assert_eq!(name_of(collect_status(-99)), c"unknown collect_status");
    }

    #[test]
    fn errors_that_know_a_rank_tell_it() {
        let nobody = Error::TimedOut { rank: None, text: String::new() };
        for error in errors().iter().chain([&nobody]) {
            record(error);
            let mut rank = 77;
            // SAFETY: a local variable.
            assert_eq!(unsafe { collect_last_error_rank(&raw mut rank) }, COLLECT_OK);
            let expected = match error {
                Error::PeerLost { .. } => 3,
                Error::TimedOut { rank: Some(_), .. } => 5,
                _ => -1,
            };
            assert_eq!(rank, expected, "{error:?}");
        }
    }

    #[test]
    fn every_thread_has_its_own_text() {
        record(&Error::Store("here".into()));
        std::thread::spawn(|| assert_eq!(last_text(), "")).join().unwrap();
        assert_eq!(last_text(), "here");
    }
}
