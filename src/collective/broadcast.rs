//! Broadcast: the root's buffer everywhere.
#![forbid(unsafe_code)]

use super::Place;
use super::elements::Elements;
use super::job::Job;
use crate::engine::Region;
use crate::error::Error;
use crate::plan::Collective;

pub(super) fn check<'a>(
    buffer: Region,
    elements: Elements,
    root: usize,
    place: &Place,
) -> Result<Job<'a>, Error> {
    place.check_root(root)?;
    let count = elements.count_of(buffer.bytes(), "buffer")?;
    let (root, input, output, in_place) = (Some(root), buffer, buffer, true);
    Ok(Job { root, input, output, in_place, ..Job::of(Collective::Broadcast, elements, count) })
}
