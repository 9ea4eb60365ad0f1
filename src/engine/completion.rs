//! How the end of one operation, or of several that were submitted as one, reaches its caller.
//!
//! The driver of the lane ends each operation once, and the last one ends the whole; any thread asks or waits. A waiting
//! thread is also nudged when it should look for the lane's driver role. What else is to happen at the end is a [`Hook`],
//! which runs when no lock of the completion is held. Ended and reused without an allocation.
#![forbid(unsafe_code)]

use std::fmt;
use std::mem;
use std::sync::Arc;
use std::time::Instant;

use super::sync::{AtomicBool, Condvar, Mutex, MutexGuard, Ordering};
use crate::error::Error;
use crate::link::Wake;

/// What happens at the end besides, on the thread that ends it (or that asks for it after the end). No lock may be held
/// by those who end a completion that may have hooks.
pub(crate) enum Hook {
    /// Ends the completion on which somebody waits for any of several. If that thread may drive another lane, it is in
    /// that lane's poll, which must be woken.
    End(Arc<Completion>, Option<Arc<dyn Wake>>),
    /// Runs this; it neither waits nor panics.
    Run(Box<dyn FnOnce(Result<(), Error>) + Send>),
}

impl Hook {
    fn run(self, result: &Result<(), Error>) {
        match self {
            Self::End(ticket, poll) => {
                ticket.end(Ok(()));
                if let Some(poll) = poll {
                    poll.wake();
                }
            }
            Self::Run(function) => function(result.clone()),
        }
    }
}

impl fmt::Debug for Hook {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::End(..) => "End",
            Self::Run(_) => "Run",
        })
    }
}

#[derive(Debug)]
struct State {
    /// Operations that are still to end.
    parts: usize,
    /// The first error among those that have ended; the whole's once all have.
    result: Result<(), Error>,
    /// The rank in its world that a received message came from.
    source: Option<u32>,
    /// The role of the driver may be free: look.
    nudged: bool,
    /// Of threads that sleep elsewhere than in [`Completion::sleep`]: rung by a nudge and at the end.
    bells: Vec<Arc<dyn Wake>>,
    /// For the end, in order.
    hooks: Vec<Hook>,
    /// The end has come, and all hooks that were there have run.
    is_settled: bool,
}

/// The end of one operation or of several, now or later.
#[derive(Debug)]
pub struct Completion {
    state: Mutex<State>,
    changed: Condvar,
    /// Whether no part is left; Release at the end, Acquire where it is asked, so that results are seen too.
    is_ended: AtomicBool,
}

/// The end of one operation.
impl Default for Completion {
    fn default() -> Self {
        Self::new(1)
    }
}

impl Completion {
    /// The end of so many operations. Of none: it has ended.
    #[must_use]
    pub(crate) fn new(parts: usize) -> Self {
        let state = State {
            parts,
            result: Ok(()),
            source: None,
            nudged: false,
            bells: Vec::new(),
            hooks: Vec::new(),
            is_settled: parts == 0,
        };
        Self {
            state: Mutex::new(state),
            changed: Condvar::default(),
            is_ended: AtomicBool::new(parts == 0),
        }
    }

    /// Whether all operations have ended, well or not.
    #[must_use]
    pub fn is_ended(&self) -> bool {
        self.is_ended.load(Ordering::Acquire)
    }

    /// How it ended, if it has: with the first error of any of its operations.
    #[must_use]
    pub fn outcome(&self) -> Option<Result<(), Error>> {
        self.is_ended().then(|| self.state.lock().result.clone())
    }

    /// The rank in its world that a message came from, once it has ended; `None` if it is no receive.
    #[must_use]
    pub fn source(&self) -> Option<u32> {
        if self.is_ended() { self.state.lock().source } else { None }
    }

    /// Notes the rank in its world that a message comes from, before the end.
    pub(crate) fn note_source(&self, rank: u32) {
        self.state.lock().source = Some(rank);
    }

    /// Ends one operation, once; the last one ends the whole. An end after that is ignored.
    pub(crate) fn end(&self, outcome: Result<(), Error>) {
        let mut state = self.state.lock();
        if state.parts == 0 {
            return;
        }
        state.parts -= 1;
        if state.result.is_ok() {
            state.result = outcome;
        }
        if state.parts == 0 {
            self.finish(state);
        }
    }

    /// Ends the whole at once, whatever is left of it: nobody else will, and nothing of it touches callers' memory.
    pub(crate) fn fail(&self, error: Error) {
        let mut state = self.state.lock();
        if state.parts != 0 {
            state.parts = 0;
            if state.result.is_ok() {
                state.result = Err(error);
            }
            self.finish(state);
        }
    }

    /// Tells everybody.
    fn finish<'a>(&'a self, mut state: MutexGuard<'a, State>) {
        self.is_ended.store(true, Ordering::Release);
        self.changed.notify_all();
        state.bells.iter().for_each(|bell| bell.wake());
        // Those that come meanwhile run after those before them.
        let mut hooks = Vec::new();
        while !state.hooks.is_empty() {
            mem::swap(&mut hooks, &mut state.hooks);
            let result = state.result.clone();
            drop(state);
            hooks.drain(..).for_each(|hook| hook.run(&result));
            state = self.state.lock();
        }
        state.is_settled = true;
        if hooks.capacity() > 0 {
            // The room is for the next use.
            state.hooks = hooks;
        }
    }

    /// Whether it has ended, and a hook would run at once.
    pub(crate) fn is_settled(&self) -> bool {
        self.is_ended() && self.state.lock().is_settled
    }

    /// Has a hook run at the end, which is now if that has been.
    pub(crate) fn at_end(&self, hook: Hook) {
        let mut state = self.state.lock();
        if !state.is_settled {
            state.hooks.push(hook);
            return;
        }
        let result = state.result.clone();
        drop(state);
        hook.run(&result);
    }

    /// Takes out the hooks that would end `ticket`.
    pub(crate) fn forget(&self, ticket: &Arc<Self>) {
        let is_other = |hook: &Hook| !matches!(hook, Hook::End(to, _) if Arc::ptr_eq(to, ticket));
        self.state.lock().hooks.retain(is_other);
    }

    /// Makes it as new, for so many operations. Nobody else holds it.
    pub(crate) fn renew(&mut self, parts: usize) {
        let mut hooks = mem::take(&mut self.state.lock().hooks);
        hooks.clear();
        *self = Self::new(parts);
        self.state.lock().hooks = hooks;
    }

    /// Tells the waiting thread to look for the role.
    pub(crate) fn nudge(&self) {
        let mut state = self.state.lock();
        state.nudged = true;
        self.changed.notify_all();
        state.bells.iter().for_each(|bell| bell.wake());
    }

    /// Hangs up the bell of a thread that sleeps elsewhere than here.
    pub(crate) fn hang(&self, bell: &Arc<dyn Wake>) {
        self.state.lock().bells.push(Arc::clone(bell));
    }

    /// Takes the bell down.
    pub(crate) fn take_down(&self, bell: &Arc<dyn Wake>) {
        self.state.lock().bells.retain(|hung| !Arc::ptr_eq(hung, bell));
    }

    /// Whether it has ended, or somebody has nudged, which counts once.
    pub(crate) fn take_news(&self) -> bool {
        let mut state = self.state.lock();
        mem::take(&mut state.nudged) || state.parts == 0
    }

    /// Sleeps until the operation has ended, somebody nudges, or `until` passes.
    pub(crate) fn sleep(&self, until: Option<Instant>) {
        let mut state = self.state.lock();
        while state.parts != 0 && !state.nudged {
            match until {
                None => self.changed.wait(&mut state),
                Some(until) => {
                    if self.changed.wait_until(&mut state, until).timed_out() {
                        break;
                    }
                }
            }
        }
        state.nudged = false;
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::sync::mpsc;

    use super::*;

    #[test]
    fn the_first_end_counts() {
        let mut completion = Completion::default();
        completion.end(Ok(()));
        completion.end(Err(Error::Forked));
        assert_eq!(completion.outcome(), Some(Ok(())));
        completion.renew(1);
        assert_eq!(completion.outcome(), None);
    }

    #[test]
    fn the_last_part_ends_it_with_the_first_error() {
        let completion = Completion::new(3);
        completion.end(Ok(()));
        completion.end(Err(Error::Forked));
        assert_eq!(completion.outcome(), None);
        completion.end(Err(Error::Internal("a later one".into())));
        assert_eq!(completion.outcome(), Some(Err(Error::Forked)));
        assert_eq!(Completion::new(0).outcome(), Some(Ok(())));
    }

    #[test]
    fn a_failure_does_not_wait_for_parts_and_keeps_an_earlier_error() {
        let lost = || Error::Internal("lost".into());
        let completion = Completion::new(3);
        completion.end(Ok(()));
        completion.fail(lost());
        assert_eq!(completion.outcome(), Some(Err(lost())));
        completion.end(Ok(()));
        completion.fail(Error::Forked);
        assert_eq!(completion.outcome(), Some(Err(lost())));
        let completion = Completion::new(2);
        completion.end(Err(Error::Forked));
        completion.fail(lost());
        assert_eq!(completion.outcome(), Some(Err(Error::Forked)));
    }

    #[test]
    fn a_source_is_told_after_the_end_and_not_kept() {
        let mut completion = Completion::default();
        completion.note_source(3);
        assert_eq!(completion.source(), None);
        completion.end(Ok(()));
        assert_eq!(completion.source(), Some(3));
        completion.renew(1);
        completion.end(Ok(()));
        assert_eq!(completion.source(), None);
    }

    /// A hook that sends what the completion ended with.
    fn tell(to: &mpsc::Sender<Result<(), Error>>) -> Hook {
        let to = to.clone();
        Hook::Run(Box::new(move |result| to.send(result).unwrap()))
    }

    #[test]
    fn hooks_run_once_at_the_end_or_after_it() {
        let (to, told) = mpsc::channel();
        let mut completion = Completion::new(2);
        completion.at_end(tell(&to));
        completion.end(Err(Error::Forked));
        assert!(told.try_recv().is_err());
        completion.end(Ok(()));
        completion.fail(Error::Forked);
        completion.at_end(tell(&to));
        completion.renew(1);
        completion.end(Ok(()));
        drop(to);
        assert_eq!(told.iter().collect::<Vec<_>>(), [Err(Error::Forked), Err(Error::Forked)]);
    }

    #[test]
    fn a_hook_that_comes_while_others_run_is_the_next() {
        let (to, told) = mpsc::channel();
        let completion = Arc::new(Completion::default());
        let (first, late) = (tell(&to), Arc::clone(&completion));
        completion.at_end(Hook::Run(Box::new(move |result| {
            assert!(late.is_ended() && !late.is_settled());
            late.at_end(Hook::Run(Box::new(move |_| to.send(Ok(())).unwrap())));
            first.run(&result);
        })));
        completion.end(Err(Error::Forked));
        assert!(completion.is_settled());
        assert_eq!(told.iter().collect::<Vec<_>>(), [Err(Error::Forked), Ok(())]);
    }

    #[derive(Debug, Default)]
    struct Bell(AtomicBool);

    impl Wake for Bell {
        fn wake(&self) {
            self.0.store(true, Ordering::Relaxed);
        }
    }

    #[test]
    fn a_ticket_ends_with_the_first_of_several() {
        let (ticket, bell) = (Arc::new(Completion::default()), Arc::new(Bell::default()));
        let several = [(); 3].map(|()| Completion::default());
        for completion in &several {
            completion.at_end(Hook::End(Arc::clone(&ticket), Some(bell.clone())));
        }
        several[0].forget(&ticket);
        several[0].end(Ok(()));
        assert!(!ticket.is_ended(), "it was forgotten there");
        several[1].end(Err(Error::Forked));
        assert_eq!(ticket.outcome(), Some(Ok(())));
        assert!(bell.0.load(Ordering::Relaxed));
        several[2].end(Ok(()));
        assert_eq!(Arc::strong_count(&ticket), 1, "ended completions keep no ticket");
    }

    #[test]
    fn a_nudge_ends_one_sleep() {
        let completion = Completion::default();
        completion.nudge();
        completion.sleep(None);
        let soon = Instant::now() + std::time::Duration::from_millis(1);
        completion.sleep(Some(soon));
        assert!(!completion.is_ended());
    }
}
