//! Proves all ranks' plans of one collective, for every element count, interleaving and amount of credit at once.
//!
//! Each part believes no other: `check` looks at every field by itself, `hazard` finds conflicts cell by cell whatever
//! `after` says, `message` pairs sends with receives and shows that the graph of steps has no cycle even where a send
//! completes only with its receive (then no count and no credits can make a deadlock), `causal` proves what causal
//! receives claim, and `value` runs the plans on ordered trees of contributions in place of numbers: same tree, same
//! bits.
//!
//! The cost grows with the number of blocks that all steps touch. A *cell* is one slot of one buffer of one rank; a
//! step's *id* is its place in the list of all ranks' steps.

mod causal;
mod check;
mod hazard;
mod message;
mod value;

use std::fmt;

use super::{Buffer, Plan, Range, Step, interface};

/// Something that a plan does wrong.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault {
    /// Whose plan it is.
    pub rank: u32,
    /// Which of its steps, if it is one step.
    pub step: Option<u32>,
    /// What is wrong, as a clause.
    pub text: String,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "rank {}", self.rank)?;
        if let Some(step) = self.step {
            write!(f, " step {step}")?;
        }
        write!(f, ": {}", self.text)
    }
}

impl std::error::Error for Fault {}

/// The faults of one collective's plans, one plan per rank in rank order; none if it is proved.
///
/// Later parts of the proof rest on earlier ones, so that one mistake is not reported under many names.
#[must_use]
pub fn verify(plans: &[Plan]) -> Vec<Fault> {
    let faults = check::check(plans);
    if !faults.is_empty() {
        return faults;
    }
    let world = World::new(plans);
    let (mut faults, claims) = hazard::check(&world);
    let partners = message::pair(&world, &mut faults);
    if !faults.is_empty() {
        return faults;
    }
    let sequence = match message::sequence(&world, &partners) {
        Ok(sequence) => sequence,
        Err(fault) => return vec![fault],
    };
    if !claims.is_empty() {
        causal::prove(&world, &partners, &sequence, &claims, &mut faults);
    }
    value::run(&world, &partners, &sequence, &mut faults);
    faults
}

/// All ranks' plans, with every step numbered.
struct World<'a> {
    plans: &'a [Plan],
    /// The id of each rank's first step.
    first: Vec<usize>,
    /// Every step with its rank.
    steps: Vec<(usize, &'a Step)>,
}

impl<'a> World<'a> {
    fn new(plans: &'a [Plan]) -> Self {
        let mut first = Vec::with_capacity(plans.len());
        let mut steps = Vec::new();
        for (rank, plan) in plans.iter().enumerate() {
            first.push(steps.len());
            steps.extend(plan.steps.iter().map(|step| (rank, step)));
        }
        Self { plans, first, steps }
    }

    /// The ids of the steps that a step comes after.
    fn after(&self, id: usize) -> impl Iterator<Item = usize> {
        let (rank, step) = self.steps[id];
        step.after.iter().map(move |earlier| self.first[rank] + *earlier as usize)
    }

    /// Whether a step comes after `earlier`, a step of its rank.
    fn is_after(&self, id: usize, earlier: usize) -> bool {
        let (rank, step) = self.steps[id];
        step.after.binary_search(&((earlier - self.first[rank]) as u32)).is_ok()
    }

    /// The ids of all steps of its rank that a step waits for.
    fn waits_for(&self, id: usize) -> impl Iterator<Item = usize> {
        let (rank, step) = self.steps[id];
        self.after(id).chain(step.gate.map(|gate| self.first[rank] + gate as usize))
    }

    fn fault(&self, id: usize, text: String) -> Fault {
        let rank = self.steps[id].0;
        Fault { rank: rank as u32, step: Some((id - self.first[rank]) as u32), text }
    }
}

/// The cells of a range that has its one name, as indices below [`cell_count`].
fn cells(plan: &Plan, range: Range) -> std::ops::Range<usize> {
    let slots = |buffer| interface::slots(plan, buffer) as usize;
    let (buffers, output) = (usize::from(plan.shape.buffers), slots(Buffer::Out(0)));
    let buffer = match range.buffer {
        Buffer::Out(i) => usize::from(i) * output,
        Buffer::In(i) => buffers * output + usize::from(i) * slots(Buffer::In(0)),
        Buffer::Scratch => buffers * (output + slots(Buffer::In(0))),
    };
    let first = buffer + range.slot as usize;
    first..first + range.blocks as usize
}

fn cell_count(plan: &Plan) -> usize {
    cells(plan, Range::scratch(plan.scratch)).start
}

/// The cell of a block of an input or output, under whichever name.
fn cell(plan: &Plan, block: Range) -> usize {
    cells(plan, interface::place(&plan.shape, block)).start
}
