//! What a rank tells who directs it: lines of words with tabs between, in a file of the run's folder.

use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::path::Path;

/// A rank's file, open before there is a fault: a rank without descriptors can still write.
#[derive(Debug)]
pub(crate) struct Report(File);

impl Report {
    pub(crate) fn open(folder: &Path, rank: usize) -> Self {
        let path = folder.join(name_of(rank));
        Self(OpenOptions::new().create(true).append(true).open(path).unwrap())
    }

    /// Adds a line, in one write.
    pub(crate) fn say(&self, words: &[&str]) {
        let clean = |word: &&str| word.replace(['\t', '\n'], " ");
        let line = words.iter().map(clean).collect::<Vec<_>>().join("\t") + "\n";
        (&self.0).write_all(line.as_bytes()).unwrap();
    }
}

fn name_of(rank: usize) -> String {
    format!("report.{rank}")
}

/// The lines of a rank, as far as it has written any.
pub(crate) fn read(folder: &Path, rank: usize) -> Vec<Vec<String>> {
    let text = fs::read_to_string(folder.join(name_of(rank))).unwrap_or_default();
    let words = |line: &str| line.split('\t').map(str::to_owned).collect();
    text.lines().map(words).collect()
}
