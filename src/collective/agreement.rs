//! The agreement on a fork: a barrier of its own class among the members of the new world.
//!
//! Its fingerprint covers the number of members and the options, so that who hears from everybody, directly or through
//! others, knows that all fork alike.
#![forbid(unsafe_code)]

use std::sync::Arc;

use super::{Programs, hash};
use crate::datatype::{Datatype, Op};
use crate::engine::{Fingerprint, Matching, Members, Operation, Program};
use crate::error::Error;
use crate::plan::{Algorithm, Collective, Shape};

/// A fork to be agreed on.
#[derive(Debug)]
pub struct Agreement {
    program: Arc<Program>,
    members: Arc<Members>,
    fingerprint: Fingerprint,
}

impl Agreement {
    /// Among `members`, of which this process is `rank`; `options` is all text that must be equal.
    ///
    /// # Errors
    ///
    /// None that arguments of a world can cause.
    pub fn new(
        members: &Arc<Members>,
        rank: usize,
        options: &str,
        programs: &Programs,
    ) -> Result<Self, Error> {
        let program = programs.get(&Shape {
            collective: Collective::Barrier,
            algorithm: Algorithm::Dissemination,
            size: u32::try_from(members.size()).unwrap_or(u32::MAX),
            rank: u32::try_from(rank).unwrap_or(u32::MAX),
            root: 0,
            in_place: false,
            buffers: 1,
            degree: 0,
        })?;
        let letters: Vec<u64> = options.bytes().map(u64::from).collect();
        let fingerprint = Fingerprint {
            collective: Collective::Barrier as u8,
            algorithm: Algorithm::Dissemination as u8,
            count: members.size() as u64,
            hash: hash(&letters),
            ..Fingerprint::default()
        };
        Ok(Self { program, members: Arc::clone(members), fingerprint })
    }

    /// Makes the operation, in the parent world, from a used one if there is one.
    #[must_use]
    pub fn fill(
        self,
        spare: Option<Box<Operation>>,
        parent: u64,
        number: u64,
        timeout_ns: Option<u64>,
    ) -> Box<Operation> {
        let Self { program, members, fingerprint } = self;
        let mut operation =
            spare.unwrap_or_else(|| Operation::blank(Arc::clone(&program), Arc::clone(&members)));
        operation.matching = Matching::Fork(number);
        operation.world = parent;
        operation.program = program;
        operation.members = members;
        (operation.datatype, operation.op, operation.element) = (Datatype::U8, Op::Bor, 1);
        (operation.count, operation.slice_count) = (1, 1);
        operation.fingerprint = fingerprint;
        operation.timeout_ns = timeout_ns;
        operation.lend_tokens();
        operation
    }
}
