//! Connecting, sending and receiving on sockets, never blocking.

use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::net::SocketAddr;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::time::Duration;

use socket2::{SockAddr, SockRef};

use super::check;

/// Buffers that one call takes (`UIO_MAXIOV`).
const BUFFERS_MAX: usize = 1024;

/// How long to wait before a call is made again that met a shortage ([`is_shortage`]): nothing tells when it is over.
pub const SHORTAGE_PAUSE: Duration = Duration::from_millis(5);

/// Whether a send or receive failed only because the system has no buffer or memory for it now: the connection is
/// whole, and the call may be made again a little later.
#[must_use]
pub fn is_shortage(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::ENOBUFS | libc::ENOMEM))
}

/// Starts to connect a nonblocking socket. Once it is writable, its error tells whether it is connected.
///
/// # Errors
///
/// The system refuses at once: no port, no route, or nobody listens there.
pub fn start_connect(socket: BorrowedFd<'_>, address: SocketAddr) -> io::Result<()> {
    let address = SockAddr::from(address);
    loop {
        let Err(error) = SockRef::from(&socket).connect(&address) else { return Ok(()) };
        match error.raw_os_error() {
            // Begun or not: the next call tells.
            Some(libc::EINTR) => {}
            Some(libc::EINPROGRESS | libc::EALREADY | libc::EISCONN) => return Ok(()),
            _ => return Err(error),
        }
    }
}

/// Ends a connection, with ETIMEDOUT, on which sent bytes have not been acknowledged for `limit`, or found no room at
/// the other end.
///
/// # Errors
///
/// Not a TCP socket.
pub fn set_silence_limit(socket: BorrowedFd<'_>, limit: Duration) -> io::Result<()> {
    // The kernel takes 1 to 2^31 - 1 ms; 0 would be its default.
    let limit = limit.max(Duration::from_millis(1)).min(Duration::from_millis(i32::MAX as u64));
    SockRef::from(&socket).set_tcp_user_timeout(Some(limit))
}

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
