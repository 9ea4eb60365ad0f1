//! What the plans compute: runs them on ordered trees of contributions, and compares what every output block holds.
//!
//! Trees are interned, so that "the same bits on every rank" is equality of numbers. All conflicts being ordered by
//! then, one order of steps stands for all.

use std::collections::HashMap;

use super::message::Partners;
use super::{Fault, World, cell, cell_count, cells};
use crate::plan::{Action, Collective, Plan, Range, interface};

type Tree = usize;

#[derive(PartialEq, Eq, Hash)]
enum Key {
    Leaf { contributor: u32, block: u32 },
    Node(Tree, Tree),
    Final(Tree),
}

/// What there is to know of a tree.
#[derive(Clone, PartialEq, Eq)]
struct Facts {
    block: u32,
    /// Contributors as bits.
    contributors: Vec<u64>,
    /// Whether one came twice.
    twice: bool,
    /// First and last contributor, if all between are there in order.
    interval: Option<(u32, u32)>,
    /// Whether it was marked as the final value, and whether something was combined with it afterwards.
    is_final: bool,
    spoilt: bool,
}

#[derive(Default)]
struct Trees {
    known: HashMap<Key, Tree>,
    facts: Vec<Facts>,
}

impl Trees {
    fn intern(&mut self, key: Key, make: impl FnOnce(&[Facts]) -> Facts) -> Tree {
        let Self { known, facts } = self;
        *known.entry(key).or_insert_with(|| {
            facts.push(make(facts));
            facts.len() - 1
        })
    }

    fn leaf(&mut self, contributor: u32, block: u32) -> Tree {
        self.intern(Key::Leaf { contributor, block }, |_| Facts {
            block,
            contributors: bits(contributor..contributor + 1),
            twice: false,
            interval: Some((contributor, contributor)),
            is_final: false,
            spoilt: false,
        })
    }

    fn node(&mut self, left: Tree, right: Tree) -> Tree {
        self.intern(Key::Node(left, right), |facts| {
            let (left, right) = (&facts[left], &facts[right]);
            let interval = match (left.interval, right.interval) {
                (Some((first, a)), Some((b, last))) if a + 1 == b => Some((first, last)),
                _ => None,
            };
            let (a, b) = (&left.contributors, &right.contributors);
            let word = |bits: &[u64], i: usize| bits.get(i).copied().unwrap_or(0);
            let union = (0..a.len().max(b.len())).map(|i| word(a, i) | word(b, i)).collect();
            Facts {
                block: left.block,
                contributors: union,
                twice: left.twice || right.twice || a.iter().zip(b).any(|(a, b)| a & b != 0),
                interval,
                is_final: false,
                spoilt: left.is_final || right.is_final || left.spoilt || right.spoilt,
            }
        })
    }

    fn finish(&mut self, tree: Tree) -> Tree {
        self.intern(Key::Final(tree), |facts| {
            let facts = facts[tree].clone();
            Facts { is_final: true, spoilt: facts.spoilt || facts.is_final, ..facts }
        })
    }
}

/// A set of contributors.
fn bits(contributors: std::ops::Range<u32>) -> Vec<u64> {
    let mut bits = vec![0; contributors.end.div_ceil(64) as usize];
    for contributor in contributors {
        bits[contributor as usize / 64] |= 1 << (contributor % 64);
    }
    bits
}

pub(super) fn run(
    world: &World<'_>,
    partners: &Partners,
    sequence: &[usize],
    faults: &mut Vec<Fault>,
) {
    let mut trees = Trees::default();
    let mut memory: Vec<_> = world.plans.iter().map(|plan| inputs(plan, &mut trees)).collect();
    let mut wire: Vec<Vec<Option<Tree>>> = vec![Vec::new(); world.steps.len()];
    for id in sequence {
        let (rank, step) = world.steps[*id];
        let (plan, range) = (&world.plans[rank], step.range());
        let send = partners[*id].filter(|_| step.is_receive());
        let incoming = send.map(|send| std::mem::take(&mut wire[send]));
        let is_first = matches!(step.action, Action::RecvReduce { incoming_first: true, .. });
        let starts: Vec<_> =
            step.sources().iter().map(|source| cells(plan, *source).start).collect();
        let mut result = Vec::with_capacity(range.blocks as usize);
        for (k, block) in (range.block..range.block + range.blocks).enumerate() {
            let incoming = incoming.as_ref().map(|incoming| incoming[k]);
            let local = starts.iter().map(|start| memory[rank][start + k]);
            let first = incoming.filter(|_| is_first).into_iter();
            let operands = first.chain(local).chain(incoming.filter(|_| !is_first));
            for found in operands.clone().flatten().map(|tree| trees.facts[tree].block) {
                if found != block {
                    faults.push(world.fault(*id, format!("block {found} where {block} should be")));
                }
            }
            result.push(combine(&mut trees, operands, is_last(&step.action)));
        }
        match step.target() {
            None => wire[*id] = result,
            Some(target) => memory[rank][cells(plan, target)].copy_from_slice(&result),
        }
    }
    compare(world.plans, &trees, &memory, faults);
}

fn is_last(action: &Action) -> bool {
    matches!(action, Action::RecvReduce { last: true, .. } | Action::Reduce { last: true, .. })
}

/// Left to right; nothing if an operand was never written.
fn combine(
    trees: &mut Trees,
    mut operands: impl Iterator<Item = Option<Tree>>,
    last: bool,
) -> Option<Tree> {
    let mut result = operands.next()??;
    for operand in operands {
        result = trees.node(result, operand?);
    }
    Some(if last { trees.finish(result) } else { result })
}

/// A rank's memory at the start.
fn inputs(plan: &Plan, trees: &mut Trees) -> Vec<Option<Tree>> {
    let mut memory = vec![None; cell_count(plan)];
    let shape = plan.shape;
    for input in interface::inputs(plan) {
        let contributor = interface::contributor(&shape, input.buffer);
        memory[cell(plan, input)] = Some(trees.leaf(contributor, input.block));
    }
    memory
}

/// Judges every output block of every rank.
fn compare(plans: &[Plan], trees: &Trees, memory: &[Vec<Option<Tree>>], faults: &mut Vec<Fault>) {
    let mut seen = HashMap::new();
    for (plan, memory) in plans.iter().zip(memory) {
        for output in interface::outputs(plan) {
            let mut say = |text: &str| {
                let text = format!("block {} of {:?}: {text}", output.block, output.buffer);
                faults.push(Fault { rank: plan.shape.rank, step: None, text });
            };
            let Some(tree) = memory[cell(plan, output)] else {
                say("was never written");
                continue;
            };
            judge(plan, &trees.facts[tree], output, &mut say);
            let all = interface::contributors(&plan.shape, output.block);
            let first = *seen.entry((output.block, all)).or_insert(tree);
            if first != tree && plan.shape.collective != Collective::Barrier {
                say("another order of reduction than elsewhere");
            }
        }
    }
}

/// Judges one output block by itself.
fn judge(plan: &Plan, facts: &Facts, output: Range, say: &mut impl FnMut(&str)) {
    let shape = plan.shape;
    let expected = bits(interface::contributors(&shape, output.block));
    let is_final = interface::is_marked_final(&shape, output.block);
    if facts.block != output.block {
        say("holds another block");
    }
    if facts.contributors != expected {
        say("contributions are missing, or from elsewhere");
    }
    if facts.twice && shape.collective != Collective::Barrier {
        say("a contribution came twice");
    }
    if shape.is_ordered() && facts.interval.is_none() {
        say("operands are out of rank order");
    }
    if facts.spoilt {
        say("a final value was combined again");
    }
    if facts.is_final != is_final {
        say(if is_final { "was never marked as final" } else { "was marked as final" });
    }
}
