//! The instruction sets for which the kernels are compiled, and the choice between them.
//!
//! The portable one is always there; a faster one is used if the processor has it. The choice is made once.

use once_cell::sync::OnceCell;

use crate::datatype::{Datatype, Op};

#[cfg(target_arch = "x86_64")]
use super::avx2::Avx2;
use super::format::{Bf16, F8e4m3, F8e5m2, Format, Plain, SoftF16, Truth};
use super::half_order::HalfOrder;
use super::kernels::{self, Job};

/// Instructions that loops are compiled for. A value of such a type proves that the processor has them.
pub(super) trait InstructionSet: Copy {
    /// How this set converts f16.
    type F16: Format<Wide = f32>;
    /// A format whose loops are compiled for this set.
    type Compiled<F: Format>: Format<Wide = F::Wide>;

    /// The value that converts f16.
    fn f16(self) -> Self::F16;

    /// The same format, compiled for this set.
    fn compiled<F: Format>(self, format: F) -> Self::Compiled<F>;
}

/// What every processor of the architecture has.
#[derive(Debug, Clone, Copy)]
pub(super) struct Portable;

impl InstructionSet for Portable {
    type F16 = SoftF16;
    type Compiled<F: Format> = F;

    fn f16(self) -> SoftF16 {
        SoftF16
    }

    fn compiled<F: Format>(self, format: F) -> F {
        format
    }
}

/// One of the instruction sets.
#[derive(Debug, Clone, Copy)]
pub(super) enum Path {
    /// No more than the architecture guarantees.
    Portable(Portable),
    /// AVX2 and F16C.
    #[cfg(target_arch = "x86_64")]
    Avx2(Avx2),
}

impl Path {
    /// The path that every reduction takes in this process.
    pub(super) fn chosen() -> Self {
        static CHOSEN: OnceCell<Path> = OnceCell::new();
        *CHOSEN.get_or_init(Self::fastest)
    }

    #[cfg(target_arch = "x86_64")]
    fn fastest() -> Self {
        Avx2::detect().map_or(Self::Portable(Portable), Self::Avx2)
    }

    #[cfg(not(target_arch = "x86_64"))]
    fn fastest() -> Self {
        Self::Portable(Portable)
    }

    /// The name that `collect info` prints.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Portable(_) => "portable",
            #[cfg(target_arch = "x86_64")]
            Self::Avx2(_) => "avx2+f16c",
        }
    }

    /// Runs a job that was checked.
    pub(super) fn run(self, job: &Job<'_>) {
        match self {
            Self::Portable(set) => run_with(set, job),
            #[cfg(target_arch = "x86_64")]
            Self::Avx2(set) => run_with(set, job),
        }
    }
}

fn run_with<S: InstructionSet>(set: S, job: &Job<'_>) {
    let greatest = job.op == Op::Max;
    match (job.datatype, job.op) {
        (Datatype::I8, _) => kernels::integers(set.compiled(Plain::<i8>::NEW), job),
        (Datatype::U8, _) => kernels::integers(set.compiled(Plain::<u8>::NEW), job),
        (Datatype::I16, _) => kernels::integers(set.compiled(Plain::<i16>::NEW), job),
        (Datatype::U16, _) => kernels::integers(set.compiled(Plain::<u16>::NEW), job),
        (Datatype::I32, _) => kernels::integers(set.compiled(Plain::<i32>::NEW), job),
        (Datatype::U32, _) => kernels::integers(set.compiled(Plain::<u32>::NEW), job),
        (Datatype::I64, _) => kernels::integers(set.compiled(Plain::<i64>::NEW), job),
        (Datatype::U64, _) => kernels::integers(set.compiled(Plain::<u64>::NEW), job),
        (Datatype::F16, Op::Min | Op::Max) => {
            kernels::order(set.compiled(HalfOrder::f16(greatest)), job);
        }
        (Datatype::F16, _) => kernels::numbers(set.compiled(set.f16()), job),
        (Datatype::Bf16, Op::Min | Op::Max) => {
            kernels::order(set.compiled(HalfOrder::bf16(greatest)), job);
        }
        (Datatype::Bf16, _) => kernels::numbers(set.compiled(Bf16), job),
        (Datatype::F32, _) => kernels::floats(set.compiled(Plain::<f32>::NEW), job),
        (Datatype::F64, _) => kernels::floats(set.compiled(Plain::<f64>::NEW), job),
        (Datatype::F8e4m3, _) => kernels::floats(set.compiled(F8e4m3), job),
        (Datatype::F8e5m2, _) => kernels::floats(set.compiled(F8e5m2), job),
        (Datatype::Bool, _) => kernels::truths(set.compiled(Truth), job),
    }
}
