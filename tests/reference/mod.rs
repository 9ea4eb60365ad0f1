//! What collectives must do, in plain Rust: calls, their buffers on each rank, and what must be in them afterwards.
//!
//! `values` makes and reduces elements, `case` says what each rank brings and gets, `buffers` lays it in memory with
//! guards around, and checks every byte. `calls` are calls on vectors, messages among them.
#![allow(dead_code, reason = "each test program uses a part")]
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

pub(crate) mod buffers;
pub(crate) mod calls;
pub(crate) mod case;
pub(crate) mod values;
