//! The C ABI, one file per section of the header: `version`, `status`, `types`, `store`, `world`, `collectives`, `request`.
//!
//! Entry points are written out in full, so that rustfmt, clippy and cbindgen see plain functions. What they share is in
//! small files without a section: `guard` stops panics and reports errors, `pointer` lends and frees handles and fills
//! out-parameters, `options` reads option structs of any age, `exchange` calls the caller's allgather. Every entry point
//! checks in one order: handle, out-parameters, options, values; then it works.
#![allow(non_camel_case_types, reason = "the types carry their C names")]

mod exchange;
mod guard;
mod options;
mod pointer;
#[cfg(test)]
mod tests;

pub mod collectives;
pub mod request;
pub mod status;
pub mod store;
pub mod types;
pub mod version;
pub mod world;
