//! A world as the engine sees it: who is in it, what runs in it, and what came for it too early.
#![forbid(unsafe_code)]

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;

use super::limits::Limits;
use super::members::Members;
use super::operation::Operation;
use super::peer::OpRef;
use crate::error::Error;
use crate::link::frame::{Class, Fingerprint, Header};

/// How many ended operations of a world a late frame is compared with.
const HISTORY: usize = 1024;

/// Operations that are under way, and half the frames that wait for their operation, before the lists of a world grow.
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
    /// It has left the world.
    pub(super) has_left: bool,
}

/// A frame whose operation has not been called here.
#[derive(Debug)]
pub(super) struct Early {
    pub(super) peer: usize,
    pub(super) header: Header,
    pub(super) payload: Vec<u8>,
}

/// An operation under way.
#[derive(Debug, Clone, Copy)]
pub(super) struct Active {
    pub(super) class: Class,
    pub(super) number: u64,
    pub(super) op: OpRef,
    /// Steps of its plan, to bound the frames that it can cause.
    pub(super) steps: usize,
}

/// One world.
#[derive(Debug)]
pub(super) struct World {
    pub(super) health: Arc<Health>,
    pub(super) rank: u32,
    pub(super) members: Arc<Members>,
    pub(super) state: Vec<Member>,
    /// The number of the next ordered operation.
    pub(super) next: u64,
    /// Called, not yet under way, in order.
    pub(super) queued: VecDeque<Box<Operation>>,
    pub(super) active: Vec<Active>,
    pub(super) early: VecDeque<Early>,
    history: VecDeque<(Class, u64, Fingerprint)>,
    /// Forks that have failed, so that members which call later are told.
    pub(super) tombstones: VecDeque<(u64, Error)>,
}

impl World {
    pub(super) fn new(health: Arc<Health>, rank: u32, members: Arc<Members>) -> Self {
        Self {
            health,
            rank,
            state: vec![Member::default(); members.size()],
            members,
            next: 0,
            queued: VecDeque::new(),
            active: Vec::with_capacity(PLACES),
            early: VecDeque::with_capacity(2 * PLACES),
            history: VecDeque::with_capacity(HISTORY),
            tombstones: VecDeque::new(),
        }
    }

    /// Whether an ordered operation of so many steps may begin now: members that have not called it must keep what it
    /// sends, so both operations and steps under way are bounded. One may always begin. Forks do not count: members
    /// need not agree on their place among ordered operations.
    pub(super) fn has_room(&self, steps: usize, limits: &Limits) -> bool {
        let ordered = || self.active.iter().filter(|active| active.class == Class::Ordered);
        let all = ordered().map(|active| active.steps).sum::<usize>() + steps;
        ordered().next().is_none()
            || (ordered().count() < limits.active_operations && all <= limits.early_frames / 8)
    }

    /// The operation under way that a frame is for.
    pub(super) fn find(&self, class: Class, number: u64) -> Option<OpRef> {
        let found = self.active.iter().find(|a| a.number == number && a.class == class);
        found.map(|active| active.op)
    }

    /// What an ended operation was, if it is remembered.
    pub(super) fn ended(&self, class: Class, number: u64) -> Option<Fingerprint> {
        let found = self.history.iter().rev().find(|(c, n, _)| *n == number && *c == class);
        found.map(|(.., fingerprint)| *fingerprint)
    }

    /// Whether an operation of this number was called here and is over.
    pub(super) fn is_over(&self, class: Class, number: u64) -> bool {
        match class {
            Class::Ordered => {
                let queued = self.queued.iter().find(|op| op.class == Class::Ordered);
                number < queued.map_or(self.next, |op| op.number)
                    && self.find(class, number).is_none()
            }
            Class::Fork | Class::Control => self.ended(class, number).is_some(),
        }
    }

    pub(super) fn remember(&mut self, class: Class, number: u64, fingerprint: Fingerprint) {
        if self.history.len() == HISTORY {
            self.history.pop_front();
        }
        self.history.push_back((class, number, fingerprint));
    }
}
