//! Entry points on worlds of one rank, and what they refuse before there is a world.

use std::ffi::{CStr, c_char};
use std::ptr;
use std::sync::Arc;

use super::collectives::collect_barrier;
use super::guard::guard_world;
use super::pointer;
use super::request::{collect_request, collect_request_free, collect_request_wait};
use super::status::{
    COLLECT_ERR_INTERNAL, COLLECT_ERR_INVALID_ARGUMENT, COLLECT_OK, collect_last_error_message,
    collect_status,
};
use super::store::{collect_store_create_hash, collect_store_destroy};
use super::world::{
    collect_world, collect_world_abort, collect_world_create, collect_world_create_from_env,
    collect_world_create_with_exchange, collect_world_destroy, collect_world_failure,
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
    let share = unsafe { pointer::borrow(world) };
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
    refused(unsafe { collect_world_failure(null) });
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
