//! The algorithms, proved for every size up to 64 and some larger ones, from every root of small worlds and some of
//! larger ones, of several degrees, in place on all, none or some ranks.

use super::Case;
use super::random::Random;
use crate::error::Error;
use crate::plan::{Algorithm, Collective, Shape, algorithms, build, verify};

/// Worlds up to this size are proved from every root.
const ALL_ROOTS: u32 = 16;

/// Worlds up to this size are proved of every degree, larger ones of two where that costs.
const MANY_DEGREES: u32 = 64;

fn sizes() -> impl Iterator<Item = u32> {
    (1..=64).chain([100, 128, 255, 257])
}

fn roots(collective: Collective, size: u32) -> Vec<u32> {
    match collective.has_root() {
        true if size <= ALL_ROOTS => (0..size).collect(),
        true => vec![0, 1, size / 2, size - 1],
        false => vec![0],
    }
}

fn degrees(algorithm: Algorithm, size: u32) -> &'static [u16] {
    match algorithm {
        Algorithm::Knomial => &[2, 3, 4, 8, 64],
        Algorithm::Pairwise if size <= MANY_DEGREES => &[1, 2, 3, 8, 100],
        Algorithm::Pairwise => &[1, 8],
        _ => &[0],
    }
}

fn prove(case: Case) {
    let mut random = Random(u64::from(case.size) << 32 | u64::from(case.root));
    for some in if case.buffers > 1 { 0..1 } else { 0..3 } {
        let faults = verify(&case.plans(|_| some == 1 || some == 2 && random.chance(50)));
        let first = faults.first();
        assert!(first.is_none(), "{case:?} {some}: {} faults, {}", faults.len(), first.unwrap());
    }
}

/// Every algorithm of a collective.
fn prove_all(collective: Collective, sizes: impl Iterator<Item = u32>) {
    for size in sizes {
        for algorithm in algorithms(collective) {
            for degree in degrees(*algorithm, size) {
                for root in roots(collective, size) {
                    let case = Case::new(collective, *algorithm, size);
                    prove(Case { degree: *degree, root, ..case });
                }
            }
        }
    }
}

#[test]
fn allreduce_is_proved() {
    prove_all(Collective::Allreduce, sizes());
}

#[test]
fn allreduce_of_several_buffers_is_proved() {
    for buffers in [2, 3] {
        for size in (1..=32).chain([48, 64]) {
            for algorithm in algorithms(Collective::Allreduce) {
                prove(Case { buffers, ..Case::new(Collective::Allreduce, *algorithm, size) });
            }
        }
    }
}

#[test]
fn broadcast_is_proved() {
    prove_all(Collective::Broadcast, sizes());
}

#[test]
fn reduce_is_proved() {
    prove_all(Collective::Reduce, sizes());
}

#[test]
fn barrier_is_proved() {
    prove_all(Collective::Barrier, sizes());
}

#[test]
fn allgather_is_proved() {
    prove_all(Collective::Allgather, sizes());
    prove_all(Collective::Allgatherv, sizes());
}

#[test]
fn gather_is_proved() {
    prove_all(Collective::Gather, sizes());
    prove_all(Collective::Gatherv, sizes());
}

#[test]
fn scatter_is_proved() {
    prove_all(Collective::Scatter, sizes());
    prove_all(Collective::Scatterv, sizes());
}

#[test]
fn reduce_scatter_is_proved() {
    prove_all(Collective::ReduceScatter, sizes());
    prove_all(Collective::ReduceScatterv, sizes());
}

#[test]
fn alltoall_is_proved() {
    prove_all(Collective::Alltoall, sizes());
    prove_all(Collective::Alltoallv, sizes());
}

#[test]
fn scan_and_exscan_are_proved() {
    prove_all(Collective::Scan, sizes());
    prove_all(Collective::Exscan, sizes());
}

#[test]
fn a_message_is_proved() {
    prove_all(Collective::Message, 2..=2);
}

const SHAPE: Shape = Shape {
    collective: Collective::Allreduce,
    algorithm: Algorithm::Ring,
    size: 4,
    rank: 1,
    root: 0,
    in_place: true,
    buffers: 1,
    degree: 0,
};

const MESSAGE: Shape =
    Shape { collective: Collective::Message, algorithm: Algorithm::Direct, ..SHAPE };

const ALLTOALL: Shape =
    Shape { collective: Collective::Alltoall, algorithm: Algorithm::Pairwise, degree: 1, ..SHAPE };

#[test]
fn shapes_out_of_range_are_refused() {
    let refused = [
        (Shape { size: 0, ..SHAPE }, "0 ranks"),
        (Shape { buffers: 0, ..SHAPE }, "0 buffers"),
        (Shape { size: u32::MAX, ..SHAPE }, "more than"),
        (Shape { size: 1 << 19, buffers: 3, ..SHAPE }, "more than"),
        (Shape { rank: 4, ..SHAPE }, "rank 4"),
        (Shape { root: 4, ..SHAPE }, "root 4"),
        (Shape { root: 1, ..SHAPE }, "without a root"),
        (Shape { algorithm: Algorithm::Binomial, ..SHAPE }, "algorithm binomial does not serve"),
        (Shape { degree: 1, ..SHAPE }, "ring of degree 1, which is 0 to 0"),
        (Shape { algorithm: Algorithm::Knomial, ..SHAPE }, "knomial of degree 0, which is 2 to 64"),
        (Shape { algorithm: Algorithm::Knomial, degree: 65, ..SHAPE }, "of degree 65"),
        (MESSAGE, "4 ranks, a message has 2"),
        (Shape { size: 65_536, ..ALLTOALL }, "more than 65535"),
        (Shape { degree: 1025, ..ALLTOALL }, "pairwise of degree 1025, which is 1 to 1024"),
        (Shape { buffers: 2, in_place: false, ..SHAPE }, "in place only"),
        (
            Shape {
                collective: Collective::Broadcast,
                algorithm: Algorithm::Binomial,
                buffers: 2,
                ..SHAPE
            },
            "only allreduce",
        ),
    ];
    for (shape, said) in refused {
        match build(&shape) {
            Err(Error::InvalidArgument(text)) => assert!(text.contains(said), "{text}"),
            other => panic!("{shape:?}: {other:?}"),
        }
    }
}

#[test]
fn one_rank_in_place_does_nothing() {
    let alone = Shape { size: 1, rank: 0, ..SHAPE };
    assert!(build(&alone).unwrap().steps.is_empty());
    assert_eq!(build(&Shape { in_place: false, ..alone }).unwrap().steps.len(), 1);
}

#[test]
fn large_worlds_have_plans() {
    for (collective, algorithm, steps) in [
        (Collective::Allreduce, Algorithm::Ring, 4 * 65_535),
        (Collective::Allreduce, Algorithm::Direct, 2 * 65_535 + 1),
        (Collective::Allreduce, Algorithm::Doubling, 3 * 16),
        (Collective::Broadcast, Algorithm::Binomial, 1),
        (Collective::Barrier, Algorithm::Dissemination, 3 * 16),
    ] {
        let shape = Shape { collective, algorithm, size: 65_536, rank: 65_535, ..SHAPE };
        assert_eq!(build(&shape).unwrap().steps.len(), steps, "{algorithm}");
    }
}

/// Algorithms that take a logarithmic number of steps.
const LOGARITHMIC: [(Collective, Algorithm); 17] = [
    (Collective::Allreduce, Algorithm::Doubling),
    (Collective::Allreduce, Algorithm::Circulant),
    (Collective::Allreduce, Algorithm::Rabenseifner),
    (Collective::Allreduce, Algorithm::Halving),
    (Collective::Allreduce, Algorithm::Knomial),
    (Collective::Broadcast, Algorithm::Binomial),
    (Collective::Broadcast, Algorithm::Knomial),
    (Collective::Barrier, Algorithm::Dissemination),
    (Collective::Reduce, Algorithm::Binomial),
    (Collective::Reduce, Algorithm::Knomial),
    (Collective::Allgather, Algorithm::Circulant),
    (Collective::Gather, Algorithm::Binomial),
    (Collective::Scatter, Algorithm::Binomial),
    (Collective::ReduceScatter, Algorithm::Circulant),
    (Collective::Scan, Algorithm::Doubling),
    (Collective::Exscan, Algorithm::Doubling),
    (Collective::Broadcast, Algorithm::Chain),
];

#[test]
fn logarithmic_algorithms_have_few_steps_that_touch_few_segments() {
    for (collective, algorithm) in LOGARITHMIC {
        for size in [65_536, 65_535, 40_000, 32_769] {
            for rank in [0, 1, size / 3, size / 2, size - 2, size - 1] {
                let root = if collective.has_root() { size / 3 } else { 0 };
                let case = Case { root, ..Case::new(collective, algorithm, size) };
                let plan = build(&case.shape(rank, false)).unwrap();
                let most = 8 * size.next_power_of_two().ilog2() as usize;
                let orders: usize = plan.steps.iter().map(|step| step.after.len()).sum();
                assert!(plan.steps.len() <= most, "{case:?} {rank}: {} steps", plan.steps.len());
                assert!(orders <= 4 * most, "{case:?} {rank}: {orders} orders");
            }
        }
    }
}
