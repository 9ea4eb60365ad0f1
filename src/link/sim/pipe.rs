//! One direction of a connection: bytes with arrival times, and what happens to them under way.
#![forbid(unsafe_code)]

use std::collections::VecDeque;
use std::io::IoSliceMut;

use super::frames::Follower;
use super::random::Random;

/// Bytes in one direction.
#[derive(Debug, Default)]
pub(super) struct Pipe {
    chunks: VecDeque<(u64, Vec<u8>)>,
    /// All that is in `chunks`.
    unread: usize,
    /// What the window holds beside that: lost, or read and not known to be.
    held: usize,
    /// Nothing arrives before this.
    last_at: u64,
    /// When the end of the stream arrives.
    end_at: Option<u64>,
    /// What is written from now on never arrives.
    is_severed: bool,
    /// So it is, and the writer is told nothing.
    is_cut: bool,
    /// The writer does not learn what has been read.
    is_unacknowledged: bool,
    pub(super) follower: Follower,
}

impl Pipe {
    /// Bytes that can be read at a time.
    pub(super) fn arrived(&self, now: u64) -> usize {
        self.chunks.iter().take_while(|(at, _)| *at <= now).map(|(_, bytes)| bytes.len()).sum()
    }

    /// When there is something to read, or the end.
    pub(super) fn next_at(&self) -> Option<u64> {
        self.chunks.front().map(|(at, _)| *at).or(self.end_at)
    }

    /// Whether the end of the stream has been seen coming.
    pub(super) fn ends_by(&self, now: u64) -> bool {
        self.end_at.is_some_and(|at| at <= now)
    }

    /// Whether nothing but the end is left to read.
    pub(super) fn is_at_end(&self, now: u64) -> bool {
        self.chunks.is_empty() && self.ends_by(now)
    }

    pub(super) fn is_ended(&self) -> bool {
        self.end_at.is_some()
    }

    pub(super) fn is_cut(&self) -> bool {
        self.is_cut
    }

    /// Bytes that stand in the writer's window.
    pub(super) fn load(&self) -> usize {
        self.unread + self.held
    }

    pub(super) fn is_empty(&self) -> bool {
        self.unread == 0
    }

    /// Ends the stream after what it holds.
    pub(super) fn end(&mut self, at: u64) {
        if self.end_at.is_none() && !self.is_cut {
            self.last_at = self.last_at.max(at);
            self.end_at = Some(self.last_at);
        }
    }

    /// Loses all but the first `kept` bytes.
    pub(super) fn keep(&mut self, kept: usize) {
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

    /// Loses all but a random part.
    pub(super) fn keep_some(&mut self, random: &mut Random) {
        let kept = random.below(self.unread + 1);
        self.keep(kept);
    }

    /// Nothing more arrives.
    pub(super) fn sever(&mut self) {
        self.is_severed = true;
    }

    /// Nothing arrives from now on, and the writer is told nothing. Whether anything is lost at once.
    pub(super) fn cut(&mut self, now: u64) -> bool {
        let all = self.unread;
        self.keep(self.arrived(now));
        let lost = all - self.unread;
        self.held += lost;
        self.is_cut = true;
        self.end_at = self.end_at.filter(|at| *at <= now);
        lost > 0
    }

    /// The writer hears no more of what the reader takes.
    pub(super) fn lose_acknowledgements(&mut self) {
        self.is_unacknowledged = true;
    }

    /// Whether the writer will be told what becomes of what it writes.
    pub(super) fn is_deaf(&self) -> bool {
        self.is_cut || self.is_unacknowledged
    }

    /// Takes what is written.
    pub(super) fn put(&mut self, bytes: Vec<u8>, at: u64) {
        if self.end_at.is_some() || self.is_severed {
            return;
        }
        if self.is_cut {
            self.held += bytes.len();
            return;
        }
        self.last_at = self.last_at.max(at);
        self.unread += bytes.len();
        self.chunks.push_back((self.last_at, bytes));
    }

    pub(super) fn take(&mut self, mut count: usize, buffers: &mut [IoSliceMut<'_>]) {
        self.unread -= count;
        self.held += if self.is_unacknowledged { count } else { 0 };
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
