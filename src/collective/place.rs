//! Where a call is made, and what follows from it for buffers of one length on every rank.
#![forbid(unsafe_code)]

use super::elements::Elements;
use crate::engine::Region;
use crate::error::Error;

/// Where a call is made.
#[derive(Debug, Clone, Copy)]
pub struct Place {
    /// Members of the world.
    pub size: usize,
    /// The caller's rank in it.
    pub rank: usize,
    /// The most bytes of a slice.
    pub slice_bytes: usize,
    /// The most bytes of a message that is sent at once.
    pub eager_bytes: usize,
}

impl Place {
    pub(super) fn check_root(&self, root: usize) -> Result<(), Error> {
        self.check_rank(root, "root")
    }

    /// Checks that `rank`, which the caller knows as `name`, is one.
    pub(super) fn check_rank(&self, rank: usize, name: &str) -> Result<(), Error> {
        if rank < self.size {
            return Ok(());
        }
        let text = format!("{name} {rank} is no rank of a world of {}", self.size);
        Err(Error::InvalidArgument(text))
    }

    /// Checks a buffer with one part for each rank, and a buffer that holds one part. Whether the latter is this rank's
    /// part of the former, so that the call works in place; else the two must be disjoint.
    pub(super) fn check_parts(
        &self,
        (part_name, part): (&str, Region),
        (whole_name, whole): (&str, Region),
    ) -> Result<bool, Error> {
        let (bytes, all, size) = (part.bytes(), whole.bytes(), self.size);
        if bytes.checked_mul(size) != Some(all) {
            return Err(Error::InvalidArgument(format!(
                "the {part_name} has {bytes} bytes, the {whole_name} {all}: not {size} times as many, as there are ranks"
            )));
        }
        let own = whole.part(self.rank * bytes, (self.rank + 1) * bytes);
        if part != own && bytes > 0 && part.overlaps(&whole) {
            return Err(Error::InvalidArgument(format!(
                "the {part_name} overlaps the {whole_name}, and is not this rank's part of it"
            )));
        }
        Ok(part == own)
    }

    /// Elements of all ranks together, where each has `count`.
    pub(super) fn total(&self, count: usize, elements: &Elements) -> Result<usize, Error> {
        let total = count.checked_mul(self.size);
        total.filter(|total| total.checked_mul(elements.bytes).is_some()).ok_or_else(|| {
            let size = self.size;
            Error::InvalidArgument(format!(
                "{count} elements of each of {size} ranks exceed the address space"
            ))
        })
    }
}

/// Checks what a source and a target of one length must be. Whether they are the same.
pub(super) fn check_pair(source: Region, target: Region) -> Result<bool, Error> {
    if source.bytes() != target.bytes() {
        let (from, to) = (source.bytes(), target.bytes());
        let text = format!("the source has {from} bytes, the target {to}: give both one length");
        return Err(Error::InvalidArgument(text));
    }
    if source != target && source.bytes() > 0 && source.overlaps(&target) {
        let text = "source and target overlap, and are not the same";
        return Err(Error::InvalidArgument(text.into()));
    }
    Ok(source == target)
}
