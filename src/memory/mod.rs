//! Callers' buffers as pointer and length, and scratch of our own.
//!
//! A caller's buffer may be named twice, read by other threads, or (one day) be device memory, so it becomes a slice
//! only while its bytes are touched. [`Source`] and [`Target`] are what the public API takes; inside, both become a
//! [`Region`], whose constructor carries the contract that makes every later access sound: the bytes stay valid until
//! the operation that owns the region has ended.

use std::marker::PhantomData;
use std::{ptr, slice};

/// Bytes that an operation reads.
#[derive(Debug, Clone, Copy)]
pub struct Source<'a> {
    region: Region,
    lent: PhantomData<&'a [u8]>,
}

impl<'a> Source<'a> {
    /// The bytes of `elements`.
    #[must_use]
    pub fn of<T: Element>(elements: &'a [T]) -> Self {
        let start = elements.as_ptr().cast_mut().cast();
        Self { region: Region { start, bytes: size_of_val(elements) }, lent: PhantomData }
    }

    /// The `bytes` bytes that begin at `start`.
    ///
    /// # Safety
    ///
    /// They stay readable for `'a`; with no bytes, `start` may be anything. A target of the same operation may be the
    /// same bytes exactly, which is how an operation works in place.
    #[must_use]
    pub unsafe fn from_raw(start: *const u8, bytes: usize) -> Self {
        Self { region: Region { start: start.cast_mut(), bytes }, lent: PhantomData }
    }

    /// Bytes in all.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.region.bytes
    }

    /// The bytes, for the engine, which lets go of them before `'a` ends.
    #[must_use]
    pub fn region(&self) -> Region {
        self.region
    }
}

/// Bytes that an operation writes.
#[derive(Debug)]
pub struct Target<'a> {
    region: Region,
    lent: PhantomData<&'a mut [u8]>,
}

impl<'a> Target<'a> {
    /// The bytes of `elements`.
    #[must_use]
    pub fn of<T: Element>(elements: &'a mut [T]) -> Self {
        let bytes = size_of_val(elements);
        Self { region: Region { start: elements.as_mut_ptr().cast(), bytes }, lent: PhantomData }
    }

    /// The `bytes` bytes that begin at `start`.
    ///
    /// # Safety
    ///
    /// They stay writable for `'a`, and nobody else touches them meanwhile; with no bytes, `start` may be anything.
    #[must_use]
    pub unsafe fn from_raw(start: *mut u8, bytes: usize) -> Self {
        Self { region: Region { start, bytes }, lent: PhantomData }
    }

    /// The same bytes as the source of the same operation, which then works in place.
    #[must_use]
    pub fn in_place(&self) -> Source<'a> {
        Source { region: self.region, lent: PhantomData }
    }

    /// The `index`-th of `parts` equal parts, as the source of the same operation: how an allgather works in place.
    /// `None` if there is no such part, or parts of whole bytes.
    #[must_use]
    pub fn part_in_place(&self, index: usize, parts: usize) -> Option<Source<'a>> {
        if parts == 0 || index >= parts || !self.region.bytes.is_multiple_of(parts) {
            return None;
        }
        let bytes = self.region.bytes / parts;
        let region = self.region.part(index * bytes, (index + 1) * bytes);
        Some(Source { region, lent: PhantomData })
    }

    /// Bytes in all.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.region.bytes
    }

    /// The bytes, for the engine, which lets go of them before `'a` ends.
    #[must_use]
    pub fn region(&self) -> Region {
        self.region
    }
}

/// A type whose every bit pattern is a value and that has no padding, so that a peer's bytes can stand in its place.
///
/// # Safety
///
/// The implementor is such a type.
pub unsafe trait Element: Copy {}

macro_rules! elements {
    ($($name:ty)*) => {
        // SAFETY: integers and floats have no padding and no invalid bit pattern.
        $(unsafe impl Element for $name {})*
    };
}
elements!(i8 u8 i16 u16 i32 u32 i64 u64 f32 f64 half::f16 half::bf16);

/// A run of bytes that an operation may touch until it ends.
///
/// Only the constructors of [`Source`], [`Target`] and [`Scratch`] make one, and the engine drops its copies before
/// the operation reports its end: so whoever holds a region may touch its bytes. Two regions of one operation may be
/// equal or overlap; the functions below therefore never make two slices at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Region {
    start: *mut u8,
    bytes: usize,
}

// SAFETY: a region is an address; who may touch the bytes when is the engine's rule (one driver at a time).
unsafe impl Send for Region {}
// SAFETY: as for Send; a shared region gives out no reference without a method that says what it touches.
unsafe impl Sync for Region {}

impl Region {
    /// No bytes.
    pub const EMPTY: Self = Self { start: ptr::null_mut(), bytes: 0 };

    /// Bytes that the engine itself holds: they stay where they are while the region is in use.
    #[must_use]
    pub(crate) fn lent(bytes: &mut [u8]) -> Self {
        Self { start: bytes.as_mut_ptr(), bytes: bytes.len() }
    }

    /// Bytes in all.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// The address of the first byte; anything for an empty region.
    #[must_use]
    pub fn start(&self) -> *mut u8 {
        self.start
    }

    /// The bytes `low..high` of it.
    ///
    /// # Panics
    ///
    /// If they are not in it: the engine's ranges come from plans and counts that were checked.
    #[must_use]
    pub fn part(&self, low: usize, high: usize) -> Self {
        assert!(low <= high && high <= self.bytes, "{low}..{high} of {} bytes", self.bytes);
        Self { start: self.start.wrapping_add(low), bytes: high - low }
    }

    /// Whether both have a byte in common.
    #[must_use]
    pub fn overlaps(&self, other: &Self) -> bool {
        let (mine, theirs) = (self.start as usize, other.start as usize);
        mine < theirs.wrapping_add(other.bytes) && theirs < mine.wrapping_add(self.bytes)
    }

    /// Lends the bytes to `read`.
    pub fn with<R>(&self, read: impl FnOnce(&[u8]) -> R) -> R {
        if self.bytes == 0 {
            return read(&[]);
        }
        // SAFETY: the bytes are valid while the region exists (contract of the type), and nobody writes them during
        // `read`: the one driver of the lane is here, and the caller has lent them.
        read(unsafe { slice::from_raw_parts(self.start, self.bytes) })
    }

    /// Lends the bytes to `write`.
    pub fn with_mut<R>(&self, write: impl FnOnce(&mut [u8]) -> R) -> R {
        if self.bytes == 0 {
            return write(&mut []);
        }
        // SAFETY: as in `with`; a region that a plan writes comes from a `Target` or from `Scratch`.
        write(unsafe { slice::from_raw_parts_mut(self.start, self.bytes) })
    }

    /// Copies all of `from`, which has as many bytes and may be the same or overlap.
    ///
    /// # Panics
    ///
    /// If the lengths differ.
    pub fn copy_from(&self, from: &Self) {
        assert_eq!(self.bytes, from.bytes, "lengths of a copy");
        if self.bytes > 0 && self.start != from.start {
            // SAFETY: both hold this many valid bytes (contract of the type); `copy` takes overlap.
            unsafe { ptr::copy(from.start, self.start, self.bytes) };
        }
    }
}

/// Scratch memory of our own, aligned for every element type and reused by operation after operation.
#[derive(Debug, Default)]
pub struct Scratch {
    words: Vec<u64>,
}

impl Scratch {
    /// At least `bytes` bytes. What they hold is unspecified. Grows only when it is too small.
    ///
    /// The region is valid until the next call, or until the scratch is dropped: the engine keeps the scratch with the
    /// operation that uses it.
    #[must_use]
    pub fn lend(&mut self, bytes: usize) -> Region {
        let words = bytes.div_ceil(size_of::<u64>());
        if self.words.len() < words {
            self.words.resize(words, 0);
        }
        Region { start: self.words.as_mut_ptr().cast(), bytes }
    }

    /// Bytes that it holds at present.
    #[must_use]
    pub fn capacity(&self) -> usize {
        self.words.len() * size_of::<u64>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_region_is_copied_onto_itself() {
        let mut buffer = [1u8, 2, 3];
        let region = Target::of(&mut buffer).region();
        region.copy_from(&region);
        region.part(1, 3).copy_from(&region.part(0, 2));
        assert_eq!(buffer, [1, 1, 2]);
    }

    #[test]
    fn regions_that_touch_do_not_overlap() {
        let mut buffer = [0u8; 8];
        let region = Target::of(&mut buffer).region();
        assert!(!region.part(0, 4).overlaps(&region.part(4, 8)));
        assert!(region.part(0, 5).overlaps(&region.part(4, 8)));
    }

    #[test]
    fn scratch_keeps_what_it_has() {
        let mut scratch = Scratch::default();
        let first = scratch.lend(100).start();
        assert_eq!(scratch.lend(50).start(), first);
        assert_eq!(scratch.capacity(), 104);
    }
}
