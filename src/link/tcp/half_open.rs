//! A connection that is being made: connect, then the handshake, driven by whoever watches its socket.
#![forbid(unsafe_code)]

use std::io::{self, IoSlice, IoSliceMut};
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd};

use super::socket::Socket;
use crate::error::Error;
use crate::link::handshake::{BYTES_MAX, Handshake, Identity, Peer, Purpose};

/// A connection that is not, or not yet, authenticated.
#[derive(Debug)]
pub struct HalfOpen {
    socket: Socket,
    address: SocketAddr,
    connected: bool,
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
        Ok(Self { socket, address, connected: true, handshake })
    }

    /// Starts to connect to `address`, where rank `target` should be.
    ///
    /// # Errors
    ///
    /// The system refuses at once; the text names the address.
    pub fn dial(
        address: SocketAddr,
        identity: &Identity,
        purpose: Purpose,
        target: usize,
    ) -> Result<Self, Error> {
        let handshake = Handshake::dial(identity, purpose, target)?;
        let socket = Socket::connect(address)
            .map_err(|error| Error::system(format!("connect to {address}"), &error))?;
        Ok(Self { socket, address, connected: false, handshake })
    }

    /// Goes on as far as the socket allows. Returns the peer once it is authenticated and all was sent to it.
    ///
    /// # Errors
    ///
    /// The connection failed, or the peer is not taken; the text names the address.
    pub fn advance(&mut self) -> Result<Option<Peer>, Error> {
        if !self.connected {
            match self.socket.is_connected() {
                Ok(true) => self.connected = true,
                Ok(false) => return Ok(None),
                Err(error) => return Err(self.failed("connect to", &error)),
            }
        }
        self.flush()?;
        while self.handshake.wanted() > 0 {
            let mut bytes = [0; BYTES_MAX];
            let wanted = self.handshake.wanted();
            match self.socket.read(&mut [IoSliceMut::new(&mut bytes[..wanted])]) {
                Ok(0) => return Err(self.ended()),
                Ok(count) => self.take(&bytes[..count])?,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) => return Err(self.failed("handshake with", &error)),
            }
        }
        Ok(self.handshake.peer().filter(|_| self.handshake.output().is_empty()))
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
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(error) => return Err(self.failed("handshake with", &error)),
        }
        Ok(())
    }

    fn ended(&self) -> Error {
        Error::System(format!(
            "handshake with {}: the other end closed the connection",
            self.address
        ))
    }

    fn failed(&self, operation: &str, error: &io::Error) -> Error {
        Error::system(format!("{operation} {}", self.address), error)
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
