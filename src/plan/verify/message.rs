//! Sends and receives: that each has its partner, and that no order of events leaves all of them waiting.

use super::{Fault, World};
use crate::plan::Action;

/// For each step's id, the id of the step at the other end of its message.
pub(super) type Partners = Vec<Option<usize>>;

/// Pairs sends and receives by (from, to, ordinal); the two must name the same blocks.
pub(super) fn pair(world: &World<'_>, faults: &mut Vec<Fault>) -> Partners {
    let mut sends = Vec::new();
    for (id, (rank, step)) in world.steps.iter().enumerate() {
        if let Action::Send { peer, .. } = step.action {
            sends.push(((*rank, peer as usize, step.ordinal), id));
        }
    }
    sends.sort_unstable();
    let mut partners = vec![None; world.steps.len()];
    for (id, (rank, step)) in world.steps.iter().enumerate() {
        let Some(peer) = step.peer().filter(|_| step.is_receive()) else { continue };
        let (ordinal, message) = (step.ordinal, (peer as usize, *rank, step.ordinal));
        let Ok(found) = sends.binary_search_by_key(&message, |(message, _)| *message) else {
            faults.push(world.fault(id, format!("receive {ordinal} from {peer} has no send")));
            continue;
        };
        let send = sends[found].1;
        let (theirs, mine) = (world.steps[send].1.range(), step.range());
        if (theirs.block, theirs.blocks) != (mine.block, mine.blocks) {
            faults.push(world.fault(id, format!("blocks differ: {theirs:?} sent, {mine:?}")));
        }
        (partners[id], partners[send]) = (Some(send), Some(id));
    }
    let unpaired = sends.iter().map(|(_, id)| *id).filter(|id| partners[*id].is_none());
    faults.extend(unpaired.map(|id| world.fault(id, "send has no receive".into())));
    partners
}

/// The steps in an order in which they can finish under pure rendezvous, or the first that never can.
///
/// A step waits for those in its `after`, a receive for its gate and its send, and a send for all that its receive
/// waits for at home, since until then there is no grant.
pub(super) fn sequence(world: &World<'_>, partners: &Partners) -> Result<Vec<usize>, Fault> {
    let (sequence, stuck) = topological(world, partners, true);
    let Some(stuck) = stuck else { return Ok(sequence) };
    let when = match topological(world, partners, false).1 {
        Some(_) => "even with unlimited buffering",
        None => "once eager credits are spent",
    };
    let left = world.steps.len() - sequence.len();
    Err(world.fault(stuck, format!("deadlock {when}: {left} steps wait for each other")))
}

fn topological(
    world: &World<'_>,
    partners: &Partners,
    rendezvous: bool,
) -> (Vec<usize>, Option<usize>) {
    let count = world.steps.len();
    let (mut waits, mut users) = (vec![0_usize; count], vec![Vec::new(); count]);
    for id in 0..count {
        let mut wait = |other: usize| {
            waits[id] += 1;
            users[other].push(id);
        };
        world.waits_for(id).for_each(&mut wait);
        match partners[id] {
            Some(send) if world.steps[id].1.is_receive() => wait(send),
            Some(receive) if rendezvous => world.waits_for(receive).for_each(&mut wait),
            _ => {}
        }
    }
    let mut ready: Vec<_> = (0..count).filter(|id| waits[*id] == 0).collect();
    let mut next = 0;
    while let Some(done) = ready.get(next).copied() {
        next += 1;
        for user in &users[done] {
            waits[*user] -= 1;
            if waits[*user] == 0 {
                ready.push(*user);
            }
        }
    }
    (ready, waits.iter().position(|waits| *waits > 0))
}
