//! Option structs that begin with their size and grow at their end.

use std::mem::MaybeUninit;
use std::{ptr, slice};

use crate::error::Error;

/// No version of this library has options as large; a larger size was never set.
const STRUCT_SIZE_MAX: usize = 4096;

/// A `repr(C)` struct of options.
///
/// # Safety
///
/// The first field is `struct_size: usize`; any bit pattern is a value; there is no padding, neither between fields,
/// where a caller's garbage would count as a field that is set, nor at the end, where the next field would land in what
/// older callers never wrote.
pub(super) unsafe trait Options: Copy {}

/// Reads options of any age. Fields that the caller's struct lacks are zero, which means the default.
///
/// # Errors
///
/// The size is not set, or the caller sets a field that this library does not know.
///
/// # Safety
///
/// `source` is NULL, or points to as many readable bytes as its first field says.
pub(super) unsafe fn read<T: Options>(source: *const T) -> Result<T, Error> {
    let mut options = MaybeUninit::<T>::zeroed();
    if !source.is_null() {
        // SAFETY: the size comes first (contracts of `Options` and of this function).
        let theirs = unsafe { source.cast::<usize>().read_unaligned() };
        if !(size_of::<usize>()..=STRUCT_SIZE_MAX).contains(&theirs) {
            let text = format!("struct_size is {theirs}: set it to the sizeof of the options");
            return Err(Error::InvalidArgument(text));
        }
        // SAFETY: this many bytes are readable (contract above).
        let bytes = unsafe { slice::from_raw_parts(source.cast::<u8>(), theirs) };
        let (known, newer) = bytes.split_at(theirs.min(size_of::<T>()));
        if newer.iter().any(|byte| *byte != 0) {
            return Err(unknown());
        }
        let ours = options.as_mut_ptr().cast::<u8>();
        // SAFETY: both hold `known.len()` bytes, and `options` is our own.
        unsafe { ptr::copy_nonoverlapping(known.as_ptr(), ours, known.len()) };
    }
    // SAFETY: any bit pattern is a `T` (contract of `Options`).
    Ok(unsafe { options.assume_init() })
}

/// The error for a field that a later version has.
pub(super) fn unknown() -> Error {
    Error::Unsupported("the options set a field that this version does not know".into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[repr(C)]
    #[derive(Debug, Clone, Copy, PartialEq)]
    struct Today {
        struct_size: usize,
        first: u64,
        second: u64,
    }
    // SAFETY: the size comes first, the rest are integers of its size.
    unsafe impl Options for Today {}

    /// Reads what a caller wrote whose struct has `words` words.
    fn read_words(words: &[u64]) -> Result<Today, Error> {
        // SAFETY: the first word is at most the size in bytes, or one that is refused unread.
        unsafe { read(words.as_ptr().cast()) }
    }

    #[test]
    fn null_is_all_defaults() {
        // SAFETY: NULL is allowed.
        let options = unsafe { read::<Today>(ptr::null()) };
        assert_eq!(options, Ok(Today { struct_size: 0, first: 0, second: 0 }));
    }

    #[test]
    fn an_older_caller_gets_defaults_for_what_it_lacks() {
        let options = read_words(&[16, 5, 99]).unwrap();
        assert_eq!((options.first, options.second), (5, 0));
        assert_eq!(read_words(&[8, 99, 99]).unwrap().first, 0);
    }

    #[test]
    fn a_newer_caller_is_served_until_it_sets_what_is_new() {
        let options = read_words(&[40, 5, 6, 0, 0]).unwrap();
        assert_eq!((options.first, options.second), (5, 6));
        assert_eq!(read_words(&[40, 5, 6, 0, 1 << 63]), Err(unknown()));
    }

    #[test]
    fn a_size_that_was_never_set_is_refused() {
        for size in [0, 7, 4097, u64::MAX] {
            let refused = read_words(&[size, 0, 0]);
            assert!(matches!(refused, Err(Error::InvalidArgument(_))), "{size}");
        }
    }
}
