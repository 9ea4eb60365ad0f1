//! The file store: processes, crashes, and what file systems do.

use std::fs::{self, File};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Stdio};

use collect::Error;
use collect::store::{FileStore, Store};

use crate::{Directory, child_command, generous, soon, start_child};

pub(crate) fn child_adds(path: &str) {
    let store = FileStore::open(path).unwrap();
    store.get("go", generous()).unwrap();
    for _ in 0..200 {
        store.add("sum", 1, generous()).unwrap();
    }
    let desired = std::process::id().to_string();
    if store.compare_and_set("winner", None, desired.as_bytes(), generous()).unwrap().is_none() {
        store.add("winners", 1, generous()).unwrap();
    }
}

pub(crate) fn child_holds_the_lock(path: &str) {
    let lock = File::options().write(true).open(Path::new(path).join(".lock")).unwrap();
    lock.lock().unwrap();
    println!("\nready");
    FileStore::open(path).unwrap().get("never", generous()).unwrap_err();
}

pub(crate) fn child_writes_too_much(path: &str) {
    let store = FileStore::open(path).unwrap();
    store.set("k", b"old", generous()).unwrap();
    let e = store.set("k", &[1; 1 << 20], generous()).unwrap_err();
    let text = e.to_string();
    assert!(matches!(e, Error::Store(_)), "{text}");
    assert!(text.contains("write") && text.contains(path) && text.contains("arge"), "{text}");
    assert_eq!(store.get("k", generous()).unwrap(), b"old");
    assert!(!Path::new(path).join(".new").exists());
}

#[test]
fn processes_share_a_directory() {
    let directory = Directory::new();
    let path = directory.path().to_str().unwrap();
    let children =
        [(); 4].map(|()| child_command("add", path).stdout(Stdio::null()).spawn().unwrap());
    let store = FileStore::open(path).unwrap();
    store.set("go", b"", generous()).unwrap();
    for mut child in children {
        assert!(child.wait().unwrap().success());
    }
    assert_eq!(store.get("sum", generous()).unwrap(), b"800");
    assert_eq!(store.get("winners", generous()).unwrap(), b"1");
}

#[test]
fn a_holder_of_the_lock_delays_changes_until_it_is_killed() {
    let directory = Directory::new();
    let store = FileStore::open(directory.path()).unwrap();
    store.set("k", b"1", generous()).unwrap();
    let mut holder = start_child("hold the lock", directory.path().to_str().unwrap());
    let errors = [
        store.set("k", b"2", soon()).unwrap_err(),
        store.add("k", 1, soon()).unwrap_err(),
        store.compare_and_set("k", None, b"2", soon()).unwrap_err(),
        store.delete("k", soon()).unwrap_err(),
    ];
    for e in errors {
        let text = e.to_string();
        assert!(matches!(e, Error::TimedOut { .. }), "{text}");
        assert!(text.contains("\"k\"") && text.contains(".lock"), "{text}");
    }
    assert_eq!(store.get("k", generous()).unwrap(), b"1");
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| store.add("k", 1, generous()));
        holder.kill().unwrap();
        assert_eq!(waiting.join().unwrap(), Ok(2));
    });
    holder.wait().unwrap();
}

#[test]
fn what_a_crash_leaves_behind_harms_nobody() {
    let directory = Directory::new();
    let store = FileStore::open(directory.path()).unwrap();
    fs::write(directory.path().join(".new"), b"half a val").unwrap();
    store.set("k", b"v", generous()).unwrap();
    assert_eq!(store.get("k", generous()).unwrap(), b"v");
    // Nor does a link in its place: it is not followed.
    let other = directory.path().join("other");
    fs::write(&other, b"other").unwrap();
    std::os::unix::fs::symlink(&other, directory.path().join(".new")).unwrap();
    store.set("k", b"w", generous()).unwrap();
    assert_eq!(fs::read(&other).unwrap(), b"other");
    assert_eq!(store.get("k", generous()).unwrap(), b"w");
}

#[test]
fn only_the_owner_can_read() {
    let directory = Directory::new();
    let path = directory.path().join("a/b");
    let store = FileStore::open(&path).unwrap();
    store.set("k/1", b"v", generous()).unwrap();
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&path), 0o700);
    assert_eq!(mode(&path.join("k%2F1")), 0o600);
    assert_eq!(mode(&path.join(".lock")), 0o600);
    assert_eq!(fs::read_dir(&path).unwrap().count(), 2);
}

#[test]
fn a_directory_that_cannot_be_used_is_named() {
    let directory = Directory::new();
    let file = directory.path().join("file");
    fs::write(&file, b"").unwrap();
    for (path, operation) in [
        (file.clone(), "not a directory"),
        (file.join("below"), "create directory"),
        ("/proc/none".into(), "create directory"),
        ("/proc".into(), "create"),
        ("/dev/null".into(), "not a directory"),
    ] {
        let e = FileStore::open(&path).unwrap_err();
        let text = e.to_string();
        assert!(matches!(e, Error::Store(_)), "{text}");
        assert!(text.contains(path.to_str().unwrap()) && text.contains(operation), "{text}");
    }
    assert!(matches!(FileStore::open(""), Err(Error::InvalidArgument(_))));
}

#[test]
fn a_directory_that_is_gone_is_an_error_and_not_a_wait() {
    let directory = Directory::new();
    let store = FileStore::open(directory.path().join("s")).unwrap();
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| store.get("k", generous()));
        assert!(store.get("k", soon()).is_err());
        fs::remove_dir_all(directory.path().join("s")).unwrap();
        let e = waiting.join().unwrap().unwrap_err();
        assert!(matches!(e, Error::Store(_)), "{e}");
    });
    let e = store.set("k", b"", generous()).unwrap_err();
    assert!(matches!(e, Error::Store(_)), "{e}");
}

#[test]
fn a_file_that_is_no_value_is_an_error() {
    let directory = Directory::new();
    let store = FileStore::open(directory.path()).unwrap();
    fs::create_dir(directory.path().join("k")).unwrap();
    let e = store.get("k", generous()).unwrap_err();
    assert!(matches!(&e, Error::Store(text) if text.contains("/k")), "{e}");
    let e = store.set("k", b"", generous()).unwrap_err();
    assert!(matches!(&e, Error::Store(text) if text.contains("/k")), "{e}");
    File::create(directory.path().join("big")).unwrap().set_len((16 << 20) + 1).unwrap();
    let e = store.get("big", generous()).unwrap_err();
    assert!(matches!(&e, Error::Store(text) if text.contains("too large")), "{e}");
}

#[test]
fn a_write_that_fails_half_way_leaves_the_old_value() {
    let directory = Directory::new();
    let child = child_command("write too much", directory.path().to_str().unwrap());
    // A limit for the size of files, whose signal is ignored: a write fails as on a full disk.
    let mut shell = Command::new("sh");
    shell.args(["-c", "trap '' XFSZ; ulimit -f 64; exec \"$@\"", "sh"]);
    shell.arg(child.get_program()).args(child.get_args()).stdout(Stdio::null());
    shell.envs(child.get_envs().filter_map(|(name, value)| Some((name, value?))));
    assert!(shell.status().unwrap().success());
}
