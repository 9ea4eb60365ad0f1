//! The preloaded counter of allocations: built by `cc`, reached by the names that it exports.

use std::ffi::CStr;
use std::path::PathBuf;
use std::process::Command;

type Switch = extern "C" fn(i32);
type Number = extern "C" fn() -> i64;

/// The counter in this process, if it is preloaded.
pub(crate) struct Counter {
    switch: Switch,
    allocations: Number,
    mappings: Number,
    report: Switch,
}

fn symbol(name: &CStr) -> *mut libc::c_void {
    // SAFETY: the name ends with a zero byte.
    let found = unsafe { libc::dlsym(libc::RTLD_DEFAULT, name.as_ptr()) };
    assert!(!found.is_null(), "{name:?} is not preloaded");
    found
}

impl Counter {
    pub(crate) fn find() -> Self {
        // SAFETY: `allocations.c` defines it with this signature.
        let switch =
            unsafe { std::mem::transmute::<*mut libc::c_void, Switch>(symbol(c"cost_switch")) };
        // SAFETY: as above.
        let allocations = unsafe {
            std::mem::transmute::<*mut libc::c_void, Number>(symbol(c"cost_allocations"))
        };
        // SAFETY: as above.
        let mappings =
            unsafe { std::mem::transmute::<*mut libc::c_void, Number>(symbol(c"cost_mappings")) };
        // SAFETY: as above.
        let report =
            unsafe { std::mem::transmute::<*mut libc::c_void, Switch>(symbol(c"cost_report")) };
        Self { switch, allocations, mappings, report }
    }

    /// Counts from zero.
    pub(crate) fn switch_on(&self) {
        (self.switch)(1);
    }

    /// Ends the counting.
    pub(crate) fn switch_off(&self) {
        (self.switch)(0);
    }

    /// While it was on, no thread of the process may have allocated or mapped memory.
    pub(crate) fn must_be_zero(&self, what: &str) {
        let counted = ((self.allocations)(), (self.mappings)());
        if counted != (0, 0) {
            (self.report)(2);
        }
        assert_eq!(counted, (0, 0), "allocations and mappings: {what}");
    }
}

/// Builds the library to preload.
pub(crate) fn build() -> PathBuf {
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/cost/allocations.c");
    let library = PathBuf::from(env!("CARGO_TARGET_TMPDIR"))
        .join(format!("allocations-{}.so", std::process::id()));
    let built = Command::new("cc")
        .args(["-std=gnu11", "-O1", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC", "-o"])
        .arg(&library)
        .args([source, "-ldl"])
        .status()
        .unwrap();
    assert!(built.success());
    library
}
