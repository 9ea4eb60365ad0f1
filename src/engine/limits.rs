//! How much of everything the engine takes at once.
//!
//! All ranks of an endpoint have the same limits: those that shape the wire are in the fingerprint. Unit tests cut them
//! small, so that small buffers meet every path.
#![forbid(unsafe_code)]

use crate::link::frame::HEADER_BYTES;

/// Bounds in bytes, unless they say otherwise.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Messages up to this size are sent at once, on credits.
    pub eager: usize,
    /// Largest payload of a frame while no other operation waits for the link.
    pub frame_alone: usize,
    /// Largest payload of a frame while another one waits.
    pub frame_shared: usize,
    /// Payload up to this size is copied behind its header, so that several frames leave in one call.
    pub copied: usize,
    /// What may stand in a link's output before it is written.
    pub output: usize,
    /// What a peer may have parked here, and we there, on one link.
    pub credits: usize,
    /// A grant grows by at least this much, or to the end of its message.
    pub extend: usize,
    /// A plan with scratch runs on slices of at most this size.
    pub slice: usize,
    /// Local work (copies, reductions) is done in pieces of this size, with a look at the network in between.
    pub chore: usize,
    /// A link's input buffer.
    pub input: usize,
    /// Ordered operations of one world that are under way at once; later ones wait here, in order.
    pub active_operations: usize,
    /// Frames of one world and peer that may wait for their operation to be called here. The operations that are under
    /// way at once have an eighth as many steps together, so that those who keep the protocol stay below: a step has
    /// at most two slices with two grants each.
    pub early_frames: usize,
    /// Operations of an endpoint that may be incomplete at once where keys or tags match them: they are never kept in
    /// a queue, so the call beyond fails. Of one peer's frames for such operations twice as many may wait here.
    pub unordered_operations: usize,
    /// A receive that has heard nothing for so many nanoseconds says what it waits for.
    pub waiting_after_ns: u64,
    /// How long a closing endpoint waits for its peers to take what was sent, in nanoseconds.
    pub linger_ns: u64,
    /// The longest time between two questions to a peer that an operation waits for; `u64::MAX`: no peer is lost for
    /// its silence.
    pub heartbeat_ns: u64,
    /// A peer that was asked, and says nothing for so long, is lost; `u64::MAX`: never.
    pub silence_ns: u64,
}

impl Limits {
    /// What a frame costs in credits beside its payload: what the receiver keeps of it.
    pub const FRAME_CREDITS: usize = HEADER_BYTES;

    /// The share of a link's credits that one world may hold.
    #[must_use]
    pub fn world_credits(&self) -> usize {
        self.credits / 2
    }
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            eager: 32 << 10,
            frame_alone: 256 << 10,
            frame_shared: 64 << 10,
            copied: 4 << 10,
            output: 64 << 10,
            credits: 256 << 10,
            extend: 64 << 10,
            slice: 256 << 10,
            chore: 1 << 20,
            input: 128 << 10,
            active_operations: 256,
            early_frames: 1 << 16,
            unordered_operations: 1 << 20,
            waiting_after_ns: 20_000_000,
            linger_ns: 1_000_000_000,
            heartbeat_ns: 10_000_000_000,
            silence_ns: 30_000_000_000,
        }
    }
}
