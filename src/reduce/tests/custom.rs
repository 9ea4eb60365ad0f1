//! Reductions of the caller's own: order, sizes of elements, alignment, and what the function is handed.

use std::panic::{self, AssertUnwindSafe};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::Buffers;
use crate::memory::{Region, Source, Target};
use crate::reduce::{Custom, ELEMENT_BYTES_MAX};

/// Products of matrices of 2 by 2, which do not commute.
fn matrices() -> Custom {
    Custom::new(16, false, |left, right, result| {
        let operands = left.as_chunks::<16>().0.iter().zip(right.as_chunks::<16>().0);
        for (result, (left, right)) in result.as_chunks_mut::<16>().0.iter_mut().zip(operands) {
            *result = bytes_of(product(matrix_of(left), matrix_of(right)));
        }
    })
    .unwrap()
}

fn matrix_of(bytes: &[u8; 16]) -> [i32; 4] {
    std::array::from_fn(|i| i32::from_ne_bytes(bytes[4 * i..4 * i + 4].try_into().unwrap()))
}

fn bytes_of(matrix: [i32; 4]) -> [u8; 16] {
    std::array::from_fn(|i| matrix[i / 4].to_ne_bytes()[i % 4])
}

fn product([a, b, c, d]: [i32; 4], [e, f, g, h]: [i32; 4]) -> [i32; 4] {
    let sum = |w: i32, x: i32, y: i32, z: i32| w.wrapping_mul(x).wrapping_add(y.wrapping_mul(z));
    [sum(a, e, b, g), sum(a, f, b, h), sum(c, e, d, g), sum(c, f, d, h)]
}

/// Something else in each byte of each operand.
fn operands(bytes: usize, k: usize) -> Vec<Vec<u8>> {
    let mixed = |i: usize, at: usize| ((at + 1).wrapping_mul(0x9e37_79b9 + 2 * i) >> 13) as u8;
    (0..k).map(|i| (0..bytes).map(|at| mixed(i, at)).collect()).collect()
}

/// Folds them at every alignment, into each of them and into a buffer of its own.
fn check(custom: &Custom, operands: &[Vec<u8>], expected: &[u8]) {
    let bytes = expected.len();
    for (offset, own) in (0..8).flat_map(|offset| (0..=operands.len()).map(move |i| (offset, i))) {
        let (_buffers, sources) = Buffers::holding(operands, bytes, offset);
        let mut words = vec![u64::MAX; bytes / 8 + 3];
        let apart = Target::of(&mut words).region();
        let target =
            sources.get(own).copied().unwrap_or_else(|| apart.part(offset, offset + bytes));
        custom.fold(&target, &sources);
        target.with(|found| assert!(found == expected, "{custom:?} at {offset}, into {own}"));
        let after = if own < sources.len() { 0 } else { offset + bytes };
        apart.part(after, apart.bytes()).with(|rest| assert!(rest.iter().all(|b| *b == 0xff)));
    }
}

#[test]
fn matrices_are_multiplied_in_order() {
    let custom = matrices();
    assert!(!custom.is_commutative() && custom.element_bytes() == 16);
    let per_block = ELEMENT_BYTES_MAX / 16;
    for count in [0, 1, 3, per_block - 1, per_block, per_block + 1, 3 * per_block + 5] {
        for k in [1, 2, 3, 5] {
            let operands = operands(16 * count, k);
            let element =
                |operand: &Vec<u8>, at| matrix_of(operand[at..at + 16].try_into().unwrap());
            let expected: Vec<u8> = (0..16 * count)
                .step_by(16)
                .flat_map(|at| {
                    bytes_of(operands.iter().map(|o| element(o, at)).reduce(product).unwrap())
                })
                .collect();
            check(&custom, &operands, &expected);
        }
    }
}

/// Keeps of each element the bytes of the left one in the even places, and of the right one in the odd, and asserts
/// what every function may rely on.
fn woven(element: usize) -> Custom {
    Custom::new(element, false, move |left, right, result| {
        assert!(!left.is_empty() && left.len().is_multiple_of(element));
        assert_eq!((left.len(), left.len()), (right.len(), result.len()));
        let ranges = [left.as_ptr_range(), right.as_ptr_range(), result.as_ptr_range()];
        for (i, range) in ranges.iter().enumerate() {
            assert_eq!(range.start as usize % 16, 0);
            assert!(ranges[..i].iter().all(|o| o.end <= range.start || range.end <= o.start));
        }
        for (at, byte) in result.iter_mut().enumerate() {
            *byte = if (at % element).is_multiple_of(2) { left[at] } else { right[at] };
        }
    })
    .unwrap()
}

#[test]
fn elements_of_any_size_are_whole_in_every_run() {
    for element in [1, 3, 12, 16, 1365, 2049, 4095, ELEMENT_BYTES_MAX] {
        let custom = woven(element);
        for count in [0, 1, 2, ELEMENT_BYTES_MAX / element + 1, 2 * ELEMENT_BYTES_MAX / element] {
            let operands = operands(element * count, 3);
            let byte = |at: usize| if (at % element).is_multiple_of(2) { 0 } else { 2 };
            let expected: Vec<u8> = (0..element * count).map(|at| operands[byte(at)][at]).collect();
            check(&custom, &operands, &expected);
        }
    }
}

#[test]
fn one_source_is_copied_without_a_call() {
    let calls = Arc::new(AtomicUsize::new(0));
    let seen = Arc::clone(&calls);
    let custom = Custom::new(4, true, move |_, _, _| {
        seen.fetch_add(1, Ordering::Relaxed);
    });
    let custom = custom.unwrap();
    let (source, mut target) = ([7_u32, 8], [0_u32; 2]);
    let region = Target::of(&mut target).region();
    custom.fold(&region, &[Source::of(&source).region()]);
    custom.fold(&Region::EMPTY, &[Region::EMPTY; 3]);
    assert_eq!((target, calls.load(Ordering::Relaxed)), (source, 0));
}

#[test]
fn sizes_without_a_meaning_are_refused() {
    for bytes in [0, ELEMENT_BYTES_MAX + 1, usize::MAX] {
        let refused = Custom::new(bytes, true, |_, _, _| ()).unwrap_err();
        assert!(refused.to_string().contains("1 to 4096 are possible"), "{refused}");
    }
}

#[test]
fn a_function_that_panics_can_be_called_again() {
    let calls = AtomicUsize::new(0);
    let custom = Custom::new(1, true, move |left, _, result| {
        assert!(calls.fetch_add(1, Ordering::Relaxed) > 0, "the first call");
        result.copy_from_slice(left);
    });
    let custom = custom.unwrap();
    let mut target = [1_u8, 2];
    let (region, other) = (Target::of(&mut target).region(), [3_u8, 4]);
    let sources = [Source::of(&other).region(), region];
    let first = panic::catch_unwind(AssertUnwindSafe(|| custom.fold(&region, &sources)));
    assert!(first.is_err());
    region.with(|bytes| assert_eq!(bytes, [1, 2]));
    custom.fold(&region, &sources);
    assert_eq!(target, [3, 4]);
}
