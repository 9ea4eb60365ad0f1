//! What `strace -f` wrote: the system calls of each thread, and which thread is the library's.

use std::collections::HashSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// System calls of one process.
#[derive(Debug)]
pub(crate) struct Trace {
    /// Thread and text, in order; a call that was interrupted in the trace counts where it began.
    calls: Vec<(u32, String)>,
    background: HashSet<u32>,
}

impl Trace {
    pub(crate) fn read(path: &Path) -> Self {
        let text = fs::read_to_string(path).unwrap();
        let mut trace = Self { calls: Vec::new(), background: HashSet::new() };
        for line in text.lines() {
            let Some((thread, call)) = line.split_once(' ') else { continue };
            let (thread, call) = (thread.parse().unwrap(), call.trim_start());
            if call.starts_with(['<', '-', '+']) {
                continue;
            }
            if call.starts_with("prctl(PR_SET_NAME, \"collect\"") {
                trace.background.insert(thread);
            }
            trace.calls.push((thread, call.to_owned()));
        }
        assert_eq!(trace.background.len(), 1, "background threads in {}", path.display());
        trace
    }

    /// Calls of all threads, and those of the background thread.
    pub(crate) fn counts(&self) -> (usize, usize) {
        let background = self.calls.iter().filter(|(thread, _)| self.background.contains(thread));
        (self.calls.len(), background.count())
    }

    /// Calls between two that contain these texts.
    pub(crate) fn between(&self, first: &str, last: &str) -> Vec<&(u32, String)> {
        let after = self.calls.iter().skip_while(|(_, call)| !call.contains(first)).skip(1);
        let calls: Vec<_> = after.collect();
        let end = calls.iter().position(|(_, call)| call.contains(last)).expect("the last mark");
        calls[..end].to_vec()
    }
}

/// The command that runs a program under `strace`.
pub(crate) fn command(program: PathBuf, output: &Path) -> Command {
    let mut command = Command::new("strace");
    command.args(["-f", "-qq", "-s", "16", "-o"]).arg(output).arg(program);
    command
}

/// Whether processes may be traced here; if not, that is noted as skipped.
pub(crate) fn is_possible(test: &str) -> bool {
    let mut command = Command::new("strace");
    command.args(["-f", "-o", "/dev/null", "true"]).stderr(Stdio::null());
    let works = command.status().is_ok_and(|status| status.success());
    if !works && let Some(skips) = std::env::var_os("COLLECT_SKIPS") {
        use std::io::Write;
        let file = fs::OpenOptions::new().append(true).create(true).open(skips);
        writeln!(file.unwrap(), "{test}: strace is not there, or may not trace").unwrap();
    }
    works
}
