//! Reductions of the caller's own.

use std::ffi::c_void;
use std::sync::Arc;

use super::guard::guard;
use super::pointer::{self, Out, is_null};
use super::status::{COLLECT_OK, collect_status};
use crate::Custom;

/// What combines elements, for `collect_reduction_create`.
///
/// For each i below `count` it combines element i of `left` with element i of `right`, in this order, into
/// element i of `result`. The three do not overlap, and begin at addresses that are multiples of 16. What
/// `result` holds before is unspecified. `user` is what was passed to `collect_reduction_create`.
///
/// How a buffer is cut into such runs is the library's choice: a run may be of one element, or of some
/// kilobytes. The result must depend on the elements alone.
///
/// Threads: it runs on whichever thread drives the endpoint just then: one that is inside a blocking call or
/// a wait of any world that shares its connections, or the library's own. It may run on several threads at
/// once where several endpoints use it. The library holds no lock meanwhile. It must not call the library,
/// nor throw, nor `longjmp`, and should not wait: no operation advances until it returns.
pub type collect_reduction_fn = Option<
    unsafe extern "C" fn(
        user: *mut c_void,
        left: *const c_void,
        right: *const c_void,
        result: *mut c_void,
        count: usize,
    ),
>;

/// What releases the `user` of a reduction, for `collect_reduction_create`.
///
/// It is called once, when the reduction has been destroyed and no operation or batch uses it any more, on
/// the thread that gave it up last, which may be the library's own. It must not call the library, nor throw,
/// nor `longjmp`.
pub type collect_free_fn = Option<unsafe extern "C" fn(user: *mut c_void)>;

/// A reduction of the caller's own: what `COLLECT_CUSTOM` does.
///
/// It is named in the options of a call whose operation is `COLLECT_CUSTOM`. Every rank passes a reduction
/// that does the same; element size and `is_commutative` are compared, the functions cannot be.
///
/// Threads: it may be used by any number of calls, on any threads and worlds, at one time.
/// Lifetime: an operation under way, and a batch, keep it alive.
///
/// ```c
/// struct best { float loss; int32_t rank; };
///
/// static void smaller(void *user, const void *left, const void *right, void *result, size_t count) {
///   const struct best *l = left, *r = right;
///   struct best *out = result;
///   for (size_t i = 0; i < count; i++) out[i] = r[i].loss < l[i].loss ? r[i] : l[i];
/// }
///
/// status = collect_reduction_create(smaller, NULL, NULL, sizeof(struct best), 0, &options.reduction);
/// status = collect_allreduce(world, &mine, &best, 1, COLLECT_U8, COLLECT_CUSTOM, &options, NULL);
/// ```
#[derive(Debug)]
pub struct collect_reduction {
    pub(super) custom: Arc<Custom>,
}

/// The caller's function with what it is called with, and what releases that.
#[derive(Debug)]
struct Own {
    function: unsafe extern "C" fn(*mut c_void, *const c_void, *const c_void, *mut c_void, usize),
    free: collect_free_fn,
    user: *mut c_void,
    element_bytes: usize,
}

// SAFETY: the contract of `collect_reduction_create` allows the calls on any thread.
unsafe impl Send for Own {}
// SAFETY: it also allows several at once.
unsafe impl Sync for Own {}

impl Own {
    fn combine(&self, left: &[u8], right: &[u8], result: &mut [u8]) {
        let count = result.len() / self.element_bytes;
        let (left, right) = (left.as_ptr().cast(), right.as_ptr().cast());
        // SAFETY: the contract of `collect_reduction_create`; all three hold as many elements.
        unsafe { (self.function)(self.user, left, right, result.as_mut_ptr().cast(), count) };
    }
}

impl Drop for Own {
    fn drop(&mut self) {
        if let Some(free) = self.free {
            // SAFETY: the contract of `collect_reduction_create`; nothing calls the function any more.
            unsafe { free(self.user) };
        }
    }
}

/// Creates a reduction of elements of `element_bytes` bytes, from 1 to 4096.
///
/// `function` must be associative: (a · b) · c is a · (b · c). If `is_commutative` is 1, a · b must also be
/// b · a; if it is 0, the library combines operands in rank order only, by algorithms that can.
///
/// The counts of a call with it are in elements of `element_bytes` bytes. The call's type is `COLLECT_U8`, or
/// one of that very size.
///
/// `free_user`, if it is not NULL, is called with `user` when nothing uses the reduction any more. It is not
/// called if this function fails.
///
/// Errors:
///
/// - `COLLECT_ERR_INVALID_ARGUMENT`: elements of no bytes or of too many; `is_commutative` is neither 0 nor 1.
///
/// # Safety
///
/// - `function`: does what its type says with `user`, on any thread; NULL is an error.
/// - `user`: passed through; may be NULL.
/// - `free_user`: may be called with `user`, on any thread; may be NULL.
/// - `reduction`: writable, receives a reduction that the caller destroys; NULL is an error.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn collect_reduction_create(
    function: collect_reduction_fn,
    user: *mut c_void,
    free_user: collect_free_fn,
    element_bytes: usize,
    is_commutative: i32,
    reduction: *mut *mut collect_reduction,
) -> collect_status {
    guard(|| {
        let function = function.ok_or_else(|| is_null("function"))?;
        // SAFETY: NULL or writable (contract above).
        let reduction = unsafe { Out::new(reduction, "reduction") }?;
        let is_commutative = pointer::flag(is_commutative, "is_commutative")?;
        // Checked before there is an owner, whose end would release `user`.
        Custom::new(element_bytes, is_commutative, |_, _, _| {})?;
        let own = Own { function, free: free_user, user, element_bytes };
        let custom = Custom::new(element_bytes, is_commutative, move |left, right, result| {
            own.combine(left, right, result);
        })?;
        reduction.set(pointer::give(Arc::new(collect_reduction { custom: Arc::new(custom) })));
        Ok(COLLECT_OK)
    })
}

/// Destroys a reduction, without waiting.
///
/// Operations under way and batches keep what they use.
///
/// # Safety
///
/// - `reduction`: live, and not used again; NULL does nothing.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn collect_reduction_destroy(reduction: *mut collect_reduction) {
    // A panic is not passed on: there is nobody who could be told.
    let _ = guard(|| {
        // SAFETY: NULL or live, and given up (contract above).
        drop(unsafe { pointer::take_back(reduction) });
        Ok(COLLECT_OK)
    });
}
