//! Multiplication by a factor, against the reference, and the factors that are refused.

use std::slice;

use super::{Buffers, COUNT_MAX, elements, paths_and};
use crate::datatype::Datatype;
use crate::memory::{Region, Source, Target};
use crate::reduce::reference::multiplied;
use crate::reduce::scale::scale_on;
use crate::reduce::{check_factor, number::BLOCK_BYTES, scale};

const FACTORS: [f64; 16] = [
    0.0,
    -0.0,
    1.0,
    -1.0,
    3.0,
    300.0,
    -70_000.0,
    9_007_199_254_740_993.0,
    -9_223_372_036_854_775_808.0,
    18_446_744_073_709_549_568.0,
    0.1,
    1e-40,
    1e300,
    f64::INFINITY,
    f64::NEG_INFINITY,
    f64::NAN,
];

fn cases() -> impl Iterator<Item = (Datatype, f64)> {
    let all = Datatype::ALL.into_iter();
    let all = all.flat_map(|datatype| FACTORS.map(|factor| (datatype, factor)));
    all.filter(|(datatype, factor)| check_factor(*datatype, *factor).is_ok())
}

#[test]
fn every_type_is_multiplied_as_in_the_reference() {
    let most = 2 * BLOCK_BYTES + 63;
    for (datatype, factor) in cases() {
        let own = elements(datatype, most, 1);
        let expected = multiplied(datatype, factor, &own);
        for (path, count) in paths_and((0..=COUNT_MAX).chain([most])) {
            let bytes = count * datatype.bytes();
            let (_buffers, sources) = Buffers::holding(slice::from_ref(&own), bytes, count % 8);
            let mut words = vec![0_u64; bytes / 8 + 3];
            let target = Target::of(&mut words).region().part(count / 8 % 8, count / 8 % 8 + bytes);
            scale_on(path, datatype, factor, &sources[0], &target);
            scale_on(path, datatype, factor, &sources[0], &sources[0]);
            for result in [target, sources[0]] {
                result.with(|found| {
                    assert_eq!(found, &expected[..bytes], "{datatype} {factor} {count} {path:?}");
                });
            }
        }
    }
}

#[test]
fn every_small_element_is_multiplied_as_in_the_reference() {
    let halves: Vec<u8> = (0..=u16::MAX).flat_map(u16::to_ne_bytes).collect();
    let bytes: Vec<u8> = (0..=u8::MAX).collect();
    for (datatype, factor) in cases().filter(|(datatype, _)| datatype.bytes() <= 2) {
        let all = if datatype.bytes() == 1 { &bytes } else { &halves };
        let expected = multiplied(datatype, factor, all);
        for (path, _) in paths_and([0]) {
            let mut found = vec![0_u8; all.len()];
            let (source, target) = (Source::of(all).region(), Target::of(&mut found).region());
            scale_on(path, datatype, factor, &source, &target);
            assert_eq!(found, expected, "{datatype} {factor} {path:?}");
        }
    }
}

#[test]
fn products_wrap_and_round_once() {
    let mut wrapped = [100_i8, -128, 1];
    let region = Target::of(&mut wrapped).region();
    scale(Datatype::I8, 300.0, &region, &region);
    assert_eq!(wrapped, [48, 0, 44]);
    let mut rounded = [0x3c01_u16, 0xfe01];
    let region = Target::of(&mut rounded).region();
    // (1 + 2^-10) (1 + 2^-11) in one rounding: the product is above the tie.
    scale(Datatype::F16, 1.0 + 2_f64.powi(-11), &region, &region);
    assert_eq!(rounded, [0x3c02, 0x7e00]);
}

#[test]
fn factors_without_a_meaning_are_refused() {
    let refused = |datatype, factor| check_factor(datatype, factor).err().map(|e| e.to_string());
    let whole = "factor 0.5: i32 elements need a whole number from -2^63 to 2^63 - 1";
    assert_eq!(refused(Datatype::I32, 0.5).unwrap(), whole);
    let unsigned = "factor -1: u8 elements need a whole number from 0 to 2^64 - 1";
    assert_eq!(refused(Datatype::U8, -1.0).unwrap(), unsigned);
    for factor in [f64::NAN, f64::INFINITY, 2_f64.powi(63), -1e19] {
        assert!(refused(Datatype::I64, factor).is_some(), "{factor}");
    }
    for factor in [f64::NAN, f64::NEG_INFINITY, 2_f64.powi(64), -0.5] {
        assert!(refused(Datatype::U64, factor).is_some(), "{factor}");
    }
    assert!(refused(Datatype::Bool, 1.0).is_some());
    for factor in [-2_f64.powi(63), -0.0, 2_f64.powi(62)] {
        assert_eq!(refused(Datatype::I8, factor), None);
    }
    assert_eq!(refused(Datatype::U64, 2_f64.powi(63)), None);
    assert_eq!(refused(Datatype::F8e4m3, f64::NAN), None);
}

#[test]
#[should_panic(expected = "whole number")]
fn a_factor_that_was_not_checked_panics() {
    scale(Datatype::I32, 0.5, &Region::EMPTY, &Region::EMPTY);
}
