//! Worlds: groups of ranks that call collectives.
//!
//! A root world owns (with all its forks) an *endpoint*: one lane with its links and its background thread. `create`
//! makes one through a store, `fork` makes more worlds on the same endpoint without a socket, a thread or a store access,
//! `options` says what can be chosen. Every method may be called from any thread. The last handle of a world that goes
//! leaves the world; the last world of an endpoint that goes closes it.
#![forbid(unsafe_code)]

mod batch;
mod create;
mod endpoint;
mod fork;
mod options;
mod rules;

pub use batch::Batch;
pub use create::{Exchange, open_from_env};
pub use options::{ForkOptions, WorldOptions};

use std::sync::Arc;

use parking_lot::Mutex;

pub use crate::collective::CallOptions;
use crate::collective::{self, Call, Place, Planned, Submission};
use crate::engine::{Completion, Health, Members, Request, Scratch};
use crate::error::Error;
use endpoint::{Endpoint, Seating};
use fork::Forks;

/// A fixed group of ranks that call collectives together. Clones are handles of the same world.
#[derive(Debug, Clone)]
pub struct World {
    inner: Arc<Inner>,
}

/// What the handles of a world share.
#[derive(Debug)]
struct Inner {
    id: u64,
    rank: usize,
    members: Arc<Members>,
    health: Arc<Health>,
    seating: Seating,
    timeout_ns: Option<u64>,
    forks: Mutex<Forks>,
    /// There until the drop. Not dropped in a child of `fork(2)`: its descriptors are the parent's.
    endpoint: Option<Arc<Endpoint>>,
}

impl World {
    /// A handle of a world that the endpoint's lane knows already.
    fn on(
        endpoint: Arc<Endpoint>,
        id: u64,
        rank: usize,
        members: Arc<Members>,
        health: Arc<Health>,
        timeout_ns: Option<u64>,
    ) -> Self {
        let seating = endpoint.seating(&members, rank);
        let forks = Mutex::new(Forks::default());
        let endpoint = Some(endpoint);
        let inner = Inner { id, rank, members, health, seating, timeout_ns, forks, endpoint };
        Self { inner: Arc::new(inner) }
    }

    /// This process's rank in the world.
    #[must_use]
    pub fn rank(&self) -> usize {
        self.inner.rank
    }

    /// Ranks in the world.
    #[must_use]
    pub fn size(&self) -> usize {
        self.inner.members.size()
    }

    /// The world's name, as in messages.
    #[must_use]
    pub fn name(&self) -> &str {
        self.inner.health.name()
    }

    /// This rank's place among the members on its host.
    #[must_use]
    pub fn local_rank(&self) -> usize {
        self.inner.seating.local_rank
    }

    /// Members on this host.
    #[must_use]
    pub fn local_size(&self) -> usize {
        self.inner.seating.local_size
    }

    /// This host's place among the members' hosts, in the order of their lowest ranks.
    #[must_use]
    pub fn host_index(&self) -> usize {
        self.inner.seating.host_index
    }

    /// Why the world has failed, if it has. In a child of `fork(2)`: [`Error::Forked`].
    #[must_use]
    pub fn error(&self) -> Option<Error> {
        self.inner.endpoint().err().or_else(|| self.inner.health.failure())
    }

    /// Makes a call and waits until it is complete here.
    ///
    /// # Errors
    ///
    /// [`Error::InvalidArgument`] if the arguments cannot be: nothing has happened. Any error of the group
    /// [`crate::Group::World`]: the world has failed, and every later call returns the same error.
    pub fn run(&self, call: &Call<'_>, options: &CallOptions) -> Result<(), Error> {
        let completion = self.inner.submit(call, options)?;
        self.inner.endpoint()?.await_end(completion)
    }

    /// Makes a call, and returns while it goes on: the buffers stay lent until it has ended, also when the request is
    /// dropped early.
    ///
    /// # Errors
    ///
    /// As [`World::run`] where the call cannot begin; else the request has them.
    pub fn start(&self, call: &Call<'static>, options: &CallOptions) -> Result<Request, Error> {
        let completion = self.inner.submit(call, options)?;
        self.inner.endpoint()?.request(completion)
    }

    /// Sends a message and receives another one, and waits until both are complete: what two ranks, or all of a ring,
    /// may do to each other without regard to order. `send` is a [`Call::Send`], `receive` a [`Call::Receive`].
    ///
    /// # Errors
    ///
    /// As [`World::run`], and [`Error::InvalidArgument`] for other calls.
    pub fn sendrecv(
        &self,
        send: &Call<'_>,
        receive: &Call<'_>,
        options: &CallOptions,
    ) -> Result<(), Error> {
        let completion = self.inner.submit_pair(send, receive, options)?;
        self.inner.endpoint()?.await_end(completion)
    }

    /// As [`World::sendrecv`], and returns while both go on.
    ///
    /// # Errors
    ///
    /// As [`World::start`], and [`Error::InvalidArgument`] for other calls.
    pub fn start_sendrecv(
        &self,
        send: &Call<'static>,
        receive: &Call<'static>,
        options: &CallOptions,
    ) -> Result<Request, Error> {
        let completion = self.inner.submit_pair(send, receive, options)?;
        self.inner.endpoint()?.request(completion)
    }

    /// Ends the world in failure, here and at every member; what is pending completes with [`Error::Aborted`]. Waits
    /// for no peer, and may be called while other threads are inside.
    ///
    /// # Errors
    ///
    /// [`Error::Forked`] in a child of `fork(2)`.
    pub fn abort(&self, reason: &str) -> Result<(), Error> {
        let endpoint = self.inner.endpoint()?;
        let (name, rank) = (self.name(), self.rank());
        let error = Error::Aborted(format!("world {name:?}: rank {rank} aborted it: {reason}"));
        endpoint.lane().fail(self.inner.id, error);
        Ok(())
    }

    /// Ends the world because of a bug in this library, which the C ABI has caught.
    #[cfg(feature = "capi")]
    pub(crate) fn fail_internally(&self, text: &str) {
        if let Ok(endpoint) = self.inner.endpoint() {
            endpoint.lane().fail(self.inner.id, Error::Internal(text.to_owned()));
        }
    }
}

impl Inner {
    /// The endpoint, unless this process is a child of the one that made it.
    fn endpoint(&self) -> Result<&Arc<Endpoint>, Error> {
        match &self.endpoint {
            Some(endpoint) if endpoint.lane().is_ours() => Ok(endpoint),
            Some(_) => Err(Error::Forked),
            None => Err(Error::Internal("a world without an endpoint".into())),
        }
    }

    /// The endpoint, unless the world has failed.
    fn whole(&self) -> Result<&Arc<Endpoint>, Error> {
        let endpoint = self.endpoint()?;
        self.health.failure().map_or(Ok(endpoint), Err)
    }

    /// Checks a call, and finds what it runs.
    fn plan<'c>(&self, call: &'c Call<'_>, options: &CallOptions) -> Result<Planned<'c>, Error> {
        let endpoint = self.endpoint()?;
        let limits = endpoint.lane().limits();
        let place = Place {
            size: self.members.size(),
            rank: self.rank,
            slice_bytes: limits.slice,
            eager_bytes: limits.eager,
        };
        collective::prepare(call, &place, options, endpoint.programs())
    }

    fn submission(&self, options: &CallOptions) -> Submission {
        let timeout_ns = options::nanoseconds(options.timeout, self.timeout_ns);
        Submission { world: self.id, members: Arc::clone(&self.members), timeout_ns }
    }

    fn submit(&self, call: &Call<'_>, options: &CallOptions) -> Result<Arc<Completion>, Error> {
        let endpoint = self.whole()?;
        let planned = self.plan(call, options)?;
        let submission = self.submission(options);
        let mut own = planned.scale(endpoint.spare_products());
        let fill = |spare| planned.fill(spare, &submission, &mut own);
        let completion = endpoint.lane().submit(fill);
        endpoint.spare_products().put(own);
        Ok(completion)
    }

    /// Submits a message to send and one to receive as one.
    fn submit_pair(
        &self,
        send: &Call<'_>,
        receive: &Call<'_>,
        options: &CallOptions,
    ) -> Result<Arc<Completion>, Error> {
        check_pair(send, receive)?;
        let lane = self.whole()?.lane();
        let pair = [self.plan(send, options)?, self.plan(receive, options)?];
        let submission = self.submission(options);
        // Messages are not multiplied, so they own no memory.
        let mut own = Scratch::default();
        Ok(lane.submit_many(2, |at, spare| pair[at].fill(spare, &submission, &mut own)))
    }
}

/// Checks what calls a sendrecv is made of.
fn check_pair(send: &Call<'_>, receive: &Call<'_>) -> Result<(), Error> {
    let invalid = |text: &str| Err(Error::InvalidArgument(text.into()));
    let (Call::Send { source, .. }, Call::Receive { target, .. }) = (send, receive) else {
        return invalid("sendrecv takes a message to send and one to receive, in this order");
    };
    let (source, target) = (source.region(), target.region());
    if source.bytes() > 0 && target.bytes() > 0 && source.overlaps(&target) {
        return invalid("what is sent overlaps where the received message goes");
    }
    Ok(())
}

impl Drop for Inner {
    fn drop(&mut self) {
        let Some(endpoint) = self.endpoint.take() else { return };
        if endpoint.lane().is_ours() {
            endpoint.lane().leave(self.id);
        } else {
            // The descriptors in it are closed, and its locks may be held by threads that are not here.
            Box::leak(Box::new(endpoint));
        }
    }
}
