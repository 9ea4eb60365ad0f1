//! Causal receives: a message must descend, block by block, from all that its receive would have to wait for.
//!
//! If the message of receive R is made from what step A of R's rank made (or, where A is a send, from what its receive
//! made at the peer), then no byte of the message exists before A has done with that byte. A *vertex* is one block of
//! one step; its parents are those whose bytes it cannot precede.

use super::hazard::Claim;
use super::message::Partners;
use super::{Fault, World, cell_count, cells};
use crate::plan::Range;

pub(super) fn prove(
    world: &World<'_>,
    partners: &Partners,
    sequence: &[usize],
    claims: &[Claim],
    faults: &mut Vec<Fault>,
) {
    let graph = Graph::new(world, partners);
    let reach = graph.reach(sequence);
    for claim in claims {
        let (rank, receive) = world.steps[claim.receive];
        let earlier = world.steps[claim.earlier].1;
        let plan = &world.plans[rank];
        let offset = |range: &Range| {
            let cells = cells(plan, *range);
            cells.contains(&claim.cell).then(|| claim.cell - cells.start)
        };
        let used = earlier.target().iter().chain(earlier.sources()).find_map(offset);
        let done = if earlier.peer().is_some() && !earlier.is_receive() {
            partners[claim.earlier]
        } else {
            Some(claim.earlier)
        };
        let mine = receive.target().iter().chain(receive.sources()).find_map(offset);
        let proved = match (done, used, partners[claim.receive], mine) {
            (Some(done), Some(used), Some(send), Some(mine)) => {
                graph.descends(&reach, graph.vertex(send, mine), graph.vertex(done, used))
            }
            _ => false,
        };
        if !proved {
            let index = claim.earlier - world.first[rank];
            let text = format!("claims to come after step {index}, but does not descend from it");
            faults.push(world.fault(claim.receive, text));
        }
    }
}

struct Graph<'a> {
    world: &'a World<'a>,
    /// The first vertex of each step.
    first: Vec<usize>,
    /// The logical block of each vertex.
    block: Vec<u32>,
    /// The parents of each vertex, all of its block.
    parents: Vec<Vec<usize>>,
    /// Each vertex's number among those of its block, from 0.
    number: Vec<usize>,
}

impl<'a> Graph<'a> {
    fn new(world: &'a World<'a>, partners: &Partners) -> Self {
        let (mut first, mut block) = (Vec::new(), Vec::new());
        for (_, step) in &world.steps {
            first.push(block.len());
            let range = step.range();
            block.extend(range.block..range.block + range.blocks);
        }
        let mut used = vec![0; world.plans[0].blocks as usize];
        let mut number = Vec::new();
        for block in &block {
            number.push(used[*block as usize]);
            used[*block as usize] += 1;
        }
        let parents = vec![Vec::new(); block.len()];
        let mut graph = Self { world, first, block, parents, number };
        for rank in 0..world.plans.len() {
            graph.add_rank(rank, partners);
        }
        graph
    }

    fn add_rank(&mut self, rank: usize, partners: &Partners) {
        let plan = &self.world.plans[rank];
        let mut writer: Vec<Option<usize>> = vec![None; cell_count(plan)];
        let mut readers: Vec<Vec<(usize, usize)>> = vec![Vec::new(); cell_count(plan)];
        let mut writer_step = vec![usize::MAX; cell_count(plan)];
        for (index, step) in plan.steps.iter().enumerate() {
            let id = self.world.first[rank] + index;
            let after = |step: usize| self.world.is_after(id, step);
            for k in 0..step.range().blocks as usize {
                let vertex = self.vertex(id, k);
                let mut parents = Vec::new();
                for source in step.sources() {
                    let cell = cells(plan, *source).start + k;
                    parents.extend(writer[cell]);
                    readers[cell].push((id, vertex));
                }
                if let Some(send) = partners[id].filter(|_| step.is_receive()) {
                    parents.push(self.vertex(send, k));
                }
                if let Some(target) = step.target() {
                    let cell = cells(plan, target).start + k;
                    let since = readers[cell].drain(..);
                    parents.extend(since.filter(|(step, _)| after(*step)).map(|(_, v)| v));
                    parents.extend(writer[cell].filter(|_| after(writer_step[cell])));
                    (writer[cell], writer_step[cell]) = (Some(vertex), id);
                }
                parents.retain(|parent| self.block[*parent] == self.block[vertex]);
                self.parents[vertex] = parents;
            }
        }
    }

    fn vertex(&self, id: usize, k: usize) -> usize {
        self.first[id] + k
    }

    /// For each vertex, which vertices of its block it descends from or is, as bits.
    fn reach(&self, sequence: &[usize]) -> Vec<Vec<u64>> {
        let mut reach: Vec<Vec<u64>> = vec![Vec::new(); self.block.len()];
        for id in sequence {
            for k in 0..self.world.steps[*id].1.range().blocks as usize {
                let vertex = self.vertex(*id, k);
                let number = self.number[vertex];
                let mut bits = vec![0; number / 64 + 1];
                bits[number / 64] |= 1 << (number % 64);
                for parent in &self.parents[vertex] {
                    let theirs = &reach[*parent];
                    bits.resize(bits.len().max(theirs.len()), 0);
                    bits.iter_mut().zip(theirs).for_each(|(mine, theirs)| *mine |= theirs);
                }
                reach[vertex] = bits;
            }
        }
        reach
    }

    fn descends(&self, reach: &[Vec<u64>], vertex: usize, ancestor: usize) -> bool {
        let number = self.number[ancestor];
        self.block[vertex] == self.block[ancestor]
            && reach[vertex].get(number / 64).is_some_and(|word| word >> (number % 64) & 1 == 1)
    }
}
