//! The kernels compiled for AVX2 and F16C.
//!
//! The compiler vectorises the loops itself; only the conversions of f16, which it does not know, are written out.

use std::arch::x86_64::{
    _MM_FROUND_TO_NEAREST_INT, _mm_loadu_si128, _mm_storeu_si128, _mm256_cvtph_ps, _mm256_cvtps_ph,
    _mm256_loadu_ps, _mm256_storeu_ps,
};

use super::format::{Format, SoftF16};
use super::number::Number;
use super::path::InstructionSet;

/// Proves that this processor has AVX2 and F16C.
#[derive(Debug, Clone, Copy)]
pub(super) struct Avx2(());

impl Avx2 {
    /// The proof, if the processor has both.
    pub(super) fn detect() -> Option<Self> {
        let present = is_x86_feature_detected!("avx2") && is_x86_feature_detected!("f16c");
        present.then_some(Self(()))
    }
}

impl InstructionSet for Avx2 {
    type F16 = HardF16;
    type Compiled<F: Format> = Compiled<F>;

    fn f16(self) -> HardF16 {
        HardF16(self)
    }

    fn compiled<F: Format>(self, format: F) -> Compiled<F> {
        Compiled { format, _proof: self }
    }
}

/// A format whose loops are compiled for AVX2 and F16C.
#[derive(Debug, Clone, Copy)]
pub(super) struct Compiled<F> {
    format: F,
    _proof: Avx2,
}

impl<F: Format> Format for Compiled<F> {
    type Wide = F::Wide;

    const BYTES: usize = F::BYTES;

    fn load(self, bytes: &[u8], wide: &mut [F::Wide]) {
        #[target_feature(enable = "avx2,f16c")]
        fn compiled<F: Format>(format: F, bytes: &[u8], wide: &mut [F::Wide]) {
            format.load(bytes, wide);
        }
        // SAFETY: the proof in `self`: the processor has the features.
        unsafe { compiled(self.format, bytes, wide) }
    }

    fn fold(
        self,
        bytes: &[u8],
        wide: &mut [F::Wide],
        combine: impl Fn(F::Wide, F::Wide) -> F::Wide,
    ) {
        #[target_feature(enable = "avx2,f16c")]
        fn compiled<F: Format>(
            format: F,
            bytes: &[u8],
            wide: &mut [F::Wide],
            combine: impl Fn(F::Wide, F::Wide) -> F::Wide,
        ) {
            format.fold(bytes, wide, combine);
        }
        // SAFETY: the proof in `self`: the processor has the features.
        unsafe { compiled(self.format, bytes, wide, combine) }
    }

    fn load_pair(
        self,
        left: &[u8],
        right: &[u8],
        wide: &mut [F::Wide],
        combine: impl Fn(F::Wide, F::Wide) -> F::Wide,
    ) {
        #[target_feature(enable = "avx2,f16c")]
        fn compiled<F: Format>(
            format: F,
            left: &[u8],
            right: &[u8],
            wide: &mut [F::Wide],
            combine: impl Fn(F::Wide, F::Wide) -> F::Wide,
        ) {
            format.load_pair(left, right, wide, combine);
        }
        // SAFETY: the proof in `self`: the processor has the features.
        unsafe { compiled(self.format, left, right, wide, combine) }
    }

    fn divide(self, wide: &mut [F::Wide], divisor: <F::Wide as Number>::Divisor) {
        #[target_feature(enable = "avx2,f16c")]
        fn compiled<F: Format>(
            format: F,
            wide: &mut [F::Wide],
            divisor: <F::Wide as Number>::Divisor,
        ) {
            format.divide(wide, divisor);
        }
        // SAFETY: the proof in `self`: the processor has the features.
        unsafe { compiled(self.format, wide, divisor) }
    }

    fn load_product(self, bytes: &[u8], wide: &mut [F::Wide], factor: F::Wide) {
        #[target_feature(enable = "avx2,f16c")]
        fn compiled<F: Format>(format: F, bytes: &[u8], wide: &mut [F::Wide], factor: F::Wide) {
            format.load_product(bytes, wide, factor);
        }
        // SAFETY: the proof in `self`: the processor has the features.
        unsafe { compiled(self.format, bytes, wide, factor) }
    }

    fn store(self, wide: &[F::Wide], bytes: &mut [u8]) {
        #[target_feature(enable = "avx2,f16c")]
        fn compiled<F: Format>(format: F, wide: &[F::Wide], bytes: &mut [u8]) {
            format.store(wide, bytes);
        }
        // SAFETY: the proof in `self`: the processor has the features.
        unsafe { compiled(self.format, wide, bytes) }
    }
}

/// Elements of f16 that are converted before they are combined.
const CHUNK: usize = 64;

/// f16, converted by F16C, eight at a time.
#[derive(Debug, Clone, Copy)]
pub(super) struct HardF16(Avx2);

impl Format for HardF16 {
    type Wide = f32;

    const BYTES: usize = 2;

    #[inline(always)]
    fn load(self, bytes: &[u8], wide: &mut [f32]) {
        // SAFETY: the proof in `self`: the processor has F16C.
        unsafe { widen(bytes, wide) }
    }

    #[inline(always)]
    fn fold(self, bytes: &[u8], wide: &mut [f32], combine: impl Fn(f32, f32) -> f32) {
        let mut elements = [0.0; CHUNK];
        let chunks = bytes.chunks(CHUNK * Self::BYTES);
        for (numbers, bytes) in wide.chunks_mut(CHUNK).zip(chunks) {
            let elements = &mut elements[..numbers.len()];
            self.load(bytes, elements);
            for (number, element) in numbers.iter_mut().zip(elements) {
                *number = combine(*number, *element);
            }
        }
    }

    #[inline(always)]
    fn store(self, wide: &[f32], bytes: &mut [u8]) {
        // SAFETY: the proof in `self`: the processor has F16C.
        unsafe { narrow(wide, bytes) }
    }
}

#[target_feature(enable = "avx2,f16c")]
#[inline]
fn widen(bytes: &[u8], wide: &mut [f32]) {
    let (vectors, rest) = bytes.as_chunks::<16>();
    let (wide_vectors, wide_rest) = wide.as_chunks_mut::<8>();
    for (vector, numbers) in vectors.iter().zip(wide_vectors) {
        // SAFETY: `vector` has 16 bytes; the instruction needs no alignment.
        let halves = unsafe { _mm_loadu_si128(vector.as_ptr().cast()) };
        let converted = _mm256_cvtph_ps(halves);
        // SAFETY: `numbers` has room for eight; the instruction needs no alignment.
        unsafe { _mm256_storeu_ps(numbers.as_mut_ptr(), converted) };
    }
    SoftF16.load(rest, wide_rest);
}

#[target_feature(enable = "avx2,f16c")]
#[inline]
fn narrow(wide: &[f32], bytes: &mut [u8]) {
    let (vectors, rest) = bytes.as_chunks_mut::<16>();
    let (wide_vectors, wide_rest) = wide.as_chunks::<8>();
    for (vector, numbers) in vectors.iter_mut().zip(wide_vectors) {
        let canonical = numbers.map(Number::canonical);
        // SAFETY: `canonical` holds eight; the instruction needs no alignment.
        let numbers = unsafe { _mm256_loadu_ps(canonical.as_ptr()) };
        let converted = _mm256_cvtps_ph::<_MM_FROUND_TO_NEAREST_INT>(numbers);
        // SAFETY: `vector` has 16 bytes; the instruction needs no alignment.
        unsafe { _mm_storeu_si128(vector.as_mut_ptr().cast(), converted) };
    }
    SoftF16.store(wide_rest, rest);
}
