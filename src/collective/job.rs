//! A checked call: what runs on which buffers.
#![forbid(unsafe_code)]

use std::sync::Arc;

use super::{Place, Programs};
use crate::datatype::{Datatype, Op};
use crate::engine::{Class, Fingerprint, Members, Operation, Program, Region, Target};
use crate::error::Error;
use crate::plan::{self, Algorithm, Collective, Shape};

/// What runs on which buffers.
#[derive(Debug)]
pub struct Job<'a> {
    pub(super) collective: Collective,
    pub(super) datatype: Datatype,
    /// `None` where nothing is reduced.
    pub(super) op: Option<Op>,
    /// `None` where there is no root.
    pub(super) root: Option<u32>,
    /// Elements of each buffer; of an allgather, of the output.
    pub(super) count: usize,
    pub(super) input: Region,
    pub(super) output: Region,
    /// Whether input i is output i.
    pub(super) in_place: bool,
    /// The buffers of a multi-buffer call, which are input and output both; else none.
    pub(super) many: &'a [Target<'a>],
}

impl<'a> Job<'a> {
    /// The count that the caller gave.
    fn told_count(&self, size: usize) -> usize {
        if self.collective == Collective::Allgather { self.count / size } else { self.count }
    }

    /// Buffers per rank.
    fn buffers(&self) -> u16 {
        u16::try_from(self.many.len().max(1)).unwrap_or(u16::MAX)
    }

    /// Chooses an algorithm, unless the caller has, and finds its program.
    ///
    /// # Errors
    ///
    /// [`Error::InvalidArgument`] if the algorithm does not serve this collective.
    pub(super) fn plan(
        self,
        place: &Place,
        algorithm: Option<Algorithm>,
        programs: &Programs,
    ) -> Result<Planned<'a>, Error> {
        let size = u32::try_from(place.size).unwrap_or(u32::MAX);
        let bytes = self.count.saturating_mul(self.datatype.bytes());
        let algorithm =
            algorithm.unwrap_or_else(|| plan::choose(self.collective, size, bytes, self.buffers()));
        let shape = Shape {
            collective: self.collective,
            algorithm,
            size,
            rank: u32::try_from(place.rank).unwrap_or(u32::MAX),
            root: self.root.unwrap_or(0),
            in_place: self.in_place,
            buffers: self.buffers(),
        };
        let program = programs.get(&shape)?;
        // Of the algorithm, not of this rank's plan: all ranks must cut alike.
        let has_scratch = shape.uses_scratch();
        let slice = (place.slice_bytes / self.datatype.bytes()).max(1);
        let slice_count = if has_scratch { slice } else { self.count.max(1) };
        let fingerprint = Fingerprint {
            collective: self.collective as u8,
            datatype: self.datatype as u8,
            op: self.op.map_or(0, |op| op as u8),
            algorithm: algorithm as u8,
            root: shape.root,
            count: self.told_count(place.size) as u64,
            hash: hash(&[
                u64::from(shape.buffers),
                place.slice_bytes as u64,
                place.eager_bytes as u64,
                u64::from(plan::REVISION),
            ]),
        };
        Ok(Planned { job: self, program, slice_count, fingerprint })
    }
}

/// A job with its program.
#[derive(Debug)]
pub struct Planned<'a> {
    job: Job<'a>,
    program: Arc<Program>,
    slice_count: usize,
    fingerprint: Fingerprint,
}

impl Planned<'_> {
    /// Makes the operation, from a used one if there is one. Allocates only if there is none.
    #[must_use]
    pub fn fill(
        self,
        spare: Option<Box<Operation>>,
        world: u64,
        members: &Arc<Members>,
        timeout_ns: Option<u64>,
    ) -> Box<Operation> {
        let Self { job, program, slice_count, fingerprint } = self;
        let mut operation =
            spare.unwrap_or_else(|| Operation::blank(Arc::clone(&program), Arc::clone(members)));
        operation.class = Class::Ordered;
        operation.world = world;
        operation.program = program;
        operation.members = Arc::clone(members);
        operation.datatype = job.datatype;
        operation.op = job.op.unwrap_or(Op::Bor);
        operation.divisor = members.size() as u64 * u64::from(job.buffers());
        operation.count = job.count;
        operation.slice_count = slice_count;
        operation.fingerprint = fingerprint;
        operation.timeout_ns = timeout_ns;
        if job.collective == Collective::Barrier {
            operation.lend_tokens();
        } else if job.many.is_empty() {
            operation.inputs.push(job.input);
            operation.outputs.push(job.output);
        } else {
            operation.inputs.extend(job.many.iter().map(Target::region));
            operation.outputs.extend(job.many.iter().map(Target::region));
        }
        operation
    }
}

/// FNV-1a over numbers.
pub(crate) fn hash(numbers: &[u64]) -> u64 {
    let bytes = numbers.iter().flat_map(|number| number.to_le_bytes());
    bytes.fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    })
}

/// The elements in a buffer.
pub(super) fn count_of(bytes: usize, datatype: Datatype) -> Result<usize, Error> {
    if bytes.is_multiple_of(datatype.bytes()) {
        Ok(bytes / datatype.bytes())
    } else {
        Err(Error::InvalidArgument(format!("{bytes} bytes are no whole number of {datatype}")))
    }
}
