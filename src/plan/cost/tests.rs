//! Costs against those of `reference/plans/cost.py`, rank 0's plan against all plans, and counts against closed forms.

use super::{Cost, Model, bytes_sent, cost};
use crate::error::Error;
use crate::plan::{Algorithm, Collective, Facts, Layout, Shape, Table};
use crate::plan::{algorithms, build, choose, default_degree};

/// The links of the reference.
const REFERENCE: Model = Model {
    alpha_s: 10e-6,
    beta_s: 1e-9,
    gamma_s: 0.1e-9,
    overhead_s: 0.0,
    header_bytes: 64,
    eager_bytes: 32 << 10,
    frame_bytes: 64 << 10,
};

fn shape(collective: Collective, algorithm: Algorithm, size: u32) -> Shape {
    let degree = default_degree(algorithm);
    Shape { collective, algorithm, size, rank: 0, root: 0, in_place: false, buffers: 1, degree }
}

#[test]
fn times_are_those_of_the_reference() {
    use Algorithm::{Binomial, Circulant, Direct, Dissemination, Doubling, Ring};
    use Collective::{Allgather, Allreduce, Barrier, Broadcast, Reduce};
    // Ranks, bytes of a block, blocks, and the µs that cost.py gives.
    for (collective, algorithm, size, block, blocks, us) in [
        (Allreduce, Ring, 8, 1 << 17, 8, 1856.8000),
        (Allreduce, Ring, 5, 1000, 5, 88.9120),
        (Allreduce, Direct, 4, 4096, 1, 23.7088),
        (Allreduce, Direct, 3, 1 << 20, 1, 2132.3072),
        (Allreduce, Doubling, 8, 8, 1, 30.2184),
        (Allreduce, Doubling, 6, 1 << 20, 1, 3250.9536),
        (Allreduce, Circulant, 7, 1 << 16, 7, 856.8608),
        (Broadcast, Binomial, 16, 1 << 20, 1, 4218.4000),
        (Broadcast, Binomial, 13, 8, 1, 30.2880),
        (Reduce, Binomial, 8, 32 << 10, 1, 138.3264),
        (Allgather, Ring, 6, 1 << 15, 6, 214.1600),
        (Allgather, Circulant, 6, 1 << 15, 6, 174.0960),
        (Barrier, Dissemination, 9, 1, 1, 40.2605),
        // From rank 0's plan.
        (Allreduce, Doubling, 1 << 16, 8, 1, 161.1648),
        (Allreduce, Ring, 1 << 10, 1 << 14, 1 << 10, 55788.6912),
        (Allreduce, Circulant, 1_000, 1 << 14, 1_000, 32865.6384),
    ] {
        let shape = shape(collective, algorithm, size);
        let ours = cost(&shape, block * blocks, &REFERENCE).unwrap().seconds * 1e6;
        assert!((ours - us).abs() < 1e-3, "{collective} {algorithm} {size}: {ours} us, not {us}");
    }
}

#[test]
fn counts_are_those_of_the_closed_forms() {
    let of = |collective, algorithm, size, bytes| {
        cost(&shape(collective, algorithm, size), bytes, &REFERENCE).unwrap()
    };
    let ring = of(Collective::Allreduce, Algorithm::Ring, 8, 8 << 10);
    assert_eq!((ring.rounds, ring.bytes_max, ring.messages_max), (14, 14 << 10, 14));
    assert_eq!((ring.bytes_total, ring.messages_total), ((8 * 14) << 10, 8 * 14));
    assert!((ring.processor_s - (7 << 10) as f64 * REFERENCE.gamma_s).abs() < 1e-12, "{ring:?}");
    let doubling = of(Collective::Allreduce, Algorithm::Doubling, 6, 1_000);
    assert_eq!((doubling.rounds, doubling.bytes_max, doubling.bytes_total), (4, 3_000, 12_000));
    let tree = of(Collective::Broadcast, Algorithm::Binomial, 1 << 16, 100);
    assert_eq!((tree.rounds, tree.messages_max, tree.messages_total), (16, 16, (1 << 16) - 1));
    let alone = of(Collective::Allreduce, Algorithm::Ring, 1, 100);
    assert_eq!((alone.rounds, alone.bytes_total), (0, 0));
    let large = of(Collective::Allreduce, Algorithm::Ring, 1 << 16, 1 << 30);
    assert_eq!((large.rounds, large.bytes_max), (2 * 65_535, (2 * 65_535) << 14));
}

#[test]
fn a_small_allreduce_of_65536_ranks_takes_at_most_17_rounds() {
    let (collective, size, bytes) = (Collective::Allreduce, 1 << 16, 8);
    let facts = Facts { collective, size, bytes, buffers: 1, is_ordered: false };
    let chosen = choose(&Table::default(), &facts);
    let shape = Shape { degree: chosen.degree, ..shape(collective, chosen.algorithm, size) };
    let cost = cost(&shape, bytes, &Model::default()).unwrap();
    assert!(cost.rounds <= 17, "{chosen}: {cost:?}");
}

/// The cost of rank 0's plan for all, and of all plans.
fn both(shape: &Shape, bytes: usize) -> (Cost, Cost) {
    let of = |all_max| super::cost_of(shape, bytes, &Model::default(), all_max).unwrap();
    (of(0), of(u32::MAX))
}

#[test]
fn the_plan_of_rank_0_stands_for_all_plans_where_it_is_used() {
    for collective in Collective::ALL {
        for algorithm in algorithms(collective) {
            for size in (2..=20).chain([31, 32, 33, 64, 65]) {
                if collective == Collective::Message && size != 2 {
                    continue;
                }
                for bytes in [64, 64 << 10, 4 << 20] {
                    let shape = shape(collective, *algorithm, size);
                    let (one, all) = both(&shape, bytes);
                    let said = format!("{collective} {algorithm} {size} {bytes}: {one:?} {all:?}");
                    assert_eq!(one.rounds, all.rounds, "{said}");
                    assert_eq!(one.bytes_max, all.bytes_max, "{said}");
                    let ratio = one.seconds / all.seconds;
                    assert!((0.75..=1.02).contains(&ratio), "{said}");
                }
            }
        }
    }
}

#[test]
fn every_algorithm_has_a_cost_at_every_size() {
    for collective in Collective::ALL {
        for algorithm in algorithms(collective) {
            for size in [1, 2, 3, 7, 64, 100, 1 << 10] {
                if collective == Collective::Message && size != 2 {
                    continue;
                }
                let cost = cost(&shape(collective, *algorithm, size), 1 << 20, &Model::default());
                let cost = cost.unwrap_or_else(|error| panic!("{collective} {algorithm}: {error}"));
                assert_eq!(cost.seconds > 0.0, size > 1 || cost.seconds > 0.0);
                assert!(cost.bytes_max <= cost.bytes_total && cost.rounds < 2 * size.max(1));
            }
        }
    }
}

#[test]
fn a_gate_delays_a_receive_until_its_step_is_done() {
    // Two messages of 33 KiB to rank 0, by ranks 1 and 2; the second waits for the first.
    let reduce = shape(Collective::Reduce, Algorithm::Binomial, 3);
    let graph = |gate: Option<u32>| {
        let plan = |rank| build(&Shape { rank, ..reduce }).unwrap();
        let mut plans: Vec<_> = (0..3).map(plan).collect();
        plans[0].steps[1].after.clear();
        plans[0].steps[1].gate = gate;
        super::graph::Graph::of(&plans, 33 << 10, &REFERENCE).unwrap()
    };
    let us = |gate| super::run::run(&graph(gate), &REFERENCE).unwrap().seconds * 1e6;
    // Each takes a grant of 10 us, 34 us on the wire, 10 us to come, and 3 to be reduced; both wires end in one port.
    let (free, gated) = (us(None), us(Some(0)));
    assert!((85.0..95.0).contains(&free), "{free}");
    assert!((105.0..120.0).contains(&gated), "{gated}");
}

#[test]
fn what_comes_to_one_rank_shares_its_port() {
    let (size, bytes) = (9, 1 << 20);
    let direct = shape(Collective::Reduce, Algorithm::Direct, size);
    let seconds = cost(&direct, bytes, &REFERENCE).unwrap().seconds;
    assert!(seconds > 8.0 * bytes as f64 * REFERENCE.beta_s, "{seconds}");
}

#[test]
fn messages_of_one_peer_that_are_there_together_take_one_call() {
    let model = Model { overhead_s: 5e-6, ..REFERENCE };
    let us = |algorithm| {
        let shape = shape(Collective::Alltoall, algorithm, 64);
        cost(&shape, 64 * 8, &model).unwrap().seconds * 1e6
    };
    // Six rounds of 32 messages each, or 63 messages to as many peers.
    let (bruck, pairwise) = (us(Algorithm::Bruck), us(Algorithm::Pairwise));
    assert!(bruck < 250.0 && pairwise > 63.0 * 10.0, "{bruck} {pairwise}");
}

#[test]
fn what_cannot_be_modelled_is_refused_with_a_reason() {
    let refused = |shape: Shape| cost(&shape, 8, &Model::default()).unwrap_err();
    let ring = shape(Collective::Allreduce, Algorithm::Ring, 1 << 17);
    assert!(matches!(refused(ring), Error::Unsupported(text) if text.contains("at most 65536")));
    let wrong = shape(Collective::Allreduce, Algorithm::Binomial, 4);
    assert!(matches!(refused(wrong), Error::InvalidArgument(_)));
}

#[test]
fn bytes_sent_are_exact_where_blocks_are_not_equal() {
    let of = |algorithm, size, rank, count| {
        let plan = build(&Shape { rank, ..shape(Collective::Allreduce, algorithm, size) }).unwrap();
        bytes_sent(&plan, &Layout::new(&plan, count), 4)
    };
    // Blocks of 2, 2, 1 and 0 elements: a rank sends all but one block twice.
    let ring: Vec<_> = (0..4).map(|rank| of(Algorithm::Ring, 4, rank, 5)).collect();
    assert_eq!(ring.iter().sum::<u64>(), 4 * 5 * 2 * 3);
    assert_eq!(of(Algorithm::Doubling, 4, 1, 5), 4 * 5 * 2);
    assert_eq!(of(Algorithm::Direct, 4, 1, 5), 4 * 5 * 3);
    assert_eq!(of(Algorithm::Ring, 4, 1, 0), 0);
}
