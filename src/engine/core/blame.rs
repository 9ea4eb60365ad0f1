//! Questions and answers about who is late, and heartbeats.
//!
//! What an operation knows stands in [`super::super::blame`]. Pings are also the heartbeat of a link: a peer that was
//! asked, and of which nothing at all comes for as long as the limits say, is lost.
#![forbid(unsafe_code)]

use super::super::blame::{Answer, Culprit, Progress, Why};
use super::super::name::Name;
use super::super::operation::Operation;
use super::super::peer::{LinkState, OpRef};
use super::Core;
use crate::link::frame::{HEADER_BYTES, Header, Kind};

/// Operations of one world that ask at a time.
const ASKING_MAX: usize = 4;

/// News are told where less than this waits to be written.
const NEWS_BYTES: usize = 8 * HEADER_BYTES;

/// No operation asks more rarely than this, in nanoseconds, whatever the heartbeat.
const HEARTBEAT_MAX: u64 = 10_000_000_000;

/// Pings of one world that wait for their operation to be called here; those beyond are answered once.
const ASKERS_MAX: usize = 1024;

impl Core {
    /// Lets operations ask that have waited for a while, by world and number: the oldest of each world. The others wait
    /// for the same, most likely.
    pub(super) fn ask_all(&mut self, waiting: &mut Vec<(u64, OpRef)>) {
        waiting.sort_unstable_by_key(|(world, op)| (*world, op.id));
        let mut last = (u64::MAX, 0);
        for (world, reference) in waiting.drain(..) {
            last = if last.0 == world { (world, last.1 + 1) } else { (world, 0) };
            self.reschedule(reference);
            if last.1 < ASKING_MAX {
                self.ask(reference);
            }
        }
        self.lose_the_silent();
    }

    /// Sets the time of an operation's next question.
    fn reschedule(&mut self, reference: OpRef) {
        let now = self.now();
        let most = self.limits.heartbeat_ns.min(HEARTBEAT_MAX);
        let Some(mut op) = self.lift(reference) else { return };
        op.run.watch.reschedule(now, most);
        self.due = self.due.min(op.run.watch.ask_at.unwrap_or(u64::MAX));
        self.ops[reference.slot] = Some(op);
    }

    /// Asks the ranks that an operation waits for, and tells those that wait for this one what has changed.
    fn ask(&mut self, reference: OpRef) {
        let Some(mut op) = self.lift(reference) else { return };
        let now = self.now();
        for rank in op.program.peers() {
            if !is_awaited(&op, *rank) {
                continue;
            }
            let peer = op.members.peer(*rank);
            let number = u32::try_from(peer).unwrap_or(u32::MAX);
            let question = op.run.watch.question(number);
            match question.asked_at {
                None => {
                    question.asked_at = Some(now);
                    let mut header = op.name.header(Kind::Ping, op.world);
                    header.fingerprint = op.fingerprint;
                    self.push_with_credits(peer, header, &[]);
                }
                Some(asked_at) if self.is_lost_by_silence(peer, asked_at, now) => {
                    self.silent.push(peer);
                }
                Some(_) => {}
            }
        }
        self.ops[reference.slot] = Some(op);
        self.tell_askers(reference);
    }

    /// Whether a peer has been silent for as long as can be borne.
    fn is_lost_by_silence(&self, peer: usize, asked_at: u64, now: u64) -> bool {
        let since = self.peers[peer].heard_at.max(asked_at);
        self.peers[peer].state == LinkState::Up
            && now.saturating_sub(since) >= self.limits.silence_ns
    }

    /// Ends the links of peers that say nothing any more.
    fn lose_the_silent(&mut self) {
        while let Some(peer) = self.silent.pop() {
            let seconds = self.limits.silence_ns as f64 / 1e9;
            let why = format!(
                "it has said nothing for {seconds} s although it was asked: its process is stopped, or its host \
                 cannot be reached"
            );
            self.lose(peer, &why);
        }
    }

    /// Whom an operation under way waits for in the end, as far as this rank knows; leaving out what it knows from
    /// `asker`, who must not hear it as if it were news.
    pub(super) fn culprit_of(&self, op: &Operation, asker: Option<u32>) -> Option<Culprit> {
        let now = self.now();
        let me = self.me();
        let size = self.worlds.get(&op.world).map_or(0, |world| world.members.size());
        let size = u32::try_from(size).unwrap_or(u32::MAX);
        let mut found = None;
        for question in &op.run.watch.questions {
            let peer = question.peer;
            let answer = question.answer.filter(|_| asker != Some(peer));
            if !op.members.rank(peer as usize).is_some_and(|rank| is_awaited(op, rank)) {
                continue;
            }
            let own = |why, detail| Some(Culprit { peer, why, detail, hops: 0 });
            let heard_at = self.peers[peer as usize].heard_at;
            let watch = &op.run.watch;
            let silent = question.asked_at.and_then(|asked_at| {
                // What has come of it since the question may have left before it was asked.
                let since = asked_at.max(heard_at);
                if watch.is_overdue(since, now) {
                    own(Why::Silent, now.saturating_sub(since))
                } else {
                    // It says something, but no answer: it does not hear the question.
                    own(Why::Mute, 0).filter(|_| watch.is_long_overdue(asked_at, now))
                }
            });
            let culprit = match (silent, answer) {
                (Some(culprit), _) => Some(culprit),
                (None, None) => None,
                (None, Some(answer)) => match (answer.progress, answer.culprit) {
                    // It waits for this rank, and hears nothing of it.
                    (_, Some(theirs)) if Some(theirs.peer) == me && theirs.is_seen_silent() => {
                        own(Why::Mute, 0)
                    }
                    (Progress::Absent, Some(theirs))
                        if Some(theirs.peer) == me && theirs.why != Why::Silent =>
                    {
                        own(Why::Absent, answer.called)
                    }
                    (_, Some(theirs)) if Some(theirs.peer) == me => None,
                    (_, Some(theirs)) => Some(theirs).filter(|it| it.hops <= size),
                    (Progress::Absent, None) => own(Why::Absent, answer.called),
                    (Progress::Over, None) => {
                        own(Why::Mute, 0).filter(|_| op.run.watch.is_over_for_long(question, now))
                    }
                    (Progress::Running, None) => None,
                },
            };
            found = Culprit::worse(found, culprit);
        }
        found
    }

    /// A peer asks where this rank is.
    pub(super) fn on_ping(&mut self, peer: usize, header: &Header) {
        let Some(world) = self.worlds.get_mut(&header.world) else {
            return self.answer_stranger(peer, header.world);
        };
        let Some(rank) = world.members.rank(peer) else {
            return self.lose(peer, "it asked about a world of which it is no member");
        };
        let name = Name::of(header, rank);
        let asker = u32::try_from(peer).unwrap_or(u32::MAX);
        if let Some(reference) = world.find(&name) {
            if !self.compare(reference, peer, header) {
                return;
            }
            let Some(op) = self.ops[reference.slot].as_deref_mut() else { return };
            op.run.watch.add_asker(asker);
            let Some(op) = self.ops[reference.slot].as_deref() else { return };
            let mut culprit = self.culprit_of(op, Some(asker));
            if op.run.watch.questions.is_empty() {
                // Others of its world ask first.
                culprit = culprit.or_else(|| self.culprit_of_first(header.world, Some(asker)));
            }
            return self.answer((header.world, &name), asker, Progress::Running, culprit);
        }
        if let Some(error) = self.tombstone(header) {
            return self.tell_fork_failed(header.world, header.operation, peer, &error);
        }
        let Some(world) = self.worlds.get_mut(&header.world) else { return };
        if world.is_over(&name) {
            return self.answer((header.world, &name), asker, Progress::Over, None);
        }
        if world.askers.len() < ASKERS_MAX && !world.askers.contains(&(name, asker)) {
            world.askers.push((name, asker));
        }
        let is_queued = world.queued.iter().any(|op| op.name == name);
        let progress = if is_queued { Progress::Running } else { Progress::Absent };
        let culprit = self.culprit_of_first(header.world, Some(asker));
        self.answer((header.world, &name), asker, progress, culprit);
    }

    /// Whom the oldest operation of a world waits for.
    pub(super) fn culprit_of_first(&self, world: u64, asker: Option<u32>) -> Option<Culprit> {
        let first = self.worlds.get(&world)?.first_active()?;
        self.culprit_of(self.ops[first.slot].as_deref()?, asker)
    }

    /// Whom a world waits for, when its operation that is too late does not know: the worst that any other one knows of;
    /// else this rank, if others hear nothing of it.
    pub(super) fn culprit_of_world(&self, id: u64) -> Option<Culprit> {
        let active = self.worlds.get(&id)?.all_active();
        let ops = || active.iter().filter_map(|op| self.ops[op.slot].as_deref());
        let known = ops().filter_map(|op| self.culprit_of(op, None));
        let me = self.me();
        let questions = ops().flat_map(|op| &op.run.watch.questions);
        let theirs = questions.filter_map(|question| question.answer?.culprit);
        let mut mine = theirs.filter(|it| Some(it.peer) == me && it.why == Why::Silent);
        known.fold(None, |worst, it| Culprit::worse(worst, Some(it))).or_else(|| mine.next())
    }

    /// A peer says where it is.
    pub(super) fn on_pong(&mut self, peer: usize, header: &Header) {
        let Some(world) = self.worlds.get(&header.world) else { return };
        let Some(rank) = world.members.rank(peer) else { return };
        let Some(reference) = world.find(&Name::of(header, rank)) else { return };
        let Some(answer) = Answer::read(header) else { return };
        let Some(op) = self.ops[reference.slot].as_deref_mut() else { return };
        if op.members.rank(peer).is_none() {
            return;
        }
        let question = op.run.watch.question(u32::try_from(peer).unwrap_or(u32::MAX));
        question.take(answer, self.clock);
        self.tell_askers(reference);
    }

    /// Tells those that wait for an operation of this rank whom it waits for itself, if that has changed.
    fn tell_askers(&mut self, reference: OpRef) {
        let Some(op) = self.ops[reference.slot].as_deref() else { return };
        let culprit = self.culprit_of(op, None);
        let Some(op) = self.ops[reference.slot].as_deref_mut() else { return };
        if !op.run.watch.is_news(culprit) {
            return;
        }
        let (world, name) = (op.world, op.name);
        let mut at = 0;
        while let Some(op) = self.ops[reference.slot].as_deref()
            && let Some(asker) = op.run.watch.askers.get(at).copied()
        {
            at += 1;
            if !self.is_slow(asker) {
                let culprit = self.culprit_of(op, Some(asker));
                self.answer((world, &name), asker, Progress::Running, culprit);
            }
        }
        self.tell_those_ahead(reference, world);
    }

    /// Whether a link has more to write than a few words: news can wait for the next question then.
    fn is_slow(&self, peer: u32) -> bool {
        self.peers[peer as usize].output_pending() > NEWS_BYTES
    }

    /// The same for those that ask about operations which this rank has not come to, if this one holds it up.
    fn tell_those_ahead(&mut self, reference: OpRef, id: u64) {
        let Some(world) = self.worlds.get(&id) else { return };
        if world.first_active() != Some(reference) {
            return;
        }
        let mut at = 0;
        while let Some(world) = self.worlds.get(&id)
            && let Some((name, asker)) = world.askers.get(at).copied()
        {
            at += 1;
            if self.is_slow(asker) {
                continue;
            }
            let culprit = self.culprit_of_first(id, Some(asker));
            self.answer((id, &name), asker, Progress::Absent, culprit);
        }
    }

    /// An operation begins: those that have asked about it are told.
    pub(super) fn greet_askers(&mut self, op: &mut Operation) {
        let Some(world) = self.worlds.get_mut(&op.world) else { return };
        if world.askers.is_empty() {
            return;
        }
        let watch = &mut op.run.watch;
        world.askers.retain(|(name, asker)| {
            let is_other = *name != op.name;
            if !is_other {
                watch.add_asker(*asker);
            }
            is_other
        });
        for asker in op.run.watch.askers.iter().copied() {
            self.answer((op.world, &op.name), asker, Progress::Running, None);
        }
    }

    /// Sends an answer about an operation of a world.
    fn answer(
        &mut self,
        (world, name): (u64, &Name),
        to: u32,
        progress: Progress,
        culprit: Option<Culprit>,
    ) {
        let called = self.worlds.get(&world).map_or(0, |world| world.next);
        let mut header = name.header(Kind::Pong, world);
        Answer { progress, called, culprit }.write(&mut header);
        self.push_with_credits(to as usize, header, &[]);
    }
}

/// Whether a rank of its members holds an operation up: something is to come from it, or lies ready for it.
pub(super) fn is_awaited(op: &Operation, rank: u32) -> bool {
    op.run.parts.iter().any(|part| {
        // What is parked has come: it waits for others.
        let is_parked = |step: usize| part.parked.iter().any(|it| it.step as usize == step);
        let is_open = |step: usize| part.steps[step].done < part.steps[step].length;
        let is_ready = |step: usize| part.steps[step].done < op.limit(part, step);
        op.program.receives_from(rank).any(|step| is_open(step) && !is_parked(step))
            || op.program.sends_to(rank).any(is_ready)
    })
}
