//! Messages: from one rank to another, matched by ranks and tag.
//!
//! Lengths are compared where a message arrives, not by the fingerprint: who receives from anybody may not know it yet.
#![forbid(unsafe_code)]

use super::Place;
use super::elements::Elements;
use super::job::Job;
use crate::engine::{Matching, Region};
use crate::error::Error;
use crate::plan::Collective;

pub(super) fn send<'a>(
    source: Region,
    elements: Elements,
    (to, tag): (usize, u64),
    place: &Place,
) -> Result<Job<'a>, Error> {
    place.check_rank(to, "receiver")?;
    let matching = Matching::Send { to: u32::try_from(to).unwrap_or(u32::MAX), tag };
    Ok(Job { input: source, ..job(source, elements, "source", matching)? })
}

pub(super) fn receive<'a>(
    target: Region,
    elements: Elements,
    (from, tag): (Option<usize>, u64),
    place: &Place,
) -> Result<Job<'a>, Error> {
    from.map_or(Ok(()), |from| place.check_rank(from, "sender"))?;
    let from = from.map(|from| u32::try_from(from).unwrap_or(u32::MAX));
    let matching = Matching::Receive { from, tag };
    Ok(Job { output: target, ..job(target, elements, "target", matching)? })
}

fn job<'a>(
    buffer: Region,
    elements: Elements,
    name: &'static str,
    matching: Matching,
) -> Result<Job<'a>, Error> {
    let count = elements.count_of(buffer.bytes(), name)?;
    let job = Job::of(Collective::Message, elements, count);
    Ok(Job { told_count: 0, size_count: 0, matching: Some(matching), ..job })
}
