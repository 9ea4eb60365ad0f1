//! What can be chosen about a world, a fork or a call.
#![forbid(unsafe_code)]

use std::time::Duration;

use crate::collective::Algorithm;
use crate::config::{Connect, Timeout, Wait};

/// How a world is made.
#[derive(Debug, Clone, Default)]
pub struct WorldOptions {
    /// Its name in messages, and in the store's keys; empty: "world". All ranks give the same.
    pub name: String,
    /// What an operation may take if its call does not say; also what the creation may take.
    pub timeout: Timeout,
    /// What threads do while they wait.
    pub wait: Wait,
    /// When links are made.
    pub connect: Connect,
    /// Where this process listens (an address, or an address and a port); `None`: `LIBCOLLECT_LISTEN`, else everywhere.
    pub listen: Option<String>,
}

/// How a world is forked.
#[derive(Debug, Clone, Default)]
pub struct ForkOptions {
    /// The fork's name in messages; empty: the parent's with a number. All members give the same.
    pub name: String,
    /// The parent's ranks that become members, in the order of their new ranks; `None`: all. All members give the
    /// same; others do not call.
    pub members: Option<Vec<usize>>,
    /// What an operation of the fork may take if its call does not say; by default what the parent allows. Also what
    /// the fork itself may take.
    pub timeout: Timeout,
}

/// How a call is made.
#[derive(Debug, Clone, Copy, Default)]
pub struct CallOptions {
    /// How long the operation may take; when it passes, the world fails.
    pub timeout: Timeout,
    /// The algorithm, equal on all ranks; `None`: the library chooses.
    pub algorithm: Option<Algorithm>,
}

/// A limit in nanoseconds, with a default.
pub(super) fn nanoseconds(timeout: Timeout, default: Option<u64>) -> Option<u64> {
    let limit = timeout.or(default.map(Duration::from_nanos))?;
    Some(u64::try_from(limit.as_nanos()).unwrap_or(u64::MAX))
}
