//! Copies the ranks' output line by line, with the rank before each line.
//!
//! One thread per stream reads a pipe. A line leaves in one piece, so lines of different ranks do not mix.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::process::{ChildStderr, ChildStdout};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

/// A longer line is cut into pieces of this size, so that one without an end takes bounded memory.
const LINE_BYTES_MAX: u64 = 64 * 1024;

/// The copying threads of a run.
pub(super) struct Output {
    is_prefixed: bool,
    threads: usize,
    /// Each thread drops its sender when its pipe has ended.
    ended: (Sender<()>, Receiver<()>),
}

impl Output {
    pub(super) fn new(is_prefixed: bool) -> Self {
        Self { is_prefixed, threads: 0, ended: channel() }
    }

    /// Whether the ranks write to pipes of ours at all; else they have the launcher's streams.
    pub(super) fn is_prefixed(&self) -> bool {
        self.is_prefixed
    }

    pub(super) fn copy(&mut self, rank: u32, pipes: (Option<ChildStdout>, Option<ChildStderr>)) {
        let (stdout, stderr) = pipes;
        if let Some(pipe) = stdout {
            self.spawn(rank, pipe, io::stdout);
        }
        if let Some(pipe) = stderr {
            self.spawn(rank, pipe, io::stderr);
        }
    }

    fn spawn<W: Write + 'static>(
        &mut self,
        rank: u32,
        pipe: impl Read + Send + 'static,
        stream: fn() -> W,
    ) {
        let ended = self.ended.0.clone();
        thread::spawn(move || {
            // A stream of ours that takes no more closes the pipe, and the rank learns it as it would without us.
            let _ = copy_lines(&format!("[{rank}] "), BufReader::new(pipe), stream);
            let _ = ended.send(());
        });
        self.threads += 1;
    }

    /// Waits until every pipe has ended, but no longer than `limit`: a process that left its rank's group may hold one.
    pub(super) fn drain(&self, limit: Duration) {
        let deadline = Instant::now() + limit;
        for _ in 0..self.threads {
            let left = deadline.saturating_duration_since(Instant::now());
            if self.ended.1.recv_timeout(left).is_err() {
                eprintln!("collect run: left a process behind that holds a rank's output open");
                return;
            }
        }
    }
}

fn copy_lines<W: Write>(
    prefix: &str,
    mut from: impl BufRead,
    stream: impl Fn() -> W,
) -> io::Result<()> {
    let mut line = prefix.as_bytes().to_vec();
    loop {
        let read = from.by_ref().take(LINE_BYTES_MAX).read_until(b'\n', &mut line)?;
        if read == 0 {
            return Ok(());
        }
        if !line.ends_with(b"\n") {
            line.push(b'\n');
        }
        let mut to = stream();
        to.write_all(&line)?;
        to.flush()?;
        line.truncate(prefix.len());
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use super::*;

    /// Keeps each write apart.
    struct Writes<'a>(&'a RefCell<Vec<String>>);

    impl Write for Writes<'_> {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.borrow_mut().push(String::from_utf8_lossy(bytes).into_owned());
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn each_line_is_one_write_also_the_last_without_an_end() {
        let writes = RefCell::new(Vec::new());
        copy_lines("[3] ", &b"one\n\nlast"[..], || Writes(&writes)).unwrap();
        assert_eq!(*writes.borrow(), ["[3] one\n", "[3] \n", "[3] last\n"]);
    }

    #[test]
    fn a_line_without_end_is_cut() {
        let writes = RefCell::new(Vec::new());
        let long = vec![b'x'; usize::try_from(LINE_BYTES_MAX).unwrap() + 1];
        copy_lines("", &long[..], || Writes(&writes)).unwrap();
        assert_eq!(writes.borrow().len(), 2);
    }
}
