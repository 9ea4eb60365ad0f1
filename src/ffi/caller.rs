//! What every collective does with its caller's arguments: reads what is common to all, lends buffers and lists, and makes
//! the call: at once, with a request, or in a batch.

use std::ffi::c_void;
use std::sync::Arc;

use super::guard::{Outcome, guard_world};
use super::options::{Chosen, collect_call_options};
use super::pointer::{self, Out, bytes_of};
use super::request::collect_request;
use super::status::{COLLECT_OK, collect_status};
use super::world::collect_world;
use crate::error::Error;
use crate::{Call, Datatype, Op, Source, Target};

/// What every collective is given beside arguments of its own.
#[derive(Debug)]
pub(super) struct Caller {
    world: *mut collect_world,
    options: *const collect_call_options,
    request: *mut *mut collect_request,
}

impl Caller {
    /// Takes the arguments.
    ///
    /// # Safety
    ///
    /// `world` is NULL or live, `options` is NULL or as large as it says with live handles, `request` is NULL or
    /// writable: all until [`Caller::run`] has returned.
    pub(super) unsafe fn new(
        world: *mut collect_world,
        options: *const collect_call_options,
        request: *mut *mut collect_request,
    ) -> Self {
        Self { world, options, request }
    }

    /// Runs the rest of an entry point, once the handle, the out-parameter and the options are right.
    pub(super) fn run(self, body: impl FnOnce(Calling<'_>) -> Outcome) -> collect_status {
        // SAFETY: NULL or live (contract of `new`).
        let world = || unsafe { pointer::borrow(self.world) };
        guard_world(world, |world| {
            // SAFETY: NULL or writable (contract of `new`).
            let request = unsafe { Out::optional(self.request) };
            // SAFETY: NULL or as large as it says, with live handles (contract of `new`).
            let chosen = unsafe { collect_call_options::read(self.options) }?;
            if chosen.batch.is_some() && request.is_some() {
                let text = "request must be NULL in a call that a batch records: starting the batch gives one";
                return Err(Error::InvalidArgument(text.into()));
            }
            body(Calling { world, chosen, request })
        })
    }
}

/// A call on a live world.
#[derive(Debug)]
pub(super) struct Calling<'w> {
    world: &'w Arc<collect_world>,
    chosen: Chosen,
    request: Option<Out<*mut collect_request>>,
}

impl Calling<'_> {
    /// Ranks in the world.
    pub(super) fn size(&self) -> usize {
        self.world.world.size()
    }

    /// This rank.
    pub(super) fn rank(&self) -> usize {
        self.world.world.rank()
    }

    /// Whether this rank is `root`.
    pub(super) fn is(&self, root: usize) -> bool {
        self.rank() == root
    }

    /// Type, operation, and bytes of an element, which are those of the caller's own reduction if there is one.
    pub(super) fn elements(
        &self,
        datatype: impl TryInto<Datatype, Error = Error>,
        op: impl TryInto<Op, Error = Error>,
    ) -> Result<(Datatype, Op, usize), Error> {
        let (datatype, op) = (datatype.try_into()?, op.try_into()?);
        let own = self.chosen.options.custom.as_ref().filter(|_| op == Op::Custom);
        Ok((datatype, op, own.map_or(datatype.bytes(), |own| own.element_bytes())))
    }

    /// Makes the call; waits for its end unless there is a request or a batch. The caller has lent the buffers until
    /// then, lists until this returns.
    pub(super) fn perform(self, call: &Call<'static>) -> Outcome {
        let Self { world, chosen: Chosen { options, batch }, request } = self;
        match (batch, request) {
            (Some(batch), _) => {
                batch.record(world, |batch| batch.add(&world.world, call, &options))?;
            }
            (None, None) => world.world.run(call, &options)?,
            (None, Some(request)) => {
                let started = world.world.start(call, &options)?;
                request.set(collect_request::give(world, started));
            }
        }
        Ok(COLLECT_OK)
    }

    /// Makes two calls as one.
    pub(super) fn exchange(self, send: &Call<'static>, receive: &Call<'static>) -> Outcome {
        let Self { world, chosen: Chosen { options, batch }, request } = self;
        match (batch, request) {
            (Some(batch), _) => batch
                .record(world, |batch| batch.add_sendrecv(&world.world, send, receive, &options))?,
            (None, None) => world.world.sendrecv(send, receive, &options)?,
            (None, Some(request)) => {
                let started = world.world.start_sendrecv(send, receive, &options)?;
                request.set(collect_request::give(world, started));
            }
        }
        Ok(COLLECT_OK)
    }
}

/// The buffer called `name`, to be read.
///
/// # Safety
///
/// NULL, or readable for as many bytes while it is lent.
pub(super) unsafe fn source(
    start: *const c_void,
    bytes: usize,
    name: &str,
) -> Result<Source<'static>, Error> {
    let start = pointer::buffer(start.cast_mut(), bytes, name)?;
    // SAFETY: readable while it is lent (contract above), and not NULL unless it is empty.
    Ok(unsafe { Source::from_raw(start, bytes) })
}

/// The buffer called `name`, to be written.
///
/// # Safety
///
/// NULL, or writable for as many bytes while it is lent.
pub(super) unsafe fn target(
    start: *mut c_void,
    bytes: usize,
    name: &str,
) -> Result<Target<'static>, Error> {
    let start = pointer::buffer(start, bytes, name)?;
    // SAFETY: writable while it is lent (contract above), and not NULL unless it is empty.
    Ok(unsafe { Target::from_raw(start, bytes) })
}

/// Where the parts of a buffer lie: an entry for each rank in each list, in elements.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Lists {
    pub(super) counts: &'static [usize],
    /// `None`: one after the other.
    pub(super) displacements: Option<&'static [usize]>,
}

/// The lists with an entry for each of `size` ranks; that of the counts is called `name`.
///
/// # Safety
///
/// `counts` is NULL or has as many, and so has `displacements`, until the call has been made.
pub(super) unsafe fn lists(
    (counts, name): (*const usize, &str),
    displacements: *const usize,
    size: usize,
) -> Result<Lists, Error> {
    // SAFETY: NULL or as many (contract above).
    let counts = unsafe { pointer::elements(counts, size, name) }?;
    if displacements.is_null() {
        return Ok(Lists { counts, displacements: None });
    }
    // SAFETY: as many (contract above).
    let places = unsafe { pointer::elements(displacements, size, "displacements") }?;
    Ok(Lists { counts, displacements: Some(places) })
}

impl Lists {
    /// The bytes from the start of the buffer to the end of its last part.
    pub(super) fn extent(&self, element_bytes: usize) -> Result<usize, Error> {
        let (mut end, mut extent) = (0usize, 0);
        for (rank, count) in self.counts.iter().enumerate().filter(|(_, count)| **count > 0) {
            let start = self.displacements.map_or(end, |listed| listed[rank]);
            end = start.checked_add(*count).ok_or_else(|| {
                Error::InvalidArgument(format!(
                    "rank {rank}'s {count} elements from element {start} on exceed the address space"
                ))
            })?;
            extent = extent.max(end);
        }
        bytes_of(extent, element_bytes)
    }
}

/// An exchange of parts of different lengths: what is sent, and what is received.
pub(super) fn alltoallv(
    (source, sent): (Source<'static>, Lists),
    (target, received): (Target<'static>, Lists),
    datatype: Datatype,
) -> Call<'static> {
    Call::Alltoallv {
        source,
        send_counts: sent.counts,
        send_displacements: sent.displacements,
        target,
        receive_counts: received.counts,
        receive_displacements: received.displacements,
        datatype,
    }
}

#[cfg(test)]
mod tests {
    use std::ptr;

    use super::*;

    #[test]
    fn extents_reach_to_the_last_part() {
        let extent = |counts, displacements| Lists { counts, displacements }.extent(4);
        assert_eq!(extent(&[1, 2, 3], None), Ok(24));
        assert_eq!(extent(&[1, 2, 3], Some(&[10, 3, 0])), Ok(44));
        assert_eq!(
            extent(&[1, 0, 3], Some(&[0, usize::MAX, 1])),
            Ok(16),
            "an empty part is nowhere"
        );
        assert_eq!(extent(&[], None), Ok(0));
        let text = extent(&[1, 2, 3], Some(&[0, usize::MAX, 1])).unwrap_err().to_string();
        assert!(text.starts_with("rank 1's 2 elements from element"), "{text}");
        assert!(extent(&[usize::MAX / 2, usize::MAX / 2, 2], None).is_err());
        assert!(extent(&[usize::MAX / 4], None).is_err());
    }

    #[test]
    fn displacements_may_be_absent_and_counts_may_not() {
        let counts = [1, 2];
        // SAFETY: as long as they say, or NULL.
        let read = unsafe { lists((counts.as_ptr(), "counts"), ptr::null(), 2) };
        assert_eq!(read, Ok(Lists { counts: &[1, 2], displacements: None }));
        // SAFETY: NULL is an error.
        let refused = unsafe { lists((ptr::null(), "counts"), ptr::null(), 2) };
        assert_eq!(refused, Err(pointer::is_null("counts")));
    }
}
