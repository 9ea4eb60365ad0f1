//! Gives every node its times, in the order in which they begin.
//!
//! A send begins when its first bytes are there, its rank's port is free and, if it is granted, its receive's grant
//! has come; a receive when its message has. What comes in shares a rank's port too: no rank ends before all of it would
//! have passed there, one message after the other; when each of them comes is not changed by that. Rounds are counted along
//! the same waits.

use std::cmp::{Ordering, Reverse};
use std::collections::{BinaryHeap, HashMap};

use super::Model;
use super::graph::{Graph, Kind, Node};
use crate::error::Error;

/// What a run gives.
pub(super) struct Outcome {
    /// Seconds until the last node is done.
    pub(super) seconds: f64,
    /// The longest chain of messages.
    pub(super) rounds: u32,
    /// Seconds that the busiest processor reduces and copies.
    pub(super) processor_s: f64,
}

pub(super) fn run(graph: &Graph, model: &Model) -> Result<Outcome, Error> {
    let (states, ranks) = finished(graph, model)?;
    let ends = states.iter().map(|state| state.last);
    let inbound = ranks.iter().filter_map(|rank| rank.inbound);
    Ok(Outcome {
        seconds: ends.chain(inbound).fold(0.0, f64::max),
        rounds: states.iter().map(|state| state.depth).max().unwrap_or(0),
        processor_s: ranks.iter().map(|rank| rank.worked).fold(0.0, f64::max),
    })
}

/// The longest chain of messages to each node.
pub(super) fn depths(graph: &Graph, model: &Model) -> Result<Vec<u32>, Error> {
    Ok(finished(graph, model)?.0.iter().map(|state| state.depth).collect())
}

fn finished(graph: &Graph, model: &Model) -> Result<(Vec<State>, Vec<Rank>), Error> {
    let mut run = Run {
        graph,
        model,
        states: graph.nodes.iter().map(|_| State::default()).collect(),
        ranks: vec![Rank::default(); graph.sent.len()],
        queue: BinaryHeap::new(),
    };
    for id in 0..graph.nodes.len() {
        let is_message = graph.nodes[id].kind == Kind::Receive
            || graph.nodes[id].kind == Kind::Send && run.is_granted(id);
        run.states[id].waits = graph.nodes[id].earlier + u32::from(is_message);
    }
    // Before a grant lets another node go on.
    let first: Vec<_> = (0..graph.nodes.len()).filter(|id| run.can_go_on(*id)).collect();
    first.into_iter().for_each(|id| run.settle(id));
    let mut left = graph.nodes.len();
    while let Some(Reverse(next)) = run.queue.pop() {
        run.perform(next.id);
        left -= 1;
    }
    if left > 0 {
        return Err(Error::Internal(format!("{left} steps wait for ever")));
    }
    Ok((run.states, run.ranks))
}

/// What is known of a node.
#[derive(Debug, Default, Clone, Copy)]
struct State {
    /// How many nodes it still waits for.
    waits: u32,
    /// Messages on the longest chain to it.
    depth: u32,
    /// When it can begin, as far as it has waited.
    begin: f64,
    /// When its last bytes are there, as far as it has waited.
    end: f64,
    /// When its first frame is done.
    first: f64,
    /// When it is done.
    last: f64,
}

impl State {
    /// One of the nodes that it waits for is done.
    fn wait(&mut self, begin: f64, end: f64, depth: u32) {
        self.begin = self.begin.max(begin);
        self.end = self.end.max(end);
        self.depth = self.depth.max(depth);
        self.waits -= 1;
    }
}

/// When what a rank's steps share is free again.
#[derive(Debug, Default, Clone)]
struct Rank {
    /// The port, for what leaves.
    outbound: f64,
    /// When all that comes in would have passed the port, from the first message on; `None` before that.
    inbound: Option<f64>,
    /// The processor, where it reduces and copies: when it is free, and how long it has worked.
    processor: f64,
    worked: f64,
    calls: Calls,
}

/// The processor, where it begins and ends messages: they do not wait for long reductions.
#[derive(Debug, Default, Clone)]
struct Calls {
    free: f64,
    /// When the latest of the messages so far could have begun.
    latest: f64,
    /// By peer, when the last call for a message to, or from, it ended.
    last: HashMap<(u32, Kind), f64>,
}

impl Calls {
    /// When a message has begun, or ended. Messages of one peer that are there together take one call.
    ///
    /// Nodes come in the order in which they are known to begin; one that could have begun before those seen is taken
    /// to have found the processor free.
    fn take(&mut self, node: &Node, begin: f64, overhead: f64) -> f64 {
        if overhead <= 0.0 {
            return begin;
        }
        let last = self.last.entry((node.peer, node.kind)).or_insert(-1.0);
        if begin <= *last {
            return *last;
        }
        self.free = if begin < self.latest { self.free } else { self.free.max(begin) } + overhead;
        let end = if begin < self.latest { begin + overhead } else { self.free };
        self.latest = self.latest.max(begin);
        *last = end;
        end
    }
}

/// A node that can begin.
#[derive(Debug, Clone, Copy)]
struct Ready {
    begin: f64,
    end: f64,
    /// Of two, the earlier step of a plan goes first.
    step: u32,
    id: usize,
}

impl Ord for Ready {
    fn cmp(&self, other: &Self) -> Ordering {
        let times = self.begin.total_cmp(&other.begin).then(self.end.total_cmp(&other.end));
        times.then(self.step.cmp(&other.step)).then(self.id.cmp(&other.id))
    }
}

impl PartialOrd for Ready {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Ready {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Ready {}

struct Run<'a> {
    graph: &'a Graph,
    model: &'a Model,
    states: Vec<State>,
    ranks: Vec<Rank>,
    queue: BinaryHeap<Reverse<Ready>>,
}

impl Run<'_> {
    fn is_granted(&self, id: usize) -> bool {
        self.graph.nodes[id].bytes > f64::from(self.model.eager_bytes)
    }

    /// Whether a node has waited for all, or is a receive that has waited for all but a message that it must grant.
    fn can_go_on(&self, id: usize) -> bool {
        match self.states[id].waits {
            0 => true,
            1 => self.graph.nodes[id].kind == Kind::Receive && self.is_granted(id),
            _ => false,
        }
    }

    /// Lets a node go on if it can.
    fn settle(&mut self, id: usize) {
        let (node, state) = (&self.graph.nodes[id], self.states[id]);
        if state.waits == 0 {
            let State { begin, end, .. } = state;
            self.queue.push(Reverse(Ready { begin, end, step: node.step, id }));
        } else if self.can_go_on(id) {
            // The message cannot be there: it waits for this grant.
            let (sender, alpha) = (node.partner as usize, self.model.alpha_s);
            self.states[sender].wait(state.begin + alpha, state.end + alpha, state.depth);
            self.settle(sender);
        }
    }

    /// Gives a node its times and tells those that wait for it.
    fn perform(&mut self, id: usize) {
        let (node, model) = (&self.graph.nodes[id], self.model);
        if node.kind == Kind::Send {
            self.send(id);
            self.arrive(id);
        } else {
            self.process(id);
        }
        let state = self.states[id];
        let frame = f64::from(model.frame_bytes).min(node.bytes);
        for wait in self.graph.users(id) {
            let reached = |bytes: f64| match bytes {
                _ if bytes < 0.0 => 0.0,
                _ if bytes == f64::INFINITY => state.last,
                // Sums of fractions of bytes may miss their frame by a little.
                _ if bytes <= frame || node.bytes <= frame => state.first,
                _ => {
                    let part = ((bytes - frame) / (node.bytes - frame)).min(1.0);
                    state.first + (state.last - state.first) * part
                }
            };
            let user = wait.user as usize;
            self.states[user].wait(reached(wait.first), reached(wait.last), state.depth);
            self.settle(user);
        }
    }

    /// Seconds on the wire of so many bytes of a message.
    fn wire(&self, bytes: f64) -> f64 {
        let frames = (bytes / f64::from(self.model.frame_bytes)).ceil().max(1.0);
        (bytes + f64::from(self.model.header_bytes) * frames) * self.model.beta_s
    }

    fn send(&mut self, id: usize) {
        let (node, model) = (&self.graph.nodes[id], self.model);
        let frame = self.wire(node.bytes.min(f64::from(model.frame_bytes)));
        let all = self.wire(node.bytes);
        let (rank, state) = (&mut self.ranks[node.rank as usize], &mut self.states[id]);
        let called = rank.calls.take(node, state.begin, model.overhead_s);
        let begin = called.max(rank.outbound);
        rank.outbound = begin + all;
        state.first = begin + frame;
        state.last = rank.outbound.max(state.end + frame);
        state.depth += 1;
    }

    /// Brings a message to its receiver.
    fn arrive(&mut self, id: usize) {
        let (node, model, state) = (&self.graph.nodes[id], self.model, self.states[id]);
        let receiver = node.partner as usize;
        let (first, last) = (state.first + model.alpha_s, state.last + model.alpha_s);
        let frame = self.wire(node.bytes.min(f64::from(model.frame_bytes)));
        let all = self.wire(node.bytes);
        let rank = &mut self.ranks[self.graph.nodes[receiver].rank as usize];
        rank.inbound = Some(rank.inbound.unwrap_or(first - frame) + all);
        self.states[receiver].wait(first, last, state.depth);
        self.settle(receiver);
    }

    /// A receive, or a step that moves nothing.
    fn process(&mut self, id: usize) {
        let (node, model, state) = (&self.graph.nodes[id], self.model, &mut self.states[id]);
        let rank = &mut self.ranks[node.rank as usize];
        let mut begin = state.begin;
        if node.kind == Kind::Receive {
            begin = rank.calls.take(node, begin, model.overhead_s);
        }
        let work = model.gamma_s * node.passes;
        let first = work * node.bytes.min(f64::from(model.frame_bytes));
        state.first = begin + first;
        state.last = state.first.max(state.end + first);
        if work > 0.0 {
            rank.worked += work * node.bytes;
            rank.processor = rank.processor.max(begin) + work * node.bytes;
            state.last = state.last.max(rank.processor);
        }
    }
}
