//! Runs a case: lets ranks take steps in a random order, moves time when nothing can happen, and checks all that is so
//! between steps and in the end.
#![forbid(unsafe_code)]

use std::time::Duration;

use super::blame::Figures;
use super::call;
use super::case::{Call, Case};
use super::content::{contributors, elements, outputs};
use super::fault::Fault;
use super::memory::Memory;
use super::play::Play;
use super::rank::{Act, Rank, world_id};
use super::script::write_script;
use super::{blame, verdict};
use crate::engine::core::Command;
use crate::link::sim::Network;
use crate::link::sim::random::Random;

/// More steps than any case needs: what passes them runs for ever.
const STEPS_MAX: usize = 400_000;

/// More nanoseconds than anything needs that ends: what is still under way then hangs.
const HORIZON: u64 = 20_000_000_000_000;

/// How often the clock may jump in a case.
const JUMPS_MAX: usize = 20;

pub(super) struct Harness<'a> {
    pub(super) case: &'a Case,
    pub(super) network: Network,
    pub(super) ranks: Vec<Rank>,
    random: Random,
    pub(super) steps: usize,
    /// How often the clock has jumped.
    jumps: usize,
    pub(super) play: Play,
    act_percent: u64,
    stall_percent: u64,
    pub(super) is_tracing: bool,
    /// Buffers stay as they are when their operation ends.
    pub(super) keeps_contents: bool,
    /// A peer sends frames at random, so results mean nothing.
    pub(super) is_confused: bool,
}

/// Runs a case to its end. Who was named.
///
/// # Panics
///
/// If anything is not as it should be.
pub(super) fn run(case: &Case, is_tracing: bool) -> Figures {
    let mut harness = Harness::new(case, is_tracing);
    harness.go();
    verdict::of_operations(&harness);
    harness.audit_credits();
    let figures = blame::figures(&harness);
    harness.close();
    harness.check_poison();
    figures
}

impl<'a> Harness<'a> {
    pub(super) fn new(case: &'a Case, is_tracing: bool) -> Self {
        let mut random = Random::new(case.seed ^ 0x5eed);
        let mut settings = case.settings;
        settings.trace = is_tracing;
        settings.follows = matches!(case.fault, Fault::Corrupt { .. });
        let network = Network::new(case.seed, case.ranks, settings);
        let mut ranks: Vec<Rank> = (0..case.ranks)
            .map(|rank| Rank::new(case, rank, &network, random.pick(&[1, 2, 5, 100])))
            .collect();
        for rank in &mut ranks {
            write_script(case, rank, &mut random);
            if random.chance(10) {
                rank.core.command(Command::Connect { world: world_id(0) });
            }
        }
        Self {
            case,
            network,
            ranks,
            act_percent: random.pick(&[3, 20, 100]),
            stall_percent: random.pick(&[0, 0, 1]),
            random,
            steps: 0,
            jumps: 0,
            play: Play::default(),
            is_tracing,
            keeps_contents: false,
            is_confused: false,
        }
    }

    /// Until nothing can happen any more, or nothing but questions to which there is no end.
    pub(super) fn go(&mut self) {
        let horizon = self.network.now() + HORIZON;
        while self.network.now() < horizon && self.once() {
            assert!(self.steps < STEPS_MAX, "it runs for ever: {}", self.describe());
        }
    }

    /// One step of one rank, or of time. False if nothing can happen.
    pub(super) fn once(&mut self) -> bool {
        let now = self.network.now();
        self.thaw();
        let ready: Vec<usize> = (0..self.ranks.len()).filter(|r| self.is_ready(*r, now)).collect();
        if ready.is_empty() {
            let next = self.next_time();
            next.into_iter().for_each(|next| self.pass_time(next));
            return next.is_some();
        }
        self.steps += 1;
        self.play_fault();
        let chosen = ready[self.random.below(ready.len())];
        self.step(chosen);
        true
    }

    fn pass_time(&mut self, next: u64) {
        // Now and then the clock jumps, but not so often that there are more questions than time to answer.
        let most = self.random.pick(&[40_000_000, self.case.jump_max_ns]);
        let jumps = self.jumps < JUMPS_MAX && self.random.chance(2);
        self.jumps += usize::from(jumps);
        let jump = if jumps { self.random.delay(most) } else { 0 };
        self.network.advance_to(next + jump);
    }

    fn is_ready(&self, rank: usize, now: u64) -> bool {
        let it = &self.ranks[rank];
        if !it.is_alive || it.is_closed || it.stalled_until > now {
            return false;
        }
        it.is_active
            || self.network.next_at(rank).is_some_and(|at| at <= now)
            || it.core.due().is_some_and(|at| at <= now)
            || self.act_of(rank).is_some()
    }

    /// When anything will happen, if nothing can now.
    fn next_time(&self) -> Option<u64> {
        let of_rank = |it: &Rank| {
            if !it.is_alive || it.is_closed {
                return None;
            }
            let event = self.network.next_at(it.number);
            let is_waiting = it.is_active || self.act_of(it.number).is_some();
            let woken = is_waiting.then_some(it.stalled_until);
            let next = event.into_iter().chain(it.core.due()).chain(woken).min()?;
            Some(next.max(it.stalled_until))
        };
        self.ranks.iter().filter_map(of_rank).chain(self.play.thaw_at).min()
    }

    /// A world in which a rank can do its next act.
    fn act_of(&self, rank: usize) -> Option<usize> {
        let gave_up = match self.case.fault {
            Fault::ForkLate { world, .. } => self.ranks.iter().all(|it| {
                it.number == rank
                    || self.case.rank_in(world, it.number).is_none()
                    || it.has_left[world]
            }),
            _ => true,
        };
        let worlds = self.case.worlds.len();
        let first = self.steps % worlds;
        let mut all = (0..worlds).map(|at| (first + at) % worlds);
        all.find(|world| self.ranks[rank].can_act(self.case, *world, gave_up))
    }

    fn step(&mut self, rank: usize) {
        if !self.ranks[rank].is_alive {
            return;
        }
        let acts = self.random.chance(self.act_percent) || !self.ranks[rank].is_active;
        if acts && let Some(world) = self.act_of(rank) {
            let prefers_loose = self.random.chance(50);
            self.ranks[rank].act(self.case, world, prefers_loose);
        }
        let now = self.network.now();
        let it = &mut self.ranks[rank];
        let has_more = it.core.work();
        let was_due = it.core.due().is_some_and(|at| at <= now);
        let came = it.core.poll(Some(Duration::ZERO)).expect("a poll that cannot fail");
        it.is_active = has_more || came || was_due;
        let most = self.case.fault.stall_ns(rank);
        if most > 0 || self.random.chance(self.stall_percent) {
            it.stalled_until = now + self.random.delay(most.max(10_000_000));
        }
        if self.steps.is_multiple_of(8) {
            it.core.audit();
        }
        self.collect(rank);
    }

    /// Looks at what has ended at a rank.
    pub(super) fn collect(&mut self, rank: usize) {
        for index in self.ranks[rank].collect() {
            self.ranks[rank].is_active = true;
            let running = &self.ranks[rank].running[index];
            let (act, is_whole) = (running.act, running.outcome == Some(Ok(())));
            if self.is_tracing {
                println!("{:>12} rank {rank}: {act:?} {:?}", self.network.now(), running.outcome);
            }
            match act {
                Act::Fork(child) => {
                    if is_whole && !self.is_confused {
                        let size = self.case.worlds[child].peers.len();
                        self.check_came(act, child, 0..size);
                    }
                    let outcome = self.ranks[rank].running[index].outcome.clone();
                    let outcome = outcome.expect("it has ended");
                    self.ranks[rank].on_fork(self.case, child, &outcome);
                }
                Act::Call(call) if is_whole && !self.is_confused => {
                    self.check_call(rank, index, call);
                }
                Act::Receive(message) if is_whole && !self.is_confused => {
                    self.check_message(rank, index, message);
                }
                _ => {}
            }
            let running = &mut self.ranks[rank].running[index];
            for memory in &mut running.memories {
                assert!(memory.is_fenced(), "written beside a buffer of {act:?} at rank {rank}");
                if !self.keeps_contents {
                    memory.poison();
                }
            }
        }
    }

    /// Nobody can have what a member brings before that has called; ranks are those of the world.
    fn check_came(&self, act: Act, world: usize, mut whom: impl Iterator<Item = usize>) {
        let has_come = |rank: usize| {
            let peer = self.case.worlds[world].peers[rank] as usize;
            self.ranks[peer].running.iter().any(|r| r.act == act)
        };
        let missing = whom.find(|rank| !has_come(*rank));
        assert_eq!(
            missing, None,
            "{act:?} is complete before that rank of world {world} has called"
        );
    }

    fn check_call(&self, rank: usize, index: usize, number: usize) {
        let call: &Call = &self.case.calls[number];
        let peers = &self.case.worlds[call.world].peers;
        if let Fault::Mismatch { call: at, rank: who, .. } = self.case.fault
            && at == number
            && (who == rank || peers[call.root as usize] as usize == who)
        {
            return;
        }
        let size = peers.len();
        let me = self.case.rank_in(call.world, rank).expect("a member");
        let blocks = outputs(call, size, me).into_iter();
        let brought = blocks.filter(|block| elements(call, size, *block) > 0);
        let whom = brought.flat_map(|block| contributors(call, size, me, block));
        self.check_came(Act::Call(number), call.world, whom);
        for memory in &self.ranks[rank].running[index].memories {
            let wrong = memory.first_wrong();
            assert_eq!(wrong, None, "rank {rank} call {number} {call:?}: that byte is wrong");
        }
    }

    /// A message from any rank is one of those that its source has sent with that tag.
    fn check_message(&self, rank: usize, index: usize, number: usize) {
        let case = self.case;
        let message = &case.messages[number];
        let running = &self.ranks[rank].running[index];
        if !message.is_wild {
            self.check_came(Act::Send(number), message.world, [message.from as usize].into_iter());
            assert_eq!(running.memories[0].first_wrong(), None, "rank {rank}: {message:?}");
            return;
        }
        let source = running.completion.source().expect("a receive has a source") as usize;
        let mut sent = case.messages.iter().enumerate().filter(|(_, other)| {
            let is_alike =
                (other.world, other.to, other.tag) == (message.world, message.to, message.tag);
            is_alike && other.from as usize == source
        });
        let content = running.memories[0].content();
        let is_one = sent.any(|(at, other)| call::payload(case.seed, at, other) == content);
        assert!(is_one, "rank {rank}: {message:?} from {source} holds what was never sent");
    }

    /// With every frame taken, what one side has outstanding is what the other side owes.
    fn audit_credits(&self) {
        for rank in &self.ranks {
            rank.core.audit();
            if !rank.is_alive {
                continue;
            }
            for (world, spec) in self.case.worlds.iter().enumerate() {
                for peer in &spec.peers {
                    let other = &self.ranks[*peer as usize];
                    let is_cut = self.case.fault.parts(rank.number, other.number);
                    if !other.is_alive || is_cut || other.number == rank.number {
                        continue;
                    }
                    let mine = rank.core.credits_of(world_id(world), *peer as usize);
                    let theirs = other.core.credits_of(world_id(world), rank.number);
                    if let (Some(mine), Some(theirs)) = (mine, theirs) {
                        assert_eq!(
                            mine.0, theirs.1,
                            "credits of world {world}: {} at {peer}",
                            rank.number
                        );
                    }
                    if let (Some(mine), None, true) = (mine, theirs, other.has_left[world]) {
                        assert_eq!(mine.0, 0, "credits of world {world} at {peer}, which has left");
                    }
                }
            }
            // To one that is silent, bytes may wait for ever.
            let is_idle = match self.case.fault.is_silence() {
                true => !rank.core.has_operations(),
                false => !rank.core.is_busy(),
            };
            assert!(is_idle, "busy with nothing to do: {}", rank.core.describe());
        }
    }

    /// All endpoints close, each when it likes.
    fn close(&mut self) {
        let mut order: Vec<usize> = (0..self.ranks.len()).collect();
        for at in (1..order.len()).rev() {
            order.swap(at, self.random.below(at + 1));
        }
        for rank in order {
            if self.ranks[rank].is_alive {
                self.ranks[rank].script.iter_mut().for_each(std::collections::VecDeque::clear);
                self.ranks[rank].loose.iter_mut().for_each(Vec::clear);
                self.ranks[rank].core.command(Command::Close);
                self.ranks[rank].is_active = true;
                if self.random.chance(50) {
                    self.go();
                }
            }
        }
        self.go();
        for rank in self.ranks.iter().filter(|rank| rank.is_alive) {
            // Whom a silent one keeps from closing gives up after a while: the lane sees to that.
            assert!(
                rank.core.is_closed() || self.case.fault.is_silence(),
                "rank {} does not close: {}",
                rank.number,
                rank.core.describe()
            );
            rank.core.audit();
            self.network.finish(rank.number);
        }
    }

    /// Whoever has his buffers back has them for good.
    fn check_poison(&self) {
        for rank in self.ranks.iter().filter(|rank| rank.is_alive) {
            for running in &rank.running {
                let mut all = running.memories.iter();
                assert!(
                    all.all(Memory::is_poisoned),
                    "rank {} {:?}: written after its end",
                    rank.number,
                    running.act
                );
            }
        }
    }

    pub(super) fn describe(&self) -> String {
        let of_rank = |it: &Rank| {
            format!("rank {} script {:?}\n{}", it.number, it.script, it.core.describe())
        };
        self.ranks.iter().filter(|it| it.is_alive).map(of_rank).collect()
    }
}
