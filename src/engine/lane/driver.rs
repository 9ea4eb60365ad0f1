//! A driver's turn: it takes the seat, works, sleeps in the mesh's poll, and passes the seat on.
#![forbid(unsafe_code)]

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::super::bell;
use super::super::completion::Completion;
use super::super::core::{Command, Core};
use super::super::handover::{Ask, Heir};
use super::super::waiting::{Next, Pace, Terms};
use super::{Lane, Seat, State};
use crate::config::Wait;
use crate::error::Error;

/// What comes of a try to take the seat.
#[derive(Debug)]
pub(super) enum Turn {
    /// The thread drives.
    Drive(Box<Seat>),
    /// It does not, and may look whether it still wants to.
    LookAgain,
    /// It has slept, and a signal has ended that.
    Interrupted,
}

/// Why a driver's sleep has ended.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Slept {
    /// Time has passed.
    Quietly,
    /// Something has come, or somebody has woken it.
    UntilWoken,
    /// This thread has handled a signal.
    UntilSignal,
}

impl Lane {
    /// Takes the seat, or sleeps until there may be reason to look again.
    pub(super) fn take_seat(&self, ticket: &Arc<Completion>, terms: Terms) -> Turn {
        let mut state = self.state.lock();
        if let Some(error) = self.broken.get() {
            drop(state);
            ticket.fail(error.clone());
            return Turn::LookAgain;
        }
        if ticket.is_ended() {
            return Turn::LookAgain;
        }
        let wakes = match state.handover.ask(ticket) {
            Ask::Drive(seat) => return Turn::Drive(seat),
            Ask::Sleep { wakes } => wakes,
        };
        drop(state);
        if wakes {
            self.waker.wake();
        }
        let is_interrupted = if terms.is_interruptible {
            bell::sleep(ticket, terms.until)
        } else {
            ticket.sleep(terms.until);
            false
        };
        let mut state = self.state.lock();
        state.handover.end_wait(ticket);
        if ticket.is_ended() || is_interrupted || terms.are_over() {
            // A nudge that came meanwhile goes to somebody else.
            self.pass_on(&mut state);
            return if is_interrupted { Turn::Interrupted } else { Turn::LookAgain };
        }
        state.handover.try_take().map_or(Turn::LookAgain, Turn::Drive)
    }

    /// Puts the seat back at the end of a turn.
    pub(super) fn leave_seat(&self, seat: Box<Seat>) {
        let mut state = self.state.lock();
        state.handover.put_back(seat);
        self.pass_on(&mut state);
    }

    /// If the seat is free, sees to it that somebody takes it who must.
    fn pass_on(&self, state: &mut State) {
        let State { handover, spare_operations, .. } = state;
        let Some(seat) = handover.free_seat() else { return };
        seat.core.take_ended(spare_operations);
        match handover.pass_on(|seat| seat.core.is_busy()) {
            Heir::Nobody => {}
            Heir::Waiter(waiter) => waiter.nudge(),
            Heir::Background => {
                self.called.notify_one();
            }
        }
    }

    /// Runs a driver's work; a panic in it, or a poll that fails, ends every world of the endpoint.
    pub(super) fn guarded(
        &self,
        seat: &mut Box<Seat>,
        work: impl FnOnce(&Self, &mut Seat) -> Result<(), Error>,
    ) {
        let result = catch_unwind(AssertUnwindSafe(|| work(self, seat)));
        let error = match result {
            Ok(Ok(())) => return,
            Ok(Err(error)) => error,
            Err(panic) => Error::Internal(text_of(&*panic)),
        };
        log::error!("an endpoint fails: {error}");
        let _ = catch_unwind(AssertUnwindSafe(|| {
            seat.core.fail_all(&error);
            seat.core.work();
        }));
        let mut commands = Vec::new();
        let mut state = self.state.lock();
        state.handover.awake();
        state.handover.take_commands(&mut commands);
        // Only now is a caller's memory out of reach for certain: nobody drives any more.
        let _ = self.broken.set(error.clone());
        let waiters: Vec<_> = state.handover.waiters().cloned().collect();
        drop(state);
        for command in commands {
            if let Command::Submit(mut operation) = command
                && let Some(completion) = operation.completion.take()
            {
                completion.end(Err(error.clone()));
            }
        }
        waiters.iter().for_each(|waiter| waiter.fail(error.clone()));
    }

    /// Hands the inbox to the core. Whether there was something in it.
    pub(super) fn take_commands(&self, seat: &mut Seat) -> bool {
        let mut state = self.state.lock();
        state.handover.take_commands(&mut seat.commands);
        seat.core.take_ended(&mut state.spare_operations);
        drop(state);
        let any = !seat.commands.is_empty();
        for command in seat.commands.drain(..) {
            seat.core.command(command);
        }
        any
    }

    /// Drives until `is_done`, or until its terms are over. Whether a signal has ended it before.
    pub(super) fn drive(
        &self,
        seat: &mut Seat,
        terms: Terms,
        is_done: &dyn Fn(&Core) -> bool,
    ) -> Result<bool, Error> {
        let mut pace = Pace::new(self.wait_of(terms), self.fits);
        let mut is_interrupted = false;
        loop {
            self.take_commands(seat);
            let has_more = seat.core.work();
            if is_done(&seat.core) || terms.are_over() {
                return Ok(false);
            }
            if is_interrupted {
                return Ok(true);
            }
            let came = if has_more || pace.next() == Next::Look {
                seat.core.poll(Some(Duration::ZERO))?
            } else {
                let slept = self.sleep(seat, terms.until)?;
                is_interrupted = terms.is_interruptible && slept == Slept::UntilSignal;
                slept == Slept::UntilWoken
            };
            if came || has_more {
                pace.restart();
            }
        }
    }

    /// What a driver does while nothing happens. Signals are noticed by those who sleep, so one that heeds them does.
    fn wait_of(&self, terms: Terms) -> Wait {
        match self.wait {
            Wait::Spin if terms.is_interruptible => Wait::Adaptive,
            wait => wait,
        }
    }

    /// Sleeps in the mesh's poll, unless there are commands (or a driver's reason to leave) already.
    pub(super) fn sleep(&self, seat: &mut Seat, until: Option<Instant>) -> Result<Slept, Error> {
        if !self.state.lock().handover.may_sleep() {
            return Ok(Slept::UntilWoken);
        }
        let now = seat.core.now();
        let due = seat.core.due().map(|due| Duration::from_nanos(due.saturating_sub(now)));
        let mine = until.map(|until| until.saturating_duration_since(Instant::now()));
        let limit = match (due, mine) {
            (Some(due), Some(mine)) => Some(due.min(mine)),
            (due, mine) => due.or(mine),
        };
        let came = seat.core.poll(limit);
        self.state.lock().handover.awake();
        Ok(match came? {
            _ if seat.core.was_interrupted() => Slept::UntilSignal,
            true => Slept::UntilWoken,
            false => Slept::Quietly,
        })
    }
}

/// What a panic says.
pub(super) fn text_of(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| panic.downcast_ref::<String>().cloned())
        .unwrap_or_else(|| "a panic without a message".into())
}
