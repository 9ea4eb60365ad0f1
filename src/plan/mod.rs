//! Collective algorithms as data.
//!
//! A [`Plan`] lists the [`Step`]s that one rank performs, over [`Range`]s of blocks; it knows no buffers, no links and
//! no I/O. An algorithm is a pure function from a [`Shape`] to a plan; `verify` proves all ranks' plans of one
//! collective together; `choose` picks an algorithm from facts that all ranks agree on. The engine runs all steps at
//! once, each held back only by the watermarks of the steps in its `after` list, which the builder derives.
//!
//! Step k that sends from A to B meets step k of B that receives from A (the *ordinal*).
#![forbid(unsafe_code)]

mod algorithm;
mod build;
mod choose;
mod cost;
mod interface;
mod layout;
mod name;
mod property;
mod table;
mod verify;

#[cfg(test)]
mod tests;

pub use build::{CONTRIBUTIONS_MAX, build};
pub use choose::{Choice, Facts, algorithms, choose};
pub use cost::{Cost, Model, bytes_sent, cost, depths};
pub use layout::Layout;
pub use property::{default_degree, is_ordered};
pub use table::{Rule, Table, modelled};
pub use verify::{Fault, verify};

/// Raised whenever an algorithm's messages or its order of reduction change: ranks that differ in it do not match.
pub const REVISION: u32 = 2;

/// The memory that a range lies in. Buffers of a multi-buffer call are numbered from 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Buffer {
    /// What the caller gave to be read.
    In(u16),
    /// What the caller gave to be written; the plan may scribble on it.
    Out(u16),
    /// Slots of our own, each as long as the longest block.
    Scratch,
}

/// `blocks` consecutive logical blocks that lie in as many consecutive slots of a buffer.
///
/// The blocks give the length (both sides of a message name the same), the slots give the place. Block b of a layout
/// of `count` elements and `stride` elements a block begins at element min(b·stride, count); so does slot b of an input
/// or output. A scratch slot is always one stride long. Where blocks differ in length (`Collective::is_irregular`) the
/// caller says where a slot of an input or output begins, and a range is one block.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Range {
    /// Where it lies.
    pub buffer: Buffer,
    /// Its first slot.
    pub slot: u32,
    /// Its first logical block.
    pub block: u32,
    /// Blocks, and slots: at least one.
    pub blocks: u32,
}

impl Range {
    /// Block `block` of an input or output, in its own slot.
    #[must_use]
    pub fn block(buffer: Buffer, block: u32) -> Self {
        Self::at(buffer, block, block)
    }

    /// Block `block` in slot `slot`.
    #[must_use]
    pub fn at(buffer: Buffer, slot: u32, block: u32) -> Self {
        Self { buffer, slot, block, blocks: 1 }
    }

    /// Block 0 in a slot of scratch.
    #[must_use]
    pub fn scratch(slot: u32) -> Self {
        Self::at(Buffer::Scratch, slot, 0)
    }

    /// Whether the two have a slot of one buffer in common.
    #[must_use]
    pub fn meets(&self, other: &Self) -> bool {
        let end = |range: &Self| u64::from(range.slot) + u64::from(range.blocks);
        self.buffer == other.buffer
            && u64::from(self.slot) < end(other)
            && u64::from(other.slot) < end(self)
    }
}

/// What a step does.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Action {
    /// Sends `source` to rank `peer`.
    Send {
        /// The receiving rank.
        peer: u32,
        /// What is sent.
        source: Range,
    },
    /// Receives from rank `peer` into `target`.
    RecvCopy {
        /// The sending rank.
        peer: u32,
        /// Where it goes.
        target: Range,
    },
    /// Receives from rank `peer` and combines with `local` into `target`, which may be `local` itself.
    RecvReduce {
        /// The sending rank.
        peer: u32,
        /// Where the result goes.
        target: Range,
        /// The operand that is here.
        local: Range,
        /// Whether what comes in is the left operand.
        incoming_first: bool,
        /// Whether this makes the final value of the blocks (an average is divided here).
        last: bool,
    },
    /// Copies `source` to `target`.
    Copy {
        /// Where it goes.
        target: Range,
        /// What is copied.
        source: Range,
    },
    /// Combines the sources, left to right, in one pass.
    Reduce {
        /// Where the result goes; may be one of the sources exactly.
        target: Range,
        /// At least one operand.
        sources: Vec<Range>,
        /// Whether this makes the final value of the blocks (an average is divided here).
        last: bool,
    },
}

/// One step of a plan.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Step {
    /// What it does.
    pub action: Action,
    /// Its number among the sends to (or the receives from) its peer; 0 for local steps.
    pub ordinal: u32,
    /// A receive whose message cannot exist before this rank's earlier steps on the range are done: `after` is empty.
    pub causal: bool,
    /// The earlier steps whose watermarks limit this one, ascending.
    pub after: Vec<u32>,
    /// An earlier step that must be wholly done before this one, a receive, begins, whatever memory they touch: it
    /// bounds how much is under way to this rank at once.
    pub gate: Option<u32>,
}

impl Step {
    /// The rank at the other end of a send or receive.
    #[must_use]
    pub fn peer(&self) -> Option<u32> {
        match self.action {
            Action::Send { peer, .. }
            | Action::RecvCopy { peer, .. }
            | Action::RecvReduce { peer, .. } => Some(peer),
            Action::Copy { .. } | Action::Reduce { .. } => None,
        }
    }

    /// Whether it receives.
    #[must_use]
    pub fn is_receive(&self) -> bool {
        matches!(self.action, Action::RecvCopy { .. } | Action::RecvReduce { .. })
    }

    /// The range that gives its length: what it writes, or for a send what it reads.
    #[must_use]
    pub fn range(&self) -> Range {
        match self.action {
            Action::Send { source, .. } => source,
            Action::RecvCopy { target, .. }
            | Action::RecvReduce { target, .. }
            | Action::Copy { target, .. }
            | Action::Reduce { target, .. } => target,
        }
    }

    /// The range that it writes.
    #[must_use]
    pub fn target(&self) -> Option<Range> {
        match self.action {
            Action::Send { .. } => None,
            _ => Some(self.range()),
        }
    }

    /// The ranges that it reads.
    #[must_use]
    pub fn sources(&self) -> &[Range] {
        match &self.action {
            Action::Send { source, .. } | Action::Copy { source, .. } => {
                std::slice::from_ref(source)
            }
            Action::RecvCopy { .. } => &[],
            Action::RecvReduce { local, .. } => std::slice::from_ref(local),
            Action::Reduce { sources, .. } => sources,
        }
    }
}

/// The collectives. The numbers are those of the wire: never changed, never reused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Collective {
    /// Every rank's input, reduced, on every rank.
    Allreduce = 1,
    /// The root's input on every rank.
    Broadcast = 2,
    /// Nobody leaves before everybody has come.
    Barrier = 3,
    /// Every rank's input, reduced, on the root.
    Reduce = 4,
    /// Every rank's input, by rank, on every rank.
    Allgather = 5,
    /// Every rank's input, by rank, on the root.
    Gather = 6,
    /// The root's input, cut by rank, a part on each rank.
    Scatter = 7,
    /// Every rank's input, reduced and cut by rank, a part on each rank.
    ReduceScatter = 8,
    /// Every rank's input, cut by rank, part i on rank i, by the rank that it came from.
    Alltoall = 9,
    /// The inputs of ranks 0 to r, reduced, on rank r.
    Scan = 10,
    /// The inputs of ranks 0 to r-1, reduced, on rank r; nothing on rank 0.
    Exscan = 11,
    /// Point to point: the input of rank 0 in the output of rank 1. A plan of two ranks, whoever they are in their world.
    Message = 12,
    /// An allgather whose blocks differ in length; all ranks know all lengths.
    Allgatherv = 13,
    /// A gather whose blocks differ in length; the root knows them all, another rank its own.
    Gatherv = 14,
    /// A scatter whose blocks differ in length; the root knows them all, another rank its own.
    Scatterv = 15,
    /// A reduce-scatter whose blocks differ in length; all ranks know all lengths.
    ReduceScatterv = 16,
    /// An exchange of all with all whose blocks differ in length; a rank knows those that it sends and those it gets.
    Alltoallv = 17,
}

/// The algorithms. The numbers are those of the C ABI and of the wire: never changed, never reused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Algorithm {
    /// Ring reduce-scatter and ring allgather (Patarasuk and Yuan, J. Parallel Distrib. Comput. 69, 2009).
    Ring = 1,
    /// Whoever has something sends it straight to whoever needs it, who reduces in rank order.
    Direct = 2,
    /// Recursive doubling, with the fold for sizes that are no power of two (Thakur, Rabenseifner, Gropp 2005); scans by
    /// doubling distances (Hillis and Steele 1986).
    Doubling = 3,
    /// A binomial tree.
    Binomial = 4,
    /// Dissemination (Hensgen, Finkel, Manber 1988).
    Dissemination = 5,
    /// Circulant reduce-scatter, allgather, or both (Träff 2024; Bruck et al. 1997): any size, ceil(log2 p) rounds.
    Circulant = 6,
    /// Halving of vectors and distances, then doubling of both (Rabenseifner 2004).
    Rabenseifner = 7,
    /// As Rabenseifner's, with the nearest partner first: operands combine in rank order.
    Halving = 8,
    /// A k-nomial tree; `degree` is k.
    Knomial = 9,
    /// A chain through which the data flows in segments.
    Chain = 10,
    /// Bruck's exchange of all with all in ceil(log2 p) rounds (Bruck et al. 1997).
    Bruck = 11,
    /// Every pair of ranks exchanges its part; `degree` messages at once are under way to a rank.
    Pairwise = 12,
    /// Parallel aggregated trees (Jeaugey 2025, arXiv 2506.20252): any size, ceil(log2 p) rounds.
    Pat = 13,
}

/// All that a plan depends on: its key in a cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Shape {
    /// What is done.
    pub collective: Collective,
    /// How.
    pub algorithm: Algorithm,
    /// Members.
    pub size: u32,
    /// Which member this plan is for.
    pub rank: u32,
    /// The root, 0 where there is none.
    pub root: u32,
    /// Whether input i is output i.
    pub in_place: bool,
    /// Buffers per rank (allreduce_multi), else 1.
    pub buffers: u16,
    /// The algorithm's parameter (the radix of a k-nomial tree, the messages at once of a pairwise exchange); 0 for an
    /// algorithm that has none.
    pub degree: u16,
}

/// What one rank does in one collective.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Plan {
    /// What it was made from.
    pub shape: Shape,
    /// Logical blocks of the layout.
    pub blocks: u32,
    /// Scratch slots that it uses.
    pub scratch: u32,
    /// The steps, in the order that says who touched a range first.
    pub steps: Vec<Step>,
}
