//! Messages and other calls on vectors, as tests make them.

use collect::memory::Element;
use collect::{Call, CallOptions, Datatype, Error, Op, Request, Source, Target, World};

/// An element whose type the library knows.
pub(crate) trait Typed: Element {
    const DATATYPE: Datatype;
}

impl Typed for u8 {
    const DATATYPE: Datatype = Datatype::U8;
}

impl Typed for u32 {
    const DATATYPE: Datatype = Datatype::U32;
}

impl Typed for u64 {
    const DATATYPE: Datatype = Datatype::U64;
}

impl Typed for f32 {
    const DATATYPE: Datatype = Datatype::F32;
}

pub(crate) fn send_of<T: Typed>(data: &[T], to: usize, tag: u64) -> Call<'_> {
    Call::Send { source: Source::of(data), datatype: T::DATATYPE, to, tag }
}

pub(crate) fn receive_of<T: Typed>(data: &mut [T], from: Option<usize>, tag: u64) -> Call<'_> {
    Call::Receive { target: Target::of(data), datatype: T::DATATYPE, from, tag }
}

pub(crate) fn send<T: Typed>(world: &World, data: &[T], to: usize, tag: u64) -> Result<(), Error> {
    world.run(&send_of(data, to, tag), &CallOptions::default())
}

/// A received message of `count` elements.
pub(crate) fn receive<T: Typed + Default>(
    world: &World,
    count: usize,
    from: impl Into<Option<usize>>,
    tag: u64,
) -> Result<Vec<T>, Error> {
    let mut data = vec![T::default(); count];
    world.run(&receive_of(&mut data, from.into(), tag), &CallOptions::default())?;
    Ok(data)
}

pub(crate) fn barrier(world: &World) -> Result<(), Error> {
    world.run(&Call::Barrier, &CallOptions::default())
}

/// Sums numbers over the ranks.
pub(crate) fn sum(world: &World, data: &mut [u64], options: &CallOptions) -> Result<(), Error> {
    world.run(&sum_of(data), options)
}

pub(crate) fn sum_of(data: &mut [u64]) -> Call<'_> {
    let target = Target::of(data);
    let (source, datatype, op) = (target.in_place(), Datatype::U64, Op::Sum);
    Call::Allreduce { source, target, datatype, op }
}

pub(crate) fn broadcast_of<T: Typed>(data: &mut [T], root: usize) -> Call<'_> {
    Call::Broadcast { buffer: Target::of(data), datatype: T::DATATYPE, root }
}

/// A call under way, with the data that is lent to it.
#[derive(Debug)]
pub(crate) struct Lent<T: 'static> {
    data: Option<Vec<T>>,
    pub(crate) request: Request,
}

impl<T: Typed + Default> Lent<T> {
    /// Starts the call that `make` makes of the data.
    pub(crate) fn start(
        world: &World,
        mut data: Vec<T>,
        options: &CallOptions,
        make: impl FnOnce(&'static mut [T]) -> Call<'static>,
    ) -> Result<Self, Error> {
        // SAFETY: the vector is kept until the request has ended, or for ever.
        let lent = unsafe { std::slice::from_raw_parts_mut(data.as_mut_ptr(), data.len()) };
        let request = world.start(&make(lent), options)?;
        Ok(Self { data: Some(data), request })
    }

    pub(crate) fn send(world: &World, data: Vec<T>, to: usize, tag: u64) -> Self {
        let make = |data: &'static mut [T]| send_of(&*data, to, tag);
        Self::start(world, data, &CallOptions::default(), make).unwrap()
    }

    pub(crate) fn receive(
        world: &World,
        count: usize,
        from: impl Into<Option<usize>>,
        tag: u64,
    ) -> Self {
        let (from, data) = (from.into(), vec![T::default(); count]);
        let make = |data: &'static mut [T]| receive_of(data, from, tag);
        Self::start(world, data, &CallOptions::default(), make).unwrap()
    }

    /// Waits, and gives the data back, and the rank that it came from.
    pub(crate) fn end(mut self) -> Result<(Vec<T>, Option<usize>), Error> {
        self.request.wait()?;
        Ok((self.data.take().unwrap(), self.request.source()))
    }
}

/// A test that fails may not free what is still lent.
impl<T> Drop for Lent<T> {
    fn drop(&mut self) {
        if let Some(data) = self.data.take()
            && self.request.outcome().is_none()
        {
            data.leak();
        }
    }
}
