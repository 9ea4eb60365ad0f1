//! A store inside one process, for ranks that are its threads, and for tests.

use std::fmt;
use std::sync::Arc;
use std::time::Instant;

use parking_lot::{Condvar, Mutex};

use super::table::{Table, Value};
use super::{Store, contract};
use crate::error::Error;

/// A store in this process's memory. Its clones share their content.
#[derive(Clone, Default)]
pub struct HashStore {
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    table: Mutex<Table>,
    /// Signalled after a key was set.
    set: Condvar,
}

impl HashStore {
    /// Makes an empty store.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    fn wait_for(&self, key: &str, deadline: Instant) -> Result<Value, Error> {
        let mut table = self.shared.table.lock();
        loop {
            if let Some(value) = table.get(key) {
                return Ok(value);
            }
            if self.shared.set.wait_until(&mut table, deadline).timed_out() {
                let why = "nobody has set it";
                return table
                    .get(key)
                    .ok_or_else(|| contract::timed_out(self.description(), "get", key, why));
            }
        }
    }
}

impl Store for HashStore {
    fn set(&self, key: &str, value: &[u8], _deadline: Instant) -> Result<(), Error> {
        contract::check(key, value)?;
        let value = Value::from(value);
        self.shared.table.lock().set(key, value);
        self.shared.set.notify_all();
        Ok(())
    }

    fn get(&self, key: &str, deadline: Instant) -> Result<Vec<u8>, Error> {
        contract::check_key(key)?;
        self.wait_for(key, deadline).map(|value| value.to_vec())
    }

    fn add(&self, key: &str, amount: i64, _deadline: Instant) -> Result<i64, Error> {
        contract::check_key(key)?;
        let sum = self.shared.table.lock().add(key, amount)?;
        self.shared.set.notify_all();
        Ok(sum)
    }

    fn compare_and_set(
        &self,
        key: &str,
        expected: Option<&[u8]>,
        desired: &[u8],
        _deadline: Instant,
    ) -> Result<Option<Vec<u8>>, Error> {
        contract::check(key, desired)?;
        let desired = Value::from(desired);
        let (held, set) =
            self.shared.table.lock().set_if(key, |held| held == expected, move || desired);
        if set {
            self.shared.set.notify_all();
        }
        Ok(held.map(|value| value.to_vec()))
    }

    fn delete(&self, key: &str, _deadline: Instant) -> Result<bool, Error> {
        contract::check_key(key)?;
        Ok(self.shared.table.lock().delete(key))
    }

    fn description(&self) -> String {
        "hash store".to_owned()
    }
}

impl fmt::Debug for HashStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let keys = self.shared.table.try_lock().map(|table| table.len());
        f.debug_struct("HashStore").field("keys", &keys).finish()
    }
}
