//! What can be chosen about a call.
#![forbid(unsafe_code)]

use std::sync::Arc;

use crate::config::Timeout;
use crate::engine::Custom;
use crate::plan::Algorithm;

/// How a call is made.
#[derive(Debug, Clone, Default)]
pub struct CallOptions {
    /// How long the operation may take; when it passes, the world fails.
    pub timeout: Timeout,
    /// The algorithm, equal on all ranks; `None`: the library chooses.
    pub algorithm: Option<Algorithm>,
    /// The parameter of the algorithm, equal on all ranks: the radix of a k-nomial tree, the messages at once of a
    /// pairwise exchange; 0: the library's choice for an algorithm that it has chosen, else the algorithm's default.
    pub degree: u16,
    /// Calls with equal keys match, whatever their order among others; uses of one key match in their order. `None`: by
    /// the order of the calls in the world. Not for messages, which have tags.
    pub key: Option<u64>,
    /// What a `premul_sum` multiplies this rank's elements by; ranks may differ in it.
    pub factor: f64,
    /// The reduction of [`crate::Op::Custom`]: the same function on all ranks.
    pub custom: Option<Arc<Custom>>,
}
