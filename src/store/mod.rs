//! Key-value stores through which the ranks of a world find each other, once.
//!
//! All stores keep one contract, and pass one shared test (`tests/store.rs`): keys are non-empty texts of at most 1 KiB,
//! values are bytes of at most 16 MiB; every call may be made from any thread; every call ends by its deadline. A store
//! knows no engine and no ranks.
#![forbid(unsafe_code)]

mod contract;
mod counting;
mod file;
mod hash;
mod open;
mod prefix;
mod table;
mod tcp;

use std::fmt::Debug;
use std::time::Instant;

use crate::error::Error;

pub use counting::CountingStore;
pub use file::FileStore;
pub use hash::HashStore;
pub use open::open;
pub use prefix::PrefixStore;
pub use tcp::{TcpServer, TcpStore};

/// A key-value store.
pub trait Store: Send + Sync + Debug {
    /// Sets a key, whatever it held.
    ///
    /// # Errors
    ///
    /// [`Error::InvalidArgument`] for a bad key or a too large value; [`Error::Store`] if the store cannot be reached,
    /// does not answer, or refuses; [`Error::TimedOut`] when `deadline` passes otherwise.
    fn set(&self, key: &str, value: &[u8], deadline: Instant) -> Result<(), Error>;

    /// Waits until the key exists, and returns its value.
    ///
    /// # Errors
    ///
    /// As `set`; the text of a time-out names the key.
    fn get(&self, key: &str, deadline: Instant) -> Result<Vec<u8>, Error>;

    /// Adds to the number that the key holds (decimal text; 0 if it is absent), and returns the sum.
    ///
    /// # Errors
    ///
    /// As `set`; also if the value is no number, or the sum overflows.
    fn add(&self, key: &str, amount: i64, deadline: Instant) -> Result<i64, Error>;

    /// Sets the key to `desired` if it holds `expected` (`None`: is absent). Returns what it held before: the caller
    /// has won if that equals `expected`.
    ///
    /// # Errors
    ///
    /// As `set`.
    fn compare_and_set(
        &self,
        key: &str,
        expected: Option<&[u8]>,
        desired: &[u8],
        deadline: Instant,
    ) -> Result<Option<Vec<u8>>, Error>;

    /// Deletes the key. Returns whether it was there.
    ///
    /// # Errors
    ///
    /// As `set`.
    fn delete(&self, key: &str, deadline: Instant) -> Result<bool, Error>;

    /// What it is and where, for messages ("file store /tmp/x").
    fn description(&self) -> String;
}
