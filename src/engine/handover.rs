//! The decisions of the hand-over: who takes the driver's seat, who is woken, nudged or called.
//!
//! A plain state without a lock, a clock or I/O: its owner keeps it under the lane's lock and does what the methods
//! answer, so that a model checks the very same decisions in every interleaving (`tests/loom_handover.rs`). `S` is the
//! seat, `C` a command for whoever drives, `T` what a caller sleeps on.
#![forbid(unsafe_code)]

use std::collections::VecDeque;
use std::mem;
use std::sync::Arc;

/// Who drives, who waits, and what is to be done.
#[derive(Debug)]
pub(crate) struct Handover<S, C, T> {
    /// There unless somebody drives.
    seat: Option<S>,
    inbox: Vec<C>,
    /// Callers that sleep, first come first.
    waiters: VecDeque<Arc<T>>,
    /// The driver is in the mesh's poll: new commands must wake it.
    is_asleep: bool,
    /// The driver is the background thread.
    is_background: bool,
    /// A caller wants the seat from the background thread.
    is_wanted: bool,
    /// The seat is free, and the background thread must take it.
    is_called: bool,
    /// Callbacks wait for the background thread.
    has_callbacks: bool,
    /// Turns that callers have taken.
    turns: u64,
    /// The turns at the background thread's last look.
    seen: u64,
    is_stopping: bool,
}

/// The answer to a caller that must wait.
#[derive(Debug)]
#[must_use]
pub(crate) enum Ask<S> {
    /// It drives.
    Drive(S),
    /// It is among the waiters, and sleeps; first it wakes the driver in the mesh's poll, if so told.
    Sleep { wakes: bool },
}

/// Who takes the seat next.
#[derive(Debug)]
#[must_use]
pub(crate) enum Heir<'a, T> {
    /// Whoever comes.
    Nobody,
    /// This waiter, to be nudged.
    Waiter(&'a T),
    /// The background thread, to be called.
    Background,
}

/// Commands and callers for which there is room from the start, so that an endpoint in use does not allocate.
const PLACES: usize = 256;

/// What the background thread does.
#[derive(Debug)]
#[must_use]
pub(crate) enum Duty<S> {
    /// It drives.
    Drive(S),
    /// It runs the callbacks that wait.
    CallBack,
    /// It naps until it is called, or for a while.
    Nap,
    /// It ends.
    End,
}

impl<S, C, T> Handover<S, C, T> {
    pub(crate) fn new(seat: S) -> Self {
        Self {
            seat: Some(seat),
            inbox: Vec::with_capacity(PLACES),
            waiters: VecDeque::with_capacity(PLACES),
            is_asleep: false,
            is_background: false,
            is_wanted: false,
            is_called: false,
            has_callbacks: false,
            turns: 0,
            seen: 0,
            is_stopping: false,
        }
    }

    /// Leaves a command for whoever drives. [`Handover::prod`] or [`Handover::ask`] follows.
    pub(crate) fn push(&mut self, command: C) {
        self.inbox.push(command);
    }

    /// The driver takes the commands, into an empty vector.
    pub(crate) fn take_commands(&mut self, commands: &mut Vec<C>) {
        mem::swap(&mut self.inbox, commands);
    }

    /// Takes the seat if it is free.
    pub(crate) fn try_take(&mut self) -> Option<S> {
        let seat = self.seat.take();
        if seat.is_some() {
            // Who has it decides anew when it leaves. A call that stood would keep it from calling then.
            self.is_called = false;
        }
        seat
    }

    /// Whether the driver, in the mesh's poll, must be woken to see the inbox.
    #[must_use]
    pub(crate) fn must_wake(&mut self) -> bool {
        !self.inbox.is_empty() && mem::replace(&mut self.is_asleep, false)
    }

    /// A caller wants to drive, or to sleep if somebody else does.
    pub(crate) fn ask(&mut self, ticket: &Arc<T>) -> Ask<S> {
        if let Some(seat) = self.try_take() {
            return Ask::Drive(seat);
        }
        self.waiters.push_back(Arc::clone(ticket));
        if self.is_background {
            self.is_wanted = true;
            return Ask::Sleep { wakes: mem::replace(&mut self.is_asleep, false) };
        }
        Ask::Sleep { wakes: self.must_wake() }
    }

    /// A caller has slept. It takes the seat next, or passes on what nudge it may have had.
    pub(crate) fn end_wait(&mut self, ticket: &Arc<T>) {
        if let Some(at) = self.waiters.iter().position(|other| Arc::ptr_eq(other, ticket)) {
            self.waiters.remove(at);
        }
    }

    /// All that wait.
    pub(crate) fn waiters(&self) -> impl Iterator<Item = &Arc<T>> {
        self.waiters.iter()
    }

    /// Puts the seat back at the end of a turn. [`Handover::pass_on`] follows.
    pub(crate) fn put_back(&mut self, seat: S) {
        self.seat = Some(seat);
        if mem::replace(&mut self.is_background, false) {
            if mem::replace(&mut self.is_wanted, false) {
                // The next look finds that turns have been taken: it gives callers a while.
                self.seen = self.turns.wrapping_sub(1);
            }
        } else {
            self.turns += 1;
        }
    }

    /// The seat, if nobody drives.
    pub(crate) fn free_seat(&mut self) -> Option<&mut S> {
        self.seat.as_mut()
    }

    /// If the seat is free, finds who takes it: a caller that waits, or the background thread if there is work.
    pub(crate) fn pass_on(&mut self, is_busy: impl FnOnce(&S) -> bool) -> Heir<'_, T> {
        let Some(seat) = &self.seat else { return Heir::Nobody };
        if let Some(waiter) = self.waiters.front() {
            Heir::Waiter(waiter)
        } else if !self.is_called && (!self.inbox.is_empty() || is_busy(seat)) {
            self.is_called = true;
            Heir::Background
        } else {
            Heir::Nobody
        }
    }

    /// Whether the driver may sleep in the mesh's poll; not if there are commands, or a reason to leave. If so it is
    /// asleep from now on, until [`Handover::awake`].
    #[must_use]
    pub(crate) fn may_sleep(&mut self) -> bool {
        self.is_asleep = self.inbox.is_empty() && !self.must_background_leave();
        self.is_asleep
    }

    /// The driver is back from the mesh's poll.
    pub(crate) fn awake(&mut self) {
        self.is_asleep = false;
    }

    /// There are callbacks. The background thread is called, and woken from the mesh's poll if this is true.
    #[must_use]
    pub(crate) fn call_back(&mut self) -> bool {
        self.has_callbacks = true;
        self.is_background && mem::replace(&mut self.is_asleep, false)
    }

    /// Whether callbacks wait for the background thread.
    #[must_use]
    pub(crate) fn has_callbacks(&self) -> bool {
        self.has_callbacks
    }

    /// What the background thread does, which does not drive.
    pub(crate) fn look(&mut self, is_broken: bool) -> Duty<S> {
        if mem::replace(&mut self.has_callbacks, false) {
            return Duty::CallBack;
        }
        if self.is_stopping {
            return Duty::End;
        }
        let is_unused = self.turns == self.seen && self.waiters.is_empty();
        self.seen = self.turns;
        if !is_broken
            && (self.is_called || is_unused)
            && let Some(seat) = self.try_take()
        {
            self.is_background = true;
            return Duty::Drive(seat);
        }
        Duty::Nap
    }

    /// Whether the background thread drives and must leave.
    #[must_use]
    pub(crate) fn must_background_leave(&self) -> bool {
        self.is_background && (self.is_wanted || self.has_callbacks || self.is_stopping)
    }

    /// The background thread ends soon. It is called, and the mesh's poll is woken.
    pub(crate) fn stop(&mut self) {
        self.is_stopping = true;
    }
}
