//! A run as a value, drawn from its seed alike by the ranks and by who directs them.

use std::time::Duration;

use collect::config::{Connect, Wait};
use collect::link::phase::Phase;

use crate::reference::values::mix;

/// What happens to one of the processes, or to its connections.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fault {
    /// SIGKILL.
    Kill,
    /// The end of the process without destroying anything, by `exit` or `_exit`.
    Exit { runs_handlers: bool },
    /// SIGSTOP, for longer than the deadline (or, with heartbeats, for longer than silence is borne); then SIGCONT.
    Stop { is_missed_by_heartbeats: bool },
    /// A reset of one of its connections.
    Reset,
    /// What one end of one of its connections sends is lost from now on.
    Cut { to_victim: bool },
    /// A bit of a frame's header, or of a handshake, flips on its way.
    Header,
    /// A bit of a frame's payload flips on its way.
    Payload,
    /// A pause that is shorter than any deadline.
    Slow,
    /// No more descriptors.
    Scarce { for_good: bool },
    /// The cancellation of a thread that is inside a call.
    Cancel,
}

/// When it happens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum When {
    /// At an occurrence of this phase, counted from 1 in its part of the run.
    In(Phase, u32),
    /// After so long.
    After(Duration),
}

/// In which part of a run the fault may happen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Part {
    /// While the first world is made.
    Creation,
    /// When all worlds are there, and the victim has no connection yet.
    First,
    /// When all worlds are there.
    Play,
    /// While the worlds are left.
    End,
}

/// What must become of a world.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fate {
    /// It fails on every rank.
    Fails,
    /// Nothing happens to it.
    Lasts,
    /// Either.
    Open,
}

/// One run.
#[derive(Debug, Clone)]
pub(crate) struct Scenario {
    pub(crate) seed: u64,
    pub(crate) size: usize,
    pub(crate) victim: usize,
    pub(crate) fault: Fault,
    pub(crate) part: Part,
    pub(crate) when: When,
    /// The members of each world by their ranks in the first one, which has all, in the order of their own ranks.
    pub(crate) worlds: Vec<Vec<usize>>,
    /// What an operation may take in the worlds that the fault may touch.
    pub(crate) limit: Duration,
    /// Bytes of a buffer at most.
    pub(crate) largest: usize,
    /// Created by an exchange: there is no connection at first.
    pub(crate) by_exchange: bool,
    pub(crate) connect: Connect,
    pub(crate) wait: Wait,
}

/// Numbers that look random, one after the other.
#[derive(Debug, Clone)]
pub(crate) struct Draw(u64);

impl Draw {
    pub(crate) fn new(seed: u64) -> Self {
        Self(mix(seed ^ 0x5eed))
    }

    pub(crate) fn number(&mut self) -> u64 {
        self.0 = mix(self.0);
        self.0
    }

    /// One of 0 to `count` - 1.
    pub(crate) fn below(&mut self, count: usize) -> usize {
        (self.number() >> 8) as usize % count
    }

    /// Whether something of this share of 100 happens.
    pub(crate) fn chance(&mut self, percent: usize) -> bool {
        self.below(100) < percent
    }

    pub(crate) fn one_of<T: Copy>(&mut self, all: &[T]) -> T {
        all[self.below(all.len())]
    }

    /// An order of these.
    pub(crate) fn shuffled(&mut self, mut all: Vec<usize>) -> Vec<usize> {
        let seed = self.number();
        all.sort_by_cached_key(|one| mix(seed ^ *one as u64));
        all
    }
}

/// Operations that nothing holds up take far less.
const GENEROUS: Duration = Duration::from_secs(60);
const FAULTS: u64 = 10;

impl Scenario {
    pub(crate) fn of(seed: u64) -> Self {
        let mut draw = Draw::new(seed);
        let fault = fault(seed, &mut draw);
        let size = draw.one_of(&[2, 3, 3, 4, 4, 5, 6]);
        let victim = draw.below(size);
        let is_before_all = matches!(fault, Fault::Scarce { .. }) && draw.chance(50);
        let phase = phase(seed, fault).filter(|_| !is_before_all);
        let part = part(fault, phase, &mut draw);
        let is_proxied = matches!(fault, Fault::Header | Fault::Payload);
        let limit = limit(fault, part, &mut draw);
        let mut scenario = Self {
            seed,
            size,
            victim,
            fault,
            part,
            when: when(phase, part, size, &mut draw),
            worlds: Vec::new(),
            limit,
            largest: draw.one_of(&[300_000, 1 << 20, 3 << 20]),
            by_exchange: is_proxied || part == Part::First || draw.chance(30),
            connect: draw.one_of(&[Connect::Lazy, Connect::Lazy, Connect::Lazy, Connect::Eager]),
            wait: draw.one_of(&[Wait::Adaptive, Wait::Block, Wait::Block]),
        };
        match part {
            Part::Creation => scenario.by_exchange = false,
            Part::First => scenario.connect = Connect::Lazy,
            Part::Play | Part::End => {}
        }
        if scenario.is_short() {
            scenario.largest = 300_000;
        }
        scenario.worlds = scenario.draw_worlds(&mut draw);
        scenario
    }

    /// The first one, a fork of all, one without the victim, and where no single link may be gone, a fork of some with the
    /// victim.
    fn draw_worlds(&self, draw: &mut Draw) -> Vec<Vec<usize>> {
        let all: Vec<usize> = (0..self.size).collect();
        let others = all.iter().copied().filter(|rank| *rank != self.victim).collect();
        let others = draw.shuffled(others);
        match self.part {
            Part::Creation => return vec![all],
            // It is the first world that makes the victim's connections.
            Part::First => return vec![all, others],
            Part::Play | Part::End => {}
        }
        let mut worlds = vec![all.clone(), draw.shuffled(all), others];
        if self.size > 2 && !self.is_about_a_link() {
            let mut some = draw.shuffled(worlds[2].clone());
            some.truncate(1 + draw.below(self.size - 2));
            some.push(self.victim);
            worlds.push(draw.shuffled(some));
        }
        worlds
    }

    /// Whether two ranks are at the ends of what the fault breaks.
    pub(crate) fn is_about_a_link(&self) -> bool {
        matches!(self.fault, Fault::Reset | Fault::Cut { .. }) || self.is_proxied()
    }

    /// Whether the victim's connections go through a proxy, which makes the fault.
    pub(crate) fn is_proxied(&self) -> bool {
        matches!(self.fault, Fault::Header | Fault::Payload)
    }

    /// Whether deadlines are short: somebody may have to wait for one.
    pub(crate) fn is_short(&self) -> bool {
        self.limit < GENEROUS
    }

    /// What becomes of the worlds that have the victim.
    pub(crate) fn fate(&self) -> Fate {
        let is_in_handshake = matches!(self.when, When::In(Phase::Handshake, _));
        match self.fault {
            // Whoever dialled tries again.
            Fault::Reset | Fault::Cut { .. } | Fault::Header if is_in_handshake => Fate::Open,
            Fault::Scarce { for_good: true } => Fate::Open,
            Fault::Slow | Fault::Cancel | Fault::Scarce { for_good: false } => Fate::Lasts,
            // The others may be through.
            _ if self.part == Part::End => Fate::Open,
            _ => Fate::Fails,
        }
    }

    pub(crate) fn has_victim(&self, world: usize) -> bool {
        self.worlds[world].contains(&self.victim)
    }

    /// What the creation of the first world may take.
    pub(crate) fn creation_limit(&self) -> Duration {
        let is_held_up = self.part == Part::Creation && self.fault != Fault::Slow;
        if is_held_up { Duration::from_secs(2) } else { GENEROUS }
    }

    /// What an operation may take in a world.
    pub(crate) fn limit_of(&self, world: usize) -> Duration {
        if self.has_victim(world) { self.limit } else { GENEROUS }
    }

    /// As [`Scenario::fate`], of any world.
    pub(crate) fn fate_of(&self, world: usize) -> Fate {
        if self.has_victim(world) { self.fate() } else { Fate::Lasts }
    }
}

fn fault(seed: u64, draw: &mut Draw) -> Fault {
    let flag = draw.chance(50);
    match seed % FAULTS {
        0 => Fault::Kill,
        1 => Fault::Stop { is_missed_by_heartbeats: draw.chance(25) },
        2 => Fault::Reset,
        3 => Fault::Cut { to_victim: flag },
        4 => Fault::Header,
        5 => Fault::Exit { runs_handlers: flag },
        6 => Fault::Payload,
        7 => Fault::Slow,
        8 => Fault::Scarce { for_good: flag },
        _ => Fault::Cancel,
    }
}

/// Each phase, and any time, by turns, so that each fault meets each.
fn phase(seed: u64, fault: Fault) -> Option<Phase> {
    const PHASES: [Phase; 7] = [
        Phase::Handshake,
        Phase::Parked,
        Phase::Granted,
        Phase::MidFrame,
        Phase::Reducing,
        Phase::Fork,
        Phase::Destroy,
    ];
    let turn = (seed + seed / FAULTS) % 8;
    let phase = PHASES.get(turn as usize)?;
    // A frame that has a payload to flip is no grant and no handshake.
    Some(match (fault, phase) {
        (Fault::Payload, Phase::Handshake | Phase::Destroy) => Phase::Parked,
        (Fault::Payload, Phase::Granted) => Phase::MidFrame,
        (_, phase) => *phase,
    })
}

fn part(fault: Fault, phase: Option<Phase>, draw: &mut Draw) -> Part {
    let is_early = draw.chance(40);
    let is_sudden =
        matches!(fault, Fault::Kill | Fault::Exit { .. } | Fault::Stop { .. } | Fault::Slow);
    let is_of_a_link = matches!(fault, Fault::Reset | Fault::Cut { .. });
    match phase {
        Some(Phase::Handshake) if is_sudden && is_early => Part::Creation,
        Some(Phase::Handshake) => Part::First,
        // Else nobody would need a descriptor.
        _ if matches!(fault, Fault::Scarce { .. }) => Part::First,
        Some(Phase::Destroy) if (is_sudden || is_of_a_link) && is_early => Part::End,
        _ => Part::Play,
    }
}

fn when(phase: Option<Phase>, part: Part, size: usize, draw: &mut Draw) -> When {
    let Some(phase) = phase else {
        if part == Part::First {
            return When::After(Duration::ZERO);
        }
        return When::After(Duration::from_millis(draw.below(200) as u64));
    };
    let often = match (phase, part) {
        (Phase::Handshake, _) if size == 2 => 2,
        // As many worlds are left at least.
        (_, Part::End) => 2,
        (_, Part::First) => 3,
        (Phase::Handshake | Phase::Fork | Phase::Destroy, _) => 4,
        _ => 30,
    };
    When::In(phase, 1 + draw.below(often) as u32)
}

fn limit(fault: Fault, part: Part, draw: &mut Draw) -> Duration {
    let short = Duration::from_millis(700 + draw.below(300) as u64);
    match fault {
        Fault::Stop { is_missed_by_heartbeats: true } if part != Part::Creation => GENEROUS,
        Fault::Stop { .. } | Fault::Cut { .. } => short,
        // Nobody may have a connection that tells of the end.
        Fault::Kill | Fault::Exit { .. } if part < Part::Play => short,
        Fault::Scarce { .. } => Duration::from_secs(8),
        // Four times as long as the longest pause: who waits asks before it is over.
        Fault::Slow => Duration::from_secs(4),
        _ => GENEROUS,
    }
}
