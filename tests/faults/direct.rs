//! Who directs a run: starts its ranks, helps with the fault, and waits for all to end.

use std::fs::{self, File};
use std::path::Path;
use std::process::{Command, ExitStatus};
use std::sync::OnceLock;
use std::thread;
use std::time::{Duration, Instant};

use super::inject::GO_ON;
use super::judge::{self, Verdict};
use super::proxy::{Hit, Proxy};
use super::scenario::{Fault, Part, Scenario};
use super::{SEED, cancelled, cut, link, report};
use crate::ranks::{self, Ranks};
use crate::scenes::state_of;

/// No run takes as long, unless something hangs.
const HANG: Duration = Duration::from_secs(45);

/// How a run ended.
#[derive(Debug)]
pub(crate) struct Outcome {
    pub(crate) scenario: Scenario,
    /// How each rank ended; `None` if it had to be killed, because it did not end.
    pub(crate) ends: Vec<Option<ExitStatus>>,
    /// What each has told.
    pub(crate) told: Vec<Vec<Vec<String>>>,
    /// What each has printed.
    pub(crate) printed: Vec<String>,
    pub(crate) hit: Option<Hit>,
    /// Who is at the other end of a connection that was broken, if that could be found out.
    pub(crate) other_end: Option<usize>,
    pub(crate) took: Duration,
}

/// Runs what the seed says, for the test called `name`.
pub(crate) fn run(name: &str, seed: u64) -> Verdict {
    let scenario = Scenario::of(seed);
    // A thread of its own, since it may go to a network namespace of its own.
    thread::scope(|scope| {
        let run = scope.spawn(|| {
            let is_cut = matches!(scenario.fault, Fault::Cut { .. });
            if is_cut && !cut::enter_namespace() {
                return Verdict::skipped();
            }
            judge::judge(&Run::start(name, scenario).watch())
        });
        run.join().unwrap()
    })
}

/// A run under way.
struct Run {
    scenario: Scenario,
    ranks: Ranks,
    proxy: Option<Proxy>,
    other_end: Option<usize>,
    start: Instant,
    has_helped: bool,
}

impl Run {
    fn start(name: &str, scenario: Scenario) -> Self {
        let proxy = OnceLock::new();
        let command = |program, rank, folder: &Path| {
            let mut command = Command::new(program);
            command.env(SEED, scenario.seed.to_string());
            let output = File::create(folder.join(format!("printed.{rank}"))).unwrap();
            command.stdout(output.try_clone().unwrap()).stderr(output);
            if scenario.is_proxied() {
                let proxy = proxy.get_or_init(|| Proxy::start(&scenario, folder));
                let ports = proxy.ports.iter().map(ToString::to_string).collect::<Vec<_>>();
                command.env(link::PROXIES, ports.join(","));
            }
            if scenario.fault == Fault::Cancel && rank == scenario.victim {
                command.env(cancelled::LIBRARY, cancelled::build(folder));
            }
            command
        };
        let ranks = Ranks::spawn_by(name, scenario.size, command);
        let (other_end, has_helped) = (None, false);
        let (proxy, start) = (proxy.into_inner(), Instant::now());
        Self { scenario, ranks, proxy, other_end, start, has_helped }
    }

    /// Sees to it that all ranks end.
    fn watch(mut self) -> Outcome {
        let mut ends = vec![None; self.scenario.size];
        while ends.contains(&None) && self.start.elapsed() < HANG {
            for (child, end) in self.ranks.children.iter_mut().zip(&mut ends) {
                *end = end.or(child.try_wait().unwrap());
            }
            if !self.has_helped {
                self.help();
            }
            thread::sleep(Duration::from_millis(2));
        }
        let took = self.start.elapsed();
        for child in self.ranks.children.iter_mut() {
            let _ = child.kill();
            child.wait().unwrap();
        }
        let folder = &self.ranks.folder;
        let all = 0..self.scenario.size;
        let printed = |rank| fs::read_to_string(folder.join(format!("printed.{rank}"))).unwrap();
        Outcome {
            told: all.clone().map(|rank| report::read(folder, rank)).collect(),
            printed: all.map(printed).collect(),
            hit: self.proxy.take().and_then(Proxy::end),
            other_end: self.other_end,
            scenario: self.scenario,
            ends,
            took,
        }
    }

    /// Does what the victim cannot do by itself, once.
    fn help(&mut self) {
        match self.scenario.fault {
            Fault::Stop { .. } => self.wake_up(),
            Fault::Reset | Fault::Cut { .. } => self.find_the_other_end(),
            _ => self.has_helped = true,
        }
    }

    /// A rank that has stopped goes on after the others have given it up.
    fn wake_up(&mut self) {
        let victim = self.scenario.victim;
        if state_of(self.ranks.children[victim].id()) != Some('T') {
            return;
        }
        // Worlds without it are still played on.
        let scenario = &self.scenario;
        let has_given_up = |rank: usize| {
            let told = report::read(&self.ranks.folder, rank);
            if scenario.part == Part::End {
                return told.iter().any(|line| line[0] == "end");
            }
            let has_lost = |world: usize| {
                let is_it =
                    |line: &&Vec<String>| line[0] == "error" && line[2] == world.to_string();
                told.iter().filter(is_it).any(|line| line[1] != "fork")
            };
            let mut worlds = 0..scenario.worlds.len();
            worlds.all(|at| {
                has_lost(at) || !scenario.worlds[at].contains(&rank) || !scenario.has_victim(at)
            })
        };
        if (0..scenario.size).filter(|rank| *rank != victim).all(has_given_up) {
            self.ranks.signal(victim, libc::SIGCONT);
            self.has_helped = true;
        }
    }

    /// The victim waits for word before a connection of its is broken.
    fn find_the_other_end(&mut self) {
        let victim = self.scenario.victim;
        let told = report::read(&self.ranks.folder, victim);
        let Some(link) = told.iter().find(|line| line[0] == "link") else { return };
        let [own, other] = [&link[1], &link[2]].map(|port| port.parse().unwrap());
        let pids: Vec<u32> = self.ranks.children.iter().map(std::process::Child::id).collect();
        self.other_end = link::owner(&pids, other, own);
        match self.scenario.fault {
            Fault::Cut { to_victim: true } => cut::cut(other, own),
            Fault::Cut { to_victim: false } => cut::cut(own, other),
            _ => {}
        }
        ranks::mark_in(&self.ranks.folder, GO_ON);
        self.has_helped = true;
    }
}
