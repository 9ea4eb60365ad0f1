//! Reduce: the result on the root only.
#![forbid(unsafe_code)]

use super::Place;
use super::allreduce::{allows, pair};
use super::job::{Job, count_of};
use crate::datatype::{Datatype, Op};
use crate::engine::Region;
use crate::error::Error;
use crate::plan::Collective;

/// The target counts on the root only: elsewhere it may be anything, and is not touched.
pub(super) fn check<'a>(
    source: Region,
    target: Region,
    (datatype, op): (Datatype, Op),
    root: usize,
    place: &Place,
) -> Result<Job<'a>, Error> {
    allows(op, datatype)?;
    place.check_root(root)?;
    let is_root = place.rank == root;
    if is_root {
        pair(source, target)?;
    }
    let count = count_of(source.bytes(), datatype)?;
    Ok(Job {
        collective: Collective::Reduce,
        datatype,
        op: Some(op),
        root: u32::try_from(root).ok(),
        count,
        input: source,
        output: if is_root { target } else { Region::EMPTY },
        in_place: is_root && source == target,
        many: &[],
    })
}
