//! Stores: open, look at, set, get, destroy.

use std::env;
use std::ffi::{CStr, CString, c_char, c_void};
use std::net::SocketAddr;
use std::ptr;
use std::sync::Arc;

use super::guard::guard;
use super::pointer::{self, Out, is_null};
use super::status::{COLLECT_OK, collect_status};
use crate::config::Timeout;
use crate::error::Error;
use crate::store::{self, CountingStore, HashStore, TcpServer, TcpStore};
use crate::{Store, open_from_env};

/// A key-value store through which the ranks of a world find each other, once.
///
/// Threads: every function may be called on one store from several threads at once.
/// Lifetime: it may be destroyed as soon as the worlds that it serves are created on all ranks.
///
/// A program that `collect run` starts needs none: `collect_world_create_from_env` opens it. Others:
///
/// ```c
/// collect_store *store = NULL;
/// collect_world *world = NULL;
/// collect_status status = collect_store_open("file:///shared/run-17", 0, &store);
/// if (status == COLLECT_OK) status = collect_world_create(store, rank, size, NULL, &world);
/// collect_store_destroy(store); // not needed any more
/// ```
#[derive(Debug)]
pub struct collect_store {
    pub(super) store: CountingStore,
    /// Where others find it, if they can.
    url: Option<CString>,
    /// Serves it, if this process does; after the store, which is a client of it.
    _server: Option<TcpServer>,
}

impl collect_store {
    fn give(store: Arc<dyn Store>, url: Option<&str>, server: Option<TcpServer>) -> *mut Self {
        let url = url.and_then(|url| CString::new(url).ok());
        let store = CountingStore::new(store);
        pointer::give(Arc::new(Self { store, url, _server: server }))
    }
}

/// Opens a store that other processes can open, too.
///
/// - "file:///directory" or "file:directory": a directory that all ranks share, on one host or on a network
///   file system. It is created if it is missing.
/// - "tcp://host:port": a server, as `collect run` starts one. The token that it asks for is taken from the
///   environment variable LIBCOLLECT_STORE_TOKEN.
/// - NULL: what the environment variable LIBCOLLECT_STORE names, which `collect run` sets.
///
/// Nothing in a URL is decoded. Gives up after `timeout_ns` nanoseconds; 0: ten minutes; negative: for ever.
///
/// Errors:
///
/// - `COLLECT_ERR_INVALID_ARGUMENT`: the URL has no known form, or is NULL and the variable is not set.
/// - `COLLECT_ERR_STORE`: the directory cannot be made or written to, or the server refuses.
/// - `COLLECT_ERR_TIMED_OUT`: the server cannot be reached in time.
/// - `COLLECT_ERR_RESOURCE`: there is no descriptor or memory left.
///
/// # Safety
///
/// - `url`: NULL, or a string.
/// - `store`: writable, receives a store that the caller destroys; NULL is an error.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn collect_store_open(
    url: *const c_char,
    timeout_ns: i64,
    store: *mut *mut collect_store,
) -> collect_status {
    guard(|| {
        // SAFETY: NULL or writable (contract above).
        let store = unsafe { Out::new(store, "store") }?;
        // SAFETY: NULL or a string (contract above).
        let url = unsafe { pointer::text(url, "url") }?;
        let named = url.map(str::to_owned).or_else(|| env::var("LIBCOLLECT_STORE").ok());
        store.set(collect_store::give(open(url, timeout_ns)?, named.as_deref(), None));
        Ok(COLLECT_OK)
    })
}

/// Serves an empty store from this process, over TCP.
///
/// `address` is an IP address and a port, "10.0.0.7:4711" (an IPv6 one in brackets); port 0 is any free one. Other processes
/// open the URL that `collect_store_url` tells. If the environment variable LIBCOLLECT_STORE_TOKEN is set here,
/// they need the same. Rank 0 often does this, and tells the others the URL by whatever started them.
///
/// The store is served until it is destroyed, by one thread however many use it. `collect store` does the
/// same in a process of its own.
///
/// ```c
/// collect_status status = collect_store_serve("10.0.0.7:0", &store);
/// if (status == COLLECT_OK) tell_the_others(collect_store_url(store));
/// ```
///
/// Errors:
///
/// - `COLLECT_ERR_INVALID_ARGUMENT`: the address is not of that form.
/// - `COLLECT_ERR_STORE`: it cannot be listened at; somebody else does, perhaps.
/// - `COLLECT_ERR_RESOURCE`: there is no descriptor, thread or memory left.
///
/// # Safety
///
/// - `address`: a string; NULL is an error.
/// - `store`: writable, receives a store that the caller destroys; NULL is an error.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn collect_store_serve(
    address: *const c_char,
    store: *mut *mut collect_store,
) -> collect_status {
    guard(|| {
        // SAFETY: NULL or writable (contract above).
        let store = unsafe { Out::new(store, "store") }?;
        // SAFETY: NULL or a string (contract above).
        let address = unsafe { pointer::text(address, "address") }?;
        store.set(serve(address.ok_or_else(|| is_null("address"))?)?);
        Ok(COLLECT_OK)
    })
}

/// The URL under which other processes open a store: a string that lives as long as the handle.
///
/// NULL for a store in memory, and if `store` is NULL.
///
/// # Safety
///
/// - `store`: NULL or live.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn collect_store_url(store: *mut collect_store) -> *const c_char {
    // SAFETY: NULL or live (contract above).
    let store = unsafe { store.as_ref() };
    store.and_then(|store| store.url.as_deref()).map_or(ptr::null(), CStr::as_ptr)
}

/// Creates an empty store in this process's memory.
///
/// It serves worlds whose ranks are threads of this process, and tests. All of them use this one handle.
///
/// # Safety
///
/// - `store`: writable, receives a store that the caller destroys; NULL is an error.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn collect_store_create_hash(
    store: *mut *mut collect_store,
) -> collect_status {
    guard(|| {
        // SAFETY: NULL or writable (contract above).
        let store = unsafe { Out::new(store, "store") }?;
        store.set(collect_store::give(Arc::new(HashStore::new()), None, None));
        Ok(COLLECT_OK)
    })
}

/// Sets a key, whatever it held.
///
/// A key is a text of 1 to 1024 bytes, a value has at most 16 MiB. Gives up after `timeout_ns`
/// nanoseconds; 0: ten minutes; negative: for ever.
///
/// Programs may keep values of their own in a store, beside what the library keeps there:
///
/// ```c
/// if (rank == 0) status = collect_store_set(store, "model", path, strlen(path), 0);
/// ```
///
/// Errors:
///
/// - `COLLECT_ERR_INVALID_ARGUMENT`: the key is empty or too long, or the value too large.
/// - `COLLECT_ERR_STORE`, `COLLECT_ERR_TIMED_OUT`: the store cannot be reached in time, or refuses.
///
/// # Safety
///
/// - `store`: live; NULL is an error.
/// - `key`: a string; NULL is an error.
/// - `value`: readable for `bytes` bytes; NULL is an error unless `bytes` is 0.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn collect_store_set(
    store: *mut collect_store,
    key: *const c_char,
    value: *const c_void,
    bytes: usize,
    timeout_ns: i64,
) -> collect_status {
    guard(|| {
        // SAFETY: NULL or live (contract above).
        let store = unsafe { pointer::borrow(store) }.ok_or_else(|| is_null("store"))?;
        // SAFETY: NULL or a string (contract above).
        let key = unsafe { pointer::text(key, "key") }?.ok_or_else(|| is_null("key"))?;
        // SAFETY: readable for as many bytes (contract above).
        let value = unsafe { pointer::elements(value.cast::<u8>(), bytes, "value") }?;
        store.store.set(key, value, Timeout::from(timeout_ns).deadline())?;
        Ok(COLLECT_OK)
    })
}

/// Waits until a key exists, and copies its value.
///
/// Gives up after `timeout_ns` nanoseconds; 0: ten minutes; negative: for ever. The key stays.
///
/// Errors, after which neither `buffer` nor `*bytes` is written:
///
/// - `COLLECT_ERR_INVALID_ARGUMENT`: the buffer is too small; the text has the size that it needs.
/// - `COLLECT_ERR_TIMED_OUT`: nobody has set the key in time; the text names it.
/// - `COLLECT_ERR_STORE`: the store cannot be reached, or refuses.
///
/// ```c
/// char path[256];
/// size_t bytes = 0;
/// status = collect_store_get(store, "model", 0, path, sizeof path, &bytes);
/// ```
///
/// # Safety
///
/// - `store`: live; NULL is an error.
/// - `key`: a string; NULL is an error.
/// - `buffer`: writable for `capacity` bytes; NULL is an error unless `capacity` is 0.
/// - `bytes`: writable, receives the value's size; NULL is an error.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn collect_store_get(
    store: *mut collect_store,
    key: *const c_char,
    timeout_ns: i64,
    buffer: *mut c_void,
    capacity: usize,
    bytes: *mut usize,
) -> collect_status {
    guard(|| {
        // SAFETY: NULL or live (contract above).
        let store = unsafe { pointer::borrow(store) }.ok_or_else(|| is_null("store"))?;
        // SAFETY: NULL or writable (contract above).
        let bytes = unsafe { Out::new(bytes, "bytes") }?;
        let buffer = pointer::buffer(buffer, capacity, "buffer")?;
        // SAFETY: NULL or a string (contract above).
        let key = unsafe { pointer::text(key, "key") }?.ok_or_else(|| is_null("key"))?;
        let value = get(&store.store, key, timeout_ns, capacity)?;
        if !value.is_empty() {
            // SAFETY: `value` is ours and fits the buffer, which is writable (contract above).
            unsafe { ptr::copy_nonoverlapping(value.as_ptr(), buffer, value.len()) };
        }
        bytes.set(value.len());
        Ok(COLLECT_OK)
    })
}

/// Counts the operations that went to the store through this handle.
///
/// Those that created worlds are among them: a clean start must make few. A get counts once, however long
/// it waits.
///
/// # Safety
///
/// - `store`: live; NULL is an error.
/// - `operations`: writable, receives their number; NULL is an error.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn collect_store_operations(
    store: *mut collect_store,
    operations: *mut u64,
) -> collect_status {
    guard(|| {
        // SAFETY: NULL or live (contract above).
        let store = unsafe { pointer::borrow(store) }.ok_or_else(|| is_null("store"))?;
        // SAFETY: NULL or writable (contract above).
        let operations = unsafe { Out::new(operations, "operations") }?;
        operations.set(store.store.operations());
        Ok(COLLECT_OK)
    })
}

/// Counts the bytes of values that were read from the store through this handle.
///
/// They must not grow with the square of the number of ranks, nor, for most ranks, with the number.
///
/// # Safety
///
/// - `store`: live; NULL is an error.
/// - `bytes`: writable, receives their number; NULL is an error.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn collect_store_bytes_read(
    store: *mut collect_store,
    bytes: *mut u64,
) -> collect_status {
    guard(|| {
        // SAFETY: NULL or live (contract above).
        let store = unsafe { pointer::borrow(store) }.ok_or_else(|| is_null("store"))?;
        // SAFETY: NULL or writable (contract above).
        let bytes = unsafe { Out::new(bytes, "bytes") }?;
        bytes.set(store.store.bytes_read());
        Ok(COLLECT_OK)
    })
}

/// Destroys a store. What it holds stays for others, except that a store in memory is gone.
///
/// Worlds that were created through it do not need it any more. Calls on it that other threads are inside
/// of end as if it were there.
///
/// # Safety
///
/// - `store`: live, and not used again; NULL does nothing.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn collect_store_destroy(store: *mut collect_store) {
    // A panic is not passed on: there is nobody who could be told.
    let _ = guard(|| {
        // SAFETY: NULL or live, and given up (contract above).
        drop(unsafe { pointer::take_back(store) });
        Ok(COLLECT_OK)
    });
}

fn open(url: Option<&str>, timeout_ns: i64) -> Result<Arc<dyn Store>, Error> {
    let Some(url) = url else {
        return open_from_env(Timeout::from(timeout_ns).deadline());
    };
    let token = env::var("LIBCOLLECT_STORE_TOKEN").ok().map(String::into_bytes);
    store::open(url, token, Timeout::from(timeout_ns).deadline())
}

/// A server in this process, and a client of it.
fn serve(address: &str) -> Result<*mut collect_store, Error> {
    let parsed: SocketAddr = address.parse().map_err(|_| {
        let form = "it must be an IP address and a port, as in 127.0.0.1:0";
        Error::InvalidArgument(format!("address {address:?}: {form}"))
    })?;
    let token = env::var("LIBCOLLECT_STORE_TOKEN").ok().map(String::into_bytes);
    let server = TcpServer::start(parsed, token.clone())?;
    let address = server.address().to_string();
    let client = TcpStore::connect(&address, token, Timeout::Default.deadline())?;
    let url = format!("tcp://{address}");
    Ok(collect_store::give(Arc::new(client), Some(&url), Some(server)))
}

/// The value of `key`, which must fit.
fn get(
    store: &CountingStore,
    key: &str,
    timeout_ns: i64,
    capacity: usize,
) -> Result<Vec<u8>, Error> {
    let value = store.get(key, Timeout::from(timeout_ns).deadline())?;
    if value.len() > capacity {
        let text = format!("{key:?} holds {} bytes, the buffer {capacity}", value.len());
        return Err(Error::InvalidArgument(text));
    }
    Ok(value)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ffi::status::COLLECT_ERR_INVALID_ARGUMENT;

    fn hash() -> *mut collect_store {
        collect_store::give(Arc::new(HashStore::new()), None, None)
    }

    #[test]
    fn a_value_comes_back_and_is_counted() {
        let store = hash();
        let (mut buffer, mut bytes, mut count) = ([0u8; 4], 77, 0);
        // SAFETY: a live store, and a buffer as large as it says.
        let status =
            unsafe { collect_store_set(store, c"k".as_ptr(), [7u8; 3].as_ptr().cast(), 3, 0) };
        assert_eq!(status, COLLECT_OK);
        let start = buffer.as_mut_ptr().cast();
        // SAFETY: as above.
        let get = |capacity, bytes| unsafe {
            collect_store_get(store, c"k".as_ptr(), 0, start, capacity, bytes)
        };
        assert_eq!(get(2, &raw mut bytes), COLLECT_ERR_INVALID_ARGUMENT);
        assert_eq!(bytes, 77);
        assert_eq!(get(4, &raw mut bytes), COLLECT_OK);
        assert_eq!((bytes, buffer), (3, [7, 7, 7, 0]));
        // SAFETY: as above.
        assert_eq!(unsafe { collect_store_operations(store, &raw mut count) }, COLLECT_OK);
        assert_eq!(count, 3);
        // SAFETY: as above.
        assert_eq!(unsafe { collect_store_bytes_read(store, &raw mut count) }, COLLECT_OK);
        assert_eq!(count, 6);
        // SAFETY: the last use.
        unsafe { collect_store_destroy(store) };
    }
}
