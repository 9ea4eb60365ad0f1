//! Failures on the wire: how the reason for a failed world is told to its members.
//!
//! One byte says which kind, four the rank that is at fault (if one is), and the rest is the text.
#![forbid(unsafe_code)]

use crate::error::Error;
use crate::link::frame::REASON_BYTES_MAX;

const TIMED_OUT: u8 = 1;
const MISMATCH: u8 = 2;
const PEER_LOST: u8 = 3;
const ABORTED: u8 = 4;
const INTERNAL: u8 = 5;

/// In the place of a rank: none is known.
const NOBODY: usize = u32::MAX as usize;

/// The payload of an Abort or a Reset. Appends to `out`; returns its length.
pub(super) fn encode(error: &Error, out: &mut Vec<u8>) -> u32 {
    let (kind, rank, text) = match error {
        Error::TimedOut { rank, text } => (TIMED_OUT, rank.unwrap_or(NOBODY), text.clone()),
        Error::Mismatch(text) => (MISMATCH, 0, text.clone()),
        Error::PeerLost { rank, text } => (PEER_LOST, *rank, text.clone()),
        Error::Aborted(text) => (ABORTED, 0, text.clone()),
        Error::Internal(text) => (INTERNAL, 0, text.clone()),
        other => (INTERNAL, 0, other.to_string()),
    };
    let mut end = text.len().min(REASON_BYTES_MAX - 5);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    out.push(kind);
    out.extend_from_slice(&u32::try_from(rank).unwrap_or(u32::MAX).to_le_bytes());
    out.extend_from_slice(&text.as_bytes()[..end]);
    u32::try_from(end + 5).unwrap_or(0)
}

/// What a peer says. Bytes that say nothing known are an abort without a reason.
pub(super) fn decode(payload: &[u8]) -> Error {
    let Some((head, text)) = payload.split_at_checked(5) else {
        return Error::Aborted("a member has failed and gave no reason".into());
    };
    let rank = u32::from_le_bytes([head[1], head[2], head[3], head[4]]) as usize;
    let text = String::from_utf8_lossy(text).into_owned();
    match head[0] {
        TIMED_OUT => Error::TimedOut { rank: (rank != NOBODY).then_some(rank), text },
        MISMATCH => Error::Mismatch(text),
        PEER_LOST => Error::PeerLost { rank, text },
        INTERNAL => Error::Internal(text),
        _ => Error::Aborted(text),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reasons_come_back() {
        for error in [
            Error::timed_out("late"),
            Error::TimedOut { rank: Some(2), text: "late".into() },
            Error::Mismatch("differ".into()),
            Error::PeerLost { rank: 3, text: "gone".into() },
            Error::Aborted("stop".into()),
            Error::Internal("bug".into()),
        ] {
            let mut bytes = Vec::new();
            assert_eq!(encode(&error, &mut bytes) as usize, bytes.len());
            assert_eq!(decode(&bytes), error);
        }
        let long = Error::Aborted("ü".repeat(2000));
        let mut bytes = Vec::new();
        assert!(encode(&long, &mut bytes) as usize <= REASON_BYTES_MAX);
        assert!(matches!(decode(&bytes), Error::Aborted(_)));
        assert!(matches!(decode(&[]), Error::Aborted(_)));
    }
}
