//! The two fp8 formats as bits, to and from f32, without branches: loops over these functions vectorise.
//!
//! To f32 is exact. From f32 rounds to the nearest, ties to even. What is too large for E5M2 becomes infinity; E4M3 has
//! none, and NaN takes its place, so that an overflow stays visible (as in a conversion to PyTorch's `float8_e4m3fn`).
//! NaN becomes the canonical one of the type, without sign. The method is that of `half_floats`.

use super::half_floats::f16_to_f32;

/// The NaN of E4M3.
const E4M3_NAN: u32 = 0x7f;
/// The canonical NaN of E5M2.
const E5M2_NAN: u32 = 0x7e;
/// How much the exponent of f32 exceeds that of E4M3, in place.
const E4M3_REBIAS: u32 = (127 - 7) << 23;

/// The f32 of an E4M3.
#[inline(always)]
pub(super) fn e4m3_to_f32(byte: u8) -> f32 {
    let shifted = (u32::from(byte) & 0x7f) << 20;
    let normal = shifted + E4M3_REBIAS;
    // Without a hidden bit: add one, and subtract it again in floating point.
    let one = E4M3_REBIAS + (1 << 23);
    let subnormal = (f32::from_bits(shifted + one) - f32::from_bits(one)).to_bits();
    let magnitude = if shifted < 0x08 << 20 { subnormal } else { normal };
    let magnitude = if shifted == E4M3_NAN << 20 { f32::NAN.to_bits() } else { magnitude };
    f32::from_bits(magnitude | (u32::from(byte) & 0x80) << 24)
}

/// The nearest E4M3.
#[inline(always)]
#[allow(clippy::cast_possible_truncation, reason = "the bits of an fp8 are in the lowest byte")]
pub(super) fn f32_to_e4m3(number: f32) -> u8 {
    let bits = number.to_bits();
    let magnitude = rounded::<3, 7>(bits & 0x7fff_ffff);
    // From 480 on, infinity and NaN among them; what rounds up to 480 has these bits by itself.
    let is_nan = bits & 0x7fff_ffff >= 480.0_f32.to_bits() || magnitude == E4M3_NAN;
    let result = if is_nan { E4M3_NAN } else { magnitude | (bits >> 24) & 0x80 };
    result as u8
}

/// The f32 of an E5M2, which is the upper half of an f16.
#[inline(always)]
pub(super) fn e5m2_to_f32(byte: u8) -> f32 {
    f16_to_f32(u16::from(byte) << 8)
}

/// The nearest E5M2.
#[inline(always)]
#[allow(clippy::cast_possible_truncation, reason = "the bits of an fp8 are in the lowest byte")]
pub(super) fn f32_to_e5m2(number: f32) -> u8 {
    let bits = number.to_bits();
    let magnitude = rounded::<2, 15>(bits & 0x7fff_ffff);
    // From 2^16 on; what rounds up to it has these bits by itself.
    let is_large = bits & 0x7fff_ffff >= 65536.0_f32.to_bits();
    let magnitude = if is_large { 0x7c } else { magnitude };
    let result = magnitude | (bits >> 24) & 0x80;
    let result = if number.is_nan() { E5M2_NAN } else { result };
    result as u8
}

/// The bits of an f32 without sign, rounded to a format with so many bits of mantissa and this bias; not of one that
/// is too large for it.
#[inline(always)]
fn rounded<const MANTISSA: u32, const BIAS: u32>(magnitude: u32) -> u32 {
    let shift = 23 - MANTISSA;
    let rebias = (127 - BIAS) << 23;
    let odd = (magnitude >> shift) & 1;
    let normal = magnitude.wrapping_sub(rebias).wrapping_add((1 << (shift - 1)) - 1 + odd) >> shift;
    // Below the least normal number the last place is fixed, and equal to that of this one in f32: the sum rounds to it.
    let aligned = (127 + 1 + shift - BIAS) << 23;
    let subnormal = (f32::from_bits(magnitude) + f32::from_bits(aligned)).to_bits();
    if magnitude < rebias + (1 << 23) { subnormal.wrapping_sub(aligned) } else { normal }
}
