//! The basic collectives: barrier, broadcast, allreduce, reduce.

use std::array;
use std::ffi::c_void;
use std::slice;

use super::caller::{self, Caller};
use super::guard::Outcome;
use super::options::collect_call_options;
use super::pointer::{self, bytes_of, number};
use super::request::collect_request;
use super::status::collect_status;
use super::types::{collect_datatype, collect_op};
use super::world::collect_world;
use crate::error::Error;
use crate::{Call, Datatype, Target};

/// Reduces `count` elements of every rank's `send` into every rank's `recv`.
///
/// Every rank calls it with the same count, type and operation, and all get the same bits. `send == recv`
/// works in place; else the two must not overlap. Any number of operations may be under way.
///
/// With `request` NULL the call returns when the operation has ended. Else it returns at once, and both
/// buffers are lent until the operation has ended, which `collect_request_wait` tells:
///
/// ```c
/// collect_request *request = NULL;
/// status = collect_allreduce(world, x, x, 1000, COLLECT_F32, COLLECT_SUM, NULL, &request);
/// if (status == COLLECT_OK) {
///   compute_something_else();
///   status = collect_request_wait(request, -1);
///   collect_request_free(request);
/// }
/// ```
///
/// Errors; with a request, those of the world may also come from it:
///
/// - `COLLECT_ERR_INVALID_ARGUMENT`, `COLLECT_ERR_UNSUPPORTED`: nothing happened; the world is whole.
/// - `COLLECT_ERR_TIMED_OUT`: the operation took too long; the text names the ranks that were waited for.
/// - `COLLECT_ERR_MISMATCH`: another rank called something else; the text has both sides.
/// - `COLLECT_ERR_PEER_LOST`, `COLLECT_ERR_ABORTED`: a rank is gone, or has aborted the world.
///
/// After the latter three kinds the world has failed, and what `recv` holds is unspecified.
///
/// # Safety
///
/// - `world`: live; NULL is an error.
/// - `send`: readable for `count` elements while it is lent; NULL is an error unless `count` is 0.
/// - `recv`: writable for `count` elements while it is lent; NULL is an error unless `count` is 0.
/// - `options`: NULL for the defaults, else `struct_size` is set, and as much can be read.
/// - `request`: NULL to block; else writable, and receives a request that the caller frees.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn collect_allreduce(
    world: *mut collect_world,
    send: *const c_void,
    recv: *mut c_void,
    count: usize,
    r#type: collect_datatype,
    op: collect_op,
    options: *const collect_call_options,
    request: *mut *mut collect_request,
) -> collect_status {
    // SAFETY: NULL or as their names say, until this returns (contract above).
    let caller = unsafe { Caller::new(world, options, request) };
    caller.run(|calling| {
        let (datatype, op, element_bytes) = calling.elements(r#type, op)?;
        let bytes = bytes_of(count, element_bytes)?;
        // SAFETY: readable for as many bytes while it is lent (contract above).
        let source = unsafe { caller::source(send, bytes, "send") }?;
        // SAFETY: writable for as many bytes while it is lent (contract above).
        let target = unsafe { caller::target(recv, bytes, "recv") }?;
        calling.perform(&Call::Allreduce { source, target, datatype, op })
    })
}

/// Reduces all buffers of all ranks: every buffer of every rank ends with the result.
///
/// A rank has `buffers_count` buffers of `count` elements each (one per device or model replica, say): at
/// least 1 and at most 1024, as many on every rank, none overlapping another. `COLLECT_AVG` divides by the
/// number of buffers of all ranks together.
///
/// Otherwise as `collect_allreduce`. The list itself is read before the call returns, the buffers are lent.
///
/// Errors: as `collect_allreduce`.
///
/// ```c
/// void *gradients[2] = {of_device_0, of_device_1};
/// status = collect_allreduce_multi(world, gradients, 2, 1000, COLLECT_F32, COLLECT_AVG, NULL, NULL);
/// ```
///
/// # Safety
///
/// - `world`: live; NULL is an error.
/// - `buffers`: `buffers_count` pointers, each writable for `count` elements while it is lent; NULL is an
///   error, in the list unless `count` is 0.
/// - `options`: NULL for the defaults, else `struct_size` is set, and as much can be read.
/// - `request`: NULL to block; else writable, and receives a request that the caller frees.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn collect_allreduce_multi(
    world: *mut collect_world,
    buffers: *const *mut c_void,
    buffers_count: usize,
    count: usize,
    r#type: collect_datatype,
    op: collect_op,
    options: *const collect_call_options,
    request: *mut *mut collect_request,
) -> collect_status {
    // SAFETY: NULL or as their names say, until this returns (contract above).
    let caller = unsafe { Caller::new(world, options, request) };
    caller.run(|calling| {
        let (datatype, op, element_bytes) = calling.elements(r#type, op)?;
        let bytes = bytes_of(count, element_bytes)?;
        // SAFETY: as many pointers (contract above).
        let buffers = unsafe { list(buffers, buffers_count, bytes) }?;
        // SAFETY: each writable for as many bytes while it is lent (contract above).
        let target = |start: *mut c_void| unsafe { Target::from_raw(start.cast(), bytes) };
        with_targets(buffers, target, |buffers| {
            calling.perform(&Call::AllreduceMulti { buffers, datatype, op })
        })
    })
}

/// Copies `count` elements of the `buffer` of rank `root` into the `buffer` of every other rank.
///
/// Every rank calls it with the same count, type and root. With `request` NULL the call returns when this
/// rank's part has ended, which on the root may be before other ranks have come. Else it returns at once,
/// and the buffer is lent until the operation has ended.
///
/// Errors: as `collect_allreduce`, and
///
/// - `COLLECT_ERR_INVALID_ARGUMENT`: `root` is no rank of the world.
///
/// ```c
/// status = collect_broadcast(world, weights, weights_count, COLLECT_F32, 0, NULL, NULL);
/// ```
///
/// # Safety
///
/// - `world`: live; NULL is an error.
/// - `buffer`: readable on the root, writable elsewhere, for `count` elements while it is lent; NULL is an
///   error unless `count` is 0.
/// - `options`: NULL for the defaults, else `struct_size` is set, and as much can be read.
/// - `request`: NULL to block; else writable, and receives a request that the caller frees.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn collect_broadcast(
    world: *mut collect_world,
    buffer: *mut c_void,
    count: usize,
    r#type: collect_datatype,
    root: i32,
    options: *const collect_call_options,
    request: *mut *mut collect_request,
) -> collect_status {
    // SAFETY: NULL or as their names say, until this returns (contract above).
    let caller = unsafe { Caller::new(world, options, request) };
    caller.run(|calling| {
        let (datatype, root) = (Datatype::try_from(r#type)?, number(root, "root")?);
        let bytes = bytes_of(count, datatype.bytes())?;
        // SAFETY: writable for as many bytes while it is lent (contract above).
        let buffer = unsafe { caller::target(buffer, bytes, "buffer") }?;
        calling.perform(&Call::Broadcast { buffer, datatype, root })
    })
}

/// Reduces `count` elements of every rank's `send` into the `recv` of rank `root`.
///
/// Every rank calls it with the same count, type, operation and root. On the root `send == recv` works in
/// place; else the two must not overlap. On other ranks `recv` is ignored and not touched: it may be NULL.
/// A rank's part may have ended before the root has its result: what others wait for is a barrier.
///
/// A tree of ranks does it, log2(p) steps deep in p ranks: inner ranks reduce what their children send, in
/// scratch of the library, at most 512 KiB whatever the count. The root receives log2(p) times the buffer.
///
/// A rank that is not the root passes what it likes as `recv`, its `send` included; nothing is written
/// there, so that one buffer may be lent to several such operations at one time.
///
/// All results have the bits that the same world, inputs and root give on every run. They need not be those
/// of `collect_allreduce`, which may combine in another order.
///
/// With `request` NULL the call returns when this rank's part has ended. Else it returns at once, and the
/// buffers are lent until the operation has ended.
///
/// Errors: as `collect_allreduce`, and
///
/// - `COLLECT_ERR_INVALID_ARGUMENT`: `root` is no rank of the world.
///
/// ```c
/// status = collect_reduce(world, x, sum, 1000, COLLECT_F32, COLLECT_SUM, 0, NULL, NULL);
/// ```
///
/// # Safety
///
/// - `world`: live; NULL is an error.
/// - `send`: readable for `count` elements while it is lent; NULL is an error unless `count` is 0.
/// - `recv`: on the root writable for `count` elements while it is lent; NULL is an error there unless
///   `count` is 0. Anything elsewhere.
/// - `options`: NULL for the defaults, else `struct_size` is set, and as much can be read.
/// - `request`: NULL to block; else writable, and receives a request that the caller frees.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn collect_reduce(
    world: *mut collect_world,
    send: *const c_void,
    recv: *mut c_void,
    count: usize,
    r#type: collect_datatype,
    op: collect_op,
    root: i32,
    options: *const collect_call_options,
    request: *mut *mut collect_request,
) -> collect_status {
    // SAFETY: NULL or as their names say, until this returns (contract above).
    let caller = unsafe { Caller::new(world, options, request) };
    caller.run(|calling| {
        let (datatype, op, element_bytes) = calling.elements(r#type, op)?;
        let root = number(root, "root")?;
        let bytes = bytes_of(count, element_bytes)?;
        let here = if calling.is(root) { bytes } else { 0 };
        // SAFETY: readable for as many bytes while it is lent (contract above).
        let source = unsafe { caller::source(send, bytes, "send") }?;
        // SAFETY: writable for as many bytes while it is lent (contract above).
        let target = unsafe { caller::target(recv, here, "recv") }?;
        calling.perform(&Call::Reduce { source, target, datatype, op, root })
    })
}

/// Ends when every rank of the world has called it.
///
/// With `request` NULL the call returns then; else it returns at once, and the request ends then.
///
/// Errors: as `collect_allreduce`.
///
/// ```c
/// status = collect_barrier(world, NULL, NULL);
/// ```
///
/// # Safety
///
/// - `world`: live; NULL is an error.
/// - `options`: NULL for the defaults, else `struct_size` is set, and as much can be read.
/// - `request`: NULL to block; else writable, and receives a request that the caller frees.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn collect_barrier(
    world: *mut collect_world,
    options: *const collect_call_options,
    request: *mut *mut collect_request,
) -> collect_status {
    // SAFETY: NULL or as their names say, until this returns (contract above).
    let caller = unsafe { Caller::new(world, options, request) };
    caller.run(|calling| calling.perform(&Call::Barrier))
}

/// What `collective` accepts, checked before the list is read.
const BUFFERS_MAX: usize = 1024;
/// So many need no memory from the heap.
const BUFFERS_FEW: usize = 64;

/// The buffers of a multi-buffer call, each of `bytes` bytes.
///
/// # Safety
///
/// `start` is NULL, or `count` pointers are readable.
unsafe fn list<'a>(
    start: *const *mut c_void,
    count: usize,
    bytes: usize,
) -> Result<&'a [*mut c_void], Error> {
    if !(1..=BUFFERS_MAX).contains(&count) {
        let text = format!("buffers_count is {count}; it must be from 1 to {BUFFERS_MAX}");
        return Err(Error::InvalidArgument(text));
    }
    // SAFETY: NULL or as many (contract above).
    let buffers = unsafe { pointer::elements(start, count, "buffers") }?;
    for buffer in buffers {
        pointer::buffer(*buffer, bytes, "a buffer")?;
    }
    Ok(buffers)
}

/// Lends the targets of `buffers` to `body`.
fn with_targets(
    buffers: &[*mut c_void],
    target: impl Fn(*mut c_void) -> Target<'static>,
    body: impl FnOnce(&'static mut [Target<'static>]) -> Outcome,
) -> Outcome {
    let mut few: [Target<'static>; BUFFERS_FEW];
    let mut many: Vec<Target<'static>>;
    let targets: &mut [Target<'static>] = if buffers.len() <= BUFFERS_FEW {
        few = array::from_fn(|at| target(buffers.get(at).copied().unwrap_or_default()));
        &mut few[..buffers.len()]
    } else {
        many = buffers.iter().map(|buffer| target(*buffer)).collect();
        &mut many
    };
    // SAFETY: `body` makes a call of it, and a call's list (not its buffers) is used only until the call is made, which
    // is before `body` returns.
    body(unsafe { slice::from_raw_parts_mut(targets.as_mut_ptr(), targets.len()) })
}

#[cfg(test)]
mod tests {
    use std::ptr;

    use super::*;
    use crate::ffi::status::{COLLECT_ERR_INVALID_ARGUMENT, COLLECT_OK};
    use crate::ffi::types::{COLLECT_F32, COLLECT_SUM};

    #[test]
    fn null_worlds_are_refused() {
        let (world, no_options, no_request) = (ptr::null_mut(), ptr::null(), ptr::null_mut());
        let (from, to) = (ptr::null(), ptr::null_mut());
        // SAFETY: NULL is an error.
        let allreduce = unsafe {
            collect_allreduce(world, from, to, 0, COLLECT_F32, COLLECT_SUM, no_options, no_request)
        };
        // SAFETY: NULL is an error.
        let multi = unsafe {
            let list = ptr::null();
            let (f32, sum) = (COLLECT_F32, COLLECT_SUM);
            collect_allreduce_multi(world, list, 0, 0, f32, sum, no_options, no_request)
        };
        // SAFETY: NULL is an error.
        let broadcast =
            unsafe { collect_broadcast(world, to, 0, COLLECT_F32, 0, no_options, no_request) };
        // SAFETY: NULL is an error.
        let barrier = unsafe { collect_barrier(world, no_options, no_request) };
        assert_eq!([allreduce, multi, broadcast, barrier], [COLLECT_ERR_INVALID_ARGUMENT; 4]);
    }

    #[test]
    fn lists_of_buffers_are_checked() {
        let mut byte = 0u8;
        let full: [*mut c_void; 2] = [(&raw mut byte).cast(); 2];
        let holed = [full[0], ptr::null_mut()];
        // SAFETY: as long as they say, or refused unread.
        let read = |start, count, bytes| unsafe { list(start, count, bytes) }.is_ok();
        assert!(read(full.as_ptr(), 2, 1));
        assert!(read(holed.as_ptr(), 2, 0));
        assert!(!read(holed.as_ptr(), 2, 1));
        assert!(!read(ptr::null(), 1, 0));
        assert!(!read(full.as_ptr(), 0, 1));
        assert!(!read(full.as_ptr(), usize::MAX, 1));
    }

    #[test]
    fn few_and_many_buffers_become_targets() {
        let mut bytes = [0u8; BUFFERS_FEW + 1];
        let starts: Vec<*mut c_void> =
            bytes.iter_mut().map(|byte| ptr::from_mut(byte).cast()).collect();
        for count in [1, BUFFERS_FEW, BUFFERS_FEW + 1] {
            // SAFETY: never read.
            let target = |start: *mut c_void| unsafe { Target::from_raw(start.cast(), 1) };
            let outcome = with_targets(&starts[..count], target, |targets| {
                let regions = targets.iter().map(|target| target.region().start().cast());
                assert!(regions.eq(starts[..count].iter().copied()));
                Ok(COLLECT_OK)
            });
            assert_eq!(outcome, Ok(COLLECT_OK));
        }
    }
}
