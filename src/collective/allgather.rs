//! Allgather: what every rank brings, by rank, everywhere.
#![forbid(unsafe_code)]

use super::Place;
use super::job::{Job, count_of};
use crate::datatype::Datatype;
use crate::engine::Region;
use crate::error::Error;
use crate::plan::Collective;

/// In place where the source is this rank's part of the target.
pub(super) fn check<'a>(
    source: Region,
    target: Region,
    datatype: Datatype,
    place: &Place,
) -> Result<Job<'a>, Error> {
    let (mine, all) = (source.bytes(), target.bytes());
    if mine.checked_mul(place.size) != Some(all) {
        let size = place.size;
        return Err(Error::InvalidArgument(format!(
            "the source has {mine} bytes, the target {all}: not {size} times as many"
        )));
    }
    let own = target.part(place.rank * mine, (place.rank + 1) * mine);
    if source != own && mine > 0 && source.overlaps(&target) {
        let text = "the source overlaps the target, and is not this rank's part of it";
        return Err(Error::InvalidArgument(text.into()));
    }
    count_of(mine, datatype)?;
    Ok(Job {
        collective: Collective::Allgather,
        datatype,
        op: None,
        root: None,
        count: count_of(all, datatype)?,
        input: source,
        output: target,
        in_place: source == own,
        many: &[],
    })
}
