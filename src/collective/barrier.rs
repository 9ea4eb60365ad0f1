//! Barrier: a one-byte token goes around, so that order is a dependency of data like any other.
#![forbid(unsafe_code)]

use super::job::Job;
use crate::datatype::Datatype;
use crate::engine::Region;
use crate::plan::Collective;

pub(super) fn job<'a>() -> Job<'a> {
    Job {
        collective: Collective::Barrier,
        datatype: Datatype::U8,
        op: None,
        root: None,
        count: 1,
        // Its tokens are the operation's own; that they are not in place is all that the plan needs to know.
        input: Region::EMPTY,
        output: Region::EMPTY,
        in_place: false,
        many: &[],
    }
}
