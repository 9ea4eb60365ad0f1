//! Pointers that cross the boundary: handles, out-parameters, and what is lent for a call: strings and bytes.
//!
//! A handle is the address of a reference-counted object.

use std::ffi::{CStr, c_char, c_void};
use std::ptr::NonNull;
use std::slice;
use std::sync::Arc;

use crate::error::Error;

/// Gives `value` to the caller, who releases it.
pub(super) fn give<T>(value: Arc<T>) -> *mut T {
    Arc::into_raw(value).cast_mut()
}

/// Takes a share in a handle, so that the object outlives the call whatever other threads do; `None` for NULL.
///
/// # Safety
///
/// `handle` is NULL, or came from [`give`] and is not yet taken back.
pub(super) unsafe fn borrow<T>(handle: *mut T) -> Option<Arc<T>> {
    if handle.is_null() {
        return None;
    }
    // SAFETY: it came from `Arc::into_raw` and its count is at least 1 (contract above).
    unsafe { Arc::increment_strong_count(handle) };
    // SAFETY: the share taken above passes to the `Arc`.
    Some(unsafe { Arc::from_raw(handle) })
}

/// Takes the caller's share in a handle back; `None` for NULL.
///
/// # Safety
///
/// `handle` is NULL, or came from [`give`] and is not yet taken back.
pub(super) unsafe fn take_back<T>(handle: *mut T) -> Option<Arc<T>> {
    if handle.is_null() {
        return None;
    }
    // SAFETY: it came from `Arc::into_raw`, and its share is given up once (contract above).
    Some(unsafe { Arc::from_raw(handle) })
}

/// An out-parameter: checked before the work, written after it.
#[derive(Debug)]
pub(super) struct Out<T>(NonNull<T>);

impl<T> Out<T> {
    /// Checks the out-parameter called `name`.
    ///
    /// # Safety
    ///
    /// `target` is NULL, or stays writable until the value is set.
    pub(super) unsafe fn new(target: *mut T, name: &str) -> Result<Self, Error> {
        NonNull::new(target).map(Self).ok_or_else(|| is_null(name))
    }

    /// An out-parameter that may be NULL.
    ///
    /// # Safety
    ///
    /// As for [`Out::new`].
    pub(super) unsafe fn optional(target: *mut T) -> Option<Self> {
        NonNull::new(target).map(Self)
    }

    /// Writes the result.
    pub(super) fn set(self, value: T) {
        // SAFETY: the target is writable (contract of `new`).
        unsafe { self.0.write(value) };
    }
}

/// The string called `name`; `None` for NULL.
///
/// # Safety
///
/// `start` is NULL, or a string that ends with NUL and stays unchanged for `'a`.
pub(super) unsafe fn text<'a>(start: *const c_char, name: &str) -> Result<Option<&'a str>, Error> {
    if start.is_null() {
        return Ok(None);
    }
    // SAFETY: a string that ends with NUL (contract above).
    let text = unsafe { CStr::from_ptr(start) };
    let text = text.to_str();
    text.map(Some).map_err(|_| Error::InvalidArgument(format!("{name} is not UTF-8")))
}

/// The `count` elements called `name` that begin at `start`, which may be NULL only if there are none.
///
/// # Safety
///
/// `start` is NULL, or that many elements are readable and stay unchanged for `'a`; every bit pattern is a `T`.
pub(super) unsafe fn elements<'a, T>(
    start: *const T,
    count: usize,
    name: &str,
) -> Result<&'a [T], Error> {
    if count == 0 {
        return Ok(&[]);
    }
    let start = NonNull::new(start.cast_mut()).ok_or_else(|| is_null(name))?;
    bytes_of(count, size_of::<T>())?;
    if !start.is_aligned() {
        return Err(Error::InvalidArgument(format!("{name} is not aligned")));
    }
    // SAFETY: readable for as many (contract above), neither NULL nor unaligned, and no larger than memory can be.
    Ok(unsafe { slice::from_raw_parts(start.as_ptr(), count) })
}

/// The start of the buffer called `name`, which may be NULL only if it has no bytes.
pub(super) fn buffer(start: *mut c_void, bytes: usize, name: &str) -> Result<*mut u8, Error> {
    if start.is_null() && bytes > 0 { Err(is_null(name)) } else { Ok(start.cast()) }
}

/// The bytes of `count` elements; an error if no buffer can have as many.
pub(super) fn bytes_of(count: usize, element_bytes: usize) -> Result<usize, Error> {
    count
        .checked_mul(element_bytes)
        .filter(|bytes| isize::try_from(*bytes).is_ok())
        .ok_or_else(|| Error::InvalidArgument(format!("{count} elements exceed the address space")))
}

/// A rank, size or root called `name`.
pub(super) fn number(value: i32, name: &str) -> Result<usize, Error> {
    usize::try_from(value)
        .map_err(|_| Error::InvalidArgument(format!("{name} must not be negative, it is {value}")))
}

/// A truth value called `name`.
pub(super) fn flag(value: i32, name: &str) -> Result<bool, Error> {
    match value {
        0 => Ok(false),
        1 => Ok(true),
        _ => Err(Error::InvalidArgument(format!("{name} must be 0 or 1, it is {value}"))),
    }
}

/// The error for an argument that must not be NULL.
pub(super) fn is_null(argument: &str) -> Error {
    Error::InvalidArgument(format!("{argument} must not be NULL"))
}

#[cfg(test)]
mod tests {
    use std::ptr;

    use super::*;

    #[test]
    fn a_share_outlives_the_handle() {
        let handle = give(Arc::new(7));
        // SAFETY: given above.
        let share = unsafe { borrow(handle) };
        // SAFETY: given above, and taken back once.
        drop(unsafe { take_back(handle) });
        assert_eq!(share.as_deref(), Some(&7));
        // SAFETY: NULL is allowed.
        assert_eq!(unsafe { borrow::<i32>(ptr::null_mut()) }, None);
    }

    #[test]
    fn only_nothing_may_be_null() {
        // SAFETY: NULL is allowed.
        let list = |count| unsafe { elements::<i32>(ptr::null(), count, "list") };
        assert_eq!((list(0), list(1)), (Ok(&[][..]), Err(is_null("list"))));
        assert_eq!(buffer(ptr::null_mut(), 4, "send"), Err(is_null("send")));
        assert!(buffer(ptr::null_mut(), 0, "send").is_ok());
    }

    #[test]
    fn sizes_that_no_buffer_has_are_refused() {
        assert_eq!(bytes_of(3, 8), Ok(24));
        assert!(bytes_of(usize::MAX, 1).is_err());
        assert!(bytes_of(usize::MAX / 8 + 2, 8).is_err());
        assert!(number(-1, "rank").is_err());
    }

    #[test]
    fn text_is_utf8() {
        // SAFETY: a literal that ends with NUL.
        let refused = unsafe { text(c"\xff".as_ptr(), "name") };
        assert_eq!(refused, Err(Error::InvalidArgument("name is not UTF-8".into())));
    }
}
