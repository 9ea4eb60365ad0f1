//! The algorithms, proved for every size up to 64 and every root, in place on all, none or some ranks.

use super::plans;
use super::random::Random;
use crate::error::Error;
use crate::plan::{Algorithm, Collective, Shape, algorithms, build, verify};

fn prove(collective: Collective, size: u32, root: u32, buffers: u16) {
    let mut random = Random(u64::from(size) << 32 | u64::from(root));
    for algorithm in algorithms(collective) {
        for some in if buffers > 1 { 0..1 } else { 0..3 } {
            let in_place = |_| some == 1 || some == 2 && random.chance(50);
            let plans = plans(collective, *algorithm, size, root, buffers, in_place);
            let faults = verify(&plans);
            assert!(
                faults.is_empty(),
                "{collective} {algorithm}, {size} ranks, root {root}, {buffers} buffers, {some}: {} faults, first {}",
                faults.len(),
                faults[0]
            );
        }
    }
}

#[test]
fn allreduce_is_proved() {
    (1..=64).chain([100, 128]).for_each(|size| prove(Collective::Allreduce, size, 0, 1));
}

#[test]
fn allreduce_of_several_buffers_is_proved() {
    for buffers in [2, 3] {
        (1..=32).chain([48, 64]).for_each(|size| prove(Collective::Allreduce, size, 0, buffers));
    }
}

#[test]
fn broadcast_is_proved_from_every_root() {
    for size in 1..=64 {
        (0..size).for_each(|root| prove(Collective::Broadcast, size, root, 1));
    }
}

#[test]
fn reduce_is_proved_to_every_root() {
    for size in 1..=64 {
        (0..size).for_each(|root| prove(Collective::Reduce, size, root, 1));
    }
}

#[test]
fn allgather_is_proved() {
    (1..=64).chain([100, 128]).for_each(|size| prove(Collective::Allgather, size, 0, 1));
}

#[test]
fn barrier_is_proved() {
    (1..=64).for_each(|size| prove(Collective::Barrier, size, 0, 1));
}

const SHAPE: Shape = Shape {
    collective: Collective::Allreduce,
    algorithm: Algorithm::Ring,
    size: 4,
    rank: 1,
    root: 0,
    in_place: true,
    buffers: 1,
};

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
