//! Rules of style that no lint knows: module docs, length of files, names, waiting, and the changelog's form.
//!
//! A rule is a function over a path and a text that returns what it refuses, so that each is tested on planted faults.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fs;
use std::path::{Path, PathBuf};

const DOC_LINES_MAX: usize = 15;
const FILE_LINES_MAX: usize = 800;
const FILE_LINES_AIM: usize = 500;

/// Names that say nothing of what is inside.
const BANNED_MODULES: &[&str] = &["utils", "util", "common", "misc", "helpers", "types"];

/// The one module of a banned name: the section of the header.
const TYPES_OF_THE_ABI: &str = "src/ffi/types.rs";

/// Where a thread may sleep or yield by itself; everybody else waits for an event.
const MAY_SLEEP: &[&str] = &["src/engine/waiting", "src/bin/collect/"];

/// In pieces, so that this file does not refuse itself.
const SLEEPS: &[&str] = &["thread::sleep", "yield_now", "sleep_ms"];
const UNFINISHED: &[&str] = &[concat!("TO", "DO"), concat!("FIX", "ME"), concat!("to", "do!")];

/// A rule: the lines at fault (0: the file as a whole), and what is wrong there.
type Rule = fn(path: &str, text: &str) -> Vec<(usize, String)>;

const RULES: &[Rule] = &[has_a_doc, is_short_enough, is_well_named, does_not_sleep, is_finished];

#[test]
fn sources_follow_the_rules() {
    let mut faults = Vec::new();
    for (path, text) in sources("src") {
        for rule in RULES {
            let found = rule(&path, &text);
            faults.extend(found.iter().map(|(line, fault)| format!("{path}:{line}: {fault}")));
        }
        if text.lines().count() > FILE_LINES_AIM {
            println!("{path}: {} lines, the aim is {FILE_LINES_AIM}", text.lines().count());
        }
    }
    assert!(faults.is_empty(), "\n{}", faults.join("\n"));
}

#[test]
fn tests_are_short_enough_documented_and_finished() {
    let mut faults = Vec::new();
    for (path, text) in sources("tests") {
        for rule in [has_a_doc, is_short_enough, is_finished] {
            let found = rule(&path, &text);
            faults.extend(found.iter().map(|(line, fault)| format!("{path}:{line}: {fault}")));
        }
    }
    assert!(faults.is_empty(), "\n{}", faults.join("\n"));
}

#[test]
fn the_changelog_has_its_form() {
    let text = fs::read_to_string(root().join("CHANGELOG.md")).unwrap();
    let faults = changelog_faults(&text, env!("CARGO_PKG_VERSION"));
    assert!(faults.is_empty(), "\n{}", faults.join("\n"));
}

fn has_a_doc(_: &str, text: &str) -> Vec<(usize, String)> {
    match text.lines().take_while(|line| line.starts_with("//!")).count() {
        0 => vec![(1, "does not begin with a //! doc".into())],
        1..=DOC_LINES_MAX => Vec::new(),
        lines => vec![(1, format!("a module doc of {lines} lines; at most {DOC_LINES_MAX}"))],
    }
}

fn is_short_enough(_: &str, text: &str) -> Vec<(usize, String)> {
    let lines = text.lines().count();
    if lines <= FILE_LINES_MAX {
        return Vec::new();
    }
    vec![(FILE_LINES_MAX, format!("{lines} lines; at most {FILE_LINES_MAX}"))]
}

fn is_well_named(path: &str, _: &str) -> Vec<(usize, String)> {
    let mut names = path.trim_end_matches(".rs").split('/');
    let banned = names.find(|name| BANNED_MODULES.contains(name) && path != TYPES_OF_THE_ABI);
    banned.map(|name| (0, format!("{name:?} says nothing of what is inside"))).into_iter().collect()
}

fn does_not_sleep(path: &str, text: &str) -> Vec<(usize, String)> {
    if MAY_SLEEP.iter().any(|allowed| path.starts_with(allowed)) {
        return Vec::new();
    }
    lines_with(code_of(text), SLEEPS, "waits for time; wait for an event")
}

fn is_finished(_: &str, text: &str) -> Vec<(usize, String)> {
    lines_with(text, UNFINISHED, "unfinished; file an issue")
}

/// The text before its tests, which may wait for what they watch from outside.
fn code_of(text: &str) -> &str {
    text.split("#[cfg(test)]\nmod ").next().unwrap_or(text)
}

fn lines_with(text: &str, words: &[&str], fault: &str) -> Vec<(usize, String)> {
    let lines = text.lines().enumerate();
    let found = lines.filter(|(_, line)| words.iter().any(|word| line.contains(word)));
    found.map(|(at, line)| (at + 1, format!("{fault}: {}", line.trim()))).collect()
}

/// Releases, the newest first, each `## VERSION …` with parts and one line on the ABI.
fn changelog_faults(text: &str, version: &str) -> Vec<String> {
    let releases: Vec<_> = text.split("\n## ").skip(1).collect();
    let mut faults: Vec<_> = releases.iter().filter_map(|release| release_fault(release)).collect();
    let newest = releases.first().and_then(|release| release.split_whitespace().next());
    if newest != Some(version) {
        faults.push(format!("the newest release is {newest:?}, the crate's version {version:?}"));
    }
    faults
}

fn release_fault(release: &str) -> Option<String> {
    let title = release.lines().next().unwrap_or_default();
    let mut parts = release.lines().filter_map(|line| line.strip_prefix("### "));
    if let Some(part) = parts.find(|part| !["Added", "Changed", "Fixed"].contains(part)) {
        return Some(format!("{title}: {part:?} is none of Added, Changed, Fixed"));
    }
    let abi: Vec<_> = release.lines().filter_map(|line| line.strip_prefix("ABI: ")).collect();
    let is_known = |text: &&str| {
        ["none", "additions", "break"].iter().any(|kind| {
            text.strip_prefix(kind).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
        })
    };
    let is_right = abi.len() == 1 && abi.iter().all(is_known);
    (!is_right).then(|| format!("{title}: needs one line \"ABI: none | additions | break\""))
}

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

/// Every Rust file below a folder, by its path from the root.
fn sources(folder: &str) -> Vec<(String, String)> {
    let mut found = Vec::new();
    collect_sources(&root().join(folder), &mut found);
    found.sort();
    assert!(!found.is_empty());
    found
}

fn collect_sources(folder: &Path, found: &mut Vec<(String, String)>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            collect_sources(&path, found);
        } else if path.extension().is_some_and(|ext| ext == "rs") {
            let text = fs::read_to_string(&path).unwrap();
            found.push((path.strip_prefix(root()).unwrap().to_str().unwrap().to_owned(), text));
        }
    }
}

#[test]
fn planted_faults_are_found() {
    let long_doc = "//! More.\n".repeat(DOC_LINES_MAX + 1);
    let long_file = "\n".repeat(FILE_LINES_MAX + 1);
    let unfinished = format!("//! A.\n// {} later\n", UNFINISHED[0]);
    let planted: &[(Rule, &str, &str)] = &[
        (has_a_doc, "src/a.rs", "use std::fs;\n"),
        (has_a_doc, "src/a.rs", &long_doc),
        (is_short_enough, "src/a.rs", &long_file),
        (is_well_named, "src/link/utils.rs", ""),
        (is_well_named, "src/common/a.rs", ""),
        (is_well_named, "src/plan/types.rs", ""),
        (does_not_sleep, "src/store/file.rs", "//! A.\nstd::thread::sleep(pause);\n"),
        (does_not_sleep, "src/engine/lane.rs", "std::thread::yield_now();\n"),
        (is_finished, "src/a.rs", &unfinished),
    ];
    for (rule, path, text) in planted {
        assert_eq!(rule(path, text).len(), 1, "{path}: {text}");
    }
}

#[test]
fn what_is_right_passes() {
    assert!(has_a_doc("src/a.rs", &"//! A.\n".repeat(DOC_LINES_MAX)).is_empty());
    assert!(is_short_enough("src/a.rs", &"\n".repeat(FILE_LINES_MAX)).is_empty());
    assert!(is_well_named(TYPES_OF_THE_ABI, "").is_empty());
    assert!(does_not_sleep("src/engine/waiting.rs", "std::thread::yield_now();").is_empty());
    let test = "//! A.\n#[cfg(test)]\nmod tests {\n    std::thread::sleep(pause);\n}\n";
    assert!(does_not_sleep("src/store/file.rs", test).is_empty());
}

#[test]
fn changelogs_without_their_form_are_refused() {
    let good = "# Changelog\n\n## 1.2.3\n\nABI: additions.\n\n### Added\n\n- It.\n";
    assert_eq!(changelog_faults(good, "1.2.3"), [""; 0]);
    assert_eq!(changelog_faults(good, "1.2.4").len(), 1);
    assert_eq!(changelog_faults(&good.replace("ABI: additions.\n", ""), "1.2.3").len(), 1);
    assert_eq!(changelog_faults(&good.replace("additions", "perhaps"), "1.2.3").len(), 1);
    assert_eq!(changelog_faults(&good.replace("### Added", "### New"), "1.2.3").len(), 1);
}
