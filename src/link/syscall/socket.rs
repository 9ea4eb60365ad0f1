//! Vectored, never blocking sends and receives on sockets.

use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, BorrowedFd};

use super::check;

/// Buffers that one call takes (`UIO_MAXIOV`).
const BUFFERS_MAX: usize = 1024;

/// Sends from `buffers`, in order, without blocking and without SIGPIPE. Returns the bytes taken.
///
/// # Errors
///
/// `WouldBlock` if none is taken now; what the system says of the connection.
pub fn send_vectored(socket: BorrowedFd<'_>, buffers: &[IoSlice<'_>]) -> io::Result<usize> {
    let count = buffers.len().min(BUFFERS_MAX);
    // `IoSlice` is an `iovec` by its documentation.
    let message = message(buffers.as_ptr().cast_mut().cast(), count);
    let flags = libc::MSG_NOSIGNAL | libc::MSG_DONTWAIT;
    // SAFETY: `message` points to `count` initialised buffers that live through the call, which only reads them.
    bytes(unsafe { libc::sendmsg(socket.as_raw_fd(), &raw const message, flags) })
}

/// Receives into `buffers`, in order, without blocking. Returns the bytes; 0 is the peer's end.
///
/// # Errors
///
/// `WouldBlock` if there is none now; what the system says of the connection.
pub fn recv_vectored(socket: BorrowedFd<'_>, buffers: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
    let count = buffers.len().min(BUFFERS_MAX);
    // `IoSliceMut` is an `iovec` by its documentation.
    let mut message = message(buffers.as_mut_ptr().cast(), count);
    let flags = libc::MSG_DONTWAIT;
    // SAFETY: `message` points to `count` writable buffers that live through the call.
    bytes(unsafe { libc::recvmsg(socket.as_raw_fd(), &raw mut message, flags) })
}

/// Lets a socket report that it is writable, and take bytes, only while fewer than `limit` bytes wait unsent.
///
/// # Errors
///
/// Not a TCP socket.
pub fn set_unsent_limit(socket: BorrowedFd<'_>, limit: u32) -> io::Result<()> {
    let (level, option) = (libc::IPPROTO_TCP, libc::TCP_NOTSENT_LOWAT);
    let bytes = size_of::<u32>() as libc::socklen_t;
    let fd = socket.as_raw_fd();
    // SAFETY: `limit` is readable for its four bytes.
    check(unsafe { libc::setsockopt(fd, level, option, (&raw const limit).cast(), bytes) })?;
    Ok(())
}

fn message(buffers: *mut libc::iovec, count: usize) -> libc::msghdr {
    let zeroed = MaybeUninit::<libc::msghdr>::zeroed();
    // SAFETY: all zeroes is a valid header: null pointers and empty lengths.
    let mut message = unsafe { zeroed.assume_init() };
    message.msg_iov = buffers;
    message.msg_iovlen = count as _;
    message
}

fn bytes(returned: isize) -> io::Result<usize> {
    usize::try_from(returned).map_err(|_| io::Error::last_os_error())
}
