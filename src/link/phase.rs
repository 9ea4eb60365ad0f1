//! What the engine is about, told to the log at trace level under one target, a word each.
//!
//! Nobody needs it in use. The fault tests install a logger in a rank's process and make their fault happen there, in the
//! midst of what the word says.
#![forbid(unsafe_code)]

use std::fmt;

/// The target of these log records.
pub const TARGET: &str = "collect::phase";

/// Something that takes a while, and may be cut off.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    /// The ends of a connection prove who they are.
    Handshake,
    /// A small message waits for its receive.
    Parked,
    /// The receiver of a large message has said how much it takes.
    Granted,
    /// A part of a frame's payload has come.
    MidFrame,
    /// What came is combined with what is here.
    Reducing,
    /// Members agree on a new world.
    Fork,
    /// A world is left.
    Destroy,
}

impl fmt::Display for Phase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Handshake => "handshake",
            Self::Parked => "parked",
            Self::Granted => "granted",
            Self::MidFrame => "mid-frame",
            Self::Reducing => "reducing",
            Self::Fork => "fork",
            Self::Destroy => "destroy",
        })
    }
}

/// Tells the log.
pub fn note(phase: Phase) {
    log::trace!(target: TARGET, "{phase}");
}
