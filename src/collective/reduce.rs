//! Reduce: the result on the root only.
#![forbid(unsafe_code)]

use super::Place;
use super::elements::Elements;
use super::job::Job;
use super::place::check_pair;
use crate::engine::Region;
use crate::error::Error;
use crate::plan::Collective;

/// The target counts on the root only: elsewhere it may be anything, and is not touched.
pub(super) fn check<'a>(
    source: Region,
    target: Region,
    elements: Elements,
    root: usize,
    place: &Place,
) -> Result<Job<'a>, Error> {
    place.check_root(root)?;
    let is_root = place.rank == root;
    let in_place = is_root && check_pair(source, target)?;
    let count = elements.count_of(source.bytes(), "source")?;
    let (root, input) = (Some(root), source);
    let output = if is_root { target } else { Region::EMPTY };
    Ok(Job { root, input, output, in_place, ..Job::of(Collective::Reduce, elements, count) })
}
