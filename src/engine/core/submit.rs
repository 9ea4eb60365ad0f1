//! Operations that are called: each gets its name, and begins at once or in its turn.
#![forbid(unsafe_code)]

use std::mem;

use super::super::describe;
use super::super::name::Name;
use super::super::operation::{Matching, Operation};
use super::super::peer::OpRef;
use super::super::world::World;
use super::Core;
use crate::error::Error;
use crate::link::frame::Class;
use crate::link::phase::{Phase, note};

impl Core {
    pub(super) fn submit(&mut self, mut op: Box<Operation>) {
        let now = self.now();
        op.run.deadline = op.timeout_ns.map(|limit| now.saturating_add(limit));
        if !self.worlds.contains_key(&op.world) {
            let error = self.grave(op.world).map_or_else(
                || Error::Aborted("the world has been destroyed".into()),
                |grave| grave.error.clone(),
            );
            return self.retire(op, Err(error));
        }
        match op.matching {
            Matching::Ordered => self.submit_ordered(op),
            Matching::Keyed(key) => self.submit_keyed(op, key),
            Matching::Fork(number) => self.submit_fork(op, number),
            Matching::Send { to, tag } => self.submit_send(op, to, tag),
            Matching::Receive { from, tag } => self.submit_receive(op, from, tag),
        }
    }

    fn submit_ordered(&mut self, mut op: Box<Operation>) {
        let Some(world) = self.worlds.get_mut(&op.world) else { return };
        op.name = Name::numbered(Class::Ordered, world.next);
        world.next += 1;
        if let Some(deadline) = op.run.deadline {
            self.due = self.due.min(deadline);
        }
        let steps = op.program.plan().steps.len();
        if world.queued.is_empty() && world.has_room(steps, &self.limits) {
            self.activate(op);
        } else {
            world.queued.push_back(op);
        }
    }

    /// Never in a queue: what it waits for may be behind it elsewhere.
    fn submit_keyed(&mut self, mut op: Box<Operation>, key: u64) {
        if let Some(error) = self.lack_of_room(&op) {
            return self.retire(op, Err(error));
        }
        let Some(world) = self.worlds.get_mut(&op.world) else { return };
        let mut name = Name::numbered(Class::Keyed, key);
        name.turn = world.uses(name.series()).wrapping_sub(1);
        if world.find(&name).is_some() {
            let text = format!(
                "world {:?}: key {key} is in use by an operation of this rank that is not complete; wait for it, or use \
                 another key",
                world.health.name()
            );
            return self.retire(op, Err(Error::InvalidArgument(text)));
        }
        name.turn = world.next_use(name.series());
        op.name = name;
        self.activate(op);
    }

    /// Operations that are not kept in order are bounded by what an endpoint can hold.
    pub(super) fn lack_of_room(&self, op: &Operation) -> Option<Error> {
        let count = self.ops.len() - self.vacant.len() + self.unmatched;
        (count >= self.limits.unordered_operations).then(|| {
            Error::Resource(format!(
                "{count} operations of this endpoint are not complete, so {} cannot begin: wait for some",
                describe::call(&op.fingerprint)
            ))
        })
    }

    fn submit_fork(&mut self, mut op: Box<Operation>, number: u64) {
        note(Phase::Fork);
        let Some(world) = self.worlds.get_mut(&op.world) else { return };
        op.name = Name::numbered(Class::Fork, number);
        if let Some((_, error)) = world.tombstones.iter().find(|(n, _)| *n == number) {
            let error = error.clone();
            return self.retire(op, Err(error));
        }
        self.activate(op);
    }

    /// Puts an operation under way.
    pub(super) fn activate(&mut self, mut op: Box<Operation>) {
        let now = self.now();
        self.next_id += 1;
        op.run.id = self.next_id;
        op.run.waiting_at = Some(now.saturating_add(self.limits.waiting_after_ns));
        op.run.watch.begin(now, op.timeout_ns, self.limits.heartbeat_ns);
        let asks = op.run.watch.ask_at.unwrap_or(u64::MAX).min(now + self.limits.waiting_after_ns);
        let due = op.run.deadline.unwrap_or(u64::MAX).min(asks);
        let slot = self.vacant.pop().unwrap_or_else(|| {
            self.ops.push(None);
            self.ops.len() - 1
        });
        let reference = OpRef { slot, id: op.run.id };
        let (id, name) = (op.world, op.name);
        if let Some(world) = self.worlds.get_mut(&id) {
            world.begin(name, reference, op.program.plan().steps.len());
        }
        self.greet_askers(&mut op);
        let slices = op.slices();
        let _ = op.begin_part(&mut self.scratches);
        if slices > 1 {
            let _ = op.begin_part(&mut self.scratches);
        }
        self.ops[slot] = Some(op);
        if !self.take_early(id, reference, &name) {
            return;
        }
        self.due = self.due.min(due);
        self.start_part(reference, 0);
        self.start_part(reference, 1);
    }

    /// Tells an operation's caller how it ended, and keeps it for another one.
    pub(super) fn retire(&mut self, mut op: Box<Operation>, outcome: Result<(), Error>) {
        op.clear(&mut self.scratches);
        if let Some(completion) = op.completion.take() {
            completion.end(outcome);
        }
        self.ended.push(op);
    }

    /// The same of one that a failure ends: its caller is told at the end of [`Core::work`], when the members have been
    /// told.
    pub(super) fn retire_later(&mut self, mut op: Box<Operation>, error: &Error) {
        let completion = op.completion.take();
        self.endings.extend(completion.map(|completion| (completion, error.clone())));
        self.retire(op, Err(error.clone()));
    }

    /// Lets the next queued operations of a world begin. One that is done at once ends up here again: the outermost
    /// call goes on then, so that any number of them needs no more stack than one.
    pub(super) fn activate_next(&mut self, id: u64) {
        self.waking.push(id);
        if self.waking.len() > 1 {
            return;
        }
        while let Some(id) = self.waking.last().copied() {
            if let Some(world) = self.worlds.get_mut(&id)
                && let Some(next) = world.queued.front()
                && world.has_room(next.program.plan().steps.len(), &self.limits)
                && let Some(op) = world.queued.pop_front()
            {
                self.activate(op);
            } else {
                self.waking.retain(|waking| *waking != id);
            }
        }
    }

    /// Ends every operation of a world that is gone from the list of worlds.
    pub(super) fn end_all(&mut self, id: u64, world: &mut World, error: &Error) {
        for op in world.take_active() {
            self.drop_op(op, error);
        }
        for op in mem::take(&mut world.queued) {
            self.retire_later(op, error);
        }
        let unmatched = world.messages.take_operations();
        self.unmatched -= unmatched.len();
        for op in unmatched {
            self.retire_later(op, error);
        }
        while let Some(name) = self.early.any_of(id) {
            let Some(mut list) = self.early.take(id, &name) else { return };
            while let Some(early) = self.early.next(&mut list) {
                self.buffers.give_back(early.payload);
            }
        }
    }
}
