//! Rendezvous: how the ranks of a new world find each other, once.
//!
//! Rank 0 publishes one record in the store, every other rank reads it once and connects to rank 0 (`root`,
//! `member`): handshake, its own record, the whole table back. A clean start costs a member 1 store operation and
//! rank 0 2 (plus 1 for a stale record), and the bytes read from the store do not grow with the size. The connections
//! stay open as control links. Without a store the caller's own allgather does it ([`join_with`]); such a world starts
//! without links.
#![forbid(unsafe_code)]

mod exchange;
mod hosts;
mod member;
mod message;
mod reach;
mod record;
mod root;

#[cfg(test)]
mod tests;

use std::net::SocketAddr;
use std::time::{Duration, Instant};

pub use self::exchange::{Exchange, join_with};
pub use self::hosts::Hosts;
use self::record::{Entry, Member, Table};
use crate::error::Error;
use crate::link::Mesh;
use crate::link::handshake::{Identity, Key};
use crate::link::syscall::host::{host_identity, usable_cpus};
pub use crate::link::tcp::listener::ListenOptions;
use crate::link::tcp::listener::Listener;
use crate::link::tcp::socket::Socket;
use crate::link::tcp::{MeshOptions, TcpMesh};
use crate::store::Store;

/// The largest world.
pub const SIZE_MAX: usize = 65_536;
/// Bytes of the longest name of a world.
pub const NAME_BYTES_MAX: usize = 512;

/// What a rank brings to the rendezvous.
#[derive(Clone)]
pub struct JoinOptions {
    /// The world's name, equal on all ranks. Two worlds that use one store at a time need different names.
    pub name: String,
    /// This rank.
    pub rank: usize,
    /// How many ranks there are.
    pub size: usize,
    /// Hash of the options that must agree on all ranks.
    pub options_hash: [u8; 32],
    /// When to give up.
    pub deadline: Instant,
    /// Where to listen.
    pub listen: ListenOptions,
    /// A secret that all ranks have besides the store's; may be empty.
    pub token: Vec<u8>,
    /// The rules that this rank names.
    pub rules: Rules,
}

/// Text that rank 0 gives to all ranks, and what others think of it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Rules {
    /// Of the rules that this rank names; 0 if it leaves them to rank 0, which itself names some.
    pub hash: u64,
    /// Where they come from, in messages.
    pub source: String,
    /// On rank 0, what the others are given. Empty elsewhere.
    pub text: String,
}

impl std::fmt::Debug for JoinOptions {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut f = f.debug_struct("JoinOptions");
        f.field("name", &self.name).field("rank", &self.rank).field("size", &self.size);
        f.field("listen", &self.listen).finish_non_exhaustive()
    }
}

/// What comes of it: all that an endpoint's links need.
#[derive(Debug)]
pub struct Joined {
    /// Who this endpoint is, with the run's nonce and key.
    pub identity: Identity,
    /// Where others connect to; `None` in a world of one.
    pub listener: Option<Listener>,
    /// Where each rank may be reached from here.
    pub addresses: Vec<Vec<SocketAddr>>,
    /// Control links, authenticated: to every other rank on rank 0, to rank 0 elsewhere.
    pub links: Vec<(usize, Socket)>,
    /// Which ranks share a host.
    pub hosts: Hosts,
    /// The text of rank 0's rules.
    pub rules: String,
}

impl Joined {
    /// Whether this host's ranks have a processor each.
    #[must_use]
    pub fn fits(&self) -> bool {
        self.hosts.local_size(self.identity.rank) <= usable_cpus()
    }

    /// The links of this endpoint. A peer that does not answer for `silence` is lost; `None`: never.
    ///
    /// # Errors
    ///
    /// Descriptors ran out.
    pub fn into_mesh(self, silence: Option<Duration>) -> Result<Box<dyn Mesh>, Error> {
        let Self { identity, listener, addresses, links, .. } = self;
        let options = MeshOptions { identity, listener, addresses, links, silence };
        Ok(Box::new(TcpMesh::new(options)?))
    }

    /// The id of the root world, equal on all ranks.
    #[must_use]
    pub fn world_id(&self) -> u64 {
        let [a, b, c, d, e, f, g, h, ..] = self.identity.run;
        u64::from_le_bytes([a, b, c, d, e, f, g, h])
    }
}

/// Joins the world through a store.
///
/// # Errors
///
/// [`Error::InvalidArgument`] for a bad name, rank or size, and if another process has joined as this rank;
/// [`Error::Mismatch`] if ranks disagree on size or options; [`Error::TimedOut`], naming the missing ranks, when the
/// deadline passes; [`Error::Store`] if the store fails, or serves a living run of this world.
pub fn join(store: &dyn Store, options: &JoinOptions) -> Result<Joined, Error> {
    options.check()?;
    if options.size == 1 {
        return alone(options);
    }
    let listener = Listener::bind(&options.listen)?;
    if options.rank == 0 {
        root::join(store, options, listener)
    } else {
        member::join(store, options, listener)
    }
}

impl JoinOptions {
    fn check(&self) -> Result<(), Error> {
        let Self { name, rank, size, .. } = self;
        if name.is_empty() || name.len() > NAME_BYTES_MAX {
            return Err(Error::InvalidArgument(format!(
                "the name of a world has {} bytes; it must have 1 to {NAME_BYTES_MAX}",
                name.len()
            )));
        }
        if *size == 0 || *size > SIZE_MAX || rank >= size {
            return Err(Error::InvalidArgument(format!(
                "world \"{name}\": rank {rank} of {size}; a size is 1 to {SIZE_MAX}, a rank below it"
            )));
        }
        Ok(())
    }

    /// The store's key of this world.
    fn key(&self) -> String {
        format!("collect/{}", self.name)
    }

    fn identity(&self, run: [u8; 16], secret: &[u8; 32]) -> Identity {
        let secret = [secret, &self.token[..]].concat();
        Identity { key: Key::new(&secret, &run), run, rank: self.rank, size: self.size }
    }

    fn entry(&self, listener: &Listener) -> Result<Entry, Error> {
        Ok(Entry { host: host_identity(), addresses: listener.addresses()? })
    }

    /// What this rank tells the others.
    fn member(&self, entry: Entry) -> Member {
        Member {
            size: self.size,
            options_hash: self.options_hash,
            patience: self.deadline.saturating_duration_since(Instant::now()),
            rules: self.rules.clone(),
            entry,
        }
    }

    /// Whether the deadline has passed.
    fn is_over(&self) -> bool {
        Instant::now() >= self.deadline
    }
}

/// A world of one needs nobody.
fn alone(options: &JoinOptions) -> Result<Joined, Error> {
    let (run, secret) = (random()?, random::<32>()?);
    let identity = Identity { key: Key::new(&secret, &run), run, rank: 0, size: 1 };
    let hosts = Hosts::new([host_identity()]);
    let (addresses, rules) = (vec![Vec::new()], options.rules.text.clone());
    Ok(Joined { identity, listener: None, addresses, links: Vec::new(), hosts, rules })
}

/// Puts together what this rank takes away.
fn joined(
    identity: Identity,
    listener: Listener,
    table: Table,
    links: Vec<(usize, Socket)>,
) -> Joined {
    let hosts = Hosts::new(table.entries.iter().map(|entry| entry.host.clone()));
    let own = identity.rank;
    let addresses = table
        .entries
        .into_iter()
        .enumerate()
        .map(|(rank, entry)| reach::usable(entry.addresses, hosts.share(own, rank)));
    let (addresses, rules) = (addresses.collect(), table.rules);
    Joined { identity, listener: Some(listener), addresses, links, hosts, rules }
}

fn random<const N: usize>() -> Result<[u8; N], Error> {
    let mut bytes = [0; N];
    getrandom::fill(&mut bytes)
        .map_err(|error| Error::System(format!("random bytes for a run: {error}")))?;
    Ok(bytes)
}
