//! Lets the fault of a case happen when its time has come.
#![forbid(unsafe_code)]

use super::fault::Fault;
use super::harness::Harness;
use super::rank::world_id;
use crate::engine::core::Command;
use crate::error::Error;

/// How far the fault has been played.
#[derive(Debug, Default)]
pub(super) struct Play {
    /// Whether it has begun.
    pub(super) is_begun: bool,
    /// The second rank has died.
    is_done: bool,
    /// When a frozen rank goes on.
    pub(super) thaw_at: Option<u64>,
}

impl Harness<'_> {
    /// Plays the fault if its time has come.
    pub(super) fn play_fault(&mut self) {
        let is_due = |after: usize| after <= self.steps;
        if self.play.is_begun {
            return self.play_second_death();
        }
        match self.case.fault {
            Fault::Death { rank, after, .. } if is_due(after) => self.kill(rank),
            Fault::Exit { rank, after } if is_due(after) => {
                self.ranks[rank].is_alive = false;
                self.network.finish(rank);
            }
            Fault::Freeze { rank, after, pause_ns } if is_due(after) => {
                self.freeze(rank, pause_ns);
            }
            Fault::Break { a, b, after } if is_due(after) => self.network.sever(a, b),
            Fault::Cut { from, to, is_both, after } if is_due(after) => {
                self.network.cut(from, to);
                if is_both {
                    self.network.cut(to, from);
                }
            }
            Fault::Corrupt { from, to, spot, after } if is_due(after) => {
                self.network.damage(from, to, spot);
            }
            Fault::Slow { rank, other, most_ns } => {
                if rank != other {
                    self.network.slow_down(rank, other, most_ns);
                }
            }
            Fault::Abort { world, rank, after } if is_due(after) => {
                let error = Error::Aborted("the test aborts".into());
                let world = world_id(world);
                self.ranks[rank].core.command(Command::Fail { world, error });
                self.ranks[rank].is_active = true;
            }
            _ => return,
        }
        self.tell_of_fault();
        self.play.is_begun = true;
    }

    fn tell_of_fault(&self) {
        if self.is_tracing {
            println!("{:>12} {:?}", self.network.now(), self.case.fault);
        }
    }

    fn kill(&mut self, rank: usize) {
        self.ranks[rank].is_alive = false;
        self.network.kill(rank);
    }

    fn play_second_death(&mut self) {
        if let Fault::Death { rank, other, later, .. } = self.case.fault
            && other != rank
            && later <= self.steps
            && !self.play.is_done
        {
            self.kill(other);
            self.play.is_done = true;
            self.tell_of_fault();
        }
    }

    /// Who never goes on takes part in nothing any more; its connections stay.
    fn freeze(&mut self, rank: usize, pause_ns: Option<u64>) {
        self.network.freeze(rank);
        self.play.thaw_at = pause_ns.map(|pause| self.network.now() + pause);
        self.ranks[rank].stalled_until = self.play.thaw_at.unwrap_or(u64::MAX);
        self.ranks[rank].is_alive = pause_ns.is_some();
    }

    /// A frozen rank goes on, if its time has come.
    pub(super) fn thaw(&mut self) {
        if let Fault::Freeze { rank, .. } = self.case.fault
            && self.play.thaw_at.is_some_and(|at| at <= self.network.now())
        {
            self.play.thaw_at = None;
            self.network.thaw(rank);
            self.ranks[rank].is_active = true;
            self.tell_of_fault();
        }
    }
}
