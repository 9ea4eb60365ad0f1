//! Every path against the plain reference, bit for bit.

mod custom;
mod fp8;
mod scale;

use super::half_floats::{bf16_to_f32, f16_to_f32, f32_to_bf16, f32_to_f16};
use super::kernels::Job;
use super::number::BLOCK_BYTES;
use super::path::{Path, Portable};
use super::reference::expected;
use super::{path_name, reduce, reduce_on};
use crate::datatype::{Datatype, Op};
use crate::memory::{Region, Source, Target};
use half::{bf16, f16};

const COUNT_MAX: usize = 100;

/// The portable path, and the chosen one if that is another.
fn paths() -> Vec<Path> {
    let portable = Path::Portable(Portable);
    match Path::chosen() {
        Path::Portable(_) => {
            println!("skipped: this processor has no faster path to compare with");
            vec![portable]
        }
        #[cfg(target_arch = "x86_64")]
        fast @ Path::Avx2(_) => vec![portable, fast],
    }
}

fn pairs() -> impl Iterator<Item = (Datatype, Op)> {
    Datatype::ALL.into_iter().flat_map(|datatype| {
        let ops = Op::ALL.into_iter().filter(|op| *op != Op::Custom);
        ops.filter(move |op| op.allows(datatype)).map(move |op| (datatype, op))
    })
}

/// The values where arithmetic changes its mind: zeros, subnormals, the largest, infinity, NaN; both signs of each.
fn special(datatype: Datatype, i: usize) -> u64 {
    let (bits, mantissa) = match datatype {
        Datatype::F16 => (16, 10),
        Datatype::Bf16 => (16, 7),
        Datatype::F32 => (32, 23),
        Datatype::F64 => (64, 52),
        Datatype::F8e5m2 => (8, 2),
        integer => (8 * integer.bytes() as u32, 3),
    };
    let sign = 1 << (bits - 1);
    let infinity = (sign - 1) >> mantissa << mantissa;
    let one = (infinity >> 1) >> mantissa << mantissa;
    let (ulp, quiet) = (1, 1 << (mantissa - 1));
    let magnitudes = [
        0,
        ulp,
        (1 << mantissa) - 1,
        1 << mantissa,
        one,
        one + ulp,
        infinity - 1,
        infinity,
        infinity + ulp,
        infinity + quiet,
        infinity + quiet + ulp,
    ];
    magnitudes[i / 2 % magnitudes.len()] | if i.is_multiple_of(2) { 0 } else { sign }
}

/// Elements of which a third is special, a third is near one, and a third has any bits.
fn elements(datatype: Datatype, count: usize, seed: u64) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0xd129_0c5f) ^ 0x9e37_79b9_7f4a_7c15;
    let mut random = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state
    };
    let one = special(datatype, 8);
    (0..count)
        .flat_map(|_| {
            let bits = match random() % 3 {
                0 => special(datatype, (random() >> 8) as usize % 22),
                1 => one ^ (random() % 4096),
                _ => random(),
            };
            bits.to_le_bytes().into_iter().take(datatype.bytes())
        })
        .collect()
}

/// Operands that lie at chosen offsets in buffers of their own, so that their alignment is what it should be.
struct Buffers(Vec<Vec<u64>>);

impl Buffers {
    fn holding(operands: &[Vec<u8>], bytes: usize, offset: usize) -> (Self, Vec<Region>) {
        let mut buffers = Self(vec![vec![0; bytes / 8 + 3]; operands.len()]);
        let regions =
            buffers.0.iter_mut().zip(operands).enumerate().map(|(i, (words, operand))| {
                let offset = (offset + 3 * i) % 8;
                let region = Target::of(words).region().part(offset, offset + bytes);
                region.with_mut(|own| own.copy_from_slice(&operand[..bytes]));
                region
            });
        let regions = regions.collect();
        (buffers, regions)
    }
}

/// Runs a job on one path, into the operand of that index or into a buffer of its own, and compares.
struct Case<'a> {
    datatype: Datatype,
    op: Op,
    divisor: Option<u64>,
    operands: &'a [Vec<u8>],
    expected: &'a [u8],
}

impl<'a> Case<'a> {
    fn check(&self, path: Path, count: usize, offsets: (usize, usize), in_place: Option<usize>) {
        let bytes = count * self.datatype.bytes();
        let (_buffers, sources) = Buffers::holding(self.operands, bytes, offsets.1);
        let mut words = vec![u64::MAX; bytes / 8 + 3];
        let own = Target::of(&mut words).region();
        let target =
            in_place.map_or_else(|| own.part(offsets.0, offsets.0 + bytes), |i| sources[i]);
        let Self { datatype, op, divisor, .. } = *self;
        let sources = &sources;
        reduce_on(path, &Job { datatype, op, target, sources, divisor, factor: None });
        target.with(|found| {
            assert_eq!(
                found,
                &self.expected[..bytes],
                "{datatype} {op} {divisor:?}, {count} at {offsets:?}, in place {in_place:?}, {path:?}"
            );
        });
        let after = if in_place.is_some() { 0 } else { offsets.0 + bytes };
        own.part(after, own.bytes()).with(|rest| assert!(rest.iter().all(|byte| *byte == 0xff)));
    }

    fn each(operands: &'a [Vec<u8>], pair: (Datatype, Op), run: impl Fn(&Case<'_>)) {
        let (datatype, op) = pair;
        let divisors: &[_] = if op == Op::Avg {
            &[None, Some(1), Some(3), Some(200), Some(70_000)]
        } else {
            &[None]
        };
        let slices: Vec<_> = operands.iter().map(Vec::as_slice).collect();
        for divisor in divisors.iter().copied() {
            let expected = &expected(datatype, op, &slices, divisor);
            run(&Case { datatype, op, divisor, operands, expected });
        }
    }
}

fn operands(datatype: Datatype, count: usize, k: usize) -> Vec<Vec<u8>> {
    (0..k).map(|i| elements(datatype, count, (i + 1) as u64)).collect()
}

#[test]
fn every_reduction_gives_the_reference_at_every_length_and_in_place() {
    for (pair, k) in pairs().flat_map(|pair| [1, 2, 3, 5].map(|k| (pair, k))) {
        Case::each(&operands(pair.0, COUNT_MAX, k), pair, |case| {
            for (path, count) in paths_and(0..=COUNT_MAX) {
                let offsets = (count % 8, count / 8 % 8);
                case.check(path, count, offsets, None);
                (0..k).for_each(|i| case.check(path, count, offsets, Some(i)));
            }
        });
    }
}

#[test]
fn every_reduction_gives_the_reference_at_every_alignment() {
    for pair in pairs() {
        Case::each(&operands(pair.0, COUNT_MAX, 2), pair, |case| {
            for (path, count) in paths_and([1, 15, 16, 17, 31, 33, 64, 99]) {
                for offsets in (0..64).map(|i| (i / 8, i % 8)) {
                    case.check(path, count, offsets, None);
                }
            }
        });
    }
}

#[test]
fn sums_give_the_reference_at_every_length_and_alignment() {
    for datatype in Datatype::ALL {
        Case::each(&operands(datatype, COUNT_MAX, 2), (datatype, Op::Sum), |case| {
            for (path, count) in paths_and(0..=COUNT_MAX) {
                (0..64).for_each(|i| case.check(path, count, (i / 8, i % 8), None));
            }
        });
    }
}

#[test]
fn blocks_meet_without_a_seam() {
    let sizes = [1, 2, 4, 8].map(|bytes| BLOCK_BYTES / bytes);
    let counts = || sizes.into_iter().flat_map(|size| [size - 1, size, size + 1, size + 63]);
    let most = 2 * BLOCK_BYTES + 63;
    for (pair, k) in pairs().flat_map(|pair| [1, 2, 3].map(|k| (pair, k))) {
        Case::each(&operands(pair.0, most, k), pair, |case| {
            for (path, count) in paths_and(counts().chain([most])) {
                case.check(path, count, (3, 5), None);
                case.check(path, count, (0, 0), Some(k - 1));
            }
        });
    }
}

fn paths_and(counts: impl IntoIterator<Item = usize>) -> impl Iterator<Item = (Path, usize)> {
    counts.into_iter().flat_map(|count| paths().into_iter().map(move |path| (path, count)))
}

#[test]
fn all_pairs_of_special_values_give_the_reference() {
    let bytes =
        |datatype: Datatype, i| special(datatype, i).to_le_bytes()[..datatype.bytes()].to_vec();
    for pair in pairs() {
        let left: Vec<u8> = (0..22 * 22).flat_map(|i| bytes(pair.0, i / 22)).collect();
        let right: Vec<u8> = (0..22 * 22).flat_map(|i| bytes(pair.0, i % 22)).collect();
        Case::each(&[left, right], pair, |case| {
            paths_and([22 * 22]).for_each(|(path, count)| case.check(path, count, (0, 0), None));
        });
    }
}

#[test]
fn zeros_order_by_sign_and_nan_is_canonical() {
    let run = |op, left: f32, right: f32| {
        let (left, right, mut result) = ([left], [right], [0.0_f32]);
        let sources = [Source::of(&left).region(), Source::of(&right).region()];
        reduce(Datatype::F32, op, &Target::of(&mut result).region(), &sources, None);
        result[0].to_bits()
    };
    let nan = f32::from_bits(0xff80_0001);
    for (left, right) in [(0.0, -0.0), (-0.0, 0.0)] {
        assert_eq!(run(Op::Min, left, right), 0x8000_0000);
        assert_eq!(run(Op::Max, left, right), 0);
    }
    for op in [Op::Sum, Op::Prod, Op::Min, Op::Max] {
        assert_eq!(run(op, nan, 1.0), 0x7fc0_0000);
        assert_eq!(run(op, f32::NEG_INFINITY, nan), 0x7fc0_0000);
    }
    assert_eq!(run(Op::Sum, f32::INFINITY, f32::NEG_INFINITY), 0x7fc0_0000);
}

#[test]
fn halves_become_f32_and_back_as_in_the_half_crate() {
    for bits in 0..=u16::MAX {
        let (ours, theirs) = (f16_to_f32(bits), f16::from_bits(bits).to_f32());
        assert!(ours.to_bits() == theirs.to_bits() || ours.is_nan() && theirs.is_nan());
        let back = if ours.is_nan() { 0x7e00 } else { bits };
        assert_eq!(f32_to_f16(ours), back);
        let (ours, theirs) = (bf16_to_f32(bits), bf16::from_bits(bits).to_f32());
        assert!(ours.to_bits() == theirs.to_bits() || ours.is_nan() && theirs.is_nan());
        let back = if ours.is_nan() { 0x7fc0 } else { bits };
        assert_eq!(f32_to_bf16(ours), back);
    }
}

#[test]
fn f32_rounds_to_halves_as_in_the_half_crate() {
    // Every exponent and sign, with mantissas at and around all ties.
    for upper in 0..=u16::MAX {
        for lower in [0, 1, 0x0fff, 0x1000, 0x1001, 0x2000, 0x7fff, 0x8000, 0x8001, 0xffff] {
            let number = f32::from_bits(u32::from(upper) << 16 | lower);
            if !number.is_nan() {
                assert_eq!(f32_to_f16(number), f16::from_f32(number).to_bits(), "{number:e}");
                assert_eq!(f32_to_bf16(number), bf16::from_f32(number).to_bits(), "{number:e}");
            }
        }
    }
}

#[test]
fn all_halves_combine_with_partners_as_in_the_reference() {
    let all: Vec<u8> = (0..=u16::MAX).flat_map(u16::to_ne_bytes).collect();
    for datatype in [Datatype::F16, Datatype::Bf16] {
        for (op, i) in [Op::Sum, Op::Prod, Op::Min, Op::Max, Op::Avg]
            .into_iter()
            .flat_map(|op| (0..22).map(move |i| (op, i)))
        {
            let partner = special(datatype, i) as u16 ^ if i > 16 { 0x1234 } else { 0 };
            let partners: Vec<u8> = (0..=u16::MAX).flat_map(|_| partner.to_ne_bytes()).collect();
            Case::each(&[all.clone(), partners], (datatype, op), |case| {
                paths_and([1 << 16]).for_each(|(path, n)| case.check(path, n, (0, 0), None));
            });
        }
    }
}

#[test]
fn all_pairs_of_bytes_give_the_reference() {
    let left: Vec<u8> = (0..=u16::MAX).map(|i| (i >> 8) as u8).collect();
    let right: Vec<u8> = (0..=u16::MAX).map(|i| i as u8).collect();
    let operands = [left, right];
    for pair in pairs().filter(|(datatype, _)| datatype.bytes() == 1) {
        Case::each(&operands, pair, |case| {
            paths_and([1 << 16]).for_each(|(path, count)| case.check(path, count, (0, 0), None));
        });
    }
}

#[test]
fn truth_values_are_0_or_1() {
    for (op, expected) in [
        (Op::Sum, [0, 1, 1, 1]),
        (Op::Max, [0, 1, 1, 1]),
        (Op::Bor, [0, 1, 1, 1]),
        (Op::Prod, [0, 0, 0, 1]),
        (Op::Min, [0, 0, 0, 1]),
        (Op::Band, [0, 0, 0, 1]),
        (Op::Bxor, [0, 1, 1, 0]),
    ] {
        let (left, right, mut result) = ([0_u8, 0, 2, 4], [0_u8, 255, 0, 2], [9_u8; 4]);
        let sources = [Source::of(&left).region(), Source::of(&right).region()];
        reduce(Datatype::Bool, op, &Target::of(&mut result).region(), &sources, None);
        assert_eq!(result, expected, "{op}");
    }
}

#[test]
fn all_16_bit_integers_divide_as_in_the_reference() {
    let all = vec![(0..=u16::MAX).flat_map(u16::to_ne_bytes).collect::<Vec<u8>>()];
    let datatypes = [Datatype::I8, Datatype::U8, Datatype::I16, Datatype::U16];
    for (datatype, divisor) in datatypes.into_iter().flat_map(|datatype| {
        [1, 2, 3, 5, 7, 127, 128, 129, 255, 256, 32_767, 32_768, 65_535, 65_536, u64::MAX]
            .map(|divisor| (datatype, divisor))
    }) {
        let divisor = Some(divisor);
        let expected = &expected(datatype, Op::Avg, &[&all[0]], divisor);
        let case = Case { datatype, op: Op::Avg, divisor, operands: &all, expected };
        paths_and([expected.len() / datatype.bytes()])
            .for_each(|(path, count)| case.check(path, count, (0, 0), None));
    }
}

#[test]
fn a_single_source_is_copied_with_its_nan() {
    let (source, mut target) = ([0xff80_0001_u32, 7], [0_u32; 2]);
    let region = Target::of(&mut target).region();
    reduce(Datatype::F32, Op::Max, &region, &[Source::of(&source).region()], None);
    assert_eq!(target, source);
}

#[test]
fn nothing_is_reduced_without_an_address() {
    for (datatype, op) in pairs() {
        reduce(datatype, op, &Region::EMPTY, &[Region::EMPTY; 3], None);
    }
}

#[test]
#[should_panic(expected = "lengths differ")]
fn lengths_that_differ_are_refused() {
    let mut buffer = [0_u8; 8];
    let region = Target::of(&mut buffer).region();
    reduce(Datatype::U8, Op::Sum, &region, &[region, region.part(0, 7)], None);
}

#[test]
#[should_panic(expected = "no kernel")]
fn a_function_of_the_callers_is_no_kernel() {
    reduce(Datatype::U8, Op::Custom, &Region::EMPTY, &[Region::EMPTY], None);
}

#[test]
fn the_path_has_a_name() {
    assert!(["portable", "avx2+f16c"].contains(&path_name()));
}
