//! Runs plans over a mesh: matching, flow control, deadlines, failure; and who drives.
//!
//! `core` is the protocol, a state machine without threads or clock; `lane` decides which thread drives it; `request` is
//! how a caller waits. What the engine guarantees: ranks match by their order of submission in a world; every operation
//! ends, with a right result or an error, by its deadline; when it has ended nothing of it touches the caller's memory;
//! a world is whole or failed; and a steady flow of operations allocates nothing.
#![forbid(unsafe_code)]

mod bell;
mod blame;
mod buffers;
mod completion;
mod core;
mod describe;
mod early;
mod handover;
mod lane;
mod limits;
mod members;
mod messages;
mod name;
mod operation;
mod peer;
mod program;
mod reason;
mod request;
mod scratches;
mod sync;
mod waiting;
mod world;

#[cfg(test)]
mod tests;

pub use self::core::Registration;
pub use crate::link::frame::{Class, Fingerprint};
pub use crate::memory::{Region, Scratch, Source, Target};
pub use crate::reduce::{Custom, ELEMENT_BYTES_MAX, check_factor, scale};
pub use completion::Completion;
pub use lane::{Lane, Settings};
pub use limits::Limits;
pub use members::Members;
pub use operation::{Matching, Operation};
pub use program::Program;
pub use request::{Request, Waited};
pub use world::Health;
