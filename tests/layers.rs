//! Each layer names only the layers below it, and only a few may be unsafe or name libc.
//!
//! A path through the crate is written `crate::layer::…`, one `use` per layer, so that this test needs no parser.
//! `ffi` alone may also use what `lib.rs` re-exports (`crate::World`, `crate::{Op, World}`).
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fs;
use std::path::{Path, PathBuf};

/// Values: they use each other only, and every layer may name them.
const VALUES: &[&str] = &["error", "datatype", "config"];

/// A layer, and what it may name besides the values: a layer, or one part of it.
const MAY_NAME: &[(&str, &[&str])] = &[
    ("reduce", &["memory"]),
    ("memory", &[]),
    ("cuda", &["memory", "reduce"]),
    ("link", &["memory"]),
    ("plan", &[]),
    ("engine", &["plan", "link", "memory", "reduce", "cuda"]),
    ("store", &["link::syscall"]),
    ("rendezvous", &["store", "link"]),
    ("collective", &["plan", "engine"]),
    ("world", &["collective", "engine", "rendezvous", "store"]),
    ("ffi", &["world", "store", "link::syscall::cancellation"]),
];

/// Layers with unsafe code; all others forbid it.
const MAY_BE_UNSAFE: &[&str] = &["ffi", "link", "memory", "cuda", "reduce"];

/// Where system calls are; a file, or what lies below a folder of that name.
const SYSTEM_CALLS: &str = "link/syscall";

/// A source file: its path below `src`, and its text.
struct Source {
    path: String,
    text: String,
}

impl Source {
    fn layer(&self) -> &str {
        self.path.split('/').next().unwrap().trim_end_matches(".rs")
    }
}

#[test]
fn layers_name_only_what_is_below_them() {
    assert_none(sources().iter().flat_map(names_from_above));
}

#[test]
fn unsafe_code_is_forbidden_where_it_is_not_needed() {
    assert_none(sources().iter().filter_map(lacks_forbid));
}

#[test]
fn libc_is_named_in_one_place() {
    assert_none(sources().iter().flat_map(names_libc));
}

fn assert_none(faults: impl Iterator<Item = String>) {
    let faults: Vec<_> = faults.collect();
    assert!(faults.is_empty(), "\n{}", faults.join("\n"));
}

fn names_from_above(source: &Source) -> Vec<String> {
    let layer = source.layer();
    faults(source, |line| {
        let paths = line.match_indices("crate::").map(|(at, word)| &line[at + word.len()..]);
        let mut refused = paths.filter(|path| !may_name(layer, path));
        refused.next().map(|path| format!("{layer} names crate::{}", name(path)))
    })
}

fn names_libc(source: &Source) -> Vec<String> {
    let inside = source.path.strip_prefix(SYSTEM_CALLS);
    if inside.is_some_and(|rest| rest == ".rs" || rest.starts_with('/')) {
        return Vec::new();
    }
    faults(source, |line| {
        line.contains("libc::").then(|| format!("only {SYSTEM_CALLS} names libc"))
    })
}

fn lacks_forbid(source: &Source) -> Option<String> {
    let layer = source.layer();
    let is_root = source.path == format!("{layer}.rs") || source.path == format!("{layer}/mod.rs");
    let forbids = source.text.contains("#![forbid(unsafe_code)]");
    (is_root && !forbids && !MAY_BE_UNSAFE.contains(&layer))
        .then(|| format!("src/{} lacks #![forbid(unsafe_code)]", source.path))
}

/// What `judge` finds in lines of code, with file and line. Comments name what they like.
fn faults(source: &Source, judge: impl Fn(&str) -> Option<String>) -> Vec<String> {
    let lines = source.text.lines().enumerate();
    let code = lines.filter(|(_, line)| !line.trim_start().starts_with("//"));
    code.filter_map(|(at, line)| {
        judge(line).map(|fault| format!("src/{}:{}: {fault}", source.path, at + 1))
    })
    .collect()
}

/// Whether a line of `layer` may hold `crate::` and then `path`.
fn may_name(layer: &str, path: &str) -> bool {
    let named = name(path);
    let is_reexport = named.is_empty() || named.starts_with(char::is_uppercase);
    let below =
        MAY_NAME.iter().find(|(name, _)| *name == layer).map_or(&[][..], |(_, below)| below);
    let is_below = below.iter().any(|allowed| {
        path.strip_prefix(allowed).is_some_and(|rest| !rest.starts_with(is_part_of_a_name))
    });
    named == layer || VALUES.contains(&named) || is_below || (layer == "ffi" && is_reexport)
}

/// The name that `path` begins with; nothing before a brace.
fn name(path: &str) -> &str {
    &path[..path.find(|c| !is_part_of_a_name(c)).unwrap_or(path.len())]
}

fn is_part_of_a_name(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// Every source file below `src`, save `lib.rs` and the programs.
fn sources() -> Vec<Source> {
    let src = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut found = Vec::new();
    collect_sources(&src, &src, &mut found);
    assert!(!found.is_empty());
    found
}

fn collect_sources(src: &Path, folder: &Path, found: &mut Vec<Source>) {
    let mut paths: Vec<PathBuf> =
        fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    for path in paths {
        let below = path.strip_prefix(src).unwrap().to_str().unwrap().to_owned();
        if path.is_dir() && below != "bin" {
            collect_sources(src, &path, found);
        } else if path.extension().is_some_and(|ext| ext == "rs") && below != "lib.rs" {
            found.push(Source { text: fs::read_to_string(&path).unwrap(), path: below });
        }
    }
}

fn planted(path: &str, text: &str) -> Source {
    Source { path: path.to_owned(), text: text.to_owned() }
}

#[test]
fn a_planted_name_from_above_is_found() {
    let faults = names_from_above(&planted("plan/ring.rs", "//! Plans.\nuse crate::engine::Lane;"));
    assert_eq!(faults, ["src/plan/ring.rs:2: plan names crate::engine"]);
    let grouped = planted("plan/ring.rs", "use crate::{engine, link};");
    assert_eq!(names_from_above(&grouped).len(), 1);
}

#[test]
fn names_from_below_pass() {
    for (path, line) in [
        ("engine/lane.rs", "use crate::link::Link;"),
        ("engine/lane.rs", "use crate::engine::Wait;"),
        ("plan/mod.rs", "use crate::error::Error;"),
        ("plan/mod.rs", "/// As [`crate::engine::Lane`] does it."),
        ("ffi/world.rs", "use crate::{Op, World};"),
        ("store/file.rs", "use crate::link::syscall;"),
        ("store/file.rs", "use crate::link::syscall::Watch;"),
    ] {
        assert!(names_from_above(&planted(path, line)).is_empty(), "{path}: {line}");
    }
}

#[test]
fn one_part_of_a_layer_is_not_all_of_it() {
    for line in ["use crate::link::Link;", "use crate::link;", "use crate::link::syscalls;"] {
        assert_eq!(names_from_above(&planted("store/file.rs", line)).len(), 1, "{line}");
    }
}

#[test]
fn planted_libc_and_unsafe_are_found() {
    let line = "unsafe { libc::close(3) };";
    assert_eq!(names_libc(&planted("link/tcp/mod.rs", line)).len(), 1);
    for path in ["link/syscall.rs", "link/syscall/epoll.rs"] {
        assert!(names_libc(&planted(path, line)).is_empty(), "{path}");
    }
    assert!(lacks_forbid(&planted("plan/mod.rs", "//! Plans.")).is_some());
    assert!(lacks_forbid(&planted("link/mod.rs", "//! Links.")).is_none());
}
