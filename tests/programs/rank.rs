//! One rank of a program: its worlds, its requests under way, and what must come of them.

use std::collections::VecDeque;

use collect::{Batch, Call, CallOptions, ForkOptions, Request, World};

use super::program::{Act, Message, Part, Program, Spec};
use crate::reference::buffers::Prepared;
use crate::reference::calls::{receive_of, send_of};
use crate::reference::case::Case;
use crate::reference::values::mix;

/// What a call is made with, and what is checked when it has ended.
enum Held {
    Collective(Box<Prepared>),
    /// A message's elements, and what they must be in the end.
    Message {
        data: Vec<u64>,
        right: Vec<u64>,
    },
    /// A message from anybody: what it must be by its source.
    FromAnybody {
        data: Vec<u64>,
        world: usize,
        tag: u64,
    },
}

/// Calls under way, and what they are made with.
struct Pending {
    request: Request,
    held: Vec<Held>,
    /// World and key.
    key: Option<(usize, u64)>,
}

/// A test that fails may not free what is still lent.
impl Drop for Pending {
    fn drop(&mut self) {
        if self.request.outcome().is_none() {
            Vec::leak(std::mem::take(&mut self.held));
        }
    }
}

/// What a message carries.
fn content(world: usize, from: usize, tag: u64, count: usize) -> Vec<u64> {
    let seed = mix((world as u64) << 40 ^ (from as u64) << 32 ^ tag);
    (0..count as u64).map(|at| seed.wrapping_add(at)).collect()
}

/// The tag of what is received from anybody: one of its own for each act.
fn tag_of_act(number: usize) -> u64 {
    1000 + number as u64
}

impl Held {
    fn collective(case: &Case, world: &World) -> Self {
        Self::Collective(Box::new(Prepared::new(case, world.size(), world.rank())))
    }

    /// The send of a message: what is lent must not change.
    fn send(data: Vec<u64>) -> Self {
        Self::Message { right: data.clone(), data }
    }

    /// The receive of a message.
    fn receive(right: Vec<u64>) -> Self {
        Self::Message { data: vec![u64::MAX; right.len()], right }
    }

    /// The elements, for a call that ends before this object goes, and before anybody touches it.
    fn lend(&mut self) -> &'static mut [u64] {
        let (Self::Message { data, .. } | Self::FromAnybody { data, .. }) = self else {
            panic!("a collective has no message")
        };
        // SAFETY: the vector is kept until the request has ended.
        unsafe { std::slice::from_raw_parts_mut(data.as_mut_ptr(), data.len()) }
    }

    fn call(&mut self) -> Call<'static> {
        let Self::Collective(prepared) = self else { panic!("a message has other arguments") };
        prepared.call()
    }

    fn check(&self, source: Option<usize>) {
        match self {
            Self::Collective(prepared) => prepared.check(),
            Self::Message { data, right } => assert!(data == right, "a message of {}", right.len()),
            Self::FromAnybody { data, world, tag } => {
                let from = source.expect("a message from anybody tells who sent it");
                assert!(*data == content(*world, from, *tag, data.len()), "from {from}");
            }
        }
    }

    /// Makes it as before the call.
    fn renew(&mut self) {
        if let Self::Collective(prepared) = self {
            prepared.renew();
        }
    }
}

/// Runs all of a program on one rank.
pub(crate) fn run(program: &Program, root: &World) {
    let mut worlds: Vec<Option<World>> = vec![Some(root.clone())];
    for (parent, members) in program.worlds().into_iter().skip(1) {
        let mine = worlds[parent].as_ref().filter(|_| members.contains(&root.rank()));
        let parents = &program.worlds()[parent].1;
        let in_parent = |rank: &usize| parents.iter().position(|other| other == rank).unwrap();
        let members = Some(members.iter().map(in_parent).collect());
        let options = ForkOptions { members, ..ForkOptions::default() };
        worlds.push(mine.map(|parent| parent.fork(&options).unwrap()));
    }
    let mut rank = Rank { worlds, pending: VecDeque::new() };
    for (number, act) in program.acts.iter().enumerate() {
        rank.act(number, act);
        while rank.pending.len() > program.window {
            rank.end_first();
        }
    }
    while !rank.pending.is_empty() {
        rank.end_first();
    }
}

struct Rank {
    /// `None` where this rank is no member.
    worlds: Vec<Option<World>>,
    pending: VecDeque<Pending>,
}

impl Rank {
    /// The number of the world that a number chooses, and this rank's handle.
    fn world(&self, number: usize) -> (usize, Option<World>) {
        let number = number % self.worlds.len();
        (number, self.worlds[number].clone())
    }

    fn act(&mut self, number: usize, act: &Act) {
        match act {
            Act::Collective { world, spec, blocks } => {
                let Some(world) = self.world(*world).1 else { return };
                let case = spec.case(world.size());
                let held = Held::collective(&case, &world);
                self.make(&world, held, &case.options(world.rank()), *blocks, None);
            }
            Act::Keyed { world, specs } => self.keyed(*world, specs),
            Act::Message { world, message, blocks } => self.message(*world, message, *blocks),
            Act::Ring { world, shift, count, blocks } => {
                self.ring(*world, *shift, *count, *blocks);
            }
            Act::Collect { world, root, count } => {
                self.collect(*world, *root, *count, tag_of_act(number));
            }
            Act::Group { parts, runs, blocks } => self.group(parts, *runs, *blocks),
        }
    }

    /// Makes a collective.
    fn make(
        &mut self,
        world: &World,
        mut held: Held,
        options: &CallOptions,
        blocks: bool,
        key: Option<(usize, u64)>,
    ) {
        let call = held.call();
        if blocks {
            world.run(&call, options).unwrap();
            return held.check(None);
        }
        let request = world.start(&call, options).unwrap();
        self.pending.push_back(Pending { request, held: vec![held], key });
    }

    fn keyed(&mut self, number: usize, specs: &[Spec]) {
        let (number, Some(world)) = self.world(number) else { return };
        let mut order: Vec<usize> = (0..specs.len()).collect();
        order.sort_by_cached_key(|at| mix((world.rank() * 8 + at) as u64));
        for at in order {
            // Few keys, among them the last one: each is used again as soon as it is free.
            let key = [0, 1, 2, u64::MAX][at];
            while self.pending.iter().any(|pending| pending.key == Some((number, key))) {
                self.end_first();
            }
            let case = Case { key: Some(key), ..specs[at].case(world.size()) };
            let held = Held::collective(&case, &world);
            self.make(&world, held, &case.options(world.rank()), false, Some((number, key)));
        }
    }

    fn message(&mut self, number: usize, message: &Message, blocks: bool) {
        let (number, Some(world)) = self.world(number) else { return };
        let Message { tag, count, .. } = *message;
        let (from, to) = (message.from % world.size(), message.to % world.size());
        let data = content(number, from, tag, count);
        // A message to oneself that blocks would wait for a receive that is not called.
        let blocks = blocks && from != to;
        if world.rank() == from {
            let mut held = Held::send(data.clone());
            let call = send_of(&*held.lend(), to, tag);
            self.make_message(&world, &call, held, blocks);
        }
        if world.rank() == to {
            let mut held = Held::receive(data);
            let call = receive_of(held.lend(), Some(from), tag);
            self.make_message(&world, &call, held, blocks);
        }
    }

    fn make_message(&mut self, world: &World, call: &Call<'static>, held: Held, blocks: bool) {
        let options = CallOptions::default();
        if blocks {
            world.run(call, &options).unwrap();
            return held.check(None);
        }
        let request = world.start(call, &options).unwrap();
        self.pending.push_back(Pending { request, held: vec![held], key: None });
    }

    fn ring(&mut self, number: usize, shift: usize, count: usize, blocks: bool) {
        let (number, Some(world)) = self.world(number) else { return };
        let (rank, size) = (world.rank(), world.size());
        let (to, from) = ((rank + shift) % size, (rank + size - shift % size) % size);
        let mut sent = Held::send(content(number, rank, 9, count));
        let mut got = Held::receive(content(number, from, 9, count));
        let (send, receive) =
            (send_of(&*sent.lend(), to, 9), receive_of(got.lend(), Some(from), 9));
        let options = CallOptions::default();
        if blocks {
            world.sendrecv(&send, &receive, &options).unwrap();
            sent.check(None);
            return got.check(None);
        }
        let request = world.start_sendrecv(&send, &receive, &options).unwrap();
        self.pending.push_back(Pending { request, held: vec![sent, got], key: None });
    }

    fn collect(&mut self, number: usize, root: usize, count: usize, tag: u64) {
        let (number, Some(world)) = self.world(number) else { return };
        let root = root % world.size();
        if world.rank() != root {
            let mut held = Held::send(content(number, world.rank(), tag, count));
            let call = send_of(&*held.lend(), root, tag);
            return self.make_message(&world, &call, held, false);
        }
        for _ in 1..world.size() {
            let data = vec![u64::MAX; count];
            let mut held = Held::FromAnybody { data, world: number, tag };
            let call = receive_of(held.lend(), None, tag);
            self.make_message(&world, &call, held, false);
        }
    }

    fn group(&mut self, parts: &[Part], runs: usize, blocks: bool) {
        let mut batch = Batch::new();
        let mut held = Vec::new();
        for part in parts {
            match part {
                Part::Collective { world, spec } => {
                    let Some(world) = self.world(*world).1 else { continue };
                    let case = spec.case(world.size());
                    let mut one = Held::collective(&case, &world);
                    batch.add(&world, &one.call(), &case.options(world.rank())).unwrap();
                    held.push(one);
                }
                Part::Message { world, message } => {
                    let (number, Some(world)) = self.world(*world) else { continue };
                    let Message { tag, count, .. } = *message;
                    let (from, to) = (message.from % world.size(), message.to % world.size());
                    let data = content(number, from, tag, count);
                    let options = CallOptions::default();
                    if world.rank() == from {
                        let mut one = Held::send(data.clone());
                        batch.add(&world, &send_of(&*one.lend(), to, tag), &options).unwrap();
                        held.push(one);
                    }
                    if world.rank() == to {
                        let mut one = Held::receive(data);
                        let call = receive_of(one.lend(), Some(from), tag);
                        batch.add(&world, &call, &options).unwrap();
                        held.push(one);
                    }
                }
            }
        }
        if held.is_empty() {
            return;
        }
        for _ in 1..runs {
            batch.run().unwrap();
            held.iter().for_each(|one| one.check(None));
            held.iter_mut().for_each(Held::renew);
        }
        if blocks {
            batch.run().unwrap();
            return held.iter().for_each(|one| one.check(None));
        }
        let request = batch.start().unwrap();
        self.pending.push_back(Pending { request, held, key: None });
    }

    /// Waits for the oldest request.
    fn end_first(&mut self) {
        let Some(pending) = self.pending.pop_front() else { return };
        pending.request.wait().unwrap();
        pending.held.iter().for_each(|held| held.check(pending.request.source()));
    }
}
