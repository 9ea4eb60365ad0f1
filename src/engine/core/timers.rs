//! Deadlines, and the notice of those that wait.
//!
//! `due` is the earliest time at which anything may have to be done; it may be too early (what it was set for has ended
//! since), never too late. When it passes, every operation is looked at.
#![forbid(unsafe_code)]

use std::mem;

use super::super::describe;
use super::super::operation::Operation;
use super::super::peer::OpRef;
use super::Core;
use super::failure::of_operation;
use crate::error::Error;
use crate::link::frame::Kind;

impl Core {
    /// Does what is due.
    pub(super) fn tick(&mut self) {
        if self.due == u64::MAX || self.now() < self.due {
            return;
        }
        let now = self.now();
        self.due = u64::MAX;
        let mut passed = Vec::new();
        let mut quiet = mem::take(&mut self.quiet);
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
        }
        for id in quiet.drain(..) {
            self.say_what_is_awaited(id);
        }
        self.quiet = quiet;
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

    fn reference_of(&self, id: u64) -> Option<OpRef> {
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

    fn pass_deadline(&mut self, id: u64) {
        let Some(reference) = self.reference_of(id) else { return };
        let Some(op) = self.ops[reference.slot].as_deref() else { return };
        let Some(world) = self.worlds.get(&op.world) else { return };
        let mut waits = Vec::new();
        for rank in op.program.peers() {
            if (0..op.run.parts.len()).any(|index| awaits(op, index, *rank)) {
                let in_world = world.members.rank(op.members.peer(*rank)).unwrap_or(*rank);
                let heard = if op.run.checked.contains(rank) { "" } else { " (not heard from)" };
                waits.push(format!("{in_world}{heard}"));
            }
        }
        let seconds = op.timeout_ns.unwrap_or(0) as f64 / 1e9;
        let text = format!(
            "world {:?} {}: not complete within {seconds} s; it waited for rank {}",
            world.health.name(),
            of_operation(op),
            waits.join(", ")
        );
        self.fail_op(reference, &Error::TimedOut(text));
    }

    /// A deadline passed before the operation could begin: those before it are not complete, or no message has come.
    fn pass_queued_deadline(&mut self, id: u64, now: u64) {
        let Some(world) = self.worlds.get(&id) else { return };
        let has_passed = |op: &&Operation| op.run.deadline.is_some_and(|d| d <= now);
        let seconds = |op: &Operation| op.timeout_ns.unwrap_or(0) as f64 / 1e9;
        let name = world.health.name();
        let queued = world.queued.iter().map(|op| &**op).find(has_passed).map(|op| {
            format!(
                "world {name:?} {}: not begun within {} s, since earlier operations are not complete",
                of_operation(op),
                seconds(op)
            )
        });
        let text = queued.or_else(|| {
            let op = world.messages.operations().find(has_passed)?;
            let of = describe::unmatched(op);
            Some(format!(
                "world {name:?} {of}: its counterpart has not come within {} s",
                seconds(op)
            ))
        });
        self.fail_world(id, &Error::TimedOut(text.unwrap_or_default()));
    }
}

/// Whether a part has something to get from, or to bring to, this rank.
fn awaits(op: &Operation, index: usize, rank: u32) -> bool {
    let part = &op.run.parts[index];
    let mut steps = op.program.sends_to(rank).chain(op.program.receives_from(rank));
    steps.any(|step| part.steps[step].done < part.steps[step].length)
}
