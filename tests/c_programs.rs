//! The programs of `tests/c` that one process runs, built against the header and the shared object of this build.
//!
//! `make test-c` also builds them as C++11, and runs those that need several ranks.
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
    let folder = library_folder();
    let mut ran = 0;
    for entry in fs::read_dir(root().join("tests/c")).unwrap() {
        let source = entry.unwrap().path();
        let is_program = source.extension().is_some_and(|extension| extension == "c");
        if is_program && !fs::read_to_string(&source).unwrap().starts_with("// ranks:") {
            run(&build(&source, &folder));
            ran += 1;
        }
    }
    assert!(ran > 0, "tests/c has no program");
}

#[test]
fn a_program_that_hangs_is_found() {
    let child = Command::new("sleep").arg("600").spawn().unwrap();
    assert!(end_of(child, Duration::from_millis(50)).is_none());
}

fn build(source: &Path, folder: &Path) -> PathBuf {
    let program = folder.join(source.file_stem().unwrap());
    let output = Command::new(env::var_os("CC").unwrap_or_else(|| "cc".into()))
        .args(["-std=c99", "-g", "-Wall", "-Wextra", "-Werror", "-pedantic", "-pthread", "-I"])
        .arg(root().join("include"))
        .arg(source)
        .arg(folder.join("libcollect.so.0"))
        .arg(format!("-Wl,-rpath,{}", folder.display()))
        .arg("-o")
        .arg(&program)
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    program
}

fn run(program: &Path) {
    let child = Command::new(program).spawn().unwrap();
    let status = end_of(child, DEADLINE);
    let name = program.display();
    let status = status.unwrap_or_else(|| panic!("{name} has not ended after {DEADLINE:?}"));
    assert!(status.success(), "{name}: {status}");
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
fn library_folder() -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("c_programs");
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
