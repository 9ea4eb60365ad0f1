//! Broadcast: the root's buffer everywhere.
#![forbid(unsafe_code)]

use super::Place;
use super::job::{Job, count_of};
use crate::datatype::Datatype;
use crate::engine::Region;
use crate::error::Error;
use crate::plan::Collective;

pub(super) fn check<'a>(
    buffer: Region,
    datatype: Datatype,
    root: usize,
    place: &Place,
) -> Result<Job<'a>, Error> {
    place.check_root(root)?;
    let count = count_of(buffer.bytes(), datatype)?;
    let root = u32::try_from(root).ok();
    let (collective, input, output) = (Collective::Broadcast, buffer, buffer);
    let in_place = true;
    Ok(Job { collective, datatype, op: None, root, count, input, output, in_place, many: &[] })
}
