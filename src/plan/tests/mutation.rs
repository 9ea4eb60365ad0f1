//! Mutants: each field of each step of many plans is changed, steps are dropped, doubled and swapped, with the order as
//! it was and with the order derived anew. The verifier refuses each, or it gives the right result on all ranks under
//! 100 random schedules.

use super::interpret::Interpreter;
use super::random::Random;
use super::{Case, pairs};
use crate::plan::build::Builder;
use crate::plan::{Action, Algorithm, Buffer, Collective, Plan, Range, Step, interface, verify};

/// Worlds of each algorithm of each collective.
const WORLDS: u64 = 6;
const SCHEDULES: u64 = 100;

/// Choices of random lengths among these schedules.
const LENGTHS: usize = 5;

#[test]
fn every_mutant_is_refused_or_right() {
    let (mut refused, mut accepted) = (0, 0);
    for seed in 0..WORLDS * pairs().count() as u64 {
        let mut random = Random(seed);
        let mut plans = world(seed, &mut random);
        let victim = random.below(plans.len());
        let original = plans[victim].clone();
        for mutant in mutants(&original, &mut random) {
            plans[victim] = mutant;
            if !verify(&plans).is_empty() {
                refused += 1;
                continue;
            }
            accepted += 1;
            if let Err(wrong) = interpret(&plans, seed) {
                let (was, is) = (&original, &plans[victim]);
                panic!("accepted with seed {seed}, but {wrong}:\n{was:#?}\nbecame\n{is:#?}");
            }
        }
    }
    eprintln!("{refused} mutants refused, {accepted} accepted and right");
    assert!(refused > 10_000 && accepted > 100, "{refused} refused, {accepted} accepted");
}

#[test]
fn the_interpreter_finds_what_the_verifier_refuses() {
    let (mut refused, mut found) = (0, 0);
    for seed in 0..4 * pairs().count() as u64 {
        let mut random = Random(seed);
        let mut plans = world(seed, &mut random);
        let victim = random.below(plans.len());
        let original = plans[victim].clone();
        for (index, step) in original.steps.iter().enumerate().filter(|(_, s)| !s.after.is_empty())
        {
            let mut mutant = original.clone();
            mutant.steps[index].after.remove(random.below(step.after.len()));
            plans[victim] = mutant;
            assert!(!verify(&plans).is_empty());
            refused += 1;
            found += u32::from(interpret(&plans, seed).is_err());
        }
    }
    assert!(
        found * 10 > refused * 9,
        "{found} of {refused} missing orders were seen in a schedule"
    );
}

/// Runs schedules of a few lengths each; where blocks differ, some are 0 in each.
fn interpret(plans: &[Plan], seed: u64) -> Result<(), String> {
    let count = plans[0].blocks as usize * 3 - usize::from(plans[0].blocks > 1);
    let lengths = if plans[0].shape.collective.is_irregular() { LENGTHS } else { 1 };
    for count in count..count + lengths {
        let interpreter = Interpreter::new(plans, count)?;
        (0..SCHEDULES / lengths as u64)
            .try_for_each(|schedule| interpreter.run(seed << 20 | schedule))?;
    }
    Ok(())
}

/// Plans of the collective and the algorithm whose turn it is.
fn world(seed: u64, random: &mut Random) -> Vec<Plan> {
    let (collective, algorithm) = pairs().cycle().nth(seed as usize).unwrap();
    let is_long =
        matches!(algorithm, Algorithm::Ring | Algorithm::Bruck) && !collective.is_irregular();
    let size = match collective {
        Collective::Message => 2,
        _ => 1 + random.below(if is_long { 5 } else { 8 }) as u32,
    };
    let root = if collective.has_root() { random.below(size as usize) as u32 } else { 0 };
    let degree = match algorithm {
        Algorithm::Knomial => random.pick(&[2, 3, 4]),
        Algorithm::Pairwise => random.pick(&[1, 2, 8]),
        _ => 0,
    };
    let multi = collective == Collective::Allreduce && random.chance(20);
    let buffers = if multi { 2 + random.below(2) as u16 } else { 1 };
    let percent = random.pick(&[0, 50, 100]);
    let case = Case { collective, algorithm, degree, size, root, buffers };
    case.plans(|_| random.chance(percent))
}

/// Every mutant of a plan, other than the plan itself.
fn mutants(plan: &Plan, random: &mut Random) -> Vec<Plan> {
    let mut mutants = whole(plan);
    for index in 0..plan.steps.len() {
        for step in step_mutants(&plan.steps[index], plan, index, random) {
            let mut mutant = plan.clone();
            mutant.steps[index] = step;
            mutants.push(mutant);
        }
        let mut edit = |edit: &mut dyn FnMut(&mut Vec<Step>)| {
            let mut mutant = plan.clone();
            edit(&mut mutant.steps);
            mutants.push(mutant);
        };
        let other = random.below(plan.steps.len());
        edit(&mut |steps| drop(steps.remove(index)));
        edit(&mut |steps| steps.insert(index, steps[index].clone()));
        edit(&mut |steps| steps.swap(index, other));
        edit(&mut |steps| steps.swap(index, (index + 1) % plan.steps.len()));
    }
    let again = mutants.iter().map(|mutant| (mutant, derive_again(mutant)));
    let again: Vec<_> = again.filter(|(was, is)| *was != is).map(|(_, is)| is).collect();
    mutants.extend(again);
    mutants.retain(|mutant| mutant != plan);
    mutants
}

/// The same steps with ordinals, order and scratch derived anew: the fault is in the algorithm.
pub(super) fn derive_again(plan: &Plan) -> Plan {
    let mut builder = Builder::new(plan.shape, plan.blocks);
    for step in &plan.steps {
        let sane = step.sources().iter().chain(step.target().iter()).all(|range| {
            u64::from(range.slot) + u64::from(range.blocks) < 1 << 20 && range.blocks > 0
        });
        if sane {
            builder.push_step(step.action.clone(), step.causal, step.gate);
        }
    }
    builder.finish()
}

fn whole(plan: &Plan) -> Vec<Plan> {
    let mut mutants = Vec::new();
    let mut edit = |edit: fn(&mut Plan)| {
        let mut mutant = plan.clone();
        edit(&mut mutant);
        mutants.push(mutant);
    };
    edit(|plan| plan.blocks += 1);
    edit(|plan| plan.blocks -= 1);
    edit(|plan| plan.scratch += 1);
    edit(|plan| plan.scratch = plan.scratch.wrapping_sub(1));
    edit(|plan| plan.shape.in_place = !plan.shape.in_place);
    edit(|plan| plan.shape.rank += 1);
    edit(|plan| plan.shape.size += 1);
    edit(|plan| plan.shape.root += 1);
    edit(|plan| plan.shape.buffers += 1);
    edit(|plan| plan.shape.degree += 1);
    mutants
}

fn step_mutants(step: &Step, plan: &Plan, index: usize, random: &mut Random) -> Vec<Step> {
    let mut mutants: Vec<Step> = action_mutants(&step.action, plan, random)
        .into_iter()
        .map(|action| Step { action, ..step.clone() })
        .collect();
    let mut edit = |edit: &mut dyn FnMut(&mut Step)| {
        let mut mutant = step.clone();
        edit(&mut mutant);
        mutants.push(mutant);
    };
    edit(&mut |step| step.ordinal += 1);
    edit(&mut |step| step.ordinal = step.ordinal.wrapping_sub(1));
    edit(&mut |step| step.causal = !step.causal);
    edit(&mut |step| step.after.clear());
    edit(&mut |step| (step.causal, step.after) = (true, Vec::new()));
    edit(&mut |step| step.after.push(index as u32));
    edit(&mut |step| step.gate = None);
    edit(&mut |step| step.gate = Some(index as u32));
    for (place, dropped) in step.after.iter().copied().enumerate() {
        edit(&mut |step| step.after.retain(|after| *after != dropped));
        edit(&mut |step| step.after[place] = step.after[place].wrapping_sub(1));
    }
    if index > 0 {
        let more = random.below(index) as u32;
        edit(&mut |step| step.gate = Some(more));
        edit(&mut |step| {
            step.after.push(more);
            step.after.sort_unstable();
            step.after.dedup();
        });
    }
    mutants
}

fn action_mutants(action: &Action, plan: &Plan, random: &mut Random) -> Vec<Action> {
    let mut mutants = Vec::new();
    let mut edit = |edit: &mut dyn FnMut(&mut Action)| {
        let mut mutant = action.clone();
        edit(&mut mutant);
        mutants.push(mutant);
    };
    let size = plan.shape.size;
    for to in [0, 1, size - 1, size, random.below(size as usize) as u32] {
        edit(&mut |action| {
            if let Some(peer) = peer_mut(action) {
                *peer = to;
            }
        });
    }
    for place in 0..ranges_mut(&mut action.clone()).len() {
        for changed in range_mutants(*ranges_mut(&mut action.clone())[place], plan, random) {
            edit(&mut |action| *ranges_mut(action)[place] = changed);
            // All ranges of the step in the same way, so that it still fits together.
            edit(&mut |action| {
                for range in ranges_mut(action) {
                    (range.block, range.blocks) = (changed.block, changed.blocks);
                    if let Some(slot) = home(plan, *range) {
                        range.slot = slot;
                    }
                }
            });
        }
    }
    edit(&mut |action| match action {
        Action::RecvReduce { incoming_first, .. } => *incoming_first = !*incoming_first,
        Action::Reduce { sources, .. } => sources.reverse(),
        _ => {}
    });
    edit(&mut |action| match action {
        Action::RecvReduce { last, .. } | Action::Reduce { last, .. } => *last = !*last,
        _ => {}
    });
    edit(&mut |action| *action = other_kind(action));
    if let Action::Reduce { sources, .. } = action {
        for place in 0..sources.len() {
            edit(&mut |action| {
                if let Action::Reduce { sources, .. } = action {
                    sources.remove(place);
                }
            });
            edit(&mut |action| {
                if let Action::Reduce { sources, .. } = action {
                    sources.insert(place, sources[place]);
                }
            });
        }
    }
    mutants
}

/// Another action with the same fields.
fn other_kind(action: &Action) -> Action {
    match action.clone() {
        Action::Send { peer, source } => Action::RecvCopy { peer, target: source },
        Action::RecvCopy { peer, target } => {
            Action::RecvReduce { peer, target, local: target, incoming_first: true, last: false }
        }
        Action::RecvReduce { peer, target, .. } => Action::RecvCopy { peer, target },
        Action::Copy { target, source } => {
            Action::Reduce { target, sources: vec![target, source], last: false }
        }
        Action::Reduce { target, sources, .. } => Action::Copy { target, source: sources[0] },
    }
}

fn range_mutants(range: Range, plan: &Plan, random: &mut Random) -> Vec<Range> {
    let any = random.below(plan.blocks as usize) as u32;
    let mut mutants = vec![
        Range { slot: range.slot + 1, ..range },
        Range { slot: range.slot.wrapping_sub(1), ..range },
        Range { block: range.block + 1, ..range },
        Range { block: range.block.wrapping_sub(1), ..range },
        Range { blocks: range.blocks + 1, ..range },
        Range { blocks: 0, ..range },
        Range { blocks: u32::MAX, ..range },
        Range { slot: any, block: any, ..range },
    ];
    let buffers = [Buffer::In(0), Buffer::Out(0), Buffer::Scratch, Buffer::In(1), Buffer::Out(1)];
    mutants.extend(buffers.map(|buffer| Range { buffer, ..range }));
    mutants
}

/// The slot of an input or output that is its first block's place.
fn home(plan: &Plan, range: Range) -> Option<u32> {
    let is_home =
        |slot: &u32| interface::is_at_home(&plan.shape, Range { slot: *slot, blocks: 1, ..range });
    match range.buffer {
        Buffer::Scratch => None,
        _ => (0..interface::slots(plan, range.buffer)).find(is_home),
    }
}

fn peer_mut(action: &mut Action) -> Option<&mut u32> {
    match action {
        Action::Send { peer, .. }
        | Action::RecvCopy { peer, .. }
        | Action::RecvReduce { peer, .. } => Some(peer),
        Action::Copy { .. } | Action::Reduce { .. } => None,
    }
}

fn ranges_mut(action: &mut Action) -> Vec<&mut Range> {
    match action {
        Action::Send { source, .. } => vec![source],
        Action::RecvCopy { target, .. } => vec![target],
        Action::RecvReduce { target, local, .. } => vec![target, local],
        Action::Copy { target, source } => vec![target, source],
        Action::Reduce { target, sources, .. } => {
            std::iter::once(target).chain(sources.iter_mut()).collect()
        }
    }
}
