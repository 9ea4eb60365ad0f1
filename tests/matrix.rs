//! Every collective, type, operation, algorithm, root and way of calling, against a plain reference in `reference`.
//!
//! The product is too large, so trials are sampled: for each collective and size every value of a parameter meets every
//! value of every other one. The seeds are fixed.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "matrix/cases.rs"]
mod cases;
#[path = "matrix/ordered.rs"]
mod ordered;
#[path = "matrix/pairs.rs"]
mod pairs;
mod ranks;
mod reference;

use cases::Trial;
use collect::{Datatype, World};
use reference::buffers::Prepared;
use reference::values::{Number, decode, encode};

/// Elements of what is called large here.
const LARGE: usize = 100_003;

/// Makes one call, and checks every byte of its buffers.
fn try_one(world: &World, trial: &Trial) {
    let Trial { case, is_request } = trial;
    let mut prepared = Prepared::new(case, world.size(), world.rank());
    let options = case.options(world.rank());
    let call = prepared.call();
    let outcome = if *is_request {
        world.start(&call, &options).and_then(|request| request.wait())
    } else {
        world.run(&call, &options)
    };
    if let Err(error) = outcome {
        panic!("rank {} of {}: {error}: {trial:?}", world.rank(), world.size());
    }
    prepared.check();
}

/// Runs trials in a world of threads.
fn run(size: usize, trials: &[Trial]) {
    let body = |world: &World| trials.iter().for_each(|trial| try_one(world, trial));
    ranks::threads(size, &ranks::options(), &body);
    println!("{size} ranks: {} trials", trials.len());
}

/// Every pair of parameters that may meet, with random others.
fn every_pair(size: usize, seed: u64) {
    let counts = [0, 1, size - 1, size + 1, 1000, LARGE];
    run(size, &cases::trials(size, &counts, seed));
}

#[test]
fn every_pair_of_parameters_on_1_to_5_ranks() {
    (1..=5).for_each(|size| every_pair(size, 0x5eed));
}

#[test]
fn every_pair_of_parameters_on_6_to_8_ranks() {
    (6..=8).for_each(|size| every_pair(size, 0x5eed));
}

#[test]
fn every_pair_of_parameters_on_9_ranks() {
    every_pair(9, 0x5eed);
}

#[test]
fn every_pair_of_parameters_on_16_ranks() {
    every_pair(16, 0x5eed);
}

/// The same under many seeds, so that other parameters meet too.
#[test]
#[ignore = "minutes: make test-large"]
fn the_whole_matrix() {
    for seed in 1..=20 {
        (1..=9).chain([16]).for_each(|size| every_pair(size, seed));
    }
}

/// The one float that no crate checks the reference against.
#[test]
fn the_reference_of_fp8_knows_its_formats() {
    let value = |datatype, byte: u8| match decode(datatype, &[byte]) {
        Number::Float(value) => value,
        other => panic!("{other:?}"),
    };
    let byte = |datatype, value: f64| {
        let mut out = Vec::new();
        encode(datatype, Number::Float(value), &mut out);
        out[0]
    };
    let (e4m3, e5m2) = (Datatype::F8e4m3, Datatype::F8e5m2);
    assert_eq!([0x38, 0x7e, 0x01].map(|it| value(e4m3, it)), [1.0, 448.0, 1.0 / 512.0]);
    assert_eq!([0x3c, 0x7b, 0xfc].map(|it| value(e5m2, it)), [1.0, 57344.0, f64::NEG_INFINITY]);
    assert_eq!([464.0, 465.0, -17.0].map(|it| byte(e4m3, it)), [0x7e, 0x7f, 0xd8]);
    assert_eq!([1e9, 9.0, 11.0].map(|it| byte(e5m2, it)), [0x7c, 0x48, 0x4a]);
    for (datatype, nan) in [(e4m3, 0x7f), (e5m2, 0x7e)] {
        for it in 0..=u8::MAX {
            let same = if value(datatype, it).is_nan() { nan } else { it };
            assert_eq!(byte(datatype, value(datatype, it)), same, "{datatype} {it:#x}");
        }
    }
}
