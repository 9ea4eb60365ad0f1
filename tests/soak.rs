//! Hours of use in short: 4 processes make worlds, use them in every way, lose a process now and then, and go on.
//!
//! `make soak` runs it for `SOAK_SECONDS` (1800 by default), `make test` for some seconds. A run is a chain of lives
//! (`soak/life.rs`). After each life the processes hold one world of the first two, which lasts for the whole run, and
//! nothing else: there they note what they have (`soak/figures.rs`), and in the end that is judged and printed.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "soak/acts.rs"]
mod acts;
#[path = "soak/figures.rs"]
mod figures;
#[path = "soak/life.rs"]
mod life;
#[path = "programs/program.rs"]
mod program;
#[path = "programs/rank.rs"]
mod rank;
mod ranks;
mod reference;
#[path = "soak/war.rs"]
mod war;

use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use figures::{Counting, Figures};
use ranks::Ranks;

/// Processes. They are called slots here: their ranks differ from world to world.
const SLOTS: usize = 4;

/// Slots that live for the whole run, and have a world of their own for as long. The others are killed in turn.
const LASTING: usize = 2;

#[global_allocator]
static ALLOCATOR: Counting = Counting;

#[test]
fn a_short_soak_leaves_nothing_behind() {
    soak("a_short_soak_leaves_nothing_behind", Duration::from_secs(10));
}

#[test]
#[ignore = "long: make soak"]
fn a_soak_leaves_nothing_behind() {
    let seconds = std::env::var("SOAK_SECONDS").map_or(1800, |text| text.parse().unwrap());
    soak("a_soak_leaves_nothing_behind", Duration::from_secs(seconds));
}

fn soak(name: &str, duration: Duration) {
    if ranks::is_rank() {
        return life::live(duration);
    }
    let mut processes = Ranks::spawn_by(name, SLOTS, silent);
    let deaths = watch(&mut processes, name);
    let figures = Figures::read(&processes.folder);
    println!("{deaths} processes were killed and replaced\n{figures}");
    figures.judge();
}

/// Replaces those that are killed, until all have ended well. Returns how many that were.
fn watch(processes: &mut Ranks, name: &str) -> usize {
    let (mut deaths, mut seen) = (0, (life::reached(&processes.folder), Instant::now()));
    let mut running = [true; SLOTS];
    while running.contains(&true) {
        for slot in (0..SLOTS).filter(|slot| running[*slot]).collect::<Vec<_>>() {
            let Some(status) = processes.children[slot].try_wait().unwrap() else { continue };
            if slot >= LASTING && is_killed(status) {
                deaths += 1;
                processes.replace(name, slot, silent);
                continue;
            }
            assert!(status.success(), "slot {slot} in life {:?}: {status}", seen.0);
            running[slot] = false;
        }
        let reached = life::reached(&processes.folder);
        if reached != seen.0 {
            seen = (reached, Instant::now());
        }
        assert!(seen.1.elapsed() < ranks::DEADLINE, "somebody hangs in the lives {:?}", seen.0);
        thread::sleep(Duration::from_millis(5));
    }
    deaths
}

/// A slot's command; what the test program says of itself is nothing to anybody.
fn silent(program: PathBuf, _: usize, _: &Path) -> Command {
    let mut command = Command::new(program);
    command.stdout(Stdio::null());
    command
}

fn is_killed(status: ExitStatus) -> bool {
    status.signal() == Some(libc::SIGKILL)
}
