//! Allreduce, of one buffer or of several per rank.
#![forbid(unsafe_code)]

use super::job::{Job, count_of};
use crate::datatype::{Datatype, Op};
use crate::engine::{Region, Target};
use crate::error::Error;
use crate::plan::Collective;

/// Buffers per rank that one call may have.
const BUFFERS_MAX: usize = 1024;

/// Checks what a source and a target of one length must be.
pub(super) fn pair(source: Region, target: Region) -> Result<(), Error> {
    if source.bytes() != target.bytes() {
        let (from, to) = (source.bytes(), target.bytes());
        return Err(Error::InvalidArgument(format!(
            "the source has {from} bytes, the target {to}"
        )));
    }
    if source != target && source.bytes() > 0 && source.overlaps(&target) {
        let text = "source and target overlap, and are not the same";
        return Err(Error::InvalidArgument(text.into()));
    }
    Ok(())
}

pub(super) fn single<'a>(
    source: Region,
    target: Region,
    (datatype, op): (Datatype, Op),
) -> Result<Job<'a>, Error> {
    allows(op, datatype)?;
    pair(source, target)?;
    let count = count_of(target.bytes(), datatype)?;
    let (collective, op) = (Collective::Allreduce, Some(op));
    let (input, output) = (source, target);
    let in_place = input == output;
    Ok(Job { collective, datatype, op, root: None, count, input, output, in_place, many: &[] })
}

pub(super) fn multi<'a>(
    buffers: &'a [Target<'a>],
    (datatype, op): (Datatype, Op),
) -> Result<Job<'a>, Error> {
    allows(op, datatype)?;
    let Some(first) = buffers.first().map(Target::region) else {
        return Err(Error::InvalidArgument("allreduce_multi needs at least one buffer".into()));
    };
    if buffers.len() > BUFFERS_MAX {
        let text = format!("{} buffers; at most {BUFFERS_MAX} are possible", buffers.len());
        return Err(Error::InvalidArgument(text));
    }
    for (at, buffer) in buffers.iter().enumerate() {
        if buffer.bytes() != first.bytes() {
            let (mine, its) = (buffer.bytes(), first.bytes());
            let text = format!("buffer {at} has {mine} bytes, buffer 0 has {its}");
            return Err(Error::InvalidArgument(text));
        }
        let mut earlier = buffers[..at].iter().map(Target::region);
        if buffer.bytes() > 0 && earlier.any(|other| other.overlaps(&buffer.region())) {
            return Err(Error::InvalidArgument(format!("buffer {at} overlaps an earlier one")));
        }
    }
    let count = count_of(first.bytes(), datatype)?;
    let (collective, op) = (Collective::Allreduce, Some(op));
    Ok(Job {
        collective,
        datatype,
        op,
        root: None,
        count,
        input: first,
        output: first,
        in_place: true,
        many: buffers,
    })
}

pub(super) fn allows(op: Op, datatype: Datatype) -> Result<(), Error> {
    if op.allows(datatype) {
        Ok(())
    } else {
        Err(Error::InvalidArgument(format!("{op} is for integers, the elements are {datatype}")))
    }
}
