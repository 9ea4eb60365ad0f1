//! Watermarks: what may go on when a step has moved.
#![forbid(unsafe_code)]

use std::mem;

use super::super::early::Early;
use super::super::name::Name;
use super::super::operation::Operation;
use super::super::peer::OpRef;
use super::Core;
use super::compare::misfit;
use crate::error::Error;
use crate::link::frame::{Class, Header, Kind};
use crate::link::phase::{Phase, note};
use crate::memory::Region;
use crate::plan::Action;

impl Core {
    /// An operation, unless it has ended.
    pub(super) fn under_way(&self, op: OpRef) -> Option<&Operation> {
        self.ops.get(op.slot)?.as_deref().filter(|it| it.run.id == op.id)
    }

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
            world.end(&op.name, op.program.plan().steps.len());
            world.remember(op.name, op.fingerprint);
        }
        self.retire(op, Ok(()));
        self.activate_next(world);
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
            op.end_part(index, &mut self.scratches);
            if op.run.slice_next >= op.slices() {
                return;
            }
            let index = op.begin_part(&mut self.scratches);
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
        let whole = op.element;
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
            Action::RecvCopy { .. } => {
                op.payload_of(part, step as usize, low, high).copy_from(&incoming);
            }
            _ => {
                note(Phase::Reducing);
                op.compute(part, step as usize, low, high, incoming);
            }
        }
    }

    /// Gives what came early to an operation that is now called. False if that has ended it.
    pub(super) fn take_early(&mut self, id: u64, reference: OpRef, name: &Name) -> bool {
        let Some(mut list) = self.early.take(id, name) else { return true };
        while let Some(Early { peer, header, payload }) = self.early.next(&mut list) {
            self.count_early(&header, peer, false);
            if !self.is_active(reference) {
                self.discard(peer, &header, payload);
            } else if let Some(payload) = self.deliver(reference, peer, &header, payload) {
                self.count_early(&header, peer, true);
                self.early.keep(id, *name, Early { peer, header, payload });
            }
        }
        self.is_active(reference)
    }

    /// Counts a frame that waits here for its operation, or does so no more.
    pub(super) fn count_early(&mut self, header: &Header, peer: usize, is_new: bool) {
        let Some(world) = self.worlds.get_mut(&header.world) else { return };
        let Some(rank) = world.members.rank(peer) else { return };
        let (ordered, others) = &mut world.state[rank as usize].early;
        let is_ordered = matches!(header.class, Class::Ordered | Class::Fork | Class::Control);
        let count = if is_ordered { ordered } else { others };
        *count = if is_new { *count + 1 } else { count.saturating_sub(1) };
    }

    fn is_active(&self, op: OpRef) -> bool {
        self.under_way(op).is_some()
    }

    /// Gives what came early for a slice that now begins.
    fn take_early_slice(&mut self, op: &mut Operation, reference: OpRef, slice: u32) {
        let Some(mut list) = self.early.take(op.world, &op.name) else { return };
        while let Some(Early { peer, header, payload }) = self.early.next(&mut list) {
            if header.slice != slice || header.kind == Kind::Waiting {
                self.early.keep(op.world, op.name, Early { peer, header, payload });
                continue;
            }
            self.count_early(&header, peer, false);
            if let Some(mine) = misfit(op, peer, &header) {
                let error = self.length_mismatch(op, peer, &header, mine);
                self.misfits.push((reference, error));
                self.discard(peer, &header, payload);
            } else if let Err(text) = self.dispatch(op, reference, peer, &header, payload) {
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
        while let Some((op, error)) = self.misfits.pop() {
            self.fail_op(op, &error);
        }
        while let Some((peer, text)) = self.broken.pop() {
            self.lose(peer, &text);
        }
    }
}
