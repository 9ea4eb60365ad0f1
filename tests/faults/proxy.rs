//! A proxy before every rank on the way to and from the victim. It flips one bit.

use std::fs;
use std::io::{ErrorKind, Read, Write};
use std::net::{Ipv4Addr, Shutdown, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use collect::link::phase::Phase;

use super::inject::{ARMED, HAPPENED};
use super::scenario::{Draw, Fault, Scenario, When};
use super::wire::{Target, Wire};
use crate::ranks;

/// How long what is to flip may take to come as often as it should.
const PATIENCE: Duration = Duration::from_secs(2);

/// The bytes of a dialler's hello that have its rank.
const RANK_AT: usize = 24;

/// A bit has flipped.
#[derive(Debug, Clone)]
pub(crate) struct Hit {
    pub(crate) phase: String,
    /// From which rank to which.
    pub(crate) ends: [usize; 2],
}

/// The listeners and connections of one run.
#[derive(Debug)]
pub(crate) struct Proxy {
    pub(crate) ports: Vec<u16>,
    shared: Arc<Shared>,
    listening: Vec<JoinHandle<()>>,
}

#[derive(Debug)]
struct Shared {
    victim: usize,
    folder: PathBuf,
    target: Target,
    /// Places that fit before the one that flips; it wraps then.
    left: AtomicU32,
    /// When any place will do.
    any_at: OnceLock<Instant>,
    patience: Duration,
    hit: Mutex<Option<Hit>>,
    is_armed: AtomicBool,
    is_over: AtomicBool,
}

impl Proxy {
    pub(crate) fn start(scenario: &Scenario, folder: &Path) -> Self {
        let mut draw = Draw::new(scenario.seed ^ 0xb17);
        let (phase, count, patience) = match scenario.when {
            When::In(phase, count) => (Some(phase), count, PATIENCE),
            When::After(time) => (None, u32::MAX, time),
        };
        let shared = Arc::new(Shared {
            victim: scenario.victim,
            folder: folder.to_owned(),
            target: Target {
                phase,
                in_payload: scenario.fault == Fault::Payload,
                bit: draw.number() as usize >> 1,
            },
            left: AtomicU32::new(count),
            any_at: OnceLock::new(),
            patience,
            hit: Mutex::new(None),
            is_armed: AtomicBool::new(false),
            is_over: AtomicBool::new(false),
        });
        let listen = |_| TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let listeners: Vec<TcpListener> = (0..scenario.size).map(listen).collect();
        let port = |listener: &TcpListener| listener.local_addr().unwrap().port();
        let ports = listeners.iter().map(port).collect();
        let serve = |(rank, listener)| {
            let shared = Arc::clone(&shared);
            thread::spawn(move || shared.serve(rank, &listener))
        };
        let listening = listeners.into_iter().enumerate().map(serve).collect();
        Self { ports, shared, listening }
    }

    /// Ends, after the ranks have. What has flipped, if anything has.
    pub(crate) fn end(self) -> Option<Hit> {
        self.shared.is_over.store(true, Ordering::Release);
        self.listening.into_iter().for_each(|thread| thread.join().unwrap());
        self.shared.hit.lock().unwrap().clone()
    }
}

impl Shared {
    /// Takes connections to one rank until the end.
    fn serve(self: Arc<Self>, rank: usize, listener: &TcpListener) {
        listener.set_nonblocking(true).unwrap();
        let mut pumps = Vec::new();
        while !self.is_over.load(Ordering::Acquire) {
            match listener.accept() {
                Ok((stream, _)) => {
                    stream.set_nonblocking(false).unwrap();
                    let shared = Arc::clone(&self);
                    pumps.push(thread::spawn(move || shared.join(rank, stream)));
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    thread::sleep(Duration::from_millis(1));
                }
                Err(error) => panic!("a proxy's listener: {error}"),
            }
        }
        pumps.into_iter().for_each(|pump| pump.join().unwrap());
    }

    /// Joins a dialler to the rank that it dials.
    fn join(self: Arc<Self>, rank: usize, dialler: TcpStream) {
        let port = fs::read_to_string(self.folder.join(format!("port.{rank}"))).unwrap();
        let Ok(acceptor) = TcpStream::connect((Ipv4Addr::LOCALHOST, port.parse().unwrap())) else {
            return;
        };
        for stream in [&dialler, &acceptor] {
            stream.set_nodelay(true).unwrap();
        }
        // A dialler speaks first, and says who it is. One that says nothing has gone.
        let mut hello = [0; RANK_AT + 4];
        if peek(&dialler, &mut hello).is_none() {
            return;
        }
        let from = u32::from_le_bytes(hello[RANK_AT..].try_into().unwrap()) as usize;
        let there = (dialler.try_clone().unwrap(), acceptor.try_clone().unwrap());
        let shared = Arc::clone(&self);
        let pump = thread::spawn(move || shared.pump(there, [from, rank]));
        self.pump((acceptor, dialler), [rank, from]);
        pump.join().unwrap();
    }

    /// Passes on one direction until its end.
    fn pump(&self, (mut from, mut to): (TcpStream, TcpStream), ends: [usize; 2]) {
        let mut wire = Wire::new(ends[0] < ends[1]);
        let mut bytes = vec![0; 64 << 10];
        loop {
            let count = match from.read(&mut bytes) {
                Ok(0) => break drop(to.shutdown(Shutdown::Write)),
                Ok(count) => count,
                Err(_) => break drop(to.shutdown(Shutdown::Both)),
            };
            let output = self.pass(&mut wire, &bytes[..count], ends);
            if to.write_all(&output).is_err() {
                break drop(from.shutdown(Shutdown::Both));
            }
        }
    }

    fn pass(&self, wire: &mut Wire, input: &[u8], ends: [usize; 2]) -> Vec<u8> {
        if !self.is_armed() {
            return wire.pass(input, self.target, &mut || false);
        }
        let any_at = *self.any_at.get_or_init(|| Instant::now() + self.patience);
        let is_late = Instant::now() >= any_at;
        let mut target = self.target;
        if is_late {
            target.phase = None;
        }
        let mut is_due = || {
            let before = self.left.fetch_update(Ordering::AcqRel, Ordering::Acquire, |left| {
                let next = if is_late { 0 } else { left.checked_sub(1)? };
                (left > 0).then_some(next)
            });
            let flips = before.is_ok_and(|before| is_late || before == 1);
            if flips {
                self.note(target.phase, ends);
            }
            flips
        };
        wire.pass(input, target, &mut is_due)
    }

    fn is_armed(&self) -> bool {
        let is_armed = self.is_armed.load(Ordering::Acquire) || self.folder.join(ARMED).exists();
        self.is_armed.store(is_armed, Ordering::Release);
        is_armed
    }

    fn note(&self, phase: Option<Phase>, ends: [usize; 2]) {
        let found = phase.map(|phase| phase.to_string());
        let otherwise = if self.target.phase.is_some() { "late" } else { "any time" };
        let phase = found.unwrap_or_else(|| otherwise.into());
        *self.hit.lock().unwrap() = Some(Hit { phase, ends });
        ranks::mark_in(&self.folder, HAPPENED);
    }
}

/// Waits until so many bytes are there, and leaves them there.
fn peek(stream: &TcpStream, bytes: &mut [u8]) -> Option<()> {
    let until = Instant::now() + PATIENCE;
    while Instant::now() < until {
        let count = stream.peek(bytes).ok()?;
        if count == bytes.len() {
            return Some(());
        }
        if count == 0 {
            return None;
        }
        thread::sleep(Duration::from_millis(1));
    }
    None
}
