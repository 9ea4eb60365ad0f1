//! Combines the elements of several buffers into one: what the engine calls whenever data meets data.
//!
//! One call combines k operands from left to right, block by block, and rounds once. `format` holds the loops between
//! bytes and accumulators, `number` how two accumulators become one, `kernels` the walk over blocks. The loops are
//! compiled once for each instruction set of `path`, chosen at run time; all of them give the same bits.
//!
//! The number rules: integers wrap; f16, bf16 and fp8 accumulate in f32; what is too large becomes infinity, and NaN in
//! f8e4m3, which has no infinity; a result that is NaN is the canonical quiet NaN of its type, without sign; min and
//! max give NaN if any operand is NaN, and hold -0 to be less than +0. Of bool, any byte but 0 is true and a result is
//! 0 or 1: sum and max are "or", prod and min "and", the bitwise operations are of truth values.

#[cfg(target_arch = "x86_64")]
mod avx2;
mod custom;
mod format;
mod fp8;
mod half_floats;
mod half_order;
mod kernels;
mod number;
mod path;
mod quotient;
mod scale;

#[cfg(test)]
mod reference;
#[cfg(test)]
mod tests;

pub use custom::{Custom, ELEMENT_BYTES_MAX};
pub use scale::{check_factor, scale};

use crate::datatype::{Datatype, Op};
use crate::memory::Region;
use kernels::Job;
use path::Path;

/// Combines `sources` from left to right, element by element, into `target`.
///
/// Addresses need no alignment. The target may be one of the sources, or disjoint from them; sources may be equal or
/// overlap. `divisor` is for the last step of an average, which is a sum until then: floats are divided in the
/// precision in which they accumulate, integers after the sum has wrapped, rounding towards zero. A single source
/// without a divisor is copied as it is, whatever NaN or truth value it holds. A `premul_sum` is a sum: [`scale()`] has
/// multiplied the elements before.
///
/// # Panics
///
/// If there is no source, if lengths differ or are not whole elements, if the type does not allow the operation, if it
/// is a caller's own ([`Custom::fold`] is for these), or if a divisor is 0 or comes with another operation than the
/// average: plans and checked arguments exclude all of these.
pub fn reduce(
    datatype: Datatype,
    op: Op,
    target: &Region,
    sources: &[Region],
    divisor: Option<u64>,
) {
    let job = Job { datatype, op, target: *target, sources, divisor, factor: None };
    reduce_on(Path::chosen(), &job);
}

/// The instructions that [`reduce`] uses on this machine: `avx2+f16c` or `portable`.
#[must_use]
pub fn path_name() -> &'static str {
    Path::chosen().name()
}

/// As [`reduce`], on a path that the caller chooses: tests compare them.
fn reduce_on(path: Path, job: &Job<'_>) {
    job.check();
    match (job.sources, job.divisor) {
        ([only], None) => job.target.copy_from(only),
        _ => path.run(job),
    }
}
