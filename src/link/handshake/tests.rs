//! Both ends in one thread, bytes carried by hand.

use super::*;
use proptest::prelude::*;

fn identity(rank: usize, size: usize) -> Identity {
    let run = [7; 16];
    Identity { key: Key::new(b"secret", &run), run, rank, size }
}

/// Runs both ends until neither has anything to say, `chunk` bytes at a time.
fn run(a: &mut Handshake, b: &mut Handshake, chunk: usize) -> Result<(), Error> {
    while !a.output().is_empty() || !b.output().is_empty() {
        for dials in [true, false] {
            let (from, to) = if dials { (&mut *a, &mut *b) } else { (&mut *b, &mut *a) };
            let bytes: Vec<u8> = from.output().iter().copied().take(chunk).collect();
            from.sent(bytes.len());
            assert_eq!(to.feed(&bytes)?, bytes.len());
        }
    }
    Ok(())
}

fn pair(dialler: &Identity, target: usize, acceptor: &Identity) -> Result<(), Error> {
    let mut a = Handshake::dial(dialler, Purpose::Link, target)?;
    let mut b = Handshake::accept(acceptor, Purpose::Link)?;
    run(&mut a, &mut b, 64)
}

#[test]
fn both_ends_learn_who_the_other_is() {
    for chunk in [1, 3, 64] {
        let mut a = Handshake::dial(&identity(2, 5), Purpose::Link, 4).unwrap();
        let mut b = Handshake::accept(&identity(4, 5), Purpose::Link).unwrap();
        run(&mut a, &mut b, chunk).unwrap();
        let purpose = Purpose::Link;
        assert_eq!(a.peer(), Some(Peer { rank: 4, size: 5, purpose }));
        assert_eq!(b.peer(), Some(Peer { rank: 2, size: 5, purpose }));
        assert_eq!((a.wanted(), b.feed(b"frame").unwrap()), (0, 0), "took what follows");
    }
}

#[test]
fn a_join_may_claim_any_rank_and_a_probe_has_none() {
    let mut a = Handshake::dial(&identity(9, 11), Purpose::Join, 0).unwrap();
    let mut b = Handshake::accept(&identity(0, 5), Purpose::Join).unwrap();
    run(&mut a, &mut b, 64).unwrap();
    assert_eq!(b.peer(), Some(Peer { rank: 9, size: 11, purpose: Purpose::Join }));
    let mut a = Handshake::dial(&identity(0, 5), Purpose::Probe, 0).unwrap();
    let mut b = Handshake::accept(&identity(0, 5), Purpose::Join).unwrap();
    run(&mut a, &mut b, 64).unwrap();
    assert_eq!(b.peer().map(|peer| peer.purpose), Some(Purpose::Probe));
    assert_eq!(a.peer().map(|peer| peer.rank), Some(0));
}

#[test]
fn who_is_not_meant_is_refused() {
    let wrong_key = Identity { key: Key::new(b"guess", &[7; 16]), ..identity(0, 4) };
    let wrong_run = Identity { run: [8; 16], ..identity(0, 4) };
    for (dialler, target, acceptor, why) in [
        (wrong_key.clone(), 1, identity(1, 4), "key"),
        (identity(1, 4), 0, wrong_key, "key"),
        (wrong_run, 1, identity(1, 4), "another run"),
        (identity(1, 4), 2, identity(3, 4), "not for rank 3"),
        (identity(1, 4), 1, identity(1, 4), "own"),
        (identity(1, 3), 0, identity(0, 4), "in a world of 4"),
        (identity(4, 4), 0, identity(0, 4), "rank 4 of 4"),
    ] {
        let error = pair(&dialler, target, &acceptor).unwrap_err().to_string();
        assert!(error.contains(why), "{error} (expected {why})");
    }
}

#[test]
fn a_hello_reflected_is_refused() {
    let mut a = Handshake::dial(&identity(1, 4), Purpose::Link, 1).unwrap();
    let hello = a.output().to_vec();
    let error = a.feed(&hello).unwrap_err();
    assert!(error.to_string().contains("own nonce"), "{error}");
}

#[test]
fn another_version_is_named_on_both_sides() {
    let mut a = Handshake::dial(&identity(1, 4), Purpose::Link, 0).unwrap();
    let mut b = Handshake::accept(&identity(0, 4), Purpose::Link).unwrap();
    let mut newer = a.output().to_vec();
    newer[4..6].copy_from_slice(&7_u16.to_le_bytes());
    let error = b.feed(&newer).unwrap_err();
    assert!(matches!(&error, Error::Mismatch(text) if text.contains("version 7")), "{error}");
    assert!(error.to_string().contains("version 2"), "{error}");
    let mut answer = b.output().to_vec();
    answer[4..6].copy_from_slice(&7_u16.to_le_bytes());
    assert!(a.feed(&answer[..6]).unwrap_err().to_string().contains("version 7"));
}

#[test]
fn every_altered_bit_is_noticed() {
    for bit in 0..BYTES_MAX * 8 {
        let mut a = Handshake::dial(&identity(1, 4), Purpose::Link, 0).unwrap();
        let mut b = Handshake::accept(&identity(0, 4), Purpose::Link).unwrap();
        let mut position = 0;
        let noticed = (0..3).any(|_| {
            let mut bytes = a.output().to_vec();
            if let Some(byte) =
                (bit / 8usize).checked_sub(position).and_then(|at| bytes.get_mut(at))
            {
                *byte ^= 1 << (bit % 8);
            }
            position += bytes.len();
            a.sent(bytes.len());
            let refused = b.feed(&bytes).is_err();
            let answer = b.output().to_vec();
            b.sent(answer.len());
            refused || a.feed(&answer).is_err()
        });
        assert!(noticed, "bit {bit}");
    }
}

proptest! {
    #[test]
    fn random_bytes_never_pass(bytes in proptest::collection::vec(any::<u8>(), 0..300), good in 0..56_usize) {
        for dials in [true, false] {
            let mut end = if dials {
                Handshake::dial(&identity(1, 4), Purpose::Link, 0).unwrap()
            } else {
                Handshake::accept(&identity(0, 4), Purpose::Link).unwrap()
            };
            let hello = Handshake::dial(&identity(1, 4), Purpose::Link, 0).unwrap();
            let mut input = hello.output()[..good].to_vec();
            input.extend_from_slice(&bytes);
            let _ = end.feed(&input);
            prop_assert!(end.peer().is_none());
        }
    }
}
