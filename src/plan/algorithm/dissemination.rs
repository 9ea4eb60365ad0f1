//! Dissemination barrier (Hensgen, Finkel and Manber, "Two algorithms for barrier synchronization", 1988).
//! ceil(log2 p) steps; ceil(log2 p) scratch slots.
//!
//! `In(0)` is a one-byte token and `Out(0)` the union of all tokens (the engine reduces them as `u8` by `bor`), so that
//! order is a data dependency like any other: no rank has the union before every rank has come. A token may count
//! twice where p is no power of two, which a union does not mind.

use super::{INPUT, OUTPUT, back, forward, rounds};
use crate::plan::build::Builder;
use crate::plan::{Action, Range};

pub(super) fn barrier(b: &mut Builder) {
    let shape = b.shape();
    let rounds = rounds(shape.size);
    b.copy(OUTPUT, INPUT);
    for round in 0..rounds {
        let theirs = Range::scratch(round);
        b.send(forward(&shape, 1 << round), OUTPUT);
        b.recv(back(&shape, 1 << round), theirs);
        let sources = vec![OUTPUT, theirs];
        b.push(Action::Reduce { target: OUTPUT, sources, last: round + 1 == rounds });
    }
}
