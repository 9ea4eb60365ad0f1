//! Messages from rank to rank: which receive gets which message, and what happens when they do not fit.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "messages/fitting.rs"]
mod fitting;
#[path = "messages/oneself.rs"]
mod oneself;
#[path = "messages/order.rs"]
mod order;
mod ranks;
mod reference;
