//! Messages from one rank to another.

use std::ffi::c_void;

use super::caller::{self, Caller};
use super::options::collect_call_options;
use super::pointer::{bytes_of, number};
use super::request::collect_request;
use super::status::collect_status;
use super::types::collect_datatype;
use super::world::collect_world;
use crate::error::Error;
use crate::{Call, Datatype};

/// In the place of a sending rank: whichever message with the tag comes first.
/// `collect_request_source` tells whose it was.
pub const COLLECT_ANY_RANK: i32 = -1;

/// Sends `count` elements to rank `to`, which receives them by `collect_recv` with the same tag and type.
///
/// It ends when `send` may be changed again. That may be before the message has been received: small ones are
/// kept at the receiver until it asks for them, as long as there is room. A large one waits for its receive,
/// so two ranks that send to each other and only then receive wait for ever: see `collect_sendrecv`.
///
/// Messages of one rank to another with one tag are received in the order in which they are sent. Messages
/// with other tags, and collectives, do not disturb this order. A rank may send to itself.
///
/// The receiver must ask for exactly as many elements: else both get `COLLECT_ERR_MISMATCH`, and nothing is
/// written.
///
/// With `request` NULL the call returns when it has ended. Else it returns at once, and `send` is lent until
/// the operation has ended.
///
/// Errors: as `collect_allreduce`, and
///
/// - `COLLECT_ERR_INVALID_ARGUMENT`: `to` is no rank of the world, or the options have a key.
///
/// ```c
/// if (rank == 0) status = collect_send(world, x, 1000, COLLECT_F32, 1, 7, NULL, NULL);
/// if (rank == 1) status = collect_recv(world, x, 1000, COLLECT_F32, 0, 7, NULL, NULL);
/// ```
///
///
/// # Safety
///
/// - `world`: live; NULL is an error.
/// - `send`: readable for `count` elements while it is lent; NULL is an error unless `count` is 0.
/// - `options`: NULL for the defaults, else `struct_size` is set, and as much can be read.
/// - `request`: NULL to block; else writable, and receives a request that the caller frees.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn collect_send(
    world: *mut collect_world,
    send: *const c_void,
    count: usize,
    r#type: collect_datatype,
    to: i32,
    tag: u64,
    options: *const collect_call_options,
    request: *mut *mut collect_request,
) -> collect_status {
    // SAFETY: NULL or as their names say, until this returns (contract above).
    let caller = unsafe { Caller::new(world, options, request) };
    caller.run(|calling| {
        let (datatype, to) = (Datatype::try_from(r#type)?, number(to, "to")?);
        let bytes = bytes_of(count, datatype.bytes())?;
        // SAFETY: readable for as many bytes while it is lent (contract above).
        let source = unsafe { caller::source(send, bytes, "send") }?;
        calling.perform(&Call::Send { source, datatype, to, tag })
    })
}

/// Receives `count` elements that rank `from` sends by `collect_send` with the same tag and type.
///
/// `from` may be `COLLECT_ANY_RANK`: then it receives the message with this tag that comes first, whoever has
/// sent it, and `collect_request_source` tells who. If a message fits a receive from its sender and one from
/// any rank, the one that was called first gets it.
///
/// With `request` NULL the call returns when the message is there. Else it returns at once, and `recv` is
/// lent until the operation has ended.
///
/// A message of another length is an error of both sides: `COLLECT_ERR_MISMATCH`, and nothing is written.
///
/// Errors: as `collect_allreduce`, and
///
/// - `COLLECT_ERR_INVALID_ARGUMENT`: `from` is no rank of the world, or the options have a key.
///
/// ```c
/// status = collect_recv(world, x, 1000, COLLECT_F32, COLLECT_ANY_RANK, 7, NULL, &request);
/// if (status == COLLECT_OK) status = collect_request_wait(request, -1);
/// if (status == COLLECT_OK) status = collect_request_source(request, &from);
/// ```
///
///
/// # Safety
///
/// - `world`: live; NULL is an error.
/// - `recv`: writable for `count` elements while it is lent; NULL is an error unless `count` is 0.
/// - `options`: NULL for the defaults, else `struct_size` is set, and as much can be read.
/// - `request`: NULL to block; else writable, and receives a request that the caller frees.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn collect_recv(
    world: *mut collect_world,
    recv: *mut c_void,
    count: usize,
    r#type: collect_datatype,
    from: i32,
    tag: u64,
    options: *const collect_call_options,
    request: *mut *mut collect_request,
) -> collect_status {
    // SAFETY: NULL or as their names say, until this returns (contract above).
    let caller = unsafe { Caller::new(world, options, request) };
    caller.run(|calling| {
        let (datatype, from) = (Datatype::try_from(r#type)?, sender(from)?);
        let bytes = bytes_of(count, datatype.bytes())?;
        // SAFETY: writable for as many bytes while it is lent (contract above).
        let target = unsafe { caller::target(recv, bytes, "recv") }?;
        calling.perform(&Call::Receive { target, datatype, from, tag })
    })
}

/// Sends a message and receives another one, at the same time.
///
/// As `collect_send` and `collect_recv` with the arguments of each; both are under way at once, so that all
/// ranks of a ring can pass something on without one of them waiting for another's receive. The two buffers
/// must not overlap.
///
/// The two messages need have nothing to do with each other: other ranks may use `collect_send` and
/// `collect_recv` at their ends.
///
/// With `request` NULL the call returns when both have ended. Else it returns at once, and the request ends
/// when both have.
///
/// Errors: as `collect_send` and `collect_recv`.
///
/// ```c
/// const int32_t next = (rank + 1) % size;
/// const int32_t before = (rank + size - 1) % size;
/// status = collect_sendrecv(world, mine, 8, next, 0, theirs, 8, before, 0, COLLECT_F32, NULL, NULL);
/// ```
///
///
/// # Safety
///
/// - `world`: live; NULL is an error.
/// - `send`: readable for `send_count` elements while it is lent; NULL is an error unless `send_count` is 0.
/// - `recv`: writable for `recv_count` elements while it is lent; NULL is an error unless `recv_count` is 0.
/// - `options`: NULL for the defaults, else `struct_size` is set, and as much can be read.
/// - `request`: NULL to block; else writable, and receives a request that the caller frees.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn collect_sendrecv(
    world: *mut collect_world,
    send: *const c_void,
    send_count: usize,
    to: i32,
    send_tag: u64,
    recv: *mut c_void,
    recv_count: usize,
    from: i32,
    recv_tag: u64,
    r#type: collect_datatype,
    options: *const collect_call_options,
    request: *mut *mut collect_request,
) -> collect_status {
    // SAFETY: NULL or as their names say, until this returns (contract above).
    let caller = unsafe { Caller::new(world, options, request) };
    caller.run(|calling| {
        let datatype = Datatype::try_from(r#type)?;
        let (to, from) = (number(to, "to")?, sender(from)?);
        let sent = bytes_of(send_count, datatype.bytes())?;
        let received = bytes_of(recv_count, datatype.bytes())?;
        // SAFETY: readable for as many bytes while it is lent (contract above).
        let source = unsafe { caller::source(send, sent, "send") }?;
        // SAFETY: writable for as many bytes while it is lent (contract above).
        let target = unsafe { caller::target(recv, received, "recv") }?;
        let send = Call::Send { source, datatype, to, tag: send_tag };
        calling.exchange(&send, &Call::Receive { target, datatype, from, tag: recv_tag })
    })
}

/// The rank that a message comes from; `None` for any.
fn sender(from: i32) -> Result<Option<usize>, Error> {
    if from == COLLECT_ANY_RANK { Ok(None) } else { number(from, "from").map(Some) }
}
