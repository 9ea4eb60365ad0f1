//! Scratch that no operation uses: as much as operations under way at once have needed, whatever operation needs it next.
#![forbid(unsafe_code)]

use crate::memory::Scratch;

/// Pieces that are there from the start, and their bytes: what small operations need.
const PREPARED: (usize, usize) = (16, 256);

/// Pieces that are kept.
const KEPT: usize = 1024;

/// Idle scratch.
#[derive(Debug)]
pub(super) struct Scratches {
    idle: Vec<Scratch>,
}

impl Scratches {
    pub(super) fn new() -> Self {
        let prepared = (0..PREPARED.0).map(|_| {
            let mut scratch = Scratch::default();
            let _ = scratch.lend(PREPARED.1);
            scratch
        });
        let mut idle = Vec::with_capacity(KEPT);
        idle.extend(prepared);
        Self { idle }
    }

    /// The smallest piece that holds so many bytes, else the largest one: so pieces grow only when operations need more
    /// at once than ever before.
    pub(super) fn take(&mut self, bytes: usize) -> Scratch {
        let sizes = self.idle.iter().map(Scratch::capacity).enumerate();
        let fits = sizes.clone().filter(|(_, size)| *size >= bytes).min_by_key(|(_, size)| *size);
        let found = fits.or_else(|| sizes.max_by_key(|(_, size)| *size));
        found.map(|(at, _)| self.idle.swap_remove(at)).unwrap_or_default()
    }

    pub(super) fn give_back(&mut self, scratch: Scratch) {
        if self.idle.len() < KEPT {
            self.idle.push(scratch);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_smallest_piece_that_fits_is_taken_and_the_largest_one_grows() {
        let mut scratches = Scratches::new();
        for bytes in [1 << 10, 1 << 20] {
            let mut scratch = Scratch::default();
            let _ = scratch.lend(bytes);
            scratches.give_back(scratch);
        }
        let sizes = [100, 1000, 2000, 5000].map(|bytes| scratches.take(bytes).capacity());
        assert_eq!(sizes, [256, 1 << 10, 1 << 20, 256]);
    }
}
