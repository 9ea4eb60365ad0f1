//! Conflicts between steps of one rank, found cell by cell: each step must come after the last writer of every cell
//! that it touches and, if it writes, after the readers since. In a cell of scratch whose blocks may differ in length
//! it must also come after those who touched it with other blocks, which may be longer than all since.
//!
//! A causal receive has no order of its own; what it would need becomes a claim, for `causal` to prove.

use super::{Fault, World, cell, cell_count, cells};
use crate::plan::Plan;
use crate::plan::interface::{inputs, is_uniform};

/// That causal receive `receive` need not wait for `earlier`, an earlier step of its rank, before it writes or reads
/// `cell`. The steps are ids.
pub(super) struct Claim {
    pub(super) receive: usize,
    pub(super) earlier: usize,
    pub(super) cell: usize,
}

pub(super) fn check(world: &World<'_>) -> (Vec<Fault>, Vec<Claim>) {
    let (mut faults, mut claims) = (Vec::new(), Vec::new());
    for (plan, first) in world.plans.iter().zip(&world.first) {
        let mut cells = Cells::new(plan);
        for id in *first..*first + plan.steps.len() {
            cells.step(world, id, &mut faults, &mut claims);
        }
    }
    (faults, claims)
}

/// One rank's cells: who last wrote each and has read it since.
struct Cells<'a> {
    plan: &'a Plan,
    holds_input: Vec<bool>,
    writer: Vec<Option<usize>>,
    readers: Vec<Vec<usize>>,
    /// Cells whose blocks may differ in length, of scratch, begin here.
    mixed: usize,
    /// For each of them, the block in it.
    held: Vec<u32>,
    /// And those who touched it with other blocks, for whom nobody since stands, with the blocks.
    before: Vec<Vec<(usize, u32)>>,
}

impl<'a> Cells<'a> {
    fn new(plan: &'a Plan) -> Self {
        let count = cell_count(plan);
        let mut holds_input = vec![false; count];
        for input in inputs(plan) {
            holds_input[cell(plan, input)] = true;
        }
        let mixed = if is_uniform(&plan.shape) { 0 } else { plan.scratch as usize };
        Self {
            plan,
            holds_input,
            writer: vec![None; count],
            readers: vec![Vec::new(); count],
            mixed: count - mixed,
            held: vec![0; mixed],
            before: vec![Vec::new(); mixed],
        }
    }

    fn step(
        &mut self,
        world: &World<'_>,
        id: usize,
        faults: &mut Vec<Fault>,
        claims: &mut Vec<Claim>,
    ) {
        let step = world.steps[id].1;
        let mut need = |earlier: usize, cell: usize, why: &str| {
            if step.causal {
                claims.push(Claim { receive: id, earlier, cell });
            } else if !world.is_after(id, earlier) {
                let index = earlier - world.first[world.steps[id].0];
                faults.push(world.fault(id, format!("hazard with step {index}: {why}")));
            }
        };
        let mut unwritten = Vec::new();
        for source in step.sources() {
            for cell in cells(self.plan, *source) {
                match self.writer[cell] {
                    Some(writer) => need(writer, cell, "read before it is written"),
                    None if !self.holds_input[cell] => unwritten.push(source),
                    None => {}
                }
                self.readers[cell].push(id);
            }
        }
        if let Some(target) = step.target() {
            for (block, cell) in (target.block..).zip(cells(self.plan, target)) {
                for earlier in self.keep(id, cell, block) {
                    need(earlier, cell, "overwritten while an earlier block may still be read");
                }
                for reader in self.readers[cell].drain(..).filter(|reader| *reader != id) {
                    need(reader, cell, "overwritten while it may still be read");
                }
                if let Some(writer) = self.writer[cell].replace(id) {
                    need(writer, cell, "written twice without order");
                }
            }
        }
        for range in unwritten {
            faults.push(world.fault(id, format!("{range:?} is read but never written before")));
        }
    }

    /// Those who touched a cell of blocks that may differ in length before the last writer, with other blocks. Notes
    /// that a step writes `block` there now.
    fn keep(&mut self, id: usize, cell: usize, block: u32) -> Vec<usize> {
        let Some(index) = cell.checked_sub(self.mixed) else { return Vec::new() };
        let held = std::mem::replace(&mut self.held[index], block);
        let last = self.readers[cell].iter().copied().chain(self.writer[cell]);
        let before = &mut self.before[index];
        let needed = before.iter().map(|(step, _)| *step).collect();
        before.extend(last.filter(|step| *step != id).map(|step| (step, held)));
        before.retain(|(_, theirs)| *theirs != block);
        needed
    }
}
