//! What a premul_sum does before its operation begins: this rank's elements are multiplied by this rank's factor.
//!
//! The products go where the result will be, if that is as long; else to memory that the operation owns. It is done on
//! the caller's thread, whenever the operation is submitted, so that nothing is multiplied under a lock.
#![forbid(unsafe_code)]

use parking_lot::Mutex;

use crate::datatype::Datatype;
use crate::engine::{Region, Scratch, scale};

/// Pieces of memory that are kept to be used again.
const SPARES_MAX: usize = 4;

/// What is multiplied by what.
#[derive(Debug, Clone, Copy)]
pub(super) struct Scaling {
    pub(super) factor: f64,
    pub(super) datatype: Datatype,
    pub(super) products: Products,
}

/// Where the products go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Products {
    /// Those of each source to its target.
    InTargets,
    /// Those of the one source to memory of the operation's own.
    InOwn,
}

impl Scaling {
    /// Multiplies. Returns the memory that becomes the operation's.
    pub(super) fn run(
        &self,
        sources: impl Iterator<Item = Region>,
        targets: impl Iterator<Item = Region>,
        spares: &SpareProducts,
    ) -> Scratch {
        let multiply = |source: &Region, target: &Region| {
            scale(self.datatype, self.factor, source, target);
        };
        let mut own = Scratch::default();
        match self.products {
            Products::InTargets => {
                sources.zip(targets).for_each(|(source, target)| multiply(&source, &target));
            }
            Products::InOwn => {
                own = spares.take();
                sources.for_each(|source| multiply(&source, &own.lend(source.bytes())));
            }
        }
        own
    }
}

/// Memory for products, used again and again by the operations of one endpoint.
#[derive(Debug, Default)]
pub struct SpareProducts {
    spare: Mutex<Vec<Scratch>>,
}

impl SpareProducts {
    fn take(&self) -> Scratch {
        self.spare.lock().pop().unwrap_or_default()
    }

    /// Keeps what an operation has left, if it is worth it.
    pub fn put(&self, scratch: Scratch) {
        if scratch.capacity() == 0 {
            return;
        }
        let mut spare = self.spare.lock();
        if spare.len() < SPARES_MAX {
            spare.push(scratch);
        }
    }
}
