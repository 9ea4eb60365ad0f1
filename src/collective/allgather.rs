//! Allgather: what every rank brings, by rank, everywhere.
#![forbid(unsafe_code)]

use super::Place;
use super::elements::Elements;
use super::job::Job;
use crate::engine::Region;
use crate::error::Error;
use crate::plan::Collective;

/// In place where the source is this rank's part of the target.
pub(super) fn check<'a>(
    source: Region,
    target: Region,
    elements: Elements,
    place: &Place,
) -> Result<Job<'a>, Error> {
    let in_place = place.check_parts(("source", source), ("target", target))?;
    let count = elements.count_of(source.bytes(), "source")?;
    let total = place.total(count, &elements)?;
    let (told_count, input, output) = (count, source, target);
    Ok(Job {
        told_count,
        input,
        output,
        in_place,
        ..Job::of(Collective::Allgather, elements, total)
    })
}
