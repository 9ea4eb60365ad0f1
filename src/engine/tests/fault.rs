//! The one thing that goes wrong in a case, if anything does, and what follows for the time that a case has.
#![forbid(unsafe_code)]

use super::case::{Call, Case, EXACT, algorithm_degree, call};
use crate::link::sim::Spot;
use crate::link::sim::random::Random;
use crate::plan::{Collective, algorithms};

/// A deadline of everything in a case, in nanoseconds.
pub(super) const DEADLINE: u64 = 60_000_000_000;

/// Longer than any deadline and any silence that is borne.
pub(super) const LONG: u64 = 200_000_000_000;

/// Shorter than all of them.
const SHORT: u64 = 3_000_000_000;

/// What goes wrong. Ranks are those of the root world, `after` and `later` count steps of the harness.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fault {
    None,
    /// One or two ranks die, at different times.
    Death {
        rank: usize,
        after: usize,
        other: usize,
        later: usize,
    },
    /// A process ends without leaving; all that it has written arrives.
    Exit {
        rank: usize,
        after: usize,
    },
    /// A process is stopped, and goes on after so many nanoseconds, or never.
    Freeze {
        rank: usize,
        after: usize,
        pause_ns: Option<u64>,
    },
    Break {
        a: usize,
        b: usize,
        after: usize,
    },
    /// What one rank sends another does not arrive any more, and nobody is told; or neither hears the other.
    Cut {
        from: usize,
        to: usize,
        is_both: bool,
        after: usize,
    },
    /// One byte that a rank sends another is altered.
    Corrupt {
        from: usize,
        to: usize,
        spot: Spot,
        after: usize,
    },
    /// One rank, or the link of two, is slow: nothing may fail.
    Slow {
        rank: usize,
        other: usize,
        most_ns: u64,
    },
    /// One rank calls something else in the place of a call.
    Mismatch {
        call: usize,
        rank: usize,
        instead: Call,
    },
    /// One rank never makes a call, nor those after it.
    Absent {
        call: usize,
        rank: usize,
    },
    Abort {
        world: usize,
        rank: usize,
        after: usize,
    },
    /// One rank forks with other options.
    ForkMismatch {
        world: usize,
        rank: usize,
    },
    /// One rank forks when the others have given up.
    ForkLate {
        world: usize,
        rank: usize,
    },
    /// One rank leaves after a call, whether it is complete or not.
    EarlyLeave {
        call: usize,
        rank: usize,
    },
}

impl Fault {
    /// Whether a rank, or the way to it, falls silent for longer than anybody waits.
    pub(super) fn is_silence(&self) -> bool {
        match self {
            Self::Freeze { pause_ns, .. } => pause_ns.is_none_or(|pause| pause >= LONG),
            Self::Cut { .. } => true,
            _ => false,
        }
    }

    /// How long a rank does nothing between two steps at most.
    pub(super) fn stall_ns(&self, rank: usize) -> u64 {
        match *self {
            Self::Slow { rank: slow, other, most_ns } if slow == rank && slow == other => most_ns,
            _ => 0,
        }
    }

    /// Whether the link of two ranks is damaged or lost, and both live.
    pub(super) fn parts(&self, one: usize, other: usize) -> bool {
        match *self {
            Self::Break { a, b, .. }
            | Self::Cut { from: a, to: b, .. }
            | Self::Corrupt { from: a, to: b, .. } => {
                [a, b].contains(&one) && [a, b].contains(&other)
            }
            _ => false,
        }
    }

    /// Whom a failed world may name, and a word for the figures.
    pub(super) fn culprits(&self) -> Option<([usize; 2], &'static str)> {
        Some(match *self {
            Self::Death { rank, other, .. } if rank == other => ([rank; 2], "death"),
            Self::Death { rank, other, .. } => ([rank, other], "two deaths"),
            Self::Exit { rank, .. } => ([rank; 2], "exit"),
            Self::Freeze { rank, .. } if self.is_silence() => ([rank; 2], "freeze"),
            Self::Break { a, b, .. } => ([a, b], "break"),
            Self::Cut { from, to, is_both: false, .. } => ([from, to], "one-way cut"),
            Self::Cut { from, to, .. } => ([from, to], "cut"),
            Self::Corrupt { from, to, .. } => ([from, to], "altered byte"),
            Self::Absent { rank, .. } => ([rank; 2], "absence"),
            Self::EarlyLeave { rank, .. } => ([rank; 2], "leaving"),
            _ => return None,
        })
    }
}

/// Draws a fault for a case.
pub(super) fn fault(random: &mut Random, case: &Case) -> Fault {
    if case.ranks == 1 || random.chance(30) {
        return Fault::None;
    }
    let rank = random.below(case.ranks);
    let other = (rank + 1 + random.below(case.ranks - 1)) % case.ranks;
    let most = random.pick(&[20, 200, 1_000, 3_000]);
    let after = random.below(most);
    match random.below(100) {
        0..=15 => {
            let is_one = random.chance(60);
            let later = after + random.below(random.clone().pick(&[1, 10, 100, 1_000]));
            Fault::Death { rank, after, other: if is_one { rank } else { other }, later }
        }
        16..=22 => Fault::Exit { rank, after },
        23..=31 => {
            let pause_ns = random.pick(&[None, None, Some(LONG), Some(LONG), Some(SHORT)]);
            Fault::Freeze { rank, after, pause_ns }
        }
        32..=37 => Fault::Break { a: rank, b: other, after },
        38..=46 => Fault::Cut { from: rank, to: other, is_both: random.chance(30), after },
        47..=54 => {
            let spot = Spot::random(random, case.checksum);
            Fault::Corrupt { from: rank, to: other, spot, after }
        }
        55..=60 => {
            let other = if random.chance(50) { rank } else { other };
            Fault::Slow { rank, other, most_ns: random.pick(&[30_000_000, 300_000_000]) }
        }
        _ => of_the_program(random, case),
    }
}

/// What a rank does wrong, where the others do right.
fn of_the_program(random: &mut Random, case: &Case) -> Fault {
    let call = random.below(case.calls.len());
    let member_of = |world: usize, random: &mut Random| {
        let peers = &case.worlds[world].peers;
        (peers[random.below(peers.len())] as usize, peers.len())
    };
    let (rank, size) = member_of(case.calls[call].world, random);
    let is_keyed = case.calls[call].key.is_some();
    match random.below(38) {
        0..=13 => match other(random, case, call) {
            Some(instead) if size > 1 => Fault::Mismatch { call, rank, instead },
            _ => Fault::None,
        },
        14..=19 if !is_keyed => Fault::Absent { call, rank },
        20..=25 => {
            let world = random.below(case.worlds.len());
            let after = random.below(random.clone().pick(&[20, 200, 1_000]));
            Fault::Abort { world, rank: member_of(world, random).0, after }
        }
        26..=31 => {
            let world = random.below(case.worlds.len());
            let (rank, size) = member_of(world, random);
            match (size > 1 && world > 0, random.chance(50)) {
                (false, _) => Fault::None,
                (true, true) => Fault::ForkMismatch { world, rank },
                (true, false) => Fault::ForkLate { world, rank },
            }
        }
        32.. if !is_keyed => Fault::EarlyLeave { call, rank },
        _ => Fault::None,
    }
}

/// A call that does not fit; none if nobody would notice.
fn other(random: &mut Random, case: &Case, number: usize) -> Option<Call> {
    let right = case.calls[number];
    let size = case.worlds[right.world].peers.len();
    let mut wrong = right;
    match random.below(6) {
        0 => wrong.count += 1,
        1 => wrong.count = wrong.count.saturating_sub(1),
        2 => wrong.datatype = random.pick(&EXACT),
        3 => wrong.root = u32::try_from(random.below(size)).unwrap(),
        4 => {
            wrong.algorithm = random.pick(algorithms(right.collective));
            wrong.degree = algorithm_degree(random, wrong.algorithm);
        }
        _ => {
            let mut worlds = case.worlds.clone();
            worlds.truncate(right.world + 1);
            wrong = call(random, &worlds, &case.limits);
            wrong.world = right.world;
            wrong.root %= u32::try_from(size).unwrap();
            wrong.key = right.key;
        }
    }
    // What is not in a fingerprint, or may not be seen by anybody.
    if [&right, &wrong].iter().any(|call| call.collective.is_irregular() || call.is_custom()) {
        return None;
    }
    if !wrong.op.allows(wrong.datatype) {
        return None;
    }
    if right.collective == Collective::Barrier && wrong.collective == Collective::Barrier {
        return None;
    }
    if !wrong.collective.has_root() {
        wrong.root = 0;
    }
    let is_seen = wrong
        != Call { in_place: wrong.in_place, variety: wrong.variety, degree: wrong.degree, ..right }
        && right.count + wrong.count > 0;
    is_seen.then_some(wrong)
}

/// Whether silence ends a link in a case, and deadlines of everything in it: at least one of them where a rank may fall
/// silent, and some of them elsewhere, where nothing may come of it.
pub(super) fn limits(random: &mut Random, fault: &Fault) -> (bool, Option<u64>) {
    let slow = Some(1_000_000 * DEADLINE);
    let has_silence = random.chance(50);
    let has_deadlines = random.chance(if fault.is_silence() { 50 } else { 25 });
    let deadline = if matches!(fault, Fault::Slow { .. }) { slow } else { Some(DEADLINE) };
    let must = fault.is_silence() && !has_silence;
    (has_silence, deadline.filter(|_| has_deadlines || must))
}
