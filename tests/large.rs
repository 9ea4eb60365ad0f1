//! Buffers of more than 4 GiB: counts and offsets that do not fit 32 bits. Needs about 10 GiB of memory.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod ranks;

use collect::{Algorithm, Call, CallOptions, Datatype, Op, Target, World};

/// More elements than 32 bits count, and no multiple of anything.
const COUNT: usize = (4 << 30) + 4099;

/// Differs between ranks and at any two places that a cut offset would confuse.
fn value(rank: usize, at: usize) -> u8 {
    let mixed = (at ^ (at >> 32).wrapping_mul(0x9e37)).wrapping_mul(0x85eb) >> 7;
    (mixed as u8 & 0x3f).wrapping_add(rank as u8 * 3)
}

#[test]
#[ignore = "long and large: make test-large"]
fn allreduce_of_more_than_four_gibibytes() {
    let name = "allreduce_of_more_than_four_gibibytes";
    ranks::processes(name, 2, &ranks::options(), &|world: &World| {
        let mut data: Vec<u8> = (0..COUNT).map(|at| value(world.rank(), at)).collect();
        let target = Target::of(&mut data);
        let (source, datatype, op) = (target.in_place(), Datatype::U8, Op::Sum);
        let call = Call::Allreduce { source, target, datatype, op };
        let algorithm = Some(Algorithm::Ring);
        world.run(&call, &CallOptions { algorithm, ..CallOptions::default() }).unwrap();
        let right = |at: usize| value(0, at).wrapping_add(value(1, at));
        assert_eq!(data.iter().enumerate().position(|(at, x)| *x != right(at)), None);
    });
}

#[test]
#[ignore = "long and large: make test-large"]
fn broadcast_of_more_than_four_gibibytes() {
    let name = "broadcast_of_more_than_four_gibibytes";
    ranks::processes(name, 2, &ranks::options(), &|world: &World| {
        let is_root = world.rank() == 1;
        let mut data: Vec<u8> =
            if is_root { (0..COUNT).map(|at| value(1, at)).collect() } else { vec![0; COUNT] };
        let buffer = Target::of(&mut data);
        let call = Call::Broadcast { buffer, datatype: Datatype::U8, root: 1 };
        world.run(&call, &CallOptions::default()).unwrap();
        assert_eq!(data.iter().enumerate().position(|(at, x)| *x != value(1, at)), None);
    });
}
