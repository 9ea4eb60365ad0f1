//! A world as the engine sees it: who is in it, what runs in it, and what came for it too early.
#![forbid(unsafe_code)]

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;

use super::limits::Limits;
use super::members::Members;
use super::messages::Messages;
use super::name::{Name, Table};
use super::operation::Operation;
use super::peer::OpRef;
use crate::error::Error;
use crate::link::frame::{Class, Fingerprint};

/// How many ended operations of a world a late frame is compared with.
const HISTORY: usize = 1024;

/// Operations that are under way before the table of a world grows.
const PLACES: usize = 64;

/// How many failed forks are remembered.
pub(super) const TOMBSTONES: usize = 256;

/// What a world's handles and its engine share: whether it is whole.
#[derive(Debug)]
pub struct Health {
    /// The world's name, for messages.
    name: String,
    has_failed: AtomicBool,
    reason: Mutex<Option<Error>>,
}

impl Health {
    /// A whole world's.
    #[must_use]
    pub fn new(name: String) -> Self {
        Self { name, has_failed: AtomicBool::new(false), reason: Mutex::new(None) }
    }

    /// The world's name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Why the world has failed, if it has.
    #[must_use]
    pub fn failure(&self) -> Option<Error> {
        if self.has_failed.load(Ordering::Acquire) { self.reason.lock().clone() } else { None }
    }

    /// The first reason stays.
    pub(super) fn fail(&self, error: &Error) {
        let mut reason = self.reason.lock();
        if reason.is_none() {
            *reason = Some(error.clone());
            self.has_failed.store(true, Ordering::Release);
        }
    }
}

/// What is known of one member.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Member {
    /// Credits that our messages hold there.
    pub(super) outstanding: usize,
    /// Credits that its messages hold here, and that have not gone back.
    pub(super) held: usize,
    /// Those of them that go back there with the next frame.
    pub(super) owed: usize,
    /// Its frames that wait here for an ordered operation or a fork, and for a keyed one or a message.
    pub(super) early: (usize, usize),
    /// It has left the world.
    pub(super) has_left: bool,
}

/// One world.
#[derive(Debug)]
pub(super) struct World {
    pub(super) health: Arc<Health>,
    pub(super) rank: u32,
    pub(super) members: Arc<Members>,
    /// Whether payload carries checksums.
    pub(super) checksum: bool,
    pub(super) state: Vec<Member>,
    /// The number of the next ordered operation.
    pub(super) next: u64,
    /// Ordered operations that are called, not yet under way, in order.
    pub(super) queued: VecDeque<Box<Operation>>,
    active: Table<Name, OpRef>,
    /// Ordered operations under way, and the steps of their plans, which bound the frames that they can cause.
    ordered: (usize, usize),
    pub(super) messages: Messages,
    /// How often each key has been used, and each tag with each partner. It grows with the number of different keys: a
    /// count alone tells a late member's use of a key from the next one.
    turns: Table<(Class, u32, u64), u64>,
    history: VecDeque<(Name, Fingerprint)>,
    /// Who has asked about operations that are not under way here.
    pub(super) askers: Vec<(Name, u32)>,
    /// Forks that have failed, so that members which call later are told.
    pub(super) tombstones: VecDeque<(u64, Error)>,
}

impl World {
    pub(super) fn new(
        health: Arc<Health>,
        rank: u32,
        members: Arc<Members>,
        checksum: bool,
    ) -> Self {
        let mut active = Table::default();
        active.reserve(PLACES);
        Self {
            health,
            rank,
            state: vec![Member::default(); members.size()],
            members,
            checksum,
            next: 0,
            queued: VecDeque::new(),
            active,
            ordered: (0, 0),
            messages: Messages::default(),
            turns: Table::default(),
            history: VecDeque::with_capacity(HISTORY),
            askers: Vec::with_capacity(PLACES),
            tombstones: VecDeque::new(),
        }
    }

    /// Whether an ordered operation of so many steps may begin now: members that have not called it must keep what it
    /// sends, so both operations and steps under way are bounded. One may always begin. Others do not count: members
    /// need not agree on their place among ordered operations.
    pub(super) fn has_room(&self, steps: usize, limits: &Limits) -> bool {
        let (count, all) = self.ordered;
        count == 0 || (count < limits.active_operations && all + steps <= limits.early_frames / 8)
    }

    /// An operation is under way from now on.
    pub(super) fn begin(&mut self, name: Name, op: OpRef, steps: usize) {
        self.active.insert(name, op);
        if name.class == Class::Ordered {
            self.ordered.0 += 1;
            self.ordered.1 += steps;
        }
    }

    /// It is so no more.
    pub(super) fn end(&mut self, name: &Name, steps: usize) {
        if self.active.remove(name).is_some() && name.class == Class::Ordered {
            self.ordered.0 -= 1;
            self.ordered.1 -= steps;
        }
    }

    /// All that are under way, in the order in which they began; none any more.
    pub(super) fn take_active(&mut self) -> Vec<OpRef> {
        let all = self.all_active();
        self.active.clear();
        self.ordered = (0, 0);
        all
    }

    /// All that are under way, in the order in which they began.
    pub(super) fn all_active(&self) -> Vec<OpRef> {
        let mut all: Vec<OpRef> = self.active.values().copied().collect();
        all.sort_unstable_by_key(|op| op.id);
        all
    }

    /// The operation that has been under way for longest.
    pub(super) fn first_active(&self) -> Option<OpRef> {
        self.active.values().copied().min_by_key(|op| op.id)
    }

    /// Whether any is under way.
    pub(super) fn is_active(&self) -> bool {
        !self.active.is_empty()
    }

    /// How many are under way.
    #[cfg(test)]
    pub(super) fn active_count(&self) -> usize {
        self.active.len()
    }

    /// The operation under way that a frame is for.
    pub(super) fn find(&self, name: &Name) -> Option<OpRef> {
        self.active.get(name).copied()
    }

    /// What an ended operation was, if it is remembered.
    pub(super) fn ended(&self, name: &Name) -> Option<Fingerprint> {
        let found = self.history.iter().rev().find(|(known, _)| known == name);
        found.map(|(_, fingerprint)| *fingerprint)
    }

    /// Whether an operation of this name was called here and is over.
    pub(super) fn is_over(&self, name: &Name) -> bool {
        match name.class {
            Class::Ordered => {
                let first = self.queued.front().map_or(self.next, |op| op.name.number);
                name.number < first && self.find(name).is_none()
            }
            Class::Keyed | Class::Upward | Class::Downward => {
                name.turn < self.uses(name.series()) && self.find(name).is_none()
            }
            Class::Fork | Class::Control => self.ended(name).is_some(),
        }
    }

    /// How often a key or tag has been used here.
    pub(super) fn uses(&self, series: (Class, u32, u64)) -> u64 {
        self.turns.get(&series).copied().unwrap_or(0)
    }

    /// Counts one more use; how many came before it.
    pub(super) fn next_use(&mut self, series: (Class, u32, u64)) -> u64 {
        let uses = self.turns.entry(series).or_default();
        *uses += 1;
        *uses - 1
    }

    /// The class of the messages that come here from that rank.
    pub(super) fn incoming(&self, from: u32) -> Class {
        if from < self.rank { Class::Upward } else { Class::Downward }
    }

    /// The class of the messages that go to that rank.
    pub(super) fn outgoing(&self, to: u32) -> Class {
        if self.rank < to { Class::Upward } else { Class::Downward }
    }

    pub(super) fn remember(&mut self, name: Name, fingerprint: Fingerprint) {
        if self.history.len() == HISTORY {
            self.history.pop_front();
        }
        self.history.push_back((name, fingerprint));
    }
}
