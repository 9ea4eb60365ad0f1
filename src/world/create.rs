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
        Self::create_by(store, rank, size, options, options.timeout.deadline())
    }

    fn create_by(
        store: &dyn Store,
        rank: usize,
        size: usize,
        options: &WorldOptions,
        deadline: Instant,
    ) -> Result<Self, Error> {
        let join = join_options(rank, size, options, deadline)?;
        begin(rendezvous::join(store, &join)?, &join, options)
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
        let join = join_options(rank, size, options, options.timeout.deadline())?;
        begin(rendezvous::join_with(exchange, &join)?, &join, options)
    }

    /// Creates a world as the launcher says: `LIBCOLLECT_RANK`, `LIBCOLLECT_SIZE`, `LIBCOLLECT_STORE` and
    /// `LIBCOLLECT_STORE_TOKEN`, which `collect run` sets.
    ///
    /// # Errors
    ///
    /// [`Error::InvalidArgument`] if one of them is missing or no number; else as [`World::create`].
    pub fn create_from_env(options: &WorldOptions) -> Result<Self, Error> {
        let (deadline, rank) = (options.timeout.deadline(), number("LIBCOLLECT_RANK")?);
        let store = open_from_env(deadline)?;
        Self::create_by(&*store, rank, number("LIBCOLLECT_SIZE")?, options, deadline)
    }
}

/// What this rank brings to the rendezvous.
fn join_options(
    rank: usize,
    size: usize,
    options: &WorldOptions,
    deadline: Instant,
) -> Result<JoinOptions, Error> {
    let name = if options.name.is_empty() { "world" } else { &options.name };
    let listen = options.listen.as_ref().map_or_else(ListenOptions::from_environment, |address| {
        ListenOptions { address: address.clone(), port: 0 }
    });
    Ok(JoinOptions {
        name: name.to_owned(),
        rank,
        size,
        options_hash: agreed(options),
        deadline,
        listen,
        token: Vec::new(),
        rules: rules::of_rank(rank, options)?,
    })
}

/// What all ranks must agree on beside name and size: how plans are chosen where nobody says, and how they are cut.
fn agreed(options: &WorldOptions) -> [u8; 32] {
    let limits = Limits::default();
    let [slice, eager, credits] = [limits.slice, limits.eager, limits.credits].map(|it| it as u64);
    let numbers = [slice, eager, credits, rules::default_hash(), u64::from(options.checksum)];
    let mut hash = [0; 32];
    hash[..8].copy_from_slice(&collective::hash(&numbers).to_le_bytes());
    hash
}

/// Puts an endpoint on what the rendezvous has agreed, and the root world on that.
fn begin(joined: Joined, join: &JoinOptions, options: &WorldOptions) -> Result<World, Error> {
    let id = joined.world_id();
    let (rank, size) = (joined.identity.rank, joined.identity.size);
    let host_of = |rank| u32::try_from(joined.hosts.host(rank)).unwrap_or(u32::MAX);
    let host_of_rank: Vec<u32> = (0..size).map(host_of).collect();
    let (fits, table) = (joined.fits(), rules::table_of(&joined.rules)?);
    let limits = limits_of(options);
    let silence = (limits.silence_ns != u64::MAX).then(|| Duration::from_nanos(limits.silence_ns));
    let mesh = joined.into_mesh(silence)?;
    let is_interruptible = options.interruptible;
    let settings = Settings { size, wait: options.wait, fits, limits, is_interruptible };
    let health = Arc::new(Health::new(join.name.clone()));
    let everybody = 0..u32::try_from(size).unwrap_or(u32::MAX);
    let members = Arc::new(Members::new(everybody.collect()));
    let small_rank = u32::try_from(rank).unwrap_or(u32::MAX);
    let root = Registration {
        id,
        health: Arc::clone(&health),
        rank: small_rank,
        members: Arc::clone(&members),
        checksum: options.checksum,
    };
    let lane = Lane::start(mesh, &settings, root)?;
    if options.connect == Connect::Eager {
        lane.connect(id);
    }
    let endpoint = Arc::new(Endpoint::new(lane, host_of_rank, table, options.checksum));
    let world = World::on(endpoint, id, rank, members, health, nanoseconds_of(options.timeout));
    if options.connect == Connect::Eager {
        // The links are part of the creation, and share its time.
        let left = join.deadline.saturating_duration_since(Instant::now());
        let timeout = Timeout::After(left.max(Duration::from_nanos(1)));
        world.run(&Call::Barrier, &CallOptions { timeout, ..CallOptions::default() })?;
    }
    Ok(world)
}

/// How much is taken at once, and how long silence is borne.
fn limits_of(options: &WorldOptions) -> Limits {
    /// Heartbeats without an answer after which a peer is lost.
    const MISSED: u64 = 3;
    /// The shortest heartbeat, in nanoseconds: more often is of no use to anybody.
    const HEARTBEAT_MIN: u64 = 1_000_000;
    let limits = Limits::default();
    let heartbeat_ns =
        nanoseconds(options.heartbeat, Some(limits.heartbeat_ns)).unwrap_or(u64::MAX);
    let heartbeat_ns = heartbeat_ns.max(HEARTBEAT_MIN);
    let linger_ns =
        nanoseconds(options.destroy_timeout, Some(limits.linger_ns)).unwrap_or(u64::MAX);
    Limits { heartbeat_ns, silence_ns: heartbeat_ns.saturating_mul(MISSED), linger_ns, ..limits }
}

/// What an operation may take if its call does not say.
fn nanoseconds_of(timeout: Timeout) -> Option<u64> {
    let default = u64::try_from(Timeout::WORLD_DEFAULT.as_nanos()).unwrap_or(u64::MAX);
    nanoseconds(timeout, Some(default))
}

/// Opens the store that the environment names, by `deadline`.
///
/// # Errors
///
/// [`Error::InvalidArgument`] if `LIBCOLLECT_STORE` is not set; else as [`store::open`].
pub fn open_from_env(deadline: Instant) -> Result<Arc<dyn Store>, Error> {
    let url = variable("LIBCOLLECT_STORE")?;
    let token = env::var("LIBCOLLECT_STORE_TOKEN").ok().map(String::into_bytes);
    store::open(&url, token, deadline)
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

#[cfg(test)]
mod tests {
    use super::*;

    /// Heartbeat, silence and linger, each told this.
    fn times(timeout: Timeout) -> [u64; 3] {
        let options = WorldOptions {
            heartbeat: timeout,
            destroy_timeout: timeout,
            ..WorldOptions::default()
        };
        let limits = limits_of(&options);
        [limits.heartbeat_ns, limits.silence_ns, limits.linger_ns]
    }

    #[test]
    fn times_that_are_not_given_have_their_own_defaults() {
        const SECOND: u64 = 1_000_000_000;
        assert_eq!(times(0.into()), [10 * SECOND, 30 * SECOND, SECOND]);
        assert_eq!(times(5_000_000.into()), [5_000_000, 15_000_000, 5_000_000]);
        assert_eq!(times(5.into()), [1_000_000, 3_000_000, 5]);
        assert_eq!(times((-1).into()), [u64::MAX; 3]);
        assert_eq!(times(i64::MIN.into()), [u64::MAX; 3]);
        assert!(times(i64::MAX.into()).iter().all(|time| *time >= i64::MAX.cast_unsigned()));
        assert_eq!(nanoseconds_of(0.into()), Some(600 * SECOND));
        assert_eq!((nanoseconds_of(7.into()), nanoseconds_of((-7).into())), (Some(7), None));
    }
}
