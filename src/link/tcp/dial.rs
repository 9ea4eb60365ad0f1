//! Dialling: all of a peer's addresses at once, again and again with jitter, until one connection is the link or the
//! limit has passed.
//!
//! A member listens before anybody learns its addresses, and until its endpoint is gone. So a peer that refuses at every
//! address, several times in a row, has gone, and is not waited for.
#![forbid(unsafe_code)]

use std::net::SocketAddr;
use std::os::fd::AsFd;
use std::time::Duration;

use super::half_open::{Failure, HalfOpen};
use super::making::{Origin, Pending};
use super::polling::Token;
use super::slots::Slots;
use super::{TcpMesh, nanoseconds};
use crate::error::Error;
use crate::link::handshake::{Identity, Purpose};
use crate::link::syscall::epoll::Epoll;
use crate::link::{Event, Mesh};

/// The pause after the first failure; each further one doubles it.
const PAUSE_FIRST: Duration = Duration::from_millis(5);
/// The longest pause is the first times two to this power: 640 ms.
const DOUBLINGS_MAX: u32 = 7;

/// Attempts in a row that may be refused at every address. With the pauses, which follow the last one too, some tens of
/// ms: a peer whose own connections get through while ours are refused, by a firewall, has this long to come.
const REFUSALS_MAX: u32 = 3;

/// How long descriptors or memory may be short before a dial gives up: longer than a burst of
/// other work takes, and less than a caller would call a hang.
const SHORTAGE_LIMIT: Duration = Duration::from_secs(2);

/// A dial under way.
#[derive(Debug)]
pub(super) struct Dial {
    /// When it has failed.
    pub(super) deadline: u64,
    /// When to try again; `None` while connections are open.
    pub(super) retry_at: Option<u64>,
    /// Connections open for it.
    open: usize,
    failures: u32,
    /// Whether all that has come of this attempt is that it was refused.
    is_refused: bool,
    /// Attempts in a row that were refused at every address.
    refusals: u32,
    /// What went wrong last.
    cause: Option<Error>,
    /// Since when the system has had no socket for it.
    short_since: Option<u64>,
}

impl Dial {
    fn new(deadline: u64) -> Self {
        Self {
            deadline,
            retry_at: None,
            open: 0,
            failures: 0,
            is_refused: true,
            refusals: 0,
            cause: None,
            short_since: None,
        }
    }

    /// Notes that the system has no socket, or has one again.
    fn note_shortage(&mut self, is_short: bool, now: u64) {
        self.short_since = is_short.then(|| self.short_since.unwrap_or(now));
    }

    /// Whether it has had none for too long.
    pub(super) fn is_starved(&self, now: u64) -> bool {
        let limit = nanoseconds(SHORTAGE_LIMIT);
        self.short_since.is_some_and(|since| now.saturating_sub(since) >= limit)
    }

    /// Whether the peer's process has gone, by what its host says.
    pub(super) fn is_refused_for_good(&self) -> bool {
        self.refusals >= REFUSALS_MAX
    }

    fn note(&mut self, failure: Failure) {
        self.is_refused &= failure.is_refused;
        self.cause = Some(failure.error);
    }
}

/// Random pauses, so that peers that lost a race do not meet again. (xorshift64; nothing secret.)
#[derive(Debug)]
pub struct Jitter(u64);

impl Jitter {
    /// Differs between the ranks of a run.
    #[must_use]
    pub fn new(run: &[u8; 16], rank: usize) -> Self {
        let [a, b, c, d, e, f, g, h, ..] = *run;
        let run = u64::from_le_bytes([a, b, c, d, e, f, g, h]);
        let rank = (rank as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        Self((run ^ rank).max(1))
    }

    /// The pause after so many failures: half to all of a length that grows with them.
    pub fn pause(&mut self, failures: u32) -> Duration {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        let full = PAUSE_FIRST * (1 << failures.saturating_sub(1).min(DOUBLINGS_MAX));
        full / 2 + full * u32::from(self.0 as u8) / 512
    }
}

impl TcpMesh {
    pub(super) fn start_dial(&mut self, peer: usize) {
        let own = self.identity.rank;
        let now = self.now();
        let deadline = now.saturating_add(nanoseconds(self.dial_limit));
        let Some(remote) = self.peers.get_mut(peer) else { return };
        if remote.link.is_some() || remote.dial.is_some() {
            return;
        }
        if peer == own || remote.addresses.is_empty() {
            let text = format!("rank {own} knows no address of rank {peer}");
            return self.queued.push(Event::Down(peer, Error::PeerLost { rank: peer, text }));
        }
        remote.dial = Some(Dial::new(deadline));
        self.dialling.push(peer);
        self.arm(deadline);
        self.attempt(peer, now);
    }

    /// Starts a connection to each of the peer's addresses.
    pub(super) fn attempt(&mut self, peer: usize, now: u64) {
        let Some(remote) = self.peers.get_mut(peer) else { return };
        let Some(dial) = &mut remote.dial else { return };
        dial.retry_at = None;
        dial.is_refused = true;
        let (mut is_short, open_before) = (false, dial.open);
        for &address in &remote.addresses {
            match start(&self.epoll, &mut self.pending, &self.identity, peer, address) {
                Ok(()) => dial.open += 1,
                Err(failure) => {
                    is_short |= matches!(failure.error, Error::Resource(_));
                    dial.note(failure);
                }
            }
        }
        dial.note_shortage(is_short && dial.open == open_before, now);
        self.retry_unless_open(peer, now);
    }

    /// A connection of the dial is gone.
    pub(super) fn attempt_failed(
        &mut self,
        peer: usize,
        failure: Failure,
        now: u64,
        events: &mut Vec<Event>,
    ) {
        let remote = self.peers.get_mut(peer);
        let Some(dial) = remote.and_then(|remote| remote.dial.as_mut()) else { return };
        dial.open = dial.open.saturating_sub(1);
        let is_final = dial.open == 0 && matches!(failure.error, Error::Mismatch(_));
        dial.note(failure);
        if is_final {
            return self.fail_dial(peer, events);
        }
        self.retry_unless_open(peer, now);
    }

    fn retry_unless_open(&mut self, peer: usize, now: u64) {
        let remote = self.peers.get_mut(peer);
        let Some(dial) = remote.and_then(|remote| remote.dial.as_mut()) else { return };
        if dial.open > 0 || dial.retry_at.is_some() {
            return;
        }
        dial.failures = dial.failures.saturating_add(1);
        dial.refusals = if dial.is_refused { dial.refusals + 1 } else { 0 };
        let at = now.saturating_add(nanoseconds(self.jitter.pause(dial.failures)));
        dial.retry_at = Some(at);
        self.arm(at);
    }

    /// Gives up.
    pub(super) fn fail_dial(&mut self, peer: usize, events: &mut Vec<Event>) {
        let unanswered = self.unanswered(peer);
        let Some(dial) = self.stop_dial(peer) else { return };
        let error = match dial.cause {
            Some(Error::Mismatch(text)) => Error::Mismatch(format!("rank {peer} at {text}")),
            Some(Error::Resource(text)) if unanswered.is_empty() => {
                let own = self.identity.rank;
                Error::Resource(format!("rank {own} cannot connect to rank {peer}: {text}"))
            }
            _ => Error::PeerLost { rank: peer, text: self.unreachable(peer, &dial, unanswered) },
        };
        events.push(Event::Down(peer, error));
    }

    /// What the connections of a dial that are open wait for.
    fn unanswered(&self, peer: usize) -> Vec<String> {
        let pending = self.pending.iter().map(|(_, pending)| pending);
        let ours = pending.filter(|pending| pending.origin == Origin::Dialled(peer));
        ours.map(|it| format!("{}: {}", it.half.address(), it.half.awaits())).collect()
    }

    /// What has kept a dial from its end so far.
    pub(super) fn trouble_of(&self, peer: usize) -> Option<String> {
        let dial = self.peers.get(peer)?.dial.as_ref()?;
        Some(told(self.unanswered(peer), dial)).filter(|text| !text.is_empty())
    }

    fn unreachable(&self, peer: usize, dial: &Dial, unanswered: Vec<String>) -> String {
        let addresses = self.peers.get(peer).map_or(&[][..], |remote| &remote.addresses);
        let addresses: Vec<String> = addresses.iter().map(ToString::to_string).collect();
        let (own, addresses) = (self.identity.rank, addresses.join(", "));
        let causes = told(unanswered, dial);
        if dial.is_refused_for_good() {
            return format!(
                "rank {peer} ({addresses}) refuses connections of rank {own}, {} times in a row: nobody listens there, \
                 so its process has ended or has left: {causes}",
                dial.refusals
            );
        }
        format!(
            "no connection from rank {own} to rank {peer} ({addresses}) within {:?}, {} attempts: {causes}; check that \
             its process lives and that no firewall stands between",
            self.dial_limit,
            dial.failures + u32::from(dial.open > 0)
        )
    }

    /// Ends a dial and its connections, without an event.
    pub(super) fn stop_dial(&mut self, peer: usize) -> Option<Dial> {
        let dial = self.peers.get_mut(peer)?.dial.take()?;
        self.dialling.retain(|&other| other != peer);
        self.discard_all(|pending| pending.origin == Origin::Dialled(peer));
        Some(dial)
    }
}

/// What connections that are open wait for, and why the last other one has failed.
fn told(mut causes: Vec<String>, dial: &Dial) -> String {
    causes.extend(dial.cause.as_ref().map(ToString::to_string));
    causes.join("; ")
}

/// Starts one connection of a dial.
fn start(
    epoll: &Epoll,
    pending: &mut Slots<Pending>,
    identity: &Identity,
    peer: usize,
    address: SocketAddr,
) -> Result<(), Failure> {
    let half = HalfOpen::dial(address, identity, Purpose::Link, peer)?;
    let origin = Origin::Dialled(peer);
    let slot =
        pending.insert(Pending { half, origin, peer: None, is_short: false, deadline: u64::MAX });
    let Some(it) = pending.get(slot) else { return Ok(()) };
    if let Err(error) = epoll.add(it.half.as_fd(), Token::Pending(slot).into()) {
        pending.remove(slot);
        return Err(Error::watch(format!("the connection to {address}"), &error).into());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_to_a_bound_and_differ() {
        let mut jitter = Jitter::new(&[1; 16], 0);
        for failures in 0..40 {
            let pause = jitter.pause(failures);
            assert!(pause >= PAUSE_FIRST / 2 && pause <= PAUSE_FIRST * 128, "{pause:?}");
        }
        assert_ne!(jitter.pause(7), jitter.pause(7));
    }
}
