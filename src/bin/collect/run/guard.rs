//! A second process that ends the ranks' groups when the launcher is killed.
//!
//! The kernel kills the ranks themselves then (`PR_SET_PDEATHSIG`), but not what they started (a shell's program, a
//! loader's workers). The guard reads the groups' numbers from a pipe. Each rank writes its own before it becomes the
//! program, so that none runs unwatched. The pipe's end without a word means that the launcher is gone.

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::AsFd;
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStdin, Command, ExitCode, Stdio};

use super::group::{self, Group};

/// In place of a group's number: they need no guard any more.
const DISMISSED: u32 = 0;

/// The launcher's hold on its guard.
pub(super) struct Guard {
    process: Child,
    pipe: ChildStdin,
}

impl Guard {
    pub(super) fn start() -> Result<Self, String> {
        let mut process = Command::new("/proc/self/exe")
            .arg("guard-groups")
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            // Out of the reach of a terminal's Ctrl-C.
            .process_group(0)
            .spawn()
            .map_err(|error| format!("start the guard process: {error}"))?;
        let pipe = process.stdin.take().ok_or("the guard process has no pipe")?;
        Ok(Self { process, pipe })
    }

    /// What a rank announces itself with.
    pub(super) fn watch(&self) -> io::Result<Watch> {
        self.pipe.as_fd().try_clone_to_owned().map(|pipe| Watch(pipe.into()))
    }

    pub(super) fn dismiss(self) {
        let Self { mut process, mut pipe } = self;
        let _ = pipe.write_all(&DISMISSED.to_ne_bytes());
        drop(pipe);
        let _ = process.wait();
    }
}

/// An end of the guard's pipe.
pub(super) struct Watch(File);

impl Watch {
    /// Puts the group of this number under guard. Safe between `fork` and `exec`.
    pub(super) fn announce(&mut self, group: u32) -> io::Result<()> {
        self.0.write_all(&group.to_ne_bytes())
    }
}

/// The guard process.
pub(crate) fn guard() -> Result<ExitCode, String> {
    for group in left_behind(io::stdin().lock()) {
        group::signal(group, libc::SIGKILL);
    }
    Ok(ExitCode::SUCCESS)
}

/// Reads to the end, and returns the groups to be ended.
fn left_behind(mut told: impl Read) -> Vec<Group> {
    let mut groups = Vec::new();
    let mut record = [0; size_of::<u32>()];
    while told.read_exact(&mut record).is_ok() {
        match u32::from_ne_bytes(record) {
            DISMISSED => return Vec::new(),
            group => groups.extend(Group::try_from(group)),
        }
    }
    groups
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pipe_that_ends_without_a_word_leaves_its_groups() {
        let told: Vec<u8> = [17u32, 23].iter().flat_map(|group| group.to_ne_bytes()).collect();
        assert_eq!(left_behind(&told[..]), [17, 23]);
        let dismissed = [&told[..], &DISMISSED.to_ne_bytes()].concat();
        assert!(left_behind(&dismissed[..]).is_empty());
    }
}
