//! Alltoallv: an alltoall of parts that differ in length; each rank knows those that it sends and those that it gets.
#![forbid(unsafe_code)]

use super::Place;
use super::elements::Elements;
use super::job::{Job, Lengths, Uneven};
use super::pieces::Pieces;
use crate::engine::Region;
use crate::error::Error;
use crate::plan::Collective;

/// A buffer, with the counts and the displacements of its parts.
pub(super) type Side<'a> = (Region, &'a [usize], Option<&'a [usize]>);

/// In place where both sides are the same.
pub(super) fn check<'a>(
    (source, send_counts, send_displacements): Side<'a>,
    (target, receive_counts, receive_displacements): Side<'a>,
    elements: Elements,
    place: &Place,
) -> Result<Job<'a>, Error> {
    let (sent, received) =
        ((send_counts, send_displacements), (receive_counts, receive_displacements));
    let from = Pieces::new(("source", source), sent, &elements, place.size)?;
    let to = Pieces::new(("target", target), received, &elements, place.size)?;
    to.are_disjoint()?;
    let in_place = source == target && source.bytes() > 0;
    if in_place && sent != received {
        let text =
            "in place, what is sent and what is received must have equal counts and displacements";
        return Err(Error::InvalidArgument(text.into()));
    }
    if !in_place && from.overlap_any(&to) {
        let text = "parts of the source overlap parts of the target, and the two are not the same";
        return Err(Error::InvalidArgument(text.into()));
    }
    let total = from
        .total()?
        .checked_add(to.total()?)
        .ok_or_else(|| Error::InvalidArgument("the counts exceed the address space".into()))?;
    let lengths = Lengths::Exchange(send_counts, receive_counts);
    let uneven = Some(Uneven { lengths, input: from.starts(), output: to.starts() });
    Ok(Job {
        told_count: 0,
        size_count: 0,
        input: source,
        output: target,
        in_place,
        uneven,
        ..Job::of(Collective::Alltoallv, elements, total)
    })
}
