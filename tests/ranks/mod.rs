//! Ranks for tests: the same body as threads of this process, and as processes of their own.
//!
//! A process rank is this very test program, started again for one test, with its rank in the environment. Every wait
//! has a deadline: a hang fails, and names who hung.
#![allow(dead_code, reason = "each test program uses a part")]
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};
use std::{env, fs};

use collect::config::{Timeout, Wait};
use collect::store::{FileStore, HashStore, Store};
use collect::{World, WorldOptions};

/// Longer than any test may take on a busy machine.
pub(crate) const DEADLINE: Duration = Duration::from_secs(120);

const RANK: &str = "COLLECT_TEST_RANK";
const FOLDER: &str = "COLLECT_TEST_FOLDER";

/// Options for tests: a deadline, and loopback.
pub(crate) fn options() -> WorldOptions {
    WorldOptions {
        timeout: Timeout::After(DEADLINE),
        listen: Some("127.0.0.1".into()),
        ..WorldOptions::default()
    }
}

/// As [`options`], and every wait sleeps at once: a lost wake-up shows.
pub(crate) fn blocking() -> WorldOptions {
    WorldOptions { wait: Wait::Block, ..options() }
}

/// Runs `body` on every rank of a world: as threads, then as processes. `name` is the test's.
pub(crate) fn both(name: &str, size: usize, body: impl Fn(&World) + Sync) {
    if !is_rank() {
        threads(size, &blocking(), &body);
    }
    processes(name, size, &blocking(), &body);
}

/// Runs `body` on ranks that are threads of this process.
pub(crate) fn threads(size: usize, options: &WorldOptions, body: &(impl Fn(&World) + Sync)) {
    let store: Arc<dyn Store> = Arc::new(HashStore::new());
    thread::scope(|scope| {
        let start = |rank: usize| {
            let store = &store;
            let name = format!("rank {rank}");
            let run = move || body(&World::create(&**store, rank, size, options).unwrap());
            thread::Builder::new().name(name).spawn_scoped(scope, run).unwrap()
        };
        join((0..size).map(start).collect());
    });
}

/// Joins threads one by one: ThreadSanitizer does not see the end of a scope.
pub(crate) fn join(threads: Vec<thread::ScopedJoinHandle<'_, ()>>) {
    let ends: Vec<_> = threads.into_iter().map(thread::ScopedJoinHandle::join).collect();
    assert!(ends.iter().all(Result::is_ok), "a thread has panicked");
}

/// Runs `body` on ranks that are processes, each of which must end well.
pub(crate) fn processes(
    name: &str,
    size: usize,
    options: &WorldOptions,
    body: &(impl Fn(&World) + Sync),
) {
    if is_rank() {
        mark(&format!("began.{}", rank()));
        let store = FileStore::open(folder().join("store")).unwrap();
        return body(&World::create(&store, rank(), size, options).unwrap());
    }
    let mut ranks = Ranks::spawn(name, size);
    for (rank, status) in ranks.wait_all().into_iter().enumerate() {
        assert!(status.success(), "rank {rank} of {size}: {status}");
        // A test program that knows no test of this name succeeds too.
        assert!(ranks.folder.join(format!("began.{rank}")).exists(), "no test is called {name}");
    }
}

/// Whether this process is a rank of a test in another one.
pub(crate) fn is_rank() -> bool {
    env::var_os(RANK).is_some()
}

/// Which.
pub(crate) fn rank() -> usize {
    env::var(RANK).unwrap().parse().unwrap()
}

/// The folder that the ranks of one test share.
pub(crate) fn folder() -> PathBuf {
    PathBuf::from(env::var_os(FOLDER).unwrap())
}

/// The processes of one test.
pub(crate) struct Ranks {
    pub(crate) children: Vec<Child>,
    pub(crate) folder: PathBuf,
}

impl Ranks {
    /// Starts this test program once for each rank of the test called `name`.
    pub(crate) fn spawn(name: &str, size: usize) -> Self {
        Self::spawn_told(name, size, &[])
    }

    /// As [`Ranks::spawn`], with files in the folder from the beginning.
    pub(crate) fn spawn_told(name: &str, size: usize, files: &[(&str, &str)]) -> Self {
        Self::start(name, size, files, |program, _, _| Command::new(program))
    }

    /// As [`Ranks::spawn`]; `command` makes the command that runs the program for a rank: under a tool, or with an
    /// environment of its own. The test's arguments follow.
    pub(crate) fn spawn_by(
        name: &str,
        size: usize,
        command: impl Fn(PathBuf, usize, &Path) -> Command,
    ) -> Self {
        Self::start(name, size, &[], command)
    }

    fn start(
        name: &str,
        size: usize,
        files: &[(&str, &str)],
        command: impl Fn(PathBuf, usize, &Path) -> Command,
    ) -> Self {
        let folder = fresh_folder(name);
        files.iter().for_each(|(file, content)| fs::write(folder.join(file), content).unwrap());
        let program = |rank: usize| command(env::current_exe().unwrap(), rank, &folder);
        let children = (0..size).map(|rank| start(program(rank), name, rank, &folder)).collect();
        Self { children, folder }
    }

    /// Waits for all of them.
    pub(crate) fn wait_all(&mut self) -> Vec<ExitStatus> {
        let until = Instant::now() + DEADLINE * 2;
        (0..self.children.len()).map(|rank| self.wait(rank, until)).collect()
    }

    /// Waits for one of them.
    pub(crate) fn wait(&mut self, rank: usize, until: Instant) -> ExitStatus {
        loop {
            if let Some(status) = self.children[rank].try_wait().unwrap() {
                return status;
            }
            assert!(Instant::now() < until, "rank {rank} hangs");
            thread::sleep(Duration::from_millis(2));
        }
    }

    /// Starts a rank again that has ended, by a command as in [`Ranks::spawn_by`].
    pub(crate) fn replace(
        &mut self,
        name: &str,
        rank: usize,
        command: impl Fn(PathBuf, usize, &Path) -> Command,
    ) {
        let program = command(env::current_exe().unwrap(), rank, &self.folder);
        self.children[rank] = start(program, name, rank, &self.folder);
    }

    /// Sends a signal to a rank.
    pub(crate) fn signal(&self, rank: usize, signal: i32) {
        let pid = i32::try_from(self.children[rank].id()).unwrap();
        // SAFETY: the child has not been waited for, so the number is still its own.
        assert_eq!(unsafe { libc::kill(pid, signal) }, 0);
    }
}

/// Starts the program of a command as a rank of a test.
fn start(mut command: Command, name: &str, rank: usize, folder: &Path) -> Child {
    command
        .args([name, "--exact", "--include-ignored", "--nocapture", "--test-threads=1"])
        .env(RANK, rank.to_string())
        .env(FOLDER, folder)
        .stdin(Stdio::null())
        .spawn()
        .unwrap()
}

impl Drop for Ranks {
    fn drop(&mut self) {
        for child in &mut self.children {
            let _ = child.kill();
            let _ = child.wait();
        }
        let _ = fs::remove_dir_all(&self.folder);
    }
}

/// An empty folder that belongs to one run of one test.
pub(crate) fn fresh_folder(name: &str) -> PathBuf {
    static MADE: AtomicUsize = AtomicUsize::new(0);
    let base = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let number = MADE.fetch_add(1, Ordering::Relaxed);
    let folder = base.join(format!("{name}-{}-{number}", std::process::id()));
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).unwrap();
    folder
}

/// Tells the others of a test something, in its folder.
pub(crate) fn mark(name: &str) {
    mark_in(&folder(), name);
}

/// As [`mark`], by the process that has started the ranks.
pub(crate) fn mark_in(folder: &Path, name: &str) {
    fs::write(folder.join(name), b"").unwrap();
}

/// Waits until somebody has marked it.
pub(crate) fn await_mark(folder: &Path, name: &str) {
    let until = Instant::now() + DEADLINE;
    while !folder.join(name).exists() {
        assert!(Instant::now() < until, "nobody marked {name}");
        thread::sleep(Duration::from_millis(2));
    }
}
