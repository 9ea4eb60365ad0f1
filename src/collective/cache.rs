//! Programs that have been built, by all that they depend on.
#![forbid(unsafe_code)]

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;

use crate::engine::Program;
use crate::error::Error;
use crate::plan::{self, Shape};

/// Plans of one process that are kept; beyond, the cache begins anew (operations keep what they run).
const PROGRAMS_MAX: usize = 4096;

/// The programs of an endpoint, shared by its worlds.
#[derive(Debug, Default)]
pub struct Programs {
    built: Mutex<HashMap<Shape, Arc<Program>>>,
}

impl Programs {
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
