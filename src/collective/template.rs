//! An operation that is submitted again and again: its arguments are checked once, and its program is found once.
#![forbid(unsafe_code)]

use super::draft::{Draft, Submission};
use super::job::Planned;
use super::scaling::{Scaling, SpareProducts};
use crate::engine::{Operation, Region, Scratch};

/// An operation to be submitted any number of times.
#[derive(Debug)]
pub struct Template {
    draft: Draft,
    submission: Submission,
    sources: Vec<Region>,
    targets: Vec<Region>,
    lengths: Vec<usize>,
    input_starts: Vec<usize>,
    output_starts: Vec<usize>,
}

impl Template {
    /// Of a checked call, whose buffers stay lent for as long as the template is used.
    #[must_use]
    pub fn new(planned: &Planned<'_>, submission: Submission) -> Self {
        let (mut lengths, mut input_starts, mut output_starts) = (vec![], vec![], vec![]);
        planned.job.fill_lists(&mut lengths, &mut input_starts, &mut output_starts);
        Self {
            draft: planned.draft.clone(),
            submission,
            sources: planned.job.sources().collect(),
            targets: planned.job.targets().collect(),
            lengths,
            input_starts,
            output_starts,
        }
    }

    /// Multiplies what is to be multiplied before [`Template::fill`], which is given what this returns.
    #[must_use]
    pub fn scale(&self, spares: &SpareProducts) -> Scratch {
        let (sources, targets) = (self.sources.iter().copied(), self.targets.iter().copied());
        let run = |scaling: Scaling| scaling.run(sources, targets, spares);
        self.draft.scaling.map(run).unwrap_or_default()
    }

    /// Makes the operation, from a used one if there is one, whose lists grow only where they are too short.
    #[must_use]
    pub fn fill(&self, spare: Option<Box<Operation>>, own: &mut Scratch) -> Box<Operation> {
        let buffers = (self.sources.iter().copied(), self.targets.iter().copied());
        let mut operation = self.draft.fill(spare, &self.submission, buffers, own);
        operation.lengths.extend_from_slice(&self.lengths);
        operation.input_starts.extend_from_slice(&self.input_starts);
        operation.output_starts.extend_from_slice(&self.output_starts);
        operation
    }
}
