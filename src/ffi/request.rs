//! Requests: test, wait for one or several, be called back, poll, free.
//!
//! A steady flow of requests allocates nothing: a freed one goes to its world, which hands it out again.

use std::ffi::{c_char, c_int, c_void};
use std::os::fd::AsRawFd;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;

use super::guard::{Outcome, guard, in_world};
use super::pointer::{self, Out, is_null};
use super::status::{
    COLLECT_IN_PROGRESS, COLLECT_INTERRUPTED, COLLECT_OK, collect_last_error_message,
    collect_status, record,
};
use super::world::collect_world;
use crate::error::Error;
use crate::{Request, Waited};

/// One operation that was started, under way or ended.
///
/// Threads: every function may be called on one request from several threads at once.
/// Lifetime: it keeps its world alive.
///
/// Start many, then wait for each: they are under way at the same time, and end in any order.
///
/// ```c
/// for (int i = 0; i < n; i++)
///   collect_allreduce(world, x[i], x[i], count[i], COLLECT_F32, COLLECT_AVG, NULL, &requests[i]);
/// for (int i = 0; i < n; i++) {
///   if (collect_request_wait(requests[i], -1) != COLLECT_OK) failed = 1;
///   collect_request_free(requests[i]);
/// }
/// ```
#[derive(Debug, Default)]
pub struct collect_request {
    /// None while it waits in its world to be used again.
    started: Option<Started>,
}

/// The request comes first: it is dropped before the world's share.
#[derive(Debug)]
struct Started {
    request: Request,
    world: Arc<collect_world>,
}

/// Freed requests that a world keeps; more are dropped.
const SPARES_MAX: usize = 256;

/// Requests of a world that wait to be used again.
#[derive(Debug, Default)]
pub(super) struct Spares(Mutex<Vec<Arc<collect_request>>>);

impl Spares {
    fn take(&self) -> Option<Arc<collect_request>> {
        self.0.lock().pop()
    }

    fn put(&self, spare: Arc<collect_request>) {
        let mut spares = self.0.lock();
        if spares.len() < SPARES_MAX {
            spares.push(spare);
        }
    }
}

impl collect_request {
    /// Gives a started operation to the caller.
    pub(super) fn give(world: &Arc<collect_world>, request: Request) -> *mut Self {
        let started = Some(Started { request, world: Arc::clone(world) });
        let mut handle = world.spares.take().unwrap_or_default();
        match Arc::get_mut(&mut handle) {
            Some(spare) => spare.started = started,
            None => handle = Arc::new(Self { started }),
        }
        pointer::give(handle)
    }

    fn started(&self) -> Result<&Started, Error> {
        let started = self.started.as_ref();
        started.ok_or_else(|| Error::InvalidArgument("the request was freed".into()))
    }
}

/// Tells without waiting how the operation is.
///
/// Returns `COLLECT_OK` (it has ended well), `COLLECT_IN_PROGRESS`, or the error that it ended with. May be
/// asked again and again, also after the end. The operation advances whether anybody asks or not.
///
/// ```c
/// while ((status = collect_request_test(request)) == COLLECT_IN_PROGRESS) compute_a_little();
/// ```
///
/// # Safety
///
/// - `request`: live; NULL is an error.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn collect_request_test(
    request: *mut collect_request,
) -> collect_status {
    // SAFETY: NULL or live (contract above).
    let request = || unsafe { pointer::borrow(request) };
    ask(request, Request::outcome)
}

/// Waits until the operation has ended, at most for `timeout_ns` nanoseconds.
///
/// 0 or negative: as long as it takes; the operation has a time-out of its own.
///
/// Returns `COLLECT_OK` if the operation has ended well, the error that it ended with,
/// `COLLECT_IN_PROGRESS` if the time passed first, or, if the world is interruptible, `COLLECT_INTERRUPTED`
/// if this thread has handled a signal: these two end the wait, not the operation. Several threads may wait
/// for one request, and wait again after the end.
///
/// ```c
/// while ((status = collect_request_wait(request, 1000000000)) == COLLECT_IN_PROGRESS)
///   puts("still waiting");
/// ```
///
/// # Safety
///
/// - `request`: live; NULL is an error.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn collect_request_wait(
    request: *mut collect_request,
    timeout_ns: i64,
) -> collect_status {
    // SAFETY: NULL or live (contract above).
    let request = || unsafe { pointer::borrow(request) };
    on_started(request, |request| waited(request.wait_unless_interrupted(limit_of(timeout_ns))))
}

/// Waits until one of `count` operations has ended, at most for `timeout_ns` nanoseconds, and tells which.
///
/// The requests may be of different worlds. Entries that are NULL are skipped, so a program sets those to
/// NULL that it has dealt with. If several have ended, `index` is that of the first in the list. The same
/// request may be in the list more than once.
///
/// 0 or negative: as long as it takes.
///
/// Returns what `collect_request_test` says of the request at `index`: `COLLECT_OK` or the error that it
/// ended with, and `index` is set in both cases. `COLLECT_IN_PROGRESS` if the time passed first, or
/// `COLLECT_INTERRUPTED` if one of the worlds is interruptible and this thread has handled a signal: these
/// end the wait, not the operations, and `index` is untouched.
///
/// Errors, with `index` untouched:
///
/// - `COLLECT_ERR_INVALID_ARGUMENT`: there is no request in the list.
///
/// ```c
/// for (size_t left = n; left > 0; left--) {
///   size_t index;
///   if (collect_request_wait_any(requests, n, -1, &index) != COLLECT_OK) return fail("a request");
///   use(results[index]);
///   collect_request_free(requests[index]);
///   requests[index] = NULL;
/// }
/// ```
///
/// # Safety
///
/// - `requests`: readable for `count` entries, each NULL or live; NULL is an error.
/// - `index`: writable, receives the place in the list; NULL is an error.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn collect_request_wait_any(
    requests: *const *mut collect_request,
    count: usize,
    timeout_ns: i64,
    index: *mut usize,
) -> collect_status {
    guard(|| {
        // SAFETY: NULL or readable, with entries that are NULL or live (contract above).
        let requests = unsafe { shares(requests, count) }?;
        // SAFETY: NULL or writable (contract above).
        let index = unsafe { Out::new(index, "index") }?;
        let started = started_of(&requests)?;
        match Request::wait_any_unless_interrupted(&started, limit_of(timeout_ns)) {
            Waited::Ended(at) => {
                index.set(requests[at].0);
                status_of(started[at].outcome())
            }
            Waited::InProgress => Ok(COLLECT_IN_PROGRESS),
            Waited::Interrupted => Ok(COLLECT_INTERRUPTED),
        }
    })
}

/// Waits until all of `count` operations have ended, at most for `timeout_ns` nanoseconds.
///
/// The requests may be of different worlds. Entries that are NULL are skipped. 0 or negative: as long as it
/// takes.
///
/// Returns `COLLECT_OK` if all have ended well, else the first error in the order of the list;
/// `collect_request_test` tells of each. `COLLECT_IN_PROGRESS` if the time passed before all had ended, or
/// `COLLECT_INTERRUPTED` if one of the worlds is interruptible and this thread has handled a signal: these
/// end the wait, not the operations.
///
/// Errors of its own:
///
/// - `COLLECT_ERR_INVALID_ARGUMENT`: there is no request in the list.
///
/// ```c
/// status = collect_request_wait_all(requests, n, -1);
/// for (int i = 0; i < n; i++) collect_request_free(requests[i]);
/// ```
///
/// # Safety
///
/// - `requests`: readable for `count` entries, each NULL or live; NULL is an error.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn collect_request_wait_all(
    requests: *const *mut collect_request,
    count: usize,
    timeout_ns: i64,
) -> collect_status {
    guard(|| {
        // SAFETY: NULL or readable, with entries that are NULL or live (contract above).
        let requests = unsafe { shares(requests, count) }?;
        let started = started_of(&requests)?;
        waited(Request::wait_all_unless_interrupted(&started, limit_of(timeout_ns)))
    })
}

/// What `collect_request_on_complete` calls at the end of an operation.
///
/// `user` is what was passed there, `status` what the operation ended with. After an error, `message` is its
/// text, else it is empty; it stays valid until the function returns or has a call of its own that fails.
///
/// It must not throw, nor `longjmp`.
pub type collect_complete_fn =
    Option<unsafe extern "C" fn(user: *mut c_void, status: collect_status, message: *const c_char)>;

/// Has the library call `function` when the operation has ended.
///
/// It is called once, with `user`: soon after the end, or soon if the operation has ended already. Nobody
/// needs to wait or to test, and freeing the request changes nothing. A request may have several such
/// functions.
///
/// Threads: the functions of a world and of all worlds that share its connections (its forks, and what it
/// was forked from) run on one thread of the library, one after the other, in the order in which the
/// operations end. The library holds no lock meanwhile. They may call every function that does not wait:
/// start an operation, also from its own callback the next, test, free, destroy. They must not wait for
/// operations, for that would keep the others from being called; and they should be short, since operations
/// for which no thread waits do not advance meanwhile.
///
/// If the world fails or is destroyed first, the function is called with that error. Destroying the last of
/// the worlds that share the thread runs the functions that are left, and returns when they have.
///
/// Errors: the function is not called.
///
/// - `COLLECT_ERR_INVALID_ARGUMENT`: `function` is NULL.
///
/// ```c
/// static void done(void *user, collect_status status, const char *message) {
///   struct job *job = user;
///   job->failed = status != COLLECT_OK;
///   if (job->failed) fprintf(stderr, "%s\n", message);
///   sem_post(&job->ended);
/// }
///
/// collect_request_on_complete(request, done, job);
/// collect_request_free(request);
/// ```
///
/// # Safety
///
/// - `request`: live; NULL is an error.
/// - `function`: may be called with `user` on a thread of the library; NULL is an error.
/// - `user`: passed through; may be NULL.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn collect_request_on_complete(
    request: *mut collect_request,
    function: collect_complete_fn,
    user: *mut c_void,
) -> collect_status {
    // SAFETY: NULL or live (contract above).
    let request = || unsafe { pointer::borrow(request) };
    on_started(request, |request| {
        let function = function.ok_or_else(|| is_null("function"))?;
        let callback = Callback { function, user };
        request.on_complete(move |outcome| callback.run(outcome))?;
        Ok(COLLECT_OK)
    })
}

/// Gives a descriptor that becomes readable when the operation has ended, for `poll`, `epoll` and event loops.
///
/// Each call on one request gives the same descriptor. It is readable from the end on, at once if the
/// operation has ended. The library advances the operation meanwhile. The request owns the descriptor and
/// closes it when it is freed: a program takes it out of its loop before, and neither closes it nor writes
/// to it. Nobody needs to read from it.
///
/// Errors:
///
/// - `COLLECT_ERR_RESOURCE`: there is no descriptor left. The operation goes on.
///
/// ```c
/// struct pollfd entry = {.events = POLLIN};
/// if (collect_request_eventfd(request, &entry.fd) != COLLECT_OK) return fail("eventfd");
/// poll(&entry, 1, -1);
/// status = collect_request_test(request); // not COLLECT_IN_PROGRESS
/// ```
///
/// # Safety
///
/// - `request`: live; NULL is an error.
/// - `fd`: writable, receives the descriptor; NULL is an error.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn collect_request_eventfd(
    request: *mut collect_request,
    fd: *mut c_int,
) -> collect_status {
    // SAFETY: NULL or live (contract above).
    let request = || unsafe { pointer::borrow(request) };
    on_started(request, |request| {
        // SAFETY: NULL or writable (contract above).
        let fd = unsafe { Out::new(fd, "fd") }?;
        fd.set(request.eventfd()?.as_raw_fd());
        Ok(COLLECT_OK)
    })
}

/// Tells from which rank a message came, once a receive has ended.
///
/// For receives that take a message from any rank; it works for the others as well.
///
/// Errors:
///
/// - `COLLECT_ERR_INVALID_ARGUMENT`: the request is no receive, or has not ended, or ended without a message.
///
/// # Safety
///
/// - `request`: live; NULL is an error.
/// - `rank`: writable, receives the sender's rank in the world; NULL is an error.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn collect_request_source(
    request: *mut collect_request,
    rank: *mut i32,
) -> collect_status {
    // SAFETY: NULL or live (contract above).
    let request = || unsafe { pointer::borrow(request) };
    on_started(request, |request| {
        // SAFETY: NULL or writable (contract above).
        let rank = unsafe { Out::new(rank, "rank") }?;
        rank.set(source_of(request)?);
        Ok(COLLECT_OK)
    })
}

/// Frees a request, without waiting.
///
/// An operation under way goes on, and its buffers stay lent until it has ended: a program that is to use
/// or free them must wait first. Free requests also after errors. A thread that waits for the request goes on
/// to wait, and is told how the operation ends.
///
/// # Safety
///
/// - `request`: live, and not used again; NULL does nothing.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn collect_request_free(request: *mut collect_request) {
    // A panic is not passed on: there is nobody who could be told.
    let _ = guard(|| {
        // SAFETY: NULL or live, and given up (contract above).
        if let Some(request) = unsafe { pointer::take_back(request) } {
            recycle(request);
        }
        Ok(COLLECT_OK)
    });
}

/// Asks a request for its outcome, `None` while it is under way.
fn ask(
    borrow: impl FnOnce() -> Option<Arc<collect_request>>,
    outcome: impl FnOnce(&Request) -> Option<Result<(), Error>>,
) -> collect_status {
    on_started(borrow, |request| status_of(outcome(request)))
}

/// Runs the body of an entry point on a request that is not freed, which `borrow` takes a share in.
fn on_started(
    borrow: impl FnOnce() -> Option<Arc<collect_request>>,
    body: impl FnOnce(&Request) -> Outcome,
) -> collect_status {
    guard(|| {
        let request = borrow().ok_or_else(|| is_null("request"))?;
        let started = request.started()?;
        in_world(&started.world, |_| body(&started.request))
    })
}

fn status_of(outcome: Option<Result<(), Error>>) -> Outcome {
    outcome.map_or(Ok(COLLECT_IN_PROGRESS), |outcome| outcome.map(|()| COLLECT_OK))
}

/// What comes of a wait.
fn waited(waited: Waited<Result<(), Error>>) -> Outcome {
    match waited {
        Waited::Ended(outcome) => outcome.map(|()| COLLECT_OK),
        Waited::InProgress => Ok(COLLECT_IN_PROGRESS),
        Waited::Interrupted => Ok(COLLECT_INTERRUPTED),
    }
}

/// The limit of a wait: 0 and less are none.
fn limit_of(timeout_ns: i64) -> Option<Duration> {
    u64::try_from(timeout_ns).ok().filter(|limit| *limit > 0).map(Duration::from_nanos)
}

/// A share in each request of a list that is not NULL, with its place.
///
/// # Safety
///
/// `requests` is NULL or readable for `count` entries, each NULL or live.
unsafe fn shares(
    requests: *const *mut collect_request,
    count: usize,
) -> Result<Vec<(usize, Arc<collect_request>)>, Error> {
    // SAFETY: NULL or readable (contract above).
    let requests = unsafe { pointer::elements(requests, count, "requests") }?;
    let shares = requests.iter().enumerate().filter_map(|(at, request)| {
        // SAFETY: NULL or live (contract above).
        unsafe { pointer::borrow(*request) }.map(|request| (at, request))
    });
    let shares: Vec<_> = shares.collect();
    if shares.is_empty() {
        return Err(Error::InvalidArgument("there is no request in the list".into()));
    }
    Ok(shares)
}

fn started_of(shares: &[(usize, Arc<collect_request>)]) -> Result<Vec<&Request>, Error> {
    shares.iter().map(|(_, request)| Ok(&request.started()?.request)).collect()
}

/// The rank that a received message came from.
fn source_of(request: &Request) -> Result<i32, Error> {
    let invalid = |text: &str| Error::InvalidArgument(text.into());
    match (request.outcome(), request.source()) {
        (Some(Err(Error::Forked)), _) => Err(Error::Forked),
        (None, _) => Err(invalid("the operation has not ended")),
        (_, None) => Err(invalid("the operation has received no message")),
        (_, Some(rank)) => i32::try_from(rank).map_err(|_| invalid("the rank exceeds int32_t")),
    }
}

/// The caller's function, and what it is called with.
struct Callback {
    function: unsafe extern "C" fn(*mut c_void, collect_status, *const c_char),
    user: *mut c_void,
}

// SAFETY: the contract of `collect_request_on_complete` allows the call on another thread.
unsafe impl Send for Callback {}

impl Callback {
    fn run(self, outcome: Result<(), Error>) {
        let (status, message) = match outcome {
            Ok(()) => (COLLECT_OK, c"".as_ptr()),
            Err(error) => (record(&error), collect_last_error_message()),
        };
        // SAFETY: the contract of `collect_request_on_complete`, and a string of this thread's.
        unsafe { (self.function)(self.user, status, message) };
    }
}

/// Ends a request. If another thread is still inside, that one drops it.
fn recycle(mut request: Arc<collect_request>) {
    let Some(started) = Arc::get_mut(&mut request).and_then(|request| request.started.take())
    else {
        return;
    };
    let Started { request: ended, world } = started;
    drop(ended);
    world.spares.put(request);
}

#[cfg(test)]
mod tests {
    use std::ptr;

    use super::*;
    use crate::ffi::status::COLLECT_ERR_INVALID_ARGUMENT;

    #[test]
    fn null_and_freed_requests_are_refused() {
        // SAFETY: NULL is an error.
        assert_eq!(unsafe { collect_request_test(ptr::null_mut()) }, COLLECT_ERR_INVALID_ARGUMENT);
        // SAFETY: NULL is an error.
        let status = unsafe { collect_request_wait(ptr::null_mut(), 0) };
        assert_eq!(status, COLLECT_ERR_INVALID_ARGUMENT);
        // SAFETY: NULL is allowed.
        unsafe { collect_request_free(ptr::null_mut()) };
        assert_eq!(ask(|| Some(Arc::default()), Request::outcome), COLLECT_ERR_INVALID_ARGUMENT);
    }

    #[test]
    fn spares_are_bounded() {
        let spares = Spares::default();
        for _ in 0..SPARES_MAX + 5 {
            spares.put(Arc::default());
        }
        assert_eq!(spares.0.lock().len(), SPARES_MAX);
        assert!(spares.take().is_some());
    }
}
