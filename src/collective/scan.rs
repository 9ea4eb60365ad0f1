//! Scan and exscan: what the ranks up to this one bring, reduced in rank order.
#![forbid(unsafe_code)]

use super::elements::Elements;
use super::job::Job;
use super::place::check_pair;
use crate::datatype::Op;
use crate::engine::Region;
use crate::error::Error;
use crate::plan::Collective;

/// Either of the two, as `collective` says.
pub(super) fn check<'a>(
    collective: Collective,
    source: Region,
    target: Region,
    elements: Elements,
) -> Result<Job<'a>, Error> {
    if elements.op == Some(Op::Avg) {
        let text = format!(
            "{collective} has no avg, as each rank would divide by another number: use sum"
        );
        return Err(Error::InvalidArgument(text));
    }
    let in_place = check_pair(source, target)?;
    let count = elements.count_of(source.bytes(), "source")?;
    let (input, output) = (source, target);
    Ok(Job { input, output, in_place, ..Job::of(collective, elements, count) })
}
