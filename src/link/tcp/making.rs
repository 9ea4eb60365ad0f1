//! Connections on their way to become links: accepted ones, and the choice of one for each pair.
#![forbid(unsafe_code)]

use std::io::{self, IoSlice, IoSliceMut};
use std::net::{SocketAddr, TcpStream};
use std::os::fd::AsFd;
use std::time::Duration;

use super::half_open::{Failure, HalfOpen};
use super::listener::is_about_one_connection;
use super::polling::Token;
use super::socket::Socket;
use super::{CHOSEN, DUPLICATE, HALF_OPEN_LIMIT, HALF_OPEN_MAX, TcpMesh, nanoseconds};
use crate::error::Error;
use crate::link::Event;
use crate::link::handshake::Purpose;
use crate::link::syscall::socket::is_shortage;

/// Connections accepted before links get their turn again.
const ACCEPTS_MAX: usize = 32;
/// When descriptors ran out, connections wait in the kernel for so long before we try again.
const ACCEPT_PAUSE: Duration = Duration::from_millis(20);

/// Who began a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Origin {
    /// We, to this rank.
    Dialled(usize),
    /// Somebody.
    Accepted,
}

/// A connection that is not a link.
#[derive(Debug)]
pub(super) struct Pending {
    pub(super) half: HalfOpen,
    pub(super) origin: Origin,
    /// Who it is, authenticated; then we are the higher rank, and wait for the lower one's word.
    pub(super) peer: Option<usize>,
    /// It is to go on without an event, when the system may have memory for it again.
    pub(super) is_short: bool,
    /// When it is dropped, in nanoseconds of the mesh. A dialled one goes with its dial.
    pub(super) deadline: u64,
}

impl Pending {
    /// Whether a stranger may hold it.
    fn is_half_open(&self) -> bool {
        self.origin == Origin::Accepted && self.peer.is_none()
    }

    /// Whether it was begun by `peer`, as far as is known.
    pub(super) fn may_be(&self, peer: usize) -> bool {
        self.origin == Origin::Accepted && self.peer.is_none_or(|known| known == peer)
    }
}

impl TcpMesh {
    /// Takes the connections that wait, up to a bound.
    pub(super) fn accept(&mut self, now: u64) {
        self.accept_at = None;
        for _ in 0..ACCEPTS_MAX {
            let Some(listener) = &self.listener else { return };
            match listener.accept() {
                Ok((stream, address)) => self.admit(stream, address, now),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                Err(error) if is_about_one_connection(&error) => {}
                Err(_) => {
                    let at = now.saturating_add(nanoseconds(ACCEPT_PAUSE));
                    self.accept_at = Some(at);
                    return self.arm(at);
                }
            }
        }
        self.accept_at = Some(now);
        self.arm(now);
    }

    /// Gives a new connection a place, if need be that of the oldest. One that the system cannot serve is dropped.
    fn admit(&mut self, stream: TcpStream, address: SocketAddr, now: u64) {
        if self.half_open >= HALF_OPEN_MAX {
            let half_open = self.pending.iter().filter(|(_, pending)| pending.is_half_open());
            let oldest =
                half_open.min_by_key(|(_, pending)| pending.deadline).map(|(slot, _)| slot);
            oldest.and_then(|slot| self.discard(slot));
        }
        let Ok(socket) = Socket::new(stream) else { return };
        let Ok(half) = HalfOpen::accept(socket, address, &self.identity, Purpose::Link) else {
            return;
        };
        let deadline = now.saturating_add(nanoseconds(HALF_OPEN_LIMIT));
        let origin = Origin::Accepted;
        let pending = Pending { half, origin, peer: None, is_short: false, deadline };
        let slot = self.pending.insert(pending);
        self.half_open += 1;
        self.arm(deadline);
        let Some(pending) = self.pending.get_mut(slot) else { return };
        if self.epoll.add(pending.half.as_fd(), Token::Pending(slot).into()).is_err() {
            self.discard(slot);
        }
    }

    /// Goes on with a connection as far as its socket allows.
    pub(super) fn progress(&mut self, slot: usize, now: u64, events: &mut Vec<Event>) {
        let Some(pending) = self.pending.get_mut(slot) else { return };
        if let Some(peer) = pending.peer {
            return self.await_verdict(slot, peer, now, events);
        }
        match pending.half.advance() {
            Ok(None) if pending.half.is_short() => {
                pending.is_short = true;
                self.rest(now);
            }
            Ok(None) => {}
            Ok(Some(peer)) => self.authenticated(slot, peer.rank, now, events),
            Err(failure) => self.lost(slot, failure, now, events),
        }
    }

    fn authenticated(&mut self, slot: usize, peer: usize, now: u64, events: &mut Vec<Event>) {
        let deadline =
            now.saturating_add(nanoseconds(self.dial_limit.saturating_add(HALF_OPEN_LIMIT)));
        let Some(pending) = self.pending.get_mut(slot) else { return };
        if pending.is_half_open() {
            self.half_open -= 1;
            pending.deadline = deadline;
            self.next_timer = self.next_timer.min(deadline);
        }
        pending.peer = Some(peer);
        if self.identity.rank < peer {
            self.decide(slot, peer, now, events);
        } else {
            self.await_verdict(slot, peer, now, events);
        }
    }

    /// The lower rank's part: the first connection is the link.
    fn decide(&mut self, slot: usize, peer: usize, now: u64, events: &mut Vec<Event>) {
        let is_first = self.peers.get(peer).is_some_and(|remote| remote.link.is_none());
        let verdict = if is_first { CHOSEN } else { DUPLICATE };
        let Some(pending) = self.pending.get_mut(slot) else { return };
        let sent = pending.half.socket().write(&[IoSlice::new(&[verdict])]);
        match sent {
            // One byte fits into a fresh socket, unless it is broken.
            Ok(1) if is_first => self.promote(slot, peer, now, events),
            Err(error) if is_first => {
                let error = Error::system(format!("choose the link to rank {peer}"), &error);
                self.lost(slot, error.into(), now, events);
            }
            _ => self.lost(slot, already_linked(peer).into(), now, events),
        }
    }

    /// The higher rank's part.
    fn await_verdict(&mut self, slot: usize, peer: usize, now: u64, events: &mut Vec<Event>) {
        let Some(pending) = self.pending.get_mut(slot) else { return };
        let (mut verdict, address) = ([0], pending.half.address());
        let error = match pending.half.socket().read(&mut [IoSliceMut::new(&mut verdict)]) {
            Ok(1) if verdict[0] == CHOSEN => return self.promote(slot, peer, now, events),
            Ok(1) if verdict[0] == DUPLICATE => already_linked(peer),
            Ok(_) => Error::System(format!("rank {peer} at {address} closed the connection")),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
            // Dropped now, it might be the one that the peer has chosen.
            Err(error) if is_shortage(&error) => {
                pending.is_short = true;
                return self.rest(now);
            }
            Err(error) => Error::system(format!("connection to rank {peer} at {address}"), &error),
        };
        self.lost(slot, error.into(), now, events);
    }

    /// Makes a connection the link.
    fn promote(&mut self, slot: usize, peer: usize, now: u64, events: &mut Vec<Event>) {
        let is_linked = self.peers.get(peer).is_none_or(|remote| remote.link.is_some());
        if is_linked {
            // The peer chose again because its end of our link broke; ours will tell so.
            return self.lost(slot, already_linked(peer).into(), now, events);
        }
        let Some(pending) = self.pending.remove(slot) else { return };
        let (address, socket) = (pending.half.address(), pending.half.into_socket());
        self.stop_dial(peer);
        let token = Token::Link(peer).into();
        let watched = self.epoll.rename(socket.as_fd(), token);
        let watched = watched.map_err(|e| Error::watch(format!("the link to rank {peer}"), &e));
        if let Err(error) = watched.and_then(|()| self.limit_silence(peer, &socket)) {
            return events.push(Event::Down(peer, error));
        }
        self.discard_all(|pending| pending.peer == Some(peer));
        if let Some(remote) = self.peers.get_mut(peer) {
            remote.come_up(socket, Some(address));
        }
        events.push(Event::Up(peer));
    }

    /// A link whose other end acknowledges nothing goes down.
    pub(super) fn limit_silence(&self, peer: usize, socket: &Socket) -> Result<(), Error> {
        let Some(limit) = self.silence else { return Ok(()) };
        let limited = socket.limit_silence(limit);
        limited.map_err(|error| Error::system(format!("limit the silence of rank {peer}"), &error))
    }

    /// A connection has failed; a dial that has no other tries again.
    pub(super) fn lost(&mut self, slot: usize, why: Failure, now: u64, events: &mut Vec<Event>) {
        let Some(pending) = self.discard(slot) else { return };
        if let Origin::Dialled(peer) = pending.origin {
            self.attempt_failed(peer, why, now, events);
        }
    }

    fn discard(&mut self, slot: usize) -> Option<Pending> {
        let pending = self.pending.remove(slot)?;
        if pending.is_half_open() {
            self.half_open -= 1;
        }
        // Closing does this too; it fails only where the descriptor is not in the set.
        let _absent = self.epoll.remove(pending.half.as_fd());
        Some(pending)
    }

    /// Drops all connections under way that `matches` names.
    pub(super) fn discard_all(&mut self, matches: impl Fn(&Pending) -> bool) {
        while let Some(slot) = self.pending.find(&matches) {
            self.discard(slot);
        }
    }
}

fn already_linked(peer: usize) -> Error {
    Error::System(format!("rank {peer} has another connection to this rank"))
}
