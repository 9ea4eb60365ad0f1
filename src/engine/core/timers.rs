//! What is due: deadlines, questions, and the notice of those that wait.
//!
//! `due` is the earliest time at which anything may have to be done; it may be too early (what it was set for has ended
//! since), never too late. When it passes, every operation is looked at.
#![forbid(unsafe_code)]

use std::mem;

use super::super::operation::Operation;
use super::super::peer::{LinkState, OpRef};
use super::Core;
use crate::link::frame::Kind;

/// Lateness that is more than the jitter of a busy machine, in nanoseconds.
const SLEEP_NS: u64 = 10_000_000;

impl Core {
    /// Does what is due.
    pub(super) fn tick(&mut self) {
        let now = self.clock;
        if self.due == u64::MAX || now < self.due {
            return;
        }
        self.slept_ns = now - self.due;
        self.excuse_for_sleep(self.slept_ns);
        self.due = u64::MAX;
        let mut passed = Vec::new();
        let mut quiet = mem::take(&mut self.quiet);
        let mut asking = mem::take(&mut self.asking);
        let mut due = u64::MAX;
        for (slot, op) in self.ops.iter().enumerate() {
            let Some(op) = op else { continue };
            let reference = OpRef { slot, id: op.run.id };
            match op.run.deadline {
                Some(deadline) if deadline <= now => passed.push(reference),
                Some(deadline) => due = due.min(deadline),
                None => {}
            }
            match op.run.waiting_at {
                Some(at) if at <= now => quiet.push(reference),
                Some(at) => due = due.min(at),
                None => {}
            }
            match op.run.watch.ask_at {
                Some(at) if at <= now => asking.push((op.world, reference)),
                Some(at) => due = due.min(at),
                None => {}
            }
        }
        for reference in quiet.drain(..) {
            self.say_what_is_awaited(reference);
        }
        self.quiet = quiet;
        self.ask_all(&mut asking);
        self.asking = asking;
        self.end_dials(now);
        for reference in passed {
            self.pass_deadline(reference);
        }
        let late = self.worlds.iter().filter_map(|(id, world)| {
            let queued = world.queued.iter().map(|op| &**op);
            let deadlines =
                queued.chain(world.messages.operations()).filter_map(|op| op.run.deadline);
            deadlines.min().map(|deadline| (*id, deadline))
        });
        let late: Vec<(u64, u64)> = late.collect();
        for (id, deadline) in late {
            if deadline > now {
                due = due.min(deadline);
            } else {
                self.pass_queued_deadline(id, now);
            }
        }
        self.due = self.due.min(due);
    }

    /// A look at the clock that comes late shows that this process was stopped, or had no processor: those that have not
    /// answered meanwhile could not be heard.
    fn excuse_for_sleep(&mut self, slept: u64) {
        if slept < SLEEP_NS {
            return;
        }
        for op in self.ops.iter_mut().flatten() {
            op.run.watch.excuse(slept);
        }
    }

    /// Gives up on links that were to be made for a short time only.
    fn end_dials(&mut self, now: u64) {
        for peer in 0..self.peers.len() {
            let link = &self.peers[peer];
            if link.state != LinkState::Dialing {
                continue;
            }
            let is_wanted = |op: &OpRef| self.under_way(*op).is_some();
            match link.dial_until {
                Some(until) if until <= now && !link.ready.iter().any(is_wanted) => {
                    self.give_up(peer);
                }
                Some(until) if until > now => self.due = self.due.min(until),
                _ => {}
            }
        }
    }

    /// Tells the ranks that an operation waits for, and has heard nothing from, which operation it is.
    fn say_what_is_awaited(&mut self, reference: OpRef) {
        let Some(mut op) = self.lift(reference) else { return };
        op.run.waiting_at = None;
        for rank in op.program.peers() {
            let is_heard = op.run.checked.contains(rank);
            if !is_heard && awaits(&op, *rank) {
                let header = self.header_of(&op, Kind::Waiting, 0, 0);
                self.push_with_credits(op.members.peer(*rank), header, &[]);
            }
        }
        self.ops[reference.slot] = Some(op);
    }
}

/// Whether the first part has something to get from, or to bring to, this rank.
fn awaits(op: &Operation, rank: u32) -> bool {
    let Some(part) = op.run.parts.first() else { return false };
    let mut steps = op.program.sends_to(rank).chain(op.program.receives_from(rank));
    steps.any(|step| part.steps[step].done < part.steps[step].length)
}
