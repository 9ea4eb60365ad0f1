//! Allgatherv: an allgather of parts that differ in length, which all ranks know.
#![forbid(unsafe_code)]

use super::Place;
use super::elements::Elements;
use super::job::{Job, Lengths, Uneven};
use super::pieces::{Pieces, Starts};
use crate::engine::Region;
use crate::error::Error;
use crate::plan::Collective;

/// In place where the source is this rank's part of the target.
pub(super) fn check<'a>(
    source: Region,
    target: Region,
    (counts, displacements): (&'a [usize], Option<&'a [usize]>),
    elements: Elements,
    place: &Place,
) -> Result<Job<'a>, Error> {
    let pieces = Pieces::new(("target", target), (counts, displacements), &elements, place.size)?;
    pieces.are_disjoint()?;
    let in_place = pieces.check_own(("source", source), &elements, place.rank)?;
    let lengths = Lengths::All(counts);
    let uneven = Some(Uneven { lengths, input: Starts::First, output: pieces.starts() });
    let job = Job::of(Collective::Allgatherv, elements, pieces.total()?);
    Ok(Job { input: source, output: target, in_place, uneven, ..job })
}
