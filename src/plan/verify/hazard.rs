//! Conflicts between steps of one rank, found cell by cell: each step must come after the last writer of every cell
//! that it touches and, if it writes, after the readers since.
//!
//! A causal receive has no order of its own; what it would need becomes a claim, for `causal` to prove.

use super::{Fault, World, cell_count, cells, input_cell};
use crate::plan::Plan;
use crate::plan::interface::inputs;

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
}

impl<'a> Cells<'a> {
    fn new(plan: &'a Plan) -> Self {
        let count = cell_count(plan);
        let mut holds_input = vec![false; count];
        for (buffer, slot, _) in inputs(plan) {
            holds_input[input_cell(plan, buffer, slot)] = true;
        }
        Self { plan, holds_input, writer: vec![None; count], readers: vec![Vec::new(); count] }
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
            } else if !world.after(id).any(|after| after == earlier) {
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
        for cell in step.target().into_iter().flat_map(|target| cells(self.plan, target)) {
            for reader in self.readers[cell].drain(..).filter(|reader| *reader != id) {
                need(reader, cell, "overwritten while it may still be read");
            }
            if let Some(writer) = self.writer[cell].replace(id) {
                need(writer, cell, "written twice without order");
            }
        }
        for range in unwritten {
            faults.push(world.fault(id, format!("{range:?} is read but never written before")));
        }
    }
}
