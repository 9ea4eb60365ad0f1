//! The background thread: it drives when no caller does, and runs the callbacks.
//!
//! Callbacks run without the seat and without a lock, so that one may start operations, or close the endpoint, and so
//! that callers can drive meanwhile. They run here only, in the order in which their operations ended, each once: also
//! those of an endpoint that closes, before the thread ends.
#![forbid(unsafe_code)]

use std::collections::VecDeque;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use super::super::completion::{Completion, Hook};
use super::super::handover::Duty;
use super::super::operation::Operation;
use super::driver::text_of;
use super::{Lane, Seat};
use crate::error::Error;
use crate::link::syscall;

/// The first and the longest time between two looks of the background thread at a lane that callers drive.
const LOOK: (Duration, Duration) = (Duration::from_millis(1), Duration::from_millis(100));

/// A caller's function that is told how its operation ended.
type Function = Box<dyn FnOnce(Result<(), Error>) + Send>;

/// A function to be called, and what with.
pub(super) struct Callback {
    function: Function,
    result: Result<(), Error>,
}

impl fmt::Debug for Callback {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Callback").field("result", &self.result).finish_non_exhaustive()
    }
}

impl Callback {
    /// Runs it; a panic in it is the caller's bug, and ends nothing else.
    fn run(self) {
        let Self { function, result } = self;
        if let Err(panic) = catch_unwind(AssertUnwindSafe(|| function(result))) {
            log::error!("a completion callback has panicked: {}", text_of(&*panic));
        }
    }
}

/// A panic of the driver may lose an operation, which is still to end for those who wait for it.
impl Drop for Operation {
    fn drop(&mut self) {
        if let Some(completion) = self.completion.take() {
            completion.end(Err(Error::Internal("an operation was lost".into())));
        }
    }
}

impl Lane {
    /// Has the background thread run `function` when an operation has ended, soon if it has.
    ///
    /// # Errors
    ///
    /// [`Error::Aborted`] if the endpoint has closed, so that there is no such thread any more.
    pub(crate) fn on_complete(
        self: &Arc<Self>,
        completion: &Completion,
        function: Function,
    ) -> Result<(), Error> {
        if let Some(result) = self.outcome(completion)
            && completion.is_settled()
        {
            return self.call_back(Callback { function, result });
        }
        let lane = Arc::clone(self);
        completion.at_end(Hook::Run(Box::new(move |result| {
            if let Err(error) = lane.call_back(Callback { function, result }) {
                log::error!("a completion callback cannot run: {error}");
            }
        })));
        Ok(())
    }

    /// Leaves a callback to the background thread, whatever that is doing.
    fn call_back(&self, callback: Callback) -> Result<(), Error> {
        let mut state = self.state.lock();
        let Some(callbacks) = &mut state.callbacks else {
            return Err(Error::Aborted("the last world of the endpoint was destroyed".into()));
        };
        callbacks.push_back(callback);
        let wakes = state.handover.call_back();
        self.called.notify_one();
        drop(state);
        if wakes {
            self.waker.wake();
        }
        Ok(())
    }

    /// Starts the background thread, which inherits a mask of signals: no handler of the program ever runs on it.
    pub(super) fn start_background(self: &Arc<Self>) -> Result<JoinHandle<()>, Error> {
        let blocked = syscall::signals::block_signals();
        let blocked = blocked.map_err(|error| Error::system("block signals", &error))?;
        let shared = Arc::clone(self);
        let thread = thread::Builder::new().name("collect".into()).stack_size(512 << 10);
        let thread = thread.spawn(move || shared.run_background());
        drop(blocked);
        thread.map_err(|error| Error::thread("start the background thread of an endpoint", &error))
    }

    /// The background thread's life.
    pub(super) fn run_background(&self) {
        syscall::cancellation::disable_for_good();
        let mut batch = VecDeque::new();
        let mut look = LOOK.0;
        let mut state = self.state.lock();
        loop {
            match state.handover.look(self.broken.get().is_some()) {
                Duty::End => {
                    state.callbacks = None;
                    return;
                }
                Duty::Drive(seat) => {
                    drop(state);
                    self.take_background_turn(seat);
                    look = LOOK.0;
                    state = self.state.lock();
                }
                Duty::CallBack => {
                    state.callbacks.iter_mut().for_each(|callbacks| batch.append(callbacks));
                    drop(state);
                    batch.drain(..).for_each(Callback::run);
                    self.drive_between_callbacks();
                    state = self.state.lock();
                }
                Duty::Nap => {
                    self.called.wait_for(&mut state, look);
                    look = (look * 2).min(LOOK.1);
                }
            }
        }
    }

    /// The background thread drives until a caller wants the seat, or there are callbacks.
    fn take_background_turn(&self, mut seat: Box<Seat>) {
        self.guarded(&mut seat, |lane, seat| {
            loop {
                lane.take_commands(seat);
                let has_more = seat.core.work();
                if lane.state.lock().handover.must_background_leave() {
                    return Ok(());
                }
                if has_more {
                    seat.core.poll(Some(Duration::ZERO))?;
                } else {
                    lane.sleep(seat, None)?;
                }
            }
        });
        self.leave_seat(seat);
    }

    /// One look at the network, if more callbacks have come already: an endless chain of them delays nobody else.
    fn drive_between_callbacks(&self) {
        let mut state = self.state.lock();
        if !state.handover.has_callbacks() || self.broken.get().is_some() {
            return;
        }
        let Some(mut seat) = state.handover.try_take() else { return };
        drop(state);
        self.guarded(&mut seat, |lane, seat| {
            lane.take_commands(seat);
            seat.core.poll(Some(Duration::ZERO))?;
            seat.core.work();
            Ok(())
        });
        self.leave_seat(seat);
    }
}
