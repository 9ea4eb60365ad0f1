//! TCP: an endpoint's links as sockets in one epoll set.
//!
//! Each link is one socket, edge-triggered, so a poll is one `epoll_wait`, and reading, writing and polling allocate
//! nothing once the links are up. Both ends may dial at the same time: on the first connection that passes the
//! handshake, whoever dialled, the *lower* rank sends `CHOSEN`; any other connection of the pair gets `DUPLICATE`
//! and is closed. Strangers hold at most [`HALF_OPEN_MAX`] sockets, for at most [`HALF_OPEN_LIMIT`] each; when all are
//! taken the oldest goes, and a real peer that loses its place so dials again.
#![forbid(unsafe_code)]

mod dial;
pub mod half_open;
pub mod listener;
mod making;
mod polling;
pub mod slots;
pub mod socket;
mod waker;

#[cfg(test)]
mod tests;

use std::io::{self, IoSlice, IoSliceMut};
use std::net::SocketAddr;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

use self::dial::Dial;
pub use self::dial::Jitter;
use self::listener::Listener;
use self::making::Pending;
use self::polling::Token;
use self::slots::Slots;
use self::socket::Socket;
use self::waker::Waker;
use super::handshake::Identity;
use super::syscall::epoll::{Epoll, Ready};
use super::syscall::socket::is_shortage;
use super::{Event, Mesh, Wake};
use crate::error::Error;

/// The lower rank's word that this connection is the link.
const CHOSEN: u8 = b'C';
/// Its word that another one is.
const DUPLICATE: u8 = b'D';

/// Connections of others that may wait for authentication at once.
pub const HALF_OPEN_MAX: usize = 128;
/// How long each of them may wait.
pub const HALF_OPEN_LIMIT: Duration = Duration::from_secs(5);

/// Events taken from the kernel at once.
const READY_MAX: usize = 256;

/// What an endpoint needs to make its links.
#[derive(Debug)]
pub struct MeshOptions {
    /// Who this endpoint is.
    pub identity: Identity,
    /// Where others connect to; `None` if nobody will.
    pub listener: Option<Listener>,
    /// Where each rank may be reached (its own entry is not used).
    pub addresses: Vec<Vec<SocketAddr>>,
    /// Links that are up already: authenticated control connections.
    pub links: Vec<(usize, Socket)>,
    /// How long a peer may be silent before it counts as gone: while it is dialled, and while what was sent to it is not
    /// acknowledged. `None`: for ever.
    pub silence: Option<Duration>,
}

/// The TCP links of an endpoint.
#[derive(Debug)]
pub struct TcpMesh {
    identity: Identity,
    start: Instant,
    epoll: Epoll,
    waker: Arc<Waker>,
    listener: Option<Listener>,
    /// When to accept again, if that is not to wait for the next edge.
    accept_at: Option<u64>,
    peers: Vec<Remote>,
    /// Connections under way, dialled and accepted.
    pending: Slots<Pending>,
    /// How many of them are accepted and not authenticated.
    half_open: usize,
    /// Peers being dialled.
    dialling: Vec<usize>,
    dial_limit: Duration,
    silence: Option<Duration>,
    jitter: Jitter,
    /// Peers whose link has met a shortage of memory.
    short: Vec<usize>,
    /// When they, and connections under way, go on.
    rested_at: Option<u64>,
    /// Events that arose outside of a poll.
    queued: Vec<Event>,
    /// No timer is due before; `u64::MAX` if there is none.
    next_timer: u64,
    /// A signal has ended the last poll.
    was_interrupted: bool,
    ready: Box<[Ready]>,
}

/// What the mesh knows of a peer.
#[derive(Debug, Default)]
struct Remote {
    addresses: Vec<SocketAddr>,
    /// Where it was when the link came up, as others would dial it.
    at: Option<SocketAddr>,
    link: Option<Socket>,
    /// The end of what it sends has been seen coming.
    has_ended: bool,
    dial: Option<Dial>,
}

impl Remote {
    /// A link to it is there, whose other end has this address. A connection that it has made comes from a port of the
    /// system's choice; of more use is the one where it listens.
    fn come_up(&mut self, link: Socket, address: Option<SocketAddr>) {
        let mut known = self.addresses.iter().copied();
        self.at = address.map(|at| known.find(|one| one.ip() == at.ip()).unwrap_or(at));
        self.link = Some(link);
    }
}

impl TcpMesh {
    /// Makes the mesh; `Up` follows from the first poll for each of the links given.
    ///
    /// # Errors
    ///
    /// Descriptors ran out; the links do not fit the size.
    pub fn new(options: MeshOptions) -> Result<Self, Error> {
        let failed = |error: io::Error| Error::system("make the epoll set of an endpoint", &error);
        let MeshOptions { identity, listener, addresses, links, silence } = options;
        let epoll = Epoll::new().map_err(failed)?;
        let waker = Arc::new(Waker::new().map_err(failed)?);
        let unwatched = |error: io::Error| Error::watch("the waker and the listener", &error);
        epoll.add(waker.as_fd(), Token::Wake.into()).map_err(unwatched)?;
        if let Some(listener) = &listener {
            epoll.add(listener.as_fd(), Token::Listener.into()).map_err(unwatched)?;
        }
        let mut peers: Vec<Remote> = Vec::new();
        peers.resize_with(identity.size, Remote::default);
        for (peer, addresses) in peers.iter_mut().zip(addresses) {
            peer.addresses = addresses;
        }
        let mut mesh = Self {
            jitter: Jitter::new(&identity.run, identity.rank),
            short: Vec::with_capacity(identity.size),
            rested_at: None,
            identity,
            start: Instant::now(),
            epoll,
            waker,
            listener,
            accept_at: None,
            peers,
            pending: Slots::default(),
            half_open: 0,
            dialling: Vec::new(),
            dial_limit: silence.unwrap_or(Duration::MAX),
            silence,
            queued: Vec::new(),
            next_timer: u64::MAX,
            was_interrupted: false,
            ready: vec![Ready::EMPTY; READY_MAX].into_boxed_slice(),
        };
        links.into_iter().try_for_each(|(peer, socket)| mesh.adopt(peer, socket))?;
        Ok(mesh)
    }

    /// Takes a link that is up.
    fn adopt(&mut self, peer: usize, socket: Socket) -> Result<(), Error> {
        if self.peers.get(peer).is_none_or(|remote| remote.link.is_some()) {
            return Err(Error::Internal(format!("a control link to rank {peer} has no place")));
        }
        self.limit_silence(peer, &socket)?;
        self.epoll
            .add(socket.as_fd(), Token::Link(peer).into())
            .map_err(|error| Error::watch(format!("the link to rank {peer}"), &error))?;
        if let Some(remote) = self.peers.get_mut(peer) {
            let address = socket.address();
            remote.come_up(socket, address);
        }
        self.queued.push(Event::Up(peer));
        Ok(())
    }

    fn link(&self, peer: usize) -> io::Result<&Socket> {
        let link = self.peers.get(peer).and_then(|remote| remote.link.as_ref());
        link.ok_or_else(|| io::ErrorKind::NotConnected.into())
    }

    /// A link that has met a shortage is whole: it goes on after a pause.
    fn unless_short(&mut self, peer: usize, result: io::Result<usize>) -> io::Result<usize> {
        match result {
            Err(error) if is_shortage(&error) => {
                if !self.short.contains(&peer) {
                    self.short.push(peer);
                }
                self.rest(self.now());
                Err(io::ErrorKind::WouldBlock.into())
            }
            result => result,
        }
    }

    /// Whether a connection that was accepted is `peer`'s, as far as is known.
    fn may_be_calling(&self, peer: usize) -> bool {
        self.pending.find(|pending| pending.may_be(peer)).is_some()
    }

    /// No poll may sleep beyond `instant`.
    fn arm(&mut self, instant: u64) {
        self.next_timer = self.next_timer.min(instant);
    }
}

impl Mesh for TcpMesh {
    fn now(&self) -> u64 {
        nanoseconds(self.start.elapsed())
    }

    fn dial(&mut self, peer: usize) {
        self.start_dial(peer);
    }

    fn read(&mut self, peer: usize, buffers: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
        let result = self.link(peer)?.read(buffers);
        self.unless_short(peer, result)
    }

    fn has_ended(&self, peer: usize) -> bool {
        self.peers.get(peer).is_some_and(|remote| remote.has_ended)
    }

    fn write(&mut self, peer: usize, buffers: &[IoSlice<'_>]) -> io::Result<usize> {
        let result = self.link(peer)?.write(buffers);
        self.unless_short(peer, result)
    }

    fn shutdown(&mut self, peer: usize) {
        if let Ok(link) = self.link(peer) {
            link.shutdown();
        }
    }

    fn give_up(&mut self, peer: usize) {
        self.stop_dial(peer);
        self.queued.retain(|event| !matches!(event, Event::Down(of, _) if *of == peer));
    }

    fn trouble(&self, peer: usize) -> Option<String> {
        self.trouble_of(peer)
    }

    fn close(&mut self, peer: usize) {
        let Some(remote) = self.peers.get_mut(peer) else { return };
        if let Some(link) = remote.link.take() {
            // Closing does this too; it fails only where the descriptor is not ours any more, in a forked child.
            let _gone = self.epoll.remove(link.as_fd());
        }
        self.stop_dial(peer);
        self.discard_all(|pending| pending.peer == Some(peer));
        self.queued.retain(|event| about(event) != peer);
        self.short.retain(|short| *short != peer);
    }

    fn may_come_up(&self, peer: usize) -> bool {
        // A link that was given from the beginning is told of by the first poll only.
        let is_linked = self.peers.get(peer).is_some_and(|remote| remote.link.is_some());
        is_linked || self.may_be_calling(peer)
    }

    fn poll(&mut self, limit: Option<Duration>, events: &mut Vec<Event>) -> Result<(), Error> {
        self.poll_events(limit, events)
    }

    fn was_interrupted(&self) -> bool {
        self.was_interrupted
    }

    fn waker(&self) -> Arc<dyn Wake> {
        self.waker.clone()
    }

    fn address(&self, peer: usize) -> String {
        let Some(remote) = self.peers.get(peer) else { return "an unknown address".into() };
        let address = remote.at.or_else(|| remote.addresses.first().copied());
        address.map_or_else(|| "an unknown address".into(), |address| address.to_string())
    }
}

fn about(event: &Event) -> usize {
    match event {
        Event::Up(peer) | Event::Readable(peer) | Event::Writable(peer) | Event::Down(peer, _) => {
            *peer
        }
    }
}

fn nanoseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}
