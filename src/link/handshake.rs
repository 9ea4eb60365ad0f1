//! The handshake by which the two ends of a fresh connection prove to each other that they belong to one run.
//!
//! A state machine without I/O. The dialler sends a hello, the acceptor answers with its own, the dialler proves that
//! it knows the key, the acceptor proves last: a stranger gets no proof to work on. A proof is HMAC-SHA256 over the
//! direction and both hellos (version, endpoint, purpose, ranks, sizes, offers, nonces), compared in constant time;
//! one's own nonce or rank coming back is refused. Each end reads at most [`BYTES_MAX`] bytes before it trusts.
//! This keeps strangers out; it does not protect against someone who reads or alters the traffic.
#![forbid(unsafe_code)]

#[cfg(test)]
mod tests;

use std::fmt;

use hkdf::Hkdf;
use hmac::{Hmac, Mac};
use sha2::Sha256;

use crate::error::Error;

/// What this build speaks.
pub const VERSION: u16 = 2;

/// What an end reads at most: a hello and a proof.
pub const BYTES_MAX: usize = HELLO_BYTES + PROOF_BYTES;

const MAGIC: [u8; 4] = *b"COLL";
const HELLO_BYTES: usize = 56;
const PROOF_BYTES: usize = 32;

/// A key that all members of a run share.
#[derive(Clone, PartialEq, Eq)]
pub struct Key([u8; 32]);

impl Key {
    /// Derives the key of the run with this nonce from the secret in its store (HKDF-SHA256).
    #[must_use]
    pub fn new(secret: &[u8], run: &[u8; 16]) -> Self {
        let mut key = [0; 32];
        let derived =
            Hkdf::<Sha256>::new(Some(run), secret).expand(b"libcollect handshake", &mut key);
        debug_assert!(derived.is_ok(), "32 bytes are a valid length for HKDF-SHA256");
        Self(key)
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Key(..)")
    }
}

/// What a connection is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Purpose {
    /// To become the link between two ranks.
    Link,
    /// To join the run, at its rank 0.
    Join,
    /// To learn whether rank 0 of a run that left a record in the store is alive. The dialler has no rank.
    Probe,
}

impl Purpose {
    fn code(self) -> u8 {
        match self {
            Self::Link => 1,
            Self::Join => 2,
            Self::Probe => 3,
        }
    }
}

/// Who this end is.
#[derive(Debug, Clone)]
pub struct Identity {
    /// What all members share.
    pub key: Key,
    /// The run's nonce, which names the endpoint's root world.
    pub run: [u8; 16],
    /// The rank in that world.
    pub rank: usize,
    /// Its size.
    pub size: usize,
}

/// Who the other end is, proved.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Peer {
    /// Its rank, as it says. Below the size for a link; anything for a join; no meaning for a probe.
    pub rank: usize,
    /// The size of its world, as it says. Equal to this end's for a link.
    pub size: usize,
    /// What it wants.
    pub purpose: Purpose,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Hello,
    Proof,
    Done,
}

/// One end of a handshake.
pub struct Handshake {
    identity: Identity,
    dials: bool,
    purpose: Purpose,
    /// Whom a dialler expects; for an acceptor, who has dialled.
    target: usize,
    nonce: [u8; 16],
    state: State,
    input: [u8; HELLO_BYTES],
    filled: usize,
    /// The peer's hello, once it has come.
    theirs: [u8; HELLO_BYTES],
    ours: [u8; HELLO_BYTES],
    output: Vec<u8>,
    peer: Option<Peer>,
}

impl fmt::Debug for Handshake {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut f = f.debug_struct("Handshake");
        f.field("dials", &self.dials).field("purpose", &self.purpose);
        f.field("state", &self.state).field("peer", &self.peer).finish_non_exhaustive()
    }
}

impl Handshake {
    /// The end that has connected, to reach rank `target`.
    ///
    /// # Errors
    ///
    /// The system has no random bytes.
    pub fn dial(identity: &Identity, purpose: Purpose, target: usize) -> Result<Self, Error> {
        let mut this = Self::new(identity, true, purpose, target)?;
        this.say_hello();
        Ok(this)
    }

    /// The end that was connected to. `purpose` is what it accepts; where it accepts a join, also a probe.
    ///
    /// # Errors
    ///
    /// The system has no random bytes.
    pub fn accept(identity: &Identity, purpose: Purpose) -> Result<Self, Error> {
        Self::new(identity, false, purpose, usize::MAX)
    }

    fn new(i: &Identity, dials: bool, purpose: Purpose, target: usize) -> Result<Self, Error> {
        let mut nonce = [0; 16];
        getrandom::fill(&mut nonce)
            .map_err(|error| Error::System(format!("random bytes for a handshake: {error}")))?;
        Ok(Self {
            identity: i.clone(),
            dials,
            purpose,
            target,
            nonce,
            state: State::Hello,
            input: [0; HELLO_BYTES],
            filled: 0,
            theirs: [0; HELLO_BYTES],
            ours: [0; HELLO_BYTES],
            output: Vec::with_capacity(BYTES_MAX),
            peer: None,
        })
    }

    /// Bytes to send now. They stay until [`Handshake::sent`] is told.
    #[must_use]
    pub fn output(&self) -> &[u8] {
        &self.output
    }

    /// Tells that so many bytes of the output are on their way.
    pub fn sent(&mut self, bytes: usize) {
        self.output.drain(..bytes.min(self.output.len()));
    }

    /// Bytes to read before anything more can happen; 0 when the peer is known. Reading more would take what follows.
    #[must_use]
    pub fn wanted(&self) -> usize {
        self.message_bytes() - self.filled
    }

    /// The other end, once it has proved that it knows the key. The last output may still have to be sent.
    #[must_use]
    pub fn peer(&self) -> Option<Peer> {
        self.peer
    }

    /// Takes received bytes; returns how many, which is less than all only when the handshake is complete. After an
    /// error the output, if there is any, still goes to the peer, so that it learns why.
    ///
    /// # Errors
    ///
    /// [`Error::Mismatch`] if the peer speaks another version; [`Error::PeerLost`] if it is not whom we look for.
    pub fn feed(&mut self, bytes: &[u8]) -> Result<usize, Error> {
        let mut taken = 0;
        while self.state != State::Done && taken < bytes.len() {
            let count = self.wanted().min(bytes.len() - taken);
            self.input[self.filled..self.filled + count]
                .copy_from_slice(&bytes[taken..taken + count]);
            self.filled += count;
            taken += count;
            if self.state == State::Hello {
                self.check_version()?;
            }
            if self.wanted() == 0 {
                self.filled = 0;
                self.message()?;
            }
        }
        Ok(taken)
    }

    fn message_bytes(&self) -> usize {
        match self.state {
            State::Hello => HELLO_BYTES,
            State::Proof => PROOF_BYTES,
            State::Done => 0,
        }
    }

    /// Magic and version stand first in every version's hello, and are checked before the rest has come.
    fn check_version(&mut self) -> Result<(), Error> {
        let known = self.filled.min(MAGIC.len());
        if self.input[..known] != MAGIC[..known] {
            return Err(self.refuse("does not speak libcollect's protocol"));
        }
        if self.filled < 6 {
            return Ok(());
        }
        let version = u16::from_le_bytes([self.input[4], self.input[5]]);
        if version == VERSION {
            return Ok(());
        }
        if !self.dials {
            self.say_hello();
        }
        Err(Error::Mismatch(format!(
            "the peer speaks version {version} of libcollect's protocol, this process version {VERSION}: \
             use one version of libcollect in all processes"
        )))
    }

    fn message(&mut self) -> Result<(), Error> {
        match self.state {
            State::Hello => self.hello(),
            State::Proof => self.proof(),
            State::Done => Ok(()),
        }
    }

    fn hello(&mut self) -> Result<(), Error> {
        self.theirs = self.input;
        let hello = Hello::read(&self.theirs);
        self.check(&hello)?;
        if self.dials {
            let proof = self.mac(true).finalize().into_bytes();
            self.output.extend_from_slice(&proof);
        } else {
            self.target = hello.rank as usize;
            self.purpose = self.purpose_of(hello.purpose);
            self.say_hello();
        }
        self.state = State::Proof;
        Ok(())
    }

    fn check(&self, hello: &Hello) -> Result<(), Error> {
        let own = self.identity.rank;
        let probes = self.purpose_of(hello.purpose) == Purpose::Probe;
        if hello.purpose != self.purpose_of(hello.purpose).code() {
            return Err(self.refuse("wants something else than is served here"));
        }
        if hello.run != self.identity.run {
            return Err(self.refuse("belongs to another run, or to another world"));
        }
        if hello.nonce == self.nonce {
            return Err(self.refuse("sent this process's own nonce back"));
        }
        if hello.target as usize != own && !(probes && self.dials) {
            return Err(
                self.refuse(&format!("looks for rank {}, not for rank {own}", hello.target))
            );
        }
        if probes && !self.dials {
            return Ok(());
        }
        if hello.rank as usize == own && !probes {
            return Err(self.refuse(&format!("claims rank {own}, this process's own")));
        }
        if self.dials && hello.rank as usize != self.target {
            let (rank, target) = (hello.rank, self.target);
            return Err(self.refuse(&format!("is rank {rank}, not rank {target}")));
        }
        if self.purpose != Purpose::Link {
            return Ok(());
        }
        if hello.size as usize != self.identity.size || hello.rank >= hello.size {
            let (rank, theirs, ours) = (hello.rank, hello.size, self.identity.size);
            let text = format!("claims rank {rank} of {theirs}, in a world of {ours}");
            return Err(self.refuse(&text));
        }
        Ok(())
    }

    fn proof(&mut self) -> Result<(), Error> {
        let proof = &self.input[..PROOF_BYTES];
        if self.mac(!self.dials).verify_slice(proof).is_err() {
            return Err(self.refuse("does not know the run's key"));
        }
        if !self.dials {
            let proof = self.mac(false).finalize().into_bytes();
            self.output.extend_from_slice(&proof);
        }
        let hello = Hello::read(&self.theirs);
        let (rank, size) = (hello.rank as usize, hello.size as usize);
        self.peer = Some(Peer { rank, size, purpose: self.purpose });
        self.state = State::Done;
        Ok(())
    }

    /// The purpose that a hello with this code has here: our own, unless it is a probe of one that serves joins.
    fn purpose_of(&self, code: u8) -> Purpose {
        let probed = self.purpose == Purpose::Join && code == Purpose::Probe.code();
        if probed && !self.dials { Purpose::Probe } else { self.purpose }
    }

    fn say_hello(&mut self) {
        // Ranks and sizes are far below 2^32; a rank that is not is refused by its peer.
        let narrow = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
        let probes = self.dials && self.purpose == Purpose::Probe;
        let rank = if probes { u32::MAX } else { narrow(self.identity.rank) };
        let hello = Hello {
            purpose: self.purpose.code(),
            run: self.identity.run,
            rank,
            size: narrow(self.identity.size),
            target: narrow(self.target),
            offer: 0,
            nonce: self.nonce,
        };
        self.ours = hello.write();
        self.output.extend_from_slice(&self.ours);
    }

    fn mac(&self, by_dialler: bool) -> Hmac<Sha256> {
        let (first, second) =
            if self.dials { (&self.ours, &self.theirs) } else { (&self.theirs, &self.ours) };
        // An HMAC key may have any length; with this fixed one the fallible constructor is not needed.
        let mut mac = <Hmac<Sha256> as hmac::digest::KeyInit>::new(&block(&self.identity.key));
        mac.update(if by_dialler { b"dial" } else { b"acpt" });
        mac.update(first);
        mac.update(second);
        mac
    }

    /// Why the other end is not taken. An acceptor does not know yet who it is.
    fn refuse(&self, why: &str) -> Error {
        if self.dials {
            let rank = self.target;
            Error::PeerLost { rank, text: format!("what answered in place of rank {rank} {why}") }
        } else {
            Error::Mismatch(format!("the connecting process {why}"))
        }
    }
}

/// The key as one block of SHA-256, filled with zeroes as HMAC does itself.
fn block(key: &Key) -> hmac::digest::Key<Hmac<Sha256>> {
    let mut block = hmac::digest::Key::<Hmac<Sha256>>::default();
    for (to, from) in block.iter_mut().zip(key.0) {
        *to = from;
    }
    block
}

/// The first message of each side.
struct Hello {
    purpose: u8,
    run: [u8; 16],
    rank: u32,
    size: u32,
    /// The rank of whom it is meant for.
    target: u32,
    /// Bits for later: transports and features. Proved by both, so that nobody between can lower them.
    offer: u32,
    nonce: [u8; 16],
}

impl Hello {
    fn write(&self) -> [u8; HELLO_BYTES] {
        let mut bytes = [0; HELLO_BYTES];
        bytes[..4].copy_from_slice(&MAGIC);
        bytes[4..6].copy_from_slice(&VERSION.to_le_bytes());
        bytes[6] = self.purpose;
        bytes[8..24].copy_from_slice(&self.run);
        for (at, number) in [(24, self.rank), (28, self.size), (32, self.target), (36, self.offer)]
        {
            bytes[at..at + 4].copy_from_slice(&number.to_le_bytes());
        }
        bytes[40..].copy_from_slice(&self.nonce);
        bytes
    }

    fn read(bytes: &[u8; HELLO_BYTES]) -> Self {
        let number = |at: usize| {
            u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
        };
        let (mut run, mut nonce) = ([0; 16], [0; 16]);
        run.copy_from_slice(&bytes[8..24]);
        nonce.copy_from_slice(&bytes[40..]);
        Self {
            purpose: bytes[6],
            run,
            rank: number(24),
            size: number(28),
            target: number(32),
            offer: number(36),
            nonce,
        }
    }
}
