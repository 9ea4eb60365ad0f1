//! Reductions of which each rank gets a part, or its own: reduce_scatter and scans.

use std::ffi::c_void;
use std::ptr;

use super::caller::{self, Caller};
use super::options::collect_call_options;
use super::pointer::bytes_of;
use super::request::collect_request;
use super::status::collect_status;
use super::types::{collect_datatype, collect_op};
use super::world::collect_world;
use crate::Call;

/// Reduces the `send` of all ranks, cuts the result by rank, and leaves one part in the `recv` of every rank.
///
/// Every rank calls it with the same count, type and operation. `recv` has `count` elements, `send` as many
/// for each rank of the world: those at element `r * count` are reduced for rank r.
///
/// The count is that of one rank, as in MPI's MPI_Reduce_scatter_block and in NCCL.
///
/// In place where `recv` is this rank's part of `send`, as in NCCL; the rest of `send` is then not changed.
/// Else the two must not overlap.
///
/// All results have the bits that the same world, algorithm and inputs give on every run. They need not be
/// those of `collect_allreduce`, which may combine in another order.
///
/// No rank sends or receives more than its `send` once: p-1 steps in a ring of p ranks, or log2(p) steps in
/// trees where the buffer is small.
///
/// Errors: as `collect_allreduce`.
///
/// ```c
/// float all[2 * 4]; // in a world of 4 ranks
/// float mine[2];
/// status = collect_reduce_scatter(world, all, mine, 2, COLLECT_F32, COLLECT_SUM, NULL, NULL);
/// ```
///
///
/// # Safety
///
/// - `world`: live; NULL is an error.
/// - `send`: readable for `count` elements of each rank while it is lent; NULL is an error unless `count` is 0.
/// - `recv`: writable for `count` elements while it is lent; NULL is an error unless `count` is 0.
/// - `options`: NULL for the defaults, else `struct_size` is set, and as much can be read.
/// - `request`: NULL to block; else writable, and receives a request that the caller frees.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn collect_reduce_scatter(
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
        let all = bytes_of(calling.size(), bytes)?;
        // SAFETY: readable for as many bytes while it is lent (contract above).
        let source = unsafe { caller::source(send, all, "send") }?;
        // SAFETY: writable for as many bytes while it is lent (contract above).
        let target = unsafe { caller::target(recv, bytes, "recv") }?;
        calling.perform(&Call::ReduceScatter { source, target, datatype, op })
    })
}

/// Reduces the `send` of all ranks, and leaves one part in the `recv` of every rank, of a length of its own each.
///
/// `counts` has an entry for each rank of the world: the elements that it gets. Every rank passes the same
/// counts. The parts lie in `send` one after the other by rank; `recv` has as many elements as this rank's
/// entry says.
///
/// In place where `recv` is this rank's part of `send`; else the two must not overlap.
///
/// The list is read before the call returns.
///
/// Errors: as `collect_reduce_scatter`. Ranks with other counts get `COLLECT_ERR_MISMATCH`, all of them.
///
/// ```c
/// const size_t counts[] = {1, 2, 3}; // in a world of 3 ranks
/// float all[6];
/// status = collect_reduce_scatterv(world, all, mine, counts, COLLECT_F32, COLLECT_SUM, NULL, NULL);
/// ```
///
///
/// # Safety
///
/// - `world`: live; NULL is an error.
/// - `send`: readable for every part while it is lent; NULL is an error unless all counts are 0.
/// - `recv`: writable for as many elements as this rank's count says while it is lent; NULL is an error unless
///   that is 0.
/// - `counts`: an entry for each rank; NULL is an error.
/// - `options`: NULL for the defaults, else `struct_size` is set, and as much can be read.
/// - `request`: NULL to block; else writable, and receives a request that the caller frees.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn collect_reduce_scatterv(
    world: *mut collect_world,
    send: *const c_void,
    recv: *mut c_void,
    counts: *const usize,
    r#type: collect_datatype,
    op: collect_op,
    options: *const collect_call_options,
    request: *mut *mut collect_request,
) -> collect_status {
    // SAFETY: NULL or as their names say, until this returns (contract above).
    let caller = unsafe { Caller::new(world, options, request) };
    caller.run(|calling| {
        let (datatype, op, element_bytes) = calling.elements(r#type, op)?;
        // SAFETY: NULL, or an entry for each rank (contract above).
        let lists = unsafe { caller::lists((counts, "counts"), ptr::null(), calling.size()) }?;
        let counts = lists.counts;
        let bytes = bytes_of(counts[calling.rank()], element_bytes)?;
        // SAFETY: readable for as many bytes while it is lent (contract above).
        let source = unsafe { caller::source(send, lists.extent(element_bytes)?, "send") }?;
        // SAFETY: writable for as many bytes while it is lent (contract above).
        let target = unsafe { caller::target(recv, bytes, "recv") }?;
        calling.perform(&Call::ReduceScatterv { source, target, counts, datatype, op })
    })
}

/// Reduces the `send` of ranks 0 to r into the `recv` of rank r, for every rank r.
///
/// Every rank calls it with the same count, type and operation. Operands are combined in rank order. On rank
/// 0 the result is what it sent.
///
/// `send == recv` works in place; else the two must not overlap.
///
/// In p ranks, log2(p) steps for small buffers; large ones flow through a chain of all ranks.
///
/// Errors: as `collect_allreduce`, and
///
/// - `COLLECT_ERR_INVALID_ARGUMENT`: the operation is `COLLECT_AVG`, as each rank would divide by another number.
///
/// ```c
/// int64_t before_and_mine;
/// status = collect_scan(world, &mine, &before_and_mine, 1, COLLECT_I64, COLLECT_SUM, NULL, NULL);
/// ```
///
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
pub unsafe extern "C-unwind" fn collect_scan(
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
        calling.perform(&Call::Scan { source, target, datatype, op })
    })
}

/// Reduces the `send` of ranks 0 to r-1 into the `recv` of rank r, for every rank r but 0.
///
/// The `recv` of rank 0 is not touched: with nothing before it there is no result. Otherwise as
/// `collect_scan`: with sums of lengths, say, each rank learns where its part of a common file begins.
///
/// Errors: as `collect_scan`.
///
/// ```c
/// int64_t start = 0; // as it stays on rank 0
/// status = collect_exscan(world, &length, &start, 1, COLLECT_I64, COLLECT_SUM, NULL, NULL);
/// ```
///
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
pub unsafe extern "C-unwind" fn collect_exscan(
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
        calling.perform(&Call::Exscan { source, target, datatype, op })
    })
}
