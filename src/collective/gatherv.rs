//! Gatherv: a gather of parts that differ in length, which only the root knows.
#![forbid(unsafe_code)]

use super::Place;
use super::elements::Elements;
use super::job::{Job, Lengths, Uneven};
use super::pieces::{Pieces, Starts};
use crate::engine::Region;
use crate::error::Error;
use crate::plan::Collective;

/// In place where the root's source is its part of the target. Elsewhere all but the source may be anything.
pub(super) fn check<'a>(
    source: Region,
    target: Region,
    (counts, displacements): (&'a [usize], Option<&'a [usize]>),
    (elements, root): (Elements, usize),
    place: &Place,
) -> Result<Job<'a>, Error> {
    place.check_root(root)?;
    let count = elements.count_of(source.bytes(), "source")?;
    let own = Uneven {
        lengths: Lengths::Own { size: place.size, rank: place.rank, count },
        input: Starts::First,
        output: Starts::Nowhere,
    };
    let job = Job {
        root: Some(root),
        told_count: 0,
        size_count: 0,
        input: source,
        uneven: Some(own),
        ..Job::of(Collective::Gatherv, elements, count)
    };
    if place.rank != root {
        return Ok(job);
    }
    let pieces = Pieces::new(("target", target), (counts, displacements), &elements, place.size)?;
    pieces.are_disjoint()?;
    let in_place = pieces.check_own(("source", source), &elements, place.rank)?;
    let all = Uneven { lengths: Lengths::All(counts), output: pieces.starts(), ..own };
    Ok(Job { count: pieces.total()?, output: target, in_place, uneven: Some(all), ..job })
}
