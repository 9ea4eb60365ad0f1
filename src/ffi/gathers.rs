//! Gathers: what every rank has, on one rank or on all.

use std::ffi::c_void;

use super::caller::{self, Caller, Lists};
use super::options::collect_call_options;
use super::pointer::{bytes_of, number};
use super::request::collect_request;
use super::status::collect_status;
use super::types::collect_datatype;
use super::world::collect_world;
use crate::{Call, Datatype};

/// Copies the `send` of every rank, one after the other by rank, into the `recv` of every rank.
///
/// Every rank calls it with the same count and type. `send` has `count` elements, `recv` as many for each
/// rank of the world; rank r's elements begin at element `r * count`. In place where `send` is this rank's
/// part of `recv`; else the two must not overlap.
///
/// The count is that of one rank, as in MPI and NCCL: `recv` needs room for the size of the world times as
/// many elements, and the size is what `collect_world_size` tells. Ranks that bring different counts get
/// `COLLECT_ERR_MISMATCH`.
///
/// In place saves a copy, and the memory of `send`: each rank writes its own part of `recv` and passes the
/// address of that part as `send`. Ranks need not all do the same in this.
///
/// Elements are moved, never changed: NaN payloads and padding bits arrive as they were.
///
/// Up to 64 KiB of result take log2(p) steps in p ranks; beyond, p-1 steps in a ring, in which no rank
/// sends or receives more than the result once.
///
/// With `request` NULL the call returns when the operation has ended. Else it returns at once, and both
/// buffers are lent until the operation has ended.
///
/// Errors: as `collect_allreduce`.
///
/// ```c
/// float mine[2] = {1, 2};
/// float all[2 * 4]; // in a world of 4 ranks
/// status = collect_allgather(world, mine, all, 2, COLLECT_F32, NULL, NULL);
/// ```
///
/// # Safety
///
/// - `world`: live; NULL is an error.
/// - `send`: readable for `count` elements while it is lent; NULL is an error unless `count` is 0.
/// - `recv`: writable for `count` elements of each rank while it is lent; NULL is an error unless `count`
///   is 0.
/// - `options`: NULL for the defaults, else `struct_size` is set, and as much can be read.
/// - `request`: NULL to block; else writable, and receives a request that the caller frees.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn collect_allgather(
    world: *mut collect_world,
    send: *const c_void,
    recv: *mut c_void,
    count: usize,
    r#type: collect_datatype,
    options: *const collect_call_options,
    request: *mut *mut collect_request,
) -> collect_status {
    // SAFETY: NULL or as their names say, until this returns (contract above).
    let caller = unsafe { Caller::new(world, options, request) };
    caller.run(|calling| {
        let datatype = Datatype::try_from(r#type)?;
        let bytes = bytes_of(count, datatype.bytes())?;
        let all = bytes_of(calling.size(), bytes)?;
        // SAFETY: readable for as many bytes while it is lent (contract above).
        let source = unsafe { caller::source(send, bytes, "send") }?;
        // SAFETY: writable for as many bytes while it is lent (contract above).
        let target = unsafe { caller::target(recv, all, "recv") }?;
        calling.perform(&Call::Allgather { source, target, datatype })
    })
}

/// Copies the `send` of every rank into the `recv` of every rank, of a length of its own each.
///
/// `counts` has an entry for each rank of the world: the elements that it brings. Every rank passes the same
/// counts, and a `send_count` that is its own entry. `displacements` has an entry for each rank, too: the
/// element of `recv` at which its part begins. NULL: the parts lie one after the other. Ranks may differ in
/// their displacements.
///
/// In place where `send` is this rank's part of `recv`. Parts that overlap each other, or what is sent, are
/// refused. What lies between the parts is not touched.
///
/// The lists are read before the call returns, and may be changed then, also if there is a request.
///
/// No rank sends or receives more than the result once: p-1 steps in a ring of p ranks, or log2(p) steps in
/// trees where the result is small.
///
/// Errors: as `collect_allreduce`. Ranks with other counts get `COLLECT_ERR_MISMATCH`, all of them.
///
/// ```c
/// const size_t counts[] = {1, 2, 3}; // in a world of 3 ranks
/// float all[6];
/// status = collect_allgatherv(world, mine, counts[rank], all, counts, NULL, COLLECT_F32, NULL, NULL);
/// ```
///
///
/// # Safety
///
/// - `world`: live; NULL is an error.
/// - `send`: readable for `send_count` elements while it is lent; NULL is an error unless `send_count` is 0.
/// - `recv`: writable for every part while it is lent; NULL is an error unless all counts are 0.
/// - `counts`: an entry for each rank; NULL is an error.
/// - `displacements`: an entry for each rank, or NULL.
/// - `options`: NULL for the defaults, else `struct_size` is set, and as much can be read.
/// - `request`: NULL to block; else writable, and receives a request that the caller frees.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn collect_allgatherv(
    world: *mut collect_world,
    send: *const c_void,
    send_count: usize,
    recv: *mut c_void,
    counts: *const usize,
    displacements: *const usize,
    r#type: collect_datatype,
    options: *const collect_call_options,
    request: *mut *mut collect_request,
) -> collect_status {
    // SAFETY: NULL or as their names say, until this returns (contract above).
    let caller = unsafe { Caller::new(world, options, request) };
    caller.run(|calling| {
        let datatype = Datatype::try_from(r#type)?;
        // SAFETY: NULL, or an entry for each rank (contract above).
        let lists = unsafe { caller::lists((counts, "counts"), displacements, calling.size()) }?;
        let (bytes, all) =
            (bytes_of(send_count, datatype.bytes())?, lists.extent(datatype.bytes())?);
        // SAFETY: readable for as many bytes while it is lent (contract above).
        let source = unsafe { caller::source(send, bytes, "send") }?;
        // SAFETY: writable for as many bytes while it is lent (contract above).
        let target = unsafe { caller::target(recv, all, "recv") }?;
        let Lists { counts, displacements } = lists;
        calling.perform(&Call::Allgatherv { source, target, counts, displacements, datatype })
    })
}

/// Copies the `send` of every rank, one after the other by rank, into the `recv` of rank `root`.
///
/// Every rank calls it with the same count, type and root. `send` has `count` elements; on the root `recv`
/// has as many for each rank of the world, and rank r's begin at element `r * count`. On other ranks `recv`
/// is ignored and not touched: it may be NULL.
///
/// On the root it works in place where `send` is its part of `recv`; else the two must not overlap.
///
/// A rank's part may have ended before the root has everything: what others wait for is a barrier.
///
/// Small parts go up a tree of log2(p) steps in p ranks; large ones go to the root directly, some at a time,
/// so that it is not flooded.
///
/// Errors: as `collect_allreduce`, and
///
/// - `COLLECT_ERR_INVALID_ARGUMENT`: `root` is no rank of the world.
///
/// ```c
/// float all[2 * 4]; // in a world of 4 ranks; only the root's is written
/// status = collect_gather(world, mine, all, 2, COLLECT_F32, 0, NULL, NULL);
/// ```
///
///
/// # Safety
///
/// - `world`: live; NULL is an error.
/// - `send`: readable for `count` elements while it is lent; NULL is an error unless `count` is 0.
/// - `recv`: on the root writable for `count` elements of each rank while it is lent; NULL is an error there
///   unless `count` is 0. Anything elsewhere.
/// - `options`: NULL for the defaults, else `struct_size` is set, and as much can be read.
/// - `request`: NULL to block; else writable, and receives a request that the caller frees.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn collect_gather(
    world: *mut collect_world,
    send: *const c_void,
    recv: *mut c_void,
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
        let all = if calling.is(root) { bytes_of(calling.size(), bytes)? } else { 0 };
        // SAFETY: readable for as many bytes while it is lent (contract above).
        let source = unsafe { caller::source(send, bytes, "send") }?;
        // SAFETY: writable for as many bytes while it is lent (contract above).
        let target = unsafe { caller::target(recv, all, "recv") }?;
        calling.perform(&Call::Gather { source, target, datatype, root })
    })
}

/// Copies the `send` of every rank into the `recv` of rank `root`, of a length of its own each.
///
/// On the root `counts` has an entry for each rank of the world: the elements that it brings, which is its
/// `send_count`; and `displacements` the element of `recv` at which its part begins. NULL: the parts lie one
/// after the other. On other ranks `recv`, `counts` and `displacements` are ignored: they may be NULL.
///
/// On the root it works in place where `send` is its part of `recv`. Parts that overlap each other, or what
/// is sent, are refused. What lies between the parts is not touched.
///
/// The lists are read before the call returns.
///
/// A rank that sends another length than the root expects of it is found when its message comes: both get
/// `COLLECT_ERR_MISMATCH`, and nothing is written.
///
/// Errors: as `collect_gather`.
///
/// ```c
/// status = collect_gatherv(world, mine, mine_count, all, counts, NULL, COLLECT_F32, 0, NULL, NULL);
/// ```
///
///
/// # Safety
///
/// - `world`: live; NULL is an error.
/// - `send`: readable for `send_count` elements while it is lent; NULL is an error unless `send_count` is 0.
/// - `recv`: on the root writable for every part while it is lent; NULL is an error there unless all counts
///   are 0. Anything elsewhere.
/// - `counts`: on the root an entry for each rank; NULL is an error there. Anything elsewhere.
/// - `displacements`: on the root an entry for each rank, or NULL. Anything elsewhere.
/// - `options`: NULL for the defaults, else `struct_size` is set, and as much can be read.
/// - `request`: NULL to block; else writable, and receives a request that the caller frees.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn collect_gatherv(
    world: *mut collect_world,
    send: *const c_void,
    send_count: usize,
    recv: *mut c_void,
    counts: *const usize,
    displacements: *const usize,
    r#type: collect_datatype,
    root: i32,
    options: *const collect_call_options,
    request: *mut *mut collect_request,
) -> collect_status {
    // SAFETY: NULL or as their names say, until this returns (contract above).
    let caller = unsafe { Caller::new(world, options, request) };
    caller.run(|calling| {
        let (datatype, root) = (Datatype::try_from(r#type)?, number(root, "root")?);
        let size = if calling.is(root) { calling.size() } else { 0 };
        // SAFETY: on the root NULL, or an entry for each rank (contract above); none is read elsewhere.
        let lists = unsafe { caller::lists((counts, "counts"), displacements, size) }?;
        let (bytes, all) =
            (bytes_of(send_count, datatype.bytes())?, lists.extent(datatype.bytes())?);
        // SAFETY: readable for as many bytes while it is lent (contract above).
        let source = unsafe { caller::source(send, bytes, "send") }?;
        // SAFETY: writable for as many bytes while it is lent (contract above).
        let target = unsafe { caller::target(recv, all, "recv") }?;
        let Lists { counts, displacements } = lists;
        calling.perform(&Call::Gatherv { source, target, counts, displacements, datatype, root })
    })
}
