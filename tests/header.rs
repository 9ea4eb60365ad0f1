//! The committed header is what cbindgen makes of `src/ffi`, and its example is the one that is built and run.
//!
//! `COLLECT_WRITE_HEADER=1 cargo test --test header` rewrites the header.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::path::{Path, PathBuf};
use std::{env, fs};

/// The sections of the header, in the order in which a newcomer reads them.
const SECTIONS: &[&str] = &[
    "version",
    "status",
    "types",
    "options",
    "store",
    "world",
    "collectives",
    "gathers",
    "scatters",
    "partial",
    "messages",
    "reduction",
    "batch",
    "request",
];

/// Lines of comment among all lines that are not empty.
const PROSE_PERCENT_MIN: usize = 80;

const HEADER: &str = "include/collect/collect.h";
const EXAMPLE: &str = "examples/c/allreduce.c";

#[test]
fn the_header_is_current() {
    let made = generate();
    if env::var_os("COLLECT_WRITE_HEADER").is_some() {
        fs::create_dir_all(at("include/collect")).unwrap();
        fs::write(at(HEADER), &made).unwrap();
    }
    let committed = fs::read_to_string(at(HEADER)).unwrap_or_default();
    let line = first_difference(&committed, &made);
    assert!(
        line.is_none(),
        "{HEADER}:{}: stale: COLLECT_WRITE_HEADER=1 cargo test --test header",
        line.unwrap_or_default()
    );
}

#[test]
fn every_section_has_its_file_and_every_file_its_section() {
    let parts = ["mod", "guard", "sized", "pointer", "caller"];
    for entry in fs::read_dir(at("src/ffi")).unwrap() {
        let path = entry.unwrap().path();
        let text = fs::read_to_string(&path).unwrap_or_default();
        let name = path.file_stem().unwrap().to_str().unwrap();
        let exports = text.contains("no_mangle");
        assert!(
            SECTIONS.contains(&name) || parts.contains(&name) || !exports,
            "{name}: no section"
        );
    }
    for section in SECTIONS {
        assert!(section_path(section).exists(), "src/ffi/{section}.rs is missing");
    }
}

#[test]
fn the_header_is_a_manual() {
    let header = fs::read_to_string(at(HEADER)).unwrap();
    let percent = prose_percent(&header);
    println!("{HEADER}: {percent} % prose");
    assert!(percent >= PROSE_PERCENT_MIN, "{percent} % prose, at least {PROSE_PERCENT_MIN}");
}

#[test]
fn readers_see_the_example_that_is_built_and_run() {
    let example = fs::read_to_string(at(EXAMPLE)).unwrap();
    for reader in ["README.md", HEADER] {
        let text = fs::read_to_string(at(reader)).unwrap();
        assert!(text.contains(&example), "{reader} does not hold {EXAMPLE} as it is");
    }
}

/// A thread that is cancelled inside of a call ends as the call returns, which unwinds it (`ffi/guard`).
#[test]
fn every_entry_point_may_be_unwound_by_a_cancellation() {
    for section in SECTIONS {
        let text = fs::read_to_string(section_path(section)).unwrap();
        for (at, line) in text.lines().enumerate().filter(|(_, line)| is_entry_point(line)) {
            let may = line.contains("extern \"C-unwind\" fn");
            assert!(may, "src/ffi/{section}.rs:{}: not extern \"C-unwind\"", at + 1);
        }
    }
}

fn is_entry_point(line: &str) -> bool {
    line.starts_with("pub ") && line.contains("extern ") && line.contains(" fn collect_")
}

fn generate() -> String {
    let config = cbindgen::Config::from_file(at("cbindgen.toml")).unwrap();
    let mut builder = cbindgen::Builder::new().with_config(config);
    for section in SECTIONS {
        builder = builder.with_src(section_path(section));
    }
    let mut made = Vec::new();
    builder.generate().unwrap().write(&mut made);
    String::from_utf8(made).unwrap()
}

fn section_path(section: &str) -> PathBuf {
    at(&format!("src/ffi/{section}.rs"))
}

fn at(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(path)
}

/// The number of the first line in which two texts differ.
fn first_difference(one: &str, other: &str) -> Option<usize> {
    let (mut ones, mut others) = (one.split('\n'), other.split('\n'));
    (1..).find_map(|number| match (ones.next(), others.next()) {
        (None, None) => Some(None),
        (one, other) if one != other => Some(Some(number)),
        _ => None,
    })?
}

/// The share of lines of comment.
fn prose_percent(header: &str) -> usize {
    let (mut prose, mut all, mut is_comment) = (0, 0, false);
    for line in header.lines().map(str::trim).filter(|line| !line.is_empty()) {
        is_comment |= line.starts_with("/*");
        prose += usize::from(is_comment);
        all += 1;
        is_comment &= !line.ends_with("*/");
    }
    prose * 100 / all.max(1)
}

#[test]
fn a_planted_difference_is_found() {
    assert_eq!(first_difference("a\nb\n", "a\nb\n"), None);
    assert_eq!(first_difference("a\nb\n", "a\nc\n"), Some(2));
    assert_eq!(first_difference("a\nb", "a\nb\n"), Some(3));
    assert_eq!(first_difference("", "a"), Some(1));
}

#[test]
fn entry_points_are_known_by_their_first_line() {
    assert!(is_entry_point("pub unsafe extern \"C\" fn collect_go("));
    assert!(is_entry_point("pub extern \"C-unwind\" fn collect_go() -> u32 {"));
    assert!(!is_entry_point("    unsafe extern \"C\" fn collect_go("));
}

#[test]
fn comments_are_prose() {
    assert_eq!(prose_percent("/* one\n * two\n * three\n */\n\nint x;\n"), 80);
}
