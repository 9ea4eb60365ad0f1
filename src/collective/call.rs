//! What a caller can ask of a world.
//!
//! Counts and displacements are elements, and lists of them have an entry for each rank. Without displacements the parts
//! lie one after the other. Where a rank is said to ignore an argument, it may be anything there, and is not touched.
#![forbid(unsafe_code)]

use crate::datatype::{Datatype, Op};
use crate::engine::{Source, Target};

/// What a caller asks of a world. Every rank asks for the same, with the same type, operation and root.
///
/// A source and a target are disjoint unless the call works in place, which is said at each.
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
        /// Where the result goes on the root: the source itself, or disjoint from it. Ignored elsewhere.
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
        /// As many times as long as there are ranks. In place where the source is this rank's part of it.
        target: Target<'a>,
        /// The type of the elements.
        datatype: Datatype,
    },
    /// As an allgather, with parts of different lengths.
    Allgatherv {
        /// What this rank contributes.
        source: Source<'a>,
        /// Where the parts go. In place where the source is this rank's part of it.
        target: Target<'a>,
        /// The elements of each rank, equal on all ranks.
        counts: &'a [usize],
        /// Where each rank's part begins in the target; ranks may differ in it.
        displacements: Option<&'a [usize]>,
        /// The type of the elements.
        datatype: Datatype,
    },
    /// Copies the sources of all ranks, one after the other by rank, into the root's target.
    Gather {
        /// What this rank contributes, of one length on every rank.
        source: Source<'a>,
        /// On the root, as many times as long as there are ranks. In place where the root's source is its part of it.
        /// Ignored elsewhere.
        target: Target<'a>,
        /// The type of the elements.
        datatype: Datatype,
        /// The rank that gets the parts.
        root: usize,
    },
    /// As a gather, with parts of different lengths.
    Gatherv {
        /// What this rank contributes.
        source: Source<'a>,
        /// Where the parts go on the root. In place where the root's source is its part of it. Ignored elsewhere.
        target: Target<'a>,
        /// The elements of each rank. Ignored elsewhere than on the root.
        counts: &'a [usize],
        /// Where each rank's part begins in the target. Ignored elsewhere than on the root.
        displacements: Option<&'a [usize]>,
        /// The type of the elements.
        datatype: Datatype,
        /// The rank that gets the parts.
        root: usize,
    },
    /// Cuts the root's source by rank, and copies one part into the target of every rank.
    Scatter {
        /// On the root, as many times as long as the target as there are ranks. Ignored elsewhere.
        source: Source<'a>,
        /// Where this rank's part goes, of one length on every rank. In place where the root's is its part of the
        /// source.
        target: Target<'a>,
        /// The type of the elements.
        datatype: Datatype,
        /// The rank that has the parts.
        root: usize,
    },
    /// As a scatter, with parts of different lengths.
    Scatterv {
        /// What has the parts on the root; they may overlap. Ignored elsewhere.
        source: Source<'a>,
        /// Where this rank's part goes. In place where the root's is its part of the source.
        target: Target<'a>,
        /// The elements of each rank. Ignored elsewhere than on the root.
        counts: &'a [usize],
        /// Where each rank's part begins in the source. Ignored elsewhere than on the root.
        displacements: Option<&'a [usize]>,
        /// The type of the elements.
        datatype: Datatype,
        /// The rank that has the parts.
        root: usize,
    },
    /// Reduces the sources of all ranks, cuts the result by rank, and leaves one part in the target of every rank.
    ReduceScatter {
        /// What this rank contributes: as many times as long as the target as there are ranks.
        source: Source<'a>,
        /// Where this rank's part of the result goes. In place where it is this rank's part of the source.
        target: Target<'a>,
        /// The type of the elements.
        datatype: Datatype,
        /// How they are reduced.
        op: Op,
    },
    /// As a reduce-scatter, with parts of different lengths.
    ReduceScatterv {
        /// What this rank contributes: the parts one after the other by rank.
        source: Source<'a>,
        /// Where this rank's part of the result goes. In place where it is this rank's part of the source.
        target: Target<'a>,
        /// The elements of each rank, equal on all ranks.
        counts: &'a [usize],
        /// The type of the elements.
        datatype: Datatype,
        /// How they are reduced.
        op: Op,
    },
    /// Cuts every rank's source by rank, and copies part i to rank i, by the rank that it came from.
    Alltoall {
        /// What this rank sends: as many elements to every rank.
        source: Source<'a>,
        /// Where the parts go, as long as the source. In place where it is the source.
        target: Target<'a>,
        /// The type of the elements.
        datatype: Datatype,
    },
    /// As an alltoall, with parts of different lengths.
    Alltoallv {
        /// What has the parts that this rank sends; they may overlap.
        source: Source<'a>,
        /// The elements for each rank; as many as that rank expects of this one.
        send_counts: &'a [usize],
        /// Where each rank's part begins in the source.
        send_displacements: Option<&'a [usize]>,
        /// Where the parts go. In place where it is the source, and counts and displacements are equal too.
        target: Target<'a>,
        /// The elements from each rank.
        receive_counts: &'a [usize],
        /// Where each rank's part begins in the target.
        receive_displacements: Option<&'a [usize]>,
        /// The type of the elements.
        datatype: Datatype,
    },
    /// Reduces the sources of ranks 0 to r into the target of rank r.
    Scan {
        /// What this rank contributes.
        source: Source<'a>,
        /// Where the result goes: the source itself, or disjoint from it.
        target: Target<'a>,
        /// The type of the elements.
        datatype: Datatype,
        /// How they are reduced, in rank order.
        op: Op,
    },
    /// Reduces the sources of ranks 0 to r-1 into the target of rank r. That of rank 0 is not touched.
    Exscan {
        /// What this rank contributes.
        source: Source<'a>,
        /// Where the result goes: the source itself, or disjoint from it.
        target: Target<'a>,
        /// The type of the elements.
        datatype: Datatype,
        /// How they are reduced, in rank order.
        op: Op,
    },
    /// Sends a message. Ends when the source may be used again, which may be before it has been received.
    Send {
        /// What is sent.
        source: Source<'a>,
        /// The type of the elements, as the receiver says.
        datatype: Datatype,
        /// The rank that receives it.
        to: usize,
        /// Messages of one sender with one tag are received in the order in which they are sent.
        tag: u64,
    },
    /// Receives a message.
    Receive {
        /// Where it goes: exactly as long as the message.
        target: Target<'a>,
        /// The type of the elements, as the sender says.
        datatype: Datatype,
        /// The rank that sends it; `None`: the first that comes with this tag.
        from: Option<usize>,
        /// The sender's tag.
        tag: u64,
    },
    /// Completes when every rank has called it.
    Barrier,
}
