//! Division of many integers by the same one, without a division instruction, which no vector unit has.
//!
//! Granlund and Montgomery, "Division by invariant integers using multiplication" (PLDI 1994), figure 4.1: one product,
//! of which the upper half counts, and two shifts; exact for every number and every divisor.

/// A divisor of numbers of type `T`, prepared.
#[derive(Debug, Clone, Copy)]
pub(super) struct Quotient<T> {
    multiplier: T,
    shift_first: u32,
    shift_last: u32,
}

/// An unsigned integer that can be divided so.
pub(super) trait Unsigned: Copy + Sized {
    /// Bits of the type.
    const BITS: u32;

    /// The lower bits of `number`.
    fn low(number: u128) -> Self;
    /// The quotient, rounded down.
    fn divide(self, by: Quotient<Self>) -> Self;
}

impl<T: Unsigned> Quotient<T> {
    /// Prepares `divisor`, which is not 0.
    pub(super) fn by(divisor: u64) -> Self {
        let divisor = u128::from(divisor);
        if divisor >> T::BITS != 0 {
            // Larger than any number: shifts all bits away.
            return Self { multiplier: T::low(0), shift_first: 1, shift_last: T::BITS - 1 };
        }
        let bits = divisor.next_power_of_two().trailing_zeros();
        let multiplier = (((1 << bits) - divisor) << T::BITS) / divisor + 1;
        Self {
            multiplier: T::low(multiplier),
            shift_first: bits.min(1),
            shift_last: bits.saturating_sub(1),
        }
    }
}

macro_rules! unsigned {
    ($($name:ident in $wide:ident;)*) => {$(
        impl Unsigned for $name {
            const BITS: u32 = $name::BITS;

            #[allow(clippy::cast_possible_truncation, reason = "the lower bits are wanted")]
            fn low(number: u128) -> Self {
                number as Self
            }

            #[inline(always)]
            #[allow(clippy::cast_possible_truncation, reason = "the upper half of a product fits")]
            fn divide(self, by: Quotient<Self>) -> Self {
                let product = $wide::from(self) * $wide::from(by.multiplier);
                let upper = (product >> $name::BITS) as Self;
                (upper.wrapping_add(self.wrapping_sub(upper) >> by.shift_first)) >> by.shift_last
            }
        }
    )*};
}

unsigned! {
    u8 in u16;
    u16 in u32;
    u32 in u64;
    u64 in u128;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quotients_of_bytes_are_exact() {
        for divisor in 1..=300_u64 {
            let by = Quotient::<u8>::by(divisor);
            assert!((0..=u8::MAX).all(|n| u64::from(n.divide(by)) == u64::from(n) / divisor));
        }
    }

    #[test]
    fn quotients_of_16_bits_are_exact() {
        for divisor in (1..300).chain(65_500..65_600_u64) {
            let by = Quotient::<u16>::by(divisor);
            assert!((0..=u16::MAX).all(|n| u64::from(n.divide(by)) == u64::from(n) / divisor));
        }
    }

    #[test]
    fn quotients_near_multiples_are_exact() {
        let divisors = (1..200).chain((0..64).flat_map(|bit| {
            let power = 1_u64 << bit;
            [power, power + 1, power.wrapping_sub(1).max(1), u64::MAX - power]
        }));
        for divisor in divisors {
            let (by32, by64) = (Quotient::<u32>::by(divisor), Quotient::<u64>::by(divisor));
            for factor in [0, 1, 2, 3, 1000, u64::MAX / divisor, u64::MAX / divisor / 2] {
                let multiple = divisor.wrapping_mul(factor);
                for n in [multiple.wrapping_sub(1), multiple, multiple.wrapping_add(1), u64::MAX] {
                    assert_eq!(n.divide(by64), n / divisor, "{n} / {divisor}");
                    let n = n as u32;
                    assert_eq!(u64::from(n.divide(by32)), u64::from(n) / divisor);
                }
            }
        }
    }
}
