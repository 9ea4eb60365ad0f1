//! What ranks contribute, and what must come out: small whole numbers, so that every type holds every result exactly.

use collect::{Datatype, Op};
use half::{bf16, f16};

/// What rank `rank` contributes at element `at`: 1 or 2 for products, else 0 to 3.
pub(crate) fn value(rank: usize, at: usize, op: Op) -> i64 {
    let mixed = (rank.wrapping_mul(31) ^ at.wrapping_mul(7)) % 4;
    let mixed = i64::try_from(mixed).unwrap_or(0);
    if op == Op::Prod { 1 + i64::from(mixed == 3 && rank < 5) } else { mixed }
}

/// What comes out at element `at`, as a fraction.
pub(crate) fn result(size: usize, at: usize, op: Op) -> (i64, i64) {
    let all = (0..size).map(|rank| value(rank, at, op));
    let whole = |number: i64| (number, 1);
    match op {
        Op::Sum => whole(all.sum()),
        Op::Avg => (all.sum(), i64::try_from(size).unwrap_or(1)),
        Op::Prod => whole(all.product()),
        Op::Min => whole(all.min().unwrap_or(0)),
        Op::Max => whole(all.max().unwrap_or(0)),
        Op::Band => whole(all.fold(-1, |a, b| a & b)),
        Op::Bor => whole(all.fold(0, |a, b| a | b)),
        Op::Bxor => whole(all.fold(0, |a, b| a ^ b)),
        Op::PremulSum | Op::Custom => unreachable!("the command line offers no {op}"),
    }
}

/// The bytes of a fraction in a type; integers round towards zero and wrap.
pub(crate) fn encode((over, under): (i64, i64), datatype: Datatype, out: &mut Vec<u8>) {
    let whole = (over / under).to_le_bytes();
    match datatype {
        Datatype::F16 => {
            let exact = f16::from_f32(over as f32 / under as f32);
            out.extend_from_slice(&exact.to_le_bytes());
        }
        Datatype::Bf16 => {
            let exact = bf16::from_f32(over as f32 / under as f32);
            out.extend_from_slice(&exact.to_le_bytes());
        }
        Datatype::F32 => out.extend_from_slice(&(over as f32 / under as f32).to_le_bytes()),
        Datatype::F64 => out.extend_from_slice(&(over as f64 / under as f64).to_le_bytes()),
        _ => out.extend_from_slice(&whole[..datatype.bytes()]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn elements_are_encoded_in_their_type() {
        let bytes = |fraction, datatype| {
            let mut out = Vec::new();
            encode(fraction, datatype, &mut out);
            out
        };
        assert_eq!(bytes((3, 2), Datatype::F32), 1.5f32.to_le_bytes());
        assert_eq!(bytes((3, 2), Datatype::I16), [1, 0]);
        assert_eq!(bytes((-1, 1), Datatype::I8), [255]);
        assert_eq!(bytes((2, 1), Datatype::Bf16), [0, 0x40]);
    }

    #[test]
    fn results_follow_from_the_contributions() {
        assert_eq!(result(1, 5, Op::Sum).0, value(0, 5, Op::Sum));
        assert_eq!(result(2, 0, Op::Avg).1, 2);
        assert!((0..100).all(|at| (1..=32).contains(&result(8, at, Op::Prod).0)));
    }
}
