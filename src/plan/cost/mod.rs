//! What a collective costs, from its plans alone: nothing is run.
//!
//! The model is alpha-beta-gamma with frames: each step has two times, when its first frame and when its last byte is
//! done; between them its watermark is taken as a straight line. A rank's port takes what leaves in turn, and what comes
//! in; its processor is shared. `graph` makes steps of all ranks into nodes, `run` gives them their times. Used by `modelled`
//! tables and by `collect plan --cost`.
//!
//! Blocks are taken as equally long, none empty, and a plan that runs on slices as one that does not: slices cost a few
//! per cent more.

mod graph;
mod run;

#[cfg(test)]
mod tests;

use std::fmt;

use super::{Action, Layout, Plan, Shape};
use crate::error::Error;
use graph::Graph;

/// The largest world that costs are modelled for.
pub(super) const SIZE_MAX: u32 = 1 << 16;

/// Up to this many ranks all plans are made, whatever they look like.
const ALL_SIZE_MAX: u32 = 32;

/// What links and processors take.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Model {
    /// Seconds from the last byte's leaving to its arrival (alpha).
    pub alpha_s: f64,
    /// Seconds that a byte takes on the wire (beta).
    pub beta_s: f64,
    /// Seconds to reduce, or to copy, a byte (gamma).
    pub gamma_s: f64,
    /// Seconds of a process for each message that it sends or receives, whatever its length; messages of one peer that
    /// are there together count as one.
    pub overhead_s: f64,
    /// Bytes that each frame has besides its payload.
    pub header_bytes: u32,
    /// The longest message that leaves without a grant.
    pub eager_bytes: u32,
    /// The most payload of a frame.
    pub frame_bytes: u32,
}

impl Default for Model {
    /// TCP between hosts at 10 Gbit/s, or on one host with more ranks than processors, and the engine's own sizes: what
    /// the default table assumes. `collect bench tune` measures others.
    fn default() -> Self {
        Self {
            alpha_s: 10e-6,
            beta_s: 1e-9,
            gamma_s: 0.1e-9,
            overhead_s: 3e-6,
            header_bytes: 96,
            eager_bytes: 32 << 10,
            frame_bytes: 256 << 10,
        }
    }
}

impl fmt::Display for Model {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let rate = |second_of_byte: f64| rounded(1e-9 / second_of_byte);
        let us = |seconds: f64| rounded(seconds * 1e6);
        let (alpha, overhead) = (us(self.alpha_s), us(self.overhead_s));
        let (beta, gamma) = (rate(self.beta_s), rate(self.gamma_s));
        write!(f, "alpha {alpha} us, beta {beta} GB/s, gamma {gamma} GB/s, overhead {overhead} us")
    }
}

/// For people: three decimals.
fn rounded(number: f64) -> f64 {
    (number * 1e3).round() / 1e3
}

/// What a collective costs.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Cost {
    /// From the start to the end of the last rank.
    pub seconds: f64,
    /// What the busiest rank reduces and copies, most of it while messages are under way.
    pub processor_s: f64,
    /// The longest chain of messages each of which waits for the one before it.
    pub rounds: u32,
    /// Payload bytes that the rank sends that sends most.
    pub bytes_max: u64,
    /// Payload bytes that all ranks send.
    pub bytes_total: u64,
    /// Messages of the rank that sends most.
    pub messages_max: u64,
    /// Messages of all ranks.
    pub messages_total: u64,
}

/// The cost of one collective of `bytes` bytes, as [`super::Facts::bytes`] counts them; the shape's rank does not
/// matter.
///
/// Above 32 ranks, where an algorithm looks alike from every rank, the plan of rank 0 stands for all; a message that
/// other ranks cut in two at the end of the buffer then counts as one.
///
/// # Errors
///
/// [`Error::InvalidArgument`] for a shape that has no plan; [`Error::Unsupported`] where all plans together have too
/// many steps.
pub fn cost(shape: &Shape, bytes: usize, model: &Model) -> Result<Cost, Error> {
    if shape.size > SIZE_MAX {
        let text = format!("{} ranks; costs are modelled for at most {SIZE_MAX}", shape.size);
        return Err(Error::Unsupported(text));
    }
    cost_of(shape, bytes, model, ALL_SIZE_MAX)
}

/// The same, with all plans made up to so many ranks.
fn cost_of(shape: &Shape, bytes: usize, model: &Model, all_max: u32) -> Result<Cost, Error> {
    let graph = Graph::new(shape, bytes, model, all_max)?;
    let run::Outcome { seconds, rounds, processor_s } = run::run(&graph, model)?;
    let (ranks, alike) = (graph.sent.iter(), u64::from(graph.alike));
    Ok(Cost {
        seconds,
        processor_s,
        rounds,
        bytes_max: ranks.clone().map(|sent| whole(sent.bytes)).max().unwrap_or(0),
        bytes_total: ranks.clone().map(|sent| whole(sent.bytes)).sum::<u64>() * alike,
        messages_max: ranks.clone().map(|sent| sent.messages).max().unwrap_or(0),
        messages_total: ranks.map(|sent| sent.messages).sum::<u64>() * alike,
    })
}

/// For each step of each rank's plan, the messages on the longest chain that ends with it (its own included, if it is a
/// send): the time at which it happens where a message takes one and all else nothing.
///
/// # Errors
///
/// [`Error::Internal`] for plans that do not fit together, which the verifier would name.
pub fn depths(plans: &[Plan]) -> Result<Vec<Vec<u32>>, Error> {
    let model = Model::default();
    let depths = run::depths(&Graph::of(plans, 0, &model)?, &model)?;
    let mut depths = depths.into_iter();
    Ok(plans.iter().map(|plan| depths.by_ref().take(plan.steps.len()).collect()).collect())
}

/// Payload bytes that a rank sends, exactly, where its blocks lie as `layout` says and an element has `element` bytes.
#[must_use]
pub fn bytes_sent(plan: &Plan, layout: &Layout, element: usize) -> u64 {
    let sends = plan.steps.iter().filter(|step| matches!(step.action, Action::Send { .. }));
    sends.map(|step| layout.len(step.range()) as u64 * element as u64).sum()
}

/// Bytes of equal blocks, rounded up where the blocks are no whole number of bytes.
fn whole(bytes: f64) -> u64 {
    // Sums of quotients miss whole numbers by a little.
    (bytes - 1e-6).ceil() as u64
}
