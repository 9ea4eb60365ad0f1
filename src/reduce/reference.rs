//! The reductions again, element by element and as plainly as possible, for tests to compare with.

use crate::datatype::{Datatype, Op};
use half::{bf16, f16};
use std::cmp::Ordering;

/// The bytes that a reduction of these operands should give.
pub(super) fn expected(
    datatype: Datatype,
    op: Op,
    operands: &[&[u8]],
    divisor: Option<u64>,
) -> Vec<u8> {
    match (operands, divisor) {
        ([only], None) => only.to_vec(),
        _ => elements(datatype, op, operands, divisor, None),
    }
}

/// The bytes that these elements should become when they are multiplied.
pub(super) fn multiplied(datatype: Datatype, factor: f64, bytes: &[u8]) -> Vec<u8> {
    elements(datatype, Op::PremulSum, &[bytes], None, Some(factor))
}

fn elements(
    datatype: Datatype,
    op: Op,
    operands: &[&[u8]],
    divisor: Option<u64>,
    factor: Option<f64>,
) -> Vec<u8> {
    (0..operands[0].len())
        .step_by(datatype.bytes())
        .flat_map(|at| {
            let elements: Vec<_> =
                operands.iter().map(|bytes| &bytes[at..at + datatype.bytes()]).collect();
            element(datatype, op, &elements, divisor, factor)
        })
        .collect()
}

fn element(
    datatype: Datatype,
    op: Op,
    operands: &[&[u8]],
    divisor: Option<u64>,
    factor: Option<f64>,
) -> Vec<u8> {
    macro_rules! integer {
        ($name:ident) => {{
            let numbers = operands.iter().map(|b| $name::from_ne_bytes((*b).try_into().unwrap()));
            let result = numbers.reduce(|a, b| integer(op, a.into(), b.into()) as $name).unwrap();
            let result = i128::from(result) / divisor.map_or(1, i128::from);
            let result = result.wrapping_mul(factor.map_or(1, |factor| factor as i128));
            (result as $name).to_ne_bytes().to_vec()
        }};
    }
    macro_rules! float {
        ($name:ident in $wide:ident, $widen:expr, $narrow:expr, $nan:expr) => {{
            let numbers =
                operands.iter().map(|b| $widen($name::from_ne_bytes((*b).try_into().unwrap())));
            let mut result: $wide = numbers
                .reduce(|a: $wide, b: $wide| match op {
                    Op::Sum | Op::Avg | Op::PremulSum => a + b,
                    Op::Prod => a * b,
                    _ if a.is_nan() || b.is_nan() => $wide::NAN,
                    Op::Min if a.total_cmp(&b).is_lt() => a,
                    Op::Max if a.total_cmp(&b).is_gt() => a,
                    _ => b,
                })
                .unwrap();
            if let Some(divisor) = divisor {
                result /= divisor as $wide;
            }
            if let Some(factor) = factor {
                result *= factor as $wide;
            }
            let bits = if result.is_nan() { $nan } else { $narrow(result) };
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
        Datatype::F16 => {
            float!(f16 in f32, f16::to_f32, |x| f16::from_f32(x).to_bits(), 0x7e00_u16)
        }
        Datatype::Bf16 => {
            float!(bf16 in f32, bf16::to_f32, |x| bf16::from_f32(x).to_bits(), 0x7fc0_u16)
        }
        Datatype::F32 => float!(f32 in f32, f32::from, f32::to_bits, 0x7fc0_0000_u32),
        Datatype::F64 => float!(f64 in f64, f64::from, f64::to_bits, 0x7ff8_0000_0000_0000_u64),
        Datatype::F8e4m3 => {
            float!(u8 in f32, |byte| E4M3.value(byte), |x| E4M3.nearest(x), E4M3.nan)
        }
        Datatype::F8e5m2 => {
            float!(u8 in f32, |byte| E5M2.value(byte), |x| E5M2.nearest(x), E5M2.nan)
        }
        Datatype::Bool => vec![truth(op, operands).into()],
    }
}

fn truth(op: Op, operands: &[&[u8]]) -> bool {
    let mut truths = operands.iter().map(|byte| byte[0] != 0);
    match op {
        Op::Sum | Op::Max | Op::Bor => truths.any(|truth| truth),
        Op::Prod | Op::Min | Op::Band => truths.all(|truth| truth),
        Op::Bxor => truths.filter(|truth| *truth).count() % 2 == 1,
        op => unreachable!("{op} of truth values"),
    }
}

/// A format of one byte.
pub(super) struct Fp8 {
    mantissa_bits: i32,
    bias: i32,
    /// The magnitude after that of the largest number, which stands for all beyond.
    beyond: u8,
    pub(super) nan: u8,
}

pub(super) const E4M3: Fp8 = Fp8 { mantissa_bits: 3, bias: 7, beyond: 0x7f, nan: 0x7f };
pub(super) const E5M2: Fp8 = Fp8 { mantissa_bits: 2, bias: 15, beyond: 0x7c, nan: 0x7e };

impl Fp8 {
    /// The value of bits without sign, as if neither infinity nor NaN were set apart.
    fn magnitude(&self, bits: u8) -> f64 {
        let one = 1 << self.mantissa_bits;
        let (exponent, mantissa) = (i32::from(bits) / one, i32::from(bits) % one);
        let mantissa = if exponent == 0 { mantissa } else { one + mantissa };
        let exponent = exponent.max(1) - self.bias - self.mantissa_bits;
        let power = f64::from_bits(((1023 + exponent) as u64) << 52);
        f64::from(mantissa) * power
    }

    pub(super) fn value(&self, byte: u8) -> f32 {
        let magnitude = byte & 0x7f;
        let value = match magnitude {
            _ if magnitude > self.beyond || magnitude == self.nan => f32::NAN,
            _ if magnitude == self.beyond => f32::INFINITY,
            _ => self.magnitude(magnitude) as f32,
        };
        if byte >= 0x80 { -value } else { value }
    }

    /// The nearest of all, by trying each; of two, the even one. Not of NaN.
    pub(super) fn nearest(&self, number: f32) -> u8 {
        let number_magnitude = f64::from(number.abs()).min(self.magnitude(self.beyond));
        let distance = |bits: u8| (self.magnitude(bits) - number_magnitude).abs();
        let closer = |a: u8, b: u8| match distance(a).total_cmp(&distance(b)) {
            Ordering::Less => a,
            Ordering::Greater => b,
            Ordering::Equal => a + a % 2,
        };
        let bits = (0..=self.beyond).reduce(closer).unwrap();
        if bits == self.nan || number.is_sign_positive() { bits } else { bits | 0x80 }
    }
}

fn integer(op: Op, a: i128, b: i128) -> i128 {
    match op {
        Op::Sum | Op::Avg | Op::PremulSum => a + b,
        Op::Prod => a.wrapping_mul(b),
        Op::Min => a.min(b),
        Op::Max => a.max(b),
        Op::Band => a & b,
        Op::Bor => a | b,
        Op::Bxor => a ^ b,
        Op::Custom => unreachable!("no kernel"),
    }
}
