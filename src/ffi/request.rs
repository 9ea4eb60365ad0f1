//! Requests: test, wait, free.
//!
//! A steady flow of requests allocates nothing: a freed one goes to its world, which hands it out again.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;

use super::guard::{guard, guard_world};
use super::pointer::{self, is_null};
use super::status::{COLLECT_IN_PROGRESS, COLLECT_OK, collect_status};
use super::world::collect_world;
use crate::Request;
use crate::error::Error;

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
pub unsafe extern "C" fn collect_request_test(request: *mut collect_request) -> collect_status {
    // SAFETY: NULL or live (contract above).
    let request = unsafe { pointer::borrow(request) };
    ask(request, Request::outcome)
}

/// Waits until the operation has ended, at most for `timeout_ns` nanoseconds.
///
/// 0 or negative: as long as it takes; the operation has a time-out of its own.
///
/// Returns `COLLECT_OK` if the operation has ended well, the error that it ended with, or
/// `COLLECT_IN_PROGRESS` if the time passed first: that ends the wait, not the operation. Several threads
/// may wait for one request, and wait again after the end.
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
pub unsafe extern "C" fn collect_request_wait(
    request: *mut collect_request,
    timeout_ns: i64,
) -> collect_status {
    // SAFETY: NULL or live (contract above).
    let request = unsafe { pointer::borrow(request) };
    let limit = u64::try_from(timeout_ns).ok().filter(|limit| *limit > 0).map(Duration::from_nanos);
    ask(request, |request| request.wait_for(limit))
}

/// Frees a request, without waiting.
///
/// An operation under way goes on, and its buffers stay lent until it has ended: a program that is to use
/// or free them must wait first. Free requests also after errors.
///
/// # Safety
///
/// - `request`: live, and not used again; NULL does nothing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn collect_request_free(request: *mut collect_request) {
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
    request: Option<Arc<collect_request>>,
    outcome: impl FnOnce(&Request) -> Option<Result<(), Error>>,
) -> collect_status {
    let Some(request) = request else {
        return guard(|| Err(is_null("request")));
    };
    let Some(started) = &request.started else {
        return guard(|| Err(Error::InvalidArgument("the request was freed".into())));
    };
    guard_world(Some(Arc::clone(&started.world)), |_| match outcome(&started.request) {
        None => Ok(COLLECT_IN_PROGRESS),
        Some(outcome) => outcome.map(|()| COLLECT_OK),
    })
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
        assert_eq!(ask(Some(Arc::default()), Request::outcome), COLLECT_ERR_INVALID_ARGUMENT);
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
