//! Scatter: the root's source, cut by rank, a part on each rank.
#![forbid(unsafe_code)]

use super::Place;
use super::elements::Elements;
use super::job::Job;
use crate::engine::Region;
use crate::error::Error;
use crate::plan::Collective;

/// In place where the root's target is its part of the source. Elsewhere the source may be anything, and is not touched.
pub(super) fn check<'a>(
    source: Region,
    target: Region,
    elements: Elements,
    root: usize,
    place: &Place,
) -> Result<Job<'a>, Error> {
    place.check_root(root)?;
    let count = elements.count_of(target.bytes(), "target")?;
    let total = place.total(count, &elements)?;
    let job = Job {
        root: Some(root),
        told_count: count,
        output: target,
        ..Job::of(Collective::Scatter, elements, total)
    };
    if place.rank != root {
        return Ok(job);
    }
    let in_place = place.check_parts(("target", target), ("source", source))?;
    Ok(Job { input: source, in_place, ..job })
}
