//! The arithmetic of accumulators: how two become one, in each type that accumulates.
//!
//! All of it is free of branches, so that loops over it vectorise. NaN survives every operation of a float, with
//! whatever payload; only [`Number::canonical`], applied to results, gives it its one form.

use super::quotient::{Quotient, Unsigned};

/// Bytes of the accumulators that are worked on at a time. `cargo bench --bench reduce` chose them: blocks of 4 KiB
/// (i64) reached 70 % of the bandwidth, of 2 KiB (i32) 105 %, of 512 bytes (i8) 86 %.
pub(super) const BLOCK_BYTES: usize = 2048;

/// A type that accumulates.
pub(super) trait Number: Copy {
    /// What numbers are divided by, prepared.
    type Divisor: Copy;

    /// An array of [`BLOCK_BYTES`].
    type Block: AsMut<[Self]>;

    /// A block of any values, to begin with.
    const BLOCK: Self::Block;

    /// The sum; integers wrap.
    fn sum(self, other: Self) -> Self;
    /// The product; integers wrap.
    fn product(self, other: Self) -> Self;
    /// The smaller one; -0 is less than +0; NaN if either is.
    fn least(self, other: Self) -> Self;
    /// The larger one; -0 is less than +0; NaN if either is.
    fn greatest(self, other: Self) -> Self;
    /// Prepares the division by `divisor`, which is not 0.
    fn divisor(divisor: u64) -> Self::Divisor;
    /// The quotient; integers round towards zero.
    fn divide(self, divisor: Self::Divisor) -> Self;
    /// The number nearest to a factor; an integer's is whole, and wraps.
    fn factor(factor: f64) -> Self;
    /// The same number; if it is NaN, the quiet one without sign and payload.
    fn canonical(self) -> Self;
}

/// A type with bitwise operations.
pub(super) trait Bits: Number {
    /// Bitwise and.
    fn and(self, other: Self) -> Self;
    /// Bitwise or.
    fn or(self, other: Self) -> Self;
    /// Bitwise exclusive or.
    fn xor(self, other: Self) -> Self;
}

macro_rules! integers {
    ($($name:ident as $unsigned:ident in $widest:ident: $divide:ident;)*) => {$(
        impl Number for $name {
            type Divisor = Quotient<$unsigned>;

            type Block = [Self; BLOCK_BYTES / size_of::<Self>()];

            const BLOCK: Self::Block = [0; BLOCK_BYTES / size_of::<Self>()];

            #[inline(always)]
            fn sum(self, other: Self) -> Self {
                self.wrapping_add(other)
            }
            #[inline(always)]
            fn product(self, other: Self) -> Self {
                self.wrapping_mul(other)
            }
            #[inline(always)]
            fn least(self, other: Self) -> Self {
                self.min(other)
            }
            #[inline(always)]
            fn greatest(self, other: Self) -> Self {
                self.max(other)
            }
            #[inline(always)]
            fn divisor(divisor: u64) -> Self::Divisor {
                Quotient::by(divisor)
            }
            #[inline(always)]
            fn divide(self, divisor: Self::Divisor) -> Self {
                $divide!(self, divisor)
            }
            #[inline(always)]
            #[allow(
                clippy::cast_possible_truncation,
                clippy::cast_sign_loss,
                reason = "the factor was checked to be in the widest type; its lower bits give the lower bits of products"
            )]
            fn factor(factor: f64) -> Self {
                factor as $widest as Self
            }
            #[inline(always)]
            fn canonical(self) -> Self {
                self
            }
        }

        impl Bits for $name {
            #[inline(always)]
            fn and(self, other: Self) -> Self {
                self & other
            }
            #[inline(always)]
            fn or(self, other: Self) -> Self {
                self | other
            }
            #[inline(always)]
            fn xor(self, other: Self) -> Self {
                self ^ other
            }
        }
    )*};
}

macro_rules! divide_unsigned {
    ($number:expr, $divisor:expr) => {
        Unsigned::divide($number, $divisor)
    };
}

// Divides the magnitude, which rounds towards zero, then gives the sign back: negation is `(x ^ -1) - -1`.
macro_rules! divide_signed {
    ($number:expr, $divisor:expr) => {{
        let sign = $number >> (Self::BITS - 1);
        let magnitude = Unsigned::divide($number.unsigned_abs(), $divisor);
        (magnitude.cast_signed() ^ sign).wrapping_sub(sign)
    }};
}

integers! {
    i8 as u8 in i64: divide_signed;
    u8 as u8 in u64: divide_unsigned;
    i16 as u16 in i64: divide_signed;
    u16 as u16 in u64: divide_unsigned;
    i32 as u32 in i64: divide_signed;
    u32 as u32 in u64: divide_unsigned;
    i64 as u64 in i64: divide_signed;
    u64 as u64 in u64: divide_unsigned;
}

macro_rules! floats {
    ($($name:ident: NaN = $nan:literal;)*) => {$(
        impl Number for $name {
            type Divisor = Self;

            type Block = [Self; BLOCK_BYTES / size_of::<Self>()];

            const BLOCK: Self::Block = [0.0; BLOCK_BYTES / size_of::<Self>()];

            #[inline(always)]
            fn sum(self, other: Self) -> Self {
                self + other
            }
            #[inline(always)]
            fn product(self, other: Self) -> Self {
                self * other
            }
            // Neither less nor greater: equal, whose bits differ in the sign of zero only; or one is NaN, and then
            // so is the union of the bits.
            #[inline(always)]
            fn least(self, other: Self) -> Self {
                let union = Self::from_bits(self.to_bits() | other.to_bits());
                let rest = if other < self { other } else { union };
                if self < other { self } else { rest }
            }
            #[inline(always)]
            fn greatest(self, other: Self) -> Self {
                let common = Self::from_bits(self.to_bits() & other.to_bits());
                let rest = if self == other { common } else { Self::from_bits($nan) };
                let rest = if other > self { other } else { rest };
                if self > other { self } else { rest }
            }
            #[inline(always)]
            #[allow(clippy::cast_precision_loss, reason = "the divisor rounds as the operands did")]
            fn divisor(divisor: u64) -> Self {
                divisor as Self
            }
            #[inline(always)]
            fn divide(self, divisor: Self) -> Self {
                self / divisor
            }
            #[inline(always)]
            #[allow(clippy::cast_possible_truncation, reason = "the factor rounds as operands do")]
            fn factor(factor: f64) -> Self {
                factor as Self
            }
            #[inline(always)]
            fn canonical(self) -> Self {
                let bits = if self.is_nan() { $nan } else { self.to_bits() };
                Self::from_bits(bits)
            }
        }
    )*};
}

floats! {
    f32: NaN = 0x7fc0_0000;
    f64: NaN = 0x7ff8_0000_0000_0000;
}
