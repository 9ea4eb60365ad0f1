//! Mutual proof that both sides know the token: HMAC-SHA256 over both sides' random numbers.
//!
//! The two directions have different labels, so that a proof cannot be sent back; the version in the greeting is
//! proven with it. A store without a token uses the empty one. What follows the proof is neither encrypted nor signed.

use std::fmt;
use std::io;

use hmac::{Hmac, Mac};
use sha2::{Digest, Sha256};

use super::protocol::{CLIENT_NONCE_BYTES, GREETING_BYTES, PROOF_BYTES};
use crate::error::Error;

/// A shared secret. It is never printed.
///
/// Kept as its hash: HMAC fills short keys up with zeros, so that `x` and `x\0` would be the same.
#[derive(Clone)]
pub(super) struct Token([u8; 32]);

/// Whose proof it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Side {
    Client,
    Server,
}

/// What both sides know before the proofs: the server's greeting and the client's nonce.
#[derive(Debug, Clone, Copy)]
pub(super) struct Transcript<'a> {
    pub(super) greeting: &'a [u8; GREETING_BYTES],
    pub(super) client_nonce: &'a [u8; CLIENT_NONCE_BYTES],
}

impl Token {
    /// An empty token is most likely a variable that was not set: it must not open a store to everybody.
    pub(super) fn new(token: Option<Vec<u8>>) -> Result<Self, Error> {
        match token {
            Some(token) if token.is_empty() => {
                Err(Error::InvalidArgument("a store token must not be empty".to_owned()))
            }
            token => Ok(Self(Sha256::digest(token.unwrap_or_default()).into())),
        }
    }

    pub(super) fn prove(&self, side: Side, transcript: Transcript<'_>) -> [u8; PROOF_BYTES] {
        self.mac(side, transcript).finalize().into_bytes().into()
    }

    /// Takes the same time for every wrong proof.
    pub(super) fn verify(&self, side: Side, transcript: Transcript<'_>, proof: &[u8]) -> bool {
        self.mac(side, transcript).verify_slice(proof).is_ok()
    }

    fn mac(&self, side: Side, transcript: Transcript<'_>) -> Hmac<Sha256> {
        let label: &[u8] = match side {
            Side::Client => b"libcollect store client",
            Side::Server => b"libcollect store server",
        };
        <Hmac<Sha256> as Mac>::new_from_slice(&self.0)
            .expect("HMAC takes keys of any length")
            .chain_update(label)
            .chain_update(transcript.greeting)
            .chain_update(transcript.client_nonce)
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token(...)")
    }
}

/// Bytes that nobody can guess.
pub(super) fn random<const N: usize>() -> io::Result<[u8; N]> {
    let mut bytes = [0; N];
    getrandom::fill(&mut bytes).map_err(|e| io::Error::other(e.to_string()))?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_proof_holds_for_its_token_side_and_transcript_only() {
        let token = |text: &str| Token::new(Some(text.into())).unwrap();
        let (greeting, client_nonce) = ([1; GREETING_BYTES], [2; CLIENT_NONCE_BYTES]);
        let here = Transcript { greeting: &greeting, client_nonce: &client_nonce };
        let other = Transcript { greeting: &[3; GREETING_BYTES], ..here };
        let proof = token("a").prove(Side::Client, here);
        assert!(token("a").verify(Side::Client, here, &proof));
        assert!(!token("a").verify(Side::Server, here, &proof));
        assert!(!token("a").verify(Side::Client, other, &proof));
        for other in ["b", "a\0", "aa"] {
            assert!(!token(other).verify(Side::Client, here, &proof));
        }
        assert!(!Token::new(None).unwrap().verify(Side::Client, here, &proof));
        assert!(!token("a").verify(Side::Client, here, &proof[..31]));
    }

    #[test]
    fn a_token_is_never_empty_and_never_printed() {
        assert!(Token::new(Some(Vec::new())).is_err());
        let token = Token::new(Some(b"secret".to_vec())).unwrap();
        assert_eq!(format!("{token:?}"), "Token(...)");
    }
}
