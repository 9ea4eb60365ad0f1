//! One rank: a child process that leads a process group and dies with the launcher.

use std::ffi::OsString;
use std::fmt::{self, Display};
use std::io::{self, IsTerminal};
use std::mem::MaybeUninit;
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStderr, ChildStdout, Command, Stdio, id};

use super::group::Group;
use super::guard::Watch;
use super::signals;
use super::store::Meeting;

/// What all ranks of a run share.
pub(super) struct Setting<'a> {
    pub(super) size: u32,
    /// Never empty: the command line asks for it.
    pub(super) program: &'a [OsString],
    pub(super) store: &'a Meeting,
}

pub(super) struct Rank {
    child: Child,
    group: Group,
    end: Option<End>,
}

/// How a rank ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum End {
    Exited(i32),
    Signalled(i32),
}

impl End {
    /// The status by which a shell would tell it.
    pub(super) fn status(self) -> u8 {
        let (Self::Exited(status) | Self::Signalled(status)) = self;
        let base = if matches!(self, Self::Exited(_)) { 0 } else { 128 };
        u8::try_from(base + status).unwrap_or(u8::MAX)
    }
}

impl Display for End {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Exited(status) => write!(f, "exited with status {status}"),
            Self::Signalled(signal) => write!(f, "was ended by signal {signal}"),
        }
    }
}

/// A program that could not be started, and the status for it (as shells have it).
#[derive(Debug)]
pub(super) struct Failure {
    text: String,
    pub(super) status: u8,
}

impl Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl Rank {
    pub(super) fn start(
        rank: u32,
        setting: &Setting<'_>,
        watch: io::Result<Watch>,
        piped: bool,
    ) -> Result<Self, Failure> {
        let mut watch = watch.map_err(|error| failure(&setting.program[0], &error))?;
        let mut command = command(rank, setting);
        if piped {
            command.stdout(Stdio::piped()).stderr(Stdio::piped());
        }
        let launcher = id();
        // SAFETY: `settle` makes system calls only, all of them async-signal-safe, and allocates nothing.
        unsafe { command.pre_exec(move || settle(launcher, &mut watch)) };
        let child = command.spawn().map_err(|error| failure(&setting.program[0], &error))?;
        let group = Group::try_from(child.id()).unwrap_or(0);
        Ok(Self { child, group, end: None })
    }

    /// Its process group: the process itself and what it has started.
    pub(super) fn group(&self) -> Group {
        self.group
    }

    /// The pipes of a rank that was started with them; once.
    pub(super) fn pipes(&mut self) -> (Option<ChildStdout>, Option<ChildStderr>) {
        (self.child.stdout.take(), self.child.stderr.take())
    }

    pub(super) fn has_ended(&self) -> bool {
        self.end.is_some()
    }

    /// Tells how the rank ended if that is new since the last look. It stays a zombie until `reap`.
    pub(super) fn look_for_end(&mut self) -> Option<End> {
        if self.end.is_some() {
            return None;
        }
        self.end = ended(self.child.id());
        self.end
    }

    pub(super) fn reap(&mut self) {
        let _ = self.child.wait();
    }
}

fn command(rank: u32, setting: &Setting<'_>) -> Command {
    let (rank_text, size) = (rank.to_string(), setting.size.to_string());
    let mut command = Command::new(&setting.program[0]);
    command
        .args(&setting.program[1..])
        .env("LIBCOLLECT_RANK", &rank_text)
        .env("LIBCOLLECT_SIZE", &size)
        .env("LIBCOLLECT_LOCAL_RANK", &rank_text)
        .env("LIBCOLLECT_LOCAL_SIZE", &size)
        .env("LIBCOLLECT_STORE", &setting.store.url)
        .process_group(0);
    if let Some(token) = &setting.store.token {
        command.env("LIBCOLLECT_STORE_TOKEN", token);
    }
    // A terminal would stop a background group that reads it.
    if rank != 0 || io::stdin().is_terminal() {
        command.stdin(Stdio::null());
    }
    command
}

/// In the child before `exec`: has the kernel kill this process when its parent dies. Safe between `fork` and `exec`.
pub(crate) fn die_with(parent: u32) -> io::Result<()> {
    // SAFETY: takes numbers only.
    if unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) } != 0 {
        return Err(io::Error::last_os_error());
    }
    // A parent that died before that call has left us to another one.
    if std::os::unix::process::parent_id() != parent {
        return Err(io::Error::from_raw_os_error(libc::ESRCH));
    }
    Ok(())
}

fn failure(program: &OsString, error: &io::Error) -> Failure {
    let status = if error.kind() == io::ErrorKind::NotFound { 127 } else { 126 };
    Failure { text: format!("start {}: {error}", program.display()), status }
}

/// In the child before `exec`: dies with the launcher, is watched by the guard, and takes signals again.
fn settle(launcher: u32, watch: &mut Watch) -> io::Result<()> {
    die_with(launcher)?;
    // `process_group(0)` has been carried out: the group has this process's number.
    watch.announce(id())?;
    signals::unblock_all()
}

/// How a child ended, if it has. It is left to be reaped.
fn ended(process: u32) -> Option<End> {
    let mut info = MaybeUninit::<libc::siginfo_t>::zeroed();
    let how = libc::WEXITED | libc::WNOHANG | libc::WNOWAIT;
    // SAFETY: writable for one `siginfo_t`.
    let code = unsafe { libc::waitid(libc::P_PID, process, info.as_mut_ptr(), how) };
    // SAFETY: zeroes are a valid `siginfo_t`, and so is what `waitid` writes.
    let info = unsafe { info.assume_init() };
    // SAFETY: `waitid` has filled the fields of a child, or left zeroes.
    let child = unsafe { info.si_pid() };
    // SAFETY: as above.
    let status = unsafe { info.si_status() };
    match (code, child, info.si_code) {
        (0, 0, _) => None,
        (0, _, libc::CLD_EXITED) => Some(End::Exited(status)),
        (0, _, _) => Some(End::Signalled(status)),
        _ if io::Error::last_os_error().kind() == io::ErrorKind::Interrupted => None,
        // No such child: somebody else has reaped it, and its status is lost.
        _ => Some(End::Exited(255)),
    }
}
