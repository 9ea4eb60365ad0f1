//! Programs that have been built, by all that they depend on; and the table by which algorithms are chosen.
#![forbid(unsafe_code)]

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;

use crate::engine::Program;
use crate::error::Error;
use crate::plan::{self, Shape, Table};

/// Plans of one process that are kept; beyond, the cache begins anew (operations keep what they run).
const PROGRAMS_MAX: usize = 4096;

/// The programs of an endpoint, shared by its worlds.
#[derive(Debug)]
pub struct Programs {
    /// Equal on all ranks.
    table: Table,
    built: Mutex<HashMap<Shape, Arc<Program>>>,
}

impl Programs {
    /// None yet.
    #[must_use]
    pub fn new(table: Table) -> Self {
        Self { table, built: Mutex::default() }
    }

    /// The table by which algorithms are chosen.
    pub(super) fn table(&self) -> &Table {
        &self.table
    }

    /// The program of a shape; built on first use.
    ///
    /// # Errors
    ///
    /// [`Error::InvalidArgument`] if no algorithm has this shape.
    pub fn get(&self, shape: &Shape) -> Result<Arc<Program>, Error> {
        if let Some(program) = self.built.lock().get(shape) {
            return Ok(Arc::clone(program));
        }
        let program = Arc::new(Program::new(plan::build(shape)?));
        let mut built = self.built.lock();
        if built.len() >= PROGRAMS_MAX {
            built.clear();
        }
        Ok(Arc::clone(built.entry(*shape).or_insert(program)))
    }
}
