//! What `completion` synchronises with. In the model of the hand-over (`tests/loom_handover.rs`) loom's take its place.
#![forbid(unsafe_code)]

pub(super) use std::sync::atomic::{AtomicBool, Ordering};

pub(super) use parking_lot::{Condvar, Mutex, MutexGuard};
