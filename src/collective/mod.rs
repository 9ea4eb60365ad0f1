//! Collectives: arguments are checked, an algorithm is chosen, and an operation is made for the engine.
//!
//! One file per collective checks what is its own; all end in a [`Job`], which says what runs on which buffers. What they
//! share: `elements` (types and reductions), `place` (ranks and buffers of one length), `pieces` (counts and displacements).
//! A job becomes an operation by way of a [`Planned`], or of a [`Template`] if it is to be submitted again and again.
#![forbid(unsafe_code)]

mod agreement;
mod allgather;
mod allgatherv;
mod allreduce;
mod alltoall;
mod alltoallv;
mod barrier;
mod broadcast;
mod cache;
mod call;
mod draft;
mod elements;
mod gather;
mod gatherv;
mod job;
mod message;
mod options;
mod pieces;
mod place;
mod reduce;
mod reduce_scatter;
mod reduce_scatterv;
mod scaling;
mod scan;
mod scatter;
mod scatterv;
mod template;

#[cfg(test)]
mod tests;

pub use agreement::Agreement;
pub use cache::Programs;
pub use call::Call;
pub use draft::Submission;
pub(crate) use job::hash;
pub use job::{Job, Planned};
pub use options::CallOptions;
pub use place::Place;
pub use scaling::SpareProducts;
pub use template::Template;

use crate::datatype::Datatype;
use crate::error::Error;
use crate::plan::Collective;
pub use crate::plan::{Algorithm, Table};
use elements::Elements;

/// Checks a call and finds the program that it runs.
///
/// # Errors
///
/// [`Error::InvalidArgument`] if the arguments cannot be; nothing has happened then.
pub fn prepare<'c>(
    call: &'c Call<'_>,
    place: &Place,
    options: &CallOptions,
    programs: &Programs,
) -> Result<Planned<'c>, Error> {
    check(call, elements_of(call, options)?, place)?.plan(place, options, programs)
}

/// What the elements of a call are.
fn elements_of(call: &Call<'_>, options: &CallOptions) -> Result<Elements, Error> {
    match call {
        Call::Allreduce { datatype, op, .. }
        | Call::AllreduceMulti { datatype, op, .. }
        | Call::Reduce { datatype, op, .. }
        | Call::ReduceScatter { datatype, op, .. }
        | Call::ReduceScatterv { datatype, op, .. }
        | Call::Scan { datatype, op, .. }
        | Call::Exscan { datatype, op, .. } => Elements::reduced(*datatype, *op, options),
        Call::Broadcast { datatype, .. }
        | Call::Allgather { datatype, .. }
        | Call::Allgatherv { datatype, .. }
        | Call::Gather { datatype, .. }
        | Call::Gatherv { datatype, .. }
        | Call::Scatter { datatype, .. }
        | Call::Scatterv { datatype, .. }
        | Call::Alltoall { datatype, .. }
        | Call::Alltoallv { datatype, .. }
        | Call::Send { datatype, .. }
        | Call::Receive { datatype, .. } => Elements::moved(*datatype, options),
        Call::Barrier => Elements::moved(Datatype::U8, options),
    }
}

/// Checks what is the collective's own.
fn check<'c>(call: &'c Call<'_>, elements: Elements, place: &Place) -> Result<Job<'c>, Error> {
    match call {
        Call::Allreduce { source, target, .. } => {
            allreduce::single(source.region(), target.region(), elements)
        }
        Call::AllreduceMulti { buffers, .. } => allreduce::multi(buffers, elements),
        Call::Broadcast { buffer, root, .. } => {
            broadcast::check(buffer.region(), elements, *root, place)
        }
        Call::Reduce { source, target, root, .. } => {
            reduce::check(source.region(), target.region(), elements, *root, place)
        }
        Call::Allgather { source, target, .. } => {
            allgather::check(source.region(), target.region(), elements, place)
        }
        Call::Allgatherv { source, target, counts, displacements, .. } => {
            let lists = (*counts, *displacements);
            allgatherv::check(source.region(), target.region(), lists, elements, place)
        }
        Call::Gather { source, target, root, .. } => {
            gather::check(source.region(), target.region(), elements, *root, place)
        }
        Call::Gatherv { source, target, counts, displacements, root, .. } => {
            let lists = (*counts, *displacements);
            gatherv::check(source.region(), target.region(), lists, (elements, *root), place)
        }
        Call::Scatter { source, target, root, .. } => {
            scatter::check(source.region(), target.region(), elements, *root, place)
        }
        Call::Scatterv { source, target, counts, displacements, root, .. } => {
            let lists = (*counts, *displacements);
            scatterv::check(source.region(), target.region(), lists, (elements, *root), place)
        }
        Call::ReduceScatter { source, target, .. } => {
            reduce_scatter::check(source.region(), target.region(), elements, place)
        }
        Call::ReduceScatterv { source, target, counts, .. } => {
            reduce_scatterv::check(source.region(), target.region(), counts, elements, place)
        }
        Call::Alltoall { source, target, .. } => {
            alltoall::check(source.region(), target.region(), elements, place)
        }
        Call::Alltoallv {
            source,
            send_counts: sent,
            send_displacements,
            target,
            receive_counts: received,
            receive_displacements,
            ..
        } => alltoallv::check(
            (source.region(), sent, *send_displacements),
            (target.region(), received, *receive_displacements),
            elements,
            place,
        ),
        Call::Scan { source, target, .. } => {
            scan::check(Collective::Scan, source.region(), target.region(), elements)
        }
        Call::Exscan { source, target, .. } => {
            scan::check(Collective::Exscan, source.region(), target.region(), elements)
        }
        Call::Send { source, to, tag, .. } => {
            message::send(source.region(), elements, (*to, *tag), place)
        }
        Call::Receive { target, from, tag, .. } => {
            message::receive(target.region(), elements, (*from, *tag), place)
        }
        Call::Barrier => Ok(barrier::job(elements)),
    }
}
