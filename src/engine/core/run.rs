//! Watermarks: what may go on when a step has moved.
#![forbid(unsafe_code)]

use std::mem;

use super::super::operation::Operation;
use super::super::peer::OpRef;
use super::super::world::Early;
use super::Core;
use crate::error::Error;
use crate::link::frame::{Class, Kind};
use crate::memory::Region;
use crate::plan::Action;

impl Core {
    /// Takes an operation out of its place, to work on it and on the rest of the core at once.
    pub(super) fn lift(&mut self, op: OpRef) -> Option<Box<Operation>> {
        let is_it = self.ops.get(op.slot)?.as_ref().is_some_and(|it| it.run.id == op.id);
        if is_it { self.ops[op.slot].take() } else { None }
    }

    /// Puts it back; ends it if all its slices are done.
    pub(super) fn settle(&mut self, slot: usize, op: Box<Operation>) {
        if op.run.parts.is_empty() && op.run.slice_next >= op.slices() {
            self.complete(slot, op);
        } else {
            self.ops[slot] = Some(op);
        }
    }

    /// All of it is done.
    fn complete(&mut self, slot: usize, op: Box<Operation>) {
        self.vacant.push(slot);
        let world = op.world;
        if let Some(world) = self.worlds.get_mut(&world) {
            world.active.retain(|active| active.op.id != op.run.id);
            world.remember(op.class, op.number, op.fingerprint);
        }
        self.retire(op, Ok(()));
        self.activate_next(world);
    }

    /// Lets the next queued operations of a world begin. One that is done at once ends up here again: the outermost
    /// call goes on then, so that any number of them needs no more stack than one.
    fn activate_next(&mut self, id: u64) {
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

    /// Looks at every step of a part that has just begun.
    pub(super) fn start_part(&mut self, reference: OpRef, slice: u32) {
        let Some(mut op) = self.lift(reference) else { return };
        if let Some(index) = op.part_of(slice) {
            if let Some(gone) = self.partner_that_left(&op, index) {
                self.ops[reference.slot] = Some(op);
                return self.fail_for_leaver(reference, gone);
            }
            let steps = u32::try_from(op.run.parts[index].steps.len()).unwrap_or(u32::MAX);
            for step in 0..steps {
                self.poke(&mut op, reference, slice, step);
            }
            self.end_part_if_done(&mut op, reference, slice);
        }
        self.settle(reference.slot, op);
    }

    /// Ends a part whose steps are all done, and begins the next slice in its place.
    pub(super) fn end_part_if_done(&mut self, op: &mut Operation, reference: OpRef, slice: u32) {
        let mut slice = slice;
        while let Some(index) = op.part_of(slice)
            && op.run.parts[index].open == 0
        {
            op.end_part(index);
            if op.run.slice_next >= op.slices() {
                return;
            }
            let index = op.begin_part();
            slice = op.run.parts[index].slice;
            // What a member sent for this slice before it left is here, early: then it is not missed.
            self.take_early_slice(op, reference, slice);
            if let Some(gone) = self.partner_that_left(op, index) {
                self.leavers.push((reference, gone));
                return;
            }
            for step in 0..u32::try_from(op.run.parts[index].steps.len()).unwrap_or(u32::MAX) {
                self.poke(op, reference, slice, step);
            }
        }
    }

    /// Moves a watermark, and looks at all that waited for it.
    pub(super) fn advance(
        &mut self,
        op: &mut Operation,
        reference: OpRef,
        slice: u32,
        step: u32,
        bytes: usize,
    ) {
        let Some(index) = op.part_of(slice) else { return };
        let part = &mut op.run.parts[index];
        let state = &mut part.steps[step as usize];
        state.done += bytes;
        debug_assert!(state.done <= state.length, "a watermark passes its step's end");
        if state.done == state.length {
            part.open -= 1;
        }
        let mut stack = mem::take(&mut self.stack);
        let base = stack.len();
        stack.extend_from_slice(op.program.users(step as usize));
        self.stack = stack;
        while self.stack.len() > base {
            if let Some(user) = self.stack.pop() {
                self.poke(op, reference, slice, user);
            }
        }
    }

    /// Lets one step go as far as it can.
    pub(super) fn poke(&mut self, op: &mut Operation, reference: OpRef, slice: u32, step: u32) {
        let Some(index) = op.part_of(slice) else { return };
        let state = op.run.parts[index].steps[step as usize];
        if state.done >= state.length {
            return;
        }
        let action = &op.program.plan().steps[step as usize].action;
        match *action {
            Action::Send { peer, .. } => {
                let peer = op.members.peer(peer);
                self.make_ready(op, reference, peer);
            }
            Action::RecvCopy { .. } | Action::RecvReduce { .. } => {
                self.take_parked(op, reference, slice, step);
                self.grant(op, slice, step);
            }
            Action::Copy { .. } | Action::Reduce { .. } => {
                self.do_local(op, reference, slice, step);
            }
        }
    }

    /// Does one piece of a local step; the rest is a chore.
    fn do_local(&mut self, op: &mut Operation, reference: OpRef, slice: u32, step: u32) {
        let Some(index) = op.part_of(slice) else { return };
        let part = &op.run.parts[index];
        let state = part.steps[step as usize];
        let whole = op.datatype.bytes();
        let ready = op.limit(part, step as usize).saturating_sub(state.done) / whole * whole;
        let chore = (self.limits.chore / whole).max(1) * whole;
        let count = ready.min(chore);
        if count == 0 {
            return;
        }
        op.compute(part, step as usize, state.done, state.done + count, Region::EMPTY);
        if ready > count {
            self.chores.push_back((reference, slice, step));
        }
        self.advance(op, reference, slice, step, count);
    }

    /// Goes on with a local step.
    pub(super) fn do_chore(&mut self, reference: OpRef, slice: u32, step: u32) {
        let Some(mut op) = self.lift(reference) else { return };
        self.poke(&mut op, reference, slice, step);
        self.end_part_if_done(&mut op, reference, slice);
        self.settle(reference.slot, op);
        self.fail_for_leavers();
    }

    /// Takes a parked message if its receive may be done now.
    fn take_parked(&mut self, op: &mut Operation, reference: OpRef, slice: u32, step: u32) {
        let Some(index) = op.part_of(slice) else { return };
        let part = &op.run.parts[index];
        let Some(at) = part.parked.iter().position(|parked| parked.step == step) else { return };
        if op.limit(part, step as usize) < part.steps[step as usize].length {
            return;
        }
        let mut parked = op.run.parts[index].parked.swap_remove(at);
        let length = parked.payload.len();
        let incoming = Region::lent(&mut parked.payload);
        self.put(op, index, step, 0, incoming);
        let peer = op.members.peer(parked.rank);
        self.owe(op.world, peer, length);
        self.give_back(parked.payload);
        self.advance(op, reference, slice, step, length);
    }

    /// Writes or combines what came in for bytes `low..` of a receive.
    pub(super) fn put(
        &self,
        op: &Operation,
        index: usize,
        step: u32,
        low: usize,
        incoming: Region,
    ) {
        let part = &op.run.parts[index];
        let high = low + incoming.bytes();
        match &op.program.plan().steps[step as usize].action {
            Action::RecvCopy { target, .. } => {
                op.bytes_of(part, *target, low, high).copy_from(&incoming);
            }
            _ => op.compute(part, step as usize, low, high, incoming),
        }
    }

    /// Gives what came early to an operation that is now called. False if that has ended it.
    pub(super) fn take_early(
        &mut self,
        id: u64,
        reference: OpRef,
        class: Class,
        number: u64,
    ) -> bool {
        let mut at = 0;
        loop {
            let Some(world) = self.worlds.get_mut(&id) else { return false };
            let found =
                world.early.iter().skip(at).position(|early| {
                    early.header.operation == number && early.header.class == class
                });
            let Some(skipped) = found else { return self.is_active(reference) };
            at += skipped;
            let Some(Early { peer, header, payload }) = world.early.remove(at) else {
                return self.is_active(reference);
            };
            if !self.is_active(reference) {
                self.discard(peer, &header, payload);
                continue;
            }
            if let Some(kept) = self.deliver(reference, peer, &header, payload) {
                let early = Early { peer, header, payload: kept };
                if let Some(world) = self.worlds.get_mut(&id) {
                    world.early.insert(at, early);
                    at += 1;
                }
            }
        }
    }

    fn is_active(&self, op: OpRef) -> bool {
        self.ops.get(op.slot).and_then(Option::as_ref).is_some_and(|it| it.run.id == op.id)
    }

    /// Gives what came early for a slice that now begins.
    fn take_early_slice(&mut self, op: &mut Operation, reference: OpRef, slice: u32) {
        let mut at = 0;
        loop {
            let Some(world) = self.worlds.get_mut(&op.world) else { return };
            let found = world.early.iter().skip(at).position(|early| {
                let header = &early.header;
                header.operation == op.number
                    && header.class == op.class
                    && header.slice == slice
                    && header.kind != Kind::Waiting
            });
            let Some(skipped) = found else { return };
            at += skipped;
            let Some(early) = world.early.remove(at) else { return };
            let peer = early.peer;
            if let Err(text) = self.dispatch(op, reference, peer, &early.header, early.payload) {
                self.broken.push((peer, text));
            }
        }
    }

    /// Keeps a payload buffer for another time.
    pub(super) fn give_back(&mut self, buffer: Vec<u8>) {
        self.buffers.give_back(buffer);
    }

    /// Whether a step of this part needs a member that has left.
    pub(super) fn partner_that_left(&self, op: &Operation, index: usize) -> Option<u32> {
        let world = self.worlds.get(&op.world)?;
        let part = &op.run.parts[index];
        op.program.peers().iter().copied().find(|rank| {
            let member = world.members.rank(op.members.peer(*rank));
            let has_left = member.is_some_and(|m| world.state[m as usize].has_left);
            has_left && {
                let mut all = op.program.sends_to(*rank).chain(op.program.receives_from(*rank));
                all.any(|step| {
                    let is_parked = part.parked.iter().any(|p| p.step as usize == step);
                    part.steps[step].done < part.steps[step].length && !is_parked
                })
            }
        })
    }

    /// Fails the world of an operation that needs a member which has left it.
    pub(super) fn fail_for_leaver(&mut self, reference: OpRef, gone: u32) {
        let Some(op) = self.ops.get(reference.slot).and_then(Option::as_ref) else { return };
        if op.run.id != reference.id {
            return;
        }
        let peer = op.members.peer(gone);
        let (id, text) = (op.world, super::failure::of_operation(op));
        let Some(world) = self.worlds.get(&id) else { return };
        let rank = world.members.rank(peer).unwrap_or(gone) as usize;
        let text = format!(
            "world {:?} {text}: rank {rank} has left the world (destroyed its handle) before its part was done",
            world.health.name()
        );
        self.fail_op(reference, &Error::PeerLost { rank, text });
    }

    /// Those that were noticed while their operation was in hand.
    pub(super) fn fail_for_leavers(&mut self) {
        while let Some((op, gone)) = self.leavers.pop() {
            self.fail_for_leaver(op, gone);
        }
        while let Some((peer, text)) = self.broken.pop() {
            self.lose(peer, &text);
        }
    }
}
