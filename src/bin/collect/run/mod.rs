//! `collect run`: starts the ranks, and stays until all have ended.
//!
//! One thread does everything but copy output: it blocks the signals that matter before it starts anything, then waits
//! for them (a child's end is one of them). A rank that has ended stays a zombie until the run is over, so that its
//! process group's number cannot pass to strangers while groups are signalled.

mod group;
mod guard;
mod output;
mod rank;
mod signals;
mod store;

use std::process::ExitCode;
use std::time::{Duration, Instant};

use crate::args::RunArguments;
use output::Output;
pub(crate) use rank::die_with;
use rank::{Rank, Setting};
pub(crate) use signals::{Signals, is_request};
pub(crate) use store::{Meeting, serve_store};

pub(crate) use guard::guard;

/// From SIGTERM to SIGKILL, for the ranks that outlive a failed one.
const GRACE: Duration = Duration::from_secs(5);

/// For output that a rank's descendants still write after the ranks have ended.
const DRAIN: Duration = Duration::from_secs(2);

pub(crate) fn run(arguments: &RunArguments) -> Result<ExitCode, String> {
    let signals = Signals::block()?;
    let meeting = serve_store(arguments.store.as_deref())?;
    let guard = guard::Guard::start()?;
    let setting = Setting { size: arguments.ranks, program: &arguments.program, store: &meeting };
    let mut run =
        Run { ranks: Vec::new(), guard, output: Output::new(arguments.prefix), failed: None };
    for rank in 0..arguments.ranks {
        if let Err(failure) = run.start(rank, &setting) {
            eprintln!("collect run: {failure}");
            run.finish(true);
            return Ok(ExitCode::from(failure.status));
        }
    }
    let status = run.wait_for_all(&signals);
    run.finish(status != 0);
    Ok(ExitCode::from(status))
}

/// A run under way.
struct Run {
    ranks: Vec<Rank>,
    guard: guard::Guard,
    output: Output,
    failed: Option<Failed>,
}

/// A run that is being ended because a rank failed.
struct Failed {
    /// That rank's.
    status: u8,
    /// When what is left is killed; `None` once that is done.
    kill_at: Option<Instant>,
}

impl Run {
    fn start(&mut self, rank: u32, setting: &Setting<'_>) -> Result<(), rank::Failure> {
        let mut started =
            Rank::start(rank, setting, self.guard.watch(), self.output.is_prefixed())?;
        self.output.copy(rank, started.pipes());
        self.ranks.push(started);
        Ok(())
    }

    /// Returns the status of the run: 0, or that of the rank that failed first.
    fn wait_for_all(&mut self, signals: &Signals) -> u8 {
        let mut forwarded = false;
        loop {
            self.look_for_ends();
            if self.ranks.iter().all(|rank| rank.has_ended()) {
                return self.failed.as_ref().map_or(0, |failed| failed.status);
            }
            match signals.wait(self.kill_when_due()) {
                Some(signal) if signals::is_request(signal) => {
                    // The first is for the ranks to answer as they like; whoever repeats it wants an end.
                    let signal = if forwarded { libc::SIGKILL } else { signal };
                    self.signal_all(signal);
                    forwarded = true;
                }
                _ => {}
            }
        }
    }

    /// Notes which ranks have ended, and begins to end the run with the first that failed.
    fn look_for_ends(&mut self) {
        for at in 0..self.ranks.len() {
            let Some(end) = self.ranks[at].look_for_end() else { continue };
            if end == rank::End::Exited(0) || self.failed.is_some() {
                continue;
            }
            eprintln!("collect run: rank {at} {end}; ending the run");
            self.failed =
                Some(Failed { status: end.status(), kill_at: Some(Instant::now() + GRACE) });
            self.signal_all(libc::SIGTERM);
            self.signal_all(libc::SIGCONT);
        }
    }

    /// Kills what is left of a failed run once its time is over. Returns how long to sleep until then.
    fn kill_when_due(&mut self) -> Option<Duration> {
        let due = self.failed.as_ref()?.kill_at?;
        let left = due.saturating_duration_since(Instant::now());
        if !left.is_zero() {
            return Some(left);
        }
        self.signal_all(libc::SIGKILL);
        self.failed.as_mut()?.kill_at = None;
        None
    }

    fn signal_all(&self, signal: i32) {
        for rank in &self.ranks {
            group::signal(rank.group(), signal);
        }
    }

    /// Ends what a failed run left in its groups, lets output drain, and reaps.
    fn finish(mut self, has_failed: bool) {
        if has_failed {
            self.signal_all(libc::SIGKILL);
        }
        self.output.drain(DRAIN);
        self.guard.dismiss();
        for rank in &mut self.ranks {
            rank.reap();
        }
    }
}
