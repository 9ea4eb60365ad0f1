//! The types of elements and the operations that reduce them.
//!
//! The numbers are those of the C ABI and of the wire: never changed, never reused.
#![forbid(unsafe_code)]

use std::fmt;

/// The type of one element.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Datatype {
    /// Signed, 8 bits.
    I8 = 1,
    /// Unsigned, 8 bits.
    U8 = 2,
    /// Signed, 16 bits.
    I16 = 3,
    /// Unsigned, 16 bits.
    U16 = 4,
    /// Signed, 32 bits.
    I32 = 5,
    /// Unsigned, 32 bits.
    U32 = 6,
    /// Signed, 64 bits.
    I64 = 7,
    /// Unsigned, 64 bits.
    U64 = 8,
    /// IEEE 754 binary16.
    F16 = 9,
    /// The upper half of an IEEE 754 binary32.
    Bf16 = 10,
    /// IEEE 754 binary32.
    F32 = 11,
    /// IEEE 754 binary64.
    F64 = 12,
    /// 8 bits, 4 of them the exponent, 3 the mantissa (OCP E4M3, in other places `e4m3fn`): no infinity, one NaN.
    F8e4m3 = 13,
    /// 8 bits, 5 of them the exponent, 2 the mantissa (OCP E5M2): as IEEE 754 would have it.
    F8e5m2 = 14,
    /// One byte: 0 is false, anything else is true; a result is 0 or 1.
    Bool = 15,
}

impl Datatype {
    /// Every type, in the order of their numbers.
    pub const ALL: [Self; 15] = [
        Self::I8,
        Self::U8,
        Self::I16,
        Self::U16,
        Self::I32,
        Self::U32,
        Self::I64,
        Self::U64,
        Self::F16,
        Self::Bf16,
        Self::F32,
        Self::F64,
        Self::F8e4m3,
        Self::F8e5m2,
        Self::Bool,
    ];

    /// The type with this number.
    #[must_use]
    pub fn from_number(number: i32) -> Option<Self> {
        Self::ALL.into_iter().find(|datatype| *datatype as i32 == number)
    }

    /// Bytes of one element.
    #[must_use]
    pub fn bytes(self) -> usize {
        match self {
            Self::I8 | Self::U8 | Self::F8e4m3 | Self::F8e5m2 | Self::Bool => 1,
            Self::I16 | Self::U16 | Self::F16 | Self::Bf16 => 2,
            Self::I32 | Self::U32 | Self::F32 => 4,
            Self::I64 | Self::U64 | Self::F64 => 8,
        }
    }

    /// Whether elements are floating-point numbers.
    #[must_use]
    pub fn is_float(self) -> bool {
        matches!(self, Self::F16 | Self::Bf16 | Self::F32 | Self::F64 | Self::F8e4m3 | Self::F8e5m2)
    }

    /// The name in messages and on the command line.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::I8 => "i8",
            Self::U8 => "u8",
            Self::I16 => "i16",
            Self::U16 => "u16",
            Self::I32 => "i32",
            Self::U32 => "u32",
            Self::I64 => "i64",
            Self::U64 => "u64",
            Self::F16 => "f16",
            Self::Bf16 => "bf16",
            Self::F32 => "f32",
            Self::F64 => "f64",
            Self::F8e4m3 => "f8e4m3",
            Self::F8e5m2 => "f8e5m2",
            Self::Bool => "bool",
        }
    }
}

impl fmt::Display for Datatype {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// How two elements become one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Op {
    /// Their sum; integers wrap around.
    Sum = 1,
    /// Their product; integers wrap around.
    Prod = 2,
    /// The smaller one; NaN if either is.
    Min = 3,
    /// The larger one; NaN if either is.
    Max = 4,
    /// The sum divided by the number of contributions; for integers, rounded towards zero after the sum has wrapped.
    Avg = 5,
    /// Bitwise and; not of floats.
    Band = 6,
    /// Bitwise or; not of floats.
    Bor = 7,
    /// Bitwise exclusive or; not of floats.
    Bxor = 8,
    /// The sum of the elements, each multiplied before by a factor that its rank gives.
    PremulSum = 9,
    /// What the caller's own function makes of them.
    Custom = 10,
}

impl Op {
    /// Every operation, in the order of their numbers.
    pub const ALL: [Self; 10] = [
        Self::Sum,
        Self::Prod,
        Self::Min,
        Self::Max,
        Self::Avg,
        Self::Band,
        Self::Bor,
        Self::Bxor,
        Self::PremulSum,
        Self::Custom,
    ];

    /// The operation with this number.
    #[must_use]
    pub fn from_number(number: i32) -> Option<Self> {
        Self::ALL.into_iter().find(|op| *op as i32 == number)
    }

    /// Whether elements of this type can be reduced by it. Of truth values, the sum and the larger one are "or", the
    /// product and the smaller one "and"; nothing can be divided or multiplied by a factor.
    #[must_use]
    pub fn allows(self, datatype: Datatype) -> bool {
        match self {
            Self::Sum | Self::Prod | Self::Min | Self::Max | Self::Custom => true,
            Self::Avg | Self::PremulSum => datatype != Datatype::Bool,
            Self::Band | Self::Bor | Self::Bxor => !datatype.is_float(),
        }
    }

    /// The name in messages and on the command line.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Sum => "sum",
            Self::Prod => "prod",
            Self::Min => "min",
            Self::Max => "max",
            Self::Avg => "avg",
            Self::Band => "band",
            Self::Bor => "bor",
            Self::Bxor => "bxor",
            Self::PremulSum => "premul_sum",
            Self::Custom => "custom",
        }
    }
}

impl fmt::Display for Op {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_name_what_they_came_from() {
        assert!(Datatype::ALL.iter().all(|t| Datatype::from_number(*t as i32) == Some(*t)));
        assert!(Op::ALL.iter().all(|op| Op::from_number(*op as i32) == Some(*op)));
        assert_eq!((Datatype::from_number(0), Op::from_number(11)), (None, None));
    }
    #[test]
    fn types_allow_what_has_a_meaning() {
        let refused = |datatype: Datatype| -> Vec<_> {
            Op::ALL.into_iter().filter(|op| !op.allows(datatype)).map(Op::name).collect()
        };
        assert_eq!(refused(Datatype::I64), [""; 0]);
        assert_eq!(refused(Datatype::F8e4m3), ["band", "bor", "bxor"]);
        assert_eq!(refused(Datatype::F64), ["band", "bor", "bxor"]);
        assert_eq!(refused(Datatype::Bool), ["avg", "premul_sum"]);
    }
}
