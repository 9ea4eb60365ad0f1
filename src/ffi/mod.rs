//! The C ABI, one file per section of the header: `version`, `status`, `types`, `options`, `store`, `world`, `collectives`,
//! `gathers`, `scatters`, `partial`, `messages`, `reduction`, `batch`, `request`.
//!
//! Entry points are written out in full, so that rustfmt, clippy and cbindgen see plain functions. What they share is in
//! small files without a section: `guard` stops panics and reports errors, `pointer` lends and frees handles and fills
//! out-parameters, `sized` reads option structs of any age, `caller` is what all collectives have in common, `exchange`
//! calls the caller's allgather. Every entry point checks in one order: handle, out-parameters, options, values; then it
//! works.
#![allow(non_camel_case_types, reason = "the types carry their C names")]

mod caller;
mod exchange;
mod guard;
mod pointer;
mod sized;
#[cfg(test)]
mod tests;

pub mod batch;
pub mod collectives;
pub mod gathers;
pub mod messages;
pub mod options;
pub mod partial;
pub mod reduction;
pub mod request;
pub mod scatters;
pub mod status;
pub mod store;
pub mod types;
pub mod version;
pub mod world;
