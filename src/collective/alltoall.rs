//! Alltoall: every rank's source, cut by rank, part i on rank i.
#![forbid(unsafe_code)]

use super::Place;
use super::elements::Elements;
use super::job::Job;
use super::place::check_pair;
use crate::engine::Region;
use crate::error::Error;
use crate::plan::Collective;

/// In place where the source is the target.
pub(super) fn check<'a>(
    source: Region,
    target: Region,
    elements: Elements,
    place: &Place,
) -> Result<Job<'a>, Error> {
    let in_place = check_pair(source, target)?;
    let held = elements.count_of(source.bytes(), "source")?;
    let size = place.size;
    if !held.is_multiple_of(size) {
        return Err(Error::InvalidArgument(format!(
            "the source has {held} elements: not as many for each of {size} ranks"
        )));
    }
    // A block for each pair of ranks.
    let total = held.checked_mul(size).ok_or_else(|| {
        let text = format!("{held} elements of each of {size} ranks exceed what can be counted");
        Error::InvalidArgument(text)
    })?;
    Ok(Job {
        told_count: held / size,
        size_count: held,
        input: source,
        output: target,
        in_place,
        ..Job::of(Collective::Alltoall, elements, total)
    })
}
