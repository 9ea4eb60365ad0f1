//! The connection of two ranks: two pipes of bytes with arrival times, and what each end knows.
#![forbid(unsafe_code)]

use std::collections::VecDeque;
use std::io::{self, IoSlice, IoSliceMut};

use super::Settings;
use super::random::Random;
use super::trace::Tracer;
use crate::error::Error;
use crate::link::Event;

/// Bytes in one direction.
#[derive(Debug, Default)]
pub(super) struct Pipe {
    chunks: VecDeque<(u64, Vec<u8>)>,
    /// All that is in `chunks`.
    unread: usize,
    /// Nothing arrives before this.
    last_at: u64,
    /// When the end of the stream arrives.
    end_at: Option<u64>,
    /// What is written from now on never arrives.
    is_severed: bool,
    tracer: Tracer,
}

impl Pipe {
    fn arrived(&self, now: u64) -> usize {
        self.chunks.iter().take_while(|(at, _)| *at <= now).map(|(_, bytes)| bytes.len()).sum()
    }

    /// When there is something to read, or the end.
    fn next_at(&self) -> Option<u64> {
        self.chunks.front().map(|(at, _)| *at).or(self.end_at)
    }

    /// Ends the stream after what it holds.
    fn end(&mut self, at: u64) {
        if self.end_at.is_none() {
            self.last_at = self.last_at.max(at);
            self.end_at = Some(self.last_at);
        }
    }

    /// Loses all but the first `kept` bytes.
    fn cut(&mut self, kept: usize) {
        while self.unread > kept {
            let Some((at, mut bytes)) = self.chunks.pop_back() else { return };
            let rest = self.unread - bytes.len();
            self.unread = rest;
            if rest < kept {
                bytes.truncate(kept - rest);
                self.unread += bytes.len();
                self.chunks.push_back((at, bytes));
                return;
            }
        }
    }

    fn take(&mut self, mut count: usize, buffers: &mut [IoSliceMut<'_>]) {
        self.unread -= count;
        for buffer in buffers {
            let mut at = 0;
            while at < buffer.len() && count > 0 {
                let Some((_, chunk)) = self.chunks.front_mut() else { return };
                let part = chunk.len().min(buffer.len() - at).min(count);
                buffer[at..at + part].copy_from_slice(&chunk[..part]);
                at += part;
                count -= part;
                if part == chunk.len() {
                    self.chunks.pop_front();
                } else {
                    chunk.drain(..part);
                }
            }
        }
    }
}

/// What one rank knows of the connection.
#[derive(Debug, Default)]
pub(super) struct End {
    is_dialing: bool,
    up_at: Option<u64>,
    is_up: bool,
    is_closed: bool,
    /// When its dialling has failed for good.
    down_at: Option<u64>,
    /// From when on reads and writes fail.
    reset_at: Option<u64>,
    /// Whether it is told so by an event.
    tells_down: bool,
    /// Tells when it can read, from this time on.
    reader_at: Option<u64>,
    /// Tells when it can write, from this time on.
    writer_at: Option<u64>,
    /// It has been told of the end of what the other sends.
    end_seen: bool,
}

/// The connection of two ranks, or the lack of one. End 0 is the lower rank's; pipe i goes out of end i.
#[derive(Debug, Default)]
pub(super) struct Pair {
    pub(super) ends: [End; 2],
    pipes: [Pipe; 2],
    is_made: bool,
    /// No connection comes about any more.
    is_doomed: bool,
}

impl Pair {
    pub(super) fn dial(&mut self, me: usize, now: u64, random: &mut Random, settings: &Settings) {
        let refused = self.is_doomed || self.ends[1 - me].is_closed;
        let end = &mut self.ends[me];
        if end.is_dialing || end.is_up || end.is_closed || end.down_at.is_some() {
            return;
        }
        end.is_dialing = true;
        if end.up_at.is_some() {
            return;
        }
        let dialling = settings.dial_max_ns;
        if refused {
            end.down_at = Some(now + random.delay(dialling));
            return;
        }
        if !self.is_made {
            self.is_made = true;
            for end in &mut self.ends {
                end.up_at = Some(now + random.delay(dialling));
            }
        }
    }

    pub(super) fn may_come_up(&self, me: usize) -> bool {
        let end = &self.ends[me];
        end.up_at.is_some() && !end.is_up && !end.is_closed
    }

    pub(super) fn has_ended(&self, me: usize) -> bool {
        self.ends[me].end_seen
    }

    fn check(&self, me: usize, now: u64) -> io::Result<()> {
        let end = &self.ends[me];
        if !end.is_up || end.is_closed {
            return Err(io::ErrorKind::NotConnected.into());
        }
        if end.reset_at.is_some_and(|at| at <= now) {
            return Err(io::ErrorKind::ConnectionReset.into());
        }
        Ok(())
    }

    pub(super) fn read(
        &mut self,
        me: usize,
        now: u64,
        random: &mut Random,
        settings: &Settings,
        buffers: &mut [IoSliceMut<'_>],
    ) -> io::Result<usize> {
        self.check(me, now)?;
        if random.chance(settings.block_percent / 4) {
            return Err(io::ErrorKind::Interrupted.into());
        }
        let pipe = &mut self.pipes[1 - me];
        let end = &mut self.ends[me];
        let arrived = pipe.arrived(now);
        if arrived == 0 {
            if pipe.chunks.is_empty() && pipe.end_at.is_some_and(|at| at <= now) {
                return Ok(0);
            }
            end.reader_at = Some(now);
            return Err(io::ErrorKind::WouldBlock.into());
        }
        if !end.end_seen && random.chance(settings.block_percent) {
            end.reader_at = Some(now + random.delay(settings.delay_max_ns));
            return Err(io::ErrorKind::WouldBlock.into());
        }
        let room: usize = buffers.iter().map(|buffer| buffer.len()).sum();
        let most = arrived.min(room);
        let is_partial = random.chance(settings.partial_percent);
        let count = if is_partial { 1 + random.below(most) } else { most };
        pipe.take(count, buffers);
        if count < room && !end.end_seen {
            let later = if is_partial { random.delay(settings.delay_max_ns) } else { 0 };
            end.reader_at = Some(now + later);
        }
        Ok(count)
    }

    pub(super) fn write(
        &mut self,
        me: usize,
        now: u64,
        random: &mut Random,
        settings: &Settings,
        buffers: &[IoSlice<'_>],
    ) -> io::Result<usize> {
        self.check(me, now)?;
        if random.chance(settings.block_percent / 4) {
            return Err(io::ErrorKind::Interrupted.into());
        }
        let is_heard = !self.ends[1 - me].is_closed;
        let pipe = &mut self.pipes[me];
        assert!(pipe.end_at.is_none() || !is_heard, "written after the end of the stream");
        let room = settings.window_bytes.saturating_sub(pipe.unread);
        if room == 0 || random.chance(settings.block_percent) {
            let later = if room == 0 { 0 } else { random.delay(settings.delay_max_ns) };
            self.ends[me].writer_at = Some(now + later);
            return Err(io::ErrorKind::WouldBlock.into());
        }
        let all: usize = buffers.iter().map(|buffer| buffer.len()).sum();
        assert!(all > 0, "a write of nothing");
        let most = all.min(room);
        let is_partial = random.chance(settings.partial_percent);
        let count = if is_partial { 1 + random.below(most) } else { most };
        let mut bytes = Vec::with_capacity(count);
        for buffer in buffers {
            bytes.extend_from_slice(&buffer[..buffer.len().min(count - bytes.len())]);
        }
        if let Some((low, high)) = settings.trace.then_some(self.ends_named(settings)) {
            let (from, to) = if me == 0 { (low, high) } else { (high, low) };
            self.pipes[me].tracer.follow(&bytes, now, from, to);
        }
        let pipe = &mut self.pipes[me];
        if is_heard && pipe.end_at.is_none() && !pipe.is_severed {
            pipe.last_at = pipe.last_at.max(now + random.delay(settings.delay_max_ns));
            pipe.unread += count;
            pipe.chunks.push_back((pipe.last_at, bytes));
        }
        Ok(count)
    }

    fn ends_named(&self, settings: &Settings) -> (usize, usize) {
        settings.named
    }

    pub(super) fn shutdown(&mut self, me: usize, now: u64) {
        self.pipes[me].end(now);
    }

    /// This end goes: at once, and without a word to itself.
    pub(super) fn close(&mut self, me: usize, now: u64, random: &mut Random, settings: &Settings) {
        if std::mem::replace(&mut self.ends[me].is_closed, true) {
            return;
        }
        let at = now + random.delay(settings.delay_max_ns);
        self.pipes[me].end(at);
        let is_read = self.pipes[1 - me].unread == 0;
        self.pipes[1 - me].cut(0);
        let other = &mut self.ends[1 - me];
        if !self.is_made {
            if other.is_dialing && other.down_at.is_none() {
                other.down_at = Some(at);
            }
        } else if !is_read && random.chance(50) {
            // As TCP does: what is closed with unread bytes is reset, and what was under way is lost.
            other.reset_at.get_or_insert(at);
        }
    }

    /// The process of this end dies: what it sent is cut at any byte, and the other end hears of it some time later.
    pub(super) fn die(&mut self, me: usize, now: u64, random: &mut Random, settings: &Settings) {
        if self.ends[me].is_closed {
            return;
        }
        if random.chance(60) {
            let kept = random.below(self.pipes[me].unread + 1);
            self.pipes[me].cut(kept);
        }
        let is_reset = random.chance(40);
        self.close(me, now, random, settings);
        self.is_doomed = true;
        let at = now + random.delay(settings.delay_max_ns);
        let other = &mut self.ends[1 - me];
        if self.is_made && !other.is_up {
            if random.chance(50) || !other.is_dialing {
                other.up_at = None;
                other.down_at = other.is_dialing.then_some(at);
            }
        } else if is_reset && self.is_made {
            other.reset_at.get_or_insert(at);
            other.tells_down = random.chance(50);
        }
    }

    /// The connection breaks, or cannot be made any more.
    pub(super) fn sever(&mut self, now: u64, random: &mut Random, settings: &Settings) {
        self.is_doomed = true;
        for me in 0..2 {
            let at = now + random.delay(settings.delay_max_ns);
            let kept = random.below(self.pipes[1 - me].unread + 1);
            self.pipes[1 - me].cut(kept);
            self.pipes[1 - me].is_severed = true;
            let end = &mut self.ends[me];
            if end.is_up {
                end.reset_at.get_or_insert(at);
                end.tells_down = random.chance(50);
            } else {
                end.up_at = None;
                if end.is_dialing {
                    end.down_at.get_or_insert(at);
                }
            }
        }
    }

    /// What this end is told now; events are appended.
    pub(super) fn tell(
        &mut self,
        me: usize,
        peer: usize,
        now: u64,
        window: usize,
        events: &mut Vec<Event>,
    ) {
        let is_due = |at: Option<u64>| at.is_some_and(|at| at <= now);
        let end = &mut self.ends[me];
        if end.is_closed {
            return;
        }
        if !end.is_up {
            if is_due(end.up_at) {
                end.is_up = true;
                end.reader_at = Some(now);
                events.push(Event::Up(peer));
            } else if is_due(end.down_at) {
                end.down_at = None;
                let text = format!("cannot connect to sim:{peer}: refused");
                events.push(Event::Down(peer, Error::System(text)));
                return;
            }
        }
        if !end.is_up {
            return;
        }
        let is_reset = is_due(end.reset_at);
        if is_reset && end.tells_down {
            end.tells_down = false;
            end.reader_at = None;
            end.writer_at = None;
            let text = format!("the connection to sim:{peer} was reset");
            events.push(Event::Down(peer, Error::System(text)));
            return;
        }
        if is_due(end.reader_at) && (is_reset || is_due(self.pipes[1 - me].next_at())) {
            end.reader_at = None;
            end.end_seen = is_due(self.pipes[1 - me].end_at);
            events.push(Event::Readable(peer));
        }
        if is_due(end.writer_at) && (is_reset || self.pipes[me].unread < window) {
            end.writer_at = None;
            events.push(Event::Writable(peer));
        }
    }

    /// When this end will have something to be told.
    pub(super) fn next_at(&self, me: usize, window: usize) -> Option<u64> {
        let end = &self.ends[me];
        if end.is_closed {
            return None;
        }
        if !end.is_up {
            return end.up_at.or(end.down_at);
        }
        let reset = end.reset_at.filter(|_| end.tells_down);
        let both = |a: Option<u64>, b: Option<u64>| Some(a?.max(b?));
        let earlier = |a: Option<u64>, b: Option<u64>| a.into_iter().chain(b).min();
        let read = both(end.reader_at, earlier(self.pipes[1 - me].next_at(), end.reset_at));
        let free = if self.pipes[me].unread < window { Some(0) } else { end.reset_at };
        earlier(reset, earlier(read, both(end.writer_at, free)))
    }
}
