//! Reaching rank 0: all its addresses at once, the first that passes the handshake wins.
#![forbid(unsafe_code)]

use std::net::SocketAddr;
use std::os::fd::AsFd;
use std::time::Instant;

use crate::error::Error;
use crate::link::handshake::{Identity, Purpose};
use crate::link::syscall::epoll::{Epoll, Ready};
use crate::link::syscall::socket::SHORTAGE_PAUSE;
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
                let watched = epoll.add(half.as_fd(), open.len() as u64);
                watched.map_err(|e| Error::watch(format!("the connection to {address}"), &e))?;
                open.push(Some(half));
            }
            Err(failure) => cause = failure.error,
        }
    }
    let mut ready = [Ready::EMPTY; 32];
    while open.iter().any(Option::is_some) {
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(unanswered(&open));
        }
        let is_short = |half: &HalfOpen| half.is_short();
        let rests = open.iter().flatten().any(is_short);
        let limit = if rests { left.min(SHORTAGE_PAUSE) } else { left };
        let count = epoll.wait(&mut ready, Some(limit)).map_err(failed)?;
        let rested = (0..open.len()).filter(|&at| open[at].as_ref().is_some_and(is_short));
        let rested: Vec<usize> = rested.collect();
        for at in ready[..count].iter().map(|event| event.token() as usize).chain(rested) {
            let Some(slot) = open.get_mut(at) else { continue };
            match slot.as_mut().map(HalfOpen::advance) {
                Some(Ok(Some(_))) => return slot.take().ok_or(cause),
                Some(Err(failure)) => {
                    cause = failure.error;
                    *slot = None;
                }
                _ => {}
            }
        }
    }
    Err(cause)
}

/// Time is over, and these connections have come to nothing.
fn unanswered(open: &[Option<HalfOpen>]) -> Error {
    let open = open.iter().flatten();
    let each: Vec<String> =
        open.map(|half| format!("{}: {}", half.address(), half.awaits())).collect();
    let text = format!("rank 0 does not answer ({})", each.join("; "));
    Error::TimedOut { rank: Some(0), text }
}
