//! The reductions again, element by element and as plainly as possible, for tests to compare with.

use crate::datatype::{Datatype, Op};
use half::{bf16, f16};

/// The bytes that a reduction of these operands should give.
pub(super) fn expected(
    datatype: Datatype,
    op: Op,
    operands: &[&[u8]],
    divisor: Option<u64>,
) -> Vec<u8> {
    if let ([only], None) = (operands, divisor) {
        return only.to_vec();
    }
    (0..operands[0].len())
        .step_by(datatype.bytes())
        .flat_map(|at| {
            let elements: Vec<_> =
                operands.iter().map(|bytes| &bytes[at..at + datatype.bytes()]).collect();
            element(datatype, op, &elements, divisor)
        })
        .collect()
}

fn element(datatype: Datatype, op: Op, operands: &[&[u8]], divisor: Option<u64>) -> Vec<u8> {
    macro_rules! integer {
        ($name:ident) => {{
            let numbers = operands.iter().map(|b| $name::from_ne_bytes((*b).try_into().unwrap()));
            let result = numbers.reduce(|a, b| integer(op, a.into(), b.into()) as $name).unwrap();
            let result = i128::from(result) / divisor.map_or(1, i128::from);
            (result as $name).to_ne_bytes().to_vec()
        }};
    }
    macro_rules! float {
        ($name:ident in $wide:ident, $widen:expr, $narrow:expr, $nan:expr) => {{
            let numbers =
                operands.iter().map(|b| $widen($name::from_ne_bytes((*b).try_into().unwrap())));
            let mut result: $wide = numbers
                .reduce(|a: $wide, b: $wide| match op {
                    Op::Sum | Op::Avg => a + b,
                    Op::Prod => a * b,
                    _ if a.is_nan() || b.is_nan() => $wide::NAN,
                    Op::Min if a == b => {
                        if a.is_sign_negative() {
                            a
                        } else {
                            b
                        }
                    }
                    Op::Max if a == b => {
                        if a.is_sign_negative() {
                            b
                        } else {
                            a
                        }
                    }
                    Op::Min => {
                        if a < b {
                            a
                        } else {
                            b
                        }
                    }
                    _ => {
                        if a > b {
                            a
                        } else {
                            b
                        }
                    }
                })
                .unwrap();
            if let Some(divisor) = divisor {
                result /= divisor as $wide;
            }
            let bits = if result.is_nan() { $nan } else { $narrow(result).to_bits() };
            bits.to_ne_bytes().to_vec()
        }};
    }
    match datatype {
        Datatype::I8 => integer!(i8),
        Datatype::U8 => integer!(u8),
        Datatype::I16 => integer!(i16),
        Datatype::U16 => integer!(u16),
        Datatype::I32 => integer!(i32),
        Datatype::U32 => integer!(u32),
        Datatype::I64 => integer!(i64),
        Datatype::U64 => integer!(u64),
        Datatype::F16 => float!(f16 in f32, f16::to_f32, f16::from_f32, 0x7e00_u16),
        Datatype::Bf16 => float!(bf16 in f32, bf16::to_f32, bf16::from_f32, 0x7fc0_u16),
        Datatype::F32 => float!(f32 in f32, f32::from, f32::from, 0x7fc0_0000_u32),
        Datatype::F64 => float!(f64 in f64, f64::from, f64::from, 0x7ff8_0000_0000_0000_u64),
    }
}

fn integer(op: Op, a: i128, b: i128) -> i128 {
    match op {
        Op::Sum | Op::Avg => a + b,
        Op::Prod => a.wrapping_mul(b),
        Op::Min => a.min(b),
        Op::Max => a.max(b),
        Op::Band => a & b,
        Op::Bor => a | b,
        Op::Bxor => a ^ b,
    }
}
