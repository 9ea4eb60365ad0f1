//! A connected TCP socket of ours: nonblocking, close-on-exec, lost by a forked child.
#![forbid(unsafe_code)]

use std::io::{self, IoSlice, IoSliceMut};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

use socket2::{Domain, Protocol, Type};

use crate::link::syscall::fork::{Registration, close_in_child};
use crate::link::syscall::socket::{
    recv_vectored, send_vectored, set_silence_limit, set_unsent_limit, start_connect,
};

/// Unsent bytes that may stand in a socket: two of the largest frames. More would let a small operation wait for them.
const UNSENT_BYTES: u32 = 512 * 1024;

/// A connected, or connecting, socket.
#[derive(Debug)]
pub struct Socket {
    _registration: Registration,
    stream: TcpStream,
}

impl Socket {
    /// Takes a stream over.
    ///
    /// # Errors
    ///
    /// The system refuses an option.
    pub fn new(stream: TcpStream) -> io::Result<Self> {
        let registration = close_in_child(stream.as_fd())?;
        stream.set_nonblocking(true)?;
        stream.set_nodelay(true)?;
        set_unsent_limit(stream.as_fd(), UNSENT_BYTES)?;
        Ok(Self { _registration: registration, stream })
    }

    /// Starts to connect. Whether it succeeds shows once the socket is writable: [`Socket::is_connected`].
    ///
    /// # Errors
    ///
    /// The system refuses at once: no descriptor, no route, or nobody listens there.
    pub fn connect(address: SocketAddr) -> io::Result<Self> {
        let domain = Domain::for_address(address);
        let socket = socket2::Socket::new(domain, Type::STREAM, Some(Protocol::TCP))?;
        let socket = Self::new(TcpStream::from(socket))?;
        start_connect(socket.as_fd(), address)?;
        Ok(socket)
    }

    /// The connection ends, with ETIMEDOUT, when what was sent is not acknowledged for so long.
    ///
    /// # Errors
    ///
    /// The system refuses the option.
    pub fn limit_silence(&self, limit: Duration) -> io::Result<()> {
        set_silence_limit(self.as_fd(), limit)
    }

    /// Whether the connection stands.
    ///
    /// # Errors
    ///
    /// It failed.
    pub fn is_connected(&self) -> io::Result<bool> {
        if let Some(error) = self.stream.take_error()? {
            return Err(error);
        }
        match self.stream.peer_addr() {
            Ok(_) => Ok(true),
            Err(error) if error.kind() == io::ErrorKind::NotConnected => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Receives, never blocking; 0 is the peer's end.
    ///
    /// # Errors
    ///
    /// `WouldBlock`, or what became of the connection.
    pub fn read(&self, buffers: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
        loop {
            match recv_vectored(self.stream.as_fd(), buffers) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                result => return result,
            }
        }
    }

    /// Sends, never blocking.
    ///
    /// # Errors
    ///
    /// `WouldBlock`, or what became of the connection.
    pub fn write(&self, buffers: &[IoSlice<'_>]) -> io::Result<usize> {
        loop {
            match send_vectored(self.stream.as_fd(), buffers) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                result => return result,
            }
        }
    }

    /// Ends the sending side. A connection that is broken already says so on the next read.
    pub fn shutdown(&self) {
        let _broken_already = self.stream.shutdown(Shutdown::Write);
    }

    /// The peer's address, if the connection still has one.
    #[must_use]
    pub fn address(&self) -> Option<SocketAddr> {
        self.stream.peer_addr().ok().map(canonical)
    }
}

impl AsFd for Socket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.stream.as_fd()
    }
}

/// An IPv4 address that came through a dual-stack socket, as the IPv4 address that it is.
#[must_use]
pub fn canonical(address: SocketAddr) -> SocketAddr {
    SocketAddr::new(address.ip().to_canonical(), address.port())
}
