//! The conversions of fp8 against a reference that tries every number of the format.

use crate::reduce::fp8::{e4m3_to_f32, e5m2_to_f32, f32_to_e4m3, f32_to_e5m2};
use crate::reduce::reference::{E4M3, E5M2};

#[test]
fn every_fp8_becomes_its_f32_and_comes_back() {
    let equal = |a: f32, b: f32| a.to_bits() == b.to_bits() || a.is_nan() && b.is_nan();
    for byte in 0..=u8::MAX {
        let number = e4m3_to_f32(byte);
        assert!(equal(number, E4M3.value(byte)), "{byte:#x}: {number}");
        assert_eq!(f32_to_e4m3(number), if number.is_nan() { 0x7f } else { byte });
        let number = e5m2_to_f32(byte);
        assert!(equal(number, E5M2.value(byte)), "{byte:#x}: {number}");
        assert_eq!(f32_to_e5m2(number), if number.is_nan() { 0x7e } else { byte });
    }
}

#[test]
fn f32_rounds_to_the_nearest_fp8() {
    // Every exponent, sign and upper 7 bits of the mantissa, with lower bits at and around all ties.
    for upper in 0..=u16::MAX {
        for lower in [0, 1, 0x7fff, 0x8000, 0xffff] {
            let number = f32::from_bits(u32::from(upper) << 16 | lower);
            if number.is_nan() {
                assert_eq!((f32_to_e4m3(number), f32_to_e5m2(number)), (0x7f, 0x7e));
            } else {
                assert_eq!(f32_to_e4m3(number), E4M3.nearest(number), "{number:e}");
                assert_eq!(f32_to_e5m2(number), E5M2.nearest(number), "{number:e}");
            }
        }
    }
}

/// From the text of the standard and of PyTorch, not from the reference.
#[test]
fn known_numbers_have_their_bytes() {
    for (number, byte) in [
        (1.0, 0x38),
        (-1.0, 0xb8),
        (448.0, 0x7e),
        (464.0, 0x7e),
        (464.1, 0x7f),
        (-464.1, 0x7f),
        (f32::INFINITY, 0x7f),
        (f32::NEG_INFINITY, 0x7f),
        (1.0 / 64.0, 0x08),
        (1.0 / 512.0, 0x01),
        (1.0 / 1024.0, 0x00),
        (-1.0 / 1024.0, 0x80),
        (1.5 / 1024.0, 0x01),
        (1.0625, 0x38),
        (1.1875, 0x3a),
    ] {
        assert_eq!(f32_to_e4m3(number), byte, "{number}");
    }
    for (number, byte) in [
        (1.0, 0x3c),
        (-1.0, 0xbc),
        (57344.0, 0x7b),
        (61439.0, 0x7b),
        (61440.0, 0x7c),
        (-61440.0, 0xfc),
        (f32::NEG_INFINITY, 0xfc),
        (2_f32.powi(-14), 0x04),
        (2_f32.powi(-16), 0x01),
        (2_f32.powi(-17), 0x00),
        (1.125, 0x3c),
        (1.375, 0x3e),
    ] {
        assert_eq!(f32_to_e5m2(number), byte, "{number}");
    }
}
