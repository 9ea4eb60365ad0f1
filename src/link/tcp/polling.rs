//! The poll of a mesh: one `epoll_wait`, then timers, until there is something to tell.
#![forbid(unsafe_code)]

use std::io;
use std::time::Duration;

use super::{TcpMesh, nanoseconds};
use crate::error::Error;
use crate::link::syscall::epoll::Ready;
use crate::link::syscall::socket::SHORTAGE_PAUSE;
use crate::link::{Event, Mesh};

/// What a descriptor in the epoll set is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Token {
    /// The waker's bell.
    Wake,
    /// The listener.
    Listener,
    /// The link to this rank.
    Link(usize),
    /// The connection under way in this slot.
    Pending(usize),
}

const INDEX: u64 = (1 << 62) - 1;

impl From<Token> for u64 {
    fn from(token: Token) -> Self {
        match token {
            Token::Link(peer) => peer as Self & INDEX,
            Token::Pending(slot) => 1 << 62 | (slot as Self & INDEX),
            Token::Listener => 2 << 62,
            Token::Wake => 3 << 62,
        }
    }
}

impl From<u64> for Token {
    fn from(number: u64) -> Self {
        let index = (number & INDEX) as usize;
        match number >> 62 {
            0 => Self::Link(index),
            1 => Self::Pending(index),
            2 => Self::Listener,
            _ => Self::Wake,
        }
    }
}

impl TcpMesh {
    pub(super) fn poll_events(
        &mut self,
        limit: Option<Duration>,
        events: &mut Vec<Event>,
    ) -> Result<(), Error> {
        let before = events.len();
        events.append(&mut self.queued);
        let limit = if events.len() > before { Some(Duration::ZERO) } else { limit };
        let returns_at_once = limit.is_some_and(|limit| limit.is_zero());
        let end = if returns_at_once { Some(0) } else { limit.map(|limit| self.after(limit)) };
        loop {
            let wait = if returns_at_once { limit } else { self.sleep_limit(end) };
            let woken = self.wait(wait, events)?;
            if self.next_timer != u64::MAX {
                self.run_timers(events);
            }
            let is_over = || end.is_some_and(|end| self.now() >= end);
            let must_return = woken || self.was_interrupted || returns_at_once;
            if must_return || events.len() > before || is_over() {
                return Ok(());
            }
        }
    }

    fn after(&self, limit: Duration) -> u64 {
        self.now().saturating_add(nanoseconds(limit))
    }

    /// How long the next `epoll_wait` may sleep.
    fn sleep_limit(&self, end: Option<u64>) -> Option<Duration> {
        let until = end.unwrap_or(u64::MAX).min(self.next_timer);
        (until != u64::MAX).then(|| Duration::from_nanos(until.saturating_sub(self.now())))
    }

    /// Waits, and handles what is ready. Returns whether the waker was among it.
    fn wait(&mut self, limit: Option<Duration>, events: &mut Vec<Event>) -> Result<bool, Error> {
        // Taken out so that the handlers may use the mesh; an empty box in its place costs nothing.
        let mut ready = std::mem::take(&mut self.ready);
        let result = self.epoll.wait_for_signal(&mut ready, limit);
        let count = result.as_ref().map_or(0, |&count| count);
        let is_interrupted = |error: &io::Error| error.kind() == io::ErrorKind::Interrupted;
        self.was_interrupted = result.as_ref().is_err_and(is_interrupted);
        let mut woken = false;
        for ready in &ready[..count] {
            woken |= self.handle(*ready, events);
        }
        self.ready = ready;
        match result {
            Err(error) if !is_interrupted(&error) => {
                Err(Error::system("wait for the links", &error))
            }
            _ => Ok(woken),
        }
    }

    fn handle(&mut self, ready: Ready, events: &mut Vec<Event>) -> bool {
        match Token::from(ready.token()) {
            Token::Link(peer) => {
                if ready.has_ended()
                    && let Some(remote) = self.peers.get_mut(peer)
                {
                    remote.has_ended = true;
                }
                if ready.is_readable() {
                    events.push(Event::Readable(peer));
                }
                if ready.is_writable() {
                    events.push(Event::Writable(peer));
                }
            }
            Token::Pending(slot) => self.progress(slot, self.now(), events),
            Token::Listener => self.accept(self.now()),
            Token::Wake => {
                // The bell is always writable, which is reported once, when it is added.
                if ready.is_readable() {
                    self.waker.heard();
                    return true;
                }
            }
        }
        false
    }

    /// Does what is due, and notes when the next is.
    fn run_timers(&mut self, events: &mut Vec<Event>) {
        let now = self.now();
        if now < self.next_timer {
            return;
        }
        self.next_timer = u64::MAX;
        if self.accept_at.is_some_and(|at| at <= now) {
            self.accept(now);
        }
        if self.rested_at.is_some_and(|at| at <= now) {
            self.resume(now, events);
        }
        while let Some(slot) = self.pending.find(|pending| pending.deadline <= now) {
            let late = Error::System("the peer did not finish in time".into());
            self.lost(slot, late.into(), now, events);
        }
        for index in (0..self.dialling.len()).rev() {
            self.run_dial(self.dialling[index], now, events);
        }
        self.rearm();
    }

    fn run_dial(&mut self, peer: usize, now: u64, events: &mut Vec<Event>) {
        let Some(dial) = self.peers.get(peer).and_then(|remote| remote.dial.as_ref()) else {
            return;
        };
        let retries = dial.retry_at.is_some_and(|at| at <= now);
        // A peer that refuses and calls, or may be calling, has not gone.
        let has_gone = retries && dial.is_refused_for_good() && !self.may_be_calling(peer);
        if dial.deadline <= now || dial.is_starved(now) || has_gone {
            self.fail_dial(peer, events);
        } else if retries {
            self.attempt(peer, now);
        }
    }

    /// The system has no memory for a link or a connection now, and no event will tell when it has.
    pub(super) fn rest(&mut self, now: u64) {
        let at = now.saturating_add(nanoseconds(SHORTAGE_PAUSE));
        let at = *self.rested_at.get_or_insert(at);
        self.arm(at);
    }

    /// Lets everybody go on who has met a shortage.
    fn resume(&mut self, now: u64, events: &mut Vec<Event>) {
        self.rested_at = None;
        for peer in self.short.drain(..) {
            events.extend([Event::Readable(peer), Event::Writable(peer)]);
        }
        let short = self.pending.iter().filter(|(_, pending)| pending.is_short);
        for slot in short.map(|(slot, _)| slot).collect::<Vec<_>>() {
            if let Some(pending) = self.pending.get_mut(slot) {
                pending.is_short = false;
                self.progress(slot, now, events);
            }
        }
    }

    fn rearm(&mut self) {
        let dials = self.dialling.iter().filter_map(|&peer| self.peers.get(peer)?.dial.as_ref());
        let dials = dials.map(|dial| dial.retry_at.unwrap_or(u64::MAX).min(dial.deadline));
        let pending = self.pending.iter().map(|(_, pending)| pending.deadline);
        let others = self.accept_at.into_iter().chain(self.rested_at);
        let next = dials.chain(pending).chain(others).min().unwrap_or(u64::MAX);
        self.arm(next);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_come_back() {
        for token in [Token::Wake, Token::Listener, Token::Link(0), Token::Pending(70_000)] {
            assert_eq!(Token::from(u64::from(token)), token);
        }
    }
}
