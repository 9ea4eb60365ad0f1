//! Operations in words, for messages that name both sides of a mismatch.
#![forbid(unsafe_code)]

use super::name::Name;
use super::operation::{Matching, Operation};
use crate::datatype::{Datatype, Op};
use crate::link::frame::{Class, Fingerprint};
use crate::plan::{Algorithm, Collective};

/// "allreduce(f32, 1024, sum)", "broadcast(f32, 1024, root 0)", "barrier()", "fork of 4 ranks".
pub(super) fn call(fingerprint: &Fingerprint) -> String {
    let collective = Collective::from_number(i32::from(fingerprint.collective));
    let name = collective.map_or_else(|| "an unknown collective".into(), |c| c.to_string());
    if collective == Some(Collective::Barrier) {
        return if fingerprint.datatype == 0 {
            format!("fork({} ranks)", fingerprint.count)
        } else {
            "barrier()".into()
        };
    }
    let mut arguments = Vec::new();
    if let Some(datatype) = Datatype::from_number(i32::from(fingerprint.datatype)) {
        arguments.push(datatype.to_string());
    }
    if !collective.is_some_and(Collective::has_own_lengths) {
        arguments.push(fingerprint.count.to_string());
    }
    if let Some(op) = Op::from_number(i32::from(fingerprint.op)) {
        arguments.push(op.to_string());
    }
    if collective.is_some_and(Collective::has_root) {
        arguments.push(format!("root {}", fingerprint.root));
    }
    format!("{name}({})", arguments.join(", "))
}

/// What differs, with both sides: "rank 0 called allreduce(…), rank 3 called broadcast(…)".
pub(super) fn mismatch(mine: (u32, &Fingerprint), theirs: (u32, &Fingerprint)) -> String {
    let (first, second) = if mine.0 <= theirs.0 { (mine, theirs) } else { (theirs, mine) };
    let (a, b) = (call(first.1), call(second.1));
    let why = if a != b {
        String::new()
    } else if first.1.algorithm != second.1.algorithm {
        let name = |number: u8| {
            let algorithm = Algorithm::from_number(i32::from(number));
            algorithm.map_or_else(|| format!("algorithm {number}"), |a| a.to_string())
        };
        format!(" (algorithms {} and {})", name(first.1.algorithm), name(second.1.algorithm))
    } else {
        " (buffers per rank, slices, limits or options differ)".into()
    };
    format!("rank {} called {a}, rank {} called {b}{why}", first.0, second.0)
}

/// "operation 17", "operation with key 5 (use 2)", "message 3 to rank 1 with tag 7", as `rank` sees it.
pub(super) fn name(name: &Name, rank: u32) -> String {
    let Name { class, number, turn, partner } = *name;
    let is_upward = rank < partner;
    match class {
        Class::Ordered => format!("operation {number}"),
        Class::Keyed => format!("operation with key {number} (use {turn})"),
        Class::Fork => format!("fork {number:#x}"),
        Class::Upward | Class::Downward => {
            let way = if is_upward == (class == Class::Upward) { "to" } else { "from" };
            format!("message {turn} {way} rank {partner} with tag {number}")
        }
        Class::Control => "no operation".into(),
    }
}

/// The same of an operation that has its name.
pub(super) fn operation(op: &Operation) -> String {
    match op.matching {
        Matching::Send { to, tag } => {
            format!("message {} to rank {to} with tag {tag}", op.name.turn)
        }
        Matching::Receive { tag, .. } => {
            format!("message {} from rank {} with tag {tag}", op.name.turn, op.name.partner)
        }
        _ => name(&op.name, 0),
    }
}

/// The same of a message that has met no counterpart.
pub(super) fn unmatched(op: &Operation) -> String {
    match op.matching {
        Matching::Receive { from: Some(from), tag } => {
            format!("receive from rank {from} with tag {tag}")
        }
        Matching::Receive { from: None, tag } => format!("receive from any rank with tag {tag}"),
        Matching::Send { to, tag } => format!("message to rank {to} with tag {tag}"),
        _ => operation(op),
    }
}
