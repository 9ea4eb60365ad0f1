//! What each rank does in each world, and in which order.
#![forbid(unsafe_code)]

use super::case::Case;
use super::fault::Fault;
use super::rank::{Act, Rank};
use crate::link::sim::random::Random;

/// The calls of each world in order, with messages and forks of children anywhere between them (a fork for which somebody
/// is late at once, so that the others wait for nobody else). Calls with keys have no place in that order.
pub(super) fn write_script(case: &Case, rank: &mut Rank, random: &mut Random) {
    for world in 0..case.worlds.len() {
        let Some(me) = case.rank_in(world, rank.number) else { continue };
        let mut acts: Vec<Act> = Vec::new();
        let mut ends = None;
        for call in case.calls_of(world) {
            if case.calls[call].key.is_some() {
                rank.loose[world].push(call);
                continue;
            }
            match case.fault {
                Fault::Absent { call: at, rank: who } if at == call && who == rank.number => {
                    ends = Some(Vec::new());
                }
                Fault::EarlyLeave { call: at, rank: who } if at == call && who == rank.number => {
                    ends = Some(vec![Act::Call(call), Act::Leave]);
                }
                _ => acts.push(Act::Call(call)),
            }
            if ends.is_some() {
                break;
            }
        }
        merge(&mut acts, messages(case, world, me), random);
        acts.extend(ends.into_iter().flatten());
        for child in 0..case.worlds.len() {
            if case.worlds[child].parent == Some(world)
                && case.rank_in(child, rank.number).is_some()
            {
                let is_late = matches!(case.fault, Fault::ForkLate { world, .. } if world == child);
                let at = if is_late { 0 } else { random.below(acts.len() + 1) };
                acts.insert(at, Act::Fork(child));
            }
        }
        if case.fault == Fault::None && world > 0 && case.seed.is_multiple_of(2) {
            acts.push(Act::Leave);
        }
        rank.loose[world] = shuffled(&rank.loose[world], random);
        rank.script[world] = acts.into();
    }
}

/// What a rank sends and receives in a world, in order.
fn messages(case: &Case, world: usize, me: usize) -> Vec<Act> {
    let mut acts = Vec::new();
    for (at, message) in case.messages.iter().enumerate().filter(|(_, it)| it.world == world) {
        if message.from as usize == me {
            acts.push(Act::Send(at));
        }
        if message.to as usize == me {
            acts.push(Act::Receive(at));
        }
    }
    acts
}

/// Puts `more` between what is there; both keep their order.
fn merge(acts: &mut Vec<Act>, more: Vec<Act>, random: &mut Random) {
    let mut at = 0;
    for act in more {
        at += random.below(acts.len() - at + 1);
        acts.insert(at, act);
        at += 1;
    }
}

/// In another order, but for calls with one key: which, the script sees to.
fn shuffled(calls: &[usize], random: &mut Random) -> Vec<usize> {
    let mut calls = calls.to_vec();
    for at in (1..calls.len()).rev() {
        calls.swap(at, random.below(at + 1));
    }
    calls
}
