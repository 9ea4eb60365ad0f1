//! Scatters and exchanges: a part for every rank, from one rank or from all.

use std::ffi::c_void;

use super::caller::{self, Caller, Lists};
use super::options::collect_call_options;
use super::pointer::{bytes_of, number};
use super::request::collect_request;
use super::status::collect_status;
use super::types::collect_datatype;
use super::world::collect_world;
use crate::{Call, Datatype};

/// Cuts the `send` of rank `root` by rank, and copies one part into the `recv` of every rank.
///
/// Every rank calls it with the same count, type and root. `recv` has `count` elements; on the root `send`
/// has as many for each rank of the world, and rank r's begin at element `r * count`. On other ranks `send`
/// is ignored: it may be NULL.
///
/// On the root it works in place where `recv` is its part of `send`; else the two must not overlap.
///
/// The root's part may have ended before other ranks have theirs.
///
/// Small parts go down a tree of log2(p) steps in p ranks; large ones go from the root directly.
///
/// Errors: as `collect_allreduce`, and
///
/// - `COLLECT_ERR_INVALID_ARGUMENT`: `root` is no rank of the world.
///
/// ```c
/// float all[2 * 4]; // in a world of 4 ranks; only the root's is read
/// status = collect_scatter(world, all, mine, 2, COLLECT_F32, 0, NULL, NULL);
/// ```
///
///
/// # Safety
///
/// - `world`: live; NULL is an error.
/// - `send`: on the root readable for `count` elements of each rank while it is lent; NULL is an error there
///   unless `count` is 0. Anything elsewhere.
/// - `recv`: writable for `count` elements while it is lent; NULL is an error unless `count` is 0.
/// - `options`: NULL for the defaults, else `struct_size` is set, and as much can be read.
/// - `request`: NULL to block; else writable, and receives a request that the caller frees.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn collect_scatter(
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
        let source = unsafe { caller::source(send, all, "send") }?;
        // SAFETY: writable for as many bytes while it is lent (contract above).
        let target = unsafe { caller::target(recv, bytes, "recv") }?;
        calling.perform(&Call::Scatter { source, target, datatype, root })
    })
}

/// Copies one part of the `send` of rank `root` into the `recv` of every rank, of a length of its own each.
///
/// On the root `counts` has an entry for each rank of the world: the elements that it gets, which is its
/// `recv_count`; and `displacements` the element of `send` at which its part begins. NULL: the parts lie one
/// after the other. They may overlap: one part may go to several ranks. On other ranks `send`, `counts` and
/// `displacements` are ignored: they may be NULL.
///
/// On the root it works in place where `recv` is its part of `send`; else the two must not overlap.
///
/// The lists are read before the call returns.
///
/// A rank that expects another length than the root sends is found when the message comes: both get
/// `COLLECT_ERR_MISMATCH`, and nothing is written.
///
/// Errors: as `collect_scatter`.
///
/// ```c
/// status = collect_scatterv(world, all, counts, NULL, mine, mine_count, COLLECT_F32, 0, NULL, NULL);
/// ```
///
///
/// # Safety
///
/// - `world`: live; NULL is an error.
/// - `send`: on the root readable for every part while it is lent; NULL is an error there unless all counts
///   are 0. Anything elsewhere.
/// - `counts`: on the root an entry for each rank; NULL is an error there. Anything elsewhere.
/// - `displacements`: on the root an entry for each rank, or NULL. Anything elsewhere.
/// - `recv`: writable for `recv_count` elements while it is lent; NULL is an error unless `recv_count` is 0.
/// - `options`: NULL for the defaults, else `struct_size` is set, and as much can be read.
/// - `request`: NULL to block; else writable, and receives a request that the caller frees.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn collect_scatterv(
    world: *mut collect_world,
    send: *const c_void,
    counts: *const usize,
    displacements: *const usize,
    recv: *mut c_void,
    recv_count: usize,
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
            (bytes_of(recv_count, datatype.bytes())?, lists.extent(datatype.bytes())?);
        // SAFETY: readable for as many bytes while it is lent (contract above).
        let source = unsafe { caller::source(send, all, "send") }?;
        // SAFETY: writable for as many bytes while it is lent (contract above).
        let target = unsafe { caller::target(recv, bytes, "recv") }?;
        let Lists { counts, displacements } = lists;
        calling.perform(&Call::Scatterv { source, target, counts, displacements, datatype, root })
    })
}

/// Exchanges parts of one length among all ranks: part i of rank j becomes part j of rank i.
///
/// Every rank calls it with the same count and type. `send` and `recv` have `count` elements for each rank of
/// the world: those at element `r * count` of `send` go to rank r, those at element `r * count` of `recv` come
/// from it.
///
/// `send == recv` works in place, with scratch of the library for a slice of a part; else the two must not
/// overlap.
///
/// Small parts travel together, in log2(p) steps of half the buffer in p ranks; large ones go from each rank
/// to each directly, a few at a time.
///
/// Errors: as `collect_allreduce`.
///
/// ```c
/// int32_t send[4], recv[4]; // in a world of 4 ranks
/// for (int r = 0; r < 4; r++) send[r] = 10 * rank + r;
/// status = collect_alltoall(world, send, recv, 1, COLLECT_I32, NULL, NULL); // recv[r] is 10 * r + rank
/// ```
///
///
/// # Safety
///
/// - `world`: live; NULL is an error.
/// - `send`: readable for `count` elements of each rank while it is lent; NULL is an error unless `count` is 0.
/// - `recv`: writable for `count` elements of each rank while it is lent; NULL is an error unless `count` is 0.
/// - `options`: NULL for the defaults, else `struct_size` is set, and as much can be read.
/// - `request`: NULL to block; else writable, and receives a request that the caller frees.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn collect_alltoall(
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
        let all = bytes_of(calling.size(), bytes_of(count, datatype.bytes())?)?;
        // SAFETY: readable for as many bytes while it is lent (contract above).
        let source = unsafe { caller::source(send, all, "send") }?;
        // SAFETY: writable for as many bytes while it is lent (contract above).
        let target = unsafe { caller::target(recv, all, "recv") }?;
        calling.perform(&Call::Alltoall { source, target, datatype })
    })
}

/// Exchanges parts among all ranks, of a length of its own each.
///
/// The four lists have an entry for each rank r of the world: `send_counts[r]` elements from element
/// `send_displacements[r]` of `send` on go to rank r; `recv_counts[r]` elements from element
/// `recv_displacements[r]` of `recv` on come from it. Displacements that are NULL: the parts lie one after the
/// other. What one rank sends to another is as much as that one expects of it.
///
/// `send == recv` works in place if counts and displacements of both sides are equal: each part is then
/// replaced by what comes from that rank. Else parts that are sent and parts that are received must not
/// overlap, nor the latter each other. The former may: one part may go to several ranks.
///
/// The lists are read before the call returns.
///
/// A pair of ranks that disagree about a length is found when the message comes: both get
/// `COLLECT_ERR_MISMATCH`, and nothing is written.
///
/// Errors: as `collect_allreduce`.
///
/// ```c
/// status = collect_alltoallv(world, send, send_counts, NULL, recv, recv_counts, NULL, COLLECT_F32, NULL, NULL);
/// ```
///
///
/// # Safety
///
/// - `world`: live; NULL is an error.
/// - `send`: readable for every part while it is lent; NULL is an error unless all its counts are 0.
/// - `send_counts`, `recv_counts`: an entry for each rank; NULL is an error.
/// - `send_displacements`, `recv_displacements`: an entry for each rank, or NULL.
/// - `recv`: writable for every part while it is lent; NULL is an error unless all its counts are 0.
/// - `options`: NULL for the defaults, else `struct_size` is set, and as much can be read.
/// - `request`: NULL to block; else writable, and receives a request that the caller frees.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn collect_alltoallv(
    world: *mut collect_world,
    send: *const c_void,
    send_counts: *const usize,
    send_displacements: *const usize,
    recv: *mut c_void,
    recv_counts: *const usize,
    recv_displacements: *const usize,
    r#type: collect_datatype,
    options: *const collect_call_options,
    request: *mut *mut collect_request,
) -> collect_status {
    // SAFETY: NULL or as their names say, until this returns (contract above).
    let caller = unsafe { Caller::new(world, options, request) };
    caller.run(|calling| {
        let datatype = Datatype::try_from(r#type)?;
        let (sent, received) = ((send_counts, "send_counts"), (recv_counts, "recv_counts"));
        // SAFETY: NULL, or an entry for each rank (contract above).
        let sent = unsafe { caller::lists(sent, send_displacements, calling.size()) }?;
        // SAFETY: NULL, or an entry for each rank (contract above).
        let received = unsafe { caller::lists(received, recv_displacements, calling.size()) }?;
        // SAFETY: readable for as many bytes while it is lent (contract above).
        let source = unsafe { caller::source(send, sent.extent(datatype.bytes())?, "send") }?;
        // SAFETY: writable for as many bytes while it is lent (contract above).
        let target = unsafe { caller::target(recv, received.extent(datatype.bytes())?, "recv") }?;
        calling.perform(&caller::alltoallv((source, sent), (target, received), datatype))
    })
}
