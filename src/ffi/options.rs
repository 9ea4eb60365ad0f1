//! What can be chosen about a world, a fork or a call.

use std::ffi::c_char;
use std::sync::Arc;

use super::batch::collect_batch;
use super::pointer;
use super::reduction::collect_reduction;
use super::sized::{self, Options};
use super::types::{collect_algorithm, collect_connect, collect_wait};
use crate::error::Error;
use crate::{CallOptions, ForkOptions, WorldOptions};

/// Options of the functions that create a world. A field that is 0 or NULL has its default.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct collect_world_options {
    /// `sizeof(collect_world_options)`.
    pub struct_size: usize,
    /// The world's name, UTF-8, in messages and in the store's keys, equal on all ranks; NULL: "world".
    /// Two worlds that one store serves at one time need different names.
    pub name: *const c_char,
    /// Where this process listens: "address" or "address:port"; NULL: what the environment variable
    /// LIBCOLLECT_LISTEN says, else every address and a port of the system's choice.
    pub listen: *const c_char,
    /// How long an operation may take if its call does not say, and how long the creation may take, in
    /// nanoseconds; 0: ten minutes; negative: for ever.
    pub timeout_ns: i64,
    /// What threads do while they wait.
    /// One of the `COLLECT_WAIT_` constants.
    pub wait: collect_wait,
    /// When connections are made.
    /// One of the `COLLECT_CONNECT_` constants.
    pub connect: collect_connect,
    /// Which algorithm serves which call, as text: what `collect bench tune` writes. Rank 0's counts for all
    /// ranks; another rank's must be the same, or NULL, else the creation fails. NULL: on rank 0, the file
    /// that the environment variable LIBCOLLECT_TABLE names, else the library's own table. Before its lines
    /// count those that LIBCOLLECT_ALGORITHM gives on rank 0, such as "allreduce=ring,alltoall=pairwise:16".
    pub table: *const c_char,
    /// How often a rank that waits asks the ranks that it waits for whether they live, in nanoseconds; 0: every
    /// 10 seconds; negative: never; at most every ms. One that says nothing for three times as long is lost
    /// (`COLLECT_ERR_PEER_LOST`): its process is stopped, or its host cannot be reached.
    pub heartbeat_ns: i64,
    /// How long `collect_world_destroy` of the last world of those that were forked from each other may wait
    /// for what was sent to arrive, in nanoseconds; 0: one second; negative: until it has.
    pub destroy_timeout_ns: i64,
    /// 1: every payload carries a checksum (CRC32C), which is compared before a byte of it counts; equal on all
    /// ranks. It costs a copy of what comes in. TCP's own checksum finds most damage, but not all.
    pub checksum: i32,
    /// 1: a signal that a thread handles while it waits for requests ends the wait with `COLLECT_INTERRUPTED`;
    /// the operation goes on. 0: waits go on after a signal. Forks are as their parent.
    ///
    /// It ends `collect_request_wait`, `_wait_any` and `_wait_all` only. A call that blocks goes on: there would
    /// be no handle left of what it began, so start the operation with a request, and wait for that. A signal
    /// is noticed while the thread sleeps, not just before nor while it works on what has come. So a program
    /// that must miss none waits in slices of time, and looks in between at what its handler has left:
    ///
    /// ```c
    /// do
    ///   status = collect_request_wait(request, 100000000); // 0.1 s
    /// while (!stop && (status == COLLECT_IN_PROGRESS || status == COLLECT_INTERRUPTED));
    /// ```
    ///
    /// A thread that waits does not spin for longer than 50 us then, whatever `wait` says. (A process that was
    /// stopped, and goes on, may see that as a signal.)
    pub interruptible: i32,
}

/// Options of `collect_world_fork`. A field that is 0 or NULL has its default.
///
/// ```c
/// const int32_t even[] = {0, 2, 4, 6};
/// collect_fork_options options;
/// memset(&options, 0, sizeof options);
/// options.struct_size = sizeof options;
/// options.members = even;
/// options.members_count = 4;
/// if (rank % 2 == 0) status = collect_world_fork(world, &options, &fork);
/// ```
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct collect_fork_options {
    /// `sizeof(collect_fork_options)`.
    pub struct_size: usize,
    /// The fork's name, UTF-8, in messages, equal on all members; NULL: the parent's with a number.
    pub name: *const c_char,
    /// The parent's ranks that become members, in the order of their new ranks, equal on all members;
    /// NULL: all ranks. A rank that is not listed does not call.
    pub members: *const i32,
    /// How many ranks `members` has; 0 if it is NULL.
    pub members_count: usize,
    /// How long an operation of the fork may take if its call does not say, and how long the fork itself
    /// may take, in nanoseconds; 0: as the parent; negative: for ever.
    pub timeout_ns: i64,
    /// If `has_key` is 1: forks of the same members with equal keys match, whatever their order among others.
    /// Any number is a key, 0 too. Uses of one key match in their order.
    pub key: u64,
    /// 1: `key` is set. 0: forks of the same members match in the order of the calls.
    pub has_key: i32,
    /// Must be 0.
    /// Anything else is `COLLECT_ERR_UNSUPPORTED`.
    pub reserved: i32,
}

/// Options of a collective or a message. A field that is 0 or NULL has its default.
///
/// ```c
/// collect_call_options options;
/// memset(&options, 0, sizeof options);
/// options.struct_size = sizeof options;
/// options.timeout_ns = 5000000000; // 5 seconds
/// status = collect_barrier(world, &options, NULL);
/// ```
///
/// Threads that finish their work in any order call on one world, each with the key of its piece of work:
///
/// ```c
/// options.key = layer;
/// options.has_key = 1;
/// status = collect_allreduce(world, x, x, n, COLLECT_F32, COLLECT_SUM, &options, NULL);
/// ```
///
/// An average that weighs each rank by the samples that it has seen:
///
/// ```c
/// options.factor = (double)samples_here / samples_in_all;
/// status = collect_allreduce(world, x, x, n, COLLECT_F32, COLLECT_PREMUL_SUM, &options, NULL);
/// ```
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct collect_call_options {
    /// `sizeof(collect_call_options)`.
    pub struct_size: usize,
    /// How long the operation may take, in nanoseconds; 0: as the world says; negative: for ever. When it
    /// passes, the world fails.
    pub timeout_ns: i64,
    /// The algorithm, equal on all ranks.
    /// One of the `COLLECT_ALGORITHM_` constants.
    pub algorithm: collect_algorithm,
    /// Must be 0.
    /// Anything else is `COLLECT_ERR_UNSUPPORTED`.
    pub reserved: i32,
    /// If `has_key` is 1: calls with equal keys match, whatever their order among others.
    ///
    /// Threads that share a world without an order among their calls pass keys. Any number is a key, 0 too. A
    /// key may be used again and again: its uses match in their order on each rank. Calls with keys and calls
    /// without do not disturb each other's order. Messages have tags in the place of keys.
    pub key: u64,
    /// 1: `key` is set. 0: calls match in the order in which they are made.
    pub has_key: i32,
    /// The parameter of `algorithm`, equal on all ranks: of `COLLECT_ALGORITHM_KNOMIAL` the k, of
    /// `COLLECT_ALGORITHM_PAIRWISE` the messages at once. 0: the algorithm's default.
    pub degree: i32,
    /// What `COLLECT_PREMUL_SUM` multiplies this rank's elements by. Ranks may differ in it.
    ///
    /// Of integers, a whole number. 0 is a factor too: it leaves this rank out of the sum.
    pub factor: f64,
    /// The reduction that `COLLECT_CUSTOM` does.
    /// Must be NULL with every other operation.
    pub reduction: *mut collect_reduction,
    /// Where the call is recorded, in the place of being made; `collect_batch_start` makes it.
    /// With a batch, `request` must be NULL.
    pub batch: *mut collect_batch,
}

/// What a caller chose about a call.
#[derive(Debug)]
pub(super) struct Chosen {
    pub(super) options: CallOptions,
    pub(super) batch: Option<Arc<collect_batch>>,
}

const WORD: usize = size_of::<usize>();
const _: () = assert!(size_of::<collect_world_options>() == 4 * WORD + 8 + 4 + 4 + 2 * 8 + 2 * 4);
const _: () = assert!(size_of::<collect_fork_options>() == 4 * WORD + 8 + 8 + 4 + 4);
const _: () = assert!(size_of::<collect_call_options>() == 3 * WORD + 8 + 4 + 4 + 8 + 4 + 4 + 8);

// SAFETY: the size comes first, the rest are numbers and raw pointers, and the assertion above excludes padding.
unsafe impl Options for collect_world_options {}
// SAFETY: as above.
unsafe impl Options for collect_fork_options {}
// SAFETY: as above.
unsafe impl Options for collect_call_options {}

impl collect_world_options {
    /// Reads what the caller chose.
    ///
    /// # Safety
    ///
    /// `source` is NULL, or as large as it says, and its strings end with NUL.
    pub(super) unsafe fn read(source: *const Self) -> Result<WorldOptions, Error> {
        // SAFETY: NULL or as large as it says (contract above).
        let options = unsafe { sized::read(source) }?;
        // SAFETY: NULL or a string (contract above).
        let name = unsafe { pointer::text(options.name, "name") }?;
        // SAFETY: NULL or a string (contract above).
        let listen = unsafe { pointer::text(options.listen, "listen") }?;
        // SAFETY: NULL or a string (contract above).
        let table = unsafe { pointer::text(options.table, "table") }?;
        Ok(WorldOptions {
            name: name.unwrap_or_default().to_owned(),
            timeout: options.timeout_ns.into(),
            wait: options.wait.try_into()?,
            connect: options.connect.try_into()?,
            listen: listen.map(str::to_owned),
            table: table.map(str::to_owned),
            checksum: pointer::flag(options.checksum, "checksum")?,
            heartbeat: options.heartbeat_ns.into(),
            destroy_timeout: options.destroy_timeout_ns.into(),
            interruptible: pointer::flag(options.interruptible, "interruptible")?,
        })
    }
}

impl collect_fork_options {
    /// Reads what the caller chose.
    ///
    /// # Safety
    ///
    /// `source` is NULL, or as large as it says; its string ends with NUL, and its list is as long as it says.
    pub(super) unsafe fn read(source: *const Self) -> Result<ForkOptions, Error> {
        // SAFETY: NULL or as large as it says (contract above).
        let options: Self = unsafe { sized::read(source) }?;
        if options.reserved != 0 {
            return Err(sized::unknown());
        }
        // SAFETY: NULL or a string (contract above).
        let name = unsafe { pointer::text(options.name, "name") }?;
        // SAFETY: NULL or as long as it says (contract above).
        let listed =
            unsafe { pointer::elements(options.members, options.members_count, "members") }?;
        let listed = listed.iter().map(|rank| pointer::number(*rank, "a member"));
        let members = listed.collect::<Result<_, _>>()?;
        Ok(ForkOptions {
            name: name.unwrap_or_default().to_owned(),
            members: (!options.members.is_null()).then_some(members),
            key: key(options.key, options.has_key)?,
            timeout: options.timeout_ns.into(),
        })
    }
}

impl collect_call_options {
    /// Reads what the caller chose.
    ///
    /// # Safety
    ///
    /// `source` is NULL, or as large as it says, and its handles are NULL or live.
    pub(super) unsafe fn read(source: *const Self) -> Result<Chosen, Error> {
        // SAFETY: NULL or as large as it says (contract above).
        let options: Self = unsafe { sized::read(source) }?;
        if options.reserved != 0 {
            return Err(sized::unknown());
        }
        // SAFETY: NULL or live (contract above).
        let reduction = unsafe { pointer::borrow(options.reduction) };
        // SAFETY: NULL or live (contract above).
        let batch = unsafe { pointer::borrow(options.batch) };
        let options = CallOptions {
            timeout: options.timeout_ns.into(),
            algorithm: options.algorithm.try_into()?,
            degree: u16::try_from(options.degree).map_err(|_| {
                Error::InvalidArgument(format!("degree must fit 16 bits, it is {}", options.degree))
            })?,
            key: key(options.key, options.has_key)?,
            factor: options.factor,
            custom: reduction.map(|reduction| Arc::clone(&reduction.custom)),
        };
        Ok(Chosen { options, batch })
    }
}

/// A key, if there is one.
fn key(key: u64, has_key: i32) -> Result<Option<u64>, Error> {
    match (pointer::flag(has_key, "has_key")?, key) {
        (true, key) => Ok(Some(key)),
        (false, 0) => Ok(None),
        (false, key) => Err(Error::InvalidArgument(format!(
            "key is {key} and has_key is 0: set has_key to 1, or leave the key out"
        ))),
    }
}

#[cfg(test)]
mod tests {
    use std::ptr;

    use super::*;
    use crate::config::Timeout;

    /// Options that are all defaults.
    fn call_options() -> collect_call_options {
        // SAFETY: NULL is allowed, and all zeros are a value.
        let options = unsafe { sized::read(ptr::null()) };
        let struct_size = size_of::<collect_call_options>();
        collect_call_options { struct_size, ..options.unwrap() }
    }

    fn read(options: &collect_call_options) -> Result<CallOptions, Error> {
        // SAFETY: as large as it says, without handles.
        unsafe { collect_call_options::read(options) }.map(|chosen| chosen.options)
    }

    #[test]
    fn calls_are_read() {
        let options = call_options();
        let chosen = read(&collect_call_options { timeout_ns: -1, ..options }).unwrap();
        let timing = (chosen.timeout, chosen.algorithm, chosen.degree);
        assert_eq!(timing, (Timeout::Never, None, 0));
        assert_eq!((chosen.key, chosen.factor, chosen.custom.is_none()), (None, 0.0, true));
        let chosen = read(&collect_call_options { has_key: 1, degree: 7, factor: 0.5, ..options });
        let chosen = chosen.unwrap();
        assert_eq!((chosen.key, chosen.degree, chosen.factor), (Some(0), 7, 0.5));
    }

    #[test]
    fn what_is_reserved_or_no_value_is_refused() {
        let options = call_options();
        let refused = |options: collect_call_options| read(&options).unwrap_err();
        assert_eq!(refused(collect_call_options { reserved: 1, ..options }), sized::unknown());
        for (options, expected) in [
            (collect_call_options { key: 5, ..options }, "key is 5 and has_key is 0"),
            (collect_call_options { has_key: 2, ..options }, "has_key must be 0 or 1, it is 2"),
            (collect_call_options { degree: -1, ..options }, "degree must fit 16 bits, it is -1"),
            (collect_call_options { degree: 65536, ..options }, "it is 65536"),
        ] {
            let text = refused(options).to_string();
            assert!(text.contains(expected), "{text}");
        }
    }

    #[test]
    fn a_list_of_members_is_read() {
        let ranks = [2, 0];
        let mut options = collect_fork_options {
            struct_size: size_of::<collect_fork_options>(),
            name: c"pair".as_ptr(),
            members: ranks.as_ptr(),
            members_count: 2,
            timeout_ns: 5,
            key: 9,
            has_key: 1,
            reserved: 0,
        };
        // SAFETY: as large as it says, and so is its list.
        let read = unsafe { collect_fork_options::read(&raw const options) }.unwrap();
        assert_eq!((read.members, &*read.name, read.key), (Some(vec![2, 0]), "pair", Some(9)));
        options.members = ptr::null();
        // SAFETY: as above, without a list.
        let refused = unsafe { collect_fork_options::read(&raw const options) };
        assert_eq!(refused.unwrap_err(), pointer::is_null("members"));
        options.reserved = 1;
        // SAFETY: as above.
        let refused = unsafe { collect_fork_options::read(&raw const options) };
        assert_eq!(refused.unwrap_err(), sized::unknown());
        // SAFETY: NULL is allowed.
        let defaults = unsafe { collect_fork_options::read(ptr::null()) }.unwrap();
        assert_eq!((defaults.members, defaults.timeout), (None, Timeout::Default));
    }
}
