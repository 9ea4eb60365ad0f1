//! An operation before it is submitted: all of it but its buffers and lists.
#![forbid(unsafe_code)]

use std::mem;
use std::sync::Arc;

use super::elements::Elements;
use super::scaling::{Products, Scaling};
use crate::datatype::Op;
use crate::engine::{Custom, Fingerprint, Matching, Members, Operation, Program, Region, Scratch};
use crate::plan::Collective;

/// Where and for how long an operation runs.
#[derive(Debug, Clone)]
pub struct Submission {
    /// The world's id.
    pub world: u64,
    /// The world's members.
    pub members: Arc<Members>,
    /// When it must have ended; `None`: never.
    pub timeout_ns: Option<u64>,
}

/// All that an operation is but its buffers and lists.
#[derive(Debug, Clone)]
pub(super) struct Draft {
    pub(super) matching: Matching,
    pub(super) program: Arc<Program>,
    pub(super) elements: Elements,
    pub(super) custom: Option<Arc<Custom>>,
    /// Buffers per rank.
    pub(super) buffers: u16,
    pub(super) count: usize,
    pub(super) slice_count: usize,
    pub(super) fingerprint: Fingerprint,
    pub(super) scaling: Option<Scaling>,
}

impl Draft {
    /// Makes the operation without lists, from a used one if there is one. `own` is the memory that it owns while it
    /// runs, and receives what the used one has left.
    pub(super) fn fill(
        &self,
        spare: Option<Box<Operation>>,
        submission: &Submission,
        (sources, targets): (impl Iterator<Item = Region>, impl Iterator<Item = Region>),
        own: &mut Scratch,
    ) -> Box<Operation> {
        let Submission { world, members, timeout_ns } = submission;
        let blank = || Operation::blank(Arc::clone(&self.program), Arc::clone(members));
        let mut operation = spare.unwrap_or_else(blank);
        operation.matching = self.matching;
        operation.world = *world;
        operation.program = Arc::clone(&self.program);
        operation.members = Arc::clone(members);
        operation.datatype = self.elements.datatype;
        operation.op = self.elements.op.unwrap_or(Op::Bor);
        operation.element = self.elements.bytes;
        operation.custom = self.custom.clone();
        operation.divisor = members.size() as u64 * u64::from(self.buffers);
        operation.count = self.count;
        operation.slice_count = self.slice_count;
        operation.fingerprint = self.fingerprint;
        operation.timeout_ns = *timeout_ns;
        mem::swap(&mut operation.scaled, own);
        if self.program.plan().shape.collective == Collective::Barrier {
            operation.lend_tokens();
            return operation;
        }
        let Operation { inputs, outputs, scaled, .. } = &mut *operation;
        outputs.extend(targets);
        match self.scaling.map(|scaling| scaling.products) {
            None => inputs.extend(sources),
            Some(Products::InTargets) => inputs.extend_from_slice(outputs),
            Some(Products::InOwn) => inputs.extend(sources.map(|it| scaled.lend(it.bytes()))),
        }
        operation
    }
}
