//! The preloaded library that lets system calls fail: built by `cc`, reached by the names that it exports.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::ffi::{CStr, CString, c_char, c_int, c_long, c_void};
use std::path::{Path, PathBuf};
use std::process::Command;

use super::ranks::Ranks;

type Set = extern "C" fn(*const c_char, c_int, c_long) -> c_int;
type Failed = extern "C" fn(*const c_char) -> c_long;
type Clear = extern "C" fn();

/// The library in this process, where it is preloaded.
#[derive(Clone, Copy)]
pub(crate) struct Faults {
    set: Set,
    failed: Failed,
    clear: Clear,
}

fn symbol(name: &CStr) -> *mut c_void {
    // SAFETY: the name ends with a zero byte.
    let found = unsafe { libc::dlsym(libc::RTLD_DEFAULT, name.as_ptr()) };
    assert!(!found.is_null(), "{name:?} is not preloaded");
    found
}

impl Faults {
    pub(crate) fn find() -> Self {
        // SAFETY: `faults.c` defines it with this signature.
        let set = unsafe { std::mem::transmute::<*mut c_void, Set>(symbol(c"faults_set")) };
        // SAFETY: as above.
        let failed =
            unsafe { std::mem::transmute::<*mut c_void, Failed>(symbol(c"faults_failed")) };
        // SAFETY: as above.
        let clear = unsafe { std::mem::transmute::<*mut c_void, Clear>(symbol(c"faults_clear")) };
        Self { set, failed, clear }
    }

    /// Every so manieth of these calls fails with this error from now on, in all threads.
    pub(crate) fn set(&self, call: &str, error: i32, every: i64) {
        let name = CString::new(call).unwrap();
        assert_eq!((self.set)(name.as_ptr(), error, every), 0, "no call is named {call}");
    }

    /// How many of these calls have failed so far.
    pub(crate) fn failed(&self, call: &str) -> i64 {
        let name = CString::new(call).unwrap();
        (self.failed)(name.as_ptr())
    }

    /// No call fails any more.
    pub(crate) fn clear(&self) {
        (self.clear)();
    }
}

/// Starts the ranks of a test with the library preloaded, and waits for their good ends.
pub(crate) fn run(name: &str, size: usize) {
    run_and_look(name, size, |_| {});
}

/// As [`run`], then looks at what they have left in their folder.
pub(crate) fn run_and_look(name: &str, size: usize, look: impl Fn(&Path)) {
    let library = build(name);
    let mut processes = Ranks::spawn_by(name, size, |program: PathBuf, _, _: &Path| {
        let mut command = Command::new(program);
        command.env("LD_PRELOAD", &library);
        command
    });
    for (rank, status) in processes.wait_all().into_iter().enumerate() {
        assert!(status.success(), "rank {rank}: {status}");
    }
    let _ = std::fs::remove_file(library);
    look(&processes.folder);
}

/// Builds the library that a test preloads.
fn build(name: &str) -> PathBuf {
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/scarce/faults.c");
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR"));
    let library = folder.join(format!("{name}-{}.so", std::process::id()));
    let built = Command::new("cc")
        .args(["-std=gnu11", "-O1", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC", "-o"])
        .arg(&library)
        .args([source, "-ldl"])
        .status()
        .unwrap();
    assert!(built.success());
    library
}
