//! The hand-over of the driver's seat in every interleaving of a few threads: `make test-loom`.
//!
//! `engine/handover` and `engine/completion` are here themselves; [`Lane`] does with them what `engine/lane` does, step
//! by step, over a mesh in which events come when they come. No wait has a time-out, so a lost wake-up is a deadlock,
//! which loom reports. Left out: the looks before a driver sleeps, panics, and the look at the network between callbacks.
#![cfg(loom)]
#![allow(dead_code, unreachable_pub, reason = "the modules are the library's own")]
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "../src/engine/completion.rs"]
mod completion;
#[path = "../src/engine/handover.rs"]
mod handover;

use std::mem;
use std::sync::Arc;

use loom::thread;

use collect::link::Wake;
use completion::{Completion, Hook};
use handover::{Ask, Duty, Handover, Heir};
use sync::{Condvar, Mutex};

mod error {
    pub(crate) use collect::Error;
}

mod link {
    pub(crate) use collect::link::Wake;
}

/// Loom's, with the interface of what `engine/sync` names.
mod sync {
    use std::ops::{Deref, DerefMut};
    use std::time::Instant;

    pub(crate) use loom::sync::atomic::{AtomicBool, Ordering};

    #[derive(Debug)]
    pub(crate) struct Mutex<T>(loom::sync::Mutex<T>);

    pub(crate) struct MutexGuard<'a, T>(Option<loom::sync::MutexGuard<'a, T>>);

    #[derive(Debug)]
    pub(crate) struct Condvar(loom::sync::Condvar);

    /// No wait of the model has a time-out.
    pub(crate) struct Never;

    impl<T> Mutex<T> {
        pub(crate) fn new(value: T) -> Self {
            Self(loom::sync::Mutex::new(value))
        }

        pub(crate) fn lock(&self) -> MutexGuard<'_, T> {
            MutexGuard(Some(self.0.lock().unwrap()))
        }
    }

    impl<T: Default> Default for Mutex<T> {
        fn default() -> Self {
            Self::new(T::default())
        }
    }

    impl<T> Deref for MutexGuard<'_, T> {
        type Target = T;

        fn deref(&self) -> &T {
            self.0.as_ref().unwrap()
        }
    }

    impl<T> DerefMut for MutexGuard<'_, T> {
        fn deref_mut(&mut self) -> &mut T {
            self.0.as_mut().unwrap()
        }
    }

    impl Default for Condvar {
        fn default() -> Self {
            Self(loom::sync::Condvar::new())
        }
    }

    impl Condvar {
        pub(crate) fn wait<T>(&self, guard: &mut MutexGuard<'_, T>) {
            guard.0 = guard.0.take().map(|guard| self.0.wait(guard).unwrap());
        }

        pub(crate) fn wait_until<T>(&self, _: &mut MutexGuard<'_, T>, _: Instant) -> Never {
            unimplemented!("a wait with a time-out")
        }

        pub(crate) fn notify_one(&self) {
            self.0.notify_one();
        }

        pub(crate) fn notify_all(&self) {
            self.0.notify_all();
        }
    }

    impl Never {
        pub(crate) fn timed_out(&self) -> bool {
            false
        }
    }
}

/// What the lane forgets, for the model to find.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fault {
    None,
    /// To wake the driver in the poll.
    Wake,
    /// To see who takes the seat when a driver leaves.
    PassOn,
    /// To pass on a nudge when its own operation has ended.
    Nudge,
    /// To look for commands before the poll.
    Look,
    /// To wake the poll at the end.
    Stop,
    /// To call the background thread for a callback.
    CallBack,
    /// To wake the poll for a callback.
    CallBackInPoll,
    /// To hang up the bell before the look for news.
    Hang,
    /// To pass on a nudge when a signal has ended the wait.
    NudgeAtSignal,
}

/// Events of operations, and whether a poll must end.
#[derive(Debug, Default)]
struct Mesh {
    state: Mutex<MeshState>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct MeshState {
    events: Vec<usize>,
    is_woken: bool,
    has_sleeper: bool,
}

impl Mesh {
    fn poll(&self) -> Vec<usize> {
        let mut state = self.state.lock();
        assert!(!mem::replace(&mut state.has_sleeper, true), "two threads sleep in the poll");
        while !state.is_woken && state.events.is_empty() {
            self.changed.wait(&mut state);
        }
        state.has_sleeper = false;
        state.is_woken = false;
        mem::take(&mut state.events)
    }

    fn wake(&self) {
        self.state.lock().is_woken = true;
        self.changed.notify_one();
    }

    /// The network: one event for each operation, whether it has been called or not.
    fn deliver(&self, operations: usize) {
        for operation in 0..operations {
            self.state.lock().events.push(operation);
            self.changed.notify_one();
        }
    }
}

/// What a thread sleeps on that notices signals (`engine/bell`).
#[derive(Debug, Default)]
struct Bell {
    state: Mutex<BellState>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct BellState {
    is_rung: bool,
    is_signalled: bool,
}

impl Bell {
    /// Sleeps until it rings, or a signal comes, which alone gives true.
    fn listen(&self) -> bool {
        let mut state = self.state.lock();
        while !state.is_rung && !state.is_signalled {
            self.changed.wait(&mut state);
        }
        state.is_rung = false;
        mem::take(&mut state.is_signalled)
    }

    fn signal(&self) {
        self.state.lock().is_signalled = true;
        self.changed.notify_one();
    }
}

impl Wake for Bell {
    fn wake(&self) {
        self.state.lock().is_rung = true;
        self.changed.notify_one();
    }
}

/// A callback tells this.
type Callback = Arc<Completion>;

/// An operation, and whom to tell.
type Command = (usize, Arc<Completion>);

/// The core: an operation ends when it has been called and its event has come.
#[derive(Debug, Default)]
struct Seat {
    calls: [Option<Arc<Completion>>; 2],
    events: [bool; 2],
}

impl Seat {
    fn work(&mut self) {
        for (call, event) in self.calls.iter_mut().zip(self.events) {
            if event && let Some(call) = call.take() {
                call.end(Ok(()));
            }
        }
    }

    fn is_busy(&self) -> bool {
        self.calls.iter().any(Option::is_some)
    }
}

#[derive(Debug)]
struct Lane {
    state: Mutex<Handover<Seat, Command, Completion>>,
    /// Under a lock of their own here: what is in the model is who runs them, and when.
    callbacks: Mutex<Vec<Callback>>,
    called: Condvar,
    mesh: Mesh,
    fault: Fault,
}

impl Lane {
    fn submit(&self, operation: usize) -> Arc<Completion> {
        let completion = Arc::new(Completion::default());
        self.state.lock().push((operation, Arc::clone(&completion)));
        completion
    }

    fn prod(&self) {
        let mut state = self.state.lock();
        if let Some(mut seat) = state.try_take() {
            drop(state);
            self.take_commands(&mut seat);
            seat.work();
            self.leave_seat(seat);
        } else if state.must_wake() {
            drop(state);
            self.wake();
        }
    }

    fn wait(&self, completion: &Arc<Completion>) {
        self.wait_on(completion, None);
    }

    /// With a bell: a signal ends a sleep on it, and the wait. Whether it has.
    fn wait_on(&self, completion: &Arc<Completion>, bell: Option<&Arc<Bell>>) -> bool {
        let mut is_signalled = false;
        while !completion.is_ended() && !is_signalled {
            let Some(mut seat) = self.take_seat(completion, bell, &mut is_signalled) else {
                continue;
            };
            loop {
                self.take_commands(&mut seat);
                seat.work();
                if completion.is_ended() {
                    break;
                }
                self.sleep(&mut seat);
            }
            self.leave_seat(seat);
        }
        is_signalled && !completion.is_ended()
    }

    /// Sleeps on the bell. Whether a signal has ended that.
    fn listen(&self, bell: &Arc<Bell>, completion: &Completion) -> bool {
        let hung: Arc<dyn Wake> = bell.clone();
        let mut has_news = false;
        if self.fault == Fault::Hang {
            has_news = completion.take_news();
        }
        completion.hang(&hung);
        let mut is_signalled = false;
        if self.fault == Fault::Hang && !has_news {
            is_signalled = bell.listen();
        }
        while !has_news && !completion.take_news() && !is_signalled {
            is_signalled = bell.listen();
        }
        completion.take_down(&hung);
        is_signalled && !completion.is_ended()
    }

    fn take_seat(
        &self,
        ticket: &Arc<Completion>,
        bell: Option<&Arc<Bell>>,
        is_signalled: &mut bool,
    ) -> Option<Seat> {
        let mut state = self.state.lock();
        if ticket.is_ended() {
            return None;
        }
        let wakes = match state.ask(ticket) {
            Ask::Drive(seat) => return Some(seat),
            Ask::Sleep { wakes } => wakes,
        };
        drop(state);
        if wakes {
            self.wake();
        }
        match bell {
            None => ticket.sleep(None),
            Some(bell) => *is_signalled = self.listen(bell, ticket),
        }
        let mut state = self.state.lock();
        state.end_wait(ticket);
        if ticket.is_ended() || *is_signalled {
            let forgets =
                self.fault == Fault::Nudge || (*is_signalled && self.fault == Fault::NudgeAtSignal);
            if !forgets {
                self.pass_on(&mut state);
            }
            return None;
        }
        state.try_take()
    }

    fn leave_seat(&self, seat: Seat) {
        let mut state = self.state.lock();
        state.put_back(seat);
        if self.fault != Fault::PassOn {
            self.pass_on(&mut state);
        }
    }

    fn pass_on(&self, state: &mut Handover<Seat, Command, Completion>) {
        match state.pass_on(Seat::is_busy) {
            Heir::Nobody => {}
            Heir::Waiter(waiter) => waiter.nudge(),
            Heir::Background => self.called.notify_one(),
        }
    }

    fn take_commands(&self, seat: &mut Seat) {
        let mut commands = Vec::new();
        self.state.lock().take_commands(&mut commands);
        for (operation, completion) in commands {
            seat.calls[operation] = Some(completion);
        }
    }

    fn sleep(&self, seat: &mut Seat) {
        if !self.state.lock().may_sleep() && self.fault != Fault::Look {
            return;
        }
        for operation in self.mesh.poll() {
            seat.events[operation] = true;
        }
        self.state.lock().awake();
    }

    fn wake(&self) {
        if self.fault != Fault::Wake {
            self.mesh.wake();
        }
    }

    fn on_complete(self: &Arc<Self>, completion: &Completion) -> Callback {
        let callback = Callback::default();
        let (lane, told) = (Arc::clone(self), Arc::clone(&callback));
        completion.at_end(Hook::Run(Box::new(move |_| lane.call_back(told))));
        callback
    }

    fn call_back(&self, callback: Callback) {
        self.callbacks.lock().push(callback);
        let mut state = self.state.lock();
        let wakes = state.call_back();
        if self.fault != Fault::CallBack {
            self.called.notify_one();
        }
        drop(state);
        if wakes && self.fault != Fault::CallBackInPoll {
            self.mesh.wake();
        }
    }

    fn run_background(&self) {
        let mut state = self.state.lock();
        loop {
            match state.look(false) {
                Duty::End => return,
                Duty::Drive(mut seat) => {
                    drop(state);
                    loop {
                        self.take_commands(&mut seat);
                        seat.work();
                        if self.state.lock().must_background_leave() {
                            break;
                        }
                        self.sleep(&mut seat);
                    }
                    self.leave_seat(seat);
                    state = self.state.lock();
                }
                Duty::CallBack => {
                    drop(state);
                    let callbacks = mem::take(&mut *self.callbacks.lock());
                    callbacks.iter().for_each(|callback| callback.end(Ok(())));
                    state = self.state.lock();
                }
                Duty::Nap => self.called.wait(&mut state),
            }
        }
    }

    fn stop(&self) {
        self.state.lock().stop();
        self.called.notify_all();
        if self.fault != Fault::Stop {
            self.mesh.wake();
        }
    }
}

/// Runs a scenario beside the background thread and the network, in every interleaving with at most that many
/// preemptions.
fn explore(fault: Fault, operations: usize, scenario: fn(&Arc<Lane>)) {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(model.preemption_bound.unwrap_or(2));
    model.check(move || {
        let lane = Arc::new(Lane {
            state: Mutex::new(Handover::new(Seat::default())),
            callbacks: Mutex::default(),
            called: Condvar::default(),
            mesh: Mesh::default(),
            fault,
        });
        let shared = Arc::clone(&lane);
        let background = thread::spawn(move || shared.run_background());
        let shared = Arc::clone(&lane);
        let network = thread::spawn(move || shared.mesh.deliver(operations));
        scenario(&lane);
        network.join().unwrap();
        lane.stop();
        background.join().unwrap();
        assert!(lane.callbacks.lock().is_empty(), "a callback is left");
        let mut state = lane.state.lock();
        assert!(!state.free_seat().expect("the seat is lost").is_busy(), "an operation is left");
    });
}

/// Two callers, each with its own operation.
fn two_callers(lane: &Arc<Lane>) {
    let shared = Arc::clone(lane);
    let other = thread::spawn(move || {
        let completion = shared.submit(1);
        shared.wait(&completion);
        assert!(completion.is_ended());
    });
    let completion = lane.submit(0);
    lane.wait(&completion);
    assert!(completion.is_ended());
    other.join().unwrap();
}

/// Two callers, of which one notices signals, and none comes.
fn a_caller_with_a_bell(lane: &Arc<Lane>) {
    let shared = Arc::clone(lane);
    let other = thread::spawn(move || {
        let completion = shared.submit(1);
        let is_signalled = shared.wait_on(&completion, Some(&Arc::default()));
        assert!(completion.is_ended() && !is_signalled, "nobody has sent a signal");
    });
    let completion = lane.submit(0);
    lane.wait(&completion);
    other.join().unwrap();
}

/// Two callers; a signal ends the sleep of one, whose operation goes on.
fn a_caller_and_a_signal(lane: &Arc<Lane>) {
    let shared = Arc::clone(lane);
    let other = thread::spawn(move || {
        let completion = shared.submit(1);
        let bell = Arc::<Bell>::default();
        bell.signal();
        let is_signalled = shared.wait_on(&completion, Some(&bell));
        // Outside of the lane: whoever must drives to its end. A nudge may have come late.
        while !completion.is_ended() {
            completion.sleep(None);
        }
        is_signalled
    });
    let completion = lane.submit(0);
    lane.wait(&completion);
    other.join().unwrap();
}

/// An operation that nobody waits for in the lane.
fn a_request(lane: &Arc<Lane>) {
    let completion = lane.submit(0);
    lane.prod();
    completion.sleep(None);
    assert!(completion.is_ended());
}

/// A call while an operation is under way that nobody waits for.
fn a_request_and_a_caller(lane: &Arc<Lane>) {
    let request = lane.submit(1);
    lane.prod();
    let completion = lane.submit(0);
    lane.wait(&completion);
    request.sleep(None);
    assert!(request.is_ended());
}

/// A callback, whoever drives to the end of its operation.
fn a_callback(lane: &Arc<Lane>) {
    let request = lane.submit(0);
    let callback = lane.on_complete(&request);
    lane.prod();
    callback.sleep(None);
    assert!(callback.is_ended() && request.is_ended());
}

/// A callback that is asked for after the end.
fn a_late_callback(lane: &Arc<Lane>) {
    let completion = lane.submit(0);
    lane.wait(&completion);
    lane.on_complete(&completion).sleep(None);
}

/// A callback that is asked for just before the endpoint closes.
fn a_callback_at_the_end(lane: &Arc<Lane>) {
    let completion = lane.submit(0);
    lane.wait(&completion);
    let _ = lane.on_complete(&completion);
}

/// A callback beside a caller.
fn a_callback_and_a_caller(lane: &Arc<Lane>) {
    let request = lane.submit(1);
    let callback = lane.on_complete(&request);
    let completion = lane.submit(0);
    lane.wait(&completion);
    callback.sleep(None);
    assert!(callback.is_ended());
}

#[test]
fn a_callback_runs_without_a_waiter() {
    explore(Fault::None, 1, a_callback);
}

#[test]
fn a_callback_runs_after_the_end() {
    explore(Fault::None, 1, a_late_callback);
}

#[test]
fn a_callback_runs_before_the_endpoint_closes() {
    explore(Fault::None, 1, a_callback_at_the_end);
}

#[test]
fn a_callback_runs_beside_a_caller() {
    explore(Fault::None, 2, a_callback_and_a_caller);
}

#[test]
#[should_panic(expected = "deadlock")]
fn a_callback_without_a_call_is_found() {
    explore(Fault::CallBack, 1, a_late_callback);
}

#[test]
#[should_panic(expected = "deadlock")]
fn a_callback_that_wakes_no_poll_is_found() {
    explore(Fault::CallBackInPoll, 1, a_late_callback);
}

#[test]
fn two_callers_end() {
    explore(Fault::None, 2, two_callers);
}

#[test]
fn a_caller_that_notices_signals_ends() {
    explore(Fault::None, 2, a_caller_with_a_bell);
}

#[test]
fn operations_end_when_a_signal_has_ended_a_wait() {
    explore(Fault::None, 2, a_caller_and_a_signal);
}

#[test]
#[should_panic(expected = "deadlock")]
fn a_bell_that_is_hung_up_late_is_found() {
    explore(Fault::Hang, 2, a_caller_with_a_bell);
}

#[test]
#[should_panic(expected = "deadlock")]
fn a_nudge_that_a_signal_swallows_is_found() {
    explore(Fault::NudgeAtSignal, 2, a_caller_and_a_signal);
}

#[test]
fn a_request_ends_without_a_waiter() {
    explore(Fault::None, 1, a_request);
}

#[test]
fn a_request_ends_beside_a_caller() {
    explore(Fault::None, 2, a_request_and_a_caller);
}

#[test]
#[should_panic(expected = "deadlock")]
fn a_forgotten_wake_is_found() {
    explore(Fault::Wake, 2, two_callers);
}

#[test]
#[should_panic(expected = "deadlock")]
fn a_driver_that_only_leaves_is_found() {
    explore(Fault::PassOn, 2, two_callers);
}

#[test]
#[should_panic(expected = "deadlock")]
fn a_request_that_nobody_is_called_for_is_found() {
    explore(Fault::PassOn, 1, a_request);
}

#[test]
#[should_panic(expected = "deadlock")]
fn a_swallowed_nudge_is_found() {
    explore(Fault::Nudge, 2, two_callers);
}

#[test]
#[should_panic(expected = "deadlock")]
fn a_poll_without_a_look_is_found() {
    explore(Fault::Look, 1, a_request);
}

#[test]
#[should_panic(expected = "deadlock")]
fn a_stop_that_wakes_nobody_is_found() {
    explore(Fault::Stop, 1, a_request);
}
