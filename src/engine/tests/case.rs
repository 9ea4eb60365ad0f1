//! A random program: worlds, the calls on them, and one thing that goes wrong (or none), all drawn from a seed.
#![forbid(unsafe_code)]

use super::content::MATRIX;
use super::fault::{self, DEADLINE, Fault};
use super::verdict::is_touched;
use crate::datatype::{Datatype, Op};
use crate::engine::Limits;
use crate::link::sim::Settings;
use crate::link::sim::random::Random;
use crate::plan::{Algorithm, Collective, algorithms, is_ordered};

/// How large a case may be: made smaller to find the smallest that fails.
#[derive(Debug, Clone, Copy)]
pub(super) struct Size {
    pub(super) ranks: usize,
    pub(super) calls: usize,
}

impl Size {
    pub(super) const FULL: Self = Self { ranks: 8, calls: 14 };
}

/// A world of the program; world 0 is the root world.
#[derive(Debug, Clone)]
pub(super) struct WorldSpec {
    pub(super) parent: Option<usize>,
    /// Ranks of the root world, by rank in this one.
    pub(super) peers: Vec<u32>,
}

/// A collective of the program, in order or with a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Call {
    pub(super) world: usize,
    pub(super) collective: Collective,
    pub(super) algorithm: Algorithm,
    pub(super) degree: u16,
    pub(super) datatype: Datatype,
    /// `Custom` is a product of matrices.
    pub(super) op: Op,
    pub(super) root: u32,
    /// Elements of a block; where blocks differ, of the longest one at most.
    pub(super) count: usize,
    /// Where blocks differ, what their lengths and places follow from.
    pub(super) variety: u64,
    pub(super) key: Option<u64>,
    pub(super) buffers: u16,
    /// Bit i: rank i of the world works in place.
    pub(super) in_place: u64,
    pub(super) timeout_ns: Option<u64>,
}

impl Call {
    /// Whether it has a reduction of its own.
    pub(super) fn is_custom(&self) -> bool {
        self.op == Op::Custom
    }

    /// Bytes of an element.
    pub(super) fn element(&self) -> usize {
        if self.op == Op::Custom { MATRIX } else { self.datatype.bytes() }
    }
}

/// A message of the program. Ranks are those of its world.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Message {
    pub(super) world: usize,
    pub(super) from: u32,
    pub(super) to: u32,
    pub(super) tag: u64,
    pub(super) datatype: Datatype,
    pub(super) count: usize,
    /// Its receiver takes whatever message with this tag comes first.
    pub(super) is_wild: bool,
    pub(super) timeout_ns: Option<u64>,
}

#[derive(Debug, Clone)]
pub(super) struct Case {
    pub(super) seed: u64,
    pub(super) ranks: usize,
    pub(super) worlds: Vec<WorldSpec>,
    pub(super) calls: Vec<Call>,
    pub(super) messages: Vec<Message>,
    pub(super) fault: Fault,
    pub(super) limits: Limits,
    pub(super) settings: Settings,
    /// Whether payload carries checksums.
    pub(super) checksum: bool,
    /// The deadline of every fork.
    pub(super) fork_timeout_ns: Option<u64>,
    /// The clock jumps this far at most.
    pub(super) jump_max_ns: u64,
}

pub(super) const SMALL: Limits = Limits {
    eager: 64,
    frame_alone: 128,
    frame_shared: 64,
    copied: 16,
    output: 256,
    credits: 2048,
    extend: 64,
    slice: 256,
    chore: 96,
    input: 256,
    active_operations: 4,
    early_frames: 100,
    unordered_operations: 1_000,
    waiting_after_ns: 20_000_000,
    linger_ns: 1_000_000_000,
    heartbeat_ns: 10_000_000_000,
    silence_ns: u64::MAX,
};

/// After so many nanoseconds without a word a peer is lost, where that is so.
const SILENCE: u64 = 30_000_000_000;

impl Case {
    pub(super) fn random(seed: u64, size: Size) -> Self {
        let mut random = Random::new(seed);
        let ranks = random.pick(&[1, 2, 2, 3, 3, 4, 4, 5, 6, 7, 8]).min(size.ranks);
        let mut limits = SMALL;
        if random.chance(15) {
            limits =
                Limits { waiting_after_ns: 20_000_000, silence_ns: u64::MAX, ..Limits::default() };
        } else {
            limits.credits = random.pick(&[640, 1024, 2048, 4096]);
            limits.active_operations = random.pick(&[1, 2, 4, 8, 16]);
        }
        let worlds = worlds(&mut random, ranks);
        let most = 1 + random.below(size.calls);
        let mut calls: Vec<Call> =
            (0..most.max(1)).map(|_| call(&mut random, &worlds, &limits)).collect();
        calls.truncate(size.calls.max(1));
        let mut settings = Settings::new(random.pick(&[0, 1_000, 100_000, 3_000_000]), 1 << 16);
        settings.window_bytes = random.pick(&[100, 300, 1_000, 1 << 16]);
        settings.dial_max_ns = random.pick(&[0, 10_000, 5_000_000]);
        settings.partial_percent = random.pick(&[0, 5, 30, 60]);
        settings.block_percent = random.pick(&[0, 5, 20]);
        let messages = messages(&mut random, &worlds, &limits, size.calls);

        let checksum = random.chance(30);
        let mut case = Self {
            seed,
            ranks,
            worlds,
            calls,
            messages,
            fault: Fault::None,
            limits,
            settings,
            checksum,
            fork_timeout_ns: None,
            jump_max_ns: 0,
        };
        case.fault = fault::fault(&mut random, &case);
        case.set_times(&mut random);
        case
    }

    /// When who gives up. Where nobody does, the clock may jump as far as it likes.
    fn set_times(&mut self, random: &mut Random) {
        let (has_silence, deadline) = fault::limits(random, &self.fault);
        if has_silence {
            self.limits.silence_ns = SILENCE;
            self.settings.silence_ns = Some(SILENCE);
        }
        self.fork_timeout_ns = deadline;
        self.calls.iter_mut().for_each(|call| call.timeout_ns = deadline);
        self.messages.iter_mut().for_each(|message| message.timeout_ns = deadline);
        self.set_timeouts();
        let mut limits = self.calls.iter().map(|call| call.timeout_ns);
        let is_patient = !has_silence
            && limits.all(|limit| limit.is_none())
            && self.messages.iter().all(|message| message.timeout_ns.is_none());
        let jumps: &[u64] = if is_patient { &[100_000_000_000, 40_000_000] } else { &[40_000_000] };
        self.jump_max_ns = random.pick(jumps);
    }

    /// Deadlines where somebody never calls, also where a message from any rank is awaited, and the one that was to send it
    /// may have left.
    fn set_timeouts(&mut self) {
        for at in 0..self.messages.len() {
            if self.messages[at].is_wild && is_touched(self, self.messages[at].world) {
                self.messages[at].timeout_ns = Some(DEADLINE);
            }
        }
        if let Fault::Absent { call, .. } = self.fault {
            let world = self.calls[call].world;
            let limit = Some(DEADLINE);
            for (at, it) in self.calls.iter_mut().enumerate().filter(|(_, it)| it.world == world) {
                if at >= call || it.key.is_some() {
                    it.timeout_ns = limit;
                }
            }
            for message in self.messages.iter_mut().filter(|message| message.world == world) {
                message.timeout_ns = limit;
            }
        }
    }

    /// The calls of a world, in order.
    pub(super) fn calls_of(&self, world: usize) -> impl Iterator<Item = usize> + '_ {
        (0..self.calls.len()).filter(move |call| self.calls[*call].world == world)
    }

    /// The rank in a world of a rank of the root world.
    pub(super) fn rank_in(&self, world: usize, rank: usize) -> Option<usize> {
        self.worlds[world].peers.iter().position(|peer| *peer as usize == rank)
    }
}

fn worlds(random: &mut Random, ranks: usize) -> Vec<WorldSpec> {
    let everyone = (0..u32::try_from(ranks).unwrap()).collect();
    let mut worlds = vec![WorldSpec { parent: None, peers: everyone }];
    for _ in 0..random.pick(&[0, 0, 1, 1, 2, 3]) {
        let parent = random.below(worlds.len());
        let mut peers = worlds[parent].peers.clone();
        for at in (1..peers.len()).rev() {
            if random.chance(30) {
                peers.swap(at, random.below(at + 1));
            }
        }
        if random.chance(50) {
            peers.truncate(1 + random.below(peers.len()));
        }
        worlds.push(WorldSpec { parent: Some(parent), peers });
    }
    worlds
}

/// The types that hold sums of small numbers exactly, whatever the order, and have every operation: neither fp8 nor bool.
pub(super) const EXACT: [Datatype; 12] = {
    use Datatype::{Bf16, F16, F32, F64, I8, I16, I32, I64, U8, U16, U32, U64};
    [I8, U8, I16, U16, I32, U32, I64, U64, F16, Bf16, F32, F64]
};

pub(super) fn call(random: &mut Random, worlds: &[WorldSpec], limits: &Limits) -> Call {
    let world = random.below(worlds.len());
    let size = worlds[world].peers.len();
    let often = [Collective::Allreduce, Collective::Allreduce, Collective::Broadcast];
    let collective = if random.chance(25) {
        random.pick(&often)
    } else {
        random
            .pick(&Collective::ALL.map(|it| if it == Collective::Message { often[0] } else { it }))
    };
    let algorithm = random.pick(algorithms(collective));
    let datatype = random.pick(&EXACT);
    let mut op = random.pick(&[Op::Sum, Op::Sum, Op::Avg, Op::Max, Op::Min]);
    if is_ordered(collective, algorithm) && random.chance(30) {
        op = Op::Custom;
    }
    let is_scan = matches!(collective, Collective::Scan | Collective::Exscan);
    if !op.allows(datatype) || (is_scan && op == Op::Avg) || !collective.reduces() {
        op = Op::Sum;
    }
    let datatype = if op == Op::Custom { Datatype::U8 } else { datatype };
    let mut call = Call {
        world,
        collective,
        algorithm,
        degree: algorithm_degree(random, algorithm),
        datatype,
        op,
        root: 0,
        count: 0,
        variety: random.next(),
        key: random.chance(25).then(|| random.below(3) as u64),
        buffers: 1,
        in_place: random.pick(&[0, u64::MAX, random.clone().next()]),
        timeout_ns: None,
    };
    if collective.has_root() {
        call.root = u32::try_from(random.below(size)).unwrap();
    }
    call.count = count(random, limits, call.element(), size);
    if matches!(collective.regular(), Collective::Alltoall) && call.count > 300 {
        call.count = 1 + call.count % 300;
    }
    match collective {
        Collective::Allreduce if op != Op::Custom => {
            call.buffers = random.pick(&[1, 1, 1, 2, 3]);
            if call.buffers > 1 {
                call.in_place = u64::MAX;
            }
        }
        Collective::Barrier => {
            call.count = 1;
            call.datatype = Datatype::U8;
            call.op = Op::Bor;
        }
        _ => {}
    }
    call
}

pub(super) fn algorithm_degree(random: &mut Random, algorithm: Algorithm) -> u16 {
    match algorithm {
        Algorithm::Knomial => random.pick(&[2, 3, 4]),
        Algorithm::Pairwise => random.pick(&[1, 2, 8]),
        _ => 0,
    }
}

/// Point-to-point messages, also of a rank to itself.
fn messages(
    random: &mut Random,
    worlds: &[WorldSpec],
    limits: &Limits,
    most: usize,
) -> Vec<Message> {
    let many = random.pick(&[0, 0, 1, most / 2, 2 * most]);
    let all = (0..many).map(|_| {
        let world = random.below(worlds.len());
        let size = worlds[world].peers.len();
        let (from, to) = (random.below(size), random.below(size));
        let is_wild = random.chance(30);
        // Who receives from any rank expects messages of one length with that tag.
        let tag = if is_wild { 100 + to as u64 } else { random.below(2) as u64 };
        let mut of =
            if is_wild { Random::new(tag + limits.credits as u64) } else { random.clone() };
        let datatype = if is_wild { of.pick(&Datatype::ALL) } else { random.pick(&Datatype::ALL) };
        let count = count(&mut of, limits, datatype.bytes(), 2);
        let (from, to) = (u32::try_from(from).unwrap(), u32::try_from(to).unwrap());
        Message { world, from, to, tag, datatype, count, is_wild, timeout_ns: None }
    });
    all.collect()
}

/// Around the limits, where the paths part.
fn count(random: &mut Random, limits: &Limits, element: usize, size: usize) -> usize {
    let cut = random.pick(&[limits.eager, limits.frame_alone, limits.slice, limits.copied]);
    let cut = if cut > 4096 { 4096 } else { cut };
    let near = (cut / element).saturating_add_signed(random.pick(&[-1, 0, 1]));
    match random.below(10) {
        0 => random.below(4),
        1..=3 => near,
        4..=5 => near * (1 + random.below(size)),
        6..=8 => random.below(300),
        _ => random.below(2_000),
    }
}
