//! What can be said of every field by itself: shapes that fit together, ranges inside their buffers, numbers in order.
//!
//! The later parts index by what is checked here.

use std::collections::HashMap;

use super::Fault;
use crate::plan::build::check as check_shape;
use crate::plan::interface;
use crate::plan::{Action, Buffer, CONTRIBUTIONS_MAX, Collective, Plan, Range, Shape, Step};

pub(super) fn check(plans: &[Plan]) -> Vec<Fault> {
    let mut faults = Vec::new();
    let Some(first) = plans.first() else {
        return vec![Fault { rank: 0, step: None, text: "no plans".into() }];
    };
    for (rank, plan) in (0..).zip(plans) {
        let mut say = |text| faults.push(Fault { rank, step: None, text });
        if let Err(error) = check_shape(&plan.shape) {
            say(error.to_string());
        }
        let in_place = plan.shape.in_place;
        let expected = Shape { size: plans.len() as u32, rank, in_place, ..first.shape };
        if plan.shape != expected {
            say(format!("shape {:?}, expected {expected:?}", plan.shape));
        }
        if plan.blocks != first.blocks {
            say(format!("{} blocks, rank 0 has {}", plan.blocks, first.blocks));
        }
        check_buffers(plan, &mut say);
    }
    if faults.is_empty() {
        for plan in plans {
            check_steps(plan, &mut faults);
        }
    }
    faults
}

fn check_buffers(plan: &Plan, say: &mut impl FnMut(String)) {
    let slots = |buffer| u64::from(interface::slots(plan, buffer));
    let cells = slots(Buffer::In(0)).max(slots(Buffer::Out(0))) * u64::from(plan.shape.buffers);
    if plan.blocks == 0 || cells.max(u64::from(plan.scratch)) > u64::from(CONTRIBUTIONS_MAX) {
        say(format!("{} blocks and {} scratch slots", plan.blocks, plan.scratch));
    }
    if interface::blocks(&plan.shape).is_some_and(|blocks| plan.blocks != blocks) {
        say(format!("{} blocks", plan.blocks));
    }
    if plan.scratch > 0 && !may_use_scratch(plan.shape.collective) {
        say("scratch, whose slots are as long as the longest block, which not all know".into());
    }
    let ranges = plan.steps.iter().flat_map(|step| step.target().into_iter().chain(reads(step)));
    let scratch = ranges.filter(|range| range.buffer == Buffer::Scratch);
    let used = scratch.map(|range| end(range.slot, range.blocks)).max().unwrap_or(0);
    if u64::from(plan.scratch) != used {
        say(format!("{} scratch slots declared, {used} used", plan.scratch));
    }
}

/// Whether every rank knows how long the blocks are that it could hold for others.
fn may_use_scratch(collective: Collective) -> bool {
    !collective.has_own_lengths() || collective == Collective::Alltoallv
}

fn check_steps(plan: &Plan, faults: &mut Vec<Fault>) {
    let mut ordinals = HashMap::new();
    for (index, step) in (0..).zip(&plan.steps) {
        let mut say = |text| faults.push(Fault { rank: plan.shape.rank, step: Some(index), text });
        check_order(step, index, &mut say);
        check_ranges(plan, step, &mut say);
        let ordinal = match step.peer() {
            None => 0,
            Some(peer) => {
                if peer >= plan.shape.size || peer == plan.shape.rank {
                    say(format!("peer {peer} is not another member"));
                }
                let next = ordinals.entry((peer, step.is_receive())).or_insert(0);
                *next += 1;
                *next - 1
            }
        };
        if step.ordinal != ordinal {
            say(format!("ordinal {}, should be {ordinal}", step.ordinal));
        }
    }
}

fn check_order(step: &Step, index: u32, say: &mut impl FnMut(String)) {
    if !step.after.is_sorted_by(|a, b| a < b) || step.after.last().is_some_and(|a| *a >= index) {
        say(format!("`after` is {:?}, not earlier steps, each once, ascending", step.after));
    }
    if step.gate.is_some_and(|gate| gate >= index || !step.is_receive()) {
        say("only a receive can have a gate, which is an earlier step".into());
    }
    if step.causal && !(step.is_receive() && step.after.is_empty()) {
        say("only a receive that comes after no step can be causal".into());
    }
}

fn check_ranges(plan: &Plan, step: &Step, say: &mut impl FnMut(String)) {
    if matches!(&step.action, Action::Reduce { sources, .. } if sources.is_empty()) {
        say("reduces nothing".into());
    }
    let shape = step.range();
    for range in reads(step) {
        check_range(plan, range, say);
        if (range.block, range.blocks) != (shape.block, shape.blocks) {
            say(format!("operands name different blocks: {range:?}, {shape:?}"));
        }
    }
    if let Some(target) = step.target() {
        check_range(plan, target, say);
        if !interface::may_write(&plan.shape, target) {
            say(format!("{target:?} is written: not an output, not scratch"));
        }
        if reads(step).any(|source| source.meets(&target) && source.slot != target.slot) {
            say("operands overlap at different offsets".into());
        }
    }
}

fn check_range(plan: &Plan, range: Range, say: &mut impl FnMut(String)) {
    let shape = &plan.shape;
    let slots = interface::slots(plan, range.buffer);
    if range.blocks == 0
        || end(range.slot, range.blocks) > u64::from(slots)
        || end(range.block, range.blocks) > u64::from(plan.blocks)
    {
        return say(format!("{range:?} is empty or leaves its buffer"));
    }
    if range.blocks > 1 && (shape.is_sliced() || shape.collective.is_irregular()) {
        say(format!("{range:?} is more than one block, which has no one place in slices"));
    }
    if range.buffer != Buffer::Scratch && !interface::is_at_home(shape, range) {
        say(format!("{range:?} is not in its own slots, whose lengths may differ"));
    }
    if interface::place(shape, range) != range {
        say(format!("{range:?} has another name in place, which it must be called by"));
    }
}

/// The ranges that a step reads.
fn reads(step: &Step) -> impl Iterator<Item = Range> {
    step.sources().iter().copied()
}

fn end(first: u32, count: u32) -> u64 {
    u64::from(first) + u64::from(count)
}
