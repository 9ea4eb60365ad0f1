//! Values that a caller passes in: integers, so that an unknown one is an error and never undefined.

use std::ffi::c_void;

use super::guard::guard;
use super::pointer::Out;
use super::status::{COLLECT_OK, collect_status};
use crate::Algorithm;
use crate::config::{Connect, Wait};
use crate::datatype::{Datatype, Op};
use crate::error::Error;

/// The type of one element: one of the constants from `COLLECT_I8` to `COLLECT_BOOL`.
///
/// All ranks have the same byte order: elements travel as they are in memory.
#[repr(transparent)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct collect_datatype(pub i32);

/// A signed integer of 8 bits.
/// In C, `int8_t`.
pub const COLLECT_I8: collect_datatype = collect_datatype(1);
/// An unsigned integer of 8 bits; also for plain bytes.
/// In C, `uint8_t`.
pub const COLLECT_U8: collect_datatype = collect_datatype(2);
/// A signed integer of 16 bits.
/// In C, `int16_t`.
pub const COLLECT_I16: collect_datatype = collect_datatype(3);
/// An unsigned integer of 16 bits.
/// In C, `uint16_t`.
pub const COLLECT_U16: collect_datatype = collect_datatype(4);
/// A signed integer of 32 bits.
/// In C, `int32_t`.
pub const COLLECT_I32: collect_datatype = collect_datatype(5);
/// An unsigned integer of 32 bits.
/// In C, `uint32_t`.
pub const COLLECT_U32: collect_datatype = collect_datatype(6);
/// A signed integer of 64 bits.
/// In C, `int64_t`.
pub const COLLECT_I64: collect_datatype = collect_datatype(7);
/// An unsigned integer of 64 bits.
/// In C, `uint64_t`.
pub const COLLECT_U64: collect_datatype = collect_datatype(8);
/// An IEEE 754 float of 16 bits (binary16).
pub const COLLECT_F16: collect_datatype = collect_datatype(9);
/// The upper half of an IEEE 754 float of 32 bits (bfloat16).
pub const COLLECT_BF16: collect_datatype = collect_datatype(10);
/// An IEEE 754 float of 32 bits (binary32).
/// In C, `float`.
pub const COLLECT_F32: collect_datatype = collect_datatype(11);
/// An IEEE 754 float of 64 bits (binary64).
/// In C, `double`.
pub const COLLECT_F64: collect_datatype = collect_datatype(12);
/// A float of 8 bits, 4 of them the exponent (OCP E4M3, elsewhere `e4m3fn`).
/// It has no infinity: what is too large becomes NaN. Sums are made in f32 and rounded when they are stored.
pub const COLLECT_F8E4M3: collect_datatype = collect_datatype(13);
/// A float of 8 bits, 5 of them the exponent (OCP E5M2).
/// What is too large becomes infinity. Sums are made in f32 and rounded when they are stored.
pub const COLLECT_F8E5M2: collect_datatype = collect_datatype(14);
/// A truth value of one byte: 0 is false, anything else is true; what is reduced is 0 or 1.
/// In C, `bool`. Sum and max are "or", prod and min are "and".
pub const COLLECT_BOOL: collect_datatype = collect_datatype(15);

/// How elements are reduced: one of the constants from `COLLECT_SUM` to `COLLECT_CUSTOM`.
///
/// Every rank gets the same bits, also of floats, whose result depends on the order of the operands: that
/// order is fixed by the algorithm, the count and the size of the world.
#[repr(transparent)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct collect_op(pub i32);

/// The sum; integers wrap around.
pub const COLLECT_SUM: collect_op = collect_op(1);
/// The product; integers wrap around.
pub const COLLECT_PROD: collect_op = collect_op(2);
/// The smaller one; NaN if either is.
pub const COLLECT_MIN: collect_op = collect_op(3);
/// The larger one; NaN if either is.
pub const COLLECT_MAX: collect_op = collect_op(4);
/// The sum divided by the number of contributions; for integers, rounded towards zero after the sum has
/// wrapped around.
/// Divides by the size of the world; for several buffers per rank, by the number of all buffers. With
/// `COLLECT_BOOL`, `COLLECT_ERR_INVALID_ARGUMENT`.
pub const COLLECT_AVG: collect_op = collect_op(5);
/// Bitwise and; not of floats.
/// With floats, `COLLECT_ERR_INVALID_ARGUMENT`.
pub const COLLECT_BAND: collect_op = collect_op(6);
/// Bitwise or; not of floats.
/// With floats, `COLLECT_ERR_INVALID_ARGUMENT`.
pub const COLLECT_BOR: collect_op = collect_op(7);
/// Bitwise exclusive or; not of floats.
/// With floats, `COLLECT_ERR_INVALID_ARGUMENT`.
pub const COLLECT_BXOR: collect_op = collect_op(8);
/// The sum of the elements, each multiplied before by a factor that its rank gives.
/// With `COLLECT_BOOL`, `COLLECT_ERR_INVALID_ARGUMENT`.
pub const COLLECT_PREMUL_SUM: collect_op = collect_op(9);
/// What the caller's own function makes of them.
/// The elements may be of any size; the function must be associative.
pub const COLLECT_CUSTOM: collect_op = collect_op(10);

/// What a thread does while it waits: one of the `COLLECT_WAIT_` constants.
#[repr(transparent)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct collect_wait(pub i32);

/// The default: looks for some tens of microseconds, then sleeps.
/// Where ranks outnumber processors, it yields instead of looking without a pause.
pub const COLLECT_WAIT_ADAPTIVE: collect_wait = collect_wait(0);
/// Never sleeps: the lowest latency, one busy processor per waiting thread.
/// Only where each such thread has a processor of its own.
pub const COLLECT_WAIT_SPIN: collect_wait = collect_wait(1);
/// Sleeps at once: the fewest processor cycles.
/// For programs that compute on all processors meanwhile.
pub const COLLECT_WAIT_BLOCK: collect_wait = collect_wait(2);

/// When connections are made: one of the `COLLECT_CONNECT_` constants.
#[repr(transparent)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct collect_connect(pub i32);

/// The default: on first use.
/// The first operations are slower, and only connections that are used exist.
pub const COLLECT_CONNECT_LAZY: collect_connect = collect_connect(0);
/// All of them when the world is created.
/// The creation is slower, and ranks that cannot reach each other show at once.
pub const COLLECT_CONNECT_EAGER: collect_connect = collect_connect(1);

/// How a collective is done: one of the `COLLECT_ALGORITHM_` constants. One that does not serve the
/// collective is an error.
#[repr(transparent)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct collect_algorithm(pub i32);

/// The default: the library chooses by collective, size and bytes.
/// All ranks choose the same.
pub const COLLECT_ALGORITHM_AUTO: collect_algorithm = collect_algorithm(0);
/// Each rank talks to its two neighbours: the most bandwidth, for large buffers.
/// In p ranks, 2(p-1) steps of an allreduce; each rank sends 2(p-1)/p times its buffer. Half of each for
/// allgather and reduce_scatter.
pub const COLLECT_ALGORITHM_RING: collect_algorithm = collect_algorithm(1);
/// Each rank sends to each that needs it: the lowest latency, for small buffers and few ranks.
/// In p ranks, one step; of an allreduce each rank sends p-1 times its buffer. Of gathers and scatters each
/// part goes straight where it belongs. Operands are combined in rank order.
pub const COLLECT_ALGORITHM_DIRECT: collect_algorithm = collect_algorithm(2);
/// Recursive doubling: logarithmic latency, for small allreduces and scans of many ranks.
/// In p ranks, log2(p) steps, each with the whole buffer. Operands are combined in rank order.
pub const COLLECT_ALGORITHM_DOUBLING: collect_algorithm = collect_algorithm(3);
/// A binomial tree, for broadcast, reduce, gather and scatter.
/// In p ranks, log2(p) steps; no rank sends more than log2(p) times the buffer, of gathers and scatters no
/// more than the parts of the ranks below it.
pub const COLLECT_ALGORITHM_BINOMIAL: collect_algorithm = collect_algorithm(4);
/// Dissemination, for barriers.
/// In p ranks, log2(p) steps of one byte.
pub const COLLECT_ALGORITHM_DISSEMINATION: collect_algorithm = collect_algorithm(5);
/// Circulant, for allreduce, allgather and reduce_scatter.
/// In p ranks, of any number, log2(p) steps for each half; a rank sends as much as in a ring.
pub const COLLECT_ALGORITHM_CIRCULANT: collect_algorithm = collect_algorithm(6);
/// Halving, then doubling (Rabenseifner), for large allreduces of few ranks.
/// In p ranks, 2 log2(p) steps; a rank sends as much as in a ring, where p is a power of two.
pub const COLLECT_ALGORITHM_RABENSEIFNER: collect_algorithm = collect_algorithm(7);
/// As Rabenseifner's, with the nearest partner first.
/// Operands are combined in rank order.
pub const COLLECT_ALGORITHM_HALVING: collect_algorithm = collect_algorithm(8);
/// A k-nomial tree: flatter than the binomial one, for small buffers. The option `degree` is k.
/// For broadcast, reduce and allreduce.
/// In p ranks, log(p) steps to the base k, of k-1 messages each. Operands are combined in rank order.
pub const COLLECT_ALGORITHM_KNOMIAL: collect_algorithm = collect_algorithm(9);
/// A chain of all ranks, through which the data flows in segments: for large broadcasts, reduces and scans.
/// In p ranks, p-1 steps at once; a rank sends its buffer once. Operands are combined in rank order.
pub const COLLECT_ALGORITHM_CHAIN: collect_algorithm = collect_algorithm(10);
/// Bruck's, for alltoall of small parts.
/// In p ranks, log2(p) steps of half the buffer.
pub const COLLECT_ALGORITHM_BRUCK: collect_algorithm = collect_algorithm(11);
/// Each pair of ranks exchanges its part, for alltoall and alltoallv.
/// In p ranks, p-1 messages of a part; as many as the option `degree` says are under way to a rank at once.
pub const COLLECT_ALGORITHM_PAIRWISE: collect_algorithm = collect_algorithm(12);
/// Parallel aggregated trees, for allgather and reduce_scatter.
/// In p ranks, of any number, log2(p) steps; a rank sends as much as in a ring.
pub const COLLECT_ALGORITHM_PAT: collect_algorithm = collect_algorithm(13);

/// The caller's own allgather, for `collect_world_create_with_exchange`.
///
/// Copies `bytes` bytes from `mine` on every rank to `all` on every rank, which has room for the size of
/// the world times `bytes` and receives them in the order of the ranks. Returns 0, or another number if
/// it failed, which ends the creation here with `COLLECT_ERR_STORE`. `user` is what the creator passed.
///
/// The thread that creates the world calls it, before the creation returns. It must not throw, nor
/// `longjmp`.
pub type collect_exchange_fn = Option<
    unsafe extern "C" fn(
        user: *mut c_void,
        mine: *const c_void,
        bytes: usize,
        all: *mut c_void,
    ) -> i32,
>;

impl TryFrom<collect_datatype> for Datatype {
    type Error = Error;

    fn try_from(collect_datatype(number): collect_datatype) -> Result<Self, Error> {
        Self::from_number(number).ok_or_else(|| is_no("collect_datatype", number))
    }
}

impl TryFrom<collect_op> for Op {
    type Error = Error;

    fn try_from(collect_op(number): collect_op) -> Result<Self, Error> {
        Self::from_number(number).ok_or_else(|| is_no("collect_op", number))
    }
}

impl TryFrom<collect_wait> for Wait {
    type Error = Error;

    fn try_from(wait: collect_wait) -> Result<Self, Error> {
        match wait {
            COLLECT_WAIT_ADAPTIVE => Ok(Self::Adaptive),
            COLLECT_WAIT_SPIN => Ok(Self::Spin),
            COLLECT_WAIT_BLOCK => Ok(Self::Block),
            collect_wait(number) => Err(is_no("collect_wait", number)),
        }
    }
}

impl TryFrom<collect_connect> for Connect {
    type Error = Error;

    fn try_from(connect: collect_connect) -> Result<Self, Error> {
        match connect {
            COLLECT_CONNECT_LAZY => Ok(Self::Lazy),
            COLLECT_CONNECT_EAGER => Ok(Self::Eager),
            collect_connect(number) => Err(is_no("collect_connect", number)),
        }
    }
}

/// `None` leaves the choice to the library.
impl TryFrom<collect_algorithm> for Option<Algorithm> {
    type Error = Error;

    fn try_from(algorithm: collect_algorithm) -> Result<Self, Error> {
        if algorithm == COLLECT_ALGORITHM_AUTO {
            return Ok(None);
        }
        let collect_algorithm(number) = algorithm;
        Algorithm::from_number(number).map(Some).ok_or_else(|| is_no("collect_algorithm", number))
    }
}

fn is_no(kind: &str, number: i32) -> Error {
    Error::InvalidArgument(format!("{number} is no {kind}"))
}

/// Tells the size of one element of a type.
///
/// Errors:
///
/// - `COLLECT_ERR_INVALID_ARGUMENT`: `type` is no type.
///
/// # Safety
///
/// - `bytes`: writable, receives the size, in bytes; NULL is an error.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn collect_datatype_size(
    r#type: collect_datatype,
    bytes: *mut usize,
) -> collect_status {
    guard(|| {
        // SAFETY: NULL or writable (contract above).
        let bytes = unsafe { Out::new(bytes, "bytes") }?;
        bytes.set(Datatype::try_from(r#type)?.bytes());
        Ok(COLLECT_OK)
    })
}

#[cfg(test)]
mod tests {
    use std::ptr;

    use super::*;
    use crate::ffi::status::COLLECT_ERR_INVALID_ARGUMENT;

    #[test]
    fn constants_have_the_numbers_of_the_library() {
        let types = [COLLECT_I8, COLLECT_U8, COLLECT_I16, COLLECT_U16, COLLECT_I32, COLLECT_U32];
        let more = [COLLECT_I64, COLLECT_U64, COLLECT_F16, COLLECT_BF16, COLLECT_F32, COLLECT_F64];
        let bytes = [COLLECT_F8E4M3, COLLECT_F8E5M2, COLLECT_BOOL];
        let numbers = types.iter().chain(&more).chain(&bytes);
        let numbers = numbers.map(|number| Datatype::try_from(*number).unwrap());
        assert!(numbers.eq(Datatype::ALL));
        let ops = [COLLECT_SUM, COLLECT_PROD, COLLECT_MIN, COLLECT_MAX, COLLECT_AVG];
        let bitwise = [COLLECT_BAND, COLLECT_BOR, COLLECT_BXOR];
        let own = [COLLECT_PREMUL_SUM, COLLECT_CUSTOM];
        let ops = ops.iter().chain(&bitwise).chain(&own).map(|op| Op::try_from(*op).unwrap());
        assert!(ops.eq(Op::ALL));
        let algorithms = [
            COLLECT_ALGORITHM_RING,
            COLLECT_ALGORITHM_DIRECT,
            COLLECT_ALGORITHM_DOUBLING,
            COLLECT_ALGORITHM_BINOMIAL,
            COLLECT_ALGORITHM_DISSEMINATION,
            COLLECT_ALGORITHM_CIRCULANT,
            COLLECT_ALGORITHM_RABENSEIFNER,
            COLLECT_ALGORITHM_HALVING,
            COLLECT_ALGORITHM_KNOMIAL,
            COLLECT_ALGORITHM_CHAIN,
            COLLECT_ALGORITHM_BRUCK,
            COLLECT_ALGORITHM_PAIRWISE,
            COLLECT_ALGORITHM_PAT,
        ];
        let named = algorithms.map(|number| Option::<Algorithm>::try_from(number).unwrap());
        assert_eq!(named, Algorithm::ALL.map(Some));
        assert_eq!(Option::<Algorithm>::try_from(COLLECT_ALGORITHM_AUTO), Ok(None));
    }

    #[test]
    fn defaults_are_zero() {
        assert_eq!(Wait::try_from(collect_wait(0)), Ok(Wait::default()));
        assert_eq!(Connect::try_from(collect_connect(0)), Ok(Connect::default()));
    }

    #[test]
    fn unknown_numbers_are_refused() {
        for number in [-1, 99, i32::MIN, i32::MAX] {
            assert!(Datatype::try_from(collect_datatype(number)).is_err());
            assert!(Op::try_from(collect_op(number)).is_err());
            assert!(Wait::try_from(collect_wait(number)).is_err());
            assert!(Connect::try_from(collect_connect(number)).is_err());
            assert!(Option::<Algorithm>::try_from(collect_algorithm(number)).is_err());
        }
        assert!(Datatype::try_from(collect_datatype(0)).is_err());
        assert!(Op::try_from(collect_op(0)).is_err());
    }

    #[test]
    fn sizes_are_told() {
        let mut bytes = 77;
        // SAFETY: a local variable.
        assert_eq!(unsafe { collect_datatype_size(COLLECT_BF16, &raw mut bytes) }, COLLECT_OK);
        assert_eq!(bytes, 2);
        // SAFETY: as above.
        let status = unsafe { collect_datatype_size(collect_datatype(16), &raw mut bytes) };
        assert_eq!((status, bytes), (COLLECT_ERR_INVALID_ARGUMENT, 2));
        // SAFETY: NULL is an error.
        let status = unsafe { collect_datatype_size(COLLECT_F32, ptr::null_mut()) };
        assert_eq!(status, COLLECT_ERR_INVALID_ARGUMENT);
    }
}
