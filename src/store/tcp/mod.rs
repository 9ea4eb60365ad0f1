//! A store behind a TCP address: a server in rank 0's process or on its own, and clients.
//!
//! * `protocol`: the bytes of greetings, requests and replies, all lengths checked.
//! * `proof`: both sides prove that they know the token, and neither tells it.
//! * `service`: the server's keys and who waits for them, without I/O.
//! * `connection`, `server`: one thread for all clients, driven by poll(2).
//! * `client`, `dial`: a connection per call under way; a waiting get that gives up closes its connection, and the
//!   server forgets it.
//!
//! The server is single-threaded and never blocks on a client. Nothing that a client sends can end it, and what it
//! keeps for one is bounded: 64 bytes and 5 s before the proof, then one request of one key and one value.

mod client;
mod connection;
mod dial;
mod proof;
mod protocol;
mod server;
mod service;

// What the parts use of the layer.
use super::{Store, contract, table};

pub use client::TcpStore;
pub use server::TcpServer;
