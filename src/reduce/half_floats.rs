//! f16 and bf16 as bits, to and from f32, without branches: loops over these functions vectorise.
//!
//! To f32 is exact. From f32 rounds to the nearest, ties to even; NaN becomes the canonical one of the type. The method
//! for f16 is that of Fabian Giesen's `half_to_float_fast4` and `float_to_half_fast3_rtne`: no step meets a subnormal
//! f32, so the processor's mode for these does not matter.

/// The canonical NaN of f16.
pub(super) const F16_NAN: u16 = 0x7e00;
/// The canonical NaN of bf16.
pub(super) const BF16_NAN: u16 = 0x7fc0;
/// How much the exponent of f32 exceeds that of f16, in place.
const REBIAS: u32 = (127 - 15) << 23;

/// The f32 of an f16.
#[inline(always)]
pub(super) fn f16_to_f32(half: u16) -> f32 {
    let shifted = (u32::from(half) & 0x7fff) << 13;
    let normal = shifted + REBIAS;
    // The exponent of infinity and NaN moves to the end of the range.
    let special = normal + REBIAS;
    // Without a hidden bit: add one, and subtract it again in floating point.
    let one = REBIAS + (1 << 23);
    let subnormal = (f32::from_bits(shifted + one) - f32::from_bits(one)).to_bits();
    let magnitude = if shifted >= 0x7c00 << 13 { special } else { normal };
    let magnitude = if shifted < 0x0400 << 13 { subnormal } else { magnitude };
    f32::from_bits(magnitude | (u32::from(half) & 0x8000) << 16)
}

/// The nearest f16.
#[inline(always)]
#[allow(clippy::cast_possible_truncation, reason = "the bits of an f16 are in the lower half")]
pub(super) fn f32_to_f16(number: f32) -> u16 {
    let bits = number.to_bits();
    let magnitude = bits & 0x7fff_ffff;
    let odd = (magnitude >> 13) & 1;
    let normal = magnitude.wrapping_sub(REBIAS).wrapping_add(0xfff + odd) >> 13;
    // Below 2^-14 the last place of f16 is 2^-24, that of 0.5 in f32: the sum rounds to it.
    let subnormal = (f32::from_bits(magnitude) + 0.5).to_bits().wrapping_sub(0.5_f32.to_bits());
    let result = if magnitude < 0x3880_0000 { subnormal } else { normal };
    let result = if magnitude >= 0x4780_0000 { 0x7c00 } else { result };
    let result = result | (bits >> 16) & 0x8000;
    let result = if number.is_nan() { u32::from(F16_NAN) } else { result };
    result as u16
}

/// The f32 of a bf16.
#[inline(always)]
pub(super) fn bf16_to_f32(half: u16) -> f32 {
    f32::from_bits(u32::from(half) << 16)
}

/// The nearest bf16.
#[inline(always)]
#[allow(clippy::cast_possible_truncation, reason = "the bits of a bf16 are in the lower half")]
pub(super) fn f32_to_bf16(number: f32) -> u16 {
    let bits = number.to_bits();
    let odd = (bits >> 16) & 1;
    let rounded = bits.wrapping_add(0x7fff + odd) >> 16;
    let result = if number.is_nan() { u32::from(BF16_NAN) } else { rounded };
    result as u16
}
