//! The bytes between client and server, all integers little-endian.
//!
//! Server: greeting, 8 magic (its last byte is the version) | 16 instance | 32 nonce. Client: 8 magic | 24 nonce | 32
//! proof. Server: 1 verdict | 32 proof. Then, any number of times, a request and its reply, each 4 length | 1 kind |
//! body; a connection carries one call at a time. A request's body is 2 key length | key | the rest by kind.
//!
//! A compare-and-set sends the length and the SHA-256 of what it expects, so that one value is the most that a request
//! carries.

use sha2::{Digest, Sha256};

use super::contract::{KEY_BYTES_MAX, VALUE_BYTES_MAX};
use super::table::Value;

pub(super) const VERSION: u8 = 1;
pub(super) const MAGIC: [u8; 8] = *b"COLSTOR\x01";
const _: () = assert!(MAGIC[7] == VERSION);

pub(super) const INSTANCE_BYTES: usize = 16;
pub(super) const GREETING_BYTES: usize = MAGIC.len() + INSTANCE_BYTES + 32;
pub(super) const CLIENT_NONCE_BYTES: usize = 24;
pub(super) const PROOF_BYTES: usize = 32;
/// All that a client may send before it is trusted.
pub(super) const HELLO_BYTES: usize = MAGIC.len() + CLIENT_NONCE_BYTES + PROOF_BYTES;
pub(super) const VERDICT_BYTES: usize = 1 + PROOF_BYTES;
pub(super) const WELCOME: u8 = 0;
pub(super) const WRONG_TOKEN: u8 = 1;

pub(super) const LENGTH_BYTES: usize = 4;
/// The most that a length may say: a key, a value, and what describes them (kind, key length, an expectation).
pub(super) const FRAME_BYTES_MAX: usize = VALUE_BYTES_MAX + KEY_BYTES_MAX + 64;

const EXPECTATION_BYTES: usize = 1 + 8 + 32;

/// What a compare-and-set expects.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Expected {
    Absent,
    Value { bytes: u64, sha256: [u8; 32] },
}

/// A request about a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Request<'a> {
    pub(super) key: &'a str,
    pub(super) call: Call<'a>,
}

/// What to do with the key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Call<'a> {
    Set(&'a [u8]),
    Get,
    Add(i64),
    CompareAndSet(Expected, &'a [u8]),
    Delete,
}

/// An answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Reply {
    /// The key is set, or was deleted.
    Done,
    /// The key is not there.
    Absent,
    /// What the key holds, or held.
    Value(Value),
    /// The sum.
    Number(i64),
    /// Nothing was done; why.
    Refused(String),
}

impl Expected {
    pub(super) fn new(value: Option<&[u8]>) -> Self {
        value.map_or(Self::Absent, |value| Self::Value {
            bytes: value.len() as u64,
            sha256: Sha256::digest(value).into(),
        })
    }

    pub(super) fn is_met_by(&self, held: Option<&[u8]>) -> bool {
        match (self, held) {
            (Self::Absent, None) => true,
            (Self::Value { bytes, sha256 }, Some(held)) => {
                *bytes == held.len() as u64 && *sha256 == <[u8; 32]>::from(Sha256::digest(held))
            }
            _ => false,
        }
    }

    fn encode(&self, bytes: &mut Vec<u8>) {
        let (there, length, sha256) = match self {
            Self::Absent => (0, 0, [0; 32]),
            Self::Value { bytes, sha256 } => (1, *bytes, *sha256),
        };
        bytes.push(there);
        bytes.extend_from_slice(&length.to_le_bytes());
        bytes.extend_from_slice(&sha256);
    }

    fn decode(bytes: &[u8; EXPECTATION_BYTES]) -> Option<Self> {
        let (there, rest) = bytes.split_first()?;
        let (length, sha256) = rest.split_first_chunk::<8>()?;
        match there {
            0 => Some(Self::Absent),
            1 => Some(Self::Value {
                bytes: u64::from_le_bytes(*length),
                sha256: sha256.try_into().ok()?,
            }),
            _ => None,
        }
    }
}

impl<'a> Request<'a> {
    /// The whole frame. The key and value must have been checked.
    pub(super) fn encode(&self) -> Vec<u8> {
        let mut body = vec![0; LENGTH_BYTES];
        body.push(match self.call {
            Call::Set(_) => 1,
            Call::Get => 2,
            Call::Add(_) => 3,
            Call::CompareAndSet(..) => 4,
            Call::Delete => 5,
        });
        let key_bytes = u16::try_from(self.key.len()).expect("a checked key is short");
        body.extend_from_slice(&key_bytes.to_le_bytes());
        body.extend_from_slice(self.key.as_bytes());
        match &self.call {
            Call::Set(value) => body.extend_from_slice(value),
            Call::Get | Call::Delete => {}
            Call::Add(amount) => body.extend_from_slice(&amount.to_le_bytes()),
            Call::CompareAndSet(expected, desired) => {
                expected.encode(&mut body);
                body.extend_from_slice(desired);
            }
        }
        let length = length_field(body.len() - LENGTH_BYTES);
        body[..LENGTH_BYTES].copy_from_slice(&length);
        body
    }

    /// Reads what follows the length; `None` if it is no request.
    pub(super) fn decode(frame: &'a [u8]) -> Option<Self> {
        let (kind, rest) = frame.split_first()?;
        let (key_bytes, rest) = rest.split_first_chunk::<2>()?;
        let (key, rest) = rest.split_at_checked(usize::from(u16::from_le_bytes(*key_bytes)))?;
        let key = std::str::from_utf8(key).ok()?;
        let call = match (kind, rest) {
            (1, value) => Call::Set(value),
            (2, []) => Call::Get,
            (3, amount) => Call::Add(i64::from_le_bytes(amount.try_into().ok()?)),
            (4, rest) => {
                let (expected, desired) = rest.split_first_chunk::<EXPECTATION_BYTES>()?;
                Call::CompareAndSet(Expected::decode(expected)?, desired)
            }
            (5, []) => Call::Delete,
            _ => return None,
        };
        Some(Self { key, call })
    }
}

impl Reply {
    /// The frame, as its start and what follows.
    pub(super) fn encode(self) -> (Vec<u8>, Option<Value>) {
        let (kind, short, long): (u8, Vec<u8>, Option<Value>) = match self {
            Self::Done => (0, Vec::new(), None),
            Self::Absent => (1, Vec::new(), None),
            Self::Value(value) => (2, Vec::new(), Some(value)),
            Self::Number(number) => (3, number.to_le_bytes().to_vec(), None),
            Self::Refused(text) => (4, text.into_bytes(), None),
        };
        let length = 1 + short.len() + long.as_ref().map_or(0, |long| long.len());
        let mut start = length_field(length).to_vec();
        start.push(kind);
        start.extend_from_slice(&short);
        (start, long)
    }

    /// Reads what follows the length; `None` if it is no reply.
    pub(super) fn decode(frame: &[u8]) -> Option<Self> {
        match frame.split_first()? {
            (0, []) => Some(Self::Done),
            (1, []) => Some(Self::Absent),
            (2, value) => Some(Self::Value(value.into())),
            (3, number) => Some(Self::Number(i64::from_le_bytes(number.try_into().ok()?))),
            (4, text) => Some(Self::Refused(String::from_utf8_lossy(text).into_owned())),
            _ => None,
        }
    }
}

/// The length of a frame that a peer announces; `None` if none has it.
pub(super) fn frame_bytes(field: [u8; LENGTH_BYTES]) -> Option<usize> {
    let length = usize::try_from(u32::from_le_bytes(field)).ok()?;
    (1..=FRAME_BYTES_MAX).contains(&length).then_some(length)
}

fn length_field(length: usize) -> [u8; LENGTH_BYTES] {
    u32::try_from(length).expect("keys and values are checked before").to_le_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn split(frame: &[u8]) -> &[u8] {
        let (field, rest) = frame.split_first_chunk().unwrap();
        assert_eq!(frame_bytes(*field), Some(rest.len()));
        rest
    }

    #[test]
    fn requests_and_replies_come_back_as_they_were() {
        let expected = Expected::new(Some(b"old"));
        let calls = [
            Call::Set(b"value"),
            Call::Get,
            Call::Add(-7),
            Call::CompareAndSet(expected, b"new"),
            Call::CompareAndSet(Expected::Absent, b""),
            Call::Delete,
        ];
        for call in calls {
            let request = Request { key: "kéy", call };
            assert_eq!(Request::decode(split(&request.encode())), Some(request));
        }
        let value = Value::from(&b"v"[..]);
        let refused = Reply::Refused("no".to_owned());
        for reply in [Reply::Done, Reply::Absent, Reply::Value(value), Reply::Number(-1), refused] {
            let (mut frame, long) = reply.clone().encode();
            frame.extend_from_slice(long.as_deref().unwrap_or_default());
            assert_eq!(Reply::decode(split(&frame)), Some(reply));
        }
    }

    #[test]
    fn an_expectation_is_met_by_the_same_bytes_only() {
        assert!(Expected::Absent.is_met_by(None));
        assert!(!Expected::Absent.is_met_by(Some(b"")));
        assert!(!Expected::new(Some(b"")).is_met_by(None));
        assert!(Expected::new(Some(b"")).is_met_by(Some(b"")));
        assert!(!Expected::new(Some(b"a")).is_met_by(Some(b"b")));
    }

    #[test]
    fn the_largest_request_fits_a_frame() {
        let (key, value) = ("k".repeat(KEY_BYTES_MAX), vec![0; VALUE_BYTES_MAX]);
        let call = Call::CompareAndSet(Expected::Absent, &value);
        split(&Request { key: &key, call }.encode());
        assert_eq!(frame_bytes([0; 4]), None);
        assert_eq!(frame_bytes([255; 4]), None);
    }

    proptest! {
        #[test]
        fn random_bytes_are_decoded_or_refused(
            kind in 0_u8..8, key in 0_u8..8, mut rest in proptest::collection::vec(any::<u8>(), 0..80),
        ) {
            if let Some(request) = Request::decode(&rest) {
                prop_assert!(request.key.len() <= rest.len());
            }
            let _ = Reply::decode(&rest);
            rest.splice(0..0, [kind, key, 0]);
            let _ = Request::decode(&rest);
            let _ = Reply::decode(&rest);
        }
    }
}
