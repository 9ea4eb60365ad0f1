//! Messages between a member and rank 0 on an authenticated socket: length, kind, content.
//!
//! An inbox reads exactly one message and nothing beyond, since frames of the link follow on the same socket.
#![forbid(unsafe_code)]

use std::io::{self, IoSlice, IoSliceMut};

use crate::error::Error;
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
}

impl Inbox {
    /// Reads on. Returns kind and content once the message is whole; then the inbox is empty for the next.
    pub(super) fn receive(
        &mut self,
        socket: &Socket,
        max: usize,
    ) -> Result<Option<(u8, Vec<u8>)>, Error> {
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
        while self.sent < self.bytes.len() {
            match socket.write(&[IoSlice::new(&self.bytes[self.sent..])]) {
                Ok(count) => self.sent += count,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(false),
                Err(error) => return Err(Error::system("send", &error)),
            }
        }
        Ok(true)
    }
}

/// An error as the content of `REFUSED`.
pub(super) fn write_refusal(error: &Error) -> Vec<u8> {
    let code = match error {
        Error::Mismatch(_) => 1,
        Error::TimedOut(_) => 2,
        Error::InvalidArgument(_) => 3,
        _ => 4,
    };
    [&[code], error.to_string().as_bytes()].concat()
}

/// The error that rank 0 told.
pub(super) fn read_refusal(content: &[u8]) -> Error {
    let (code, text) = content.split_first().unwrap_or((&0, &[]));
    let text = String::from_utf8_lossy(text).into_owned();
    match code {
        1 => Error::Mismatch(text),
        2 => Error::TimedOut(text),
        3 => Error::InvalidArgument(text),
        _ => Error::System(text),
    }
}
