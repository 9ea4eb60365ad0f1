//! A caller's buffers in a test: guarded, compared with what they should hold, poisoned.
#![forbid(unsafe_code)]

use crate::memory::{Region, Target};

const GUARD: usize = 24;
const FENCE: u8 = 0xa5;
const POISON: u8 = 0x5a;
/// What an output holds before the call.
pub(super) const UNTOUCHED: u8 = 0xee;

/// A buffer between two fences.
#[derive(Debug)]
pub(super) struct Memory {
    bytes: Vec<u8>,
    start: usize,
    length: usize,
    /// What it must hold when its operation is complete.
    right: Vec<u8>,
}

impl Memory {
    pub(super) fn new(content: &[u8], shift: usize) -> Self {
        let start = GUARD + shift % 8;
        let mut bytes = vec![FENCE; start + content.len() + GUARD];
        bytes[start..start + content.len()].copy_from_slice(content);
        Self { bytes, start, length: content.len(), right: content.to_vec() }
    }

    /// Bytes from `at` on must become these; the rest must stay as it is.
    pub(super) fn expect(&mut self, at: usize, bytes: &[u8]) {
        self.right[at..at + bytes.len()].copy_from_slice(bytes);
    }

    /// The first byte that is not as it must be.
    pub(super) fn first_wrong(&self) -> Option<usize> {
        (0..self.length).find(|at| self.content()[*at] != self.right[*at])
    }

    pub(super) fn region(&mut self) -> Region {
        let end = self.start + self.length;
        Target::of(&mut self.bytes[self.start..end]).region()
    }

    pub(super) fn content(&self) -> &[u8] {
        &self.bytes[self.start..self.start + self.length]
    }

    /// Whether nobody has written beside it.
    pub(super) fn is_fenced(&self) -> bool {
        let end = self.start + self.length;
        self.bytes[..self.start].iter().chain(&self.bytes[end..]).all(|byte| *byte == FENCE)
    }

    /// As a caller who uses the buffer for something else.
    pub(super) fn poison(&mut self) {
        let end = self.start + self.length;
        self.bytes[self.start..end].fill(POISON);
    }

    pub(super) fn is_poisoned(&self) -> bool {
        self.is_fenced() && self.content().iter().all(|byte| *byte == POISON)
    }
}
