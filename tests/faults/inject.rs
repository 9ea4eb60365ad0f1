//! The fault, made by the victim itself from inside the engine: its logger hears what the engine is about, and acts there
//! and then, on the engine's thread. (Faults of proxied connections are made by the proxy.)
//!
//! If the phase does not come as often as it should, the fault happens all the same, a while later. Every rank's logger
//! notes failures of worlds, with how many ranks the news went through.

use std::fmt::Write;
use std::fs::File;
use std::os::fd::{AsRawFd, RawFd};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread;
use std::time::{Duration, Instant};

use collect::link::phase;

use super::play::Rank;
use super::report::Report;
use super::scenario::{Draw, Fault, Scenario, When};
use super::{cancelled, link};
use crate::ranks;

/// How long the phase may take to come as often as it should.
const PATIENCE: Duration = Duration::from_secs(2);
/// For how long there are no descriptors, where they come back.
const SCARCITY: Duration = Duration::from_millis(300);
/// The marks of a fault that may happen, of one that somebody else has made, and of one that is to go on.
pub(crate) const ARMED: &str = "armed";
pub(crate) const HAPPENED: &str = "happened";
pub(crate) const GO_ON: &str = "go on";
/// The most descriptors of a test's process.
const HIGH: u64 = 1024;

static INJECTOR: OnceLock<Injector> = OnceLock::new();

/// The logger of a rank.
struct Injector {
    scenario: Scenario,
    report: Arc<Report>,
    is_armed: AtomicBool,
    /// Occurrences of the phase before the one that it is about; it wraps then.
    left: AtomicU32,
    is_claimed: AtomicBool,
    has_happened: AtomicBool,
    is_over: AtomicBool,
    /// When descriptors come back, in milliseconds after the start.
    relief_at: AtomicU64,
    start: Instant,
}

pub(crate) fn install(rank: &Rank) {
    let left = match rank.scenario.when {
        When::In(_, count) => count,
        When::After(_) => 0,
    };
    let injector = INJECTOR.get_or_init(|| Injector {
        scenario: rank.scenario.clone(),
        report: Arc::clone(&rank.report),
        is_armed: AtomicBool::new(false),
        left: AtomicU32::new(left),
        is_claimed: AtomicBool::new(rank.scenario.is_proxied()),
        has_happened: AtomicBool::new(false),
        is_over: AtomicBool::new(false),
        relief_at: AtomicU64::new(u64::MAX),
        start: Instant::now(),
    });
    log::set_logger(injector).unwrap();
    log::set_max_level(log::LevelFilter::Trace);
}

fn injector() -> &'static Injector {
    INJECTOR.get().unwrap()
}

/// From now on, phases count.
pub(crate) fn arm() {
    let injector = injector();
    injector.is_armed.store(true, Ordering::Release);
    if injector.scenario.when == When::After(Duration::ZERO) {
        injector.try_at("any time");
    }
}

/// Whether the fault has happened.
pub(crate) fn has_happened() -> bool {
    let injector = injector();
    let happened = injector.has_happened.load(Ordering::Acquire);
    happened || injector.scenario.is_proxied() && is_marked(HAPPENED)
}

/// What happens by time: runs until [`end_watch`].
pub(crate) fn keep_watch() {
    let injector = injector();
    let armed = Instant::now();
    while !injector.is_over.load(Ordering::Acquire) {
        let late = armed.elapsed() > PATIENCE;
        match injector.scenario.when {
            When::After(time) if armed.elapsed() >= time => injector.try_at("any time"),
            When::In(..) if late => injector.try_at("late"),
            _ => {}
        }
        if injector.start.elapsed()
            >= Duration::from_millis(injector.relief_at.load(Ordering::Acquire))
        {
            set_limit(HIGH);
        }
        thread::sleep(Duration::from_millis(2));
    }
}

pub(crate) fn end_watch() {
    injector().is_over.store(true, Ordering::Release);
}

/// Takes back what a fault has left that stays.
pub(crate) fn make_good() {
    set_limit(HIGH);
}

/// Whether somebody has left this mark in the run's folder. Opens no descriptor.
fn is_marked(name: &str) -> bool {
    ranks::folder().join(name).exists()
}

impl log::Log for Injector {
    fn enabled(&self, metadata: &log::Metadata<'_>) -> bool {
        metadata.target() == phase::TARGET || metadata.target() == "collect::world"
    }

    fn log(&self, record: &log::Record<'_>) {
        let mut text = String::new();
        let _ = write!(text, "{}", record.args());
        if record.target() == "collect::world" {
            return self.report.say(&["news", &text]);
        }
        let When::In(phase, _) = self.scenario.when else { return };
        let is_it = record.target() == phase::TARGET && text == phase.to_string();
        if !is_it || !self.is_armed.load(Ordering::Acquire) {
            return;
        }
        // The last of them, and every later one: the first may find nothing to break.
        let before = self
            .left
            .fetch_update(Ordering::AcqRel, Ordering::Acquire, |left| Some(left.saturating_sub(1)));
        if before.is_ok_and(|before| before <= 1) {
            self.try_at(&text);
        }
    }

    fn flush(&self) {}
}

impl Injector {
    /// Makes the fault, unless it is made already, or cannot be made yet.
    fn try_at(&self, phase: &str) {
        if self.is_claimed.swap(true, Ordering::AcqRel) {
            return;
        }
        if self.strike(phase) {
            self.has_happened.store(true, Ordering::Release);
        } else {
            self.is_claimed.store(false, Ordering::Release);
        }
    }

    /// Makes the fault. Whether it could.
    fn strike(&self, phase: &str) -> bool {
        let say = || self.report.say(&["fault", phase]);
        let mut draw = Draw::new(self.scenario.seed ^ 0xfa);
        match self.scenario.fault {
            Fault::Kill => {
                say();
                raise(libc::SIGKILL);
            }
            Fault::Exit { runs_handlers: true } => {
                say();
                std::process::exit(0);
            }
            Fault::Exit { runs_handlers: false } => {
                say();
                // SAFETY: ends this process.
                unsafe { libc::_exit(0) };
            }
            Fault::Stop { .. } => {
                say();
                raise(libc::SIGSTOP);
            }
            Fault::Reset | Fault::Cut { .. } => {
                let Some(end) = link::End::any(&mut draw) else { return false };
                say();
                self.break_link(&end);
            }
            Fault::Slow => {
                say();
                let pause = 50 + draw.below(950) as u64;
                thread::sleep(Duration::from_millis(pause));
            }
            Fault::Scarce { for_good } => {
                say();
                leave_no_descriptors();
                if !for_good {
                    let at = (self.start.elapsed() + SCARCITY).as_millis() as u64;
                    self.relief_at.store(at, Ordering::Release);
                }
            }
            Fault::Cancel => {
                if !cancelled::cancel() {
                    return false;
                }
                say();
            }
            Fault::Header | Fault::Payload => unreachable!("the proxy makes it"),
        }
        true
    }

    /// Who directs finds out who is at the other end, and cuts what is to be cut.
    fn break_link(&self, end: &link::End) {
        let (own, other) = (end.own_port.to_string(), end.other_port.to_string());
        self.report.say(&["link", &own, &other]);
        let until = Instant::now() + ranks::DEADLINE;
        while !is_marked(GO_ON) {
            assert!(Instant::now() < until, "nobody says who is at the other end");
            thread::sleep(Duration::from_millis(1));
        }
        if self.scenario.fault == Fault::Reset {
            end.reset();
        }
    }
}

fn raise(signal: i32) {
    // SAFETY: takes no pointer.
    assert_eq!(unsafe { libc::raise(signal) }, 0);
}

/// The next descriptor that would be opened is refused, as all above are.
fn leave_no_descriptors() {
    let next: RawFd = File::open("/dev/null").unwrap().as_raw_fd();
    set_limit(u64::try_from(next).unwrap());
}

fn set_limit(descriptors: u64) {
    let limit = libc::rlimit { rlim_cur: descriptors, rlim_max: HIGH };
    // SAFETY: `limit` is readable.
    assert_eq!(unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &raw const limit) }, 0);
}
