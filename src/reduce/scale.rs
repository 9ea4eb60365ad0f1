//! Multiplies every element by a factor: what a rank's input goes through before a `premul_sum`.

use crate::datatype::{Datatype, Op};
use crate::error::Error;
use crate::memory::Region;

use super::kernels::Job;
use super::path::Path;

/// Multiplies the elements of `source` by `factor` into `target`, which is the source or disjoint from it.
///
/// Floats are multiplied in the precision in which they accumulate, by the factor rounded to it, and round once.
/// Integers are multiplied by a whole number, and wrap.
///
/// # Panics
///
/// If lengths differ or are not whole elements, or if [`check_factor`] refuses the factor.
pub fn scale(datatype: Datatype, factor: f64, source: &Region, target: &Region) {
    scale_on(Path::chosen(), datatype, factor, source, target);
}

/// Refuses a factor that elements of this type cannot be multiplied by: integers take whole numbers that 64 bits hold,
/// with or without sign as the type has one; floats take any; truth values none.
///
/// # Errors
///
/// [`Error::InvalidArgument`].
pub fn check_factor(datatype: Datatype, factor: f64) -> Result<(), Error> {
    const TWO_TO_63: f64 = 9_223_372_036_854_775_808.0;
    let (range, text) = match datatype {
        _ if datatype.is_float() => return Ok(()),
        Datatype::Bool => {
            let text = "bool elements cannot be multiplied by a factor".to_owned();
            return Err(Error::InvalidArgument(text));
        }
        Datatype::I8 | Datatype::I16 | Datatype::I32 | Datatype::I64 => {
            (-TWO_TO_63..TWO_TO_63, "from -2^63 to 2^63 - 1")
        }
        _ => (0.0..2.0 * TWO_TO_63, "from 0 to 2^64 - 1"),
    };
    if range.contains(&factor) && factor.trunc() == factor {
        return Ok(());
    }
    let text = format!("factor {factor}: {datatype} elements need a whole number {text}");
    Err(Error::InvalidArgument(text))
}

/// As [`scale`], on a path that the caller chooses: tests compare them.
pub(super) fn scale_on(
    path: Path,
    datatype: Datatype,
    factor: f64,
    source: &Region,
    target: &Region,
) {
    let refused = check_factor(datatype, factor).err();
    assert!(refused.is_none(), "{refused:?}");
    let (sources, op) = (&[*source], Op::PremulSum);
    let job = Job { datatype, op, target: *target, sources, divisor: None, factor: Some(factor) };
    job.check();
    path.run(&job);
}
