//! One round: starts the ranks as processes, kills the victim once all are inside, and reads what the others say.

use std::collections::BTreeSet;
use std::env;
use std::io::{BufRead, BufReader};
use std::os::unix::process::CommandExt;
use std::process::{self, Child, ChildStdout, Command, Stdio};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::args::{BenchArguments, Scenario};
use crate::run::{self, Meeting};

/// What a rank says when its calls begin.
pub(super) const INSIDE: &str = "inside";

/// For all ranks to come inside, and again for all survivors to return.
const LIMIT: Duration = Duration::from_secs(60);

/// The processes of a round.
pub(super) struct Round {
    victim: usize,
    ranks: Vec<Child>,
    /// What they say, line by line; `None` is the end.
    said: Receiver<(usize, Option<String>)>,
    /// Where they meet; it serves until the round is over.
    meeting: Meeting,
}

/// What a round gave.
pub(super) struct Ended {
    pub(super) killed_ns: u64,
    pub(super) survivors: Vec<Survivor>,
}

/// What a survivor says.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Survivor {
    pub(super) rank: usize,
    /// When its call had returned.
    pub(super) returned_ns: u64,
    /// The rank that its error names.
    pub(super) culprit: Option<usize>,
    /// How many ranks the news went through, if the library's log told.
    pub(super) hops: Option<u32>,
    /// Its error.
    pub(super) text: String,
}

impl Round {
    pub(super) fn start(
        arguments: &BenchArguments,
        scenario: Scenario,
        victim: usize,
        size: usize,
    ) -> Result<Self, String> {
        let meeting = run::serve_store(None)?;
        let (to, said) = channel();
        let mut round = Self { victim, ranks: Vec::new(), said, meeting };
        for rank in 0..size {
            let mut command = round.command(arguments, scenario, (rank, size))?;
            let child = command.spawn().map_err(|error| format!("start rank {rank}: {error}"))?;
            round.ranks.push(child);
            let pipe = round.ranks[rank].stdout.take();
            let (pipe, to) = (pipe.ok_or("a rank has no pipe")?, to.clone());
            thread::spawn(move || tell(rank, pipe, &to));
        }
        Ok(round)
    }

    fn command(
        &self,
        arguments: &BenchArguments,
        scenario: Scenario,
        (rank, size): (usize, usize),
    ) -> Result<Command, String> {
        let program = env::current_exe().map_err(|error| format!("find this program: {error}"))?;
        let mut command = Command::new(program);
        command
            .args(["bench", "failure", "--scenario", scenario.name()])
            .args(["--wait", arguments.wait.name(), "--victim", &self.victim.to_string()])
            .env("LIBCOLLECT_RANK", rank.to_string())
            .env("LIBCOLLECT_SIZE", size.to_string())
            .env("LIBCOLLECT_STORE", &self.meeting.url)
            .envs(self.meeting.token.iter().map(|token| ("LIBCOLLECT_STORE_TOKEN", token)))
            .stdin(Stdio::null())
            .stdout(Stdio::piped());
        let parent = process::id();
        // SAFETY: it makes system calls only, all of them async-signal-safe, and allocates nothing.
        unsafe { command.pre_exec(move || run::die_with(parent)) };
        Ok(command)
    }

    /// Plays it. `number` is the round's.
    pub(super) fn play(mut self, number: usize) -> Result<Ended, String> {
        for (rank, line) in self.hear_all((0..self.ranks.len()).collect(), "not inside")? {
            if line != INSIDE {
                return Err(format!("rank {rank} says {line:?} in place of {INSIDE:?}"));
            }
        }
        // All are in the midst of it then, and not always of the same.
        thread::sleep(Duration::from_micros(20_000 + 777 * (number as u64 % 16)));
        let killed_ns = monotonic_ns();
        let kill = self.ranks[self.victim].kill();
        kill.map_err(|error| format!("kill rank {}: {error}", self.victim))?;
        let survivors = (0..self.ranks.len()).filter(|rank| *rank != self.victim).collect();
        let lines = self.hear_all(survivors, "not returned")?;
        let survivors = lines.iter().map(|(rank, line)| survivor(*rank, line));
        Ok(Ended { killed_ns, survivors: survivors.collect::<Result<_, _>>()? })
    }

    /// A line of each of these ranks.
    fn hear_all(
        &self,
        mut awaited: BTreeSet<usize>,
        missing: &str,
    ) -> Result<Vec<(usize, String)>, String> {
        let until = Instant::now() + LIMIT;
        let mut lines = Vec::with_capacity(awaited.len());
        while !awaited.is_empty() {
            let left = until.saturating_duration_since(Instant::now());
            match self.said.recv_timeout(left) {
                Ok((rank, Some(line))) if awaited.remove(&rank) => lines.push((rank, line)),
                Ok((rank, None)) if awaited.contains(&rank) => {
                    return Err(format!("rank {rank} has ended without a word"));
                }
                Ok(_) => {}
                Err(_) => {
                    return Err(format!("ranks {awaited:?}: {missing} after {LIMIT:?}"));
                }
            }
        }
        Ok(lines)
    }
}

impl Drop for Round {
    fn drop(&mut self) {
        for child in &mut self.ranks {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// Passes on what a rank says, line by line, until its end.
fn tell(rank: usize, pipe: ChildStdout, to: &Sender<(usize, Option<String>)>) {
    for line in BufReader::new(pipe).lines().map_while(Result::ok) {
        // A round that is over listens no more.
        let _ = to.send((rank, Some(line)));
    }
    let _ = to.send((rank, None));
}

/// What a survivor has said.
fn survivor(rank: usize, line: &str) -> Result<Survivor, String> {
    let odd = || format!("rank {rank} says {line:?} in place of its error");
    let told: Value = serde_json::from_str(line).map_err(|_| odd())?;
    Ok(Survivor {
        rank,
        returned_ns: told["returned_ns"].as_u64().ok_or_else(odd)?,
        culprit: told["culprit"].as_u64().and_then(|rank| usize::try_from(rank).ok()),
        hops: told["hops"].as_u64().and_then(|hops| u32::try_from(hops).ok()),
        text: told["text"].as_str().ok_or_else(odd)?.to_owned(),
    })
}

/// The clock that all processes of a host share.
pub(super) fn monotonic_ns() -> u64 {
    let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: writable for a `timespec`; this clock always exists.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut now) };
    let part = |number: i64| u64::try_from(number).unwrap_or(0);
    part(now.tv_sec) * 1_000_000_000 + part(now.tv_nsec)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_survivor_says_when_it_returned_and_whom_it_blames() {
        let line = r#"{"returned_ns": 17, "culprit": 3, "hops": 2, "text": "rank 3 is gone"}"#;
        let told = Survivor {
            rank: 1,
            returned_ns: 17,
            culprit: Some(3),
            hops: Some(2),
            text: "rank 3 is gone".into(),
        };
        assert_eq!(survivor(1, line), Ok(told));
        let line = r#"{"returned_ns": 17, "culprit": null, "hops": null, "text": "aborted"}"#;
        assert_eq!(survivor(1, line).map(|told| (told.culprit, told.hops)), Ok((None, None)));
        assert!(survivor(1, "oops").unwrap_err().contains("rank 1 says \"oops\""));
    }

    #[test]
    fn the_clock_runs() {
        let first = monotonic_ns();
        assert!(first > 0 && monotonic_ns() >= first);
    }
}
