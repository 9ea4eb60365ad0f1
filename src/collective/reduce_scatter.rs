//! Reduce-scatter: what every rank brings, reduced, cut by rank, a part on each rank.
#![forbid(unsafe_code)]

use super::Place;
use super::elements::Elements;
use super::job::Job;
use crate::engine::Region;
use crate::error::Error;
use crate::plan::Collective;

/// In place where the target is this rank's part of the source.
pub(super) fn check<'a>(
    source: Region,
    target: Region,
    elements: Elements,
    place: &Place,
) -> Result<Job<'a>, Error> {
    let in_place = place.check_parts(("target", target), ("source", source))?;
    let count = elements.count_of(target.bytes(), "target")?;
    let total = place.total(count, &elements)?;
    let (told_count, input, output) = (count, source, target);
    let job = Job::of(Collective::ReduceScatter, elements, total);
    Ok(Job { told_count, input, output, in_place, ..job })
}
