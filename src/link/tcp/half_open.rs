//! A connection that is being made: connect, then the handshake, driven by whoever watches its socket.
//!
//! A send or receive for which the system has no memory now ends nothing: the owner makes the connection go on a little
//! later, since no event will ([`HalfOpen::is_short`]).
#![forbid(unsafe_code)]

use std::io::{self, IoSlice, IoSliceMut};
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd};

use super::socket::Socket;
use crate::error::Error;
use crate::link::handshake::{BYTES_MAX, Handshake, Identity, Peer, Purpose};
use crate::link::phase::{Phase, note};
use crate::link::syscall::socket::is_shortage;

/// Why a connection was not made.
#[derive(Debug)]
pub struct Failure {
    /// What to tell, with the address.
    pub error: Error,
    /// Nobody listens at the address (ECONNREFUSED).
    pub is_refused: bool,
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self { error, is_refused: false }
    }
}

/// A connection that is not, or not yet, authenticated.
#[derive(Debug)]
pub struct HalfOpen {
    socket: Socket,
    address: SocketAddr,
    connected: bool,
    is_short: bool,
    handshake: Handshake,
}

impl HalfOpen {
    /// Takes a connection that somebody made to us.
    ///
    /// # Errors
    ///
    /// The system has no random bytes.
    pub fn accept(
        socket: Socket,
        address: SocketAddr,
        identity: &Identity,
        purpose: Purpose,
    ) -> Result<Self, Error> {
        let handshake = Handshake::accept(identity, purpose)?;
        Ok(Self { socket, address, connected: true, is_short: false, handshake })
    }

    /// Starts to connect to `address`, where rank `target` should be.
    ///
    /// # Errors
    ///
    /// The system refuses at once.
    pub fn dial(
        address: SocketAddr,
        identity: &Identity,
        purpose: Purpose,
        target: usize,
    ) -> Result<Self, Failure> {
        let handshake = Handshake::dial(identity, purpose, target)?;
        let socket = Socket::connect(address).map_err(|error| not_connected(address, &error))?;
        Ok(Self { socket, address, connected: false, is_short: false, handshake })
    }

    /// Goes on as far as the socket allows. Returns the peer once it is authenticated and all was sent to it.
    ///
    /// # Errors
    ///
    /// The connection failed, or the peer is not taken.
    pub fn advance(&mut self) -> Result<Option<Peer>, Failure> {
        self.is_short = false;
        if !self.connected {
            match self.socket.is_connected() {
                Ok(true) => self.connected = true,
                Ok(false) => return Ok(None),
                Err(error) => return Err(not_connected(self.address, &error)),
            }
        }
        self.flush()?;
        while self.handshake.wanted() > 0 {
            let mut bytes = [0; BYTES_MAX];
            let wanted = self.handshake.wanted();
            match self.socket.read(&mut [IoSliceMut::new(&mut bytes[..wanted])]) {
                Ok(0) => return Err(self.ended().into()),
                Ok(count) => {
                    note(Phase::Handshake);
                    self.take(&bytes[..count])?;
                }
                Err(error) if self.must_wait(&error) => break,
                Err(error) => return Err(self.failed(&error).into()),
            }
        }
        Ok(self.handshake.peer().filter(|_| self.handshake.output().is_empty()))
    }

    /// Whether it waits for what no event tells of, so that it must be made to go on after
    /// [`crate::link::syscall::socket::SHORTAGE_PAUSE`].
    #[must_use]
    pub fn is_short(&self) -> bool {
        self.is_short
    }

    /// What it waits for, for messages.
    #[must_use]
    pub fn awaits(&self) -> &'static str {
        match (self.connected, self.handshake.peer()) {
            (false, _) => "no answer to the connection",
            (true, None) => "connected, but the handshake was not answered",
            (true, Some(_)) => "authenticated, but not told whether this connection is taken",
        }
    }

    /// Whether an error only means that the socket cannot go on now.
    fn must_wait(&mut self, error: &io::Error) -> bool {
        let is_short = is_shortage(error);
        self.is_short |= is_short;
        is_short || error.kind() == io::ErrorKind::WouldBlock
    }

    fn take(&mut self, bytes: &[u8]) -> Result<(), Error> {
        let taken = self.handshake.feed(bytes);
        let flushed = self.flush();
        match taken {
            Ok(_) => flushed,
            Err(Error::Mismatch(text)) => Err(Error::Mismatch(format!("{}: {text}", self.address))),
            Err(Error::PeerLost { rank, text }) => {
                Err(Error::PeerLost { rank, text: format!("{}: {text}", self.address) })
            }
            Err(error) => Err(error),
        }
    }

    /// Sends what the handshake has to say. A hundred bytes into a fresh socket are taken whole, or never will be.
    fn flush(&mut self) -> Result<(), Error> {
        if self.handshake.output().is_empty() {
            return Ok(());
        }
        match self.socket.write(&[IoSlice::new(self.handshake.output())]) {
            Ok(count) => self.handshake.sent(count),
            Err(error) if self.must_wait(&error) => {}
            Err(error) => return Err(self.failed(&error)),
        }
        Ok(())
    }

    fn ended(&self) -> Error {
        Error::System(format!(
            "handshake with {}: the other end closed the connection",
            self.address
        ))
    }

    fn failed(&self, error: &io::Error) -> Error {
        Error::system(format!("handshake with {}", self.address), error)
    }

    /// Where the other end is.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The socket, for what follows the handshake.
    #[must_use]
    pub fn socket(&self) -> &Socket {
        &self.socket
    }

    /// Gives the socket up.
    #[must_use]
    pub fn into_socket(self) -> Socket {
        self.socket
    }
}

impl AsFd for HalfOpen {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

fn not_connected(address: SocketAddr, error: &io::Error) -> Failure {
    let is_refused = error.kind() == io::ErrorKind::ConnectionRefused;
    let error = match error.kind() {
        // Of IPv6 it may also say that this host has no such address to connect from.
        io::ErrorKind::AddrNotAvailable if address.is_ipv4() => Error::Resource(format!(
            "connect to {address}: {error} (no local port is free: widen the sysctl net.ipv4.ip_local_port_range)"
        )),
        _ => Error::system(format!("connect to {address}"), error),
    };
    Failure { error, is_refused }
}
