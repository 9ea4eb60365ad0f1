//! Allreduce, of one buffer or of several per rank.
#![forbid(unsafe_code)]

use super::elements::Elements;
use super::job::Job;
use super::place::check_pair;
use crate::engine::{Region, Target};
use crate::error::Error;
use crate::plan::Collective;

/// Buffers per rank that one call may have.
const BUFFERS_MAX: usize = 1024;

pub(super) fn single<'a>(
    source: Region,
    target: Region,
    elements: Elements,
) -> Result<Job<'a>, Error> {
    let in_place = check_pair(source, target)?;
    let count = elements.count_of(target.bytes(), "target")?;
    let (input, output) = (source, target);
    Ok(Job { input, output, in_place, ..Job::of(Collective::Allreduce, elements, count) })
}

pub(super) fn multi<'a>(buffers: &'a [Target<'a>], elements: Elements) -> Result<Job<'a>, Error> {
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
    let count = elements.count_of(first.bytes(), "buffer")?;
    Ok(Job { in_place: true, many: buffers, ..Job::of(Collective::Allreduce, elements, count) })
}
