//! The rate of each reduction against the bandwidth of memory: `cargo bench --bench reduce [-- TYPE]`.
//!
//! Two buffers are combined into a third, all far larger than the caches; rates count the bytes of all three, for the
//! reductions and for the plain loop that measures the bandwidth. A rate below 60 % of it needs a reason. The last rate
//! is that of buffers in the second-level cache, which shows what the arithmetic costs. The row of `premul_sum` is that
//! of the multiplication before it, from one buffer to another, whose rates count the bytes of both.

use std::hint::black_box;
use std::ops::Range;
use std::time::Instant;

use collect::memory::Region;
use collect::reduce::{path_name, reduce, scale};
use collect::{Datatype, Op, Target};

/// Bytes of a buffer.
const BYTES: usize = 64 << 20;
/// Bytes that one measurement of memory touches in each buffer: few, so that it is seldom interrupted.
const BYTES_MEASURED: usize = 8 << 20;
/// Bytes of a buffer that stays in the cache.
const BYTES_CACHED: usize = 64 << 10;
/// Each rate is the best of so many.
const REPEATS: usize = 24;
/// Calls in one measurement in the cache.
const CALLS_CACHED: usize = 40;
/// What a reduction should reach, in percent of the bandwidth.
const WANTED: f64 = 60.0;

fn main() {
    // Without this argument it is `cargo test` that runs us, to see that we run.
    let quick = !std::env::args().any(|argument| argument == "--bench");
    let wanted = std::env::args().skip(1).find(|argument| !argument.starts_with('-'));
    let (bytes, repeats) = if quick { (1 << 16, 1) } else { (BYTES, REPEATS) };
    let mut buffers = [0, 1, 2].map(|seed| filled(bytes, seed));
    println!("path {}, three buffers of {bytes} bytes, rates in GB/s", path_name());
    println!("{:7}{:11}{:>8}{:>8}{:>6}{:>8}", "type", "op", "memory", "rate", "%", "cached");
    for datatype in Datatype::ALL {
        let ops = Op::ALL.into_iter().filter(|op| *op != Op::Custom);
        for op in ops.filter(|op| op.allows(datatype)) {
            if wanted.as_ref().is_none_or(|name| name == datatype.name()) {
                row(datatype, op, &mut buffers, repeats);
            }
        }
    }
}

/// Measures one reduction, and the memory in turns with it, since other processes use that too.
fn row(datatype: Datatype, op: Op, buffers: &mut [Vec<u64>; 3], repeats: usize) {
    let (mut memory, mut rate, mut cached) = (0.0_f64, 0.0_f64, 0.0_f64);
    let bytes = 8 * buffers[0].len();
    let measured = BYTES_MEASURED.min(bytes);
    for i in 0..repeats {
        // The two go through the buffers half a round apart, so that neither finds its bytes in a cache.
        let [mine, other] = [2 * i, 2 * i + bytes / measured + 1].map(|i| i * measured % bytes);
        memory = memory.max(bandwidth(buffers, mine / 8..(mine + measured) / 8));
        let regions = buffers.each_mut().map(|buffer| Target::of(buffer).region());
        let far = regions.map(|region| region.part(other, other + measured));
        rate = rate.max(reduction(datatype, op, &far, 1));
        let near = regions.map(|region| region.part(0, BYTES_CACHED.min(bytes)));
        cached = cached.max(reduction(datatype, op, &near, CALLS_CACHED));
    }
    let percent = 100.0 * rate / memory;
    let reason = if percent < WANTED { reason(datatype, op) } else { "" };
    let (datatype, op) = (datatype.name(), op.name());
    println!("{datatype:7}{op:11}{memory:8.1}{rate:8.1}{percent:6.0}{cached:8.0}  {reason}");
}

/// Words whose halves and quarters are ordinary numbers in every type of float.
fn filled(bytes: usize, seed: u64) -> Vec<u64> {
    let words = (0..bytes as u64 / 8).map(|i| (i + seed).wrapping_mul(0x9e37_79b9_7f4a_7c15));
    words.map(|word| word & 0x07ff_07ff_07ff_07ff | 0x3800_3800_3800_3800).collect()
}

/// GB/s of the plain sum of two arrays into a third.
fn bandwidth([left, right, target]: &mut [Vec<u64>; 3], range: Range<usize>) -> f64 {
    let target = &mut target[range.clone()];
    gigabytes_per_second(3 * size_of_val(target), || {
        let operands = left[range.clone()].iter().zip(&right[range]);
        for (sum, (left, right)) in target.iter_mut().zip(operands) {
            *sum = left.wrapping_add(*right);
        }
        black_box(target);
    })
}

/// GB/s of one reduction; the average divides, as its last step does.
fn reduction(datatype: Datatype, op: Op, [left, right, target]: &[Region; 3], calls: usize) -> f64 {
    let (sources, divisor) = ([*left, *right], (op == Op::Avg).then_some(3));
    if op == Op::PremulSum {
        return gigabytes_per_second(2 * target.bytes() * calls, || {
            for _ in 0..calls {
                scale(datatype, 3.0, black_box(left), black_box(target));
            }
        });
    }
    gigabytes_per_second(3 * target.bytes() * calls, || {
        for _ in 0..calls {
            reduce(datatype, op, black_box(target), black_box(&sources), divisor);
        }
    })
}

#[allow(clippy::cast_precision_loss, reason = "sizes are far below 2^53")]
fn gigabytes_per_second(bytes: usize, run: impl FnOnce()) -> f64 {
    let begin = Instant::now();
    run();
    bytes as f64 / begin.elapsed().as_secs_f64() / 1e9
}

/// Why a reduction may be slower than memory.
fn reason(datatype: Datatype, op: Op) -> &'static str {
    match (datatype, op) {
        (Datatype::I64 | Datatype::U64, Op::Avg) => {
            "64-bit quotients: AVX2 multiplies no 64-bit numbers, so they are divided one by one"
        }
        (Datatype::F16 | Datatype::Bf16, Op::Avg) => {
            "converted to f32, divided there, rounded back: twice the vectors, and divisions"
        }
        (Datatype::F16 | Datatype::Bf16, Op::PremulSum) => {
            "converted to f32 and rounded back: twice the vectors"
        }
        (Datatype::F8e4m3 | Datatype::F8e5m2, _) => {
            "converted to f32 by integer arithmetic and rounded back: four times the vectors"
        }
        _ => "none known",
    }
}
