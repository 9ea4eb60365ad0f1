//! Which algorithm serves which call: a table on which all ranks must agree, so that rank 0's travels at creation.
//!
//! Rank 0 takes it from its options, from the file that `LIBCOLLECT_TABLE` names, or from the library; before its lines
//! count those of `LIBCOLLECT_ALGORITHM`. Another rank that names one by any of these must name the same.
#![forbid(unsafe_code)]

use std::env;
use std::fs::File;
use std::io::Read;

use super::WorldOptions;
use crate::collective::{Table, hash};
use crate::error::Error;
use crate::rendezvous::Rules;

/// Bytes of a file that are read; a table has less.
const FILE_BYTES_MAX: u64 = 1 << 20;

/// What this rank says about the table.
pub(super) fn of_rank(rank: usize, options: &WorldOptions) -> Result<Rules, Error> {
    let file = variable("LIBCOLLECT_TABLE")?;
    let overrides = variable("LIBCOLLECT_ALGORITHM")?;
    named(rank == 0, options.table.as_deref(), file.as_deref(), overrides.as_deref())
}

/// As [`of_rank`], with what the environment says.
fn named(
    is_first: bool,
    text: Option<&str>,
    file: Option<&str>,
    overrides: Option<&str>,
) -> Result<Rules, Error> {
    let mut sources = Vec::new();
    let mut table = match (text, file) {
        (Some(text), _) => {
            sources.push("the option \"table\"".to_owned());
            Table::parse(text).map_err(|error| within("the option \"table\"", &error))?
        }
        (None, Some(path)) => {
            sources.push(format!("LIBCOLLECT_TABLE={path}"));
            read(path).map_err(|error| within(&format!("LIBCOLLECT_TABLE={path}"), &error))?
        }
        (None, None) => Table::default(),
    };
    if let Some(overrides) = overrides {
        let source = format!("LIBCOLLECT_ALGORITHM={overrides}");
        table = table.overridden(overrides).map_err(|error| within(&source, &error))?;
        sources.push(source);
    }
    if sources.is_empty() && !is_first {
        return Ok(Rules::default());
    }
    let text = table.to_string();
    let hash = hash_of(&text);
    if sources.is_empty() {
        // All ranks have the library's own, or else are refused for it.
        return Ok(Rules { hash, source: "the library's own table".into(), text: String::new() });
    }
    let text = if is_first { text } else { String::new() };
    Ok(Rules { hash, source: sources.join(" and "), text })
}

/// The table that rank 0 has given.
pub(super) fn table_of(text: &str) -> Result<Table, Error> {
    if text.is_empty() {
        return Ok(Table::default());
    }
    Table::parse(text).map_err(|error| within("rank 0's table", &error))
}

/// A number for the library's own table.
pub(super) fn default_hash() -> u64 {
    hash_of(&Table::default().to_string())
}

/// Never 0, which stands for no table.
fn hash_of(text: &str) -> u64 {
    let letters: Vec<u64> = text.bytes().map(u64::from).collect();
    hash(&letters).max(1)
}

fn read(path: &str) -> Result<Table, Error> {
    let failed = |error| Error::system(format!("read {path}"), &error);
    let file = File::open(path).map_err(failed)?;
    let mut text = String::new();
    file.take(FILE_BYTES_MAX).read_to_string(&mut text).map_err(failed)?;
    Table::parse(&text)
}

fn variable(name: &str) -> Result<Option<String>, Error> {
    match env::var(name) {
        Ok(text) if text.is_empty() => Ok(None),
        Ok(text) => Ok(Some(text)),
        Err(env::VarError::NotPresent) => Ok(None),
        Err(env::VarError::NotUnicode(_)) => {
            Err(Error::InvalidArgument(format!("{name} is not UTF-8")))
        }
    }
}

/// An error with where its text comes from.
fn within(source: &str, error: &Error) -> Error {
    match error {
        Error::InvalidArgument(text) => Error::InvalidArgument(format!("{source}: {text}")),
        other => other.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RING: &str = "collect-table 1\nallreduce ring\n";

    #[test]
    fn only_rank_0_sends_a_text_and_only_for_a_table_that_it_names() {
        let own = named(true, None, None, None).unwrap();
        assert_eq!((own.hash, &*own.text), (default_hash(), ""));
        assert_eq!(named(false, None, None, None), Ok(Rules::default()));
        let first = named(true, Some(RING), None, None).unwrap();
        let other = named(false, Some(RING), Some("/not/there"), None).unwrap();
        assert_eq!((first.hash, &*first.text), (other.hash, RING));
        assert_eq!((&*other.text, &*other.source), ("", "the option \"table\""));
        assert_eq!(table_of(&first.text), Table::parse(RING));
        assert_eq!(table_of(""), Ok(Table::default()));
    }

    #[test]
    fn overrides_come_before_the_table() {
        let rules = named(true, Some(RING), None, Some("allreduce=direct")).unwrap();
        assert_eq!(rules.text, "collect-table 1\nallreduce direct\nallreduce ring\n");
        let source = "the option \"table\" and LIBCOLLECT_ALGORITHM=allreduce=direct";
        assert_eq!(rules.source, source);
    }

    #[test]
    fn what_is_wrong_is_told_with_its_source() {
        let text =
            |text, file, overrides| named(true, text, file, overrides).unwrap_err().to_string();
        let table = text(Some("ring"), None, None);
        assert!(table.starts_with("the option \"table\": table line 1"), "{table}");
        let overrides = text(None, None, Some("allreduce=fast"));
        assert!(overrides.starts_with("LIBCOLLECT_ALGORITHM=allreduce=fast: "), "{overrides}");
        let file = text(None, Some("/not/there"), None);
        assert!(file.starts_with("read /not/there"), "{file}");
        let damaged = table_of("damaged").unwrap_err().to_string();
        assert!(damaged.starts_with("rank 0's table: "), "{damaged}");
    }
}
