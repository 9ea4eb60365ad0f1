//! What can go wrong, told apart by what a caller can do about it.
//!
//! An error is a value that is kept (a failed world answers every later call with the same one), so it is `Clone` and
//! holds text, not a source. The text is a lower-case clause: what, where (world, operation, rank, address), what to do.
#![forbid(unsafe_code)]

use std::{fmt, io};

/// Which of three things happened to the caller.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Group {
    /// The caller's mistake: nothing happened.
    Caller,
    /// This call failed; the world, if there is one, is still whole.
    Call,
    /// The world has failed: every later call on it gets the same error.
    World,
}

/// Why a call failed.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Error {
    /// The caller broke a stated precondition; nothing happened.
    InvalidArgument(String),
    /// The request is valid, but this build or host cannot serve it; nothing happened.
    Unsupported(String),
    /// Descriptors, memory or another bounded resource ran out; the call had no effect. (If it was an operation that
    /// could not make a link, its world has failed: [`crate::World::error`] has the same error.)
    Resource(String),
    /// A system call failed; the call had no effect on a world.
    System(String),
    /// The store failed, or cannot be reached, or holds another run.
    Store(String),
    /// The process was made by `fork(2)` from the one that owns the handle; nothing happened.
    Forked,
    /// A deadline passed; the world, if it was an operation's deadline, has failed.
    TimedOut {
        /// The rank that everybody waited for, in the world of the call, if it is known.
        rank: Option<usize>,
        /// What did not come in time.
        text: String,
    },
    /// Ranks called different operations, or the same one with different arguments; the world has failed.
    Mismatch(String),
    /// A member of the world is gone; the world has failed.
    PeerLost {
        /// The member's rank in the world that failed.
        rank: usize,
        /// What was seen of it.
        text: String,
    },
    /// The world was aborted, here or by a peer.
    Aborted(String),
    /// The library broke a rule of its own; the world has failed.
    Internal(String),
}

impl Error {
    /// What this error means for the caller.
    #[must_use]
    pub fn group(&self) -> Group {
        match self {
            Self::InvalidArgument(_) | Self::Unsupported(_) | Self::Forked => Group::Caller,
            Self::Resource(_) | Self::System(_) | Self::Store(_) => Group::Call,
            Self::TimedOut { .. }
            | Self::Mismatch(_)
            | Self::PeerLost { .. }
            | Self::Aborted(_)
            | Self::Internal(_) => Group::World,
        }
    }

    /// The failure of a fork as its members hear it, whose ranks in its parent are `ranks`.
    pub(crate) fn in_fork(&self, ranks: &[u32]) -> Self {
        let there = |rank: usize| ranks.iter().position(|it| *it as usize == rank);
        match self {
            Self::PeerLost { rank, text } => match there(*rank) {
                Some(rank) => Self::PeerLost { rank, text: text.clone() },
                None => Self::Aborted(text.clone()),
            },
            Self::TimedOut { rank, text } => {
                Self::TimedOut { rank: rank.and_then(there), text: text.clone() }
            }
            error => error.clone(),
        }
    }

    /// The rank at fault, in the world of the call, where one is known.
    #[must_use]
    pub fn rank(&self) -> Option<usize> {
        match self {
            Self::PeerLost { rank, .. } => Some(*rank),
            Self::TimedOut { rank, .. } => *rank,
            _ => None,
        }
    }

    /// A deadline that nobody in particular has missed.
    pub(crate) fn timed_out(text: impl Into<String>) -> Self {
        Self::TimedOut { rank: None, text: text.into() }
    }

    /// A failed system call: `operation` says which and on what, `source` why.
    ///
    /// What an administrator can mend by a limit (descriptors, memory) becomes [`Error::Resource`], with the limit.
    #[must_use]
    pub fn system(operation: impl fmt::Display, source: &io::Error) -> Self {
        let text = format!("{operation}: {source}");
        match source.raw_os_error() {
            Some(EMFILE) => Self::Resource(format!("{text} (raise `ulimit -n`)")),
            Some(ENFILE) => Self::Resource(format!("{text} (raise the sysctl fs.file-max)")),
            Some(ENOMEM | ENOBUFS) => Self::Resource(format!(
                "{text} (the system, or the control group, has no memory for it)"
            )),
            Some(ENOSPC) => Self::Resource(text),
            _ => Self::System(text),
        }
    }

    /// A descriptor that an epoll set does not take.
    #[must_use]
    pub(crate) fn watch(what: impl fmt::Display, source: &io::Error) -> Self {
        match source.raw_os_error() {
            Some(ENOSPC) => Self::Resource(format!(
                "watch {what}: {source} (raise the sysctl fs.epoll.max_user_watches)"
            )),
            _ => Self::system(format_args!("watch {what}"), source),
        }
    }

    /// A thread that could not be started.
    #[must_use]
    pub(crate) fn thread(operation: impl fmt::Display, source: &io::Error) -> Self {
        Self::Resource(format!(
            "{operation}: {source} (raise `ulimit -u`, or pids.max and memory.max of the control group)"
        ))
    }
}

const ENOMEM: i32 = 12;
const ENFILE: i32 = 23;
const EMFILE: i32 = 24;
const ENOSPC: i32 = 28;
const ENOBUFS: i32 = 105;

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::InvalidArgument(text)
            | Self::Unsupported(text)
            | Self::Resource(text)
            | Self::System(text)
            | Self::Store(text)
            | Self::TimedOut { text, .. }
            | Self::Mismatch(text)
            | Self::PeerLost { text, .. }
            | Self::Aborted(text) => f.write_str(text),
            Self::Forked => {
                f.write_str("this process was forked from the one that owns the handle")
            }
            Self::Internal(text) => write!(f, "bug in libcollect, please report it: {text}"),
        }
    }
}

impl std::error::Error for Error {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_descriptor_table_is_a_resource() {
        let full = Error::system("socket", &io::Error::from_raw_os_error(24));
        assert!(matches!(&full, Error::Resource(text) if text.contains("ulimit")), "{full}");
        for lacking in [ENOMEM, ENFILE, ENOSPC, ENOBUFS] {
            let lack = Error::system("send", &io::Error::from_raw_os_error(lacking));
            assert!(matches!(lack, Error::Resource(_)), "{lack:?}");
        }
        let refused = Error::system("connect to 127.0.0.1:1", &io::Error::from_raw_os_error(111));
        assert_eq!(refused.group(), Group::Call);
    }
}
