//! Elements and their reductions in plain Rust, independent of the library: the values are such that every order of
//! operands gives the same result.

use collect::{Datatype, Op};
use half::{bf16, f16};

/// What an element is, whatever its type.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Number {
    Whole(i128),
    Float(f64),
    Truth(bool),
}

/// A number that looks random.
pub(crate) fn mix(seed: u64) -> u64 {
    let mut word = seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
    word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    word ^ (word >> 31)
}

/// Bytes that look random.
pub(crate) fn noise(seed: u64, bytes: usize) -> Vec<u8> {
    let words = (0..bytes.div_ceil(8) as u64).map(|at| mix(seed ^ mix(at)));
    let mut noise: Vec<u8> = words.flat_map(u64::to_ne_bytes).collect();
    noise.truncate(bytes);
    noise
}

/// Which of how many operands it is.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Contributor {
    pub(crate) number: usize,
    pub(crate) of: usize,
}

/// One operand's elements.
pub(crate) fn operand(
    (datatype, op): (Datatype, Op),
    who: Contributor,
    seed: u64,
    count: usize,
) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(count * datatype.bytes());
    for at in 0..count {
        let random = mix(seed ^ mix((who.number as u64) << 32 | at as u64));
        let number = if datatype == Datatype::Bool {
            bytes.push([0, 0, 1, 1, 2, 0, 0x80, 0xff][random as usize % 8]);
            continue;
        } else if datatype.is_float() {
            Number::Float(float((datatype, op), who, at as u64 + seed % 1000, random))
        } else {
            Number::Whole(random.into())
        };
        encode(datatype, number, &mut bytes);
    }
    bytes
}

/// Sums stay whole and small enough for the type to be exact, products are powers of two.
fn float((datatype, op): (Datatype, Op), who: Contributor, place: u64, random: u64) -> f64 {
    let (number, of) = (who.number as u64, who.of as u64);
    // The largest number up to which every whole number is exact.
    let exact = match datatype {
        Datatype::F8e5m2 => 8,
        Datatype::F8e4m3 => 16,
        Datatype::Bf16 => 256,
        Datatype::F16 => 2048,
        _ => 1 << 20,
    };
    match op {
        Op::Prod if (number + place).is_multiple_of(of.div_ceil(4).max(4)) => 2.0,
        Op::Prod => 1.0 - (random % 2) as f64 * 2.0,
        Op::Min | Op::Max => {
            const SOME: [f64; 9] = [-2.0, -1.0, -0.0, 0.0, 1.0, 2.0, 3.0, 4.0, 0.5];
            if random % 64 == 1 { f64::NAN } else { SOME[random as usize % SOME.len()] }
        }
        _ => {
            // A factor may double it.
            let most = if op == Op::PremulSum { exact / 2 } else { exact };
            let each = most / of;
            if each > 0 {
                return (random % (2 * each + 1)) as f64 - each as f64;
            }
            let is_one = (number + place).is_multiple_of(of.div_ceil(most));
            if is_one { 1.0 - (random % 2) as f64 * 2.0 } else { 0.0 }
        }
    }
}

/// What a rank multiplies its elements by in a `premul_sum`.
pub(crate) fn factor(datatype: Datatype, rank: usize) -> f64 {
    let is_unsigned =
        matches!(datatype, Datatype::U8 | Datatype::U16 | Datatype::U32 | Datatype::U64);
    if is_unsigned { [2.0, 1.0, 3.0][rank % 3] } else { [2.0, 1.0, -1.0][rank % 3] }
}

/// The reduction of operands; `ranks` are those that brought them.
pub(crate) fn fold(
    (datatype, op): (Datatype, Op),
    operands: &[Vec<u8>],
    ranks: &[usize],
) -> Vec<u8> {
    let [first, others @ ..] = operands else { return Vec::new() };
    if others.is_empty() && !matches!(op, Op::Avg | Op::PremulSum) {
        return first.clone();
    }
    let bytes = datatype.bytes();
    let mut result = Vec::with_capacity(first.len());
    for at in (0..first.len()).step_by(bytes) {
        let numbers = operands.iter().zip(ranks).map(|(operand, rank)| {
            let number = decode(datatype, &operand[at..at + bytes]);
            if op == Op::PremulSum { scaled(number, factor(datatype, *rank)) } else { number }
        });
        let mut number = numbers.reduce(|left, right| combined(op, left, right)).expect("one");
        if op == Op::Avg {
            number = quotient(datatype, number, operands.len());
        }
        encode(datatype, number, &mut result);
    }
    result
}

fn scaled(number: Number, factor: f64) -> Number {
    match number {
        Number::Whole(x) => Number::Whole(x.wrapping_mul(factor as i128)),
        Number::Float(x) => Number::Float(x * factor),
        truth @ Number::Truth(_) => truth,
    }
}

fn combined(op: Op, left: Number, right: Number) -> Number {
    match (left, right) {
        (Number::Whole(a), Number::Whole(b)) => Number::Whole(match op {
            Op::Sum | Op::Avg | Op::PremulSum => a.wrapping_add(b),
            Op::Prod => a.wrapping_mul(b),
            Op::Min => a.min(b),
            Op::Max => a.max(b),
            Op::Band => a & b,
            Op::Bor => a | b,
            Op::Bxor => a ^ b,
            Op::Custom => unreachable!("has no numbers"),
        }),
        (Number::Float(a), Number::Float(b)) => Number::Float(match op {
            Op::Sum | Op::Avg | Op::PremulSum => a + b,
            Op::Prod => a * b,
            _ if a.is_nan() || b.is_nan() => f64::NAN,
            // Of two zeros, the negative one is less.
            Op::Min if a < b || a == b && a.is_sign_negative() => a,
            Op::Max if a > b || a == b && a.is_sign_positive() => a,
            _ => b,
        }),
        (Number::Truth(a), Number::Truth(b)) => Number::Truth(match op {
            Op::Sum | Op::Max | Op::Bor => a || b,
            Op::Prod | Op::Min | Op::Band => a && b,
            _ => a != b,
        }),
        _ => unreachable!("elements of one type"),
    }
}

/// Integers are divided after the sum has wrapped, small floats in f32.
fn quotient(datatype: Datatype, sum: Number, by: usize) -> Number {
    let mut wrapped = Vec::new();
    match sum {
        Number::Whole(_) => {
            encode(datatype, sum, &mut wrapped);
            let Number::Whole(sum) = decode(datatype, &wrapped) else { unreachable!() };
            Number::Whole(sum / by as i128)
        }
        Number::Float(sum) if datatype == Datatype::F64 => Number::Float(sum / by as f64),
        Number::Float(sum) => Number::Float(f64::from(sum as f32 / by as f32)),
        truth @ Number::Truth(_) => truth,
    }
}

/// Reads one element.
pub(crate) fn decode(datatype: Datatype, bytes: &[u8]) -> Number {
    fn of<const N: usize>(bytes: &[u8]) -> [u8; N] {
        bytes.try_into().expect("the bytes of an element")
    }
    match datatype {
        Datatype::I8 => Number::Whole(i8::from_ne_bytes(of(bytes)).into()),
        Datatype::U8 => Number::Whole(bytes[0].into()),
        Datatype::I16 => Number::Whole(i16::from_ne_bytes(of(bytes)).into()),
        Datatype::U16 => Number::Whole(u16::from_ne_bytes(of(bytes)).into()),
        Datatype::I32 => Number::Whole(i32::from_ne_bytes(of(bytes)).into()),
        Datatype::U32 => Number::Whole(u32::from_ne_bytes(of(bytes)).into()),
        Datatype::I64 => Number::Whole(i64::from_ne_bytes(of(bytes)).into()),
        Datatype::U64 => Number::Whole(u64::from_ne_bytes(of(bytes)).into()),
        Datatype::F16 => Number::Float(f16::from_ne_bytes(of(bytes)).to_f64()),
        Datatype::Bf16 => Number::Float(bf16::from_ne_bytes(of(bytes)).to_f64()),
        Datatype::F32 => Number::Float(f32::from_ne_bytes(of(bytes)).into()),
        Datatype::F64 => Number::Float(f64::from_ne_bytes(of(bytes))),
        Datatype::F8e4m3 => Number::Float(E4M3.decode(bytes[0])),
        Datatype::F8e5m2 => Number::Float(E5M2.decode(bytes[0])),
        Datatype::Bool => Number::Truth(bytes[0] != 0),
    }
}

/// Appends one element. NaN is the canonical one of its type.
pub(crate) fn encode(datatype: Datatype, number: Number, out: &mut Vec<u8>) {
    match (number, datatype) {
        (Number::Whole(number), _) => out.extend(&number.to_ne_bytes()[..datatype.bytes()]),
        (Number::Truth(truth), _) => out.push(truth.into()),
        (Number::Float(x), Datatype::F8e4m3) => out.push(E4M3.encode(x)),
        (Number::Float(x), Datatype::F8e5m2) => out.push(E5M2.encode(x)),
        (Number::Float(x), Datatype::F16) if x.is_nan() => out.extend(0x7e00u16.to_ne_bytes()),
        (Number::Float(x), Datatype::F16) => out.extend(f16::from_f32(x as f32).to_ne_bytes()),
        (Number::Float(x), Datatype::Bf16) if x.is_nan() => out.extend(0x7fc0u16.to_ne_bytes()),
        (Number::Float(x), Datatype::Bf16) => out.extend(bf16::from_f32(x as f32).to_ne_bytes()),
        (Number::Float(x), Datatype::F32) if x.is_nan() => {
            out.extend(0x7fc0_0000u32.to_ne_bytes());
        }
        (Number::Float(x), Datatype::F32) => out.extend((x as f32).to_ne_bytes()),
        (Number::Float(x), _) if x.is_nan() => out.extend((0x7ff8u64 << 48).to_ne_bytes()),
        (Number::Float(x), _) => out.extend(x.to_ne_bytes()),
    }
}

/// A float of one byte, by its definition.
struct Fp8 {
    /// Bits of the mantissa.
    mantissa: i32,
    bias: i32,
    /// What is too large; of E4M3 also the one NaN, of E5M2 the infinity.
    large: u8,
    nan: u8,
}

const E4M3: Fp8 = Fp8 { mantissa: 3, bias: 7, large: 0x7f, nan: 0x7f };
const E5M2: Fp8 = Fp8 { mantissa: 2, bias: 15, large: 0x7c, nan: 0x7e };

impl Fp8 {
    fn decode(&self, byte: u8) -> f64 {
        let magnitude = byte & 0x7f;
        let sign = if byte >= 0x80 { -1.0 } else { 1.0 };
        if magnitude >= self.large {
            let is_infinity = magnitude == self.large && self.large != self.nan;
            return if is_infinity { sign * f64::INFINITY } else { f64::NAN };
        }
        let steps = i32::from(magnitude) & ((1 << self.mantissa) - 1);
        let exponent = i32::from(magnitude) >> self.mantissa;
        let steps = if exponent == 0 { steps } else { steps + (1 << self.mantissa) };
        sign * f64::from(steps) * 2f64.powi(exponent.max(1) - self.bias - self.mantissa)
    }

    /// The nearest one; of two as near, the even one.
    fn encode(&self, x: f64) -> u8 {
        if x.is_nan() {
            return self.nan;
        }
        let sign = if x.is_sign_negative() { 0x80 } else { 0 };
        let binary = ((x.to_bits() >> 52) & 0x7ff) as i32 - 1023;
        let exponent = (binary + self.bias).max(1);
        let step = 2f64.powi(exponent - self.bias - self.mantissa);
        let steps = (x.abs() / step).round_ties_even();
        let magnitude = f64::from((exponent - 1) << self.mantissa) + steps;
        let is_large = magnitude >= f64::from(self.large);
        let magnitude = if is_large { self.large } else { magnitude as u8 };
        if is_large && self.large == self.nan { self.nan } else { magnitude | sign }
    }
}
