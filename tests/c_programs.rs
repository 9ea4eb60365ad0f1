//! The programs of `tests/c`, built against the header and the shared object of this build.
//!
//! `make test-c` also builds them as C++11, against the library that is released. Under a sanitizer, which
//! `COLLECT_C_SANITIZER` names to the C compiler, library and programs are both instrumented, and the compiler's runtime
//! serves both; then the faults of `tests/c/planted` must be found.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus};
use std::sync::mpsc;
use std::time::Duration;
use std::{env, fs, thread};

const DEADLINE: Duration = Duration::from_secs(60);

#[test]
fn c_programs_succeed() {
    let folder = library_folder("c_programs_succeed");
    let mut ran = [0, 0];
    for entry in fs::read_dir(root().join("tests/c")).unwrap() {
        let source = entry.unwrap().path();
        if source.extension().is_none_or(|extension| extension != "c") {
            continue;
        }
        let text = fs::read_to_string(&source).unwrap();
        let ranks = text.lines().next().and_then(|line| line.strip_prefix("// ranks: "));
        let program = build(&source, &folder);
        let status = run(&mut command(&program, ranks));
        assert!(status.success(), "{}: {status}", program.display());
        ran[usize::from(ranks.is_some())] += 1;
    }
    assert!(!ran.contains(&0), "tests/c has programs of one process and of several: {ran:?}");
}

/// Runs a program that has a fault. The sanitizer's report is for the caller of this test.
fn runs_into(fault: &str) {
    let program = build(&root().join("tests/c/planted/lent.c"), &library_folder(fault));
    let status = run(Command::new(&program).arg(fault));
    assert!(!status.success(), "nobody has seen the fault {fault:?}");
}

#[test]
#[ignore = "a planted use after free in C, run by name under AddressSanitizer"]
fn a_lent_buffer_that_c_frees_is_found() {
    runs_into("freed");
}

#[test]
#[ignore = "a planted leak in C, run by name under AddressSanitizer"]
fn requests_that_c_loses_are_found() {
    runs_into("leaked");
}

#[test]
#[ignore = "a planted race in C, run by name under ThreadSanitizer"]
fn a_lent_buffer_that_c_writes_to_is_found() {
    runs_into("raced");
}

#[test]
fn a_program_that_hangs_is_found() {
    let child = Command::new("sleep").arg("600").spawn().unwrap();
    assert!(end_of(child, Duration::from_millis(50)).is_none());
}

fn build(source: &Path, folder: &Path) -> PathBuf {
    let program = folder.join(source.file_stem().unwrap());
    let mut command = Command::new(env::var_os("CC").unwrap_or_else(|| "cc".into()));
    command
        .args(["-std=c99", "-g", "-Wall", "-Wextra", "-Werror", "-pedantic", "-pthread", "-I"])
        .arg(root().join("include"))
        .arg(source);
    if let Ok(sanitizer) = env::var("COLLECT_C_SANITIZER") {
        command.arg(format!("-fsanitize={sanitizer}")).args(flags_under(&sanitizer, source));
        if sanitizer == "thread" {
            command.arg(root().join("tests/c/support/tsan_memory.c"));
        }
    }
    command
        .arg(folder.join("libcollect.so.0"))
        .arg(format!("-Wl,-rpath,{}", folder.display()))
        .arg("-o")
        .arg(&program);
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    program
}

/// What a program's line `// under SANITIZER: FLAG, REASON` asks for.
fn flags_under(sanitizer: &str, source: &Path) -> Option<String> {
    let text = fs::read_to_string(source).unwrap();
    let mut flags =
        text.lines().filter_map(|line| line.strip_prefix(&format!("// under {sanitizer}: ")));
    let (flag, _reason) = flags.next()?.split_once(", ").expect("a flag, and the reason for it");
    Some(flag.to_owned())
}

/// Runs a program alone, or as so many ranks.
fn command(program: &Path, ranks: Option<&str>) -> Command {
    let Some(ranks) = ranks else { return Command::new(program) };
    let mut command = Command::new(env!("CARGO_BIN_EXE_collect"));
    command.args(["run", "-n", ranks, "--"]).arg(program);
    command
}

fn run(command: &mut Command) -> ExitStatus {
    let status = end_of(command.spawn().unwrap(), DEADLINE);
    status.unwrap_or_else(|| panic!("{command:?} has not ended after {DEADLINE:?}"))
}

/// How a child ends; `None` if it has to be killed because it does not.
fn end_of(mut child: Child, limit: Duration) -> Option<ExitStatus> {
    let id = child.id();
    let (ended, end) = mpsc::channel();
    let waiting = thread::spawn(move || ended.send(child.wait().unwrap()));
    let status = end.recv_timeout(limit).ok();
    if status.is_none() {
        // The child is not reaped yet, so its number is still its own.
        Command::new("kill").args(["-KILL", &id.to_string()]).status().unwrap();
    }
    waiting.join().unwrap().ok();
    status
}

/// A folder that has the shared object by the name under which programs load it.
fn library_folder(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("c_programs").join(name);
    fs::create_dir_all(&folder).unwrap();
    let link = folder.join("libcollect.so.0");
    if let Err(error) = fs::remove_file(&link) {
        assert!(error.kind() == std::io::ErrorKind::NotFound, "{error}");
    }
    symlink(shared_object(), &link).unwrap();
    folder
}

/// Cargo puts the crate's shared object beside the tests, or one folder up.
fn shared_object() -> PathBuf {
    let test = env::current_exe().unwrap();
    let mut folders = test.ancestors().skip(1).take(2).map(|folder| folder.join("libcollect.so"));
    folders.find(|path| path.exists()).expect("cargo builds the cdylib with the tests")
}

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}
