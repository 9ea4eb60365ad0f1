//! Random programs: what ranks do on up to three worlds, as a value that proptest makes and shrinks.
//!
//! All ranks take the acts in the order of the list, so that whatever blocks waits only for earlier acts: a program that
//! hangs has found a fault.

use collect::plan::{self, Collective};
use collect::{Datatype, Op};
use proptest::collection::vec;
use proptest::prelude::*;

use crate::reference::case::{Case, InPlace, Variety};

/// The most acts.
pub(crate) const ACTS: usize = 30;

/// What all ranks do.
#[derive(Debug, Clone)]
pub(crate) struct Program {
    /// Ranks of the root world.
    pub(crate) size: usize,
    /// Up to two more worlds.
    pub(crate) forks: Vec<Fork>,
    pub(crate) acts: Vec<Act>,
    /// Requests of a rank under way at once.
    pub(crate) window: usize,
}

/// A world forked from an earlier one.
#[derive(Debug, Clone)]
pub(crate) struct Fork {
    /// Chooses the parent among the earlier worlds.
    parent: usize,
    /// Orders the parent's ranks, and chooses how many become members.
    order: u64,
    many: usize,
}

/// What ranks do together.
#[derive(Debug, Clone)]
pub(crate) enum Act {
    /// A collective, in the order of the world.
    Collective { world: usize, spec: Spec, blocks: bool },
    /// Collectives with keys, as requests that each rank starts in an order of its own.
    Keyed { world: usize, specs: Vec<Spec> },
    /// A message.
    Message { world: usize, message: Message, blocks: bool },
    /// Every rank sends to the one that is `shift` above it, and receives from the one as far below.
    Ring { world: usize, shift: usize, count: usize, blocks: bool },
    /// The root receives from anybody what all others send.
    Collect { world: usize, root: usize, count: usize },
    /// Several of these as one, started so many times.
    Group { parts: Vec<Part>, runs: usize, blocks: bool },
}

/// A part of a group.
#[derive(Debug, Clone)]
pub(crate) enum Part {
    Collective { world: usize, spec: Spec },
    Message { world: usize, message: Message },
}

/// A message; ranks are taken modulo the size of the world.
#[derive(Debug, Clone)]
pub(crate) struct Message {
    pub(crate) from: usize,
    pub(crate) to: usize,
    pub(crate) tag: u64,
    pub(crate) count: usize,
}

/// A collective; numbers choose among what is possible.
#[derive(Debug, Clone)]
pub(crate) struct Spec {
    collective: usize,
    datatype: usize,
    op: usize,
    count: usize,
    root: usize,
    in_place: usize,
    algorithm: Option<usize>,
    variety: (bool, bool),
    buffers: usize,
    seed: u64,
}

impl Spec {
    /// The call that it stands for in a world of this size.
    pub(crate) fn case(&self, size: usize) -> Case {
        let all = Collective::ALL;
        let collective = match all[self.collective % all.len()] {
            Collective::Message => Collective::Allreduce,
            other => other,
        };
        let datatype = Datatype::ALL[self.datatype % Datatype::ALL.len()];
        let is_scan = matches!(collective, Collective::Scan | Collective::Exscan);
        let op = Op::ALL[self.op % Op::ALL.len()];
        let serves = op.allows(datatype) && op != Op::Custom && !(is_scan && op == Op::Avg);
        let algorithms = plan::algorithms(collective);
        let is_multi = collective == Collective::Allreduce && self.buffers > 1;
        Case {
            collective,
            datatype,
            op: if serves && collective.reduces() { op } else { Op::Sum },
            count: if collective == Collective::Barrier { 0 } else { self.count },
            root: if collective.has_root() { self.root % size } else { 0 },
            in_place: [InPlace::Nobody, InPlace::Everybody, InPlace::Some][self.in_place % 3],
            algorithm: self.algorithm.map(|at| algorithms[at % algorithms.len()]),
            degree: 0,
            key: None,
            buffers: if is_multi { self.buffers } else { 1 },
            variety: Variety {
                lengths_differ: self.variety.0,
                displaced: self.variety.1 && collective != Collective::ReduceScatterv,
            },
            shift: self.seed as usize % 4,
            seed: self.seed,
        }
    }
}

impl Program {
    /// The members of each world, as ranks of the root world, in the order of their ranks in it; with its parent.
    pub(crate) fn worlds(&self) -> Vec<(usize, Vec<usize>)> {
        let mut worlds = vec![(0, (0..self.size).collect::<Vec<_>>())];
        for fork in &self.forks {
            let parent = fork.parent % worlds.len();
            let mut members = worlds[parent].1.clone();
            members.sort_by_cached_key(|rank| {
                crate::reference::values::mix(fork.order ^ *rank as u64)
            });
            members.truncate(fork.many.clamp(1, members.len()));
            worlds.push((parent, members));
        }
        worlds
    }
}

/// Counts: none, few, more than a message that leaves at once, more than a slice.
fn count() -> impl Strategy<Value = usize> {
    prop_oneof![
        2 => Just(0),
        4 => 1..10usize,
        4 => 10..1000usize,
        2 => 1000..20_000usize,
        1 => 60_000..80_000usize,
    ]
}

fn spec() -> impl Strategy<Value = Spec> {
    let what = (any::<usize>(), any::<usize>(), any::<usize>(), count(), any::<usize>());
    let how = (0..3usize, proptest::option::of(any::<usize>()), any::<(bool, bool)>());
    (what, how, 1..4usize, any::<u64>()).prop_map(|(what, how, buffers, seed)| Spec {
        collective: what.0,
        datatype: what.1,
        op: what.2,
        count: what.3,
        root: what.4,
        in_place: how.0,
        algorithm: how.1,
        variety: how.2,
        buffers,
        seed,
    })
}

fn message() -> impl Strategy<Value = Message> {
    (0..5usize, 0..5usize, 0..3u64, count()).prop_map(|(from, to, tag, count)| Message {
        from,
        to,
        tag,
        count,
    })
}

fn part() -> impl Strategy<Value = Part> {
    let world = 0..3usize;
    prop_oneof![
        (world.clone(), spec()).prop_map(|(world, spec)| Part::Collective { world, spec }),
        (world, message()).prop_map(|(world, message)| Part::Message { world, message }),
    ]
}

fn act() -> impl Strategy<Value = Act> {
    let (world, blocks) = (0..3usize, any::<bool>());
    prop_oneof![
        5 => (world.clone(), spec(), blocks)
            .prop_map(|(world, spec, blocks)| Act::Collective { world, spec, blocks }),
        3 => (world.clone(), vec(spec(), 1..5))
            .prop_map(|(world, specs)| Act::Keyed { world, specs }),
        4 => (world.clone(), message(), blocks)
            .prop_map(|(world, message, blocks)| Act::Message { world, message, blocks }),
        1 => (world.clone(), 0..5usize, count(), blocks)
            .prop_map(|(world, shift, count, blocks)| Act::Ring { world, shift, count, blocks }),
        1 => (world, 0..5usize, count())
            .prop_map(|(world, root, count)| Act::Collect { world, root, count }),
        2 => (vec(part(), 1..6), 1..4usize, blocks)
            .prop_map(|(parts, runs, blocks)| Act::Group { parts, runs, blocks }),
    ]
}

/// Any program.
pub(crate) fn program() -> impl Strategy<Value = Program> {
    let fork = (0..2usize, any::<u64>(), 1..6usize);
    let fork = fork.prop_map(|(parent, order, many)| Fork { parent, order, many });
    (1..6usize, vec(fork, 0..3), vec(act(), 1..=ACTS), 1..9usize)
        .prop_map(|(size, forks, acts, window)| Program { size, forks, acts, window })
}
