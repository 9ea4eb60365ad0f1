//! `docs/errors.md` holds every status, with its number and group, and no other; its examples are what the library says.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod ranks;

use std::collections::BTreeSet;
use std::ffi::CStr;
use std::fs;
use std::path::Path;
use std::sync::Mutex;
use std::time::Duration;

use collect::config::Timeout;
use collect::ffi::status::{
    COLLECT_GROUP_CALL, COLLECT_GROUP_CALLER, COLLECT_GROUP_NONE, COLLECT_GROUP_WORLD,
    collect_status, collect_status_group, collect_status_name,
};
use collect::store::{self, FileStore, HashStore};
use collect::{Call, CallOptions, Datatype, Error, Op, Target, World, WorldOptions};

const PAGE: &str = "docs/errors.md";

fn read(path: &str) -> String {
    fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(path)).unwrap()
}

/// A status as the page heads it: "### `COLLECT_OK` (0), group NONE".
fn heading(status: collect_status) -> String {
    // SAFETY: a static string.
    let name = unsafe { CStr::from_ptr(collect_status_name(status)) }.to_str().unwrap();
    let group = match collect_status_group(status) {
        COLLECT_GROUP_NONE => "NONE",
        COLLECT_GROUP_CALLER => "CALLER",
        COLLECT_GROUP_CALL => "CALL",
        COLLECT_GROUP_WORLD => "WORLD",
        other => panic!("{other:?} has no name here"),
    };
    format!("### `{name}` ({}), group {group}", status.0)
}

/// The statuses that the source of the header defines, in order.
fn defined(source: &str) -> Vec<collect_status> {
    let numbers = source.lines().filter_map(|line| {
        let (_, number) = line.strip_prefix("pub const COLLECT_")?.split_once("collect_status(")?;
        number.strip_suffix(");")?.parse().ok()
    });
    numbers.map(collect_status).collect()
}

/// The names of statuses in a text.
fn named(text: &str) -> BTreeSet<&str> {
    let words = text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
    let is_status = |word: &&str| {
        word.starts_with("COLLECT_ERR_")
            || ["COLLECT_OK", "COLLECT_IN_PROGRESS", "COLLECT_INTERRUPTED"].contains(word)
    };
    words.filter(is_status).collect()
}

#[test]
fn every_status_is_on_the_page_and_no_other() {
    let (page, source) = (read(PAGE), read("src/ffi/status.rs"));
    let statuses = defined(&source);
    assert!(statuses.len() >= 14, "{statuses:?}");
    let expected: Vec<_> = statuses.iter().map(|status| heading(*status)).collect();
    let headings: Vec<_> = page.lines().filter(|line| line.starts_with("### `")).collect();
    assert_eq!(headings, expected, "one section for each status, in the order of the header");
    let known: BTreeSet<_> = expected.iter().filter_map(|line| line.split('`').nth(1)).collect();
    assert_eq!(named(&page), known);
    // The header has them all: nothing of it is defined elsewhere.
    let header = read("include/collect/collect.h");
    let defines = header.lines().filter_map(|line| line.strip_prefix("#define "));
    let defines: Vec<_> = defines.filter_map(|line| line.split(' ').next()).collect();
    assert_eq!(named(&defines.join(" ")), known);
}

#[test]
fn planted_statuses_are_found() {
    let source = "pub const COLLECT_OK: collect_status = collect_status(0);\n\
                  pub const COLLECT_ERR_NEW: collect_status = collect_status(-12);\n\
                  pub const COLLECT_GROUP_NONE: collect_group = collect_group(0);\n";
    assert_eq!(defined(source), [collect_status(0), collect_status(-12)]);
    let found = named("`COLLECT_ERR_NEW` (not COLLECT_GROUP_CALL) and COLLECT_OK.");
    assert_eq!(found.into_iter().collect::<Vec<_>>(), ["COLLECT_ERR_NEW", "COLLECT_OK"]);
}

/// A text without what differs from run to run: numbers.
fn skeleton(text: &str) -> String {
    let digit_or_point = |c: char| c.is_ascii_digit() || c == '.';
    let mut parts = text.split(digit_or_point).filter(|part| !part.is_empty());
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |all, part| all + "#" + part)
}

fn expect(error: &Error) {
    let page = read(PAGE);
    let examples: Vec<_> = page
        .split("```")
        .filter_map(|block| block.strip_prefix("text\n"))
        .map(|example| skeleton(example.trim()))
        .collect();
    assert!(examples.len() >= 10);
    let said = skeleton(&error.to_string());
    assert!(examples.contains(&said), "not an example of {PAGE}: {error}\n{said}");
}

fn options(timeout: Duration) -> WorldOptions {
    WorldOptions { name: "train".into(), timeout: Timeout::After(timeout), ..ranks::options() }
}

fn barrier(world: &World) -> Result<(), Error> {
    world.run(&Call::Barrier, &CallOptions::default())
}

/// What the first rank to fail in `body` gets.
fn error_of(
    size: usize,
    timeout: Duration,
    body: impl Fn(&World) -> Result<(), Error> + Sync,
) -> Error {
    let first = Mutex::new(None);
    ranks::threads(size, &options(timeout), &|world: &World| {
        if let Err(error) = body(world) {
            first.lock().unwrap().get_or_insert(error);
        }
    });
    first.into_inner().unwrap().expect("nobody has failed")
}

#[test]
fn examples_of_operations_are_what_is_said() {
    let patient = ranks::DEADLINE;
    expect(&error_of(3, Duration::from_secs(4), |world| {
        barrier(world)?;
        // The others wait for rank 2, which waits for nobody and is there.
        if world.rank() == 2 { await_failure(world) } else { barrier(world) }
    }));
    expect(&error_of(2, patient, |world| {
        let mut values = [0_f32; 1024];
        let target = Target::of(&mut values);
        let call = if world.rank() == 0 {
            let (source, datatype, op) = (target.in_place(), Datatype::F32, Op::Sum);
            Call::Allreduce { source, target, datatype, op }
        } else {
            Call::Broadcast { buffer: target, datatype: Datatype::F32, root: 0 }
        };
        world.run(&call, &CallOptions::default())
    }));
    expect(&error_of(2, patient, |world| {
        barrier(world)?;
        if world.rank() == 1 {
            return Ok(());
        }
        barrier(world)
    }));
    expect(&error_of(2, patient, |world| {
        barrier(world)?;
        if world.rank() == 1 {
            world.abort("the loss is not a number")?;
        }
        barrier(world)
    }));
    expect(&error_of(1, patient, |world| {
        let mut value = [0_f32];
        let buffer = Target::of(&mut value);
        let call = Call::Broadcast { buffer, datatype: Datatype::F32, root: 7 };
        world.run(&call, &CallOptions::default())
    }));
}

/// Returns when others have failed the world.
fn await_failure(world: &World) -> Result<(), Error> {
    loop {
        if world.error().is_some() {
            return Ok(());
        }
        std::thread::sleep(Duration::from_millis(2));
    }
}

#[test]
fn examples_of_creations_and_stores_are_what_is_said() {
    let soon = Duration::from_millis(100);
    let create =
        |options: &WorldOptions| World::create(&HashStore::new(), 0, 3, options).unwrap_err();
    expect(&create(&options(soon)));
    // An address that no host has: it is for documentation.
    let nowhere = WorldOptions { listen: Some("192.0.2.1".into()), ..options(soon) };
    expect(&create(&nowhere));
    expect(&store::open("tcp://127.0.0.1:9", None, Timeout::After(soon).deadline()).unwrap_err());
    expect(&FileStore::open("/proc/x").unwrap_err());
    expect(&Error::system("accept", &std::io::Error::from_raw_os_error(24)));
    expect(&Error::Forked);
}
