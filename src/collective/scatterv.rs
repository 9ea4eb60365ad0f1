//! Scatterv: a scatter of parts that differ in length, which only the root knows.
#![forbid(unsafe_code)]

use super::Place;
use super::elements::Elements;
use super::job::{Job, Lengths, Uneven};
use super::pieces::{Pieces, Starts};
use crate::engine::Region;
use crate::error::Error;
use crate::plan::Collective;

/// In place where the root's target is its part of the source. Elsewhere all but the target may be anything.
pub(super) fn check<'a>(
    source: Region,
    target: Region,
    (counts, displacements): (&'a [usize], Option<&'a [usize]>),
    (elements, root): (Elements, usize),
    place: &Place,
) -> Result<Job<'a>, Error> {
    place.check_root(root)?;
    let count = elements.count_of(target.bytes(), "target")?;
    let own = Uneven {
        lengths: Lengths::Own { size: place.size, rank: place.rank, count },
        input: Starts::Nowhere,
        output: Starts::First,
    };
    let job = Job {
        root: Some(root),
        told_count: 0,
        size_count: 0,
        output: target,
        uneven: Some(own),
        ..Job::of(Collective::Scatterv, elements, count)
    };
    if place.rank != root {
        return Ok(job);
    }
    let pieces = Pieces::new(("source", source), (counts, displacements), &elements, place.size)?;
    let in_place = pieces.check_own(("target", target), &elements, place.rank)?;
    let all = Uneven { lengths: Lengths::All(counts), input: pieces.starts(), ..own };
    Ok(Job { count: pieces.total()?, input: source, in_place, uneven: Some(all), ..job })
}
