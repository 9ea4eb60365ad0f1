//! What can be said of every field by itself: shapes that fit together, ranges inside their buffers, numbers in order.
//!
//! The later parts index by what is checked here.

use std::collections::HashMap;

use super::Fault;
use crate::plan::build::check as check_shape;
use crate::plan::{
    Action, Buffer, CONTRIBUTIONS_MAX, Collective, Plan, Range, Shape, Step, interface,
};

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
    let cells = u64::from(plan.blocks) * u64::from(plan.shape.buffers);
    if plan.blocks == 0 || cells.max(u64::from(plan.scratch)) > u64::from(CONTRIBUTIONS_MAX) {
        say(format!("{} blocks and {} scratch slots", plan.blocks, plan.scratch));
    }
    if plan.scratch > 0 && plan.blocks != 1 {
        say(format!("scratch in a plan of {} blocks, which cannot run on slices", plan.blocks));
    }
    let ranges = plan.steps.iter().flat_map(|step| step.target().into_iter().chain(reads(step)));
    let scratch = ranges.filter(|range| range.buffer == Buffer::Scratch);
    let used = scratch.map(|range| end(range.slot, range.blocks)).max().unwrap_or(0);
    if u64::from(plan.scratch) != used {
        say(format!("{} scratch slots declared, {used} used", plan.scratch));
    }
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
        let has_output = !interface::outputs(plan).is_empty();
        let is_output = matches!(target.buffer, Buffer::Out(_)) && has_output;
        if !is_output && target.buffer != Buffer::Scratch {
            say(format!("{target:?} is written: not an output, not scratch"));
        }
        if reads(step).any(|source| source.meets(&target) && source.slot != target.slot) {
            say("operands overlap at different offsets".into());
        }
    }
}

fn check_range(plan: &Plan, range: Range, say: &mut impl FnMut(String)) {
    let slots = match range.buffer {
        Buffer::Scratch => plan.scratch,
        Buffer::In(i) | Buffer::Out(i) if i < plan.shape.buffers => plan.blocks,
        Buffer::In(_) | Buffer::Out(_) => 0,
    };
    if range.blocks == 0
        || end(range.slot, range.blocks) > u64::from(slots)
        || end(range.block, range.blocks) > u64::from(plan.blocks)
    {
        say(format!("{range:?} is empty or leaves its buffer"));
    }
    let is_own = plan.shape.collective == Collective::Allgather
        && matches!(range.buffer, Buffer::In(_))
        && (range.slot, range.block, range.blocks) == (0, plan.shape.rank, 1);
    if range.buffer != Buffer::Scratch && range.slot != range.block && !is_own {
        say(format!("{range:?} is not in its own slot, which may be shorter"));
    }
    if plan.shape.in_place && matches!(range.buffer, Buffer::In(_)) {
        say(format!("{range:?} is an output in place, and must be named so"));
    }
}

/// The ranges that a step reads.
fn reads(step: &Step) -> impl Iterator<Item = Range> {
    step.sources().iter().copied()
}

fn end(first: u32, count: u32) -> u64 {
    u64::from(first) + u64::from(count)
}
