//! A world on which the victim's calls are made by a thread in C, which is cancelled; another thread goes on with them.
//!
//! The world is one of its own, so that its calls are the C ABI's on the victim. Nobody is harmed.

use std::ffi::{CString, c_void};
use std::mem::MaybeUninit;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::ptr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use collect::config::Timeout;
use collect::ffi::collectives::collect_allreduce;
use collect::ffi::options::collect_world_options;
use collect::ffi::status::{COLLECT_OK, collect_status};
use collect::ffi::store::{collect_store, collect_store_destroy, collect_store_open};
use collect::ffi::world::{collect_world, collect_world_create, collect_world_destroy};
use collect::store::FileStore;
use collect::{CallOptions, WorldOptions};

use super::play::Rank;
use super::scenario::Draw;
use crate::ranks;
use crate::reference::calls::sum;

/// Where the routine in C is.
pub(crate) const LIBRARY: &str = "COLLECT_FAULT_CANCELLED";
const NAME: &str = "cancelled";
const LIMIT: Duration = Duration::from_secs(60);

/// The thread in C, while it may be cancelled.
static THREAD: AtomicU64 = AtomicU64::new(0);

type Routine = extern "C" fn(*mut c_void) -> *mut c_void;

/// Builds the routine.
pub(crate) fn build(folder: &Path) -> PathBuf {
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/faults/cancelled.c");
    let library = folder.join("cancelled.so");
    let mut command = Command::new("cc");
    command.args(["-std=gnu11", "-O1", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC"]);
    let built = command.args(["-pthread", source, "-o"]).arg(&library).status().unwrap();
    assert!(built.success());
    library
}

/// Cancels the thread in C, if it is there.
pub(crate) fn cancel() -> bool {
    let thread = THREAD.swap(0, Ordering::AcqRel);
    // SAFETY: the thread has not been joined: who joins it takes the number first.
    thread != 0 && unsafe { libc::pthread_cancel(thread) } == 0
}

/// What the routine in C works on.
#[repr(C)]
struct Calls {
    allreduce: *const c_void,
    world: *mut collect_world,
    send: *mut u64,
    recv: *mut u64,
    count: u64,
    size: u64,
    completed: u64,
    status: i32,
    wrong: i32,
}

/// This rank's handle of the world.
pub(crate) enum World {
    Rust(collect::World),
    C(Handle),
}

/// A world of the C ABI.
pub(crate) struct Handle(*mut collect_world);

// SAFETY: a world may be used by any thread.
unsafe impl Sync for Handle {}

impl Drop for Handle {
    fn drop(&mut self) {
        // SAFETY: it is live, and not used again.
        unsafe { collect_world_destroy(self.0) };
    }
}

impl World {
    pub(crate) fn make(rank: &Rank) -> Self {
        let folder = ranks::folder().join("store");
        if rank.rank == rank.scenario.victim {
            return Self::C(create(&folder, rank));
        }
        let timeout = Timeout::After(LIMIT);
        let options = WorldOptions { name: NAME.into(), timeout, ..ranks::options() };
        let store = FileStore::open(folder).unwrap();
        let world = collect::World::create(&store, rank.rank, rank.scenario.size, &options);
        Self::Rust(world.unwrap())
    }

    /// Calls until the victim wants no more.
    pub(crate) fn play(&self, rank: &Rank) {
        let count = 1 + Draw::new(rank.scenario.seed).below(100_000);
        match self {
            Self::C(world) => play_with_c(world, count, rank.scenario.size),
            Self::Rust(world) => (0..).find(|round| {
                let mut numbers = numbers_of(*round, count);
                sum(world, &mut numbers, &CallOptions::default()).unwrap();
                is_last(*round, &numbers, world.size())
            }),
        };
    }
}

fn numbers_of(round: u64, count: usize) -> Vec<u64> {
    let mut numbers: Vec<u64> = (round..round + count as u64).collect();
    numbers[count - 1] = 0;
    numbers
}

/// Whether somebody wants no more. The others are sums.
fn is_last(round: u64, numbers: &[u64], size: usize) -> bool {
    let (last, sums) = numbers.split_last().unwrap();
    let mut pairs = sums.iter().zip(round..);
    assert!(pairs.all(|(sum, number)| *sum == number * size as u64), "call {round} is wrong");
    *last > 0
}

/// Calls from a thread in C until that is cancelled, and then once from here.
fn play_with_c(world: &Handle, count: usize, size: usize) -> Option<u64> {
    let (mut send, mut recv) = (vec![0; count], vec![0; count]);
    let mut calls = Calls {
        allreduce: collect_allreduce as *const c_void,
        world: world.0,
        send: send.as_mut_ptr(),
        recv: recv.as_mut_ptr(),
        count: count as u64,
        size: size as u64,
        completed: 0,
        status: 0,
        wrong: 0,
    };
    let end = run_in_c((&raw mut calls).cast());
    assert_eq!(end.addr(), usize::MAX, "cancelled; the last call returned {}", calls.status);
    assert_eq!((calls.status, calls.wrong), (0, 0), "calls of the thread that was cancelled");
    let round = calls.completed;
    send = numbers_of(round, count);
    send[count - 1] = 1;
    let (from, to) = (send.as_ptr().cast(), recv.as_mut_ptr().cast());
    let (u64s, by_sum) = (collect::ffi::types::COLLECT_U64, collect::ffi::types::COLLECT_SUM);
    // SAFETY: the world is live, the buffers have `count` numbers.
    let status = unsafe {
        collect_allreduce(world.0, from, to, count, u64s, by_sum, ptr::null(), ptr::null_mut())
    };
    assert_eq!(status, COLLECT_OK);
    assert!(is_last(round, &recv, size));
    Some(round)
}

/// Runs the routine on a thread of its own, which may be cancelled. Returns what the thread ends with.
fn run_in_c(argument: *mut c_void) -> *mut c_void {
    let path = CString::new(std::env::var(LIBRARY).unwrap()).unwrap();
    // SAFETY: the path ends with a zero byte.
    let library = unsafe { libc::dlopen(path.as_ptr(), libc::RTLD_NOW) };
    assert!(!library.is_null(), "{path:?}");
    // SAFETY: the name ends with a zero byte.
    let routine = unsafe { libc::dlsym(library, c"cancelled_run".as_ptr()) };
    assert!(!routine.is_null());
    // SAFETY: `cancelled.c` defines it with this signature.
    let routine = unsafe { std::mem::transmute::<*mut c_void, Routine>(routine) };
    let mut thread: libc::pthread_t = 0;
    // SAFETY: the argument stays until the thread has been joined.
    let created = unsafe { libc::pthread_create(&raw mut thread, ptr::null(), routine, argument) };
    assert_eq!(created, 0);
    THREAD.store(thread, Ordering::Release);
    let mut end = ptr::null_mut();
    // SAFETY: it is joined once.
    assert_eq!(unsafe { libc::pthread_join(thread, &raw mut end) }, 0);
    end
}

fn create(folder: &Path, rank: &Rank) -> Handle {
    let url = CString::new(format!("file:{}", folder.display())).unwrap();
    let (name, listen) = (CString::new(NAME).unwrap(), c"127.0.0.1");
    let mut store: *mut collect_store = ptr::null_mut();
    // SAFETY: the URL is a string, the handle is writable.
    must_be_well(unsafe { collect_store_open(url.as_ptr(), 0, &raw mut store) });
    let options = MaybeUninit::<collect_world_options>::zeroed();
    // SAFETY: zeroes are every option's default.
    let mut options = unsafe { options.assume_init() };
    options.struct_size = size_of::<collect_world_options>();
    (options.name, options.listen) = (name.as_ptr(), listen.as_ptr());
    options.timeout_ns = LIMIT.as_nanos() as i64;
    let (own, size) = (rank.rank as i32, rank.scenario.size as i32);
    let mut world: *mut collect_world = ptr::null_mut();
    // SAFETY: the store is live, the options are set, the handle is writable.
    must_be_well(unsafe {
        collect_world_create(store, own, size, &raw const options, &raw mut world)
    });
    // SAFETY: it is live, and not used again.
    unsafe { collect_store_destroy(store) };
    Handle(world)
}

fn must_be_well(status: collect_status) {
    assert_eq!(status, COLLECT_OK, "of a call that makes a world");
}
