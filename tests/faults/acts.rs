//! Random operations on one world, which all its members do in the same order, each with its result checked.
//!
//! What only some members take part in is started, and waited for after an operation of all: a rank that is late for the
//! next one is then late because of somebody else, and not because of a wait of its own.

use std::time::Duration;

use collect::config::Timeout;
use collect::plan::{self, Collective};
use collect::{Call, CallOptions, Datatype, Error, ForkOptions, Op, Request, World};

use super::scenario::{Draw, Scenario};
use crate::reference::buffers::Prepared;
use crate::reference::calls::{receive_of, send_of, sum};
use crate::reference::case::{Case, InPlace, Variety};
use crate::reference::values::mix;

/// What a call is made with, and what is checked when it has ended.
enum Held {
    Collective(Box<Prepared>),
    Message { data: Vec<u64>, right: Option<Vec<u64>>, tag: u64 },
}

/// A call under way. Its memory is not freed before it has ended.
struct Pending {
    request: Request,
    held: Held,
}

impl Pending {
    fn end(self) -> Result<(), Error> {
        self.request.wait()?;
        match &self.held {
            Held::Collective(prepared) => prepared.check(),
            Held::Message { data, right: Some(right), .. } => {
                assert!(data == right, "a message of {} numbers is wrong", right.len());
            }
            Held::Message { data, right: None, tag } => {
                let from = self.request.source().expect("a message from anybody tells its source");
                assert!(*data == content(from, *tag, data.len()), "a message from rank {from}");
            }
        }
        Ok(())
    }
}

/// What a message carries.
fn content(from: usize, tag: u64, count: usize) -> Vec<u64> {
    let seed = mix((from as u64) << 40 ^ tag);
    (0..count as u64).map(|at| seed.wrapping_add(at)).collect()
}

/// One rank's part in what a world's members do.
pub(crate) struct Player<'a> {
    world: &'a World,
    draw: Draw,
    largest: usize,
    limit: Duration,
    tag: u64,
    pending: Vec<Pending>,
    /// How worlds failed that were forked from this one, which goes on.
    pub(crate) fork_errors: Vec<Error>,
}

impl<'a> Player<'a> {
    pub(crate) fn new(world: &'a World, number: usize, scenario: &Scenario) -> Self {
        let draw = Draw::new(scenario.seed << 8 ^ number as u64);
        let limit = scenario.limit_of(number);
        let (largest, tag) = (scenario.largest, 0);
        Self { world, draw, largest, limit, tag, pending: Vec::new(), fork_errors: Vec::new() }
    }

    fn options(&self) -> CallOptions {
        CallOptions { timeout: Timeout::After(self.limit), ..CallOptions::default() }
    }

    /// A few acts, and the word of all members whether somebody wants more of them.
    pub(crate) fn round(&mut self, number: u64, wants_more: bool) -> Result<bool, Error> {
        for _ in 0..3 {
            self.act()?;
        }
        let mut words = [u64::from(wants_more), number];
        sum(self.world, &mut words, &self.options())?;
        let right = number.wrapping_mul(self.world.size() as u64);
        assert_eq!(words[1], right, "a sum over {} ranks", self.world.size());
        self.pending.drain(..).try_for_each(Pending::end)?;
        Ok(words[0] > 0)
    }

    /// Ends what is under way in a world that has failed. What did succeed is right.
    pub(crate) fn give_up(&mut self) {
        self.pending.drain(..).for_each(|pending| drop(pending.end()));
    }

    fn act(&mut self) -> Result<(), Error> {
        self.tag += 1;
        match self.draw.below(12) {
            0..=4 => self.collective(true),
            5..=6 => self.collective(false),
            7 => self.keyed(),
            8 => self.message(),
            9 => self.ring(),
            10 => self.gather_from_anybody(),
            _ => {
                let count = 1 + self.count() / 8;
                let outcome = self.fork(count);
                self.fork_errors.extend(outcome.err());
                Ok(())
            }
        }
    }

    fn collective(&mut self, blocks: bool) -> Result<(), Error> {
        let case = self.case();
        let prepared = Prepared::new(&case, self.world.size(), self.world.rank());
        self.perform(&case, prepared, blocks)
    }

    fn perform(&mut self, case: &Case, mut prepared: Prepared, blocks: bool) -> Result<(), Error> {
        let rank = self.world.rank();
        let options = CallOptions { timeout: Timeout::After(self.limit), ..case.options(rank) };
        if blocks {
            self.world.run(&prepared.call(), &options)?;
            prepared.check();
            return Ok(());
        }
        let request = self.world.start(&prepared.call(), &options)?;
        self.pending.push(Pending { request, held: Held::Collective(Box::new(prepared)) });
        Ok(())
    }

    /// Collectives with keys, which each rank starts in an order of its own.
    fn keyed(&mut self) -> Result<(), Error> {
        let many = 2 + self.draw.below(3);
        let mut cases: Vec<Case> = (0..many).map(|_| self.case()).collect();
        for (at, case) in cases.iter_mut().enumerate() {
            case.key = Some(self.tag << 8 | at as u64);
        }
        let (rank, tag) = (self.world.rank() as u64, self.tag);
        cases.sort_by_cached_key(|case| mix(case.seed ^ tag << 8 ^ rank));
        for case in cases {
            let prepared = Prepared::new(&case, self.world.size(), self.world.rank());
            self.perform(&case, prepared, false)?;
        }
        Ok(())
    }

    fn message(&mut self) -> Result<(), Error> {
        let size = self.world.size();
        let (from, to) = (self.draw.below(size), self.draw.below(size));
        let count = self.count() / 8;
        if self.world.rank() == from {
            self.send(to, count)?;
        }
        if self.world.rank() == to {
            self.receive(Some(from), count)?;
        }
        Ok(())
    }

    fn send(&mut self, to: usize, count: usize) -> Result<(), Error> {
        let data = content(self.world.rank(), self.tag, count);
        let held = Held::Message { right: Some(data.clone()), data, tag: self.tag };
        self.start(held, |data, tag| send_of(&*data, to, tag))
    }

    fn receive(&mut self, from: Option<usize>, count: usize) -> Result<(), Error> {
        let right = from.map(|from| content(from, self.tag, count));
        let held = Held::Message { data: vec![u64::MAX; count], right, tag: self.tag };
        self.start(held, |data, tag| receive_of(data, from, tag))
    }

    fn start(
        &mut self,
        mut held: Held,
        call: impl FnOnce(&'static mut [u64], u64) -> Call<'static>,
    ) -> Result<(), Error> {
        let Held::Message { data, tag, .. } = &mut held else { return Ok(()) };
        // SAFETY: the vector is kept, and not looked at, until the request has ended.
        let lent = unsafe { std::slice::from_raw_parts_mut(data.as_mut_ptr(), data.len()) };
        let request = self.world.start(&call(lent, *tag), &self.options())?;
        self.pending.push(Pending { request, held });
        Ok(())
    }

    /// Everybody sends to one neighbour and receives from the other.
    fn ring(&mut self) -> Result<(), Error> {
        let (rank, size) = (self.world.rank(), self.world.size());
        let shift = self.draw.below(size);
        let (to, from) = ((rank + shift) % size, (rank + size - shift) % size);
        let (count, tag) = (self.count() / 8, self.tag);
        let sent = content(rank, tag, count);
        let mut got = vec![u64::MAX; count];
        let send = send_of(&sent, to, tag);
        self.world.sendrecv(&send, &receive_of(&mut got, Some(from), tag), &self.options())?;
        assert!(got == content(from, tag, count), "{count} numbers from rank {from}");
        Ok(())
    }

    /// One rank receives from anybody what all others send.
    fn gather_from_anybody(&mut self) -> Result<(), Error> {
        let root = self.draw.below(self.world.size());
        let count = self.count() / 8;
        if self.world.rank() != root {
            return self.send(root, count);
        }
        (1..self.world.size()).try_for_each(|_| self.receive(None, count))
    }

    /// A world that is made, used once, and left. What it waits for has shorter deadlines than the operation that others
    /// may have come to meanwhile: else these would say, rightly, that this rank has not called it.
    fn fork(&self, count: usize) -> Result<(), Error> {
        let timeout = Timeout::After(self.limit / 2);
        let fork = self.world.fork(&ForkOptions { timeout, ..ForkOptions::default() })?;
        let mut numbers: Vec<u64> = (1..=count as u64).collect();
        sum(&fork, &mut numbers, &CallOptions::default())?;
        let size = fork.size() as u64;
        let is_right = numbers.iter().zip(1..).all(|(sum, number)| *sum == number * size);
        assert!(is_right, "a sum over a fork of {size} ranks");
        Ok(())
    }

    /// Bytes of a buffer: none, few, more than a message that leaves at once, more than a slice.
    fn count(&mut self) -> usize {
        let most = match self.draw.below(16) {
            0 => return 0,
            1..=4 => 100,
            5..=8 => 10_000,
            9..=11 => 100_000,
            12..=14 => 300_000,
            _ => self.largest,
        };
        self.draw.below(most)
    }

    fn case(&mut self) -> Case {
        let draw = &mut self.draw;
        let collective = match draw.one_of(&Collective::ALL) {
            Collective::Message => Collective::Allreduce,
            other => other,
        };
        let (datatype, op) = (draw.one_of(&Datatype::ALL), draw.one_of(&Op::ALL));
        let is_scan = matches!(collective, Collective::Scan | Collective::Exscan);
        let serves = op.allows(datatype) && op != Op::Custom && !(is_scan && op == Op::Avg);
        let is_multi = collective == Collective::Allreduce && draw.chance(20);
        let algorithm = draw.one_of(plan::algorithms(collective));
        let mut case = Case {
            datatype,
            op: if serves && collective.reduces() { op } else { Op::Sum },
            root: if collective.has_root() { draw.below(self.world.size()) } else { 0 },
            in_place: draw.one_of(&[InPlace::Nobody, InPlace::Everybody, InPlace::Some]),
            algorithm: draw.chance(60).then_some(algorithm),
            buffers: if is_multi { 2 + draw.below(2) } else { 1 },
            variety: Variety {
                lengths_differ: draw.chance(50),
                displaced: draw.chance(50) && collective != Collective::ReduceScatterv,
            },
            shift: draw.below(4),
            seed: draw.number(),
            ..Case::plain(collective, 0)
        };
        // All blocks together are as long as the one buffer of others.
        let blocks = match collective.regular() {
            Collective::Allgather | Collective::Gather | Collective::Scatter => self.world.size(),
            Collective::ReduceScatter | Collective::Alltoall => self.world.size(),
            _ => 1,
        };
        if collective != Collective::Barrier {
            case.count = self.count() / datatype.bytes() / blocks;
        }
        case
    }
}
