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
        for op in self.ops.iter().flatten() {
            let reference = OpRef { slot: usize::MAX, id: op.run.id };
            match op.run.deadline {
                Some(deadline) if deadline <= now => passed.push(reference.id),
                Some(deadline) => due = due.min(deadline),
                None => {}
            }
            match op.run.waiting_at {
                Some(at) if at <= now => quiet.push(reference.id),
                Some(at) => due = due.min(at),
                None => {}
            }
            match op.run.watch.ask_at {
                Some(at) if at <= now => asking.push((op.world, reference.id)),
                Some(at) => due = due.min(at),
                None => {}
            }
        }
        for id in quiet.drain(..) {
            self.say_what_is_awaited(id);
        }
        self.quiet = quiet;
        self.ask_all(&mut asking);
        self.asking = asking;
        self.end_dials(now);
        for id in passed {
            self.pass_deadline(id);
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
            let is_wanted =
                |op: &OpRef| self.ops[op.slot].as_ref().is_some_and(|it| it.run.id == op.id);
            match link.dial_until {
                Some(until) if until <= now && !link.ready.iter().any(is_wanted) => {
                    self.give_up(peer);
                }
                Some(until) if until > now => self.due = self.due.min(until),
                _ => {}
            }
        }
    }

    pub(super) fn reference_of(&self, id: u64) -> Option<OpRef> {
        let slot = self.ops.iter().position(|op| op.as_ref().is_some_and(|op| op.run.id == id))?;
        Some(OpRef { slot, id })
    }

    /// Tells the ranks that an operation waits for, and has heard nothing from, which operation it is.
    fn say_what_is_awaited(&mut self, id: u64) {
        let Some(reference) = self.reference_of(id) else { return };
        let Some(mut op) = self.lift(reference) else { return };
        op.run.waiting_at = None;
        if let Some(index) = (0..op.run.parts.len()).next() {
            for rank in op.program.peers() {
                let is_heard = op.run.checked.contains(rank);
                let is_open = awaits(&op, index, *rank);
                if is_open && !is_heard {
                    let header = self.header_of(&op, Kind::Waiting, index, 0);
                    self.push_with_credits(op.members.peer(*rank), header, &[]);
                }
            }
        }
        self.ops[reference.slot] = Some(op);
    }
}

/// Whether a part has something to get from, or to bring to, this rank.
fn awaits(op: &Operation, index: usize, rank: u32) -> bool {
    let part = &op.run.parts[index];
    let mut steps = op.program.sends_to(rank).chain(op.program.receives_from(rank));
    steps.any(|step| part.steps[step].done < part.steps[step].length)
}
