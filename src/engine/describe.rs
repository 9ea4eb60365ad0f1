//! Operations in words, for messages that name both sides of a mismatch.
#![forbid(unsafe_code)]

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
    arguments.push(fingerprint.count.to_string());
    if let Some(op) = Op::from_number(i32::from(fingerprint.op)) {
        arguments.push(op.to_string());
    }
    if matches!(collective, Some(Collective::Broadcast | Collective::Reduce)) {
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

/// "operation 17", "fork 0x1234".
pub(super) fn number(class: Class, number: u64) -> String {
    match class {
        Class::Ordered => format!("operation {number}"),
        Class::Fork => format!("fork {number:#x}"),
        Class::Control => "no operation".into(),
    }
}
