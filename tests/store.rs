//! One contract for all stores, and what is particular to each.

#[path = "store/contract.rs"]
mod contract;
#[path = "store/file.rs"]
mod file;
#[path = "store/silent.rs"]
mod silent;
#[path = "store/tcp.rs"]
mod tcp;
#[path = "store/wrappers.rs"]
mod wrappers;

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

/// No test is expected to come near it.
fn generous() -> Instant {
    Instant::now() + Duration::from_secs(120)
}

fn soon() -> Instant {
    Instant::now() + Duration::from_millis(50)
}

/// A new directory, removed at the end.
struct Directory(PathBuf);

impl Directory {
    fn new() -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let n = NEXT.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("collect-store-{}-{n}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Makes the command that runs this test binary as another process in a role of `child`.
fn child_command(role: &str, argument: &str) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "child", "--nocapture", "--test-threads=1"]);
    command.env("STORE_TEST_ROLE", role).env("STORE_TEST_ARGUMENT", argument);
    command
}

/// Starts one, and waits until it says that it is ready.
fn start_child(role: &str, argument: &str) -> Child {
    let mut child = child_command(role, argument).stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    assert!(lines.any(|line| line.unwrap().ends_with("ready")), "the child has not come up");
    child
}

/// Does nothing in the test's own process.
#[test]
fn child() {
    let Ok(role) = std::env::var("STORE_TEST_ROLE") else { return };
    let argument = std::env::var("STORE_TEST_ARGUMENT").unwrap();
    match role.as_str() {
        "add" => file::child_adds(&argument),
        "hold the lock" => file::child_holds_the_lock(&argument),
        "write too much" => file::child_writes_too_much(&argument),
        "many clients" => tcp::child_has_many_clients(),
        "serve" => tcp::child_serves(&argument),
        "wait for a key" => tcp::child_waits_for_a_key(&argument),
        _ => panic!("unknown role {role}"),
    }
}
