//! Links: ordered streams of bytes between two endpoints, and the set of them that an endpoint has.
//!
//! The engine does no I/O of its own: it drives a [`Mesh`]. Peers are numbered by their rank in the endpoint's root
//! world. What a mesh guarantees, whatever its transport (`tcp`, `sim`):
//!
//! * *Order and loss*: what is written to a link that is up arrives whole and in order, or the link goes down.
//! * *One link a pair*: two ranks that dial each other end with one link; both see [`Event::Up`] once, before any byte.
//! * *Never blocking*: only [`Mesh::poll`] waits; `read` and `write` return `WouldBlock` when they cannot go on, and an
//!   event follows when they can (edge-triggered: after `WouldBlock` only).
//! * *Threads*: one thread at a time uses a mesh (the driver); any thread may use its [`Wake`].
//! * *End*: `read` returns 0 at the peer's orderly end, after all its bytes; a link that breaks gives [`Event::Down`]
//!   once, or an error from `read` or `write`, after which the engine closes it.
#![deny(unsafe_code)]

pub mod frame;
pub mod handshake;
pub mod phase;
#[cfg(test)]
pub(crate) mod sim;
#[allow(unsafe_code, reason = "system calls")]
pub mod syscall;
pub mod tcp;

use std::fmt::Debug;
use std::io::{self, IoSlice, IoSliceMut};
use std::sync::Arc;
use std::time::Duration;

use crate::error::Error;

/// What happened to a link.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    /// The link to this peer can carry frames.
    Up(usize),
    /// It may have bytes to read, or its end.
    Readable(usize),
    /// It may take bytes again.
    Writable(usize),
    /// The link is gone, or could not be made: its dialling failed for good. The error says why, with the address.
    Down(usize, Error),
}

/// Ends a `poll` of another thread, or the next one if none is under way.
pub trait Wake: Send + Sync + Debug {
    /// Does so. Cheap when called again before the poll returns.
    fn wake(&self);
}

/// An endpoint's links.
pub trait Mesh: Send + Debug {
    /// Nanoseconds since some fixed instant; never goes back.
    fn now(&self) -> u64;

    /// Starts making the link to `peer` unless it is up or being made. `Up` or `Down` follows.
    fn dial(&mut self, peer: usize);

    /// Reads into `buffers`, in order; 0 is the peer's orderly end.
    ///
    /// # Errors
    ///
    /// `WouldBlock`: nothing there now. Anything else: the link is broken.
    fn read(&mut self, peer: usize, buffers: &mut [IoSliceMut<'_>]) -> io::Result<usize>;

    /// Whether the end of what `peer` sends has been seen coming: then a short read is not the last one, and no event
    /// may follow before the end is read. (Elsewhere a read that leaves room in the buffers has emptied the link.)
    fn has_ended(&self, peer: usize) -> bool;

    /// Writes from `buffers`, in order.
    ///
    /// # Errors
    ///
    /// `WouldBlock`: nothing taken now. Anything else: the link is broken.
    fn write(&mut self, peer: usize, buffers: &[IoSlice<'_>]) -> io::Result<usize>;

    /// Ends the sending side of a link: the peer reads all that was written, then the end.
    fn shutdown(&mut self, peer: usize);

    /// Stops making the link to `peer`, if it is not up; it may come up yet by the peer's dialling, or be dialled again. No
    /// event about its failure follows.
    fn give_up(&mut self, peer: usize);

    /// What has kept the link to `peer` from coming up so far, for messages.
    fn trouble(&self, peer: usize) -> Option<String>;

    /// Drops a link, or stops making it, at once. No event about it follows.
    fn close(&mut self, peer: usize);

    /// Whether a link to `peer` that `poll` has not told of is there, or may come of a connection that the peer has begun
    /// (an endpoint that closes waits for it, so that the peer is told).
    fn may_come_up(&self, peer: usize) -> bool;

    /// Waits for events for at most `limit` (`None`: without end; zero: not at all) and appends them.
    ///
    /// # Errors
    ///
    /// The system refuses to wait; the endpoint cannot go on.
    fn poll(&mut self, limit: Option<Duration>, events: &mut Vec<Event>) -> Result<(), Error>;

    /// Whether the last `poll` has ended because its thread had handled a signal. Never, where no system call sleeps.
    fn was_interrupted(&self) -> bool {
        false
    }

    /// What ends a `poll`.
    fn waker(&self) -> Arc<dyn Wake>;

    /// Where `peer` is, for messages ("127.0.0.1:4711").
    fn address(&self, peer: usize) -> String;
}
