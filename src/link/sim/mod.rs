//! A simulated network: all ranks in one thread, under a seed, in a time of its own.
//!
//! Every chunk of bytes has a random delay; reads and writes take a random part, or block although they need not; both
//! ends of a connection come up at times of their own. Processes die and connections break when the harness says so,
//! at any byte. Time moves only when the harness moves it. For tests only; what it must guarantee is in `link`.
#![forbid(unsafe_code)]

mod frames;
mod pair;
mod pipe;
pub(crate) mod random;

use std::io::{self, IoSlice, IoSliceMut};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;

use super::{Event, Mesh, Wake};
use crate::error::Error;
pub(crate) use frames::Spot;
use pair::Pair;
use random::Random;

/// How the network treats what it carries.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Settings {
    /// The longest time that bytes are under way.
    pub(crate) delay_max_ns: u64,
    /// The longest time until a connection is up.
    pub(crate) dial_max_ns: u64,
    /// Bytes that one direction of a connection holds at most.
    pub(crate) window_bytes: usize,
    /// How many reads and writes of a hundred take a part only.
    pub(crate) partial_percent: u64,
    /// How many of a hundred block although they need not.
    pub(crate) block_percent: u64,
    /// After so long without a word a dial, or a connection with bytes that nobody acknowledges, is given up.
    pub(crate) silence_ns: Option<u64>,
    /// Prints frames.
    pub(crate) trace: bool,
    /// Looks for the byte to alter.
    pub(crate) follows: bool,
    /// The two ranks of the connection at hand.
    named: (usize, usize),
}

impl Settings {
    pub(crate) fn new(delay_max_ns: u64, window_bytes: usize) -> Self {
        Self {
            delay_max_ns,
            dial_max_ns: delay_max_ns,
            window_bytes,
            partial_percent: 0,
            block_percent: 0,
            silence_ns: None,
            trace: false,
            follows: false,
            named: (0, 0),
        }
    }
}

#[derive(Debug)]
struct State {
    now: u64,
    random: Random,
    settings: Settings,
    size: usize,
    /// By lower and higher rank.
    pairs: Vec<Pair>,
}

impl State {
    /// The connection of two ranks, the number of `rank`'s end of it, and what its methods need.
    fn pair(&mut self, rank: usize, peer: usize) -> (&mut Pair, usize, u64, &mut Random, Settings) {
        let (low, high) = (rank.min(peer), rank.max(peer));
        let pair = &mut self.pairs[low * self.size + high];
        let delay_max_ns = pair.delay_max_ns.unwrap_or(self.settings.delay_max_ns);
        let settings = Settings { named: (low, high), delay_max_ns, ..self.settings };
        (pair, usize::from(rank > peer), self.now, &mut self.random, settings)
    }
}

/// The network that all ranks share.
#[derive(Debug, Clone)]
pub(crate) struct Network(Arc<Mutex<State>>);

impl Network {
    pub(crate) fn new(seed: u64, size: usize, settings: Settings) -> Self {
        let pairs = (0..size * size).map(|_| Pair::default()).collect();
        let random = Random::new(seed);
        Self(Arc::new(Mutex::new(State { now: 1, random, settings, size, pairs })))
    }

    pub(crate) fn mesh(&self, rank: usize) -> SimMesh {
        SimMesh { rank, network: self.clone() }
    }

    pub(crate) fn now(&self) -> u64 {
        self.0.lock().now
    }

    /// Moves time on.
    pub(crate) fn advance_to(&self, time: u64) {
        let mut state = self.0.lock();
        state.now = state.now.max(time);
    }

    /// When a rank will have an event; may be past.
    pub(crate) fn next_at(&self, rank: usize) -> Option<u64> {
        let mut state = self.0.lock();
        let window = state.settings.window_bytes;
        let mut next: Option<u64> = None;
        for peer in (0..state.size).filter(|peer| *peer != rank) {
            let (pair, me, ..) = state.pair(rank, peer);
            next = next.into_iter().chain(pair.next_at(me, window)).min();
        }
        next
    }

    /// Acts on the connection of two ranks; the number is that of `rank`'s end.
    fn pair(
        &self,
        (rank, peer): (usize, usize),
        act: impl FnOnce(&mut Pair, usize, u64, &mut Random, &Settings),
    ) {
        let mut state = self.0.lock();
        let (pair, me, now, random, settings) = state.pair(rank, peer);
        act(pair, me, now, random, &settings);
    }

    fn each_pair(&self, rank: usize, act: impl Fn(&mut Pair, usize, u64, &mut Random, &Settings)) {
        let mut state = self.0.lock();
        for peer in (0..state.size).filter(|peer| *peer != rank) {
            let (pair, me, now, random, settings) = state.pair(rank, peer);
            act(pair, me, now, random, &settings);
        }
    }

    /// A rank's process dies.
    pub(crate) fn kill(&self, rank: usize) {
        self.each_pair(rank, Pair::die);
    }

    /// A rank's process ends in order: what it wrote arrives.
    pub(crate) fn finish(&self, rank: usize) {
        self.each_pair(rank, Pair::close);
    }

    /// A rank's process stops: its connections stay, and new ones wait for it.
    pub(crate) fn freeze(&self, rank: usize) {
        self.each_pair(rank, |pair, _, now, random, settings| {
            pair.freeze(true, now, random, settings);
        });
    }

    /// It goes on.
    pub(crate) fn thaw(&self, rank: usize) {
        self.each_pair(rank, |pair, _, now, random, settings| {
            pair.freeze(false, now, random, settings);
        });
    }

    /// The connection of two ranks breaks, or can no longer be made.
    pub(crate) fn sever(&self, rank: usize, peer: usize) {
        self.pair((rank, peer), |pair, _, now, random, settings| {
            pair.sever(now, random, settings);
        });
    }

    /// What a rank sends another does not arrive any more.
    pub(crate) fn cut(&self, from: usize, to: usize) {
        self.pair((from, to), |pair, me, now, _, settings| pair.cut(me, now, settings));
    }

    /// One byte that a rank sends another from now on is altered.
    pub(crate) fn damage(&self, from: usize, to: usize, spot: Spot) {
        self.pair((from, to), |pair, me, _, _, _| pair.damage(me, spot));
    }

    /// Whether a byte was altered, and has been read with all the others.
    pub(crate) fn has_read_damage(&self, from: usize, to: usize) -> bool {
        let mut state = self.0.lock();
        let (pair, me, ..) = state.pair(from, to);
        pair.has_read_damage(me)
    }

    /// Bytes between two ranks are under way for another time than elsewhere.
    pub(crate) fn slow_down(&self, rank: usize, peer: usize, delay_max_ns: u64) {
        self.pair((rank, peer), |pair, _, _, _, _| {
            pair.delay_max_ns = Some(delay_max_ns);
        });
    }
}

/// One rank's end of the network.
#[derive(Debug)]
pub(crate) struct SimMesh {
    rank: usize,
    network: Network,
}

#[derive(Debug)]
struct NoWake;

impl Wake for NoWake {
    fn wake(&self) {}
}

impl Mesh for SimMesh {
    fn now(&self) -> u64 {
        self.network.now()
    }

    fn dial(&mut self, peer: usize) {
        assert_ne!(self.rank, peer, "a rank dials itself");
        let mut state = self.network.0.lock();
        let (pair, me, now, random, settings) = state.pair(self.rank, peer);
        pair.dial(me, now, random, &settings);
    }

    fn read(&mut self, peer: usize, buffers: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
        let mut state = self.network.0.lock();
        let (pair, me, now, random, settings) = state.pair(self.rank, peer);
        pair.read(me, now, random, &settings, buffers)
    }

    fn has_ended(&self, peer: usize) -> bool {
        let mut state = self.network.0.lock();
        let (pair, me, ..) = state.pair(self.rank, peer);
        pair.has_ended(me)
    }

    fn write(&mut self, peer: usize, buffers: &[IoSlice<'_>]) -> io::Result<usize> {
        let mut state = self.network.0.lock();
        let (pair, me, now, random, settings) = state.pair(self.rank, peer);
        pair.write(me, now, random, &settings, buffers)
    }

    fn shutdown(&mut self, peer: usize) {
        let mut state = self.network.0.lock();
        let (pair, me, now, ..) = state.pair(self.rank, peer);
        pair.shutdown(me, now);
    }

    fn give_up(&mut self, peer: usize) {
        let mut state = self.network.0.lock();
        let (pair, me, ..) = state.pair(self.rank, peer);
        pair.give_up(me);
    }

    fn trouble(&self, _peer: usize) -> Option<String> {
        None
    }

    fn close(&mut self, peer: usize) {
        let mut state = self.network.0.lock();
        let (pair, me, now, random, settings) = state.pair(self.rank, peer);
        pair.close(me, now, random, &settings);
    }

    fn may_come_up(&self, peer: usize) -> bool {
        let mut state = self.network.0.lock();
        if peer == self.rank {
            return false;
        }
        let (pair, me, ..) = state.pair(self.rank, peer);
        pair.may_come_up(me)
    }

    fn poll(&mut self, limit: Option<Duration>, events: &mut Vec<Event>) -> Result<(), Error> {
        assert_eq!(limit, Some(Duration::ZERO), "time is moved by the harness");
        let mut state = self.network.0.lock();
        let (size, window) = (state.size, state.settings.window_bytes);
        let first = state.random.below(size);
        for peer in (0..size).map(|at| (first + at) % size).filter(|peer| *peer != self.rank) {
            let (pair, me, now, ..) = state.pair(self.rank, peer);
            pair.tell(me, peer, now, window, events);
        }
        Ok(())
    }

    fn waker(&self) -> Arc<dyn Wake> {
        Arc::new(NoWake)
    }

    fn address(&self, peer: usize) -> String {
        format!("sim:{peer}")
    }
}
