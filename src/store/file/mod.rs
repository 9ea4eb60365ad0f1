//! A store in a directory that all ranks see: one readable file a key, which only its owner may read.
//!
//! A value appears whole or not at all: it is written to `.new` and renamed. Whoever changes anything holds `.lock`
//! (`lock`), so that compare-and-set and add are atomic; readers need no lock. What a crashed process leaves behind is
//! at most a `.new`, which the next writer removes. Nothing is synced to the disk: a store need not outlive its host.

mod lock;
mod name;
mod wait;

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::Instant;

use self::wait::Waiter;
use super::{Store, contract};
use crate::error::Error;

/// A store in a directory.
#[derive(Debug, Clone)]
pub struct FileStore {
    /// Absolute: the process may change its working directory.
    directory: PathBuf,
}

impl FileStore {
    /// Opens the store in a directory, which is made (for its owner only) if there is none.
    ///
    /// # Errors
    ///
    /// [`Error::Store`] if the directory cannot be made or written to; [`Error::InvalidArgument`] if the path is empty.
    pub fn open(path: impl AsRef<Path>) -> Result<Self, Error> {
        let path = path.as_ref();
        let directory = std::path::absolute(path)
            .map_err(|e| Error::InvalidArgument(format!("file store {}: {e}", path.display())))?;
        let store = Self { directory };
        store.make_directory()?;
        let lock = store.lock_path();
        lock::open(&lock).map_err(|e| store.failed("create", &lock, &e))?;
        Ok(store)
    }

    fn make_directory(&self) -> Result<(), Error> {
        if fs::metadata(&self.directory).is_ok_and(|metadata| !metadata.is_dir()) {
            return Err(Error::Store(format!("{}: not a directory", self.description())));
        }
        let make = || DirBuilder::new().recursive(true).mode(0o700).create(&self.directory);
        let made = uninterrupted(make);
        made.map_err(|e| self.failed("create directory", &self.directory, &e))
    }

    fn path(&self, key: &str) -> PathBuf {
        self.directory.join(name::of_key(key))
    }

    fn lock_path(&self) -> PathBuf {
        self.directory.join(".lock")
    }

    fn failed(&self, operation: &str, path: &Path, source: &io::Error) -> Error {
        let path = path.display();
        contract::failed(format_args!("{}: {operation} {path}", self.description()), source)
    }

    /// Makes a change that nobody else's change overlaps with.
    fn lock(&self, operation: &str, key: &str, deadline: Instant) -> Result<lock::Lock, Error> {
        let path = self.lock_path();
        let lock = lock::take(&path, deadline).map_err(|e| self.failed("lock", &path, &e))?;
        lock.ok_or_else(|| {
            let why = format_args!("another process holds {}", path.display());
            contract::timed_out(self.description(), operation, key, why)
        })
    }

    fn read(&self, path: &Path) -> Result<Option<Vec<u8>>, Error> {
        match read(path) {
            Ok(value) if value.len() > contract::VALUE_BYTES_MAX => Err(Error::Store(format!(
                "{}: {} is too large for a value",
                self.description(),
                path.display()
            ))),
            Ok(value) => Ok(Some(value)),
            Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(e) => Err(self.failed("read", path, &e)),
        }
    }

    /// Puts a value where readers find it; the caller holds the lock.
    fn write(&self, path: &Path, value: &[u8]) -> Result<(), Error> {
        let new = self.directory.join(".new");
        let written = write(&new, value).map_err(|e| self.failed("write", path, &e));
        let rename = || fs::rename(&new, path);
        let renamed = written
            .and_then(|()| uninterrupted(rename).map_err(|e| self.failed("write", path, &e)));
        if renamed.is_err() {
            // Frees the space; the next writer would, too.
            let _ = uninterrupted(|| fs::remove_file(&new));
        }
        renamed
    }

    /// A directory that was removed would look like keys that nobody sets.
    fn check_directory(&self) -> Result<(), Error> {
        let found = uninterrupted(|| fs::metadata(&self.directory));
        found.map(drop).map_err(|e| self.failed("look at", &self.directory, &e))
    }
}

impl Store for FileStore {
    fn set(&self, key: &str, value: &[u8], deadline: Instant) -> Result<(), Error> {
        contract::check(key, value)?;
        let _lock = self.lock("set", key, deadline)?;
        self.write(&self.path(key), value)
    }

    fn get(&self, key: &str, deadline: Instant) -> Result<Vec<u8>, Error> {
        contract::check_key(key)?;
        let path = self.path(key);
        let mut waiter = None;
        loop {
            if let Some(value) = self.read(&path)? {
                return Ok(value);
            }
            self.check_directory()?;
            match &mut waiter {
                // Look again after the watch has begun: what happened before it is not seen.
                None => waiter = Some(Waiter::for_arrivals(&self.directory)),
                Some(_) if Instant::now() >= deadline => {
                    let why = "nobody has set it";
                    return Err(contract::timed_out(self.description(), "get", key, why));
                }
                Some(waiter) => {
                    waiter.wait(deadline).map_err(|e| self.failed("wait for", &path, &e))?;
                }
            }
        }
    }

    fn add(&self, key: &str, amount: i64, deadline: Instant) -> Result<i64, Error> {
        contract::check_key(key)?;
        let path = self.path(key);
        let _lock = self.lock("add", key, deadline)?;
        let sum = contract::sum(key, self.read(&path)?.as_deref(), amount)?;
        self.write(&path, sum.to_string().as_bytes())?;
        Ok(sum)
    }

    fn compare_and_set(
        &self,
        key: &str,
        expected: Option<&[u8]>,
        desired: &[u8],
        deadline: Instant,
    ) -> Result<Option<Vec<u8>>, Error> {
        contract::check(key, desired)?;
        let path = self.path(key);
        let _lock = self.lock("compare-and-set", key, deadline)?;
        let held = self.read(&path)?;
        if held.as_deref() == expected {
            self.write(&path, desired)?;
        }
        Ok(held)
    }

    fn delete(&self, key: &str, deadline: Instant) -> Result<bool, Error> {
        contract::check_key(key)?;
        let path = self.path(key);
        let _lock = self.lock("delete", key, deadline)?;
        match uninterrupted(|| fs::remove_file(&path)) {
            Ok(()) => Ok(true),
            Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(e) => Err(self.failed("delete", &path, &e)),
        }
    }

    fn description(&self) -> String {
        format!("file store {}", self.directory.display())
    }
}

/// Makes a call again that a signal has interrupted, as file systems over a network let it. (Opening, reading and writing
/// are made again by the standard library.)
fn uninterrupted<T>(mut call: impl FnMut() -> io::Result<T>) -> io::Result<T> {
    loop {
        match call() {
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            result => return result,
        }
    }
}

/// Reads a value, or one byte more than one may have.
fn read(path: &Path) -> io::Result<Vec<u8>> {
    let mut value = Vec::new();
    File::open(path)?.take(contract::VALUE_BYTES_MAX as u64 + 1).read_to_end(&mut value)?;
    Ok(value)
}

/// Writes a file of its own: what is in the way, be it a link, is removed and not followed.
fn write(path: &Path, value: &[u8]) -> io::Result<()> {
    match uninterrupted(|| fs::remove_file(path)) {
        Err(e) if e.kind() != io::ErrorKind::NotFound => return Err(e),
        _ => {}
    }
    OpenOptions::new().create_new(true).write(true).mode(0o600).open(path)?.write_all(value)
}
