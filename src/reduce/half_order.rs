//! min and max of f16 and bf16, as integers.
//!
//! Nothing is rounded, so nothing needs to become an f32: the bits of a half float, with those below the sign inverted
//! if it is set, order as the numbers do, -0 before +0. NaN takes the key at the end that wins.

use super::format::Format;
use super::half_floats::{BF16_NAN, F16_NAN};

/// Half floats that accumulate as keys, for one operation.
#[derive(Debug, Clone, Copy)]
pub(super) struct HalfOrder {
    /// The key of NaN: the end of the range, where no number has its key.
    nan_key: i16,
    /// The bits of infinity; magnitudes above are NaN.
    infinity: i16,
    /// The bits of the canonical NaN.
    nan: u16,
}

impl HalfOrder {
    /// f16, for the larger one or else for the smaller.
    pub(super) fn f16(greatest: bool) -> Self {
        Self { nan_key: nan_key(greatest), infinity: 0x7c00, nan: F16_NAN }
    }

    /// bf16, for the larger one or else for the smaller.
    pub(super) fn bf16(greatest: bool) -> Self {
        Self { nan_key: nan_key(greatest), infinity: 0x7f80, nan: BF16_NAN }
    }

    #[inline(always)]
    fn key(self, element: [u8; 2]) -> i16 {
        let bits = i16::from_ne_bytes(element);
        if bits & 0x7fff > self.infinity { self.nan_key } else { flipped(bits) }
    }

    #[inline(always)]
    fn element(self, key: i16) -> [u8; 2] {
        let bits = if key == self.nan_key { self.nan } else { flipped(key).cast_unsigned() };
        bits.to_ne_bytes()
    }
}

fn nan_key(greatest: bool) -> i16 {
    if greatest { i16::MAX } else { i16::MIN }
}

/// From bits to key, and back.
#[inline(always)]
fn flipped(bits: i16) -> i16 {
    bits ^ ((bits >> 15) & 0x7fff)
}

impl Format for HalfOrder {
    type Wide = i16;

    const BYTES: usize = 2;

    #[inline(always)]
    fn load(self, bytes: &[u8], wide: &mut [i16]) {
        for (number, element) in wide.iter_mut().zip(bytes.as_chunks().0) {
            *number = self.key(*element);
        }
    }

    #[inline(always)]
    fn fold(self, bytes: &[u8], wide: &mut [i16], combine: impl Fn(i16, i16) -> i16) {
        for (number, element) in wide.iter_mut().zip(bytes.as_chunks().0) {
            *number = combine(*number, self.key(*element));
        }
    }

    #[inline(always)]
    fn store(self, wide: &[i16], bytes: &mut [u8]) {
        for (number, element) in wide.iter().zip(bytes.as_chunks_mut().0) {
            *element = self.element(*number);
        }
    }
}
