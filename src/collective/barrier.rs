//! Barrier: a one-byte token goes around, so that order is a dependency of data like any other.
#![forbid(unsafe_code)]

use super::elements::Elements;
use super::job::Job;
use crate::plan::Collective;

/// Its buffers are tokens of the operation's own, which it does not work on in place.
pub(super) fn job<'a>(elements: Elements) -> Job<'a> {
    Job::of(Collective::Barrier, elements, 1)
}
