//! Opens the store that a URL names, as users and launchers give it.

use std::sync::Arc;
use std::time::Instant;

use super::{FileStore, Store, TcpStore};
use crate::error::Error;

/// The forms that are understood.
const FORMS: &str = "file:///directory, file:directory and tcp://host:port";

/// Opens `file:///directory`, `file:directory` (relative) or `tcp://host:port`. The token is for stores that ask for
/// one; a file store does not. Of a URL, nothing is percent-decoded.
///
/// # Errors
///
/// [`Error::InvalidArgument`] for a URL of no known form; else what [`FileStore::open`] and [`TcpStore::connect`] say.
pub fn open(url: &str, token: Option<Vec<u8>>, deadline: Instant) -> Result<Arc<dyn Store>, Error> {
    if let Some(rest) = url.strip_prefix("file:") {
        return Ok(Arc::new(FileStore::open(file_path(url, rest)?)?));
    }
    if let Some(rest) = url.strip_prefix("tcp://") {
        let address = rest.strip_suffix('/').unwrap_or(rest);
        return Ok(Arc::new(TcpStore::connect(address, token, deadline)?));
    }
    Err(unknown(url))
}

/// The path in `file:REST`: a host between `//` and `/` can only be this one.
fn file_path<'a>(url: &str, rest: &'a str) -> Result<&'a str, Error> {
    let path = match rest.strip_prefix("//") {
        Some(rest) => rest.strip_prefix("localhost").unwrap_or(rest),
        None if rest.is_empty() => return Err(unknown(url)),
        None => return Ok(rest),
    };
    if path.starts_with('/') { Ok(path) } else { Err(unknown(url)) }
}

fn unknown(url: &str) -> Error {
    Error::InvalidArgument(format!("cannot open the store {url:?}: known are {FORMS}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_have_two_forms() {
        assert_eq!(file_path("", "///a/b"), Ok("/a/b"));
        assert_eq!(file_path("", "//localhost/a"), Ok("/a"));
        assert_eq!(file_path("", "a/b"), Ok("a/b"));
        assert_eq!(file_path("", "/a"), Ok("/a"));
        for bad in ["", "//", "//a/b", "//localhost"] {
            assert!(file_path("", bad).is_err(), "{bad}");
        }
    }
}
