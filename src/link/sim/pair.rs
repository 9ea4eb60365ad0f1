//! The connection of two ranks: two pipes of bytes with arrival times, and what each end knows.
#![forbid(unsafe_code)]

use std::io::{self, IoSlice, IoSliceMut};

use super::Settings;
use super::frames::{Spot, describe};
use super::pipe::Pipe;
use super::random::Random;
use crate::error::Error;
use crate::link::Event;

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
    /// What had arrived by then can be read first, as on Linux.
    reads_on: bool,
    /// Whether it is told so by an event.
    tells_down: bool,
    /// Tells when it can read, from this time on.
    reader_at: Option<u64>,
    /// Tells when it can write, from this time on.
    writer_at: Option<u64>,
    /// It has been told of the end of what the other sends.
    end_seen: bool,
}

impl End {
    /// Reads and writes fail from then on; in half of the cases what has arrived can be read before that.
    fn reset(&mut self, at: u64, random: &mut Random) {
        if self.reset_at.is_none() {
            self.reset_at = Some(at);
            self.reads_on = random.chance(50);
        }
    }
}

/// The connection of two ranks, or the lack of one. End 0 is the lower rank's; pipe i goes out of end i.
#[derive(Debug, Default)]
pub(super) struct Pair {
    pub(super) ends: [End; 2],
    pipes: [Pipe; 2],
    is_made: bool,
    /// No connection comes about any more.
    is_doomed: bool,
    /// Nor is anybody told so: dials end by their limit.
    is_silent: bool,
    /// A rank is stopped: as `is_silent`, as long as it is.
    is_frozen: bool,
    /// How long bytes are under way at most, if not as everywhere.
    pub(super) delay_max_ns: Option<u64>,
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
        if self.is_silent || self.is_frozen {
            end.down_at = settings.silence_ns.map(|limit| now + limit);
        } else if refused {
            end.down_at = Some(now + random.delay(dialling));
        } else if !self.is_made {
            self.make(now, random, settings);
        }
    }

    fn make(&mut self, now: u64, random: &mut Random, settings: &Settings) {
        self.is_made = true;
        for end in &mut self.ends {
            end.up_at = Some(now + random.delay(settings.dial_max_ns));
            end.down_at = None;
        }
    }

    /// This end does not dial any more; what is on its way comes up all the same.
    pub(super) fn give_up(&mut self, me: usize) {
        let end = &mut self.ends[me];
        end.is_dialing = false;
        end.down_at = None;
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

    /// What an end can read now.
    fn readable(&self, me: usize, now: u64) -> usize {
        let until = self.ends[me].reset_at.map_or(now, |at| at.min(now));
        self.pipes[1 - me].arrived(until)
    }

    pub(super) fn read(
        &mut self,
        me: usize,
        now: u64,
        random: &mut Random,
        settings: &Settings,
        buffers: &mut [IoSliceMut<'_>],
    ) -> io::Result<usize> {
        let arrived = self.readable(me, now);
        if arrived == 0 || !self.ends[me].reads_on || !self.ends[me].is_up {
            self.check(me, now)?;
        }
        if random.chance(settings.block_percent / 4) {
            return Err(io::ErrorKind::Interrupted.into());
        }
        let pipe = &mut self.pipes[1 - me];
        let end = &mut self.ends[me];
        if arrived == 0 {
            if pipe.is_at_end(now) {
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
        assert!(!pipe.is_ended() || !is_heard, "written after the end of the stream");
        let room = settings.window_bytes.saturating_sub(pipe.load());
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
        if settings.trace || settings.follows {
            self.follow(me, &mut bytes, now, settings);
        }
        if is_heard {
            let at = now + random.delay(settings.delay_max_ns);
            self.pipes[me].put(bytes, at);
            self.expect_acknowledgement(me, now, settings);
        }
        Ok(count)
    }

    fn follow(&mut self, me: usize, bytes: &mut [u8], now: u64, settings: &Settings) {
        let (low, high) = settings.named;
        let (from, to) = if me == 0 { (low, high) } else { (high, low) };
        self.pipes[me].follower.follow(bytes, |header| {
            if settings.trace {
                println!("{now:>12} {from} -> {to}: {}", describe(header));
            }
        });
    }

    /// Who hears nothing of what he has written gives the connection up one day.
    fn expect_acknowledgement(&mut self, me: usize, now: u64, settings: &Settings) {
        if let Some(limit) = settings.silence_ns.filter(|_| self.pipes[me].is_deaf()) {
            self.ends[me].reset_at.get_or_insert(now + limit);
        }
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
        let is_read = self.pipes[1 - me].is_empty();
        self.pipes[1 - me].keep(0);
        let is_heard = !self.pipes[me].is_cut();
        let other = &mut self.ends[1 - me];
        if !self.is_made {
            if other.is_dialing && other.down_at.is_none() && !self.is_silent {
                other.down_at = Some(at);
            }
        } else if !is_read && is_heard && random.chance(50) {
            // As TCP does: what is closed with unread bytes is reset.
            other.reset(at, random);
        }
    }

    /// The process of this end dies: what it sent is cut at any byte, and the other end hears of it some time later.
    pub(super) fn die(&mut self, me: usize, now: u64, random: &mut Random, settings: &Settings) {
        if self.ends[me].is_closed {
            return;
        }
        if random.chance(60) {
            self.pipes[me].keep_some(random);
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
            other.reset(at, random);
            other.tells_down = random.chance(50);
        }
    }

    /// The connection breaks, or cannot be made any more.
    pub(super) fn sever(&mut self, now: u64, random: &mut Random, settings: &Settings) {
        self.is_doomed = true;
        for me in 0..2 {
            let at = now + random.delay(settings.delay_max_ns);
            self.pipes[1 - me].keep_some(random);
            self.pipes[1 - me].sever();
            let end = &mut self.ends[me];
            if end.is_up {
                end.reset(at, random);
                end.tells_down = random.chance(50);
            } else {
                end.up_at = None;
                if end.is_dialing {
                    end.down_at.get_or_insert(at);
                }
            }
        }
    }

    /// Nothing that `from` sends arrives any more, and nobody is told. It hears the other end, which does not know that.
    pub(super) fn cut(&mut self, from: usize, now: u64, settings: &Settings) {
        self.is_doomed = true;
        self.is_silent = true;
        let has_lost = self.pipes[from].cut(now);
        self.pipes[1 - from].lose_acknowledgements();
        for me in 0..2 {
            let end = &mut self.ends[me];
            if !end.is_up {
                end.up_at = None;
                let limit = settings.silence_ns.filter(|_| end.is_dialing);
                end.down_at = limit.map(|limit| now + limit);
            } else if me == from && has_lost {
                self.expect_acknowledgement(me, now, settings);
            }
        }
    }

    /// One end's process stops, or goes on. A connection that it would have to take part in making waits for that.
    pub(super) fn freeze(
        &mut self,
        is_frozen: bool,
        now: u64,
        random: &mut Random,
        settings: &Settings,
    ) {
        self.is_frozen = is_frozen;
        let is_awaited = self.ends.iter().any(|end| end.is_dialing && !end.is_closed);
        let is_free = !self.is_made && !self.is_doomed && !self.ends.iter().any(|e| e.is_closed);
        if !is_frozen && is_awaited && is_free {
            self.make(now, random, settings);
        }
    }

    /// One byte that `from` writes from now on is altered.
    pub(super) fn damage(&mut self, from: usize, spot: Spot) {
        self.pipes[from].follower.damage(spot);
    }

    /// Whether a byte that `from` wrote was altered, and all that it wrote has been read.
    pub(super) fn has_read_damage(&self, from: usize) -> bool {
        self.pipes[from].follower.is_damaged && self.pipes[from].is_empty()
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
        if is_reset && end.tells_down && !end.reads_on {
            end.tells_down = false;
            end.reader_at = None;
            end.writer_at = None;
            let text = format!("the connection to sim:{peer} was reset");
            events.push(Event::Down(peer, Error::System(text)));
            return;
        }
        if is_due(end.reader_at) && (is_reset || is_due(self.pipes[1 - me].next_at())) {
            end.reader_at = None;
            end.end_seen = is_reset || self.pipes[1 - me].ends_by(now);
            events.push(Event::Readable(peer));
        }
        if is_due(end.writer_at) && (is_reset || self.pipes[me].load() < window) {
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
        let reset = end.reset_at.filter(|_| end.tells_down && !end.reads_on);
        let both = |a: Option<u64>, b: Option<u64>| Some(a?.max(b?));
        let earlier = |a: Option<u64>, b: Option<u64>| a.into_iter().chain(b).min();
        let read = both(end.reader_at, earlier(self.pipes[1 - me].next_at(), end.reset_at));
        let free = if self.pipes[me].load() < window { Some(0) } else { end.reset_at };
        earlier(reset, earlier(read, both(end.writer_at, free)))
    }
}
