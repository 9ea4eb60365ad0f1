//! System calls: the only file family that names `libc`.
//!
//! Safe functions over one call each. They return `io::Result`, own what they open (`OwnedFd`, close-on-exec) and
//! never send a signal. Every descriptor that must not outlive `fork(2)` in a child is entered with
//! [`fork::close_in_child`]; who holds the [`fork::Registration`] drops it *before* the descriptor.

pub(crate) mod cancellation;
pub mod epoll;
pub mod eventfd;
pub mod fork;
pub mod host;
pub(crate) mod inotify;
pub mod interfaces;
pub(crate) mod poll;
pub(crate) mod signals;
pub mod socket;

use std::io;

/// Turns -1 into the error that `errno` holds.
fn check(returned: libc::c_int) -> io::Result<libc::c_int> {
    if returned == -1 { Err(io::Error::last_os_error()) } else { Ok(returned) }
}
