//! Collectives: arguments are checked, an algorithm is chosen, and an operation is made for the engine.
//!
//! One file per collective checks what is its own; all end in a [`Job`], which says what runs on which buffers.
#![forbid(unsafe_code)]

mod agreement;
mod allgather;
mod allreduce;
mod barrier;
mod broadcast;
mod cache;
mod job;
mod reduce;

pub use agreement::Agreement;
pub use cache::Programs;
pub(crate) use job::hash;
pub use job::{Job, Planned};

use crate::datatype::{Datatype, Op};
use crate::engine::{Source, Target};
use crate::error::Error;
pub use crate::plan::Algorithm;

/// What a caller asks of a world. Counts are elements, of each buffer.
#[derive(Debug)]
pub enum Call<'a> {
    /// Reduces the sources of all ranks into the target of every rank.
    Allreduce {
        /// What this rank contributes.
        source: Source<'a>,
        /// Where the result goes: the source itself, or disjoint from it.
        target: Target<'a>,
        /// The type of the elements.
        datatype: Datatype,
        /// How they are reduced.
        op: Op,
    },
    /// Reduces all buffers of all ranks; every buffer ends with the result.
    AllreduceMulti {
        /// At least one buffer, as many on every rank, all of one length, none overlapping another.
        buffers: &'a mut [Target<'a>],
        /// The type of the elements.
        datatype: Datatype,
        /// How they are reduced.
        op: Op,
    },
    /// Copies the root's buffer into that of every rank.
    Broadcast {
        /// Read on the root, written elsewhere.
        buffer: Target<'a>,
        /// The type of the elements.
        datatype: Datatype,
        /// The rank that has the data.
        root: usize,
    },
    /// Reduces the sources of all ranks into the root's target.
    Reduce {
        /// What this rank contributes.
        source: Source<'a>,
        /// Where the result goes on the root: the source itself, or disjoint from it. Untouched elsewhere, and may be
        /// empty there.
        target: Target<'a>,
        /// The type of the elements.
        datatype: Datatype,
        /// How they are reduced.
        op: Op,
        /// The rank that gets the result.
        root: usize,
    },
    /// Copies the sources of all ranks, one after the other by rank, into the target of every rank.
    Allgather {
        /// What this rank contributes, of one length on every rank.
        source: Source<'a>,
        /// As many times as long as there are ranks. In place where the source is this rank's part of it, else
        /// disjoint from the source.
        target: Target<'a>,
        /// The type of the elements.
        datatype: Datatype,
    },
    /// Completes when every rank has called it.
    Barrier,
}

/// Where a call is made.
#[derive(Debug, Clone, Copy)]
pub struct Place {
    /// Members of the world.
    pub size: usize,
    /// The caller's rank in it.
    pub rank: usize,
    /// The most bytes of a slice.
    pub slice_bytes: usize,
    /// The most bytes of a message that is sent at once.
    pub eager_bytes: usize,
}

impl Place {
    fn check_root(&self, root: usize) -> Result<(), Error> {
        if root < self.size {
            return Ok(());
        }
        let text = format!("root {root} is no rank of a world of {}", self.size);
        Err(Error::InvalidArgument(text))
    }
}

/// Checks a call and finds the program that it runs.
///
/// # Errors
///
/// [`Error::InvalidArgument`] if the arguments cannot be; nothing has happened then.
pub fn prepare<'c>(
    call: &'c Call<'_>,
    place: &Place,
    algorithm: Option<Algorithm>,
    programs: &Programs,
) -> Result<Planned<'c>, Error> {
    let job = match call {
        Call::Allreduce { source, target, datatype, op } => {
            allreduce::single(source.region(), target.region(), (*datatype, *op))?
        }
        Call::AllreduceMulti { buffers, datatype, op } => {
            allreduce::multi(buffers, (*datatype, *op))?
        }
        Call::Broadcast { buffer, datatype, root } => {
            broadcast::check(buffer.region(), *datatype, *root, place)?
        }
        Call::Reduce { source, target, datatype, op, root } => {
            reduce::check(source.region(), target.region(), (*datatype, *op), *root, place)?
        }
        Call::Allgather { source, target, datatype } => {
            allgather::check(source.region(), target.region(), *datatype, place)?
        }
        Call::Barrier => barrier::job(),
    };
    job.plan(place, algorithm, programs)
}
