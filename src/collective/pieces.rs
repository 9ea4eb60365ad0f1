//! Parts of a buffer that differ in length: counts and displacements, as a caller lists them.
//!
//! Nothing here allocates, unless displacements are in disorder.
#![forbid(unsafe_code)]

use super::elements::Elements;
use crate::engine::Region;
use crate::error::Error;

/// Where parts begin, in elements, as an operation takes it.
#[derive(Debug, Clone, Copy)]
pub(super) enum Starts<'a> {
    /// Nowhere: the buffer is not used.
    Nowhere,
    /// One part, at the beginning.
    First,
    /// One after the other, of these lengths.
    Packed(&'a [usize]),
    /// Here, with these lengths: an empty one may be said to lie anywhere.
    Listed(&'a [usize], &'a [usize]),
}

impl Starts<'_> {
    /// Appends them to `starts`.
    pub(super) fn fill(self, starts: &mut Vec<usize>) {
        match self {
            Self::Nowhere => {}
            Self::First => starts.push(0),
            Self::Listed(listed, counts) => {
                let places = listed.iter().zip(counts);
                starts.extend(places.map(|(start, count)| if *count == 0 { 0 } else { *start }));
            }
            // The sum of all has been checked.
            Self::Packed(counts) => starts.extend(counts.iter().scan(0, |end, count| {
                let start = *end;
                *end += count;
                Some(start)
            })),
        }
    }
}

/// The parts of one buffer, one for each rank.
#[derive(Debug, Clone, Copy)]
pub(super) struct Pieces<'a> {
    /// What the buffer is called.
    name: &'static str,
    whole: Region,
    counts: &'a [usize],
    displacements: Option<&'a [usize]>,
    element: usize,
}

impl<'a> Pieces<'a> {
    /// Checks that there is one for each of `size` ranks, and that each lies in the buffer.
    pub(super) fn new(
        (name, whole): (&'static str, Region),
        (counts, displacements): (&'a [usize], Option<&'a [usize]>),
        elements: &Elements,
        size: usize,
    ) -> Result<Self, Error> {
        let wrong = |listed: usize, what: &str| {
            let text =
                format!("{listed} {what} of the {name} in a world of {size}: give one for each");
            Err(Error::InvalidArgument(text))
        };
        if counts.len() != size {
            return wrong(counts.len(), "counts");
        }
        if let Some(listed) = displacements.filter(|listed| listed.len() != size) {
            return wrong(listed.len(), "displacements");
        }
        let pieces = Self { name, whole, counts, displacements, element: elements.bytes };
        let held = elements.count_of(whole.bytes(), name)?;
        let mut start: usize = 0;
        for (rank, count) in counts.iter().enumerate() {
            start = displacements.map_or(start, |listed| listed[rank]);
            let end = start.checked_add(*count).filter(|end| *end <= held || *count == 0);
            start = end.ok_or_else(|| {
                Error::InvalidArgument(format!(
                    "the {name} has {held} elements; rank {rank}'s {count} from element {start} on are not in it"
                ))
            })?;
        }
        Ok(pieces)
    }

    /// Where each begins.
    pub(super) fn starts(&self) -> Starts<'a> {
        match self.displacements {
            None => Starts::Packed(self.counts),
            Some(listed) => Starts::Listed(listed, self.counts),
        }
    }

    /// Elements of all together.
    pub(super) fn total(&self) -> Result<usize, Error> {
        let total = self.counts.iter().try_fold(0usize, |sum, count| sum.checked_add(*count));
        let name = self.name;
        total.ok_or_else(|| {
            Error::InvalidArgument(format!("the counts of the {name} exceed the address space"))
        })
    }

    /// The piece of a rank, and how many elements it has.
    fn of(&self, rank: usize) -> (Region, usize) {
        let start = match self.displacements {
            None => self.counts[..rank].iter().sum(),
            Some(listed) => listed[rank],
        };
        (self.region(start, self.counts[rank]), self.counts[rank])
    }

    /// Checks that no two have an element in common, so that each may be written.
    pub(super) fn are_disjoint(&self) -> Result<(), Error> {
        let Some(listed) = self.displacements else { return Ok(()) };
        let spans = || {
            let spans = listed.iter().zip(self.counts).zip(0..);
            spans
                .filter(|((_, count), _)| **count > 0)
                .map(|((start, count), rank)| (*start, *start + *count, rank))
        };
        if spans().is_sorted_by(|one, next| one.1 <= next.0) {
            return Ok(());
        }
        let mut sorted: Vec<(usize, usize, usize)> = spans().collect();
        sorted.sort_unstable();
        match sorted.windows(2).find(|pair| pair[1].0 < pair[0].1) {
            None => Ok(()),
            Some(pair) => Err(Error::InvalidArgument(format!(
                "the parts of ranks {} and {} overlap in the {}: mend counts or displacements",
                pair[0].2, pair[1].2, self.name
            ))),
        }
    }

    /// Checks the buffer called `name` that holds a rank's part only. Whether it is that part, so that the call works in
    /// place; else it must be disjoint from all of them.
    pub(super) fn check_own(
        &self,
        (name, part): (&'static str, Region),
        elements: &Elements,
        rank: usize,
    ) -> Result<bool, Error> {
        let count = elements.count_of(part.bytes(), name)?;
        let (own, own_count) = self.of(rank);
        if count != own_count {
            return Err(Error::InvalidArgument(format!(
                "the {name} has {count} elements, the counts say {own_count} for this rank, {rank}"
            )));
        }
        let in_place = count > 0 && part == own;
        if !in_place && self.overlap(&part) {
            let whole = self.name;
            return Err(Error::InvalidArgument(format!(
                "the {name} overlaps the {whole}, and is not this rank's part of it"
            )));
        }
        Ok(in_place)
    }

    /// Whether any of them has a byte in common with `region`.
    fn overlap(&self, region: &Region) -> bool {
        region.bytes() > 0
            && region.overlaps(&self.whole)
            && self.regions().any(|piece| piece.overlaps(region))
    }

    /// Whether any of them has a byte in common with any of the `others`, which are disjoint.
    pub(super) fn overlap_any(&self, others: &Self) -> bool {
        if !self.whole.overlaps(&others.whole) {
            return false;
        }
        let span = |piece: &Region| (piece.start() as usize, piece.bytes());
        let mut all: Vec<(usize, usize, bool)> = Vec::new();
        all.extend(self.regions().map(|piece| (span(&piece).0, span(&piece).1, true)));
        all.extend(others.regions().map(|piece| (span(&piece).0, span(&piece).1, false)));
        all.sort_unstable();
        // How far the pieces of each side that begin earlier reach.
        let mut ends = [0; 2];
        all.into_iter().any(|(start, bytes, is_mine)| {
            ends[usize::from(is_mine)] = ends[usize::from(is_mine)].max(start + bytes);
            start < ends[usize::from(!is_mine)]
        })
    }

    /// The pieces that have elements.
    fn regions(&self) -> impl Iterator<Item = Region> {
        let mut end = 0;
        let spans = self.counts.iter().enumerate().map(move |(rank, count)| {
            let start = self.displacements.map_or(end, |listed| listed[rank]);
            end = start + count;
            (start, *count)
        });
        spans.filter(|(_, count)| *count > 0).map(|(start, count)| self.region(start, count))
    }

    fn region(&self, start: usize, count: usize) -> Region {
        if count == 0 {
            return Region::EMPTY;
        }
        self.whole.part(start * self.element, (start + count) * self.element)
    }
}
