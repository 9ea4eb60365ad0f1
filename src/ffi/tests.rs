//! Entry points on worlds of one rank, and what they refuse before there is a world.

use std::ffi::{CStr, CString, c_char, c_void};
use std::ptr;
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::Duration;

use super::collectives::collect_barrier;
use super::guard::guard_world;
use super::pointer;
use super::request::{
    collect_request, collect_request_free, collect_request_on_complete, collect_request_wait,
    collect_request_wait_all, collect_request_wait_any,
};
use super::status::{
    COLLECT_ERR_ABORTED, COLLECT_ERR_INTERNAL, COLLECT_ERR_INVALID_ARGUMENT, COLLECT_IN_PROGRESS,
    COLLECT_OK, collect_last_error_message, collect_status,
};
use super::store::{collect_store_create_hash, collect_store_destroy};
use super::world::{
    collect_world, collect_world_abort, collect_world_create, collect_world_create_from_env,
    collect_world_create_with_exchange, collect_world_destroy, collect_world_error,
    collect_world_fork, collect_world_host_index, collect_world_local_rank,
    collect_world_local_size, collect_world_name, collect_world_rank, collect_world_size,
};

/// A world of one rank.
fn solo() -> *mut collect_world {
    let (mut store, mut world) = (ptr::null_mut(), ptr::null_mut());
    // SAFETY: a local variable.
    assert_eq!(unsafe { collect_store_create_hash(&raw mut store) }, COLLECT_OK);
    // SAFETY: a live store, and a local variable.
    let status = unsafe { collect_world_create(store, 0, 1, ptr::null(), &raw mut world) };
    assert_eq!(status, COLLECT_OK, "{}", last_text());
    // SAFETY: the last use.
    unsafe { collect_store_destroy(store) };
    world
}

/// A barrier that was started.
fn started(world: *mut collect_world) -> *mut collect_request {
    let mut request = ptr::null_mut();
    // SAFETY: a live world, and a local variable.
    let status = unsafe { collect_barrier(world, ptr::null(), &raw mut request) };
    assert_eq!(status, COLLECT_OK, "{}", last_text());
    request
}

fn last_text() -> String {
    text_at(collect_last_error_message())
}

fn text_at(start: *const c_char) -> String {
    // SAFETY: a string of the library's, which this thread's next failure may overwrite, not sooner.
    unsafe { CStr::from_ptr(start) }.to_str().unwrap().to_owned()
}

#[test]
fn a_panic_fails_the_world() {
    let world = solo();
    // SAFETY: a live world.
    let share = || unsafe { pointer::borrow(world) };
    assert_eq!(guard_world(share, |_| panic!("planted")), COLLECT_ERR_INTERNAL);
    // SAFETY: a live world.
    let status = unsafe { collect_barrier(world, ptr::null(), ptr::null_mut()) };
    assert_eq!(status, COLLECT_ERR_INTERNAL);
    assert!(last_text().contains("planted"), "{}", last_text());
    // SAFETY: the last use.
    unsafe { collect_world_destroy(world) };
}

#[test]
fn a_freed_request_is_used_again_and_keeps_no_world() {
    let world = solo();
    // SAFETY: a live world.
    let share = unsafe { pointer::borrow(world) }.unwrap();
    let first = started(world);
    for _ in 0..10 {
        // SAFETY: a live request.
        assert_eq!(unsafe { collect_request_wait(first, -1) }, COLLECT_OK);
        assert_eq!(Arc::strong_count(&share), 3, "the caller's, ours, the request's");
        // SAFETY: freed, and started again below.
        unsafe { collect_request_free(first) };
        assert_eq!(Arc::strong_count(&share), 2);
        assert_eq!(started(world), first);
    }
    // SAFETY: the last use.
    unsafe { collect_world_destroy(world) };
    // SAFETY: the request keeps the world.
    assert_eq!(unsafe { collect_request_wait(first, -1) }, COLLECT_OK);
    // SAFETY: the last use.
    unsafe { collect_request_free(first) };
    assert_eq!(Arc::strong_count(&share), 1);
}

#[test]
fn a_request_that_another_thread_uses_may_be_freed() {
    let world = solo();
    let request = started(world);
    // SAFETY: a live request.
    let inside = unsafe { pointer::borrow(request) };
    // SAFETY: the last use of the handle.
    unsafe { collect_request_free(request) };
    let other = started(world);
    assert_ne!(other, request, "it is not used again while a thread is inside");
    drop(inside);
    // SAFETY: the last use.
    unsafe { collect_request_free(other) };
    // SAFETY: the last use.
    unsafe { collect_world_destroy(world) };
}

/// Both ranks of a world.
fn pair() -> [*mut collect_world; 2] {
    let mut store = ptr::null_mut();
    // SAFETY: a local variable.
    assert_eq!(unsafe { collect_store_create_hash(&raw mut store) }, COLLECT_OK);
    let address = store as usize;
    let create = |rank| {
        thread::spawn(move || {
            let (store, mut world) = (address as *mut _, ptr::null_mut());
            // SAFETY: a live store, and a local variable.
            let status =
                unsafe { collect_world_create(store, rank, 2, ptr::null(), &raw mut world) };
            assert_eq!(status, COLLECT_OK, "{}", last_text());
            world as usize
        })
    };
    let worlds = [0, 1].map(create).map(|thread| thread.join().unwrap() as *mut _);
    // SAFETY: the last use.
    unsafe { collect_store_destroy(store) };
    worlds
}

type Told = (collect_status, String, String);

/// Sends what it is told, and this thread's last error.
unsafe extern "C" fn tell(user: *mut c_void, status: collect_status, message: *const c_char) {
    // SAFETY: the test passes a sender, which it keeps.
    let to = unsafe { &*user.cast::<mpsc::Sender<Told>>() };
    to.send((status, text_at(message), last_text())).unwrap();
}

#[test]
fn a_callback_has_the_error_and_a_list_the_place_of_what_failed() {
    let (world, far) = pair().into();
    let (to, told) = mpsc::channel::<Told>();
    let user = (&raw const to).cast_mut().cast();
    let requests = [started(world), started(world)];
    // SAFETY: a live request, and a sender that lives until the callback has run.
    let status = unsafe { collect_request_on_complete(requests[1], Some(tell), user) };
    assert_eq!(status, COLLECT_OK);
    let mut index = 77;
    // SAFETY: live requests, and a local variable.
    let status = unsafe { collect_request_wait_any(requests.as_ptr(), 2, 1, &raw mut index) };
    assert_eq!((status, index), (COLLECT_IN_PROGRESS, 77));
    // SAFETY: live requests.
    let status = unsafe { collect_request_wait_all(requests.as_ptr(), 2, 1) };
    assert_eq!(status, COLLECT_IN_PROGRESS);

    // SAFETY: a live world, and a literal.
    assert_eq!(unsafe { collect_world_abort(far, c"enough".as_ptr()) }, COLLECT_OK);
    let (status, message, last) = told.recv_timeout(Duration::from_secs(60)).unwrap();
    assert_eq!(status, COLLECT_ERR_ABORTED);
    assert!(message.contains("enough"), "{message}");
    assert_eq!(message, last, "the last error of the thread that calls");

    let list = [ptr::null_mut(), requests[1]];
    // SAFETY: NULL and a live request, and a local variable.
    let status = unsafe { collect_request_wait_any(list.as_ptr(), 2, 0, &raw mut index) };
    assert_eq!((status, index), (COLLECT_ERR_ABORTED, 1));
    // SAFETY: live requests.
    let status = unsafe { collect_request_wait_all(requests.as_ptr(), 2, 0) };
    assert_eq!(status, COLLECT_ERR_ABORTED);
    for request in requests {
        // SAFETY: the last use.
        unsafe { collect_request_free(request) };
    }
    for world in [world, far] {
        // SAFETY: the last use.
        unsafe { collect_world_destroy(world) };
    }
}

/// The text of a refusal.
fn refused(status: collect_status) -> String {
    assert_eq!(status, COLLECT_ERR_INVALID_ARGUMENT);
    last_text()
}

#[test]
fn null_handles_are_refused_first() {
    let (null, mut number, mut name) = (ptr::null_mut(), 0, ptr::null());
    // SAFETY: NULL is an error.
    let status = unsafe { collect_world_create(ptr::null_mut(), 0, 1, ptr::null(), null_out()) };
    assert_eq!(refused(status), "store must not be NULL");
    // SAFETY: NULL is an error.
    let status = unsafe { collect_world_fork(null, ptr::null(), null_out()) };
    assert_eq!(refused(status), "world must not be NULL");
    for tell in [
        collect_world_rank,
        collect_world_size,
        collect_world_local_rank,
        collect_world_local_size,
        collect_world_host_index,
    ] {
        // SAFETY: NULL is an error.
        assert_eq!(refused(unsafe { tell(null, &raw mut number) }), "world must not be NULL");
    }
    // SAFETY: NULL is an error.
    refused(unsafe { collect_world_name(null, &raw mut name) });
    // SAFETY: NULL is an error.
    refused(unsafe { collect_world_error(null) });
    // SAFETY: NULL is an error.
    refused(unsafe { collect_world_abort(null, ptr::null()) });
    // SAFETY: NULL is allowed.
    unsafe { collect_world_destroy(null) };
}

#[test]
fn out_parameters_are_refused_before_options_and_values() {
    // SAFETY: NULL is an error.
    let status = unsafe { collect_world_create_from_env(ptr::null(), null_out()) };
    assert_eq!(refused(status), "world must not be NULL");
    let mut world = ptr::null_mut();
    // SAFETY: NULL is an error.
    let status = unsafe {
        let user = ptr::null_mut();
        collect_world_create_with_exchange(None, user, 0, 1, ptr::null(), &raw mut world)
    };
    assert_eq!(refused(status), "exchange must not be NULL");
    assert!(world.is_null());
}

fn null_out() -> *mut *mut collect_world {
    ptr::null_mut()
}

#[test]
fn the_longest_reason_that_a_rank_can_tell_is_told_whole() {
    let (world, far) = pair().into();
    let reason = CString::new("x".repeat(2000)).unwrap();
    let request = started(world);
    // SAFETY: a live world, and a string.
    assert_eq!(unsafe { collect_world_abort(far, reason.as_ptr()) }, COLLECT_OK);
    // SAFETY: a live request.
    assert_eq!(unsafe { collect_request_wait(request, -1) }, COLLECT_ERR_ABORTED);
    let text = last_text();
    // What an Abort carries beside its text: the kind, and a rank.
    assert_eq!(text.len(), 1024 - 5, "{text}");
    // SAFETY: the last use.
    unsafe { collect_request_free(request) };
    for world in [world, far] {
        // SAFETY: the last use.
        unsafe { collect_world_destroy(world) };
    }
}
