//! Root worlds: made through a store, through the caller's own exchange, or from what a launcher says.
#![forbid(unsafe_code)]

use std::env;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::endpoint::Endpoint;
use super::options::nanoseconds;
use super::{CallOptions, World, WorldOptions, rules};
use crate::collective::{self, Call};
use crate::config::{Connect, Timeout};
use crate::engine::{Health, Lane, Limits, Members, Registration, Settings};
use crate::error::Error;
pub use crate::rendezvous::Exchange;
use crate::rendezvous::{self, JoinOptions, Joined, ListenOptions};
use crate::store::{self, Store};

impl World {
    /// Creates a world of `size` ranks that find each other through a store. Every rank calls this once, with its
    /// own rank; the store is not used afterwards.
    ///
    /// # Errors
    ///
    /// [`Error::InvalidArgument`] for a rank that is not below the size. Others: the store failed, or ranks did not
    /// come in time (their numbers are in the text), or they disagree about size, name or version.
    pub fn create(
        store: &dyn Store,
        rank: usize,
        size: usize,
        options: &WorldOptions,
    ) -> Result<Self, Error> {
        let join = join_options(rank, size, options)?;
        begin(rendezvous::join(store, &join)?, &join.name, options)
    }

    /// Creates a world without a store: `exchange` is called, once on every rank, with this rank's bytes, and returns
    /// those of all ranks, by rank (the caller's own allgather).
    ///
    /// # Errors
    ///
    /// As [`World::create`]; an error of `exchange` is returned.
    pub fn create_with(
        exchange: &mut Exchange<'_>,
        rank: usize,
        size: usize,
        options: &WorldOptions,
    ) -> Result<Self, Error> {
        let join = join_options(rank, size, options)?;
        begin(rendezvous::join_with(exchange, &join)?, &join.name, options)
    }

    /// Creates a world as the launcher says: `LIBCOLLECT_RANK`, `LIBCOLLECT_SIZE`, `LIBCOLLECT_STORE` and
    /// `LIBCOLLECT_STORE_TOKEN`, which `collect run` sets.
    ///
    /// # Errors
    ///
    /// [`Error::InvalidArgument`] if one of them is missing or no number; else as [`World::create`].
    pub fn create_from_env(options: &WorldOptions) -> Result<Self, Error> {
        let store = open_from_env(options)?;
        Self::create(&*store, number("LIBCOLLECT_RANK")?, number("LIBCOLLECT_SIZE")?, options)
    }
}

/// What this rank brings to the rendezvous.
fn join_options(rank: usize, size: usize, options: &WorldOptions) -> Result<JoinOptions, Error> {
    let name = if options.name.is_empty() { "world" } else { &options.name };
    let listen = options.listen.as_ref().map_or_else(ListenOptions::from_environment, |address| {
        ListenOptions { address: address.clone(), port: 0 }
    });
    Ok(JoinOptions {
        name: name.to_owned(),
        rank,
        size,
        options_hash: agreed(),
        deadline: deadline(options.timeout),
        listen,
        token: Vec::new(),
        rules: rules::of_rank(rank, options)?,
    })
}

/// What all ranks must agree on beside name and size: how plans are chosen where nobody says, and how they are cut.
fn agreed() -> [u8; 32] {
    let limits = Limits::default();
    let [slice, eager, credits] = [limits.slice, limits.eager, limits.credits].map(|it| it as u64);
    let numbers = [slice, eager, credits, rules::default_hash()];
    let mut hash = [0; 32];
    hash[..8].copy_from_slice(&collective::hash(&numbers).to_le_bytes());
    hash
}

/// When creation gives up.
fn deadline(timeout: Timeout) -> Instant {
    /// As good as never, and an instant that can be told.
    const NEVER: Duration = Duration::from_secs(100 * 365 * 24 * 3600);
    let limit = timeout.or(Some(Timeout::WORLD_DEFAULT)).unwrap_or(NEVER);
    let now = Instant::now();
    now.checked_add(limit).unwrap_or(now + NEVER)
}

/// Puts an endpoint on what the rendezvous has agreed, and the root world on that.
fn begin(joined: Joined, name: &str, options: &WorldOptions) -> Result<World, Error> {
    let id = joined.world_id();
    let (rank, size) = (joined.identity.rank, joined.identity.size);
    let host_of = |rank| u32::try_from(joined.hosts.host(rank)).unwrap_or(u32::MAX);
    let host_of_rank: Vec<u32> = (0..size).map(host_of).collect();
    let (fits, table) = (joined.fits(), rules::table_of(&joined.rules)?);
    let mesh = joined.into_mesh()?;
    let settings = Settings { size, wait: options.wait, fits, limits: Limits::default() };
    let health = Arc::new(Health::new(name.to_owned()));
    let everybody = 0..u32::try_from(size).unwrap_or(u32::MAX);
    let members = Arc::new(Members::new(everybody.collect()));
    let small_rank = u32::try_from(rank).unwrap_or(u32::MAX);
    let root = Registration {
        id,
        health: Arc::clone(&health),
        rank: small_rank,
        members: Arc::clone(&members),
    };
    let lane = Lane::start(mesh, &settings, root)?;
    if options.connect == Connect::Eager {
        lane.connect(id);
    }
    let endpoint = Arc::new(Endpoint::new(lane, host_of_rank, table));
    let world = World::on(endpoint, id, rank, members, health, nanoseconds_of(options.timeout));
    if options.connect == Connect::Eager {
        world.run(&Call::Barrier, &CallOptions::default())?;
    }
    Ok(world)
}

/// What an operation may take if its call does not say.
fn nanoseconds_of(timeout: Timeout) -> Option<u64> {
    let default = u64::try_from(Timeout::WORLD_DEFAULT.as_nanos()).unwrap_or(u64::MAX);
    nanoseconds(timeout, Some(default))
}

/// Opens the store that the environment names.
///
/// # Errors
///
/// [`Error::InvalidArgument`] if `LIBCOLLECT_STORE` is not set; else as [`store::open`].
pub fn open_from_env(options: &WorldOptions) -> Result<Arc<dyn Store>, Error> {
    let url = variable("LIBCOLLECT_STORE")?;
    let token = env::var("LIBCOLLECT_STORE_TOKEN").ok().map(String::into_bytes);
    store::open(&url, token, deadline(options.timeout))
}

fn variable(name: &str) -> Result<String, Error> {
    env::var(name).map_err(|_| {
        Error::InvalidArgument(format!(
            "{name} is not set: start the program by `collect run`, or name rank, size and store"
        ))
    })
}

fn number(name: &str) -> Result<usize, Error> {
    let text = variable(name)?;
    text.parse().map_err(|_| Error::InvalidArgument(format!("{name}={text:?} is no number")))
}
