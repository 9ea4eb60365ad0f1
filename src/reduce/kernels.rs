//! The loops, and what they work on.
//!
//! A job is done in blocks that stay in the first-level cache: the operands of a block are folded into accumulators on
//! the stack, which then go to the target. So the target may be one of the sources, k operands cost one pass over
//! memory, and no slice of the target exists while one of a source does.
//!
//! The innermost loops are those of the [`Format`], which is compiled for an instruction set.

use crate::datatype::{Datatype, Op};
use crate::memory::Region;

use super::format::Format;
use super::number::{Bits, Number};

/// One reduction, as the caller asked for it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Job<'a> {
    /// The type of an element.
    pub(super) datatype: Datatype,
    /// What combines two elements.
    pub(super) op: Op,
    /// Where the result goes.
    pub(super) target: Region,
    /// The operands, from left to right; at least one.
    pub(super) sources: &'a [Region],
    /// What the sum is divided by, never 0.
    pub(super) divisor: Option<u64>,
    /// What the only operand is multiplied by.
    pub(super) factor: Option<f64>,
}

impl Job<'_> {
    /// Asserts what [`reduce`](super::reduce) says that it panics for.
    pub(super) fn check(&self) {
        let bytes = self.target.bytes();
        assert!(!self.sources.is_empty(), "a reduction has a source");
        assert!(self.sources.iter().all(|source| source.bytes() == bytes), "lengths differ");
        assert_eq!(bytes % self.datatype.bytes(), 0, "{bytes} bytes are not whole elements");
        assert!(self.op.allows(self.datatype), "{} of {}", self.op, self.datatype);
        assert_ne!(self.op, Op::Custom, "a caller's own function is no kernel");
        assert_ne!(self.divisor, Some(0), "division by zero");
        assert!(self.divisor.is_none() || self.op == Op::Avg, "a divisor with {}", self.op);
    }
}

/// Accumulators, aligned for the widest vectors.
#[repr(align(64))]
struct Block<N: Number>(N::Block);

/// Runs a job over integers.
pub(super) fn integers<F: Format<Wide: Bits>>(format: F, job: &Job<'_>) {
    match job.op {
        Op::Band => fold(format, job, Bits::and),
        Op::Bor => fold(format, job, Bits::or),
        Op::Bxor => fold(format, job, Bits::xor),
        Op::Min | Op::Max => order(format, job),
        _ => numbers(format, job),
    }
}

/// Runs a job over truth values, which are 0 or 1.
pub(super) fn truths<F: Format<Wide: Bits>>(format: F, job: &Job<'_>) {
    match job.op {
        Op::Sum | Op::Max | Op::Bor => fold(format, job, Bits::or),
        Op::Prod | Op::Min | Op::Band => fold(format, job, Bits::and),
        Op::Bxor => fold(format, job, Bits::xor),
        op => unreachable!("{op} of truth values"),
    }
}

/// Runs a job over floats.
pub(super) fn floats<F: Format>(format: F, job: &Job<'_>) {
    match job.op {
        Op::Min | Op::Max => order(format, job),
        _ => numbers(format, job),
    }
}

/// Runs a job that adds or multiplies.
pub(super) fn numbers<F: Format>(format: F, job: &Job<'_>) {
    match job.op {
        Op::Sum | Op::Avg | Op::PremulSum => fold(format, job, Number::sum),
        Op::Prod => fold(format, job, Number::product),
        op => unreachable!("{op} is no arithmetic"),
    }
}

/// Runs a job that compares.
pub(super) fn order<F: Format>(format: F, job: &Job<'_>) {
    match job.op {
        Op::Min => fold(format, job, Number::least),
        Op::Max => fold(format, job, Number::greatest),
        op => unreachable!("{op} does not compare"),
    }
}

/// Folds all blocks of the job.
fn fold<F: Format>(format: F, job: &Job<'_>, combine: impl Fn(F::Wide, F::Wide) -> F::Wide + Copy) {
    let mut block = Block::<F::Wide>(F::Wide::BLOCK);
    let block = block.0.as_mut();
    let divisor = job.divisor.map(F::Wide::divisor);
    let factor = job.factor.map(F::Wide::factor);
    let bytes = job.target.bytes();
    for low in (0..bytes).step_by(block.len() * F::BYTES) {
        let high = bytes.min(low + block.len() * F::BYTES);
        let wide = &mut block[..(high - low) / F::BYTES];
        let part = |region: &Region| region.part(low, high);
        let rest = match job.sources {
            [left, right, rest @ ..] => {
                part(left).with(|left| {
                    part(right).with(|right| format.load_pair(left, right, wide, combine));
                });
                rest
            }
            [only] => {
                part(only).with(|bytes| match factor {
                    Some(factor) => format.load_product(bytes, wide, factor),
                    None => format.load(bytes, wide),
                });
                &[]
            }
            [] => &[][..],
        };
        for source in rest {
            part(source).with(|bytes| format.fold(bytes, wide, combine));
        }
        if let Some(divisor) = divisor {
            format.divide(wide, divisor);
        }
        part(&job.target).with_mut(|bytes| format.store(wide, bytes));
    }
}
