//! What each collective reads and leaves behind: the contract by which plans are made, proved and tested.
//!
//! | Collective | Blocks | Slot s of In | Slot s of Out | In place |
//! |---|---|---|---|---|
//! | allreduce, broadcast, reduce, scan, exscan, barrier | any | block s | block s | In is Out |
//! | allgather(v), gather(v) | p | the rank's block (one slot) | block s | In slot 0 is Out slot rank |
//! | scatter(v), reduce_scatter(v) | p | block s | the rank's block (one slot) | Out slot 0 is In slot rank |
//! | alltoall(v) | p² | block rank·p + s | block s·p + rank (p slots each) | In is Out |
//! | message, of two ranks | 1 | block 0 (rank 0) | block 0 (rank 1) | |
//!
//! A range of In or Out lies in the slots of its blocks. In is read only, but for the slot that is Out in place; Out
//! may be scribbled on. Only the root has an input of broadcast and scatter, and an output of reduce and gather; rank 0
//! has no output of exscan. In place means nothing on a rank without both, and ranks may differ in it.

use std::ops::Range as Span;

use super::{Buffer, Collective, Plan, Range, Shape};

/// Whether the rank has an input.
pub(super) fn has_input(shape: &Shape) -> bool {
    match shape.collective.regular() {
        Collective::Broadcast | Collective::Scatter => shape.rank == shape.root,
        Collective::Message => shape.rank == 0,
        _ => true,
    }
}

/// Whether the rank has an output.
pub(super) fn has_output(shape: &Shape) -> bool {
    match shape.collective.regular() {
        Collective::Reduce | Collective::Gather => shape.rank == shape.root,
        Collective::Exscan => shape.rank > 0,
        Collective::Message => shape.rank == 1,
        _ => true,
    }
}

/// Blocks of the layout, where it is not the algorithm that cuts.
pub(super) fn blocks(shape: &Shape) -> Option<u32> {
    match shape.collective.regular() {
        Collective::Allgather
        | Collective::Gather
        | Collective::Scatter
        | Collective::ReduceScatter => Some(shape.size),
        Collective::Alltoall => Some(shape.size.saturating_mul(shape.size)),
        Collective::Message => Some(1),
        _ => None,
    }
}

/// Whether all blocks are equally long, whatever the count. In an input or output that makes no difference, as each
/// slot is for one block; a slot of scratch may hold a short one between two long ones.
pub(super) fn is_uniform(shape: &Shape) -> bool {
    blocks(shape).is_some() && !shape.collective.is_irregular()
}

/// Slots of a buffer; 0 where the rank has no such buffer.
pub(super) fn slots(plan: &Plan, buffer: Buffer) -> u32 {
    let shape = &plan.shape;
    let all = match shape.collective.regular() {
        Collective::Alltoall => shape.size,
        _ => plan.blocks,
    };
    match (buffer, shape.collective.regular()) {
        (Buffer::Scratch, _) => plan.scratch,
        (Buffer::In(i) | Buffer::Out(i), _) if i >= shape.buffers => 0,
        (Buffer::In(_), _) if !has_input(shape) => 0,
        (Buffer::Out(_), _) if !has_output(shape) => 0,
        (Buffer::In(_), Collective::Allgather | Collective::Gather) => 1,
        (Buffer::Out(_), Collective::Scatter | Collective::ReduceScatter) => 1,
        _ => all,
    }
}

/// The block whose place a slot of an input or output is, if there is such a slot.
pub(super) fn block_of(shape: &Shape, buffer: Buffer, slot: u32) -> u64 {
    let (slot, rank, size) = (u64::from(slot), u64::from(shape.rank), u64::from(shape.size));
    match (buffer, shape.collective.regular()) {
        (Buffer::In(_), Collective::Allgather | Collective::Gather) => slot + rank,
        (Buffer::Out(_), Collective::Scatter | Collective::ReduceScatter) => slot + rank,
        (Buffer::In(_), Collective::Alltoall) => rank * size + slot,
        (Buffer::Out(_), Collective::Alltoall) => slot * size + rank,
        _ => slot,
    }
}

/// Whether a range of an input or output lies in the slots of its blocks. In place one slot of an alltoall is that of
/// two blocks, of one length.
pub(super) fn is_at_home(shape: &Shape, range: Range) -> bool {
    let is_named = |buffer| {
        let is_own = |i| block_of(shape, buffer, range.slot + i) == u64::from(range.block + i);
        is_own(0) && is_own(range.blocks - 1)
    };
    let is_alltoall = shape.collective.regular() == Collective::Alltoall;
    is_named(range.buffer) || (shape.in_place && is_alltoall && is_named(Buffer::In(0)))
}

/// Every block that a rank's inputs hold at the start, where it lies.
pub(super) fn inputs(plan: &Plan) -> impl Iterator<Item = Range> {
    all(plan, Buffer::In)
}

/// Every block that a rank's outputs must hold at the end, where it lies.
pub(super) fn outputs(plan: &Plan) -> impl Iterator<Item = Range> {
    all(plan, Buffer::Out)
}

fn all(plan: &Plan, buffer: fn(u16) -> Buffer) -> impl Iterator<Item = Range> {
    let of = move |buffer| {
        (0..slots(plan, buffer))
            .map(move |slot| Range::at(buffer, slot, block_of(&plan.shape, buffer, slot) as u32))
    };
    (0..plan.shape.buffers).flat_map(move |i| of(buffer(i)))
}

/// Who contributes what is in an input. A contributor is one buffer of one rank, numbered rank by rank.
pub(super) fn contributor(shape: &Shape, input: Buffer) -> u32 {
    let (Buffer::In(i) | Buffer::Out(i)) = input else { return 0 };
    shape.rank * u32::from(shape.buffers) + u32::from(i)
}

/// Whose contributions a block of the rank's result is made of.
pub(super) fn contributors(shape: &Shape, block: u32) -> Span<u32> {
    let one = |contributor| contributor..contributor + 1;
    match shape.collective.regular() {
        Collective::Broadcast | Collective::Scatter => one(shape.root),
        Collective::Allgather | Collective::Gather => one(block),
        Collective::Alltoall => one(block / shape.size),
        Collective::Message => one(0),
        Collective::Scan => 0..shape.rank + 1,
        Collective::Exscan => 0..shape.rank,
        _ => 0..shape.size * u32::from(shape.buffers),
    }
}

/// Whether a block of the result is marked as final in the step that makes it, so that an average is divided there. In
/// a scan it is not: what one rank keeps, the next one goes on with, and a prefix has no average.
pub(super) fn is_marked_final(shape: &Shape, block: u32) -> bool {
    let is_scan = matches!(shape.collective, Collective::Scan | Collective::Exscan);
    contributors(shape, block).len() > 1 && !is_scan
}

/// The one name of a range: in place, two names of one memory become one.
pub(super) fn place(shape: &Shape, range: Range) -> Range {
    if !shape.in_place || !has_input(shape) || !has_output(shape) {
        return range;
    }
    match (range.buffer, shape.collective.regular()) {
        (Buffer::Out(i), Collective::Scatter | Collective::ReduceScatter) => {
            Range { buffer: Buffer::In(i), slot: range.slot.saturating_add(shape.rank), ..range }
        }
        (Buffer::In(_), Collective::Scatter | Collective::ReduceScatter) => range,
        (Buffer::In(i), Collective::Allgather | Collective::Gather) => {
            Range { buffer: Buffer::Out(i), slot: range.slot.saturating_add(shape.rank), ..range }
        }
        (Buffer::In(i), _) => Range { buffer: Buffer::Out(i), ..range },
        _ => range,
    }
}

/// Whether a step may write a range, which lies in its buffer.
pub(super) fn may_write(shape: &Shape, range: Range) -> bool {
    match range.buffer {
        Buffer::Scratch => true,
        Buffer::Out(_) => has_output(shape),
        Buffer::In(i) => {
            let output = Range::at(Buffer::Out(i), 0, range.block);
            place(shape, output) == range
        }
    }
}
