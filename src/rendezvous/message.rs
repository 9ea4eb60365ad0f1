//! Messages between a member and rank 0 on an authenticated socket: length, kind, content.
//!
//! An inbox reads exactly one message and nothing beyond, since frames of the link follow on the same socket. Both ends
//! of a socket that the system has no memory for now are to be tried again a little later, since no event will tell.
#![forbid(unsafe_code)]

use std::io::{self, IoSlice, IoSliceMut};

use crate::error::Error;
use crate::link::syscall::socket::is_shortage;
use crate::link::tcp::socket::Socket;

/// A member's record.
pub(super) const JOIN: u8 = 1;
/// The table.
pub(super) const TABLE: u8 = 2;
/// Why there is none.
pub(super) const REFUSED: u8 = 3;

/// Bytes of a member's record at most.
pub(super) const JOIN_BYTES_MAX: usize = 16 * 1024;
/// Bytes of a table at most: the largest world with all addresses that a rank may have.
pub(super) const TABLE_BYTES_MAX: usize = 64 << 20;

const HEADER_BYTES: usize = 5;
/// Bytes set aside before they come.
const CHUNK_BYTES: usize = 64 * 1024;

/// A message on its way in.
#[derive(Debug, Default)]
pub(super) struct Inbox {
    bytes: Vec<u8>,
    /// It is to be tried again without an event.
    pub(super) is_short: bool,
}

impl Inbox {
    /// Reads on. Returns kind and content once the message is whole; then the inbox is empty for the next.
    pub(super) fn receive(
        &mut self,
        socket: &Socket,
        max: usize,
    ) -> Result<Option<(u8, Vec<u8>)>, Error> {
        self.is_short = false;
        loop {
            let whole = self.whole(max)?;
            let filled = self.bytes.len();
            if filled >= HEADER_BYTES && filled == whole {
                let content = self.bytes.split_off(HEADER_BYTES);
                return Ok(std::mem::take(&mut self.bytes).get(4).map(|&kind| (kind, content)));
            }
            self.bytes.resize(whole.min(filled + CHUNK_BYTES), 0);
            let read = socket.read(&mut [IoSliceMut::new(&mut self.bytes[filled..])]);
            self.bytes.truncate(filled + *read.as_ref().unwrap_or(&0));
            match read {
                Ok(0) => return Err(Error::System("the connection was closed".into())),
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(None),
                Err(error) if is_shortage(&error) => {
                    self.is_short = true;
                    return Ok(None);
                }
                Err(error) => return Err(Error::system("receive", &error)),
            }
        }
    }

    /// Bytes of the whole message, as far as it is known: at first the header's.
    fn whole(&self, max: usize) -> Result<usize, Error> {
        let Some(&[a, b, c, d, _]) = self.bytes.first_chunk::<HEADER_BYTES>() else {
            return Ok(HEADER_BYTES);
        };
        let content = u32::from_le_bytes([a, b, c, d]) as usize;
        if content > max {
            return Err(Error::System(format!("a message of {content} bytes, more than {max}")));
        }
        Ok(HEADER_BYTES + content)
    }
}

/// Messages on their way out.
#[derive(Debug, Default)]
pub(super) struct Outbox {
    bytes: Vec<u8>,
    sent: usize,
    /// It is to be tried again without an event.
    pub(super) is_short: bool,
}

impl Outbox {
    pub(super) fn put(&mut self, kind: u8, content: &[u8]) {
        let length = u32::try_from(content.len()).unwrap_or(u32::MAX);
        self.bytes.extend_from_slice(&length.to_le_bytes());
        self.bytes.push(kind);
        self.bytes.extend_from_slice(content);
    }

    /// Sends on. Returns whether nothing is left.
    pub(super) fn flush(&mut self, socket: &Socket) -> Result<bool, Error> {
        self.is_short = false;
        while self.sent < self.bytes.len() {
            match socket.write(&[IoSlice::new(&self.bytes[self.sent..])]) {
                Ok(count) => self.sent += count,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(false),
                Err(error) if is_shortage(&error) => {
                    self.is_short = true;
                    return Ok(false);
                }
                Err(error) => return Err(Error::system("send", &error)),
            }
        }
        Ok(true)
    }
}

/// In the place of the rank at fault, if it is not known.
const NOBODY: u32 = u32::MAX;

/// An error as the content of `REFUSED`: code, rank at fault, text.
pub(super) fn write_refusal(error: &Error) -> Vec<u8> {
    let code = match error {
        Error::Mismatch(_) => 1,
        Error::TimedOut { .. } => 2,
        Error::InvalidArgument(_) => 3,
        _ => 4,
    };
    let rank = error.rank().and_then(|rank| u32::try_from(rank).ok()).unwrap_or(NOBODY);
    [&[code], &rank.to_le_bytes()[..], error.to_string().as_bytes()].concat()
}

/// The error that rank 0 told.
pub(super) fn read_refusal(content: &[u8]) -> Error {
    let (code, rest) = content.split_first().unwrap_or((&0, &[]));
    let (rank, text) = rest.split_first_chunk().unwrap_or((&[u8::MAX; 4], rest));
    let rank = Some(u32::from_le_bytes(*rank)).filter(|rank| *rank != NOBODY);
    let text = String::from_utf8_lossy(text).into_owned();
    match code {
        1 => Error::Mismatch(text),
        2 => Error::TimedOut { rank: rank.map(|rank| rank as usize), text },
        3 => Error::InvalidArgument(text),
        _ => Error::System(text),
    }
}
