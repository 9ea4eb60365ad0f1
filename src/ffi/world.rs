//! Worlds: create, fork, look at, abort, destroy.

use std::ffi::{CString, c_char, c_void};
use std::sync::Arc;

use super::exchange::Exchange;
use super::guard::{guard, guard_world};
use super::options::{collect_fork_options, collect_world_options};
use super::pointer::{self, Out, is_null, number};
use super::request::Spares;
use super::status::{COLLECT_OK, collect_status};
use super::store::collect_store;
use super::types::collect_exchange_fn;
use crate::World;
use crate::error::Error;

/// A fixed group of ranks that call collectives together, and this process's place in it.
///
/// Threads: every function may be called on one world from several threads at once. Calls match by the
/// order in which they start on each rank, or by the keys that their options give.
/// Lifetime: a world outlives the store that it was created through and the world that it was forked
/// from; a request keeps its world alive.
///
/// A world is whole or failed. An error of `COLLECT_GROUP_WORLD` fails it, on every rank, for good; worlds
/// that were forked from it go on unless a rank of theirs is lost.
#[derive(Debug)]
pub struct collect_world {
    pub(super) world: World,
    pub(super) spares: Spares,
    name: CString,
}

impl collect_world {
    fn give(world: World) -> *mut Self {
        let name = CString::new(world.name()).unwrap_or_default();
        pointer::give(Arc::new(Self { world, spares: Spares::default(), name }))
    }

    /// Ends the world because of a bug in this library, and returns the error.
    pub(super) fn fail(&self, text: &str) -> Error {
        self.world.fail_internally(text);
        Error::Internal(text.to_owned())
    }
}

/// Creates a world of `size` ranks that find each other through a store; this process is rank `rank`.
///
/// Every rank calls this once, with its own rank, from 0 to size - 1, and with the same size and name. It
/// returns when all have come. The store is not used afterwards, and its keys are removed. One process may
/// hold several ranks, each created on a thread of its own.
///
/// ```c
/// collect_world_options options;
/// memset(&options, 0, sizeof options);
/// options.struct_size = sizeof options;
/// options.timeout_ns = 30000000000; // 30 seconds
/// collect_status status = collect_world_create(store, rank, size, &options, &world);
/// ```
///
/// Errors:
///
/// - `COLLECT_ERR_INVALID_ARGUMENT`: the rank is not below the size, or an option has no such value.
/// - `COLLECT_ERR_TIMED_OUT`: ranks did not come in time; the text names them.
/// - `COLLECT_ERR_STORE`: the store failed, or serves another world of this name.
/// - `COLLECT_ERR_MISMATCH`: ranks disagree about the size, the options or the version.
/// - `COLLECT_ERR_RESOURCE`, `COLLECT_ERR_SYSTEM`: this host gives no descriptor, port or thread.
///
/// # Safety
///
/// - `store`: live; NULL is an error.
/// - `options`: NULL for the defaults, else `struct_size` is set, and as much can be read.
/// - `world`: writable, receives a world that the caller destroys; NULL is an error.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn collect_world_create(
    store: *mut collect_store,
    rank: i32,
    size: i32,
    options: *const collect_world_options,
    world: *mut *mut collect_world,
) -> collect_status {
    guard(|| {
        // SAFETY: NULL or live (contract above).
        let store = unsafe { pointer::borrow(store) }.ok_or_else(|| is_null("store"))?;
        // SAFETY: NULL or writable (contract above).
        let world = unsafe { Out::new(world, "world") }?;
        // SAFETY: NULL or as large as it says (contract above).
        let options = unsafe { collect_world_options::read(options) }?;
        let (rank, size) = (number(rank, "rank")?, number(size, "size")?);
        world.set(collect_world::give(World::create(&store.store, rank, size, &options)?));
        Ok(COLLECT_OK)
    })
}

/// Creates a world as the launcher says.
///
/// `collect run` sets these environment variables for the processes that it starts, and other launchers can
/// do the same:
///
/// - LIBCOLLECT_RANK, LIBCOLLECT_SIZE: the rank of this process, and the number of ranks.
/// - LIBCOLLECT_STORE: a URL as for `collect_store_open`.
/// - LIBCOLLECT_STORE_TOKEN: the token of that store, if it asks for one.
///
/// Errors: as `collect_store_open` and `collect_world_create`, and
///
/// - `COLLECT_ERR_INVALID_ARGUMENT`: a variable is missing, or is no number; the text names it.
///
/// ```c
/// collect_world *world = NULL;
/// if (collect_world_create_from_env(NULL, &world) != COLLECT_OK) {
///   fprintf(stderr, "%s\n", collect_last_error_message());
///   return 1;
/// }
/// ```
///
/// # Safety
///
/// - `options`: NULL for the defaults, else `struct_size` is set, and as much can be read.
/// - `world`: writable, receives a world that the caller destroys; NULL is an error.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn collect_world_create_from_env(
    options: *const collect_world_options,
    world: *mut *mut collect_world,
) -> collect_status {
    guard(|| {
        // SAFETY: NULL or writable (contract above).
        let world = unsafe { Out::new(world, "world") }?;
        // SAFETY: NULL or as large as it says (contract above).
        let options = unsafe { collect_world_options::read(options) }?;
        world.set(collect_world::give(World::create_from_env(&options)?));
        Ok(COLLECT_OK)
    })
}

/// Creates a world without a store: the ranks find each other through the caller's own allgather (of MPI,
/// of a framework, over pipes).
///
/// The function gets `user`, and records of 1024 bytes. This thread calls it, before this function returns:
/// once where the addresses of each rank fit a record, else more often, but as often on every rank; never
/// in a world of one rank, nor if an argument is wrong.
///
/// ```c
/// static int32_t exchange(void *user, const void *mine, size_t bytes, void *all) {
///   MPI_Comm *comm = (MPI_Comm *)user;
///   return MPI_Allgather(mine, (int)bytes, MPI_BYTE, all, (int)bytes, MPI_BYTE, *comm);
/// }
/// ```
///
/// Errors: as `collect_world_create`, and
///
/// - `COLLECT_ERR_STORE`: the function returned another number than 0, or did not fill its table.
///
/// # Safety
///
/// - `exchange`: does what its type says with `user`; NULL is an error.
/// - `options`: NULL for the defaults, else `struct_size` is set, and as much can be read.
/// - `world`: writable, receives a world that the caller destroys; NULL is an error.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn collect_world_create_with_exchange(
    exchange: collect_exchange_fn,
    user: *mut c_void,
    rank: i32,
    size: i32,
    options: *const collect_world_options,
    world: *mut *mut collect_world,
) -> collect_status {
    guard(|| {
        let exchange = exchange.ok_or_else(|| is_null("exchange"))?;
        // SAFETY: NULL or writable (contract above).
        let world = unsafe { Out::new(world, "world") }?;
        // SAFETY: NULL or as large as it says (contract above).
        let options = unsafe { collect_world_options::read(options) }?;
        let (rank, size) = (number(rank, "rank")?, number(size, "size")?);
        // SAFETY: does what its type says (contract above), and is gone before this function returns.
        let exchange = unsafe { Exchange::new(exchange, user, rank, size) };
        let created = World::create_with(&mut |mine| exchange.run(mine), rank, size, &options)?;
        world.set(collect_world::give(created));
        Ok(COLLECT_OK)
    })
}

/// Makes a new world of all ranks of `parent`, or of those that the options list.
///
/// Each of them calls this; it returns when all have. It needs no store, no connection and no thread.
/// Forks of the same members match in the order of the calls, or by the keys that the options give; operations
/// of the parent may go on meanwhile. The two worlds are independent: each has an order of its own, and the fork may outlive the
/// parent.
///
/// A fork that fails does not fail its parent, though its error may be of `COLLECT_GROUP_WORLD`.
///
/// Errors:
///
/// - `COLLECT_ERR_INVALID_ARGUMENT`: the list names a rank twice, one that is not there, or not this rank.
/// - `COLLECT_ERR_MISMATCH`: the members disagree about the list or the name.
/// - `COLLECT_ERR_TIMED_OUT`: members did not come in time; the text names them.
/// - `COLLECT_ERR_PEER_LOST`: a member is gone.
/// - The parent's failure, if it has failed.
///
/// ```c
/// collect_world *fork = NULL;
/// status = collect_world_fork(world, NULL, &fork); // for the threads that load data
/// ```
///
/// # Safety
///
/// - `parent`: live; NULL is an error.
/// - `options`: NULL for the defaults, else `struct_size` is set, and as much can be read.
/// - `world`: writable, receives a world that the caller destroys; NULL is an error.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn collect_world_fork(
    parent: *mut collect_world,
    options: *const collect_fork_options,
    world: *mut *mut collect_world,
) -> collect_status {
    // SAFETY: NULL or live (contract above).
    let parent = || unsafe { pointer::borrow(parent) };
    guard_world(parent, |parent| {
        // SAFETY: NULL or writable (contract above).
        let world = unsafe { Out::new(world, "world") }?;
        // SAFETY: NULL or as large as it says (contract above).
        let options = unsafe { collect_fork_options::read(options) }?;
        world.set(collect_world::give(parent.world.fork(&options)?));
        Ok(COLLECT_OK)
    })
}

/// Tells this process's rank in the world.
///
/// Ranks are numbered from 0 to size - 1.
///
/// # Safety
///
/// - `world`: live; NULL is an error.
/// - `rank`: writable, receives the rank; NULL is an error.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn collect_world_rank(
    world: *mut collect_world,
    rank: *mut i32,
) -> collect_status {
    // SAFETY: NULL or live, and NULL or writable (contract above).
    unsafe { tell(world, World::rank, rank, "rank") }
}

/// Tells the number of ranks in the world.
///
/// It never changes.
///
/// # Safety
///
/// - `world`: live; NULL is an error.
/// - `size`: writable, receives the size; NULL is an error.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn collect_world_size(
    world: *mut collect_world,
    size: *mut i32,
) -> collect_status {
    // SAFETY: NULL or live, and NULL or writable (contract above).
    unsafe { tell(world, World::size, size, "size") }
}

/// Tells this process's place among the world's ranks on its host.
///
/// They are numbered from 0 in the order of their ranks: a number by which to choose a device.
///
/// # Safety
///
/// - `world`: live; NULL is an error.
/// - `local_rank`: writable, receives the place; NULL is an error.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn collect_world_local_rank(
    world: *mut collect_world,
    local_rank: *mut i32,
) -> collect_status {
    // SAFETY: NULL or live, and NULL or writable (contract above).
    unsafe { tell(world, World::local_rank, local_rank, "local_rank") }
}

/// Tells the number of the world's ranks on this host.
///
/// Ranks are on one host if they share its kernel and its network.
///
/// # Safety
///
/// - `world`: live; NULL is an error.
/// - `local_size`: writable, receives the number; NULL is an error.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn collect_world_local_size(
    world: *mut collect_world,
    local_size: *mut i32,
) -> collect_status {
    // SAFETY: NULL or live, and NULL or writable (contract above).
    unsafe { tell(world, World::local_size, local_size, "local_size") }
}

/// Tells this host's place among the hosts of the world.
///
/// They are numbered from 0 in the order of their lowest ranks.
///
/// # Safety
///
/// - `world`: live; NULL is an error.
/// - `host_index`: writable, receives the place; NULL is an error.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn collect_world_host_index(
    world: *mut collect_world,
    host_index: *mut i32,
) -> collect_status {
    // SAFETY: NULL or live, and NULL or writable (contract above).
    unsafe { tell(world, World::host_index, host_index, "host_index") }
}

/// Tells the world's name, as it is in messages.
///
/// The string is UTF-8, is not freed, and stays valid until the world is destroyed.
///
/// # Safety
///
/// - `world`: live; NULL is an error.
/// - `name`: writable, receives the string; NULL is an error.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn collect_world_name(
    world: *mut collect_world,
    name: *mut *const c_char,
) -> collect_status {
    // SAFETY: NULL or live (contract above).
    let world = || unsafe { pointer::borrow(world) };
    guard_world(world, |world| {
        // SAFETY: NULL or writable (contract above).
        let name = unsafe { Out::new(name, "name") }?;
        name.set(world.name.as_ptr());
        Ok(COLLECT_OK)
    })
}

/// Tells without waiting whether, and why, the world has failed.
///
/// Returns `COLLECT_OK` while it is whole, else the error that every call on it gets, whose text and rank
/// become the last error of this thread. Also for a program that has lost the text of an error that another
/// thread had.
///
/// ```c
/// if (collect_world_error(world) != COLLECT_OK) puts(collect_last_error_message());
/// ```
///
/// # Safety
///
/// - `world`: live; NULL is an error.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn collect_world_error(world: *mut collect_world) -> collect_status {
    // SAFETY: NULL or live (contract above).
    let world = || unsafe { pointer::borrow(world) };
    guard_world(world, |world| world.world.error().map_or(Ok(COLLECT_OK), Err))
}

/// Ends the world in failure on every rank.
///
/// Operations under way, and all later calls, get `COLLECT_ERR_ABORTED` with this rank and the reason in
/// the text. Waits for no other rank, and may be called while other threads are inside. Worlds that were
/// forked from this one, and the one that it was forked from, go on. If the world has failed already, that
/// failure stays.
///
/// Errors:
///
/// - `COLLECT_ERR_INVALID_ARGUMENT`: the reason is not UTF-8.
///
/// ```c
/// if (disk_is_full) status = collect_world_abort(world, "rank 3 cannot write its checkpoint");
/// ```
///
/// # Safety
///
/// - `world`: live; NULL is an error.
/// - `reason`: a string, or NULL.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn collect_world_abort(
    world: *mut collect_world,
    reason: *const c_char,
) -> collect_status {
    // SAFETY: NULL or live (contract above).
    let world = || unsafe { pointer::borrow(world) };
    guard_world(world, |world| {
        // SAFETY: NULL or a string (contract above).
        let reason = unsafe { pointer::text(reason, "reason") }?;
        world.world.abort(reason.unwrap_or("no reason was given"))?;
        Ok(COLLECT_OK)
    })
}

/// Destroys a world.
///
/// This is not collective: other ranks notice only if they have, or start, operations with this one, which
/// fail with `COLLECT_ERR_PEER_LOST`. So let every rank complete what it started, and end with a barrier
/// where ranks do not know when the others are done. Requests that are not freed keep the world until they
/// are, and so do threads inside of calls on it: these go on, and end with their operations; the world is
/// left when the last of them has. To end them at once, abort the world first.
///
/// The last world of those that were forked from each other closes the connections, and waits a moment for
/// what was sent to arrive: one second at most, unless the world's options say otherwise.
///
/// # Safety
///
/// - `world`: live, and not used again; NULL does nothing.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn collect_world_destroy(world: *mut collect_world) {
    // A panic is not passed on: there is nobody who could be told.
    let _ = guard(|| {
        // SAFETY: NULL or live, and given up (contract above).
        drop(unsafe { pointer::take_back(world) });
        Ok(COLLECT_OK)
    });
}

/// Writes a number that `world` knows to the out-parameter called `name`.
///
/// # Safety
///
/// `world` is NULL or live; `target` is NULL or writable.
unsafe fn tell(
    world: *mut collect_world,
    what: fn(&World) -> usize,
    target: *mut i32,
    name: &str,
) -> collect_status {
    // SAFETY: NULL or live (contract above).
    let world = || unsafe { pointer::borrow(world) };
    guard_world(world, |world| {
        // SAFETY: NULL or writable (contract above).
        let target = unsafe { Out::new(target, name) }?;
        let value = i32::try_from(what(&world.world))
            .map_err(|_| Error::Unsupported(format!("{name} exceeds 32 bits")))?;
        target.set(value);
        Ok(COLLECT_OK)
    })
}
