//! Batches: several operations that are submitted together, as often as the caller likes.
//!
//! What can be done once is done when an operation is added: its arguments are checked, its program is found. A start then
//! allocates nothing. A batch of one operation is a persistent request.
#![forbid(unsafe_code)]

use std::marker::PhantomData;
use std::sync::Arc;

use super::endpoint::Endpoint;
use super::{World, check_pair};
use crate::collective::{Call, CallOptions, Template};
use crate::engine::{Completion, Request, Scratch};
use crate::error::Error;

/// Operations that begin together, in the order in which they were added, and end as one.
///
/// Their buffers are lent to it for as long as it exists, and may be read and written between its runs.
#[derive(Debug, Default)]
pub struct Batch<'a> {
    members: Vec<Member>,
    /// Memory of each operation's own, empty between two starts.
    owned: Vec<Scratch>,
    /// The end of the last start, if that is not known to have come.
    last: Option<Arc<Completion>>,
    lent: PhantomData<&'a mut [u8]>,
}

/// One of the operations.
#[derive(Debug)]
struct Member {
    world: World,
    template: Template,
}

impl<'a> Batch<'a> {
    /// One without operations.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds an operation, which begins when the batch is started. Other ranks may make the same call outside a batch, or
    /// in another one: operations match as if each had been started by itself.
    ///
    /// # Errors
    ///
    /// [`Error::InvalidArgument`] as [`World::run`], or if the world and those of the other operations were not forked
    /// from each other. The failure of a world that has failed.
    pub fn add(
        &mut self,
        world: &World,
        call: &Call<'a>,
        options: &CallOptions,
    ) -> Result<(), Error> {
        self.add_all(world, &[call], options)
    }

    /// Adds a message to send and one to receive, as [`World::sendrecv`] takes them.
    ///
    /// # Errors
    ///
    /// As [`Batch::add`], and [`Error::InvalidArgument`] for other calls; then nothing is added.
    pub fn add_sendrecv(
        &mut self,
        world: &World,
        send: &Call<'a>,
        receive: &Call<'a>,
        options: &CallOptions,
    ) -> Result<(), Error> {
        check_pair(send, receive)?;
        self.add_all(world, &[send, receive], options)
    }

    fn add_all(
        &mut self,
        world: &World,
        calls: &[&Call<'a>],
        options: &CallOptions,
    ) -> Result<(), Error> {
        let endpoint = world.inner.whole()?;
        if let Some(first) = self.members.first()
            && !Arc::ptr_eq(first.world.inner.endpoint()?, endpoint)
        {
            return Err(Error::InvalidArgument(format!(
                "worlds {:?} and {:?} were not forked from each other: give each a batch of its own",
                first.world.name(),
                world.name()
            )));
        }
        let before = self.members.len();
        for call in calls {
            let planned = world.inner.plan(call, options);
            let planned = planned.inspect_err(|_| self.members.truncate(before))?;
            let template = Template::new(&planned, world.inner.submission(options));
            self.members.push(Member { world: world.clone(), template });
        }
        self.owned.resize_with(self.members.len(), Scratch::default);
        Ok(())
    }

    /// Begins all operations, and waits until all have ended.
    ///
    /// # Errors
    ///
    /// [`Error::InvalidArgument`] if there is none, or if the last start has not ended. Else the first error of any of
    /// them.
    pub fn run(&mut self) -> Result<(), Error> {
        let (endpoint, completion) = self.submit()?;
        endpoint.await_end(completion)
    }

    fn submit(&mut self) -> Result<(&Endpoint, Arc<Completion>), Error> {
        let Self { members, owned, last, .. } = self;
        let Some(first) = members.first() else {
            return Err(Error::InvalidArgument("a batch without operations: add some".into()));
        };
        let endpoint = first.world.inner.endpoint()?;
        if last.as_ref().is_some_and(|last| endpoint.lane().outcome(last).is_none()) {
            let text = "the batch has not ended since it was last started: wait for that first";
            return Err(Error::InvalidArgument(text.into()));
        }
        *last = None;
        for member in &*members {
            member.world.inner.whole()?;
        }
        for (member, own) in members.iter().zip(&mut *owned) {
            *own = member.template.scale(endpoint.spare_products());
        }
        let completion = endpoint.lane().submit_many(members.len(), |at, spare| {
            members[at].template.fill(spare, &mut owned[at])
        });
        owned.iter_mut().for_each(|own| endpoint.spare_products().put(std::mem::take(own)));
        Ok((endpoint, completion))
    }
}

impl Batch<'static> {
    /// Begins all operations, and returns while they go on: the buffers stay lent until all have ended, also when the
    /// request or the batch is dropped early.
    ///
    /// # Errors
    ///
    /// As [`Batch::run`] where they cannot begin; else the request has them.
    pub fn start(&mut self) -> Result<Request, Error> {
        let request = self.submit_all()?;
        request.prod();
        Ok(request)
    }

    /// As [`Batch::start`], but somebody must yet wait for the request, or see to it that it is begun.
    pub(crate) fn submit_all(&mut self) -> Result<Request, Error> {
        let (endpoint, completion) = self.submit()?;
        let lane = Arc::clone(endpoint.lane());
        self.last = Some(Arc::clone(&completion));
        Ok(Request::new(lane, completion))
    }
}
