//! Dialling: all of a peer's addresses at once, again and again with jitter, until one connection is the link or the
//! limit has passed.
#![forbid(unsafe_code)]

use std::os::fd::AsFd;
use std::time::Duration;

use super::half_open::HalfOpen;
use super::making::{Origin, Pending};
use super::polling::Token;
use super::{TcpMesh, nanoseconds};
use crate::error::Error;
use crate::link::handshake::Purpose;
use crate::link::{Event, Mesh};

/// The pause after the first failure; each further one doubles it.
const PAUSE_FIRST: Duration = Duration::from_millis(5);
/// The longest pause is the first times two to this power: 640 ms.
const DOUBLINGS_MAX: u32 = 7;

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
    /// What went wrong last.
    cause: Option<Error>,
    /// Since when the system has had no socket for it.
    short_since: Option<u64>,
}

impl Dial {
    /// Notes that the system has no socket, or has one again.
    fn note_shortage(&mut self, is_short: bool, now: u64) {
        self.short_since = is_short.then(|| self.short_since.unwrap_or(now));
    }

    /// Whether it has had none for too long.
    pub(super) fn is_starved(&self, now: u64) -> bool {
        let limit = nanoseconds(SHORTAGE_LIMIT);
        self.short_since.is_some_and(|since| now.saturating_sub(since) >= limit)
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
        let dial =
            Dial { deadline, retry_at: None, open: 0, failures: 0, cause: None, short_since: None };
        remote.dial = Some(dial);
        self.dialling.push(peer);
        self.arm(deadline);
        self.attempt(peer, now);
    }

    /// Starts a connection to each of the peer's addresses.
    pub(super) fn attempt(&mut self, peer: usize, now: u64) {
        let Some(remote) = self.peers.get_mut(peer) else { return };
        let Some(dial) = &mut remote.dial else { return };
        dial.retry_at = None;
        for &address in &remote.addresses {
            match HalfOpen::dial(address, &self.identity, Purpose::Link, peer) {
                Ok(half) => {
                    let pending = Pending {
                        half,
                        origin: Origin::Dialled(peer),
                        peer: None,
                        deadline: u64::MAX,
                    };
                    let slot = self.pending.insert(pending);
                    dial.open += 1;
                    dial.note_shortage(false, now);
                    let Some(pending) = self.pending.get_mut(slot) else { continue };
                    if let Err(error) =
                        self.epoll.add(pending.half.as_fd(), Token::Pending(slot).into())
                    {
                        dial.cause = Some(Error::system(format!("watch {address}"), &error));
                        dial.open -= 1;
                        self.pending.remove(slot);
                    }
                }
                Err(error) => {
                    dial.note_shortage(matches!(error, Error::Resource(_)), now);
                    dial.cause = Some(error);
                }
            }
        }
        self.retry_unless_open(peer, now);
    }

    /// A connection of the dial is gone.
    pub(super) fn attempt_failed(
        &mut self,
        peer: usize,
        cause: Error,
        now: u64,
        events: &mut Vec<Event>,
    ) {
        let remote = self.peers.get_mut(peer);
        let Some(dial) = remote.and_then(|remote| remote.dial.as_mut()) else { return };
        dial.open = dial.open.saturating_sub(1);
        let is_final = dial.open == 0 && matches!(cause, Error::Mismatch(_));
        dial.cause = Some(cause);
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
        let at = now.saturating_add(nanoseconds(self.jitter.pause(dial.failures)));
        dial.retry_at = Some(at);
        self.arm(at);
    }

    /// Gives up.
    pub(super) fn fail_dial(&mut self, peer: usize, events: &mut Vec<Event>) {
        let Some(dial) = self.stop_dial(peer) else { return };
        let error = match dial.cause {
            Some(Error::Mismatch(text)) => Error::Mismatch(format!("rank {peer} at {text}")),
            Some(Error::Resource(text)) => {
                let own = self.identity.rank;
                Error::Resource(format!("rank {own} cannot connect to rank {peer}: {text}"))
            }
            cause => Error::PeerLost { rank: peer, text: self.unreachable(peer, cause) },
        };
        events.push(Event::Down(peer, error));
    }

    fn unreachable(&self, peer: usize, cause: Option<Error>) -> String {
        let addresses = self.peers.get(peer).map_or(&[][..], |remote| &remote.addresses);
        let addresses: Vec<String> = addresses.iter().map(ToString::to_string).collect();
        let (addresses, limit) = (addresses.join(", "), self.dial_limit);
        let cause = cause.map_or_else(|| "no answer".into(), |error| error.to_string());
        format!(
            "no connection from rank {} to rank {peer} ({addresses}) within {limit:?}: {cause}; check that its \
             process lives and that no firewall stands between",
            self.identity.rank
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
