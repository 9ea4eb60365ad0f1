//! Steps of ranks as the nodes of a graph: what waits for what, and from which byte on.
//!
//! Plans are made rank by rank and dropped, so that memory grows with the steps alone. Where an algorithm looks alike
//! from every rank, rank 0's plan is enough: the message that it gets from rank q takes as long as the one that it
//! sends to q's mirror image, so that the two are paired.

use std::collections::HashMap;

use super::Model;
use crate::error::Error;
use crate::plan::{Action, Algorithm, Buffer, Collective, Plan, Range, Shape, Step, build};

/// Steps, or waits between them, of a graph: some 100 bytes each.
const STEPS_MAX: usize = 10 << 20;

/// A partner not found yet, or a peer that a local step has not.
const NONE: u32 = u32::MAX;

#[derive(Debug)]
pub(super) struct Graph {
    pub(super) nodes: Vec<Node>,
    /// Grouped by the node that is waited for, in the order of the nodes.
    pub(super) waits: Vec<Wait>,
    /// By rank.
    pub(super) sent: Vec<Sent>,
    /// How many ranks each rank of the graph stands for.
    pub(super) alike: u32,
}

/// One step of one rank.
#[derive(Debug)]
pub(super) struct Node {
    pub(super) rank: u32,
    /// Its number in its plan.
    pub(super) step: u32,
    pub(super) kind: Kind,
    pub(super) bytes: f64,
    /// Passes over the bytes by the processor.
    pub(super) passes: f64,
    /// The other end of a message, and its rank.
    pub(super) partner: u32,
    pub(super) peer: u32,
    /// How many earlier steps of its own rank it waits for.
    pub(super) earlier: u32,
    /// The first of its users in `Graph::waits`; they end where those of the next node begin.
    pub(super) users: u32,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Kind {
    Send,
    Receive,
    Local,
}

/// A later step of the same rank that waits.
#[derive(Debug, Clone, Copy)]
pub(super) struct Wait {
    pub(super) user: u32,
    /// Bytes that must be done before the user's first frame; negative where it need not wait, infinite for all.
    pub(super) first: f64,
    /// Bytes that must be done before the user's last frame.
    pub(super) last: f64,
}

/// What a rank sends.
#[derive(Debug, Default, Clone, Copy)]
pub(super) struct Sent {
    pub(super) bytes: f64,
    pub(super) messages: u64,
}

/// How the rest of the world looks from a rank.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Symmetry {
    /// Not alike from every rank.
    None,
    /// Rank r's peers are r + d.
    Cyclic,
    /// Rank r's peers are r ^ d.
    Xor,
}

impl Graph {
    /// Of all ranks' plans where there are at most `all_max` or they are not alike, else of rank 0's.
    pub(super) fn new(
        shape: &Shape,
        bytes: usize,
        model: &Model,
        all_max: u32,
    ) -> Result<Self, Error> {
        let symmetry = if shape.size <= all_max { Symmetry::None } else { symmetry(shape) };
        let (ranks, alike) =
            if symmetry == Symmetry::None { (shape.size, 1) } else { (1, shape.size) };
        let mut maker = Maker::new(symmetry, alike, model);
        for rank in 0..ranks {
            maker.add(&build(&Shape { rank, ..*shape })?, bytes)?;
        }
        maker.finish()
    }

    /// Of these plans, one a rank.
    pub(super) fn of(plans: &[Plan], bytes: usize, model: &Model) -> Result<Self, Error> {
        let mut maker = Maker::new(Symmetry::None, 1, model);
        plans.iter().try_for_each(|plan| maker.add(plan, bytes))?;
        maker.finish()
    }

    /// The nodes that wait for a node.
    pub(super) fn users(&self, node: usize) -> &[Wait] {
        let end = self.nodes.get(node + 1).map_or(self.waits.len(), |next| next.users as usize);
        &self.waits[self.nodes[node].users as usize..end]
    }
}

/// Blocks that the larger one of a rank's input and output has.
fn blocks_of_buffer(plan: &Plan) -> u32 {
    let is_exchange = plan.shape.collective.regular() == Collective::Alltoall;
    if is_exchange { plan.shape.size } else { plan.blocks.max(1) }
}

/// Which ranks' plans are alike; a test compares with all plans.
fn symmetry(shape: &Shape) -> Symmetry {
    let is_alike = matches!(
        shape.collective.regular(),
        Collective::Allreduce
            | Collective::Barrier
            | Collective::Allgather
            | Collective::ReduceScatter
            | Collective::Alltoall
    );
    match shape.algorithm {
        _ if !is_alike => Symmetry::None,
        Algorithm::Binomial | Algorithm::Knomial | Algorithm::Chain => Symmetry::None,
        Algorithm::Doubling | Algorithm::Rabenseifner | Algorithm::Halving => {
            if shape.size.is_power_of_two() { Symmetry::Xor } else { Symmetry::None }
        }
        _ => Symmetry::Cyclic,
    }
}

/// A message by sender, receiver and ordinal. In a graph of rank 0 alone, by receiver only.
type Message = (u32, u32, u32);

struct Maker {
    graph: Graph,
    /// The end seen so far of each message of which the other is still to come.
    messages: HashMap<Message, u32>,
    symmetry: Symmetry,
    frame: f64,
}

impl Maker {
    fn new(symmetry: Symmetry, alike: u32, model: &Model) -> Self {
        let graph = Graph { nodes: Vec::new(), waits: Vec::new(), sent: Vec::new(), alike };
        let frame = f64::from(model.frame_bytes);
        Self { graph, messages: HashMap::new(), symmetry, frame }
    }

    fn finish(self) -> Result<Graph, Error> {
        match self.messages.len() {
            0 => Ok(self.graph),
            halves => Err(Error::Internal(format!("{halves} messages have one end only"))),
        }
    }

    /// Adds a rank's steps.
    fn add(&mut self, plan: &Plan, bytes: usize) -> Result<(), Error> {
        let block = bytes as f64 / f64::from(blocks_of_buffer(plan));
        let base = self.graph.nodes.len();
        let mut waits: Vec<(u32, Wait)> = Vec::new();
        let mut sent = Sent::default();
        for (index, step) in (0_u32..).zip(&plan.steps) {
            let user = base as u32 + index;
            self.push(plan, index, block);
            if let Action::Send { source, .. } = step.action {
                sent.bytes += f64::from(source.blocks) * block;
                sent.messages += 1;
            }
            let ranges = Ranges::new(step);
            for earlier in &step.after {
                let (first, last) =
                    ranges.limits(&plan.steps[*earlier as usize], block, self.frame);
                waits.push((*earlier, Wait { user, first, last }));
            }
            if let Some(gate) = step.gate {
                waits.push((gate, Wait { user, first: f64::INFINITY, last: f64::INFINITY }));
            }
            if self.graph.nodes.len() + self.graph.waits.len() + waits.len() > STEPS_MAX {
                return Err(Error::Unsupported(format!(
                    "{} by {} on {} ranks has too many steps to be modelled",
                    plan.shape.collective, plan.shape.algorithm, plan.shape.size
                )));
            }
        }
        waits.sort_by_key(|(earlier, _)| *earlier);
        let mut waits = waits.into_iter().peekable();
        for (index, node) in (0..).zip(&mut self.graph.nodes[base..]) {
            node.users = self.graph.waits.len() as u32;
            while let Some((_, wait)) = waits.next_if(|(earlier, _)| *earlier == index) {
                self.graph.waits.push(wait);
            }
        }
        self.graph.sent.push(sent);
        Ok(())
    }

    fn push(&mut self, plan: &Plan, index: u32, block: f64) {
        let (rank, id) = (plan.shape.rank, self.graph.nodes.len() as u32);
        let step = &plan.steps[index as usize];
        let passes = match &step.action {
            Action::Send { .. } | Action::RecvCopy { .. } => 0.0,
            Action::RecvReduce { .. } | Action::Copy { .. } => 1.0,
            Action::Reduce { sources, .. } => sources.len().saturating_sub(1).max(1) as f64,
        };
        let kind = match step.peer() {
            None => Kind::Local,
            Some(_) if step.is_receive() => Kind::Receive,
            Some(_) => Kind::Send,
        };
        let mut partner = NONE;
        if let Some(peer) = step.peer() {
            let message = self.message(plan.shape.size, rank, peer, step);
            match self.messages.remove(&message) {
                Some(other) => {
                    partner = other;
                    self.graph.nodes[other as usize].partner = id;
                }
                None => drop(self.messages.insert(message, id)),
            }
        }
        self.graph.nodes.push(Node {
            rank,
            step: index,
            kind,
            bytes: f64::from(step.range().blocks) * block,
            passes,
            partner,
            peer: step.peer().unwrap_or(NONE),
            earlier: step.after.len() as u32 + u32::from(step.gate.is_some()),
            users: 0,
        });
    }

    fn message(&self, size: u32, rank: u32, peer: u32, step: &Step) -> Message {
        let (sender, receiver) = if step.is_receive() { (peer, rank) } else { (rank, peer) };
        let receiver = match self.symmetry {
            Symmetry::None => return (sender, receiver, step.ordinal),
            Symmetry::Cyclic => (receiver + size - sender) % size,
            Symmetry::Xor => receiver ^ sender,
        };
        (0, receiver, step.ordinal)
    }
}

/// The ranges of a step, sorted by place, so that one that meets another is found fast among very many.
struct Ranges {
    sorted: Vec<(Range, bool)>,
    /// The most blocks of one.
    longest: u32,
}

impl Ranges {
    fn new(step: &Step) -> Self {
        let mut sorted: Vec<_> = ranges(step).collect();
        sorted.sort_unstable_by_key(|(range, _)| (range.buffer, range.slot));
        let longest = sorted.iter().map(|(range, _)| range.blocks).max().unwrap_or(0);
        Self { sorted, longest }
    }

    /// The bytes of an earlier step that must be done before the first and before the last frame of this one.
    fn limits(&self, earlier: &Step, block: f64, frame: f64) -> (f64, f64) {
        let (mut first, mut last) = (-1.0_f64, -1.0_f64);
        for (theirs, is_written) in ranges(earlier) {
            for (mine, _) in self.meeting(theirs).filter(|(_, written)| is_written || *written) {
                let at = |slots: u64| slots as f64 * block;
                let (low, high) = (at(mine.slot.into()), at(end(*mine)));
                let (start, stop) = (at(theirs.slot.into()), at(end(theirs)));
                last = last.max(high.min(stop) - start);
                if start < low + frame {
                    first = first.max((low + frame.min(high - low)).min(stop) - start);
                }
            }
        }
        (first, last)
    }

    fn meeting(&self, other: Range) -> impl Iterator<Item = &(Range, bool)> {
        let key = |buffer: Buffer, slot: u64| (buffer, slot);
        let reach = u64::from(self.longest);
        let from = self.sorted.partition_point(|(range, _)| {
            key(range.buffer, u64::from(range.slot) + reach) <= key(other.buffer, other.slot.into())
        });
        let until = key(other.buffer, end(other));
        let candidates = self.sorted[from..].iter();
        let candidates =
            candidates.take_while(move |(range, _)| key(range.buffer, range.slot.into()) < until);
        candidates.filter(move |(range, _)| range.meets(&other))
    }
}

/// The ranges of a step, and whether it writes them.
fn ranges(step: &Step) -> impl Iterator<Item = (Range, bool)> {
    let read = step.sources().iter().map(|source| (*source, false));
    read.chain(step.target().map(|target| (target, true)))
}

fn end(range: Range) -> u64 {
    u64::from(range.slot) + u64::from(range.blocks)
}
