//! The boundary: no panic passes it, every error becomes a status with a text, and no thread is cancelled inside.
//!
//! Every entry point that does more than to look at its arguments runs in [`guard`] as a whole. Outside of it nothing is
//! owned and nothing panics, so that a cancellation that came meanwhile may unwind the frames of the entry point when it
//! is let through: `extern "C-unwind"` allows that, and a frame without clean-up has no table that forbids it.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use super::pointer::is_null;
use super::status::{collect_status, record};
use super::world::collect_world;
use crate::error::Error;
use crate::link::syscall::cancellation::Disabled;

/// What the body of an entry point ends with.
pub(super) type Outcome = Result<collect_status, Error>;

/// Runs the body of an entry point.
pub(super) fn guard(body: impl FnOnce() -> Outcome) -> collect_status {
    let disabled = Disabled::new();
    let status = run(body);
    disabled.restore();
    status
}

/// Runs the body of an entry point of a world, which `borrow` takes a share in; `None` stands for NULL.
pub(super) fn guard_world(
    borrow: impl FnOnce() -> Option<Arc<collect_world>>,
    body: impl FnOnce(&Arc<collect_world>) -> Outcome,
) -> collect_status {
    guard(|| in_world(&borrow().ok_or_else(|| is_null("world"))?, body))
}

/// Runs the part of a body that belongs to `world`. A panic fails the world, lest its peers wait for ever.
pub(super) fn in_world(
    world: &Arc<collect_world>,
    body: impl FnOnce(&Arc<collect_world>) -> Outcome,
) -> Outcome {
    let outcome = contain(|| body(world));
    if let Err(Error::Internal(text)) = &outcome {
        let _ = contain(|| Err(world.fail(text)));
    }
    outcome
}

/// Apart from [`guard`], so that all clean-up is in here.
#[inline(never)]
fn run(body: impl FnOnce() -> Outcome) -> collect_status {
    contain(body).unwrap_or_else(|error| record(&error))
}

fn contain(body: impl FnOnce() -> Outcome) -> Outcome {
    catch_unwind(AssertUnwindSafe(body))
        .unwrap_or_else(|panic| Err(Error::Internal(text_of(&*panic).to_owned())))
}

fn text_of(panic: &(dyn Any + Send)) -> &str {
    panic
        .downcast_ref::<&str>()
        .copied()
        .or_else(|| panic.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("a panic without a message")
}

#[cfg(test)]
mod tests {
    use std::panic::panic_any;

    use super::*;
    use crate::ffi::status::{COLLECT_ERR_INTERNAL, COLLECT_ERR_INVALID_ARGUMENT, COLLECT_OK};

    #[test]
    fn a_panic_becomes_a_status() {
        assert_eq!(guard(|| panic!("planted")), COLLECT_ERR_INTERNAL);
        let number = 7;
        assert_eq!(guard(|| panic!("planted {number}")), COLLECT_ERR_INTERNAL);
        assert_eq!(guard(|| panic_any(number)), COLLECT_ERR_INTERNAL);
        assert_eq!(guard(|| Ok(COLLECT_OK)), COLLECT_OK);
    }

    #[test]
    fn a_panic_keeps_its_text() {
        let outcome = contain(|| panic!("planted {}", 7));
        assert_eq!(outcome, Err(Error::Internal("planted 7".into())));
    }

    #[test]
    fn a_null_world_is_the_callers_mistake() {
        let status = guard_world(|| None, |_| panic!("not reached"));
        assert_eq!(status, COLLECT_ERR_INVALID_ARGUMENT);
    }
}
