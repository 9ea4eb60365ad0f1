//! Connections of the victim: the addresses that ranks exchange, its sockets, and who is at the other end of one.

use std::fs;
use std::io;
use std::mem;
use std::net::{SocketAddr, TcpStream};
use std::os::fd::{AsRawFd, FromRawFd, RawFd};

use super::play::Rank;
use super::scenario::Draw;
use crate::ranks;

/// The ports of the proxy, by the rank before which it listens; before the victim for the others.
pub(crate) const PROXIES: &str = "COLLECT_FAULT_PROXIES";

/// How an address of loopback begins in what ranks exchange; the port follows.
const LOOPBACK: [u8; 5] = [4, 127, 0, 0, 1];

/// What a rank shows the others of itself; the victim, a proxy's port in place of its own.
pub(crate) fn introduce(mine: &[u8], rank: &Rank) -> Vec<u8> {
    let mut mine = mine.to_vec();
    if !rank.scenario.is_proxied() {
        return mine;
    }
    let port = port_of(&mine).to_string();
    let folder = ranks::folder();
    let draft = folder.join(format!("draft of port.{}", rank.rank));
    fs::write(&draft, port).unwrap();
    fs::rename(draft, folder.join(format!("port.{}", rank.rank))).unwrap();
    if rank.rank == rank.scenario.victim {
        set_port(&mut mine, proxies()[rank.rank]);
    }
    mine
}

/// What a rank sees of another; the victim, a proxy's port.
pub(crate) fn as_seen((other, mut bytes): (usize, Vec<u8>), rank: &Rank) -> Vec<u8> {
    let is_victim = rank.rank == rank.scenario.victim;
    if rank.scenario.is_proxied() && is_victim && other != rank.rank {
        set_port(&mut bytes, proxies()[other]);
    }
    bytes
}

fn proxies() -> Vec<u16> {
    let ports = std::env::var(PROXIES).unwrap();
    ports.split(',').map(|port| port.parse().unwrap()).collect()
}

/// Where ports are.
fn places(bytes: &[u8]) -> Vec<usize> {
    let windows = bytes.windows(LOOPBACK.len()).enumerate();
    windows.filter(|(_, window)| *window == LOOPBACK).map(|(at, _)| at + LOOPBACK.len()).collect()
}

fn port_of(bytes: &[u8]) -> u16 {
    let at = *places(bytes).first().expect("a rank listens on loopback");
    u16::from_le_bytes([bytes[at], bytes[at + 1]])
}

fn set_port(bytes: &mut [u8], port: u16) {
    for at in places(bytes) {
        bytes[at..at + 2].copy_from_slice(&port.to_le_bytes());
    }
}

/// This process's end of a connection.
#[derive(Debug)]
pub(crate) struct End {
    fd: RawFd,
    pub(crate) own_port: u16,
    pub(crate) other_port: u16,
}

impl End {
    /// One of the connections of this process, if it has any.
    pub(crate) fn any(draw: &mut Draw) -> Option<Self> {
        let entries = fs::read_dir("/proc/self/fd").ok()?.flatten();
        let numbers = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
        let mut ends: Vec<Self> = numbers.filter_map(Self::of).collect();
        ends.sort_by_key(|end| end.fd);
        (!ends.is_empty()).then(|| ends.swap_remove(draw.below(ends.len())))
    }

    fn of(fd: RawFd) -> Option<Self> {
        // SAFETY: it is only asked for its addresses, and not closed.
        let stream = mem::ManuallyDrop::new(unsafe { TcpStream::from_raw_fd(fd) });
        let port = |address: io::Result<SocketAddr>| Some(address.ok()?.port());
        let (own_port, other_port) = (port(stream.local_addr())?, port(stream.peer_addr())?);
        Some(Self { fd: stream.as_raw_fd(), own_port, other_port })
    }

    /// Ends the connection at once: the peer gets a reset.
    pub(crate) fn reset(&self) {
        let nowhere = libc::sockaddr { sa_family: libc::AF_UNSPEC as u16, sa_data: [0; 14] };
        let bytes = size_of_val(&nowhere) as libc::socklen_t;
        // SAFETY: the address is as long as it says. The engine is not there to close the descriptor meanwhile, or a
        // failure is harmless.
        let reset = unsafe { libc::connect(self.fd, &raw const nowhere, bytes) };
        assert_eq!(reset, 0, "{}", io::Error::last_os_error());
    }
}

/// Which of some processes has the connection between these ports of loopback, at the end of the first port.
pub(crate) fn owner(pids: &[u32], own_port: u16, other_port: u16) -> Option<usize> {
    // This thread's, which may be in a namespace of its own.
    let table = fs::read_to_string("/proc/thread-self/net/tcp").ok()?;
    let line = |line: &str| {
        let mut words = line.split_whitespace().skip(1);
        let (own, other) = (words.next()?, words.next()?);
        let port = |address: &str| u16::from_str_radix(address.split(':').nth(1)?, 16).ok();
        let inode = words.nth(6)?;
        (port(own)? == own_port && port(other)? == other_port).then(|| inode.to_owned())
    };
    let inode = table.lines().skip(1).find_map(line)?;
    let wanted = format!("socket:[{inode}]");
    pids.iter().position(|pid| {
        let entries = fs::read_dir(format!("/proc/{pid}/fd"));
        let mut entries = entries.into_iter().flatten().flatten();
        entries.any(|entry| fs::read_link(entry.path()).is_ok_and(|to| to.as_os_str() == &*wanted))
    })
}
