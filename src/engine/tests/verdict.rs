//! Which operations may have failed, and how: whatever a fault has not touched is whole and right.
#![forbid(unsafe_code)]

use super::case::{Case, Message};
use super::fault::Fault;
use super::harness::Harness;
use super::rank::{Act, Rank};
use crate::error::Error;
use crate::link::sim::Spot;

/// Every operation of every living rank has ended as it may.
pub(super) fn of_operations(harness: &Harness<'_>) {
    let case = harness.case;
    for rank in harness.ranks.iter().filter(|rank| rank.is_alive) {
        for running in &rank.running {
            let Some(outcome) = &running.outcome else {
                panic!("rank {}: {:?} hangs\n{}", rank.number, running.act, harness.describe());
            };
            if let Err(error) = outcome
                && !may_fail(case, running.act, rank.number, error)
            {
                panic!("rank {}: {:?} fails: {error:?}", rank.number, running.act);
            }
            if outcome.is_ok() && must_fail(case, running.act) {
                panic!("rank {}: {:?} is well", rank.number, running.act);
            }
        }
        for (world, script) in rank.script.iter().enumerate() {
            let may_be_left = touches_fork(case, world) || !rank.is_open[world];
            assert!(
                script.is_empty() || may_be_left,
                "rank {}: world {world} never came to {script:?}\n{}",
                rank.number,
                harness.describe()
            );
        }
    }
    of_healths(harness);
    of_damage(harness);
}

/// An altered header never passes.
fn of_damage(harness: &Harness<'_>) {
    if let Fault::Corrupt { from, to, spot: Spot::Header(_), .. } = harness.case.fault
        && harness.network.has_read_damage(from, to)
    {
        assert!(harness.ranks[to].core.has_lost(from), "rank {to} has not noticed it");
    }
}

/// A failure that somebody noticed is known to every member.
fn of_healths(harness: &Harness<'_>) {
    let case = harness.case;
    for world in 0..case.worlds.len() {
        let members = || {
            let alive = harness.ranks.iter().filter(|rank| rank.is_alive);
            alive.filter(|rank| rank.is_open[world] && !rank.has_left[world])
        };
        let failed = members().find_map(|rank| rank.healths[world].failure());
        let must = match case.fault {
            Fault::Mismatch { call, .. } => {
                case.calls[call].world == world && is_open(harness, world)
            }
            Fault::Abort { world: at, .. } => {
                at == world && harness.play.is_begun && failed.is_some()
            }
            _ => false,
        };
        assert!(failed.is_some() || !must, "world {world} is whole");
        // Nobody dials for longer than a second to tell of a failure: who is stopped meanwhile learns at its next call.
        let was_away = |rank: usize| {
            let is_long = case.fault.is_silence();
            is_long && matches!(case.fault, Fault::Freeze { rank: it, .. } if it == rank)
        };
        let must_know = |rank: &&Rank| !was_away(rank.number) && is_reached(case, world);
        for rank in members().filter(|rank| failed.is_some() && must_know(rank)) {
            assert!(
                rank.healths[world].failure().is_some(),
                "rank {} does not know that world {world} has failed: {failed:?}",
                rank.number
            );
        }
    }
}

/// Whether news of a failure come to every member: not where there are two, whose link is lost or silent.
fn is_reached(case: &Case, world: usize) -> bool {
    let peers = &case.worlds[world].peers;
    let is_cut = peers.len() == 2 && case.fault.parts(peers[0] as usize, peers[1] as usize);
    !is_cut && !matches!(case.fault, Fault::EarlyLeave { .. })
}

/// Whether every member can use a world.
fn is_open(harness: &Harness<'_>, world: usize) -> bool {
    let peers = &harness.case.worlds[world].peers;
    peers.iter().all(|peer| harness.ranks[*peer as usize].is_open[world])
}

/// Whether the fault is in this very world.
pub(super) fn touches(case: &Case, world: usize) -> bool {
    let has = |rank: usize| case.rank_in(world, rank).is_some();
    match case.fault {
        Fault::None | Fault::ForkMismatch { .. } | Fault::Slow { .. } => false,
        // The late one may find every message of the others there, before it hears that they have given up.
        Fault::ForkLate { world: at, .. } => at == world,
        Fault::Death { rank, other, .. } => has(rank) || has(other),
        Fault::Exit { rank, .. } => has(rank),
        Fault::Freeze { rank, .. } => has(rank) && case.fault.is_silence(),
        Fault::Break { a, b, .. }
        | Fault::Cut { from: a, to: b, .. }
        | Fault::Corrupt { from: a, to: b, .. } => has(a) && has(b),
        Fault::Mismatch { call, .. }
        | Fault::Absent { call, .. }
        | Fault::EarlyLeave { call, .. } => case.calls[call].world == world,
        Fault::Abort { world: at, .. } => at == world,
    }
}

fn touches_ancestor(case: &Case, world: usize) -> bool {
    let parent = case.worlds[world].parent;
    parent.is_some_and(|parent| touches(case, parent) || touches_ancestor(case, parent))
}

/// Whether this world's own fork fails.
fn touches_fork(case: &Case, world: usize) -> bool {
    match case.fault {
        Fault::ForkMismatch { world: at, .. } | Fault::ForkLate { world: at, .. } => at == world,
        _ => false,
    }
}

fn must_fail(case: &Case, act: Act) -> bool {
    matches!((act, case.fault), (Act::Fork(child), Fault::ForkMismatch { world, .. }) if child == world)
}

fn may_fail(case: &Case, act: Act, rank: usize, error: &Error) -> bool {
    let world = match act {
        Act::Call(call) => case.calls[call].world,
        Act::Fork(child) if touches_fork(case, child) => {
            return match case.fault {
                Fault::ForkMismatch { .. } => matches!(error, Error::Mismatch(_)),
                _ => matches!(error, Error::TimedOut { .. }),
            };
        }
        Act::Fork(child) => case.worlds[child].parent.expect("a parent"),
        Act::Send(message) | Act::Receive(message) => case.messages[message].world,
        Act::Leave => return false,
    };
    if matches!(error, Error::TimedOut { .. }) && may_miss_a_message(case, world) {
        return true;
    }
    let peers = &case.worlds[world].peers;
    let names = |rank: usize| peers.get(rank).map(|peer| *peer as usize);
    if touches_ancestor(case, world) {
        let is_lost = matches!(error, Error::PeerLost { .. } | Error::Aborted(_))
            || is_of_parent(case, error);
        return is_lost || (touches(case, world) && own_kind(case, rank, error, &names));
    }
    touches(case, world) && own_kind(case, rank, error, &names)
}

/// Whether an error may be that of a parent of a world, which could not be made at one of its members.
fn is_of_parent(case: &Case, error: &Error) -> bool {
    match error {
        Error::TimedOut { .. } => {
            case.fault.is_silence() || matches!(case.fault, Fault::Absent { .. })
        }
        Error::Mismatch(_) => matches!(case.fault, Fault::Mismatch { .. }),
        _ => false,
    }
}

/// Whether somebody waits for a message from any rank, and whoever was to send it may have left, or never have come.
fn may_miss_a_message(case: &Case, world: usize) -> bool {
    let is_wild = |message: &Message| message.is_wild && message.world == world;
    is_touched(case, world) && case.messages.iter().any(is_wild)
}

/// Whether the fault may reach a world.
pub(super) fn is_touched(case: &Case, world: usize) -> bool {
    touches(case, world) || touches_ancestor(case, world) || touches_fork(case, world)
}

fn own_kind(case: &Case, me: usize, error: &Error, names: &dyn Fn(usize) -> Option<usize>) -> bool {
    match (case.fault, error) {
        (
            Fault::Death { rank: a, other: b, .. } | Fault::Break { a, b, .. },
            Error::PeerLost { rank: named, .. },
        ) => names(*named) == Some(a) || names(*named) == Some(b),
        (Fault::Exit { rank, .. }, Error::PeerLost { rank: named, .. }) => {
            names(*named) == Some(rank)
        }
        // Whom they name is counted: see `blame`.
        (Fault::Corrupt { .. }, Error::PeerLost { .. }) => true,
        (
            Fault::Freeze { .. } | Fault::Cut { .. },
            Error::PeerLost { .. } | Error::TimedOut { .. },
        ) => true,
        (Fault::Mismatch { .. }, Error::Mismatch(_)) => true,
        (Fault::Absent { .. }, Error::TimedOut { .. }) => true,
        (Fault::ForkLate { .. }, Error::TimedOut { .. }) => true,
        (Fault::Abort { .. }, Error::Aborted(_)) => true,
        (Fault::EarlyLeave { rank, .. }, Error::PeerLost { rank: named, .. }) => {
            names(*named) == Some(rank)
        }
        (Fault::EarlyLeave { rank, .. }, Error::Aborted(_)) => rank == me,
        _ => false,
    }
}
