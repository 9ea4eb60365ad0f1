//! A caller's own reduction: a function of two runs of elements of any size.
//!
//! The operands are handed over in aligned memory of ours, so that the function may take them for its own type, and the
//! result never overlaps an operand. No lock is held meanwhile, and a block of the target is written after its last
//! call: a function that panics leaves nothing half done but the reduction itself.

use std::{fmt, mem};

use crate::error::Error;
use crate::memory::Region;

/// The largest element that a caller's own reduction may have, in bytes.
pub const ELEMENT_BYTES_MAX: usize = 4096;

/// What combines two runs of elements, left and right, into a third, of as many bytes each.
type Function = dyn Fn(&[u8], &[u8], &mut [u8]) + Send + Sync;

/// What the function is called with at a time, at most. There are three on the stack, which a caller's thread may have
/// made small.
#[repr(align(16))]
struct Block([u8; ELEMENT_BYTES_MAX]);

/// A caller's own reduction. It must be associative.
pub struct Custom {
    element_bytes: usize,
    is_commutative: bool,
    function: Box<Function>,
}

impl fmt::Debug for Custom {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut out = f.debug_struct("Custom");
        out.field("element_bytes", &self.element_bytes);
        out.field("is_commutative", &self.is_commutative).finish_non_exhaustive()
    }
}

impl Custom {
    /// Of elements of `element_bytes` bytes, at least 1 and at most [`ELEMENT_BYTES_MAX`]. One that does not commute is
    /// applied in rank order.
    ///
    /// `function` takes a run of left operands, one of right operands, and where the results go: as many whole elements
    /// each, which begin at multiples of 16 bytes and do not overlap. What lies where the results go is unspecified.
    /// How elements are divided into runs is too.
    ///
    /// # Errors
    ///
    /// [`Error::InvalidArgument`] if elements are of no bytes, or of too many.
    pub fn new(
        element_bytes: usize,
        is_commutative: bool,
        function: impl Fn(&[u8], &[u8], &mut [u8]) + Send + Sync + 'static,
    ) -> Result<Self, Error> {
        if !(1..=ELEMENT_BYTES_MAX).contains(&element_bytes) {
            let text =
                format!("elements of {element_bytes} bytes: 1 to {ELEMENT_BYTES_MAX} are possible");
            return Err(Error::InvalidArgument(text));
        }
        Ok(Self { element_bytes, is_commutative, function: Box::new(function) })
    }

    /// Bytes of an element.
    #[must_use]
    pub fn element_bytes(&self) -> usize {
        self.element_bytes
    }

    /// Whether operands may change places.
    #[must_use]
    pub fn is_commutative(&self) -> bool {
        self.is_commutative
    }

    /// Combines `sources` from left to right, element by element, into `target`.
    ///
    /// Addresses need no alignment. The target may be one of the sources, or disjoint from them; sources may be equal
    /// or overlap. A single source is copied.
    ///
    /// # Panics
    ///
    /// If the function panics; if there is no source, or if lengths differ or are not whole elements, which plans and
    /// checked arguments exclude.
    pub fn fold(&self, target: &Region, sources: &[Region]) {
        let bytes = target.bytes();
        assert!(!sources.is_empty(), "a reduction has a source");
        assert!(sources.iter().all(|source| source.bytes() == bytes), "lengths differ");
        assert_eq!(bytes % self.element_bytes, 0, "{bytes} bytes are not whole elements");
        match sources {
            [only] => target.copy_from(only),
            _ => self.fold_blocks(target, sources),
        }
    }

    fn fold_blocks(&self, target: &Region, sources: &[Region]) {
        let mut blocks = [const { Block([0; ELEMENT_BYTES_MAX]) }; 3];
        let [left, right, result] = blocks.each_mut().map(|block| &mut block.0[..]);
        let (mut left, mut result) = (left, result);
        let bytes = target.bytes();
        let step = ELEMENT_BYTES_MAX / self.element_bytes * self.element_bytes;
        for low in (0..bytes).step_by(step) {
            let high = bytes.min(low + step);
            let length = high - low;
            let load = |source: &Region, block: &mut [u8]| {
                source.part(low, high).with(|bytes| block[..length].copy_from_slice(bytes));
            };
            load(&sources[0], left);
            for source in &sources[1..] {
                load(source, right);
                (self.function)(&left[..length], &right[..length], &mut result[..length]);
                mem::swap(&mut left, &mut result);
            }
            target.part(low, high).with_mut(|bytes| bytes.copy_from_slice(&left[..length]));
        }
    }
}
