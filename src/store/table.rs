//! Keys and values in memory, without waiting: the heart of the hash store and of the TCP server.
//!
//! Values are shared, so that whoever holds a lock over the table, or serves many, need not copy them.

use std::collections::HashMap;
use std::sync::Arc;

use super::contract;
use crate::error::Error;

/// A value.
pub(super) type Value = Arc<[u8]>;

/// Keys and what they hold.
#[derive(Default)]
pub(super) struct Table {
    entries: HashMap<String, Value>,
}

impl Table {
    /// What the key holds.
    pub(super) fn get(&self, key: &str) -> Option<Value> {
        self.entries.get(key).cloned()
    }

    /// Sets the key, whatever it held.
    pub(super) fn set(&mut self, key: &str, value: Value) {
        // The common case of a key that is there needs no new text.
        match self.entries.get_mut(key) {
            Some(held) => *held = value,
            None => drop(self.entries.insert(key.to_owned(), value)),
        }
    }

    /// Adds to the number that the key holds, and returns the sum.
    pub(super) fn add(&mut self, key: &str, amount: i64) -> Result<i64, Error> {
        let sum = contract::sum(key, self.entries.get(key).map(AsRef::as_ref), amount)?;
        self.set(key, sum.to_string().into_bytes().into());
        Ok(sum)
    }

    /// Sets the key if `is_expected` of what it holds. Returns what it held, and whether it was set.
    pub(super) fn set_if(
        &mut self,
        key: &str,
        is_expected: impl FnOnce(Option<&[u8]>) -> bool,
        desired: impl FnOnce() -> Value,
    ) -> (Option<Value>, bool) {
        let held = self.get(key);
        let set = is_expected(held.as_deref());
        if set {
            self.set(key, desired());
        }
        (held, set)
    }

    /// Deletes the key. Returns whether it was there.
    pub(super) fn delete(&mut self, key: &str) -> bool {
        self.entries.remove(key).is_some()
    }

    /// How many keys there are.
    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }
}
