//! One simulated rank: its core, its script, and its callers' memory.
#![forbid(unsafe_code)]

use std::collections::VecDeque;
use std::sync::Arc;

use super::call::{self, Place};
use super::case::Case;
use super::fault::Fault;
use super::memory::{Memory, UNTOUCHED};
use crate::datatype::{Datatype, Op};
use crate::engine::core::{Command, Core, Registration};
use crate::engine::operation::Operation;
use crate::engine::{Completion, Health, Matching, Members, Program};
use crate::error::Error;
use crate::link::frame::Fingerprint;
use crate::link::sim::Network;
use crate::plan::{Algorithm, Collective, Shape};

/// One thing that a rank's script does in a world.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Act {
    Call(usize),
    Send(usize),
    Receive(usize),
    Fork(usize),
    Leave,
}

/// An operation, during and after its run.
#[derive(Debug)]
pub(super) struct Running {
    pub(super) act: Act,
    pub(super) completion: Arc<Completion>,
    pub(super) memories: Vec<Memory>,
    pub(super) outcome: Option<Result<(), Error>>,
}

impl Running {
    fn of(op: &Operation) -> Self {
        let completion = Arc::clone(op.completion.as_ref().expect("one for each operation"));
        Self { act: Act::Leave, completion, memories: Vec::new(), outcome: None }
    }
}

pub(super) struct Rank {
    pub(super) number: usize,
    pub(super) core: Core,
    /// Per world: what is still to be done, in order.
    pub(super) script: Vec<VecDeque<Act>>,
    /// Per world: the keyed calls that are still to be made, those with one key in order.
    pub(super) loose: Vec<Vec<usize>>,
    /// Per world: whether this rank can use it.
    pub(super) is_open: Vec<bool>,
    /// Per world: whether this rank has left it.
    pub(super) has_left: Vec<bool>,
    pub(super) healths: Vec<Arc<Health>>,
    /// How many calls of a world are under way at once at most.
    pub(super) window: usize,
    pub(super) running: Vec<Running>,
    #[allow(clippy::vec_box, reason = "operations stay where they are")]
    pub(super) pool: Vec<Box<Operation>>,
    pub(super) is_alive: bool,
    /// Its last step did something.
    pub(super) is_active: bool,
    pub(super) stalled_until: u64,
    pub(super) is_closed: bool,
}

pub(super) fn world_id(world: usize) -> u64 {
    0xc0_0000 + world as u64
}

impl Rank {
    pub(super) fn new(case: &Case, number: usize, network: &Network, window: usize) -> Self {
        let mesh = Box::new(network.mesh(number));
        let worlds = case.worlds.len();
        let health = |world| Arc::new(Health::new(format!("w{world}")));
        let mut rank = Self {
            number,
            core: Core::new(mesh, case.ranks, case.limits),
            script: vec![VecDeque::new(); worlds],
            loose: vec![Vec::new(); worlds],
            is_open: vec![false; worlds],
            has_left: vec![false; worlds],
            healths: (0..worlds).map(health).collect(),
            window,
            running: Vec::new(),
            pool: Vec::new(),
            is_alive: true,
            is_active: true,
            stalled_until: 0,
            is_closed: false,
        };
        rank.register(case, 0);
        rank.is_open[0] = true;
        rank
    }

    fn register(&mut self, case: &Case, world: usize) {
        let members = Arc::new(Members::new(case.worlds[world].peers.clone()));
        let rank = case.rank_in(world, self.number).expect("a member");
        self.core.command(Command::Register(Registration {
            id: world_id(world),
            health: Arc::clone(&self.healths[world]),
            rank: u32::try_from(rank).unwrap(),
            members,
            checksum: case.checksum,
        }));
    }

    /// Whether an act of a world can be done now.
    pub(super) fn can_act(&self, case: &Case, world: usize, others_gave_up: bool) -> bool {
        if !self.is_open[world] || !self.is_alive || self.is_closed {
            return false;
        }
        self.next_loose(case, world).is_some() || self.can_go_on(case, world, others_gave_up)
    }

    fn pending(&self, case: &Case, world: usize) -> impl Iterator<Item = &Running> {
        let is_of_world = move |running: &&Running| match running.act {
            Act::Call(call) => case.calls[call].world == world,
            Act::Send(message) | Act::Receive(message) => case.messages[message].world == world,
            Act::Fork(child) => case.worlds[child].parent == Some(world),
            Act::Leave => false,
        };
        self.running.iter().filter(|r| r.outcome.is_none()).filter(is_of_world)
    }

    /// Whether the next act of a world's script can be done now.
    fn can_go_on(&self, case: &Case, world: usize, others_gave_up: bool) -> bool {
        let Some(act) = self.script[world].front() else { return false };
        let mut pending = self.pending(case, world);
        match act {
            Act::Call(_) => {
                let is_ordered = |r: &&Running| matches!(r.act, Act::Call(call) if case.calls[call].key.is_none());
                pending.filter(is_ordered).count() < self.window
            }
            Act::Send(_) | Act::Receive(_) => true,
            Act::Fork(child) => {
                let late = Fault::ForkLate { world: *child, rank: self.number };
                case.fault != late || others_gave_up
            }
            Act::Leave => {
                matches!(case.fault, Fault::EarlyLeave { rank, .. } if rank == self.number)
                    || (pending.next().is_none() && self.loose[world].is_empty())
            }
        }
    }

    /// The first keyed call whose key is free.
    fn next_loose(&self, case: &Case, world: usize) -> Option<usize> {
        let key = |call: usize| case.calls[call].key;
        let is_free = |at: &usize| {
            let call = self.loose[world][*at];
            let mut others = self.loose[world].iter();
            let is_first = others.all(|other| key(*other) != key(call) || *other >= call);
            let mut pending = self.pending(case, world);
            is_first && !pending.any(|r| matches!(r.act, Act::Call(c) if key(c) == key(call)))
        };
        (0..self.loose[world].len()).find(is_free)
    }

    /// Does an act of a world.
    pub(super) fn act(&mut self, case: &Case, world: usize, prefers_loose: bool) {
        self.is_active = true;
        let loose = self.next_loose(case, world);
        if let Some(at) = loose.filter(|_| prefers_loose || !self.can_go_on(case, world, true)) {
            let call = self.loose[world].remove(at);
            return self.call(case, call);
        }
        match self.script[world].pop_front() {
            Some(Act::Call(call)) => self.call(case, call),
            Some(Act::Send(message)) => self.message(case, message, true),
            Some(Act::Receive(message)) => self.message(case, message, false),
            Some(Act::Fork(child)) => self.fork(case, child),
            Some(Act::Leave) => {
                self.has_left[world] = true;
                self.script[world].clear();
                self.loose[world].clear();
                self.core.command(Command::Leave { world: world_id(world) });
            }
            None => {}
        }
    }

    fn call(&mut self, case: &Case, number: usize) {
        let right = case.calls[number];
        let rank = case.rank_in(right.world, self.number).expect("a member");
        let call = match case.fault {
            Fault::Mismatch { call, rank, instead } if call == number && rank == self.number => {
                instead
            }
            _ => right,
        };
        let peers = &case.worlds[right.world].peers;
        let place = Place { case, number, call: &call, rank, size: peers.len() };
        let buffers = place.buffers();
        let mut op = self.operation(world_id(call.world), call::members(peers));
        place.fill(&mut op, &buffers);
        let memories = buffers.memories;
        self.submit(Running { act: Act::Call(number), memories, ..Running::of(&op) }, op);
    }

    fn message(&mut self, case: &Case, number: usize, is_send: bool) {
        let message = &case.messages[number];
        let payload = call::payload(case.seed, number, message);
        let mut memory = if is_send {
            Memory::new(&payload, number)
        } else {
            Memory::new(&vec![UNTOUCHED; payload.len()], number + 5)
        };
        if !is_send && !message.is_wild {
            memory.expect(0, &payload);
        }
        let peers = &case.worlds[message.world].peers;
        let mut op = self.operation(world_id(message.world), call::members(peers));
        call::fill_message(&mut op, message, is_send, &mut memory);
        let act = if is_send { Act::Send(number) } else { Act::Receive(number) };
        let memories = vec![memory];
        self.submit(Running { act, memories, ..Running::of(&op) }, op);
    }

    /// In the place of an ended one, if there is any.
    fn operation(&mut self, world: u64, members: Arc<Members>) -> Box<Operation> {
        self.core.take_ended(&mut self.pool);
        let blank = || Operation::blank(Arc::new(Program::nothing()), Arc::clone(&members));
        let mut op = self.pool.pop().unwrap_or_else(blank);
        op.world = world;
        op.members = members;
        op.completion = Some(Arc::default());
        op
    }

    fn submit(&mut self, running: Running, op: Box<Operation>) {
        self.running.push(running);
        self.core.command(Command::Submit(op));
    }

    fn fork(&mut self, case: &Case, child: usize) {
        self.register(case, child);
        let spec = &case.worlds[child];
        let me = case.rank_in(child, self.number).expect("a member");
        let size = u32::try_from(spec.peers.len()).unwrap();
        let shape = Shape {
            collective: Collective::Barrier,
            algorithm: Algorithm::Dissemination,
            size,
            rank: u32::try_from(me).unwrap(),
            root: 0,
            in_place: false,
            buffers: 1,
            degree: 0,
        };
        let differs = case.fault == Fault::ForkMismatch { world: child, rank: self.number };
        let parent = world_id(spec.parent.expect("a parent"));
        let mut op = self.operation(parent, call::members(&spec.peers));
        op.matching = Matching::Fork(0x1000 + child as u64);
        op.program = call::program(shape);
        (op.datatype, op.op, op.element) = (Datatype::U8, Op::Bor, 1);
        (op.count, op.slice_count, op.divisor) = (1, 1, 1);
        op.fingerprint = Fingerprint {
            collective: Collective::Barrier as u8,
            algorithm: Algorithm::Dissemination as u8,
            count: u64::from(size),
            hash: world_id(child) + u64::from(differs),
            ..Fingerprint::default()
        };
        op.timeout_ns = match case.fault {
            Fault::ForkLate { world, .. } if world == child => Some(50_000_000),
            _ => case.fork_timeout_ns,
        };
        op.lend_tokens();
        self.submit(Running { act: Act::Fork(child), ..Running::of(&op) }, op);
    }

    /// Notes what has ended since; the indexes of those.
    pub(super) fn collect(&mut self) -> Vec<usize> {
        let mut ended = Vec::new();
        for (index, running) in self.running.iter_mut().enumerate() {
            if running.outcome.is_none() && running.completion.is_ended() {
                running.outcome = running.completion.outcome();
                ended.push(index);
            }
        }
        ended
    }

    /// A fork has ended: its world can be used, or is given up.
    pub(super) fn on_fork(&mut self, case: &Case, child: usize, outcome: &Result<(), Error>) {
        self.is_open[child] = outcome.is_ok();
        if let Err(error) = outcome {
            self.script[child].clear();
            self.loose[child].clear();
            self.has_left[child] = true;
            let parent = case.worlds[child].parent.expect("a parent");
            let peers = case.worlds[child].peers.iter();
            let ranks =
                peers.map(|peer| case.rank_in(parent, *peer as usize).expect("a member") as u32);
            let error = error.in_fork(&ranks.collect::<Vec<_>>());
            self.core.command(Command::Fail { world: world_id(child), error });
        }
    }
}
