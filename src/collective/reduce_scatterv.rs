//! Reduce-scatterv: a reduce-scatter of parts that differ in length, which all ranks know.
#![forbid(unsafe_code)]

use super::Place;
use super::elements::Elements;
use super::job::{Job, Lengths, Uneven};
use super::pieces::{Pieces, Starts};
use crate::engine::Region;
use crate::error::Error;
use crate::plan::Collective;

/// In place where the target is this rank's part of the source.
pub(super) fn check<'a>(
    source: Region,
    target: Region,
    counts: &'a [usize],
    elements: Elements,
    place: &Place,
) -> Result<Job<'a>, Error> {
    let pieces = Pieces::new(("source", source), (counts, None), &elements, place.size)?;
    let (total, held) = (pieces.total()?, elements.count_of(source.bytes(), "source")?);
    if total != held {
        let text = format!("the source has {held} elements, the counts say {total} in all");
        return Err(Error::InvalidArgument(text));
    }
    let in_place = pieces.check_own(("target", target), &elements, place.rank)?;
    let lengths = Lengths::All(counts);
    let uneven = Some(Uneven { lengths, input: pieces.starts(), output: Starts::First });
    let job = Job::of(Collective::ReduceScatterv, elements, total);
    Ok(Job { input: source, output: target, in_place, uneven, ..job })
}
