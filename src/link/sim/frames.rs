//! A stream of frames, followed byte by byte: to print each header, and to alter a byte where a test wants it.
#![forbid(unsafe_code)]

use super::random::Random;
use crate::link::frame::{HEADER_BYTES, Header, Kind};

/// Which byte is altered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Spot {
    /// One of a header.
    Header(usize),
    /// One of the payload of the next frame that has some: the one of this number, counted round and round.
    Payload(usize),
}

impl Spot {
    pub(crate) fn random(random: &mut Random, has_checksums: bool) -> Self {
        if has_checksums && random.chance(60) {
            return Self::Payload(random.below(1 << 20));
        }
        Self::Header(random.below(HEADER_BYTES))
    }
}

/// Where in a stream of frames the next byte falls.
#[derive(Debug, Default)]
pub(super) struct Follower {
    header: Vec<u8>,
    /// The payload of the frame that is going by, and how much of it is still to come.
    length: usize,
    rest: usize,
    has_message: bool,
    /// What is to be altered.
    spot: Option<Spot>,
    /// A byte has been altered.
    pub(super) is_damaged: bool,
}

impl Follower {
    pub(super) fn damage(&mut self, spot: Spot) {
        self.spot = Some(spot);
    }

    /// Looks at what is written, and alters what is to be altered; `tell` is given each header.
    pub(super) fn follow(&mut self, mut bytes: &mut [u8], tell: impl Fn(&[u8; HEADER_BYTES])) {
        while !bytes.is_empty() {
            if self.rest > 0 {
                let count = self.rest.min(bytes.len());
                let (payload, after) = bytes.split_at_mut(count);
                self.alter_payload(payload);
                self.rest -= count;
                bytes = after;
                continue;
            }
            let at = self.header.len();
            let count = (HEADER_BYTES - at).min(bytes.len());
            let (part, after) = bytes.split_at_mut(count);
            self.header.extend_from_slice(part);
            self.alter_header(at, part);
            bytes = after;
            if let Ok(whole) = <&[u8; HEADER_BYTES]>::try_from(self.header.as_slice()) {
                tell(whole);
                if let Ok(header) = Header::decode(whole) {
                    self.length = header.length as usize;
                    self.rest = self.length;
                    self.has_message = matches!(header.kind, Kind::Data | Kind::Eager);
                }
                self.header.clear();
            }
        }
    }

    /// The part of a header that begins at `at`; its own copy stays as it was.
    fn alter_header(&mut self, at: usize, part: &mut [u8]) {
        let Some(Spot::Header(spot)) = self.spot else { return };
        if let Some(byte) = spot.checked_sub(at).and_then(|at| part.get_mut(at)) {
            *byte ^= 1 << (spot % 8);
            self.spot = None;
            self.is_damaged = true;
        }
    }

    fn alter_payload(&mut self, part: &mut [u8]) {
        let Some(Spot::Payload(number)) = self.spot.filter(|_| self.has_message) else { return };
        let spot = number % self.length;
        let at = self.length - self.rest;
        if let Some(byte) = spot.checked_sub(at).and_then(|at| part.get_mut(at)) {
            *byte ^= 1 << (number % 8);
            self.spot = None;
            self.is_damaged = true;
        }
    }
}

/// A header as text.
pub(super) fn describe(bytes: &[u8; HEADER_BYTES]) -> String {
    let header = match Header::decode(bytes) {
        Ok(header) => header,
        Err(bad) => return bad.to_string(),
    };
    if header.kind == Kind::Pong {
        let progress = ["", "running", "absent", "over"].get(header.slice as usize);
        let why = ["nobody", "absent", "mute", "silent"].get(header.message as usize);
        return format!(
            "Pong world {:x} {:?} {} turn {}: {progress:?}, called {}, blames {} {why:?} hops {}",
            header.world,
            header.class,
            header.operation,
            header.turn,
            header.fingerprint.count,
            header.ordinal,
            header.fingerprint.root
        );
    }
    format!(
        "{:?} world {:x} {:?} {} slice {} ordinal {} bytes {}+{} of {} credits {}",
        header.kind,
        header.world,
        header.class,
        header.operation,
        header.slice,
        header.ordinal,
        header.offset,
        header.length,
        header.message,
        header.credits
    )
}
