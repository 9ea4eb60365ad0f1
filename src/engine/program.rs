//! A plan made ready to run: who waits for a step, and which step a frame belongs to.
//!
//! Made once for each plan and shared by all operations that run it; holds nothing of any one operation.
#![forbid(unsafe_code)]

use crate::plan::{Algorithm, Collective, Plan, Shape};

/// A plan with its indexes.
#[derive(Debug)]
pub struct Program {
    plan: Plan,
    /// For each step, the later steps that it limits.
    users: Vec<Vec<u32>>,
    /// (peer, ordinal, step) of every receive, sorted.
    receives: Vec<(u32, u32, u32)>,
    /// (peer, step) of every send, sorted.
    sends: Vec<(u32, u32)>,
    /// Every rank that this one sends to or receives from, sorted.
    peers: Vec<u32>,
}

impl Program {
    /// Makes the indexes.
    #[must_use]
    pub fn new(plan: Plan) -> Self {
        let mut users = vec![Vec::new(); plan.steps.len()];
        let (mut receives, mut sends) = (Vec::new(), Vec::new());
        for (index, step) in (0u32..).zip(&plan.steps) {
            for earlier in step.after.iter().chain(&step.gate) {
                users[*earlier as usize].push(index);
            }
            match step.peer() {
                Some(peer) if step.is_receive() => receives.push((peer, step.ordinal, index)),
                Some(peer) => sends.push((peer, index)),
                None => {}
            }
        }
        receives.sort_unstable();
        sends.sort_unstable();
        let both =
            receives.iter().map(|(peer, ..)| *peer).chain(sends.iter().map(|(peer, _)| *peer));
        let mut peers: Vec<u32> = both.collect();
        peers.sort_unstable();
        peers.dedup();
        Self { plan, users, receives, sends, peers }
    }

    /// What an operation that has no arguments yet holds.
    pub(super) fn nothing() -> Self {
        let shape = Shape {
            collective: Collective::Barrier,
            algorithm: Algorithm::Dissemination,
            size: 1,
            rank: 0,
            root: 0,
            in_place: false,
            buffers: 1,
            degree: 0,
        };
        Self::new(Plan { shape, blocks: 1, scratch: 0, steps: Vec::new() })
    }

    /// What it runs.
    #[must_use]
    pub fn plan(&self) -> &Plan {
        &self.plan
    }

    /// The steps that wait for this one.
    #[must_use]
    pub fn users(&self, step: usize) -> &[u32] {
        &self.users[step]
    }

    /// The receive that a message of this ordinal from `peer` belongs to.
    #[must_use]
    pub fn receive(&self, peer: u32, ordinal: u32) -> Option<usize> {
        let found = self.receives.binary_search_by_key(&(peer, ordinal), |(p, o, _)| (*p, *o));
        found.ok().map(|at| self.receives[at].2 as usize)
    }

    /// The send to `peer` with this ordinal.
    #[must_use]
    pub fn send(&self, peer: u32, ordinal: u32) -> Option<usize> {
        self.sends_to(peer).nth(ordinal as usize)
    }

    /// The sends to `peer`, in order.
    pub fn sends_to(&self, peer: u32) -> impl Iterator<Item = usize> + '_ {
        let first = self.sends.partition_point(|(to, _)| *to < peer);
        self.sends[first..].iter().take_while(move |(to, _)| *to == peer).map(|(_, s)| *s as usize)
    }

    /// The receives from `peer`, in order.
    pub fn receives_from(&self, peer: u32) -> impl Iterator<Item = usize> + '_ {
        let first = self.receives.partition_point(|(from, ..)| *from < peer);
        let of_peer = self.receives[first..].iter().take_while(move |(from, ..)| *from == peer);
        of_peer.map(|(.., step)| *step as usize)
    }

    /// Every rank at the other end of a step, ascending.
    #[must_use]
    pub fn peers(&self) -> &[u32] {
        &self.peers
    }
}
