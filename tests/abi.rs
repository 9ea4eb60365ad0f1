//! The shared object exports the functions of the header, and the ABI only grows.
//!
//! `tests/abi.txt` lists functions, constants, typedefs and the fields of structs. `COLLECT_WRITE_ABI=1 cargo test
//! --test abi` adds what is new; a line that has to go is a break, and needs a new SONAME.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

#[test]
fn exports_are_the_functions_of_the_header() {
    let declared: BTreeSet<_> = functions_of(&header()).into_iter().collect();
    assert!(!declared.is_empty());
    assert_eq!(exported_by(&shared_object()), declared);
}

#[test]
fn the_abi_only_grows() {
    let list = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/abi.txt");
    let listed = fs::read_to_string(&list).unwrap_or_default();
    let listed: BTreeSet<_> = listed.lines().map(str::to_owned).collect();
    let present = abi_of(&header());
    let gone: Vec<_> = listed.difference(&present).collect();
    assert!(gone.is_empty(), "a break: {gone:#?}");
    if env::var_os("COLLECT_WRITE_ABI").is_some() {
        fs::write(&list, present.into_iter().collect::<Vec<_>>().join("\n") + "\n").unwrap();
        return;
    }
    let new: Vec<_> = present.difference(&listed).collect();
    assert!(new.is_empty(), "not in tests/abi.txt (COLLECT_WRITE_ABI=1): {new:#?}");
}

#[test]
fn the_library_has_its_name_and_needs_the_c_library_only() {
    let output = Command::new("readelf").args(["-d", "-W"]).arg(shared_object()).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.contains("soname: [libcollect.so.0]"), "{text}");
    assert!(text.contains("NODELETE"), "{text}");
    let needed = text.lines().filter(|line| line.contains("(NEEDED)"));
    let needed = needed.filter_map(|line| line.split(['[', ']']).nth(1));
    let allowed = ["libc.so.", "libgcc_s.so.", "libm.so.", "ld-linux"];
    let strangers: Vec<_> =
        needed.filter(|name| !allowed.iter().any(|known| name.starts_with(known))).collect();
    assert!(strangers.is_empty(), "{strangers:?}");
}

/// One line for each function, constant, typedef and field.
fn abi_of(header: &str) -> BTreeSet<String> {
    statements_of(header).iter().flat_map(|statement| abi_lines(statement)).collect()
}

fn abi_lines(statement: &str) -> Vec<String> {
    if let Some((fields, name)) = struct_in(statement) {
        let fields = fields.split_terminator(';').map(str::trim).enumerate();
        return fields.map(|(at, field)| format!("{name}.{at}: {field}")).collect();
    }
    let is_listed = statement.starts_with("typedef ")
        || function_in(statement).is_some()
        || is_constant(statement);
    if is_listed { vec![statement.to_owned()] } else { Vec::new() }
}

/// The fields and the name of `typedef struct … { fields } name;`.
fn struct_in(statement: &str) -> Option<(&str, &str)> {
    let (_, rest) = statement.strip_prefix("typedef struct")?.split_once('{')?;
    let (fields, name) = rest.split_once('}')?;
    Some((fields.trim(), name.trim_matches([' ', ';'])))
}

/// Versions apart: they change with every release.
fn is_constant(statement: &str) -> bool {
    let definition = statement.strip_prefix("#define COLLECT_");
    definition.is_some_and(|rest| !rest.starts_with("VERSION_") && has_integer_value(rest))
}

fn has_integer_value(definition: &str) -> bool {
    let value = definition.split_once(' ').map(|(_, value)| value.trim_matches(['(', ')', ' ']));
    value.is_some_and(|value| value.parse::<i64>().is_ok())
}

fn function_in(statement: &str) -> Option<&str> {
    let (before, _) = statement.strip_prefix("COLLECT_API ")?.split_once('(')?;
    before.rsplit([' ', '*']).next()
}

fn functions_of(header: &str) -> Vec<String> {
    statements_of(header).iter().filter_map(|text| function_in(text)).map(str::to_owned).collect()
}

/// Declarations and directives, each on one line, without comments.
fn statements_of(header: &str) -> Vec<String> {
    let mut statements = Vec::new();
    let mut open = String::new();
    for line in without_comments(header).lines().map(str::trim).filter(|line| !line.is_empty()) {
        if line.starts_with('#') {
            statements.push(line.split_whitespace().collect::<Vec<_>>().join(" "));
            continue;
        }
        open = format!("{open} {line}").trim().to_owned();
        let is_inside_braces = open.matches('{').count() > open.matches('}').count();
        // What opens `extern "C"` closes at the end of the file.
        if open.starts_with("extern \"C\"") || open.starts_with('}') {
            open.clear();
        } else if line.ends_with(';') && !is_inside_braces {
            statements.push(std::mem::take(&mut open));
        }
    }
    statements
}

/// A comment that does not end takes the rest.
fn without_comments(text: &str) -> String {
    let mut left = text;
    let mut kept = String::new();
    while let Some((before, comment)) = left.split_once("/*") {
        kept.push_str(before);
        left = comment.split_once("*/").map_or("", |(_, after)| after);
    }
    kept + left
}

fn header() -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("include/collect/collect.h");
    fs::read_to_string(path).unwrap()
}

/// Cargo puts the crate's shared object beside the tests, or one folder up.
fn shared_object() -> PathBuf {
    let test = env::current_exe().unwrap();
    let mut folders = test.ancestors().skip(1).take(2).map(|folder| folder.join("libcollect.so"));
    folders.find(|path| path.exists()).expect("cargo builds the cdylib with the tests")
}

fn exported_by(library: &Path) -> BTreeSet<String> {
    let nm = Command::new("nm").args(["-D", "--defined-only"]).arg(library).output().unwrap();
    assert!(nm.status.success(), "{}", String::from_utf8_lossy(&nm.stderr));
    let symbols = String::from_utf8(nm.stdout).unwrap();
    symbols.lines().filter_map(|line| line.split(' ').nth(2)).map(str::to_owned).collect()
}

const SMALL_HEADER: &str = r#"/* Conventions.

#include <collect/collect.h>
int main(void) { return 0; }
*/
#ifndef COLLECT_H
#define COLLECT_VERSION_MINOR 1
/**
 * Why not.
 */
#define COLLECT_ERR_NO -1
#define COLLECT_API
typedef int32_t collect_status;
typedef struct collect_world collect_world;
typedef struct {
  /**
   * Its size; of course.
   */
  size_t struct_size;
  int64_t timeout_ns;
} collect_options;
#ifdef __cplusplus
extern "C" {
#endif // __cplusplus
COLLECT_API
collect_status collect_go(collect_world *world,
                          const collect_options *options);
COLLECT_API const char *collect_text(void);
#ifdef __cplusplus
}  // extern "C"
#endif
"#;

#[test]
fn a_header_is_taken_apart() {
    assert_eq!(functions_of(SMALL_HEADER), ["collect_go", "collect_text"]);
    let expected = [
        "#define COLLECT_ERR_NO -1",
        "COLLECT_API collect_status collect_go(collect_world *world, const collect_options *options);",
        "COLLECT_API const char *collect_text(void);",
        "collect_options.0: size_t struct_size",
        "collect_options.1: int64_t timeout_ns",
        "typedef int32_t collect_status;",
        "typedef struct collect_world collect_world;",
    ];
    assert_eq!(abi_of(SMALL_HEADER), expected.map(str::to_owned).into());
}

#[test]
fn a_planted_break_is_found() {
    let broken = SMALL_HEADER.replace("int64_t timeout_ns;", "int32_t timeout_ns;");
    assert_eq!(abi_of(SMALL_HEADER).difference(&abi_of(&broken)).count(), 1);
    let moved = SMALL_HEADER.replace("COLLECT_ERR_NO -1", "COLLECT_ERR_NO -2");
    assert_eq!(abi_of(SMALL_HEADER).difference(&abi_of(&moved)).count(), 1);
}
