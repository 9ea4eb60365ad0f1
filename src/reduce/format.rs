//! How elements lie in memory and become accumulators.
//!
//! The kernels hand a format some bytes, at any address, and as many accumulators as these hold elements.
//! The loops are `inline(always)`, so that they are compiled anew, and vectorised, in each function that enables an
//! instruction set; a closure around one would be compiled without.

use std::fmt;
use std::marker::PhantomData;

use super::fp8::{e4m3_to_f32, e5m2_to_f32, f32_to_e4m3, f32_to_e5m2};
use super::half_floats::{bf16_to_f32, f16_to_f32, f32_to_bf16, f32_to_f16};
use super::number::Number;

/// A format of elements.
pub(super) trait Format: Copy {
    /// The type that accumulates them.
    type Wide: Number;

    /// Bytes of one element.
    const BYTES: usize;

    /// Makes accumulators of the elements.
    fn load(self, bytes: &[u8], wide: &mut [Self::Wide]);

    /// Combines each accumulator with its element, which is the right operand.
    fn fold(
        self,
        bytes: &[u8],
        wide: &mut [Self::Wide],
        combine: impl Fn(Self::Wide, Self::Wide) -> Self::Wide,
    );

    /// Makes accumulators of two elements each, combined.
    #[inline(always)]
    fn load_pair(
        self,
        left: &[u8],
        right: &[u8],
        wide: &mut [Self::Wide],
        combine: impl Fn(Self::Wide, Self::Wide) -> Self::Wide,
    ) {
        self.load(left, wide);
        self.fold(right, wide, combine);
    }

    /// Makes accumulators of the elements, multiplied.
    #[inline(always)]
    fn load_product(self, bytes: &[u8], wide: &mut [Self::Wide], factor: Self::Wide) {
        self.load(bytes, wide);
        for number in wide {
            *number = number.product(factor);
        }
    }

    /// Divides the accumulators.
    #[inline(always)]
    fn divide(self, wide: &mut [Self::Wide], divisor: <Self::Wide as Number>::Divisor) {
        for number in wide {
            *number = number.divide(divisor);
        }
    }

    /// Makes elements of the accumulators, rounded; NaN becomes canonical.
    fn store(self, wide: &[Self::Wide], bytes: &mut [u8]);
}

/// Elements that accumulate in their own type.
#[derive(Clone, Copy)]
pub(super) struct Plain<T>(PhantomData<T>);

impl<T> Plain<T> {
    /// The only value.
    pub(super) const NEW: Self = Self(PhantomData);
}

impl<T> fmt::Debug for Plain<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(std::any::type_name::<Self>())
    }
}

/// f16, converted by integer arithmetic.
#[derive(Debug, Clone, Copy)]
pub(super) struct SoftF16;

/// bf16.
#[derive(Debug, Clone, Copy)]
pub(super) struct Bf16;

/// The fp8 with 4 bits of exponent.
#[derive(Debug, Clone, Copy)]
pub(super) struct F8e4m3;

/// The fp8 with 5 bits of exponent.
#[derive(Debug, Clone, Copy)]
pub(super) struct F8e5m2;

/// Truth values, which accumulate as 0 or 1.
#[derive(Debug, Clone, Copy)]
pub(super) struct Truth;

#[inline(always)]
fn truth(byte: u8) -> u8 {
    u8::from(byte != 0)
}

macro_rules! format {
    ($name:ty: $stored:ty as $wide:ty, $widen:expr, $narrow:expr) => {
        impl Format for $name {
            type Wide = $wide;

            const BYTES: usize = size_of::<$stored>();

            #[inline(always)]
            fn load(self, bytes: &[u8], wide: &mut [$wide]) {
                for (number, element) in wide.iter_mut().zip(bytes.as_chunks().0) {
                    *number = $widen(<$stored>::from_ne_bytes(*element));
                }
            }

            #[inline(always)]
            fn fold(
                self,
                bytes: &[u8],
                wide: &mut [$wide],
                combine: impl Fn($wide, $wide) -> $wide,
            ) {
                for (number, element) in wide.iter_mut().zip(bytes.as_chunks().0) {
                    *number = combine(*number, $widen(<$stored>::from_ne_bytes(*element)));
                }
            }

            #[inline(always)]
            fn load_pair(
                self,
                left: &[u8],
                right: &[u8],
                wide: &mut [$wide],
                combine: impl Fn($wide, $wide) -> $wide,
            ) {
                let pairs = left.as_chunks().0.iter().zip(right.as_chunks().0);
                for (number, (left, right)) in wide.iter_mut().zip(pairs) {
                    let left = $widen(<$stored>::from_ne_bytes(*left));
                    *number = combine(left, $widen(<$stored>::from_ne_bytes(*right)));
                }
            }

            // In one loop: from memory, a load of its own and then the product took half as long again.
            #[inline(always)]
            fn load_product(self, bytes: &[u8], wide: &mut [$wide], factor: $wide) {
                for (number, element) in wide.iter_mut().zip(bytes.as_chunks().0) {
                    *number = $widen(<$stored>::from_ne_bytes(*element)).product(factor);
                }
            }

            #[inline(always)]
            fn store(self, wide: &[$wide], bytes: &mut [u8]) {
                for (number, element) in wide.iter().zip(bytes.as_chunks_mut().0) {
                    *element = <$stored>::to_ne_bytes($narrow(*number));
                }
            }
        }
    };
}

macro_rules! plain {
    ($($name:ident)*) => {
        $(format!(Plain<$name>: $name as $name, std::convert::identity, Number::canonical);)*
    };
}
plain!(i8 u8 i16 u16 i32 u32 i64 u64 f32 f64);
format!(SoftF16: u16 as f32, f16_to_f32, f32_to_f16);
format!(Bf16: u16 as f32, bf16_to_f32, f32_to_bf16);
format!(F8e4m3: u8 as f32, e4m3_to_f32, f32_to_e4m3);
format!(F8e5m2: u8 as f32, e5m2_to_f32, f32_to_e5m2);
format!(Truth: u8 as u8, truth, std::convert::identity);
