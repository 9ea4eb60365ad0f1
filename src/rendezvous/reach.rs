//! Reaching rank 0: all its addresses at once, the first that passes the handshake wins.
#![forbid(unsafe_code)]

use std::net::SocketAddr;
use std::os::fd::AsFd;
use std::time::Instant;

use crate::error::Error;
use crate::link::handshake::{Identity, Purpose};
use crate::link::syscall::epoll::{Epoll, Ready};
use crate::link::tcp::half_open::HalfOpen;

/// Those of a rank's addresses by which it can be reached: on the same host one loopback address is enough, from
/// another host none will do.
pub(super) fn usable(addresses: Vec<SocketAddr>, same_host: bool) -> Vec<SocketAddr> {
    let loopback = addresses.iter().copied().find(|address| address.ip().is_loopback());
    match loopback {
        Some(address) if same_host => vec![address],
        _ => addresses.into_iter().filter(|address| !address.ip().is_loopback()).collect(),
    }
}

/// Connects to rank 0 and authenticates both ends.
pub(super) fn reach(
    addresses: &[SocketAddr],
    identity: &Identity,
    purpose: Purpose,
    until: Instant,
) -> Result<HalfOpen, Error> {
    let failed = |error| Error::system("wait for rank 0", &error);
    let epoll = Epoll::new().map_err(failed)?;
    let mut cause = Error::System(
        "rank 0 listens on loopback only, and is on another host (set LIBCOLLECT_LISTEN there)"
            .into(),
    );
    let mut open: Vec<Option<HalfOpen>> = Vec::new();
    for &address in addresses {
        match HalfOpen::dial(address, identity, purpose, 0) {
            Ok(half) => {
                epoll.add(half.as_fd(), open.len() as u64).map_err(failed)?;
                open.push(Some(half));
            }
            Err(error) => cause = error,
        }
    }
    let mut ready = [Ready::EMPTY; 32];
    while open.iter().any(Option::is_some) {
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(Error::TimedOut(format!("rank 0 ({addresses:?}) does not answer")));
        }
        let count = epoll.wait(&mut ready, Some(left)).map_err(failed)?;
        for event in &ready[..count] {
            let Some(slot) = open.get_mut(event.token() as usize) else { continue };
            match slot.as_mut().map(HalfOpen::advance) {
                Some(Ok(Some(_))) => return slot.take().ok_or(cause),
                Some(Err(error)) => {
                    cause = error;
                    *slot = None;
                }
                _ => {}
            }
        }
    }
    Err(cause)
}
