//! Collective communications between processes.
//!
//! N processes (*ranks*) create a [`World`] through a [`Store`], fork more worlds from it at no cost, and call
//! collectives on their buffers from any thread. The path of one allreduce: `ffi` reads what C passed, `world` checks
//! that the world is whole, `collective` checks the arguments and chooses a `plan`, `engine` runs the plan's steps as
//! frames come and go over a `link`, and `reduce` combines elements.

pub mod config;
pub mod datatype;
pub mod error;
#[doc(hidden)]
pub mod memory;
#[doc(hidden)]
pub mod plan;
#[doc(hidden)]
pub mod reduce;
#[doc(hidden)]
pub mod rendezvous;
pub mod store;
mod world;

#[doc(hidden)]
pub mod collective;
#[doc(hidden)]
pub mod engine;
#[cfg(feature = "capi")]
#[doc(hidden)]
pub mod ffi;
#[doc(hidden)]
pub mod link;

pub use collective::Call;
pub use datatype::{Datatype, Op};
pub use engine::{Custom, Request, Waited};
pub use error::{Error, Group};
pub use memory::{Source, Target};
pub use plan::Algorithm;
pub use store::Store;
pub use world::{Batch, CallOptions, Exchange, ForkOptions, World, WorldOptions, open_from_env};
