//! One simulated rank: its core, its script, and its callers' memory.
#![forbid(unsafe_code)]

use std::cell::RefCell;
use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use super::case::{Call, Case, Fault};
use super::memory::{Memory, UNTOUCHED, block, expected, input};
use crate::datatype::{Datatype, Op};
use crate::engine::core::{Command, Core, Registration};
use crate::engine::operation::{Operation, Run};
use crate::engine::{Completion, Health, Members, Program};
use crate::error::Error;
use crate::link::frame::{Class, Fingerprint};
use crate::link::sim::Network;
use crate::memory::{Region, Scratch};
use crate::plan::{Algorithm, Collective, Shape, build};

/// One thing that a rank's script does in a world.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Act {
    Call(usize),
    Fork(usize),
    Leave,
}

/// An operation, during and after its run.
#[derive(Debug)]
pub(super) struct Running {
    pub(super) act: Act,
    pub(super) completion: Arc<Completion>,
    pub(super) inputs: Vec<Memory>,
    pub(super) outputs: Vec<Memory>,
    pub(super) outcome: Option<Result<(), Error>>,
}

pub(super) struct Rank {
    pub(super) number: usize,
    pub(super) core: Core,
    /// Per world: what is still to be done.
    pub(super) script: Vec<VecDeque<Act>>,
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

pub(super) fn fingerprint(call: &Call) -> Fingerprint {
    Fingerprint {
        collective: call.collective as u8,
        datatype: call.datatype as u8,
        op: match call.collective {
            Collective::Allreduce | Collective::Reduce => call.op as u8,
            _ => 0,
        },
        algorithm: call.algorithm as u8,
        root: call.root,
        count: call.count as u64,
        hash: u64::from(call.buffers),
    }
}

thread_local! {
    static PROGRAMS: RefCell<HashMap<Shape, Arc<Program>>> = RefCell::new(HashMap::new());
}

fn program(shape: Shape) -> Arc<Program> {
    PROGRAMS.with_borrow_mut(|programs| {
        let make = || Arc::new(Program::new(build(&shape).expect("a valid shape")));
        Arc::clone(programs.entry(shape).or_insert_with(make))
    })
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
        }));
    }

    /// Whether the next act of a world can be done now.
    pub(super) fn can_act(&self, case: &Case, world: usize, others_gave_up: bool) -> bool {
        let Some(act) = self.script[world].front() else { return false };
        if !self.is_open[world] || !self.is_alive || self.is_closed {
            return false;
        }
        let of_world = |running: &&Running| match running.act {
            Act::Call(call) => case.calls[call].world == world,
            Act::Fork(child) => case.worlds[child].parent == Some(world),
            Act::Leave => false,
        };
        let mut pending = self.running.iter().filter(|r| r.outcome.is_none()).filter(of_world);
        match act {
            Act::Call(_) => pending.filter(|r| matches!(r.act, Act::Call(_))).count() < self.window,
            Act::Fork(child) => {
                let late = Fault::ForkLate { world: *child, rank: self.number };
                case.fault != late || others_gave_up
            }
            Act::Leave => {
                matches!(case.fault, Fault::EarlyLeave { rank, .. } if rank == self.number)
                    || pending.next().is_none()
            }
        }
    }

    /// Does the next act of a world.
    pub(super) fn act(&mut self, case: &Case, world: usize) {
        self.is_active = true;
        match self.script[world].pop_front() {
            Some(Act::Call(call)) => self.call(case, call),
            Some(Act::Fork(child)) => self.fork(case, child),
            Some(Act::Leave) => {
                self.has_left[world] = true;
                self.script[world].clear();
                self.core.command(Command::Leave { world: world_id(world) });
            }
            None => {}
        }
    }

    fn call(&mut self, case: &Case, number: usize) {
        let right = case.calls[number];
        let me = case.rank_in(right.world, self.number).expect("a member");
        let call = match case.fault {
            Fault::Mismatch { call, rank, instead } if call == number && rank == self.number => {
                instead
            }
            _ => right,
        };
        let spec = &case.worlds[right.world];
        let is_in_place = call.in_place >> me & 1 == 1;
        let has_input = call.collective != Collective::Broadcast || call.root as usize == me;
        let contents: Vec<Vec<u8>> = (0..usize::from(call.buffers))
            .map(|buffer| input(case.seed, number, &call, me, buffer))
            .collect();
        let size = spec.peers.len();
        let shift = number + self.number;
        let mut inputs = Vec::new();
        let mut outputs: Vec<Memory> = contents
            .iter()
            .map(|content| match is_in_place && has_input {
                true => Memory::new(content, shift),
                false => Memory::new(&vec![UNTOUCHED; content.len()], shift),
            })
            .collect();
        if call.collective == Collective::Allgather {
            let all = expected(case.seed, number, &call, size);
            let mine = block(&call, size, me);
            let mut before = vec![UNTOUCHED; all.len()];
            before[mine.clone()].copy_from_slice(&all[mine.clone()]);
            if is_in_place {
                outputs = vec![Memory::new(&before, shift)];
            } else {
                inputs = vec![Memory::new(&all[mine], shift + 3)];
            }
        } else if has_input && !is_in_place {
            inputs = contents.iter().map(|content| Memory::new(content, shift + 3)).collect();
        }
        let shape = Shape {
            collective: call.collective,
            algorithm: call.algorithm,
            size: u32::try_from(size).unwrap(),
            rank: u32::try_from(me).unwrap(),
            root: call.root,
            in_place: is_in_place,
            buffers: call.buffers,
        };
        let output_regions: Vec<Region> = outputs.iter_mut().map(Memory::region).collect();
        let input_regions: Vec<Region> = match (has_input, is_in_place) {
            (true, false) => inputs.iter_mut().map(Memory::region).collect(),
            (true, true) => output_regions.clone(),
            (false, _) => Vec::new(),
        };
        let operation = self.ordered(case, &call, shape, input_regions, output_regions);
        let completion = Arc::clone(operation.completion.as_ref().unwrap());
        let act = Act::Call(number);
        self.running.push(Running { act, completion, inputs, outputs, outcome: None });
        self.core.command(Command::Submit(operation));
    }

    fn ordered(
        &mut self,
        case: &Case,
        call: &Call,
        shape: Shape,
        inputs: Vec<Region>,
        outputs: Vec<Region>,
    ) -> Box<Operation> {
        let program = program(shape);
        let of_slice = (case.limits.slice / call.datatype.bytes()).max(1);
        let slice_count = if shape.uses_scratch() { of_slice } else { call.count.max(1) };
        self.operation(Operation {
            class: Class::Ordered,
            number: 0,
            world: world_id(call.world),
            program,
            members: Arc::new(Members::new(case.worlds[call.world].peers.clone())),
            datatype: call.datatype,
            op: call.op,
            divisor: u64::from(shape.size) * u64::from(call.buffers),
            count: call.count,
            slice_count,
            inputs,
            outputs,
            fingerprint: fingerprint(call),
            timeout_ns: call.timeout_ns,
            completion: Some(Arc::default()),
            tokens: Scratch::default(),
            run: Run::default(),
        })
    }

    /// In the place of an ended one, if there is any.
    fn operation(&mut self, mut new: Operation) -> Box<Operation> {
        self.core.take_ended(&mut self.pool);
        match self.pool.pop() {
            Some(mut old) => {
                new.run = std::mem::take(&mut old.run);
                *old = new;
                old
            }
            None => Box::new(new),
        }
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
        };
        let differs = case.fault == Fault::ForkMismatch { world: child, rank: self.number };
        let timeout_ns = match case.fault {
            Fault::ForkLate { world, .. } if world == child => Some(50_000_000),
            _ => None,
        };
        let mut inputs = vec![Memory::new(&[1], 0)];
        let mut outputs = vec![Memory::new(&[0xee], 1)];
        let operation = self.operation(Operation {
            class: Class::Fork,
            number: 0x1000 + child as u64,
            world: world_id(spec.parent.expect("a parent")),
            program: program(shape),
            members: Arc::new(Members::new(spec.peers.clone())),
            datatype: Datatype::U8,
            op: Op::Bor,
            divisor: 1,
            count: 1,
            slice_count: 1,
            inputs: inputs.iter_mut().map(Memory::region).collect(),
            outputs: outputs.iter_mut().map(Memory::region).collect(),
            fingerprint: Fingerprint {
                collective: Collective::Barrier as u8,
                algorithm: Algorithm::Dissemination as u8,
                count: u64::from(size),
                hash: world_id(child) + u64::from(differs),
                ..Fingerprint::default()
            },
            timeout_ns,
            completion: Some(Arc::default()),
            tokens: Scratch::default(),
            run: Run::default(),
        });
        let completion = Arc::clone(operation.completion.as_ref().unwrap());
        let act = Act::Fork(child);
        self.running.push(Running { act, completion, inputs, outputs, outcome: None });
        self.core.command(Command::Submit(operation));
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
    pub(super) fn on_fork(&mut self, child: usize, is_whole: bool) {
        self.is_open[child] = is_whole;
        if !is_whole {
            self.script[child].clear();
            self.has_left[child] = true;
            self.core.command(Command::Leave { world: world_id(child) });
        }
    }
}
