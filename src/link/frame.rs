//! Frames: what the engine writes to a link.
//!
//! A frame is a header of [`HEADER_BYTES`] bytes, little-endian, closed by its CRC32C, and `length` bytes of payload.
//! [`Header::decode`] is the only reader: it trusts nothing, so that a fuzzer can call it. Who sends which kind, and
//! what its fields mean, stands at [`Kind`].
#![forbid(unsafe_code)]

use std::fmt;

/// Bytes of a header.
pub const HEADER_BYTES: usize = 96;

/// The most payload that a frame may carry.
pub const PAYLOAD_BYTES_MAX: usize = 1 << 20;

/// Spoken by this library. Peers of another version are refused by the handshake; a frame of one is an error.
pub const PROTOCOL_VERSION: u8 = 3;

const MAGIC: u32 = u32::from_le_bytes(*b"CLCT");

/// What a frame is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Kind {
    /// Payload of a message within its grant: bytes `offset..offset + length` of `message`.
    Data = 1,
    /// A whole small message, sent on credits: `length` is `message`.
    Eager = 2,
    /// From the receiver of a message: bytes up to `offset` of `message` may be sent.
    Grant = 3,
    /// From the sender of a small message that has no credits: please grant.
    Request = 4,
    /// From a rank that waits for a message: this is the operation I mean.
    Waiting = 5,
    /// Only brings credits.
    Credit = 6,
    /// The world (class fork: that one fork) has failed; the payload says why.
    Abort = 7,
    /// The sender has left the world; it sends nothing more in it.
    Goodbye = 8,
    /// The sender does not know the world any more; the payload says why, if it failed.
    Reset = 9,
    /// The sender's endpoint closes: the last frame on this link. `operation` counts those before it.
    Farewell = 10,
    /// From a rank that has waited for a while: where are you in this operation, and whom do you wait for?
    Ping = 11,
    /// The answer, and again whenever it changes: `slice` says where the sender is, the other fields whom it waits for.
    Pong = 12,
}

/// How the operations of a world are numbered: each class apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum Class {
    /// Collectives, in the order of submission.
    Ordered = 1,
    /// Forks, by a number derived from the members and how many forks they have made.
    Fork = 2,
    /// Frames that belong to no operation.
    Control = 3,
    /// Collectives by a key of the caller's; `operation` is the key, `turn` its use.
    Keyed = 4,
    /// Messages from the lower rank of a pair to the higher one; `operation` is the tag, `turn` counts the messages of
    /// that pair, direction and tag.
    Upward = 5,
    /// Messages from the higher rank of a pair to the lower one.
    Downward = 6,
}

impl Class {
    /// Whether it is point to point: the pair is part of the name.
    #[must_use]
    pub fn is_message(self) -> bool {
        matches!(self, Self::Upward | Self::Downward)
    }
}

/// What two ranks must agree on in an operation, in the first frame of any kind between them.
///
/// The small fields are there so that a message can name both sides; `hash` covers all that they do not tell.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Fingerprint {
    /// The collective's number.
    pub collective: u8,
    /// The type's number, 0 for none.
    pub datatype: u8,
    /// The reduction's number, 0 for none.
    pub op: u8,
    /// The algorithm's number.
    pub algorithm: u8,
    /// The root, 0 for none.
    pub root: u32,
    /// Elements.
    pub count: u64,
    /// Of everything else: buffers, slicing, eager limit, plan revision.
    pub hash: u64,
}

/// The fixed part of a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Header {
    /// What it is for.
    pub kind: Kind,
    /// Whose numbering `operation` is of.
    pub class: Class,
    /// The world.
    pub world: u64,
    /// The operation's number in its class, or its key or tag.
    pub operation: u64,
    /// Which use of its key or tag it is, counted from 0; else 0.
    pub turn: u64,
    /// The slice of the operation.
    pub slice: u32,
    /// The message's number among those of this pair in this slice.
    pub ordinal: u32,
    /// Bytes of the message before this frame; a grant's limit.
    pub offset: u64,
    /// Bytes of the whole message.
    pub message: u64,
    /// The message has no elements: its one byte only says so.
    pub is_token: bool,
    /// Bytes of payload that follow.
    pub length: u32,
    /// Credits of this world that come back, in bytes.
    pub credits: u32,
    /// CRC32C of the payload in a world that checks it, and of the reason of a failure in every world; else 0.
    pub checksum: u32,
    /// What the sender means by the operation.
    pub fingerprint: Fingerprint,
}

/// Why bytes are no header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BadFrame {
    /// They begin with something else.
    Magic(u32),
    /// They are of another version.
    Version(u8),
    /// The checksum differs: bytes were altered under way.
    Checksum,
    /// A number that names no kind, class or flag.
    Unknown,
    /// Lengths contradict each other.
    Lengths,
}

impl fmt::Display for BadFrame {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Magic(found) => write!(f, "a frame begins with {found:#010x}"),
            Self::Version(found) => {
                write!(f, "a frame of protocol version {found}, here it is {PROTOCOL_VERSION}")
            }
            Self::Checksum => f.write_str("a frame's header has a wrong checksum"),
            Self::Unknown => f.write_str("a frame of an unknown kind"),
            Self::Lengths => f.write_str("a frame whose lengths contradict each other"),
        }
    }
}

impl Header {
    /// A header without an operation.
    #[must_use]
    pub fn control(kind: Kind, world: u64) -> Self {
        Self {
            kind,
            class: Class::Control,
            world,
            operation: 0,
            turn: 0,
            slice: 0,
            ordinal: 0,
            offset: 0,
            message: 0,
            is_token: false,
            length: 0,
            credits: 0,
            checksum: 0,
            fingerprint: Fingerprint::default(),
        }
    }

    /// Its bytes.
    #[must_use]
    pub fn encode(&self) -> [u8; HEADER_BYTES] {
        let mut out = Writer { bytes: [0; HEADER_BYTES], at: 0 };
        out.put(&MAGIC.to_le_bytes());
        out.put(&[PROTOCOL_VERSION, self.kind as u8, self.class as u8, u8::from(self.is_token)]);
        out.put(&self.world.to_le_bytes());
        out.put(&self.operation.to_le_bytes());
        out.put(&self.slice.to_le_bytes());
        out.put(&self.ordinal.to_le_bytes());
        out.put(&self.offset.to_le_bytes());
        out.put(&self.message.to_le_bytes());
        out.put(&self.length.to_le_bytes());
        out.put(&self.credits.to_le_bytes());
        let mine = &self.fingerprint;
        out.put(&[mine.collective, mine.datatype, mine.op, mine.algorithm]);
        out.put(&mine.root.to_le_bytes());
        out.put(&mine.count.to_le_bytes());
        out.put(&mine.hash.to_le_bytes());
        out.put(&self.turn.to_le_bytes());
        out.put(&self.checksum.to_le_bytes());
        let sum = crc32c::crc32c(&out.bytes[..HEADER_BYTES - 4]);
        out.put(&sum.to_le_bytes());
        out.bytes
    }

    /// Reads a header.
    ///
    /// # Errors
    ///
    /// The bytes are not one that this version could have written.
    pub fn decode(bytes: &[u8; HEADER_BYTES]) -> Result<Self, BadFrame> {
        let mut from = Reader { bytes, at: 0 };
        let magic = u32::from_le_bytes(from.take());
        if magic != MAGIC {
            return Err(BadFrame::Magic(magic));
        }
        let [version, kind, class, token] = from.take();
        if version != PROTOCOL_VERSION {
            return Err(BadFrame::Version(version));
        }
        let (body, sum) = bytes.split_at(HEADER_BYTES - 4);
        if crc32c::crc32c(body).to_le_bytes() != *sum {
            return Err(BadFrame::Checksum);
        }
        let mut header = Self {
            kind: kind_of(kind).ok_or(BadFrame::Unknown)?,
            class: class_of(class).ok_or(BadFrame::Unknown)?,
            world: u64::from_le_bytes(from.take()),
            operation: u64::from_le_bytes(from.take()),
            turn: 0,
            slice: u32::from_le_bytes(from.take()),
            ordinal: u32::from_le_bytes(from.take()),
            offset: u64::from_le_bytes(from.take()),
            message: u64::from_le_bytes(from.take()),
            is_token: token == 1,
            length: u32::from_le_bytes(from.take()),
            credits: u32::from_le_bytes(from.take()),
            checksum: 0,
            fingerprint: {
                let [collective, datatype, op, algorithm] = from.take();
                Fingerprint {
                    collective,
                    datatype,
                    op,
                    algorithm,
                    root: u32::from_le_bytes(from.take()),
                    count: u64::from_le_bytes(from.take()),
                    hash: u64::from_le_bytes(from.take()),
                }
            },
        };
        header.turn = u64::from_le_bytes(from.take());
        header.checksum = u32::from_le_bytes(from.take());
        if token > 1 {
            return Err(BadFrame::Unknown);
        }
        if header.lengths_agree() { Ok(header) } else { Err(BadFrame::Lengths) }
    }

    /// Whether the lengths fit the kind: payload only where there may be some, and inside its message.
    fn lengths_agree(&self) -> bool {
        let length = u64::from(self.length);
        let end = self.offset.checked_add(length);
        let fits = end.is_some_and(|end| end <= self.message);
        match self.kind {
            Kind::Data => length > 0 && fits && self.length as usize <= PAYLOAD_BYTES_MAX,
            Kind::Eager => {
                self.offset == 0
                    && length == self.message
                    && self.length as usize <= PAYLOAD_BYTES_MAX
            }
            Kind::Grant => length == 0 && self.offset > 0 && fits,
            Kind::Abort | Kind::Reset => self.length as usize <= REASON_BYTES_MAX,
            Kind::Request
            | Kind::Waiting
            | Kind::Credit
            | Kind::Goodbye
            | Kind::Farewell
            | Kind::Ping
            | Kind::Pong => length == 0,
        }
    }
}

/// The most bytes of an encoded reason (a failure's kind, rank and text).
pub const REASON_BYTES_MAX: usize = 1024;

fn kind_of(number: u8) -> Option<Kind> {
    use Kind::{
        Abort, Credit, Data, Eager, Farewell, Goodbye, Grant, Ping, Pong, Request, Reset, Waiting,
    };
    let all =
        [Data, Eager, Grant, Request, Waiting, Credit, Abort, Goodbye, Reset, Farewell, Ping, Pong];
    all.into_iter().find(|kind| *kind as u8 == number)
}

fn class_of(number: u8) -> Option<Class> {
    use Class::{Control, Downward, Fork, Keyed, Ordered, Upward};
    let all = [Ordered, Fork, Control, Keyed, Upward, Downward];
    all.into_iter().find(|class| *class as u8 == number)
}

struct Writer {
    bytes: [u8; HEADER_BYTES],
    at: usize,
}

impl Writer {
    fn put(&mut self, field: &[u8]) {
        self.bytes[self.at..self.at + field.len()].copy_from_slice(field);
        self.at += field.len();
    }
}

struct Reader<'a> {
    bytes: &'a [u8; HEADER_BYTES],
    at: usize,
}

impl Reader<'_> {
    fn take<const N: usize>(&mut self) -> [u8; N] {
        let mut field = [0; N];
        field.copy_from_slice(&self.bytes[self.at..self.at + N]);
        self.at += N;
        field
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn example() -> Header {
        Header {
            class: Class::Ordered,
            operation: u64::MAX,
            turn: 0x1122_3344_5566_7788,
            slice: 7,
            ordinal: 9,
            offset: 4,
            message: 12,
            length: 8,
            credits: 3,
            checksum: 11,
            fingerprint: Fingerprint {
                collective: 1,
                datatype: 2,
                op: 3,
                algorithm: 4,
                root: 5,
                count: 6,
                hash: 7,
            },
            ..Header::control(Kind::Data, 0x0123_4567_89ab_cdef)
        }
    }

    #[test]
    fn what_is_encoded_is_decoded() {
        assert_eq!(Header::decode(&example().encode()), Ok(example()));
    }

    #[test]
    fn every_flipped_bit_is_noticed() {
        for bit in 0..HEADER_BYTES * 8 {
            let mut bytes = example().encode();
            bytes[bit / 8] ^= 1 << (bit % 8);
            assert!(Header::decode(&bytes).is_err(), "bit {bit}");
        }
    }

    #[test]
    fn lengths_that_contradict_are_refused() {
        let beyond = Header { offset: u64::MAX, ..example() };
        assert_eq!(Header::decode(&beyond.encode()), Err(BadFrame::Lengths));
        let payload = Header { kind: Kind::Credit, ..example() };
        assert_eq!(Header::decode(&payload.encode()), Err(BadFrame::Lengths));
    }

    proptest! {
        #[test]
        fn random_bytes_never_panic(bytes in proptest::collection::vec(any::<u8>(), HEADER_BYTES)) {
            let bytes: [u8; HEADER_BYTES] = bytes.try_into().expect("as many");
            prop_assert!(Header::decode(&bytes).is_err());
        }
    }
}
