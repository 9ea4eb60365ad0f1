//! Values that a caller passes in: integers, so that an unknown one is an error and never undefined.

use std::ffi::{c_char, c_void};

use super::guard::guard;
use super::options::{self, Options};
use super::pointer::{self, Out};
use super::status::{COLLECT_OK, collect_status};
use crate::config::{Connect, Wait};
use crate::datatype::{Datatype, Op};
use crate::error::Error;
use crate::{Algorithm, CallOptions, ForkOptions, WorldOptions};

/// The type of one element: one of the constants from `COLLECT_I8` to `COLLECT_F64`.
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

/// How elements are reduced: one of the constants from `COLLECT_SUM` to `COLLECT_BXOR`.
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
/// Divides by the size of the world; for several buffers per rank, by the number of all buffers.
pub const COLLECT_AVG: collect_op = collect_op(5);
/// Bitwise and; integers only.
/// With floats, `COLLECT_ERR_INVALID_ARGUMENT`.
pub const COLLECT_BAND: collect_op = collect_op(6);
/// Bitwise or; integers only.
/// With floats, `COLLECT_ERR_INVALID_ARGUMENT`.
pub const COLLECT_BOR: collect_op = collect_op(7);
/// Bitwise exclusive or; integers only.
/// With floats, `COLLECT_ERR_INVALID_ARGUMENT`.
pub const COLLECT_BXOR: collect_op = collect_op(8);

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
/// Each rank talks to its two neighbours: the most bandwidth, for large allreduces.
/// In p ranks, 2(p-1) steps; each rank sends 2(p-1)/p times its buffer.
pub const COLLECT_ALGORITHM_RING: collect_algorithm = collect_algorithm(1);
/// Everybody sends to everybody: the lowest latency, for small allreduces of few ranks.
/// In p ranks, one step; each rank sends p-1 times its buffer. Operands are combined in rank order.
pub const COLLECT_ALGORITHM_DIRECT: collect_algorithm = collect_algorithm(2);
/// Recursive doubling: logarithmic latency, for small allreduces of many ranks.
/// In p ranks, log2(p) steps, each with the whole buffer. Operands are combined in rank order.
pub const COLLECT_ALGORITHM_DOUBLING: collect_algorithm = collect_algorithm(3);
/// A binomial tree, for broadcasts.
/// In p ranks, log2(p) steps; no rank sends more than log2(p) times the buffer.
pub const COLLECT_ALGORITHM_BINOMIAL: collect_algorithm = collect_algorithm(4);
/// Dissemination, for barriers.
/// In p ranks, log2(p) steps of one byte.
pub const COLLECT_ALGORITHM_DISSEMINATION: collect_algorithm = collect_algorithm(5);
/// Circulant, for allreduce and allgather.
/// In p ranks, of any number, log2(p) steps for each half; a rank sends as much as in a ring.
pub const COLLECT_ALGORITHM_CIRCULANT: collect_algorithm = collect_algorithm(6);

/// Options of the functions that create a world. A field that is 0 or NULL has its default.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct collect_world_options {
    /// `sizeof(collect_world_options)`.
    pub struct_size: usize,
    /// The world's name, UTF-8, in messages and in the store's keys, equal on all ranks; NULL: "world".
    /// Two worlds that one store serves at one time need different names.
    pub name: *const c_char,
    /// Where this process listens: "address" or "address:port"; NULL: what the environment variable
    /// LIBCOLLECT_LISTEN says, else every address and a port of the system's choice.
    pub listen: *const c_char,
    /// How long an operation may take if its call does not say, and how long the creation may take, in
    /// nanoseconds; 0: ten minutes; negative: for ever.
    pub timeout_ns: i64,
    /// What threads do while they wait.
    /// One of the `COLLECT_WAIT_` constants.
    pub wait: collect_wait,
    /// When connections are made.
    /// One of the `COLLECT_CONNECT_` constants.
    pub connect: collect_connect,
}

/// Options of `collect_world_fork`. A field that is 0 or NULL has its default.
///
/// ```c
/// const int32_t even[] = {0, 2, 4, 6};
/// collect_fork_options options;
/// memset(&options, 0, sizeof options);
/// options.struct_size = sizeof options;
/// options.members = even;
/// options.members_count = 4;
/// if (rank % 2 == 0) status = collect_world_fork(world, &options, &fork);
/// ```
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct collect_fork_options {
    /// `sizeof(collect_fork_options)`.
    pub struct_size: usize,
    /// The fork's name, UTF-8, in messages, equal on all members; NULL: the parent's with a number.
    pub name: *const c_char,
    /// The parent's ranks that become members, in the order of their new ranks, equal on all members;
    /// NULL: all ranks. A rank that is not listed does not call.
    pub members: *const i32,
    /// How many ranks `members` has; 0 if it is NULL.
    pub members_count: usize,
    /// How long an operation of the fork may take if its call does not say, and how long the fork itself
    /// may take, in nanoseconds; 0: as the parent; negative: for ever.
    pub timeout_ns: i64,
}

/// Options of a collective. A field that is 0 has its default.
///
/// ```c
/// collect_call_options options;
/// memset(&options, 0, sizeof options);
/// options.struct_size = sizeof options;
/// options.timeout_ns = 5000000000; // 5 seconds
/// status = collect_barrier(world, &options, NULL);
/// ```
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct collect_call_options {
    /// `sizeof(collect_call_options)`.
    pub struct_size: usize,
    /// How long the operation may take, in nanoseconds; 0: as the world says; negative: for ever. When it
    /// passes, the world fails.
    pub timeout_ns: i64,
    /// The algorithm, equal on all ranks.
    /// One of the `COLLECT_ALGORITHM_` constants.
    pub algorithm: collect_algorithm,
    /// Must be 0.
    /// Anything else is `COLLECT_ERR_UNSUPPORTED`.
    pub reserved: i32,
}

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

const WORD: usize = size_of::<usize>();
const _: () = assert!(size_of::<collect_world_options>() == 3 * WORD + 8 + 4 + 4);
const _: () = assert!(size_of::<collect_fork_options>() == 4 * WORD + 8);
const _: () = assert!(size_of::<collect_call_options>() == WORD + 8 + 4 + 4);

// SAFETY: the size comes first, the rest are integers and raw pointers, and the assertion above excludes padding.
unsafe impl Options for collect_world_options {}
// SAFETY: as above.
unsafe impl Options for collect_fork_options {}
// SAFETY: as above.
unsafe impl Options for collect_call_options {}

impl collect_world_options {
    /// Reads what the caller chose.
    ///
    /// # Safety
    ///
    /// `source` is NULL, or as large as it says, and its strings end with NUL.
    pub(super) unsafe fn read(source: *const Self) -> Result<WorldOptions, Error> {
        // SAFETY: NULL or as large as it says (contract above).
        let options = unsafe { options::read(source) }?;
        // SAFETY: NULL or a string (contract above).
        let name = unsafe { pointer::text(options.name, "name") }?;
        // SAFETY: NULL or a string (contract above).
        let listen = unsafe { pointer::text(options.listen, "listen") }?;
        Ok(WorldOptions {
            name: name.unwrap_or_default().to_owned(),
            timeout: options.timeout_ns.into(),
            wait: options.wait.try_into()?,
            connect: options.connect.try_into()?,
            listen: listen.map(str::to_owned),
        })
    }
}

impl collect_fork_options {
    /// Reads what the caller chose.
    ///
    /// # Safety
    ///
    /// `source` is NULL, or as large as it says; its string ends with NUL, and its list is as long as it says.
    pub(super) unsafe fn read(source: *const Self) -> Result<ForkOptions, Error> {
        // SAFETY: NULL or as large as it says (contract above).
        let options = unsafe { options::read(source) }?;
        // SAFETY: NULL or a string (contract above).
        let name = unsafe { pointer::text(options.name, "name") }?;
        // SAFETY: NULL or as long as it says (contract above).
        let listed =
            unsafe { pointer::elements(options.members, options.members_count, "members") }?;
        let listed = listed.iter().map(|rank| pointer::number(*rank, "a member"));
        let members = listed.collect::<Result<_, _>>()?;
        Ok(ForkOptions {
            name: name.unwrap_or_default().to_owned(),
            members: (!options.members.is_null()).then_some(members),
            timeout: options.timeout_ns.into(),
        })
    }
}

impl collect_call_options {
    /// Reads what the caller chose.
    ///
    /// # Safety
    ///
    /// `source` is NULL, or as large as it says.
    pub(super) unsafe fn read(source: *const Self) -> Result<CallOptions, Error> {
        // SAFETY: NULL or as large as it says (contract above).
        let options = unsafe { options::read(source) }?;
        if options.reserved != 0 {
            return Err(options::unknown());
        }
        let algorithm = options.algorithm.try_into()?;
        Ok(CallOptions { timeout: options.timeout_ns.into(), algorithm })
    }
}

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
pub unsafe extern "C" fn collect_datatype_size(
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
    use crate::config::Timeout;
    use crate::ffi::status::COLLECT_ERR_INVALID_ARGUMENT;

    #[test]
    fn constants_have_the_numbers_of_the_library() {
        let types = [COLLECT_I8, COLLECT_U8, COLLECT_I16, COLLECT_U16, COLLECT_I32, COLLECT_U32];
        let more = [COLLECT_I64, COLLECT_U64, COLLECT_F16, COLLECT_BF16, COLLECT_F32, COLLECT_F64];
        let numbers = types.iter().chain(&more).map(|number| Datatype::try_from(*number).unwrap());
        assert!(numbers.eq(Datatype::ALL));
        let ops = [COLLECT_SUM, COLLECT_PROD, COLLECT_MIN, COLLECT_MAX, COLLECT_AVG];
        let bitwise = [COLLECT_BAND, COLLECT_BOR, COLLECT_BXOR];
        assert!(ops.iter().chain(&bitwise).map(|op| Op::try_from(*op).unwrap()).eq(Op::ALL));
        let algorithms = [
            COLLECT_ALGORITHM_RING,
            COLLECT_ALGORITHM_DIRECT,
            COLLECT_ALGORITHM_DOUBLING,
            COLLECT_ALGORITHM_BINOMIAL,
            COLLECT_ALGORITHM_DISSEMINATION,
            COLLECT_ALGORITHM_CIRCULANT,
        ];
        let named = algorithms.map(|number| Option::<Algorithm>::try_from(number).unwrap());
        assert_eq!(named, Algorithm::ALL.map(Some));
        assert_eq!(Option::<Algorithm>::try_from(COLLECT_ALGORITHM_AUTO), Ok(None));
    }

    #[test]
    fn defaults_are_zero() {
        assert_eq!(Wait::try_from(collect_wait(0)), Ok(Wait::default()));
        assert_eq!(Connect::try_from(collect_connect(0)), Ok(Connect::default()));
        // SAFETY: NULL is allowed.
        let options = unsafe { collect_fork_options::read(ptr::null()) }.unwrap();
        assert_eq!((options.members, options.timeout), (None, Timeout::Default));
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
    fn what_is_reserved_is_refused() {
        let algorithm = COLLECT_ALGORITHM_AUTO;
        let struct_size = size_of::<collect_call_options>();
        let mut options =
            collect_call_options { struct_size, timeout_ns: -1, algorithm, reserved: 0 };
        // SAFETY: as large as it says.
        let read = unsafe { collect_call_options::read(&raw const options) }.unwrap();
        assert_eq!((read.timeout, read.algorithm), (Timeout::Never, None));
        options.reserved = 1;
        // SAFETY: as large as it says.
        let refused = unsafe { collect_call_options::read(&raw const options) };
        assert_eq!(refused.unwrap_err(), options::unknown());
    }

    #[test]
    fn a_list_of_members_is_read() {
        let ranks = [2, 0];
        let mut options = collect_fork_options {
            struct_size: size_of::<collect_fork_options>(),
            name: c"pair".as_ptr(),
            members: ranks.as_ptr(),
            members_count: 2,
            timeout_ns: 5,
        };
        // SAFETY: as large as it says, and so is its list.
        let read = unsafe { collect_fork_options::read(&raw const options) }.unwrap();
        assert_eq!((read.members, &*read.name), (Some(vec![2, 0]), "pair"));
        options.members = ptr::null();
        // SAFETY: as above, without a list.
        let refused = unsafe { collect_fork_options::read(&raw const options) };
        assert_eq!(refused.unwrap_err(), pointer::is_null("members"));
    }

    #[test]
    fn sizes_are_told() {
        let mut bytes = 77;
        // SAFETY: a local variable.
        assert_eq!(unsafe { collect_datatype_size(COLLECT_BF16, &raw mut bytes) }, COLLECT_OK);
        assert_eq!(bytes, 2);
        // SAFETY: as above.
        let status = unsafe { collect_datatype_size(collect_datatype(13), &raw mut bytes) };
        assert_eq!((status, bytes), (COLLECT_ERR_INVALID_ARGUMENT, 2));
        // SAFETY: NULL is an error.
        let status = unsafe { collect_datatype_size(COLLECT_F32, ptr::null_mut()) };
        assert_eq!(status, COLLECT_ERR_INVALID_ARGUMENT);
    }
}
