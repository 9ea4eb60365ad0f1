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
mod interface;
mod layout;
mod name;
mod verify;

#[cfg(test)]
mod tests;

pub use build::{CONTRIBUTIONS_MAX, build};
pub use choose::{algorithms, choose};
pub use layout::Layout;
pub use verify::{Fault, verify};

/// Raised whenever an algorithm's messages or its order of reduction change: ranks that differ in it do not match.
pub const REVISION: u32 = 1;

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
/// or output. A scratch slot is always one stride long.
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
        Self { buffer, slot: block, block, blocks: 1 }
    }

    /// Block 0 in a slot of scratch.
    #[must_use]
    pub fn scratch(slot: u32) -> Self {
        Self { buffer: Buffer::Scratch, slot, block: 0, blocks: 1 }
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
}

/// The algorithms. The numbers are those of the C ABI and of the wire: never changed, never reused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Algorithm {
    /// Ring reduce-scatter and ring allgather (Patarasuk and Yuan, J. Parallel Distrib. Comput. 69, 2009).
    Ring = 1,
    /// Every rank sends all to all and reduces in rank order.
    Direct = 2,
    /// Recursive doubling, with the fold for sizes that are no power of two (Thakur, Rabenseifner, Gropp 2005).
    Doubling = 3,
    /// A binomial tree.
    Binomial = 4,
    /// Dissemination (Hensgen, Finkel, Manber 1988).
    Dissemination = 5,
    /// Circulant reduce-scatter, allgather, or both (Träff 2024; Bruck et al. 1997): any size, ceil(log2 p) rounds.
    Circulant = 6,
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
}

impl Shape {
    /// Whether the plans of some ranks of this collective have scratch, so that all ranks run it slice by slice.
    #[must_use]
    pub fn uses_scratch(&self) -> bool {
        match self.algorithm {
            Algorithm::Direct | Algorithm::Doubling | Algorithm::Dissemination => true,
            Algorithm::Binomial => self.collective == Collective::Reduce,
            Algorithm::Ring | Algorithm::Circulant => false,
        }
    }
}

/// What one rank does in one collective.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Plan {
    /// What it was made from.
    pub shape: Shape,
    /// Logical blocks of the layout.
    pub blocks: u32,
    /// Scratch slots that it uses. A plan with scratch has one block, so that it can run on slices of it.
    pub scratch: u32,
    /// The steps, in the order that says who touched a range first.
    pub steps: Vec<Step>,
}
