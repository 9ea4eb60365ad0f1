//! What a rank does: it makes worlds, and plays on each with a thread of its own until the world has failed or nobody wants
//! more; then it leaves, and looks for what is left behind.
//!
//! The victim wants more until the fault has happened; in worlds without it everybody does until its other worlds have
//! ended, and then for some rounds more.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use collect::config::Timeout;
use collect::store::{FileStore, HashStore, Store};
use collect::{Error, ForkOptions, World, WorldOptions};

use super::acts::Player;
use super::report::Report;
use super::scenario::{Fate, Fault, Part, Scenario};
use super::{SEED, cancelled, inject, link};
use crate::ranks;
use crate::scenes::{barrier, entries, eventually};

/// Rounds after what was waited for.
const MORE: u64 = 3;

/// What the threads of a rank share.
pub(crate) struct Rank {
    pub(crate) scenario: Scenario,
    pub(crate) rank: usize,
    pub(crate) report: Arc<Report>,
    /// Worlds with the victim that are still played on here.
    touched: AtomicUsize,
}

pub(crate) fn be_a_rank() {
    let scenario = Scenario::of(std::env::var(SEED).unwrap().parse().unwrap());
    let report = Arc::new(Report::open(&ranks::folder(), ranks::rank()));
    // Opens what stays for the life of the process.
    drop(World::create(&HashStore::new(), 0, 1, &ranks::options()).unwrap());
    eventually("the first endpoint's thread is gone", || !is_there("collect"));
    let rank = Rank { scenario, rank: ranks::rank(), report, touched: AtomicUsize::new(0) };
    inject::install(&rank);
    let before = (entries("fd"), entries("task"));
    rank.live();
    inject::make_good();
    eventually("ended threads are gone", || entries("task") <= before.1);
    let left = (entries("fd"), entries("task"));
    assert_eq!(left, before, "descriptors and threads after all worlds were destroyed");
    rank.report.say(&["end"]);
}

/// Whether a thread of this name is there.
fn is_there(name: &str) -> bool {
    let tasks = std::fs::read_dir("/proc/self/task").unwrap();
    let named = |path: std::path::PathBuf| std::fs::read_to_string(path.join("comm"));
    tasks.flatten().any(|task| named(task.path()).is_ok_and(|found| found.trim() == name))
}

impl Rank {
    fn is_victim(&self) -> bool {
        self.rank == self.scenario.victim
    }

    fn live(&self) {
        if self.scenario.part == Part::Creation && self.is_victim() {
            inject::arm();
        }
        let root = match self.make_root() {
            Ok(root) => root,
            Err(error) if self.scenario.part == Part::Creation => {
                return self.tell("creation", 0, &error);
            }
            Err(error) => panic!("creation: {error}"),
        };
        let worlds = self.make_worlds(root);
        let cancelled =
            (self.scenario.fault == Fault::Cancel).then(|| cancelled::World::make(self));
        let touched = (0..worlds.len())
            .filter(|at| worlds[*at].is_some() && self.scenario.has_victim(*at))
            .count();
        self.touched.store(touched, Ordering::Relaxed);
        if self.scenario.part != Part::Creation {
            self.begin_together();
        }
        self.play_on_all(&worlds, cancelled.as_ref());
        if self.scenario.part == Part::End && self.is_victim() {
            inject::arm();
        }
    }

    fn play_on_all(&self, worlds: &[Option<World>], cancelled: Option<&cancelled::World>) {
        thread::scope(|scope| {
            let play = |(at, world): (usize, &'_ Option<World>)| {
                world.clone().map(|world| scope.spawn(move || self.play(at, &world)))
            };
            let mut threads: Vec<_> = worlds.iter().enumerate().filter_map(play).collect();
            threads.extend(cancelled.map(|world| scope.spawn(|| world.play(self))));
            if self.is_victim() && self.scenario.part != Part::End {
                scope.spawn(inject::keep_watch);
            }
            let ends: Vec<_> = threads.into_iter().map(thread::ScopedJoinHandle::join).collect();
            inject::end_watch();
            assert!(ends.iter().all(Result::is_ok), "a thread has panicked; see above");
        });
    }

    /// The fault may happen from here on, when nobody makes the worlds any more and nobody plays yet.
    fn begin_together(&self) {
        let folder = ranks::folder();
        ranks::mark(&format!("ready.{}", self.rank));
        if self.is_victim() {
            for rank in 0..self.scenario.size {
                ranks::await_mark(&folder, &format!("ready.{rank}"));
            }
            // A rank without descriptors could still say so.
            let draft = "ready for the fault";
            ranks::mark(draft);
            if self.scenario.part != Part::End {
                inject::arm();
            }
            std::fs::rename(folder.join(draft), folder.join(inject::ARMED)).unwrap();
        }
        ranks::await_mark(&folder, inject::ARMED);
    }

    fn make_worlds(&self, root: World) -> Vec<Option<World>> {
        let fork = |members: &Vec<usize>| {
            let options = ForkOptions { members: Some(members.clone()), ..ForkOptions::default() };
            members.contains(&self.rank).then(|| root.fork(&options).unwrap())
        };
        let forks: Vec<_> = self.scenario.worlds.iter().skip(1).map(fork).collect();
        [Some(root)].into_iter().chain(forks).collect()
    }

    fn make_root(&self) -> Result<World, Error> {
        let scenario = &self.scenario;
        let heartbeat = match scenario.fault {
            Fault::Stop { is_missed_by_heartbeats: true } => Duration::from_millis(250),
            _ => Duration::from_secs(10),
        };
        let options = WorldOptions {
            timeout: Timeout::After(scenario.creation_limit()),
            wait: scenario.wait,
            connect: scenario.connect,
            checksum: scenario.fault == Fault::Payload,
            heartbeat: Timeout::After(heartbeat),
            destroy_timeout: Timeout::After(Duration::from_millis(500)),
            ..ranks::options()
        };
        let store = FileStore::open(ranks::folder().join("store")).unwrap();
        if !scenario.by_exchange {
            return World::create(&store, self.rank, scenario.size, &options);
        }
        let until = Instant::now() + ranks::DEADLINE;
        let mut exchange = |mine: &[u8]| {
            let mine = link::introduce(mine, self);
            store.set(&format!("of {}", self.rank), &mine, until)?;
            let get = |rank| store.get(&format!("of {rank}"), until);
            let see = |rank| Ok(link::as_seen((rank, get(rank)?), self));
            (0..scenario.size).map(see).collect()
        };
        World::create_with(&mut exchange, self.rank, scenario.size, &options)
    }

    /// Plays on one world.
    fn play(&self, number: usize, world: &World) {
        let mut player = Player::new(world, number, &self.scenario);
        let mut more = 0;
        for round in 0.. {
            let wants_more = self.wants_more(number);
            more = if wants_more { 0 } else { more + 1 };
            let outcome = player.round(round, wants_more || more <= MORE);
            player.fork_errors.drain(..).for_each(|error| self.tell("fork", number, &error));
            match outcome {
                Ok(true) => {}
                Ok(false) => {
                    self.report.say(&["lasted", &number.to_string()]);
                    break;
                }
                Err(error) => {
                    self.tell("world", number, &error);
                    player.give_up();
                    let again = barrier(world).unwrap_err();
                    assert_eq!(again, error, "later calls say the same");
                    break;
                }
            }
        }
        if self.scenario.has_victim(number) {
            self.touched.fetch_sub(1, Ordering::Relaxed);
        }
    }

    /// Whether this rank wants another round.
    fn wants_more(&self, number: usize) -> bool {
        if !self.scenario.has_victim(number) {
            return self.touched.load(Ordering::Relaxed) > 0;
        }
        let must_fail = self.scenario.fate() == Fate::Fails;
        let is_to_come = self.scenario.part != Part::End && !inject::has_happened();
        self.is_victim() && (must_fail || is_to_come)
    }

    fn tell(&self, what: &str, number: usize, error: &Error) {
        let members = &self.scenario.worlds[number];
        let blamed = error.rank().or_else(|| absent(&error.to_string()));
        let blamed = blamed.map(|rank| members.get(rank).map_or(usize::MAX, |rank| *rank));
        let blamed = blamed.map_or_else(|| "-".into(), |rank| rank.to_string());
        let number = number.to_string();
        self.report.say(&["error", what, &number, kind_of(error), &blamed, &error.to_string()]);
    }
}

/// Who has not come to the creation of a world, if the text of its error says so of one rank.
fn absent(text: &str) -> Option<usize> {
    let list = text.split(" have not come within the time of rank ").nth(1)?;
    list.split(": ").nth(1)?.split(';').next()?.parse().ok()
}

/// A word for what kind of error it is.
fn kind_of(error: &Error) -> &'static str {
    match error {
        Error::InvalidArgument(_) => "invalid argument",
        Error::Unsupported(_) => "unsupported",
        Error::Resource(_) => "resource",
        Error::System(_) => "system",
        Error::Store(_) => "store",
        Error::Forked => "forked",
        Error::TimedOut { .. } => "timed out",
        Error::Mismatch(_) => "mismatch",
        Error::PeerLost { .. } => "peer lost",
        Error::Aborted(_) => "aborted",
        Error::Internal(_) => "internal",
        _ => "unknown",
    }
}
