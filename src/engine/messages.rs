//! Point-to-point messages of a world that have not met their counterpart: receives without a sender, messages of which
//! something has come and that no receive has taken, and what this rank has sent to itself.
#![forbid(unsafe_code)]

use std::collections::VecDeque;
use std::sync::Arc;

use super::members::Members;
use super::operation::{Matching, Operation};
use crate::link::frame::Fingerprint;

/// A message that no receive has taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Arrival {
    /// The sender, which may be this rank.
    pub(super) rank: u32,
    pub(super) tag: u64,
    /// Which of its sender's messages with this tag it is; 0 for one of this rank's.
    pub(super) turn: u64,
}

/// A message of this rank to itself.
#[derive(Debug)]
pub(super) enum Own {
    /// A small one, whose sender is through.
    Copied { tag: u64, payload: Vec<u8>, fingerprint: Fingerprint },
    /// A large one, which is read when it is received.
    Lent { tag: u64, operation: Box<Operation> },
}

impl Own {
    fn tag(&self) -> u64 {
        match self {
            Self::Copied { tag, .. } | Self::Lent { tag, .. } => *tag,
        }
    }
}

/// What has not met its counterpart.
#[derive(Debug, Default)]
pub(super) struct Messages {
    /// Receives without a sender, in the order of their calls: from any rank, from this rank, and those behind a receive
    /// that might take the same message.
    pub(super) pending: VecDeque<Box<Operation>>,
    /// Messages that no receive has taken, in the order in which they came.
    arrivals: VecDeque<Arrival>,
    own: VecDeque<Own>,
    /// Bytes of copied messages in `own`.
    pub(super) own_bytes: usize,
    /// The pairs (sender, receiver) that messages run between, by partner: to it and from it.
    pairs: Vec<[Option<Arc<Members>>; 2]>,
}

/// The sender and the tag that a receive asks for.
pub(super) fn wanted(receive: &Operation) -> Option<(Option<u32>, u64)> {
    match receive.matching {
        Matching::Receive { from, tag } => Some((from, tag)),
        _ => None,
    }
}

/// Whether a receive takes a message from `rank`.
fn takes(receive: &Operation, rank: u32, tag: u64) -> bool {
    wanted(receive) == Some((Some(rank), tag)) || wanted(receive) == Some((None, tag))
}

impl Messages {
    /// Whether an earlier receive may take what this one asks for.
    pub(super) fn is_behind(&self, from: Option<u32>, tag: u64) -> bool {
        self.pending.iter().filter_map(|earlier| wanted(earlier)).any(|(earlier, its_tag)| {
            its_tag == tag && (earlier.is_none() || from.is_none() || earlier == from)
        })
    }

    /// The first receive, in the order of the calls, that takes a message from `rank`.
    pub(super) fn take_receive(&mut self, rank: u32, tag: u64) -> Option<Box<Operation>> {
        let at = self.pending.iter().position(|receive| takes(receive, rank, tag))?;
        self.pending.remove(at)
    }

    /// Something has come of a message that no receive has taken.
    pub(super) fn note(&mut self, arrival: Arrival) {
        if !self.arrivals.contains(&arrival) {
            self.arrivals.push_back(arrival);
        }
    }

    /// The message that has come first of those that a receive may take; `is_next` tells whether the sender's earlier
    /// ones with this tag have been taken.
    pub(super) fn first_arrival(
        &self,
        from: Option<u32>,
        tag: u64,
        is_next: impl Fn(&Arrival) -> bool,
    ) -> Option<Arrival> {
        let mut all = self.arrivals.iter().copied();
        all.find(|it| it.tag == tag && from.is_none_or(|from| from == it.rank) && is_next(it))
    }

    /// A message is taken. One of this rank's own notes as many arrivals as it has messages, and all look alike.
    pub(super) fn forget(&mut self, arrival: &Arrival) {
        if let Some(at) = self.arrivals.iter().position(|known| known == arrival) {
            self.arrivals.remove(at);
        }
    }

    /// Keeps a message of this rank to itself.
    pub(super) fn keep_own(&mut self, rank: u32, own: Own) {
        self.arrivals.push_back(Arrival { rank, tag: own.tag(), turn: 0 });
        if let Own::Copied { payload, .. } = &own {
            self.own_bytes += payload.len();
        }
        self.own.push_back(own);
    }

    /// Takes the first message of this rank to itself with this tag.
    pub(super) fn take_own(&mut self, rank: u32, tag: u64) -> Option<Own> {
        let at = self.own.iter().position(|own| own.tag() == tag)?;
        self.forget(&Arrival { rank, tag, turn: 0 });
        let own = self.own.remove(at)?;
        if let Own::Copied { payload, .. } = &own {
            self.own_bytes -= payload.len();
        }
        Some(own)
    }

    /// Operations that wait here, with a deadline or without.
    pub(super) fn operations(&self) -> impl Iterator<Item = &Operation> {
        let lent = self.own.iter().filter_map(|own| match own {
            Own::Lent { operation, .. } => Some(&**operation),
            Own::Copied { .. } => None,
        });
        self.pending.iter().map(|op| &**op).chain(lent)
    }

    /// Takes out every operation that waits here.
    #[expect(clippy::vec_box, reason = "operations stay where they are")]
    pub(super) fn take_operations(&mut self) -> Vec<Box<Operation>> {
        let lent = self.own.drain(..).filter_map(|own| match own {
            Own::Lent { operation, .. } => Some(operation),
            Own::Copied { .. } => None,
        });
        let all = lent.chain(self.pending.drain(..)).collect();
        self.own_bytes = 0;
        self.arrivals.clear();
        all
    }

    /// The pair that messages between this world's `rank` and its `partner` run in: the sender is rank 0 of it.
    pub(super) fn pair(
        &mut self,
        world: &Members,
        (rank, partner): (u32, u32),
        is_send: bool,
    ) -> Arc<Members> {
        if self.pairs.is_empty() {
            self.pairs.resize_with(world.size(), Default::default);
        }
        let place = &mut self.pairs[partner as usize][usize::from(is_send)];
        let pair = place.get_or_insert_with(|| {
            let (from, to) = if is_send { (rank, partner) } else { (partner, rank) };
            let peers = [from, to].map(|rank| u32::try_from(world.peer(rank)).unwrap_or(u32::MAX));
            Arc::new(Members::new(peers.to_vec()))
        });
        Arc::clone(pair)
    }
}
