//! Direct: whoever has something sends it straight to whoever needs it (the linear algorithms of Pješivac-Grbović et
//! al., "Performance analysis of MPI collective operations", Cluster Computing 10, 2007). One round.
//!
//! With n bytes a message, a rank that sends to all or receives from all moves n(p-1). Who reduces has p-1 slots of
//! scratch and reduces all operands in one pass in rank order, which serves operations that do not commute.
//!
//! The shortest latency for few ranks, and for blocks of any lengths. Nothing holds back p-1 senders to one rank.

use super::{INPUT, OUTPUT, back, forward, own};
use crate::plan::build::Builder;
use crate::plan::{Action, Buffer, Range};

pub(super) fn message(b: &mut Builder) {
    match b.shape().rank {
        0 => b.send(1, INPUT),
        _ => b.recv(0, OUTPUT),
    }
}

pub(super) fn allreduce(b: &mut Builder) {
    let shape = b.shape();
    for distance in 1..shape.size {
        let from = back(&shape, distance);
        b.send(forward(&shape, distance), INPUT);
        b.recv(from, partial(b, from, 0));
    }
    combine(b, OUTPUT, INPUT);
}

pub(super) fn reduce(b: &mut Builder) {
    let shape = b.shape();
    if shape.rank != shape.root {
        return b.send(shape.root, INPUT);
    }
    for distance in 1..shape.size {
        let from = back(&shape, distance);
        b.recv(from, partial(b, from, 0));
    }
    combine(b, OUTPUT, INPUT);
}

pub(super) fn reduce_scatter(b: &mut Builder) {
    let shape = b.shape();
    for distance in 1..shape.size {
        let (to, from) = (forward(&shape, distance), back(&shape, distance));
        b.send(to, Range::block(Buffer::In(0), to));
        b.recv(from, partial(b, from, shape.rank));
    }
    combine(b, own(&shape, Buffer::Out(0)), Range::block(Buffer::In(0), shape.rank));
}

pub(super) fn allgather(b: &mut Builder) {
    let shape = b.shape();
    let mine = own(&shape, Buffer::In(0));
    for distance in 1..shape.size {
        let from = back(&shape, distance);
        b.send(forward(&shape, distance), mine);
        b.recv(from, Range::block(Buffer::Out(0), from));
    }
    b.copy(Range::block(Buffer::Out(0), shape.rank), mine);
}

pub(super) fn gather(b: &mut Builder) {
    let shape = b.shape();
    let mine = own(&shape, Buffer::In(0));
    if shape.rank != shape.root {
        return b.send(shape.root, mine);
    }
    for distance in 1..shape.size {
        let from = back(&shape, distance);
        b.recv(from, Range::block(Buffer::Out(0), from));
    }
    b.copy(Range::block(Buffer::Out(0), shape.rank), mine);
}

pub(super) fn scatter(b: &mut Builder) {
    let shape = b.shape();
    let mine = own(&shape, Buffer::Out(0));
    if shape.rank != shape.root {
        return b.recv(shape.root, mine);
    }
    for distance in 1..shape.size {
        let to = forward(&shape, distance);
        b.send(to, Range::block(Buffer::In(0), to));
    }
    b.copy(mine, Range::block(Buffer::In(0), shape.rank));
}

/// Where what comes from `peer` waits to be reduced.
fn partial(b: &Builder, peer: u32, block: u32) -> Range {
    Range::at(Buffer::Scratch, if peer < b.shape().rank { peer } else { peer - 1 }, block)
}

/// Reduces what has come from all, and `mine`, in rank order.
fn combine(b: &mut Builder, target: Range, mine: Range) {
    let shape = b.shape();
    let operand = |peer| if peer == shape.rank { mine } else { partial(b, peer, mine.block) };
    let sources = (0..shape.size).map(operand).collect();
    b.push(Action::Reduce { target, sources, last: true });
}
