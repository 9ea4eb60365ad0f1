//! Counts what goes to a store: a clean start must make few operations, and read few bytes.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use super::Store;
use crate::error::Error;

/// A store that passes everything on to another one, and counts. Its clones count together.
#[derive(Debug, Clone)]
pub struct CountingStore {
    inner: Arc<dyn Store>,
    counts: Arc<Counts>,
}

// Relaxed throughout: nothing else is published through a count.
#[derive(Debug, Default)]
struct Counts {
    operations: AtomicU64,
    bytes_read: AtomicU64,
}

impl CountingStore {
    /// Counts what goes to `inner` through the new store.
    #[must_use]
    pub fn new(inner: Arc<dyn Store>) -> Self {
        Self { inner, counts: Arc::default() }
    }

    /// How many calls were made. A get counts once, however long it waits; a call that fails counts, too.
    #[must_use]
    pub fn operations(&self) -> u64 {
        self.counts.operations.load(Ordering::Relaxed)
    }

    /// How many bytes of values came back from get and compare-and-set.
    #[must_use]
    pub fn bytes_read(&self) -> u64 {
        self.counts.bytes_read.load(Ordering::Relaxed)
    }

    fn count(&self) {
        self.counts.operations.fetch_add(1, Ordering::Relaxed);
    }

    fn read(&self, value: &[u8]) {
        self.counts.bytes_read.fetch_add(value.len() as u64, Ordering::Relaxed);
    }
}

impl Store for CountingStore {
    fn set(&self, key: &str, value: &[u8], deadline: Instant) -> Result<(), Error> {
        self.count();
        self.inner.set(key, value, deadline)
    }

    fn get(&self, key: &str, deadline: Instant) -> Result<Vec<u8>, Error> {
        self.count();
        self.inner.get(key, deadline).inspect(|value| self.read(value))
    }

    fn add(&self, key: &str, amount: i64, deadline: Instant) -> Result<i64, Error> {
        self.count();
        self.inner.add(key, amount, deadline)
    }

    fn compare_and_set(
        &self,
        key: &str,
        expected: Option<&[u8]>,
        desired: &[u8],
        deadline: Instant,
    ) -> Result<Option<Vec<u8>>, Error> {
        self.count();
        let held = self.inner.compare_and_set(key, expected, desired, deadline)?;
        self.read(held.as_deref().unwrap_or_default());
        Ok(held)
    }

    fn delete(&self, key: &str, deadline: Instant) -> Result<bool, Error> {
        self.count();
        self.inner.delete(key, deadline)
    }

    fn description(&self) -> String {
        self.inner.description()
    }
}
