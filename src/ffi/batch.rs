//! Batches: operations that are recorded, and started together as often as the caller likes.

use std::sync::{Arc, OnceLock};

use parking_lot::Mutex;

use super::guard::{guard, in_world};
use super::pointer::{self, Out, is_null};
use super::request::collect_request;
use super::status::{COLLECT_OK, collect_status};
use super::world::collect_world;
use crate::error::Error;
use crate::{Batch, Request};

/// Operations that are started together, again and again.
///
/// A call whose options name a batch is recorded, not made: `request` is NULL, arguments are checked then,
/// and what can be prepared is. `collect_batch_start` then begins all recorded operations, in the order in
/// which they were recorded, and gives one request for all of them. Once that has ended the batch may be
/// started again, with what the buffers hold then.
///
/// A batch of one call is a persistent request. A start costs less than the calls: nothing is checked, chosen
/// or allocated, and all operations begin under one lock.
///
/// Operations of a batch match as if each had been called by itself: other ranks may record the same calls,
/// or make them, or record them elsewhere. Their order within each world must be the same as ever, unless
/// they have keys. They run at the same time, and end in any order: one must not read what another writes.
///
/// Threads: every function may be called on one batch from several threads at once.
/// Lifetime: it keeps its worlds alive, and reductions of its operations. Buffers are lent until the batch is
/// destroyed and what was started last has ended; between two starts they may be read and written.
///
/// ```c
/// collect_batch *batch = NULL;
/// status = collect_batch_create(&batch);
/// options.batch = batch;
/// for (int i = 0; i < n; i++)
///   collect_allreduce(world, x[i], x[i], count[i], COLLECT_F32, COLLECT_AVG, &options, NULL);
/// while (training) {
///   compute_gradients();
///   status = collect_batch_start(batch, NULL);
///   apply_gradients();
/// }
/// collect_batch_destroy(batch);
/// ```
#[derive(Debug, Default)]
pub struct collect_batch {
    batch: Mutex<Batch<'static>>,
    /// That of the first operation: where a request for all of them belongs.
    world: OnceLock<Arc<collect_world>>,
}

impl collect_batch {
    /// Lets `add` add calls on `world`.
    pub(super) fn record(
        &self,
        world: &Arc<collect_world>,
        add: impl FnOnce(&mut Batch<'static>) -> Result<(), Error>,
    ) -> Result<(), Error> {
        // In a child of fork(2) the lock may be held for ever.
        world.world.error().map_or(Ok(()), Err)?;
        add(&mut self.batch.lock())?;
        let _ = self.world.get_or_init(|| Arc::clone(world));
        Ok(())
    }

    /// The world of the first operation.
    fn world(&self) -> Result<&Arc<collect_world>, Error> {
        self.world.get().ok_or_else(|| {
            let text = "the batch has no operations: name it in the options of some calls";
            Error::InvalidArgument(text.into())
        })
    }

    fn start(&self, world: &collect_world) -> Result<Request, Error> {
        world.world.error().map_or(Ok(()), Err)?;
        let request = self.batch.lock().submit_all()?;
        // Beginning may run the caller's reductions, over which no lock is held.
        request.prod();
        Ok(request)
    }
}

/// Creates a batch without operations.
///
/// ```c
/// collect_batch *batch = NULL;
/// if (collect_batch_create(&batch) != COLLECT_OK) return fail("create the batch");
/// options.batch = batch; // the calls with these options are recorded
/// ```
///
/// # Safety
///
/// - `batch`: writable, receives a batch that the caller destroys; NULL is an error.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn collect_batch_create(
    batch: *mut *mut collect_batch,
) -> collect_status {
    guard(|| {
        // SAFETY: NULL or writable (contract above).
        let batch = unsafe { Out::new(batch, "batch") }?;
        batch.set(pointer::give(Arc::new(collect_batch::default())));
        Ok(COLLECT_OK)
    })
}

/// Begins all operations of a batch.
///
/// With `request` NULL the call returns when all have ended. Else it returns at once, and the request ends
/// when the last of them has, with the first error of any.
///
/// Only one start of a batch may be under way at a time: one that is to overlap itself needs two batches.
/// The request may be freed early; the batch then still has to end before it is started again.
///
/// Errors: as the calls themselves, and
///
/// - `COLLECT_ERR_INVALID_ARGUMENT`: the batch has no operations, or has not ended since it was started last.
///
/// ```c
/// status = collect_batch_start(batch, &request);
/// compute_something_else();
/// status = collect_request_wait(request, -1);
/// collect_request_free(request);
/// ```
///
/// # Safety
///
/// - `batch`: live; NULL is an error.
/// - `request`: NULL to block; else writable, and receives a request that the caller frees.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn collect_batch_start(
    batch: *mut collect_batch,
    request: *mut *mut collect_request,
) -> collect_status {
    guard(|| {
        // SAFETY: NULL or live (contract above).
        let batch = unsafe { pointer::borrow(batch) }.ok_or_else(|| is_null("batch"))?;
        // SAFETY: NULL or writable (contract above).
        let request = unsafe { Out::optional(request) };
        in_world(batch.world()?, |world| {
            let started = batch.start(world)?;
            match request {
                None => started.wait()?,
                Some(request) => request.set(collect_request::give(world, started)),
            }
            Ok(COLLECT_OK)
        })
    })
}

/// Destroys a batch, without waiting.
///
/// Operations under way go on, and their buffers stay lent until they have ended. A thread that has started
/// the batch without a request goes on to wait for them.
///
/// # Safety
///
/// - `batch`: live, and not used again; NULL does nothing.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn collect_batch_destroy(batch: *mut collect_batch) {
    // A panic is not passed on: there is nobody who could be told.
    let _ = guard(|| {
        // SAFETY: NULL or live, and given up (contract above).
        drop(unsafe { pointer::take_back(batch) });
        Ok(COLLECT_OK)
    });
}
