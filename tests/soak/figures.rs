//! What processes have at quiet points, noted by each in a file, and judged when all have ended.
//!
//! Descriptors and threads must be the same at every quiet point of a slot, and of all processes that took its place.
//! So must be what is allocated where no world is left. A world that lasts keeps memory for later in its pools and
//! tables, which grow as long as new records are set, more and more rarely, and shrink again with what they lend. So the
//! least of the last quarter of a run is compared with the least of the second one: a leak shows in both, one time's
//! peak in none.

use std::alloc::{GlobalAlloc, Layout, System};
use std::fmt::{self, Display};
use std::fs::{self, File};
use std::io::Write;
use std::path::Path;
use std::sync::atomic::{AtomicIsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use crate::{LASTING, SLOTS, ranks};

/// By how much the least of the last quarter may exceed that of the second one: allocations, their bytes, resident bytes.
const GROWTH_MAX: [usize; 3] = [200, 2 << 20, 16 << 20];

/// Fewer quiet points are the time in which pools and caches fill, and show no trend.
const TREND_MIN: usize = 1000;

/// Of survivors, in percent: those that name the rank that was killed.
const NAMED_MIN: usize = 99;

/// What is allocated, and its bytes.
static ALLOCATIONS: AtomicIsize = AtomicIsize::new(0);
static BYTES: AtomicIsize = AtomicIsize::new(0);

/// The system's allocator, which counts what is in use.
pub(crate) struct Counting;

fn count(bytes: usize, sign: isize) {
    ALLOCATIONS.fetch_add(sign, Ordering::Relaxed);
    BYTES.fetch_add(sign * bytes.cast_signed(), Ordering::Relaxed);
}

// SAFETY: every call is the system allocator's; only a counter is added. Reallocation is its parts, by default.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size(), 1);
        // SAFETY: the caller's promise is passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        count(layout.size(), 1);
        // SAFETY: the caller's promise is passed on.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        count(layout.size(), -1);
        // SAFETY: the caller's promise is passed on.
        unsafe { System.dealloc(pointer, layout) }
    }
}

/// What is counted, in the order of a sample's numbers.
const NAMES: [&str; 5] =
    ["descriptors", "threads", "allocations", "allocated bytes", "resident bytes"];

/// So many of them never change, where there is a world and where there is none.
const EXACT: [usize; 2] = [2, 4];

/// What a process has at a quiet point.
type Sample = [usize; NAMES.len()];

/// A process's notes, in a file.
#[derive(Debug)]
pub(crate) struct Notes {
    file: File,
    /// Threads at the first quiet point.
    threads: Option<usize>,
}

impl Notes {
    pub(crate) fn open(folder: &Path, slot: usize) -> Self {
        // Numbers of processes come again in a long run: then the new one writes behind the old one.
        let path = folder.join(format!("notes.{slot}.{}", std::process::id()));
        let file = File::options().append(true).create(true).open(path).unwrap();
        Self { file, threads: None }
    }

    /// Notes what this process has.
    pub(crate) fn sample(&mut self, life: u64) {
        self.await_ends_of_threads();
        let [allocations, bytes] = [&ALLOCATIONS, &BYTES]
            .map(|count| usize::try_from(count.load(Ordering::Relaxed)).unwrap());
        let sample = [entries("fd"), entries("task"), allocations, bytes, resident()];
        self.threads.get_or_insert(sample[1]);
        let numbers = sample.map(|number| number.to_string()).join(" ");
        writeln!(self.file, "life {life} {numbers}").unwrap();
    }

    /// Notes whether this survivor has named the rank that was killed.
    pub(crate) fn blame(&mut self, is_named: bool) {
        writeln!(self.file, "{}", if is_named { "named" } else { "misnamed" }).unwrap();
    }

    /// A thread that was joined leaves the list a moment later.
    fn await_ends_of_threads(&self) {
        let until = Instant::now() + ranks::DEADLINE;
        while self.threads.is_some_and(|first| entries("task") > first) {
            assert!(Instant::now() < until, "a thread has not ended");
            thread::sleep(Duration::from_millis(1));
        }
    }
}

fn entries(folder: &str) -> usize {
    fs::read_dir(Path::new("/proc/self").join(folder)).unwrap().count()
}

fn resident() -> usize {
    let pages = fs::read_to_string("/proc/self/statm").unwrap();
    let pages: usize = pages.split(' ').nth(1).unwrap().parse().unwrap();
    // SAFETY: takes no pointer.
    pages * usize::try_from(unsafe { libc::sysconf(libc::_SC_PAGESIZE) }).unwrap()
}

/// The notes of all processes.
#[derive(Debug, Default)]
pub(crate) struct Figures {
    /// Of each slot, in the order of lives.
    samples: [Vec<Sample>; SLOTS],
    named: usize,
    misnamed: usize,
}

impl Figures {
    pub(crate) fn read(folder: &Path) -> Self {
        let mut figures = Self::default();
        let mut lives: [Vec<(u64, Sample)>; SLOTS] = std::array::from_fn(|_| Vec::new());
        for entry in fs::read_dir(folder).unwrap() {
            let name = entry.unwrap().file_name().into_string().unwrap();
            let Some(("notes", slot)) = name.rsplit_once('.').and_then(|it| it.0.split_once('.'))
            else {
                continue;
            };
            let slot: usize = slot.parse().unwrap();
            for line in fs::read_to_string(folder.join(&name)).unwrap().lines() {
                match line {
                    "named" => figures.named += 1,
                    "misnamed" => figures.misnamed += 1,
                    _ => lives[slot].push(parse(line)),
                }
            }
        }
        for (samples, mut lives) in figures.samples.iter_mut().zip(lives) {
            lives.sort_unstable();
            samples.extend(lives.into_iter().map(|(_, sample)| sample));
        }
        figures
    }

    /// Panics if something grows, or if too many were wrong about who was killed.
    pub(crate) fn judge(&self) {
        for (slot, samples) in self.samples.iter().enumerate() {
            if let Some(fault) = fault(samples, slot < LASTING) {
                panic!("slot {slot}: {fault}");
            }
        }
        let told = self.named + self.misnamed;
        assert!(self.named * 100 >= told * NAMED_MIN, "{} of {told} named the rank", self.named);
    }
}

fn parse(line: &str) -> (u64, Sample) {
    let mut numbers = line.strip_prefix("life ").unwrap().split(' ').map(|it| it.parse().unwrap());
    let life = numbers.next().unwrap();
    (life, std::array::from_fn(|_| usize::try_from(numbers.next().unwrap()).unwrap()))
}

/// What is wrong with the samples of a slot.
fn fault(samples: &[Sample], has_world: bool) -> Option<String> {
    let Some(first) = samples.first() else { return Some("it has noted nothing".into()) };
    for at in 0..EXACT[usize::from(!has_world)] {
        if let Some(other) = samples.iter().find(|sample| sample[at] != first[at]) {
            return Some(format!("{} {}, then {}", first[at], NAMES[at], other[at]));
        }
    }
    if samples.len() < TREND_MIN {
        return None;
    }
    let quarter = |number| &samples[samples.len() * number / 4..samples.len() * (number + 1) / 4];
    (2..NAMES.len()).find_map(|at| {
        let least = |quarter: &[Sample]| quarter.iter().map(|sample| sample[at]).min();
        let (second, last) = (least(quarter(1))?, least(quarter(3))?);
        let is_trend = last > second + GROWTH_MAX[at - 2];
        is_trend.then(|| format!("at least {second} {}, then at least {last}", NAMES[at]))
    })
}

impl Display for Figures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.samples[0].len() < TREND_MIN {
            writeln!(f, "fewer than {TREND_MIN} quiet points: no trend of memory is judged")?;
        }
        writeln!(
            f,
            "{} survivors named the rank that was killed, {} did not",
            self.named, self.misnamed
        )?;
        for (slot, samples) in self.samples.iter().enumerate() {
            write!(f, "slot {slot}, {} quiet points:", samples.len())?;
            for (at, name) in NAMES.iter().enumerate() {
                let numbers = || samples.iter().map(|sample| sample[at]);
                let [first, last, most] =
                    [numbers().next(), numbers().next_back(), numbers().max()];
                let [first, last, most] = [first, last, most].map(Option::unwrap_or_default);
                write!(f, " {name} {first}, {last} in the end, at most {most};")?;
            }
            writeln!(f)?;
        }
        Ok(())
    }
}

#[test]
fn a_leak_is_a_fault_and_a_peak_is_none() {
    let steady = || vec![[10, 2, 3000, 5 << 20, 40 << 20]; TREND_MIN];
    assert_eq!(fault(&steady(), true), None);
    let mut peak = steady();
    peak[TREND_MIN - 9] = [10, 2, 9000, 50 << 20, 80 << 20];
    assert_eq!(fault(&peak, true), None);
    assert!(fault(&peak, false).is_some(), "nothing is to be left without a world");
    for (at, step) in [(2, 1), (3, 1 << 14), (4, 1 << 16)] {
        let mut leak = steady();
        leak.iter_mut().enumerate().for_each(|(life, sample)| sample[at] += life * step);
        assert!(fault(&leak, true).is_some_and(|fault| fault.contains(NAMES[at])));
        assert_eq!(fault(&leak[1..], true), None, "too few for a trend");
    }
    for (at, said) in [(0, "10 descriptors, then 11"), (1, "2 threads, then 3")] {
        let mut more = steady();
        more[7][at] += 1;
        assert_eq!(fault(&more, true).as_deref(), Some(said));
    }
    assert!(fault(&[], true).is_some());
}
