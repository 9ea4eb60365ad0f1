//! Gather: what every rank brings, by rank, on the root.
#![forbid(unsafe_code)]

use super::Place;
use super::elements::Elements;
use super::job::Job;
use crate::engine::Region;
use crate::error::Error;
use crate::plan::Collective;

/// In place where the root's source is its part of the target. Elsewhere the target may be anything, and is not touched.
pub(super) fn check<'a>(
    source: Region,
    target: Region,
    elements: Elements,
    root: usize,
    place: &Place,
) -> Result<Job<'a>, Error> {
    place.check_root(root)?;
    let count = elements.count_of(source.bytes(), "source")?;
    let total = place.total(count, &elements)?;
    let job = Job {
        root: Some(root),
        told_count: count,
        input: source,
        ..Job::of(Collective::Gather, elements, total)
    };
    if place.rank != root {
        return Ok(job);
    }
    let in_place = place.check_parts(("source", source), ("target", target))?;
    Ok(Job { output: target, in_place, ..job })
}
