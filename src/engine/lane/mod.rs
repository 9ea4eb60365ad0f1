//! Who drives: one core, many threads.
//!
//! Whoever waits, drives. The core sits in a [`Seat`]; the thread that has taken the seat out of the lane's state is the
//! driver, and works without holding the lock. A caller that must wait takes the seat if it is there, else it sleeps
//! until its operation ends or it is nudged to take the seat. A driver that leaves nudges the next waiting caller; if
//! there is none and something is under way, it calls the background thread, else it only counts its turn. The background
//! thread looks now and then whether callers still take turns; when they do not, it takes the seat and sleeps in the
//! mesh's poll, without a time-out when nothing is under way. So exactly one thread sleeps in the poll, a loop of
//! blocking calls never hands over, and an idle process makes no system call. The decisions are `handover`'s, which is
//! checked by a model; here is what they move.
//!
//! Lock order: the lane's state, then a completion's. Who ends a completion that a caller may hold has neither: its hooks
//! take them.
#![forbid(unsafe_code)]

mod background;
mod driver;
#[cfg(test)]
mod tests;

use std::cell::Cell;
use std::collections::VecDeque;
use std::sync::{Arc, OnceLock};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};

use super::completion::Completion;
use super::core::{Command, Core, Registration};
use super::handover::Handover;
use super::limits::Limits;
use super::operation::Operation;
use super::program::Program;
use super::waiting::Terms;
use crate::config::Wait;
use crate::error::Error;
use crate::link::{Mesh, Wake, syscall};
use background::Callback;
use driver::Turn;

/// Operations and completions that are there from the start: how many are in use at once, and how many of them come back
/// late, is a matter of timing.
const PREPARED: usize = 64;

/// Places that the lists of waiting callers and of commands have from the start.
const PLACES: usize = 256;

/// Ended completions that are kept to be used again.
const SPARE_COMPLETIONS: usize = 4096;

/// The core, and the commands that its driver has taken.
#[derive(Debug)]
struct Seat {
    core: Core,
    commands: Vec<Command>,
}

#[derive(Debug)]
struct State {
    handover: Handover<Box<Seat>, Command, Completion>,
    #[expect(
        clippy::vec_box,
        reason = "operations move as boxes, from a pool into the core and back"
    )]
    spare_operations: Vec<Box<Operation>>,
    spare_completions: VecDeque<Arc<Completion>>,
    /// For the background thread, until that ends.
    callbacks: Option<VecDeque<Callback>>,
}

/// One I/O shard of an endpoint, and its background thread.
#[derive(Debug)]
pub struct Lane {
    state: Mutex<State>,
    /// Why nothing works any more: a bug, or a poll that the system refused. Set under the lock, once.
    broken: OnceLock<Error>,
    /// Where the background thread naps.
    called: Condvar,
    waker: Arc<dyn Wake>,
    wait: Wait,
    /// This host's ranks have a processor each.
    fits: bool,
    limits: Limits,
    is_interruptible: bool,
    thread: Mutex<Option<JoinHandle<()>>>,
    /// The process that made it.
    generation: u64,
}

/// How the lane of an endpoint is set up.
#[derive(Debug, Clone, Copy)]
pub struct Settings {
    /// Endpoints in all.
    pub size: usize,
    /// What a driver does while nothing happens.
    pub wait: Wait,
    /// Whether this host's ranks have a processor each.
    pub fits: bool,
    /// How much is taken at once.
    pub limits: Limits,
    /// Whether signals end waits for requests.
    pub is_interruptible: bool,
}

impl Lane {
    /// Starts the background thread over a mesh. The root world is known before the first frame is read.
    ///
    /// # Errors
    ///
    /// [`Error::Resource`] if the system gives no thread.
    pub fn start(
        mesh: Box<dyn Mesh>,
        settings: &Settings,
        root: Registration,
    ) -> Result<Arc<Self>, Error> {
        let nothing = Arc::new(Program::nothing());
        let blank = |_| Operation::blank(Arc::clone(&nothing), Arc::clone(&root.members));
        let mut spare_operations = Vec::with_capacity(PLACES);
        spare_operations.extend((0..PREPARED).map(blank));
        let mut spare_completions = VecDeque::with_capacity(PLACES);
        spare_completions.extend((0..PREPARED).map(|_| Arc::default()));
        let mut core = Core::new(mesh, settings.size, settings.limits);
        core.command(Command::Register(root));
        let waker = core.waker();
        let seat = Box::new(Seat { core, commands: Vec::with_capacity(PLACES) });
        let lane = Arc::new(Self {
            state: Mutex::new(State {
                handover: Handover::new(seat),
                spare_operations,
                spare_completions,
                callbacks: Some(VecDeque::new()),
            }),
            broken: OnceLock::new(),
            called: Condvar::new(),
            waker,
            wait: settings.wait,
            fits: settings.fits,
            limits: settings.limits,
            is_interruptible: settings.is_interruptible,
            thread: Mutex::new(None),
            generation: syscall::fork::fork_generation(),
        });
        *lane.thread.lock() = Some(lane.start_background()?);
        Ok(lane)
    }

    /// Whether this process made it, and is no child made by `fork(2)`: there, no lock of it may be taken (a thread
    /// that does not exist in the child may hold it), and nothing of it works.
    #[must_use]
    pub fn is_ours(&self) -> bool {
        self.generation == syscall::fork::fork_generation()
    }

    /// How much the engine takes at once.
    #[must_use]
    pub fn limits(&self) -> &Limits {
        &self.limits
    }

    /// Whether signals end waits for its requests.
    #[must_use]
    pub fn is_interruptible(&self) -> bool {
        self.is_interruptible
    }

    /// Makes a world known: frames for it may come from now on.
    pub fn register(&self, world: Registration) {
        self.post(Command::Register(world));
    }

    /// Fails a world by its caller's will; its members are told. Waits for nobody.
    pub fn fail(&self, world: u64, error: Error) {
        self.post(Command::Fail { world, error });
    }

    /// Goes from a world.
    pub fn leave(&self, world: u64) {
        self.post(Command::Leave { world });
    }

    /// Makes all links of a world.
    pub fn connect(&self, world: u64) {
        self.post(Command::Connect { world });
    }

    /// Submits an operation. `fill` makes it, in the order in which ranks match, from a used one if there is one; it
    /// runs under the lane's lock. The operation is on its way when this returns; the caller waits with
    /// [`Lane::wait`] or calls [`Lane::prod`].
    pub fn submit(
        &self,
        fill: impl FnOnce(Option<Box<Operation>>) -> Box<Operation>,
    ) -> Arc<Completion> {
        self.submitting(1, |state, completion| state.push(completion, fill))
    }

    /// Submits so many operations as one: they begin together, and the completion ends when the last of them has, with
    /// the first error of any. `fill` makes each, by its number, as for [`Lane::submit`].
    pub fn submit_many(
        &self,
        count: usize,
        mut fill: impl FnMut(usize, Option<Box<Operation>>) -> Box<Operation>,
    ) -> Arc<Completion> {
        self.submitting(count, |state, completion| {
            for at in 0..count {
                state.push(completion, |spare| fill(at, spare));
            }
        })
    }

    /// Lets `push` submit so many operations under the lane's lock.
    fn submitting(
        &self,
        count: usize,
        push: impl FnOnce(&mut State, &Arc<Completion>),
    ) -> Arc<Completion> {
        prepare_thread();
        let mut state = self.state.lock();
        let completion = state.completion(count);
        match self.broken.get() {
            None => push(&mut state, &completion),
            Some(error) => completion.fail(error.clone()),
        }
        completion
    }

    /// Sees to it that what was submitted is begun, without waiting.
    pub fn prod(&self) {
        let mut state = self.state.lock();
        if self.broken.get().is_some() {
            return;
        }
        if let Some(mut seat) = state.handover.try_take() {
            drop(state);
            self.guarded(&mut seat, |lane, seat| {
                lane.take_commands(seat);
                seat.core.work();
                Ok(())
            });
            self.leave_seat(seat);
        } else if state.handover.must_wake() {
            drop(state);
            self.waker.wake();
        }
    }

    /// How an operation ended, if it has. Never waits.
    #[must_use]
    pub fn outcome(&self, completion: &Completion) -> Option<Result<(), Error>> {
        if !completion.is_ended()
            && let Some(error) = self.broken.get()
        {
            // The driver's panic may have lost the operation, so nobody else ends it.
            completion.fail(error.clone());
        }
        completion.outcome()
    }

    /// Waits until an operation has ended, at most until `until`. Drives if nobody else does.
    pub fn wait(&self, completion: &Arc<Completion>, until: Option<Instant>) {
        self.wait_on(completion, Terms { until, is_interruptible: false });
    }

    /// Waits until an operation has ended, on these terms. Whether a signal has ended the wait, and the operation goes on.
    pub(super) fn wait_on(&self, completion: &Arc<Completion>, terms: Terms) -> bool {
        let mut is_interrupted = false;
        while !completion.is_ended() && !is_interrupted && !terms.are_over() {
            match self.take_seat(completion, terms) {
                Turn::Drive(mut seat) => {
                    self.guarded(&mut seat, |lane, seat| {
                        is_interrupted = lane.drive(seat, terms, &|_| completion.is_ended())?;
                        Ok(())
                    });
                    self.leave_seat(seat);
                }
                Turn::LookAgain => {}
                Turn::Interrupted => is_interrupted = true,
            }
        }
        is_interrupted && !completion.is_ended()
    }

    /// A completion for somebody to wait on who waits for any of several: [`Lane::wait`], then [`Lane::give_back`].
    pub(super) fn ticket(&self) -> Arc<Completion> {
        self.state.lock().completion(1)
    }

    /// What ends the poll of this lane's driver.
    pub(super) fn waker(&self) -> &Arc<dyn Wake> {
        &self.waker
    }

    /// Keeps a completion whose request is gone for another operation.
    pub fn give_back(&self, completion: Arc<Completion>) {
        let mut state = self.state.lock();
        if state.spare_completions.len() < SPARE_COMPLETIONS {
            state.spare_completions.push_back(completion);
        }
    }

    /// Closes the endpoint: leaves what is left of its worlds, lets what was sent go out, and waits for the peers' ends
    /// for a bounded time. Ends the background thread.
    pub fn close(&self) {
        let until = Instant::now() + Duration::from_nanos(self.limits.linger_ns);
        self.state.lock().handover.push(Command::Close);
        let ticket = Arc::new(Completion::default());
        while Instant::now() < until && self.broken.get().is_none() {
            let terms = Terms { until: Some(until), is_interruptible: false };
            let Turn::Drive(mut seat) = self.take_seat(&ticket, terms) else { continue };
            self.guarded(&mut seat, |lane, seat| {
                lane.drive(seat, terms, &|core| core.is_closed()).map(|_| ())
            });
            self.leave_seat(seat);
            break;
        }
        // However little time there was, every operation ends.
        self.prod();
        let mut state = self.state.lock();
        state.handover.stop();
        self.called.notify_all();
        drop(state);
        self.waker.wake();
        let thread = self.thread.lock().take();
        if let Some(thread) = thread
            && thread.thread().id() != thread::current().id()
            && thread.join().is_err()
        {
            log::error!("the background thread of an endpoint has panicked");
        }
    }

    /// Hands a command to the core, now if nobody drives.
    fn post(&self, command: Command) {
        let mut state = self.state.lock();
        if self.broken.get().is_some() {
            return;
        }
        state.handover.push(command);
        drop(state);
        self.prod();
    }
}

impl State {
    /// Submits an operation, from a used one if there is one.
    fn push(
        &mut self,
        completion: &Arc<Completion>,
        fill: impl FnOnce(Option<Box<Operation>>) -> Box<Operation>,
    ) {
        let mut operation = fill(self.spare_operations.pop());
        operation.completion = Some(Arc::clone(completion));
        self.handover.push(Command::Submit(operation));
    }

    /// A completion as new, of so many operations.
    fn completion(&mut self, parts: usize) -> Arc<Completion> {
        for _ in 0..2 {
            let Some(mut spare) = self.spare_completions.pop_front() else { break };
            if let Some(completion) = Arc::get_mut(&mut spare) {
                completion.renew(parts);
                return spare;
            }
            self.spare_completions.push_back(spare);
        }
        Arc::new(Completion::new(parts))
    }
}

/// Lets this thread allocate now what it needs for its first sleep at a lock: the lock library does so then, and when a
/// thread first finds a lock taken is a matter of timing.
fn prepare_thread() {
    thread_local! {
        static IS_PREPARED: Cell<bool> = const { Cell::new(false) };
    }
    if !IS_PREPARED.replace(true) {
        Condvar::new().wait_for(&mut Mutex::new(()).lock(), Duration::ZERO);
    }
}
