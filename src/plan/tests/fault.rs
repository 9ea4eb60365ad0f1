//! Planted faults: textbook mistakes, each of which the verifier must name.

use super::Case;
use super::mutation::derive_again;
use crate::plan::build::Builder;
use crate::plan::{Action, Algorithm, Buffer, Collective, Plan, Range, Step, verify};

const OUT: Range = Range { buffer: Buffer::Out(0), slot: 0, block: 0, blocks: 1 };
const IN: Range = Range { buffer: Buffer::In(0), slot: 0, block: 0, blocks: 1 };

fn assert_said(plans: &[Plan], said: &str) {
    let faults = verify(plans);
    assert!(faults.iter().any(|fault| fault.to_string().contains(said)), "{said}: {faults:?}");
}

fn allreduce(algorithm: Algorithm, size: u32, in_place: bool) -> Vec<Plan> {
    Case::new(Collective::Allreduce, algorithm, size).plans(|_| in_place)
}

/// Plans with one step of one rank changed, and order derived anew if asked.
fn edit(
    mut plans: Vec<Plan>,
    rank: usize,
    which: fn(&Step) -> bool,
    change: fn(&mut Step),
    again: bool,
) -> Vec<Plan> {
    let step = plans[rank].steps.iter_mut().find(|step| which(step)).unwrap();
    change(step);
    if again {
        plans[rank] = derive_again(&plans[rank]);
    }
    plans
}

/// A hand-written allreduce.
fn custom(size: u32, blocks: u32, in_place: bool, emit: fn(&mut Builder, u32)) -> Vec<Plan> {
    custom_of(Case::new(Collective::Allreduce, Algorithm::Ring, size), blocks, in_place, emit)
}

/// Hand-written plans of any collective.
fn custom_of(case: Case, blocks: u32, in_place: bool, emit: fn(&mut Builder, u32)) -> Vec<Plan> {
    let plan = |rank| {
        let mut builder = Builder::new(case.shape(rank, in_place), blocks);
        emit(&mut builder, rank);
        builder.finish()
    };
    (0..case.size).map(plan).collect()
}

fn recv_reduce(peer: u32, target: Range, local: Range, incoming_first: bool, last: bool) -> Action {
    Action::RecvReduce { peer, target, local, incoming_first, last }
}

fn is_send(step: &Step) -> bool {
    matches!(step.action, Action::Send { .. })
}

fn is_ordered(step: &Step) -> bool {
    !step.after.is_empty()
}

fn is_reduce(step: &Step) -> bool {
    matches!(step.action, Action::Reduce { .. })
}

fn is_recv_reduce(step: &Step) -> bool {
    matches!(step.action, Action::RecvReduce { .. })
}

fn is_copy_in(step: &Step) -> bool {
    matches!(step.action, Action::RecvCopy { .. })
}

#[test]
fn mutual_overwrite_in_place_is_a_deadlock_once_credits_are_spent() {
    let plans = custom(4, 1, true, |b, rank| {
        for distance in [1, 2] {
            let peer = rank ^ distance;
            b.send(peer, OUT);
            b.push(recv_reduce(peer, OUT, OUT, peer < rank, distance == 2));
        }
    });
    assert_said(&plans, "deadlock once eager credits are spent");
}

#[test]
fn two_that_both_receive_first_are_a_deadlock() {
    let plans = custom(2, 1, false, |b, rank| {
        b.push(recv_reduce(1 - rank, OUT, IN, rank == 1, true));
        b.send(1 - rank, OUT);
    });
    assert_said(&plans, "deadlock even with unlimited buffering");
}

#[test]
fn one_scratch_slot_for_all_rounds_is_refused() {
    let mut plans = allreduce(Algorithm::Doubling, 8, false);
    for plan in &mut plans {
        plan.scratch = 1;
        for step in &mut plan.steps {
            let one = |range: &mut Range| {
                if range.buffer == Buffer::Scratch {
                    range.slot = 0;
                }
            };
            match &mut step.action {
                Action::RecvCopy { target, .. } => one(target),
                Action::Reduce { sources, .. } => sources.iter_mut().for_each(one),
                _ => {}
            }
        }
    }
    assert_said(&plans, "overwritten while it may still be read");
}

#[test]
fn an_exchange_in_place_is_not_causal() {
    let plans = custom(2, 1, true, |b, rank| {
        b.send(1 - rank, OUT);
        b.recv_causal(1 - rank, OUT);
    });
    assert_said(&plans, "does not descend");
}

#[test]
fn missing_order_is_a_hazard() {
    let ring = allreduce(Algorithm::Ring, 5, false);
    let plans = edit(ring, 2, is_ordered, |step| step.after.clear(), false);
    assert_said(&plans, "read before it is written");
    let doubling = allreduce(Algorithm::Doubling, 4, true);
    let plans = edit(doubling, 1, is_reduce, |step| step.after = step.after.split_off(1), false);
    assert_said(&plans, "overwritten while it may still be read");
}

#[test]
fn two_writes_without_order_are_a_hazard() {
    let mut plans = custom(1, 1, false, |b, _| {
        b.copy(OUT, IN);
        b.copy(OUT, IN);
    });
    assert!(verify(&plans).is_empty());
    plans[0].steps[1].after.clear();
    assert_said(&plans, "written twice without order");
}

#[test]
fn messages_without_partners_are_named() {
    let mut plans = allreduce(Algorithm::Ring, 6, false);
    plans[3].steps.pop();
    assert_said(&plans, "send has no receive");
    let mut plans = allreduce(Algorithm::Ring, 6, false);
    let send = plans[3].steps.iter().rposition(is_send).unwrap();
    plans[3].steps.remove(send);
    plans[3] = derive_again(&plans[3]);
    assert_said(&plans, "has no send");
    let broadcast = |root| plans_of_broadcast(root);
    let mixed: Vec<_> = broadcast(3).into_iter().take(5).chain(broadcast(2).split_off(5)).collect();
    assert_said(&mixed, "shape");
}

fn plans_of_broadcast(root: u32) -> Vec<Plan> {
    let case = Case::new(Collective::Broadcast, Algorithm::Binomial, 8);
    Case { root, ..case }.plans(|_| false)
}

#[test]
fn a_message_of_other_blocks_is_named() {
    let ring = allreduce(Algorithm::Ring, 5, false);
    let other = |step: &mut Step| {
        let block = Range::block(Buffer::Out(0), 2);
        if let Action::RecvCopy { target, .. } = &mut step.action {
            *target = block;
        }
    };
    assert_said(&edit(ring, 2, is_copy_in, other, true), "blocks differ");
}

#[test]
fn contributions_lost_doubled_or_disordered_are_named() {
    let lost = |step: &mut Step| {
        if let Action::RecvReduce { peer, target, .. } = step.action {
            step.action = Action::RecvCopy { peer, target };
        }
    };
    let ring = allreduce(Algorithm::Ring, 4, false);
    assert_said(&edit(ring, 1, is_recv_reduce, lost, true), "contributions are missing");
    let twice = |step: &mut Step| {
        if let Action::Reduce { sources, .. } = &mut step.action {
            sources.push(sources[0]);
        }
    };
    let doubling = allreduce(Algorithm::Doubling, 4, false);
    assert_said(&edit(doubling.clone(), 1, is_reduce, twice, true), "a contribution came twice");
    let swapped = |step: &mut Step| {
        if let Action::Reduce { sources, .. } = &mut step.action {
            sources.reverse();
        }
    };
    let plans = edit(doubling, 1, is_reduce, swapped, true);
    assert_said(&plans, "out of rank order");
    assert_said(&plans, "another order of reduction");
}

#[test]
fn final_values_are_marked_once_and_never_combined() {
    let set = |step: &mut Step| {
        if let Action::Reduce { last, .. } | Action::RecvReduce { last, .. } = &mut step.action {
            *last = !*last;
        }
    };
    let direct = allreduce(Algorithm::Direct, 3, false);
    assert_said(&edit(direct, 1, is_reduce, set, true), "never marked as final");
    for (algorithm, rank, which) in [
        (Algorithm::Doubling, 1, is_reduce as fn(&Step) -> bool),
        (Algorithm::Doubling, 1, is_recv_reduce),
        (Algorithm::Ring, 2, is_recv_reduce),
    ] {
        let plans = edit(allreduce(algorithm, 6, false), rank, which, set, true);
        assert_said(&plans, "combined again");
    }
}

#[test]
fn ranges_stay_where_they_may() {
    let ring = || allreduce(Algorithm::Ring, 4, false);
    let input = |step: &mut Step| {
        if let Action::RecvReduce { target, .. } = &mut step.action {
            target.buffer = Buffer::In(0);
        }
    };
    assert_said(&edit(ring(), 0, is_recv_reduce, input, true), "not an output");
    let beyond = |step: &mut Step| {
        if let Action::Send { source, .. } = &mut step.action {
            source.blocks = u32::MAX;
        }
    };
    assert_said(&edit(ring(), 0, is_send, beyond, false), "leaves its buffer");
    let scratch = |step: &mut Step| {
        if let Action::Send { source, .. } = &mut step.action {
            *source = Range { block: source.block, ..Range::scratch(0) };
        }
    };
    assert_said(&edit(ring(), 0, is_send, scratch, true), "never written before");
    let doubling = allreduce(Algorithm::Doubling, 4, false);
    assert_said(&edit(doubling, 0, is_send, scratch, true), "never written before");
    let mut short = allreduce(Algorithm::Doubling, 4, false);
    short[2].scratch -= 1;
    assert_said(&short, "1 scratch slots declared, 2 used");
    assert_said(&[], "no plans");
}

#[test]
fn operands_may_not_overlap_at_different_offsets() {
    let plans = custom(1, 3, false, |b, _| {
        let two = |slot| Range { buffer: Buffer::Out(0), slot, block: slot, blocks: 2 };
        b.copy(two(0), Range { buffer: Buffer::In(0), ..two(0) });
        b.copy(two(1), two(0));
    });
    assert_said(&plans, "overlap");
}

#[test]
fn a_gate_is_an_earlier_step_before_a_receive() {
    let gate = |step: &mut Step| step.gate = Some(0);
    let ring = allreduce(Algorithm::Ring, 4, false);
    assert_said(&edit(ring.clone(), 1, is_send, gate, false), "only a receive can have a gate");
    let later = |step: &mut Step| step.gate = Some(7);
    assert_said(&edit(ring, 1, is_recv_reduce, later, false), "which is an earlier step");
}

#[test]
fn a_gate_can_make_a_deadlock() {
    fn emit(b: &mut Builder, rank: u32, gate: Option<u32>) {
        let (first, second) = (Range::scratch(0), Range::scratch(1));
        match rank {
            0 => {
                b.recv(1, first);
                b.recv_gated(1, second, gate);
                b.send(1, second);
            }
            _ => {
                b.recv(0, first);
                b.send(0, first);
                b.send(0, IN);
            }
        }
    }
    let free = verify(&custom(2, 1, false, |b, rank| emit(b, rank, None)));
    assert!(free.iter().all(|fault| !fault.to_string().contains("deadlock")), "{free:?}");
    let gated = custom(2, 1, false, |b, rank| emit(b, rank, Some(0)));
    assert_said(&gated, "deadlock even with unlimited buffering");
}

/// An alltoall of three ranks in place, straight or through scratch.
fn exchange(b: &mut Builder, rank: u32, is_staged: bool) {
    for to in (0..3).filter(|to| *to != rank) {
        b.send(to, Range::at(Buffer::In(0), to, rank * 3 + to));
    }
    for from in (0..3).filter(|from| *from != rank) {
        let target = Range::at(Buffer::Out(0), from, from * 3 + rank);
        let stage = Range { buffer: Buffer::Scratch, slot: from, ..target };
        b.recv(from, if is_staged { stage } else { target });
    }
    for from in (0..3).filter(|from| *from != rank && is_staged) {
        let target = Range::at(Buffer::Out(0), from, from * 3 + rank);
        b.copy(target, Range { buffer: Buffer::Scratch, slot: from, ..target });
    }
}

#[test]
fn an_exchange_in_place_without_scratch_is_a_deadlock() {
    let case = Case::new(Collective::Alltoall, Algorithm::Pairwise, 3);
    let plans = custom_of(case, 9, true, |b, rank| exchange(b, rank, false));
    assert_said(&plans, "deadlock once eager credits are spent");
    let plans = custom_of(case, 9, true, |b, rank| exchange(b, rank, true));
    assert!(verify(&plans).is_empty());
}

#[test]
fn ranges_of_blocks_that_differ_in_length_are_one_block() {
    let mut plans = Case::new(Collective::Allgather, Algorithm::Circulant, 4).plans(|_| false);
    assert!(verify(&plans).is_empty());
    for plan in &mut plans {
        plan.shape.collective = Collective::Allgatherv;
        plan.shape.algorithm = Algorithm::Ring;
    }
    assert_said(&plans, "more than one block");
}

#[test]
fn scratch_needs_lengths_that_all_know() {
    let mut plans = Case::new(Collective::Gather, Algorithm::Binomial, 4).plans(|_| false);
    for plan in &mut plans {
        plan.shape.collective = Collective::Gatherv;
        plan.shape.algorithm = Algorithm::Direct;
    }
    assert_said(&plans, "which not all know");
}

#[test]
fn a_short_block_does_not_stand_for_a_long_one_before_it() {
    let case = Case::new(Collective::ReduceScatterv, Algorithm::Ring, 8);
    let forget = |step: &mut Step| step.after = step.after.split_off(step.after.len() - 2);
    let is_third = |step: &Step| is_recv_reduce(step) && step.after.len() > 2;
    let plans = edit(case.plans(|_| false), 3, is_third, forget, false);
    assert_said(&plans, "an earlier block may still be read");
}

#[test]
fn blocks_stay_in_their_slots() {
    let alltoall = || Case::new(Collective::Alltoall, Algorithm::Pairwise, 4).plans(|_| false);
    let elsewhere = |step: &mut Step| {
        if let Action::RecvCopy { target, .. } = &mut step.action {
            target.slot = (target.slot + 1) % 4;
        }
    };
    assert_said(&edit(alltoall(), 1, is_copy_in, elsewhere, true), "not in its own slots");
    let beyond = |step: &mut Step| {
        if let Action::RecvCopy { target, .. } = &mut step.action {
            target.slot += 4;
        }
    };
    assert_said(&edit(alltoall(), 1, is_copy_in, beyond, true), "leaves its buffer");
    let mut plans = Case::new(Collective::Exscan, Algorithm::Chain, 4).plans(|_| false);
    plans[0].steps[0].action = Action::Copy { target: OUT, source: IN };
    assert_said(&plans, "leaves its buffer");
}

#[test]
fn an_input_is_written_only_where_it_is_the_output() {
    let case = Case::new(Collective::ReduceScatter, Algorithm::Direct, 4);
    let other = |step: &mut Step| {
        if let Action::Reduce { target, .. } = &mut step.action {
            (target.slot, target.block) = (2, 2);
        }
    };
    assert!(verify(&case.plans(|_| true)).is_empty());
    assert_said(&edit(case.plans(|_| true), 1, is_reduce, other, true), "not an output");
    let unnamed = |step: &mut Step| {
        if let Action::Reduce { target, .. } = &mut step.action {
            (target.buffer, target.slot) = (Buffer::Out(0), 0);
        }
    };
    assert_said(&edit(case.plans(|_| true), 1, is_reduce, unnamed, false), "another name");
}
