//! What can be chosen about a world or a fork.
#![forbid(unsafe_code)]

use std::time::Duration;

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
    /// Which algorithm serves which call, as the text of a table. Rank 0's counts for all ranks; another rank's must be
    /// the same, if it names one. `None`: on rank 0, the file that `LIBCOLLECT_TABLE` names, else the library's table.
    pub table: Option<String>,
    /// Whether every payload carries a checksum (CRC32C), which is compared before a byte of it counts. All ranks say
    /// the same. It costs a copy of what comes in.
    pub checksum: bool,
    /// How often a rank that waits asks the ranks that it waits for whether they live; by default every 10 s, at
    /// most every ms. One that says nothing for three times as long is lost. Never: it is waited for until a deadline passes.
    pub heartbeat: Timeout,
    /// How long the last world of those that were forked from each other waits, when it is destroyed, for what was sent
    /// to arrive; by default 1 s.
    pub destroy_timeout: Timeout,
    /// Whether a signal ends a wait for a request ([`crate::Request::wait_unless_interrupted`]), which goes on meanwhile.
    pub interruptible: bool,
}

/// How a world is forked.
#[derive(Debug, Clone, Default)]
pub struct ForkOptions {
    /// The fork's name in messages; empty: the parent's with a number. All members give the same.
    pub name: String,
    /// The parent's ranks that become members, in the order of their new ranks; `None`: all. All members give the
    /// same; others do not call.
    pub members: Option<Vec<usize>>,
    /// Forks of the same members with equal keys match, whatever their order among others; uses of one key match in
    /// their order. `None`: by the order of the forks of these members.
    pub key: Option<u64>,
    /// What an operation of the fork may take if its call does not say; by default what the parent allows. Also what
    /// the fork itself may take.
    pub timeout: Timeout,
}

/// A limit in nanoseconds, with a default.
pub(super) fn nanoseconds(timeout: Timeout, default: Option<u64>) -> Option<u64> {
    let limit = timeout.or(default.map(Duration::from_nanos))?;
    Some(u64::try_from(limit.as_nanos()).unwrap_or(u64::MAX))
}
