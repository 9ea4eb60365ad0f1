//! What all stores check alike: keys, values, numbers, and how their errors read.

use std::fmt::Display;
use std::io;

use crate::error::Error;

/// The most bytes of a key.
pub(super) const KEY_BYTES_MAX: usize = 1024;
/// The most bytes of a value.
pub(super) const VALUE_BYTES_MAX: usize = 16 << 20;

/// Checks a key that a caller, or a client, has given.
pub(super) fn check_key(key: &str) -> Result<(), Error> {
    match key.len() {
        0 => Err(Error::InvalidArgument("a store key must not be empty".to_owned())),
        1..=KEY_BYTES_MAX => Ok(()),
        n => Err(Error::InvalidArgument(format!(
            "a store key of {n} bytes is too long (at most {KEY_BYTES_MAX}): \"{}...\"",
            key.chars().take(64).collect::<String>().escape_debug()
        ))),
    }
}

/// Checks a value, too.
pub(super) fn check(key: &str, value: &[u8]) -> Result<(), Error> {
    check_key(key)?;
    if value.len() <= VALUE_BYTES_MAX {
        return Ok(());
    }
    Err(Error::InvalidArgument(format!(
        "the value of store key {key:?} has {} bytes (at most {VALUE_BYTES_MAX})",
        value.len()
    )))
}

/// What a key holds after `amount` is added to what it held.
pub(super) fn sum(key: &str, held: Option<&[u8]>, amount: i64) -> Result<i64, Error> {
    let Some(held) = held else { return Ok(amount) };
    let number = std::str::from_utf8(held).ok().and_then(|text| text.parse::<i64>().ok());
    let number = number.ok_or_else(|| {
        Error::Store(format!("cannot add to store key {key:?}: it holds no number"))
    })?;
    number.checked_add(amount).ok_or_else(|| {
        Error::Store(format!("cannot add {amount} to store key {key:?}: {number} is too large"))
    })
}

/// The error of a call whose deadline passed.
pub(super) fn timed_out(
    store: impl Display,
    operation: &str,
    key: &str,
    why: impl Display,
) -> Error {
    Error::timed_out(format!("{store}: {operation} of key {key:?} timed out: {why}"))
}

/// The error of a call that the system failed; `operation` says what on which path or address.
pub(super) fn failed(operation: impl Display, source: &io::Error) -> Error {
    match Error::system(operation, source) {
        Error::System(text) => Error::Store(text),
        // The store's disk, and no limit of this process.
        Error::Resource(text) if source.kind() == io::ErrorKind::StorageFull => Error::Store(text),
        resource => resource,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_bounded() {
        assert!(check_key("").is_err());
        assert!(check_key(&"k".repeat(KEY_BYTES_MAX)).is_ok());
        assert!(check_key(&"é".repeat(KEY_BYTES_MAX)).is_err());
    }

    #[test]
    fn sums_are_checked() {
        assert_eq!(sum("k", None, -3), Ok(-3));
        assert_eq!(sum("k", Some(b"40"), 2), Ok(42));
        assert!(sum("k", Some(b"4x"), 2).is_err());
        assert!(sum("k", Some(b""), 2).is_err());
        assert!(sum("k", Some(i64::MAX.to_string().as_bytes()), 1).is_err());
    }

    #[test]
    fn a_full_disk_is_the_stores_failure_and_a_full_descriptor_table_is_not() {
        assert!(matches!(failed("write /x", &io::Error::from_raw_os_error(28)), Error::Store(_)));
        assert!(matches!(failed("open /x", &io::Error::from_raw_os_error(24)), Error::Resource(_)));
    }
}
