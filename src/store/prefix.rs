//! A part of another store: several users share one, and no key of one is a key of another.
//!
//! A key becomes `PREFIX/KEY`. In the prefix, `%` and `/` are escaped, so that the first slash ends it: the prefixes
//! `a` and `a/b` have no key in common. A key that grows too long becomes `PREFIX%#HASH`, which no prefix can look like.

use std::sync::Arc;
use std::time::Instant;

use sha2::{Digest, Sha256};

use super::{Store, contract};
use crate::error::Error;

/// The most bytes of an escaped prefix: leaves room for readable keys, and for hashed ones.
const PREFIX_BYTES_MAX: usize = contract::KEY_BYTES_MAX / 2;

/// A store whose keys are those of another one that start with a prefix.
#[derive(Debug, Clone)]
pub struct PrefixStore {
    inner: Arc<dyn Store>,
    /// Escaped.
    prefix: String,
}

impl PrefixStore {
    /// Makes a store of the keys of `inner` that start with `prefix`.
    ///
    /// # Errors
    ///
    /// [`Error::InvalidArgument`] if the prefix is empty or too long.
    pub fn new(inner: Arc<dyn Store>, prefix: &str) -> Result<Self, Error> {
        let escaped = prefix.replace('%', "%25").replace('/', "%2F");
        if escaped.is_empty() || escaped.len() > PREFIX_BYTES_MAX {
            return Err(Error::InvalidArgument(format!(
                "a store prefix must have 1 to {PREFIX_BYTES_MAX} bytes ('%' and '/' count three), not {}",
                escaped.len()
            )));
        }
        Ok(Self { inner, prefix: escaped })
    }

    fn key(&self, key: &str) -> Result<String, Error> {
        contract::check_key(key)?;
        let prefix = &self.prefix;
        if prefix.len() + 1 + key.len() <= contract::KEY_BYTES_MAX {
            return Ok(format!("{prefix}/{key}"));
        }
        Ok(format!("{prefix}%#{:x}", Sha256::digest(key)))
    }
}

impl Store for PrefixStore {
    fn set(&self, key: &str, value: &[u8], deadline: Instant) -> Result<(), Error> {
        self.inner.set(&self.key(key)?, value, deadline)
    }

    fn get(&self, key: &str, deadline: Instant) -> Result<Vec<u8>, Error> {
        self.inner.get(&self.key(key)?, deadline)
    }

    fn add(&self, key: &str, amount: i64, deadline: Instant) -> Result<i64, Error> {
        self.inner.add(&self.key(key)?, amount, deadline)
    }

    fn compare_and_set(
        &self,
        key: &str,
        expected: Option<&[u8]>,
        desired: &[u8],
        deadline: Instant,
    ) -> Result<Option<Vec<u8>>, Error> {
        self.inner.compare_and_set(&self.key(key)?, expected, desired, deadline)
    }

    fn delete(&self, key: &str, deadline: Instant) -> Result<bool, Error> {
        self.inner.delete(&self.key(key)?, deadline)
    }

    fn description(&self) -> String {
        format!("{}, prefix {:?}", self.inner.description(), self.prefix)
    }
}
