//! Faults that a sanitizer must find: if it misses these, its silence about the rest means nothing.
//!
//! `make test-asan` and `make test-tsan` run them by name and expect the report; nothing else runs them.

use std::cell::UnsafeCell;
use std::hint::black_box;
use std::thread;

/// A counter that lies about being shareable.
struct Racy(UnsafeCell<u64>);

// SAFETY: none; the race is planted.
unsafe impl Sync for Racy {}

#[test]
#[ignore = "a planted race, run by name under ThreadSanitizer"]
fn a_planted_race_is_found() {
    let counter = Racy(UnsafeCell::new(0));
    thread::scope(|scope| {
        for _ in 0..2 {
            let counter = &counter;
            scope.spawn(move || {
                for _ in 0..1000 {
                    // SAFETY: none; the race is planted.
                    unsafe { *counter.0.get() += 1 };
                }
            });
        }
    });
}

#[test]
#[ignore = "a planted overflow, run by name under AddressSanitizer"]
fn a_planted_overflow_is_found() {
    let bytes = black_box(vec![0u8; 16]);
    let end = bytes.as_ptr().wrapping_add(bytes.len());
    // SAFETY: none; the read beyond the end is planted.
    black_box(unsafe { end.read() });
}
