//! A client's connection at the server: what it has sent, and what it is still to be sent. Never blocks.

use std::io::{self, ErrorKind, Read, Write};
use std::net::TcpStream;
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Instant;

use super::proof::{self, Side, Token, Transcript};
use super::protocol::{
    CLIENT_NONCE_BYTES, GREETING_BYTES, HELLO_BYTES, INSTANCE_BYTES, LENGTH_BYTES, MAGIC,
    PROOF_BYTES, Reply, Request, VERDICT_BYTES, WELCOME, WRONG_TOKEN, frame_bytes,
};
use super::table::Value;
use crate::link::syscall::fork::{Registration, close_in_child};
use crate::link::syscall::poll::Interest;
use crate::link::syscall::socket::{SHORTAGE_PAUSE, is_shortage};

/// How much one connection may read before others have their turn.
pub(super) const TURN_BYTES: usize = 64 << 10;

/// A connection.
#[derive(Debug)]
pub(super) struct Connection {
    /// A child of fork(2) would hide the server's end from the client.
    _registration: Registration,
    socket: TcpStream,
    phase: Phase,
    /// A part of what the client sends next, never more than that.
    input: Vec<u8>,
    output: Output,
    /// The key that its get waits for.
    pub(super) waiting: Option<String>,
    /// The system has no memory for it now, so that it is not looked at until then.
    pub(super) rests_until: Option<Instant>,
}

#[derive(Debug)]
enum Phase {
    /// Nothing is known of the client; it is dropped at `until`.
    Unproven { greeting: [u8; GREETING_BYTES], until: Instant },
    /// It knows the token.
    Proven,
    /// It does not, and is closed when it has been told so, or at `until`.
    Refused { until: Instant },
}

#[derive(Debug, Default)]
struct Output {
    start: Vec<u8>,
    rest: Option<Value>,
    sent: usize,
}

/// The connection is over: its end, an error, or bytes that no client of ours sends.
#[derive(Debug)]
pub(super) struct Over;

impl From<io::Error> for Over {
    fn from(_: io::Error) -> Self {
        Self
    }
}

impl Connection {
    /// Greets a new client.
    pub(super) fn new(
        socket: TcpStream,
        instance: [u8; INSTANCE_BYTES],
        until: Instant,
    ) -> io::Result<Self> {
        let mut greeting = [0; GREETING_BYTES];
        let nonce = proof::random::<{ GREETING_BYTES - MAGIC.len() - INSTANCE_BYTES }>()?;
        greeting[..MAGIC.len()].copy_from_slice(&MAGIC);
        greeting[MAGIC.len()..][..INSTANCE_BYTES].copy_from_slice(&instance);
        greeting[MAGIC.len() + INSTANCE_BYTES..].copy_from_slice(&nonce);
        let output = Output { start: greeting.to_vec(), ..Output::default() };
        let phase = Phase::Unproven { greeting, until };
        let _registration = close_in_child(socket.as_fd())?;
        let input = Vec::new();
        Ok(Self { _registration, socket, phase, input, output, waiting: None, rests_until: None })
    }

    pub(super) fn descriptor(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    pub(super) fn is_proven(&self) -> bool {
        matches!(self.phase, Phase::Proven)
    }

    /// When it is dropped if nothing happens.
    pub(super) fn until(&self) -> Option<Instant> {
        match self.phase {
            Phase::Proven => None,
            Phase::Unproven { until, .. } | Phase::Refused { until } => Some(until),
        }
    }

    /// While there is something to be sent, nothing is read: a client that does not read its replies waits for itself.
    pub(super) fn interest(&self) -> Interest {
        if self.output.is_sent() { Interest::Readable } else { Interest::Writable }
    }

    /// Does what the socket is ready for. True: a request is complete.
    pub(super) fn advance(&mut self, token: &Token, scratch: &mut [u8]) -> Result<bool, Over> {
        self.rests_until = None;
        if !self.output.is_sent() {
            self.flush()?;
            return Ok(false);
        }
        let wanted = self.wanted()?.min(TURN_BYTES).min(scratch.len());
        let read = match self.socket.read(&mut scratch[..wanted]) {
            Ok(0) => return Err(Over),
            Ok(read) => read,
            Err(e) if matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {
                return Ok(false);
            }
            Err(e) if is_shortage(&e) => {
                self.rest();
                return Ok(false);
            }
            Err(e) => return Err(e.into()),
        };
        // A client that waits for a reply has nothing to say, nor has one that was refused.
        if self.waiting.is_some() || matches!(self.phase, Phase::Refused { .. }) {
            return Err(Over);
        }
        self.take(&scratch[..read])?;
        if !self.is_proven() {
            self.check_hello(token)?;
            return Ok(false);
        }
        Ok(self.wanted()? == 0)
    }

    /// The complete request; `None` if its bytes are none.
    pub(super) fn request(&self) -> Option<Request<'_>> {
        Request::decode(self.input.get(LENGTH_BYTES..)?)
    }

    /// Sends a reply to the request, which is done with.
    pub(super) fn reply(&mut self, reply: Reply) -> Result<(), Over> {
        let (start, rest) = reply.encode();
        self.waiting = None;
        self.output = Output { start, rest, sent: 0 };
        self.flush()
    }

    /// Forgets the request's bytes, and gives a large one's memory back.
    pub(super) fn clear_request(&mut self) {
        self.input.clear();
        self.input.shrink_to(TURN_BYTES);
    }

    /// How many bytes are missing from what the client sends now.
    fn wanted(&self) -> Result<usize, Over> {
        let whole = match (&self.phase, self.input.first_chunk()) {
            (Phase::Unproven { .. }, _) => HELLO_BYTES,
            // Its end, or a byte too many.
            (Phase::Refused { .. }, _) => return Ok(1),
            (Phase::Proven, None) => LENGTH_BYTES,
            (Phase::Proven, Some(length)) => LENGTH_BYTES + frame_bytes(*length).ok_or(Over)?,
        };
        // A waiting client's request is cleared: what would be a next one ends the connection.
        Ok(whole - self.input.len())
    }

    /// Keeps what was read. Grows with what arrives, not with what is announced, and not beyond that.
    fn take(&mut self, bytes: &[u8]) -> Result<(), Over> {
        let whole = self.input.len() + self.wanted()?;
        let needed = self.input.len() + bytes.len();
        if needed > self.input.capacity() {
            let capacity = (2 * self.input.capacity()).clamp(needed, whole.max(needed));
            self.input.reserve_exact(capacity - self.input.len());
        }
        self.input.extend_from_slice(bytes);
        Ok(())
    }

    fn check_hello(&mut self, token: &Token) -> Result<(), Over> {
        let Phase::Unproven { greeting, until } = &self.phase else { return Err(Over) };
        let magic = self.input.len().min(MAGIC.len());
        if self.input[..magic] != MAGIC[..magic] {
            return Err(Over);
        }
        let Some(hello) = self.input.first_chunk::<HELLO_BYTES>() else { return Ok(()) };
        let (client_nonce, client_proof) = hello[MAGIC.len()..]
            .split_first_chunk::<CLIENT_NONCE_BYTES>()
            .expect("a hello is longer than a nonce");
        let transcript = Transcript { greeting, client_nonce };
        let mut verdict = [0; VERDICT_BYTES];
        self.phase = if token.verify(Side::Client, transcript, client_proof) {
            verdict[0] = WELCOME;
            let proof: [u8; PROOF_BYTES] = token.prove(Side::Server, transcript);
            verdict[1..].copy_from_slice(&proof);
            Phase::Proven
        } else {
            verdict[0] = WRONG_TOKEN;
            Phase::Refused { until: *until }
        };
        self.clear_request();
        self.output = Output { start: verdict.to_vec(), ..Output::default() };
        self.flush()
    }

    fn flush(&mut self) -> Result<(), Over> {
        while !self.output.is_sent() {
            // One buffer at a time: std sends with MSG_NOSIGNAL, but writes vectors without.
            match self.socket.write(self.output.unsent()) {
                Ok(0) => return Err(Over),
                Ok(sent) => self.output.sent += sent,
                Err(e) if e.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                Err(e) if is_shortage(&e) => {
                    self.rest();
                    return Ok(());
                }
                Err(e) => return Err(e.into()),
            }
        }
        self.output = Output::default();
        Ok(())
    }

    fn rest(&mut self) {
        self.rests_until = Some(Instant::now() + SHORTAGE_PAUSE);
    }
}

impl Output {
    fn is_sent(&self) -> bool {
        self.unsent().is_empty()
    }

    fn unsent(&self) -> &[u8] {
        match self.start.get(self.sent..) {
            Some(start) if !start.is_empty() => start,
            _ => {
                let rest = self.rest.as_deref().unwrap_or_default();
                rest.get(self.sent.saturating_sub(self.start.len())..).unwrap_or_default()
            }
        }
    }
}
