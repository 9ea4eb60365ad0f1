//! Runs all ranks' plans on real elements, in a random order of events.
//!
//! It trusts nothing that the verifier says: a step goes as far as the watermarks of its `after` list allow, element by
//! element, a gated one not before its gate is done, each message is a rendezvous or eager at random, and a run that
//! stops with work left is a deadlock. An element carries a commutative sum, a set, a composition of affine maps (which
//! does not commute) and a hash of its tree of operations, so that lost, doubled, misplaced and reordered contributions
//! all show.

use std::collections::HashMap;

use super::geometry::Geometry;
use super::random::{Random, mix};
use super::worlds;
use crate::plan::{Action, Buffer, Collective, Plan, Range, Step, interface};

const PRIME: u64 = 65_521;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct Element {
    sum: u64,
    set: u64,
    map: (u64, u64),
    tree: u64,
    is_final: bool,
    /// Something was combined with a final value, or with memory that was never written.
    spoilt: bool,
}

impl Element {
    const GARBAGE: Self =
        Self { sum: 0, set: 0, map: (0, 0), tree: 7, is_final: false, spoilt: true };

    /// Element `index` of a block of a contributor's.
    fn input(contributor: u32, block: u32, index: usize) -> Self {
        let seed = mix(mix(u64::from(contributor) << 32 | u64::from(block)) ^ index as u64);
        let map = (1 + seed % (PRIME - 1), (seed >> 32) % PRIME);
        Self { sum: seed, set: 1 << contributor, map, tree: seed, is_final: false, spoilt: false }
    }

    fn combine(self, right: Self) -> Self {
        let ((a, b), (c, d)) = (self.map, right.map);
        Self {
            sum: self.sum.wrapping_add(right.sum),
            set: self.set | right.set,
            map: (a * c % PRIME, (b * c + d) % PRIME),
            tree: mix(self.tree.rotate_left(17).wrapping_mul(3) ^ right.tree),
            is_final: false,
            spoilt: self.spoilt || right.spoilt || self.is_final || right.is_final,
        }
    }

    fn finish(self) -> Self {
        Self { is_final: true, spoilt: self.spoilt || self.is_final, ..self }
    }
}

/// A step with its elements looked up.
struct Part {
    rank: usize,
    len: usize,
    /// Buffer and first element.
    target: Option<(usize, usize)>,
    sources: Vec<(usize, usize)>,
    incoming_first: bool,
    is_receive: bool,
    last: bool,
    partner: Option<usize>,
    gate: Option<usize>,
    /// A step of the `after` list, where my elements begin, where its elements begin.
    limits: Vec<(usize, usize, usize)>,
    users: Vec<usize>,
}

/// All ranks' plans for one element count.
pub(super) struct Interpreter<'a> {
    plans: &'a [Plan],
    geometries: Vec<Geometry>,
    parts: Vec<Part>,
    /// Every rank's buffers at the start.
    memory: Vec<Vec<Vec<Element>>>,
}

impl<'a> Interpreter<'a> {
    pub(super) fn new(plans: &'a [Plan], count: usize) -> Result<Self, String> {
        let geometries: Vec<_> = plans.iter().map(|plan| Geometry::new(plan, count)).collect();
        let (mut parts, mut ends) = (Vec::<Part>::new(), HashMap::new());
        for (rank, (plan, geometry)) in plans.iter().zip(&geometries).enumerate() {
            let first = parts.len();
            for step in &plan.steps {
                let (id, mut part) = (parts.len(), Part::new(plan, geometry, step)?);
                for earlier in step.after.iter().map(|earlier| first + *earlier as usize) {
                    if earlier >= id {
                        return Err("comes after a later step".into());
                    }
                    part.add_limits(earlier, &parts[earlier]);
                    parts[earlier].users.push(id);
                }
                if let Some(gate) = step.gate.map(|gate| first + gate as usize) {
                    part.gate = Some(gate);
                    parts[gate].users.push(id);
                }
                if let Some(peer) = step.peer().map(|peer| peer as usize) {
                    let (from, to) = if part.is_receive { (peer, rank) } else { (rank, peer) };
                    let end = ends.entry((from, to, step.ordinal)).or_insert([None; 2]);
                    end[usize::from(part.is_receive)] = Some(id);
                }
                parts.push(part);
            }
        }
        for ends in ends.into_values() {
            if let [Some(send), Some(receive)] = ends {
                (parts[send].partner, parts[receive].partner) = (Some(receive), Some(send));
            }
        }
        let memory = plans.iter().zip(&geometries);
        let memory = memory.map(|(plan, geometry)| memory_of(plan, geometry)).collect();
        Ok(Self { plans, geometries, parts, memory })
    }

    /// One random schedule; an error says what came out wrong.
    pub(super) fn run(&self, seed: u64) -> Result<(), String> {
        let mut random = Random(seed);
        let eager_percent = random.pick(&[0, 30, 100]);
        let mut run = Run {
            parts: &self.parts,
            memory: self.memory.clone(),
            done: vec![0; self.parts.len()],
            wire: self.parts.iter().map(|_| random.chance(eager_percent).then(Vec::new)).collect(),
            queue: (0..self.parts.len()).collect(),
            queued: vec![true; self.parts.len()],
            random,
        };
        run.go();
        let left = run.parts.iter().zip(&run.done).filter(|(part, done)| part.len > **done).count();
        if left > 0 {
            return Err(format!("deadlock: {left} steps left"));
        }
        self.judge(&run.memory)
    }

    fn judge(&self, memory: &[Vec<Vec<Element>>]) -> Result<(), String> {
        let mut trees = HashMap::new();
        for (rank, plan) in self.plans.iter().enumerate() {
            let shape = &plan.shape;
            for output in interface::outputs(plan) {
                let holds = interface::place(shape, output);
                let contributors = interface::contributors(shape, output.block);
                let is_final = interface::is_marked_final(shape, output.block);
                let span = self.geometries[rank].span(holds)?;
                for (index, got) in memory[rank][place(plan, holds.buffer)][span].iter().enumerate()
                {
                    let all = contributors.clone().map(|c| Element::input(c, output.block, index));
                    let expected = all.reduce(Element::combine).unwrap_or(Element::GARBAGE);
                    let of = (output.block, contributors.clone(), index);
                    let is_barrier = shape.collective == Collective::Barrier;
                    let right = !got.spoilt
                        && got.is_final == is_final
                        && got.set == expected.set
                        && (is_barrier || got.sum == expected.sum)
                        && (is_barrier || *trees.entry(of).or_insert(got.tree) == got.tree)
                        && (!shape.is_ordered() || got.map == expected.map);
                    if !right {
                        return Err(format!("{output:?} of rank {rank} is {got:?}: {expected:?}"));
                    }
                }
            }
            self.judge_inputs(rank, &memory[rank])?;
        }
        Ok(())
    }

    /// Inputs are as they were, but for what is an output in place.
    fn judge_inputs(&self, rank: usize, memory: &[Vec<Element>]) -> Result<(), String> {
        let plan = &self.plans[rank];
        let places = interface::outputs(plan).map(|output| interface::place(&plan.shape, output));
        let places: Vec<Range> = places.collect();
        for input in interface::inputs(plan).filter(|input| !places.contains(input)) {
            let span = self.geometries[rank].span(input)?;
            let place = place(plan, input.buffer);
            if memory[place][span.clone()] != self.memory[rank][place][span] {
                return Err(format!("{input:?} of rank {rank} was written"));
            }
        }
        Ok(())
    }
}

/// The index of a buffer in a rank's memory; in place, one of two names is not used.
fn place(plan: &Plan, buffer: Buffer) -> usize {
    let buffers = usize::from(plan.shape.buffers);
    match buffer {
        Buffer::Out(i) => usize::from(i),
        Buffer::In(i) => buffers + usize::from(i),
        Buffer::Scratch => 2 * buffers,
    }
}

fn memory_of(plan: &Plan, geometry: &Geometry) -> Vec<Vec<Element>> {
    let outputs = (0..plan.shape.buffers).map(Buffer::Out);
    let inputs = (0..plan.shape.buffers).map(Buffer::In);
    let mut memory: Vec<_> = outputs
        .chain(inputs)
        .chain([Buffer::Scratch])
        .map(|buffer| vec![Element::GARBAGE; geometry.elements(buffer)])
        .collect();
    for input in interface::inputs(plan) {
        let contributor = interface::contributor(&plan.shape, input.buffer);
        let holds = interface::place(&plan.shape, input);
        let span = geometry.span(holds).unwrap();
        for (index, element) in memory[place(plan, holds.buffer)][span].iter_mut().enumerate() {
            *element = Element::input(contributor, input.block, index);
        }
    }
    memory
}

impl Part {
    fn new(plan: &Plan, geometry: &Geometry, step: &Step) -> Result<Self, String> {
        let start = |range: Range| {
            Ok::<_, String>((place(plan, range.buffer), geometry.span(range)?.start))
        };
        let (incoming_first, last) = match step.action {
            Action::RecvReduce { incoming_first, last, .. } => (incoming_first, last),
            Action::Reduce { last, .. } => (false, last),
            _ => (false, false),
        };
        Ok(Self {
            rank: plan.shape.rank as usize,
            len: geometry.span(step.range())?.len(),
            target: step.target().map(start).transpose()?,
            sources: step.sources().iter().copied().map(start).collect::<Result<_, _>>()?,
            incoming_first,
            is_receive: step.is_receive(),
            last,
            partner: None,
            gate: None,
            limits: Vec::new(),
            users: Vec::new(),
        })
    }

    /// Notes each pair of ranges of the two in one buffer, of which one is written.
    fn add_limits(&mut self, earlier: usize, other: &Self) {
        let mut note = |mine: &(usize, usize), theirs: &(usize, usize)| {
            if mine.0 == theirs.0 {
                self.limits.push((earlier, mine.1, theirs.1));
            }
        };
        if let Some(mine) = &self.target {
            other.target.iter().chain(&other.sources).for_each(|theirs| note(mine, theirs));
        }
        for mine in &self.sources {
            other.target.iter().for_each(|theirs| note(mine, theirs));
        }
    }
}

struct Run<'a> {
    parts: &'a [Part],
    memory: Vec<Vec<Vec<Element>>>,
    /// Watermarks.
    done: Vec<usize>,
    /// What an eager send has sent; `None` for a rendezvous.
    wire: Vec<Option<Vec<Element>>>,
    queue: Vec<usize>,
    queued: Vec<bool>,
    random: Random,
}

impl Run<'_> {
    /// Until nothing can move.
    fn go(&mut self) {
        while !self.queue.is_empty() {
            let chosen = self.random.below(self.queue.len());
            let id = self.queue.swap_remove(chosen);
            self.queued[id] = false;
            self.advance(id);
        }
    }

    fn advance(&mut self, id: usize) {
        let part = &self.parts[id];
        let partner = part.partner;
        let is_send = part.target.is_none();
        let mut limit = self.limit(id);
        match partner {
            Some(receive) if is_send && self.wire[id].is_none() => return self.wake(receive),
            Some(send) if part.is_receive => {
                limit = limit.min(match &self.wire[send] {
                    Some(sent) => sent.len(),
                    None => self.limit(send),
                });
            }
            None if is_send || part.is_receive => return,
            _ => {}
        }
        let done = self.done[id];
        if limit <= done {
            return;
        }
        let end = done + 1 + self.random.below(limit - done);
        for index in done..end {
            self.element(id, index);
        }
        self.done[id] = end;
        self.wake_all(id);
        if let Some(send) = partner.filter(|send| part.is_receive && self.wire[*send].is_none()) {
            self.done[send] = end;
            self.wake_all(send);
        }
    }

    /// How far a step may go: up to the first element that a step before it has not done.
    fn limit(&self, id: usize) -> usize {
        if self.parts[id].gate.is_some_and(|gate| self.done[gate] < self.parts[gate].len) {
            return 0;
        }
        let mut limit = self.parts[id].len;
        for (earlier, mine, theirs) in &self.parts[id].limits {
            let (undone, end) = (theirs + self.done[*earlier], theirs + self.parts[*earlier].len);
            if undone < end && *mine < end && undone < mine + limit {
                limit = undone.saturating_sub(*mine);
            }
        }
        limit
    }

    fn element(&mut self, id: usize, index: usize) {
        let part = &self.parts[id];
        let memory = &self.memory[part.rank];
        let local = part.sources.iter().map(|(buffer, start)| memory[*buffer][start + index]);
        let local = local.reduce(Element::combine);
        let Some((buffer, start)) = part.target else {
            if let (Some(wire), Some(local)) = (&mut self.wire[id], local) {
                wire.push(local);
            }
            return;
        };
        let incoming = part.partner.map(|send| match &self.wire[send] {
            Some(sent) => sent[index],
            None => {
                let theirs = &self.parts[send];
                let (buffer, start) = theirs.sources[0];
                self.memory[theirs.rank][buffer][start + index]
            }
        });
        let operands = if part.incoming_first { [incoming, local] } else { [local, incoming] };
        let result = operands.into_iter().flatten().reduce(Element::combine);
        let result = result.unwrap_or(Element::GARBAGE);
        self.memory[part.rank][buffer][start + index] =
            if part.last { result.finish() } else { result };
    }

    fn wake_all(&mut self, id: usize) {
        let parts = self.parts;
        self.wake(id);
        parts[id].partner.into_iter().for_each(|partner| self.wake(partner));
        parts[id].users.iter().for_each(|user| self.wake(*user));
    }

    fn wake(&mut self, id: usize) {
        if self.done[id] < self.parts[id].len && !std::mem::replace(&mut self.queued[id], true) {
            self.queue.push(id);
        }
    }
}

#[test]
fn every_algorithm_gives_the_right_result_under_random_schedules() {
    for case in worlds([1, 2, 3, 4, 5, 7, 8, 13, 16]) {
        for (seed, count) in [0, 1, 2, 17, 47].into_iter().enumerate() {
            let in_place = |rank: u32| (rank + case.size + count).is_multiple_of(2);
            let plans = case.plans(in_place);
            let interpreter = Interpreter::new(&plans, count as usize).unwrap();
            for schedule in 0..3 {
                let result = interpreter.run(seed as u64 * 100 + schedule);
                assert_eq!(result, Ok(()), "{case:?} {count}");
            }
        }
    }
}
