//! Deadlines that pass: the end of what was not complete in time, with all that is known of why.
#![forbid(unsafe_code)]

use std::fmt::Write;

use super::super::blame::{Culprit, Progress, Why};
use super::super::describe;
use super::super::operation::Operation;
use super::super::peer::{LinkState, OpRef};
use super::super::world::World;
use super::Core;
use super::blame::is_awaited;
use super::failure::of_operation;
use crate::error::Error;

/// A process that has slept for less than this is not at fault, in nanoseconds: any busy machine lets it wait.
const SLEEP_NS: u64 = 1_000_000_000;

/// Ranks of which a text tells more than their number.
const TOLD: usize = 3;

impl Core {
    pub(super) fn pass_deadline(&mut self, reference: OpRef) {
        let Some(op) = self.under_way(reference) else { return };
        let Some(world) = self.worlds.get(&op.world) else { return };
        let culprit = self.culprit_of(op, None).or_else(|| self.culprit_of_world(op.world));
        let mut text = format!(
            "world {:?} {}: not complete within {} s",
            world.health.name(),
            of_operation(op),
            seconds(op.timeout_ns.unwrap_or(0))
        );
        let rank = self.tell_culprit(op, world, culprit, &mut text);
        self.tell_whom_it_awaits(op, world, &mut text);
        let error = Error::TimedOut { rank, text };
        self.fail_op(reference, &error);
    }

    /// A deadline passed before the operation could begin: those before it are not complete, or no message has come.
    pub(super) fn pass_queued_deadline(&mut self, id: u64, now: u64) {
        let Some(world) = self.worlds.get(&id) else { return };
        let has_passed = |op: &&Operation| op.run.deadline.is_some_and(|d| d <= now);
        let limit = |op: &Operation| seconds(op.timeout_ns.unwrap_or(0));
        let name = world.health.name();
        let culprit = self.culprit_of_first(id, None).or_else(|| self.culprit_of_world(id));
        let Some(op) = world.queued.iter().map(|op| &**op).find(has_passed) else {
            let Some(op) = world.messages.operations().find(has_passed) else { return };
            let (of, limit) = (describe::unmatched(op), limit(op));
            let mut text =
                format!("world {name:?} {of}: its counterpart has not come within {limit} s");
            let rank = self.tell_culprit(op, world, culprit, &mut text);
            return self.fail_world(id, &Error::TimedOut { rank, text });
        };
        let mut text = format!(
            "world {name:?} {}: not begun within {} s, since earlier operations are not complete",
            of_operation(op),
            limit(op)
        );
        let first = world.first_active().and_then(|first| self.ops[first.slot].as_deref());
        if let Some(first) = first {
            let _ = write!(text, " ({})", of_operation(first));
        }
        let rank = self.tell_culprit(op, world, culprit, &mut text);
        if let Some(first) = first {
            self.tell_whom_it_awaits(first, world, &mut text);
        }
        self.fail_world(id, &Error::TimedOut { rank, text });
    }

    /// Says who is at fault: this rank itself, if its process has slept through the deadline. Its rank.
    fn tell_culprit(
        &self,
        op: &Operation,
        world: &World,
        culprit: Option<Culprit>,
        text: &mut String,
    ) -> Option<usize> {
        if op.timeout_ns.is_some_and(|limit| self.slept_ns >= (limit / 2).max(SLEEP_NS)) {
            let slept = seconds(self.slept_ns);
            let _ = write!(
                text,
                ": this process itself, rank {}, was stopped or had no processor for {slept} s",
                world.rank
            );
            return Some(world.rank as usize);
        }
        let culprit = culprit?;
        let _ = write!(text, ": {}", self.accuse(world, &culprit));
        world.members.rank(culprit.peer as usize).map(|rank| rank as usize)
    }

    /// What a rank has done, or not done.
    fn accuse(&self, world: &World, culprit: &Culprit) -> String {
        let peer = culprit.peer as usize;
        let rank = world.members.rank(peer).unwrap_or(u32::MAX);
        let who = format!("rank {rank} ({})", self.mesh.address(peer));
        match culprit.why {
            Why::Absent => format!(
                "{who} has not called it (it has called {} ordered operations of this world)",
                culprit.detail
            ),
            Why::Mute => format!("{who} sends nothing, or hears nothing: the network is cut"),
            Why::Silent => format!(
                "{who} has not answered for {} s: its process is stopped, or its host cannot be reached",
                seconds(culprit.detail)
            ),
        }
    }

    /// Which ranks this one waits for itself, how far they had come, and when they were last heard.
    fn tell_whom_it_awaits(&self, op: &Operation, world: &World, text: &mut String) {
        let peers = op.program.peers().iter().copied();
        let awaited: Vec<u32> = peers.filter(|rank| is_awaited(op, *rank)).collect();
        if awaited.is_empty() {
            return;
        }
        text.push_str("; this rank waits for ");
        for (at, rank) in awaited.iter().take(TOLD).enumerate() {
            let peer = op.members.peer(*rank);
            let in_world = world.members.rank(peer).unwrap_or(*rank);
            let comma = if at > 0 { ", " } else { "" };
            let _ = write!(text, "{comma}rank {in_world} ({})", self.state_of(op, *rank, peer));
        }
        if awaited.len() > TOLD {
            let _ = write!(text, " and {} more", awaited.len() - TOLD);
        }
    }

    /// How far a rank has come in an operation, as this one sees it.
    fn state_of(&self, op: &Operation, rank: u32, peer: usize) -> String {
        let link = &self.peers[peer];
        if link.state != LinkState::Up {
            let trouble = self.mesh.trouble(peer).unwrap_or_else(|| "it does not answer".into());
            return format!("no connection yet: {trouble}");
        }
        let mut text = String::new();
        let sum = |steps: &mut dyn Iterator<Item = usize>| {
            let states = steps.flat_map(|step| op.run.parts.iter().map(move |p| p.steps[step]));
            states.fold((0, 0), |(done, all), state| (done + state.done, all + state.length))
        };
        let (came, expected) = sum(&mut op.program.receives_from(rank));
        let (went, posted) = sum(&mut op.program.sends_to(rank));
        if came < expected {
            let _ = write!(text, "{came} of {expected} bytes have come");
        } else if went < posted {
            let _ = write!(text, "{went} of {posted} bytes have gone");
        }
        let number = u32::try_from(peer).unwrap_or(u32::MAX);
        let question = op.run.watch.questions.iter().find(|question| question.peer == number);
        match question.and_then(|question| question.answer).map(|answer| answer.progress) {
            Some(Progress::Absent) => text.push_str(", it has not called it"),
            Some(Progress::Over) => text.push_str(", it is through"),
            Some(Progress::Running) | None => {}
        }
        if link.heard_at > 0 {
            let silence = self.now().saturating_sub(link.heard_at);
            let _ = write!(text, ", last heard {} s ago", seconds(silence));
        }
        let _ = write!(text, ", at {}", self.mesh.address(peer));
        text
    }
}

/// Nanoseconds as seconds, in few digits.
fn seconds(ns: u64) -> f64 {
    (ns as f64 / 1e6).round() / 1e3
}
