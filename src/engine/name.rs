//! How frames name an operation of a world, and tables by such names.
#![forbid(unsafe_code)]

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

use crate::link::frame::{Class, Header, Kind};

/// A table that is walked in the same order in every run, so that a simulated run repeats exactly.
pub(super) type Table<K, V> = HashMap<K, V, BuildHasherDefault<Mixer>>;

/// Hashes a few small numbers in as many multiplications: every frame is looked up. Names come from members, which have
/// proved that they belong here, so a hash that can be foreseen does no harm.
#[derive(Debug, Default)]
pub(super) struct Mixer(u64);

impl Hasher for Mixer {
    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.write_u64(u64::from(*byte)));
    }

    fn write_u32(&mut self, number: u32) {
        self.write_u64(u64::from(number));
    }

    fn write_isize(&mut self, number: isize) {
        self.write_u64(number.cast_unsigned() as u64);
    }

    fn write_u64(&mut self, number: u64) {
        self.0 = (self.0.rotate_left(23) ^ number).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }

    fn finish(&self) -> u64 {
        self.0 ^ (self.0 >> 32)
    }
}

/// An operation of a world, as all its ranks name it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Name {
    pub(super) class: Class,
    /// Its number in its class, its key, or its tag.
    pub(super) number: u64,
    /// Which use of the key or tag it is.
    pub(super) turn: u64,
    /// The other rank of a message; else 0.
    pub(super) partner: u32,
}

impl Name {
    /// An operation that its number alone names.
    pub(super) fn numbered(class: Class, number: u64) -> Self {
        Self { class, number, turn: 0, partner: 0 }
    }

    /// The operation that a frame from `rank` is for.
    pub(super) fn of(header: &Header, rank: u32) -> Self {
        let partner = if header.class.is_message() { rank } else { 0 };
        Self { class: header.class, number: header.operation, turn: header.turn, partner }
    }

    /// The header of a frame about it.
    pub(super) fn header(&self, kind: Kind, world: u64) -> Header {
        Header {
            class: self.class,
            operation: self.number,
            turn: self.turn,
            ..Header::control(kind, world)
        }
    }

    /// What its uses are counted by.
    pub(super) fn series(&self) -> (Class, u32, u64) {
        (self.class, self.partner, self.number)
    }
}
