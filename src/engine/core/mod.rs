//! The protocol: one endpoint's worlds, operations and links, without a thread, a lock or a clock of its own.
//!
//! Whoever holds the core drives it: hands it commands ([`Core::command`]), lets it work ([`Core::work`]) and wait
//! ([`Core::poll`]). All I/O and time come from the [`Mesh`], so that the simulation runs the very same code. The parts:
//! `submit` names operations and begins them, `message` lets sends meet receives, `run` moves watermarks, `send` makes
//! frames and `receive` takes them, `credits` bounds what small messages occupy, `checked` compares checksums, `failure`
//! ends worlds, `timers` looks at the clock, `deadline` ends what comes too late, `blame` finds out whose fault that is.
#![forbid(unsafe_code)]

mod blame;
mod checked;
mod compare;
mod credits;
mod deadline;
mod failure;
#[cfg(test)]
mod inspect;
mod message;
mod receive;
mod run;
mod send;
mod submit;
mod timers;

use std::collections::{BTreeMap, VecDeque};
use std::mem;
use std::sync::Arc;
use std::time::Duration;

use super::buffers::Buffers;
use super::completion::Completion;
use super::early::Waitlist;
use super::limits::Limits;
use super::members::Members;
use super::operation::Operation;
use super::peer::{LinkState, OpRef, Peer};
use super::scratches::Scratches;
use super::world::{Health, World};
use crate::error::Error;
use crate::link::frame::{Header, Kind};
use crate::link::phase::{Phase, note};
use crate::link::{Event, Mesh, Wake};

/// How many failed worlds are remembered, so that late members are told why.
const GRAVES: usize = 256;

/// How long a link may take that is made only to tell of a failure, in nanoseconds.
const ABORT_DIAL_NS: u64 = 1_000_000_000;

/// A world that has failed.
#[derive(Debug)]
struct Grave {
    id: u64,
    error: Error,
    /// Ranks that the news have gone through.
    hops: u32,
}

/// Places that lists have from the start, so that they do not grow while an endpoint is in use: more operations, frames
/// and steps at once than most programs have.
const PLACES: usize = 256;

/// A world that begins to exist.
#[derive(Debug)]
pub struct Registration {
    /// Its id, equal on all members.
    pub id: u64,
    /// What its handles see of it.
    pub health: Arc<Health>,
    /// This process's rank in it.
    pub rank: u32,
    /// Who is in it.
    pub members: Arc<Members>,
    /// Whether payload carries checksums; all members agree.
    pub checksum: bool,
}

/// What the lane asks of the core.
#[derive(Debug)]
pub(super) enum Command {
    /// A world exists from now on; frames for it may come at any time.
    Register(Registration),
    /// An operation is called.
    Submit(Box<Operation>),
    /// A world ends in failure, by its caller's will.
    Fail { world: u64, error: Error },
    /// A world's last handle is gone.
    Leave { world: u64 },
    /// Makes all links of a world.
    Connect { world: u64 },
    /// The endpoint closes: what is written goes out, then every link ends.
    Close,
}

/// The state machine of an endpoint.
#[derive(Debug)]
pub(super) struct Core {
    mesh: Box<dyn Mesh>,
    limits: Limits,
    /// By id, and walked in that order: a simulated run repeats exactly.
    worlds: BTreeMap<u64, World>,
    peers: Vec<Peer>,
    ops: Vec<Option<Box<Operation>>>,
    vacant: Vec<usize>,
    next_id: u64,
    /// Local steps with bytes left to do.
    chores: VecDeque<(OpRef, u32, u32)>,
    /// Peers with something to write, or with operations that may have.
    dirty: Vec<usize>,
    /// Links that may have more to read.
    unread: Vec<usize>,
    /// Steps to look at again; empty between calls.
    stack: Vec<u32>,
    /// Frames whose operation has not been called here.
    early: Waitlist,
    /// Scratch to use again.
    scratches: Scratches,
    /// Payload buffers to use again.
    buffers: Buffers,
    /// Ended operations, to use again.
    #[expect(
        clippy::vec_box,
        reason = "operations move as boxes, from a pool into the core and back"
    )]
    ended: Vec<Box<Operation>>,
    events: Vec<Event>,
    graves: VecDeque<Grave>,
    /// Operations whose next slice needs a member that has left, to be failed when nothing is in hand.
    leavers: Vec<(OpRef, u32)>,
    /// Operations whose message has another length than its other side thinks, to be failed when nothing is in hand.
    misfits: Vec<(OpRef, Error)>,
    /// Links whose peer broke the protocol, to be dropped when nothing is in hand.
    broken: Vec<(usize, String)>,
    /// Peers that are lost because they say nothing, to be dropped when nothing is in hand.
    silent: Vec<usize>,
    /// Operations that ended early: told to their callers when the members have been told.
    endings: Vec<(Arc<Completion>, Error)>,
    /// Worlds that give back credits; empty between calls.
    owing: Vec<u64>,
    /// Worlds whose queued operations begin; empty between calls.
    waking: Vec<u64>,
    /// Operations that have heard nothing for a while; empty between calls.
    quiet: Vec<OpRef>,
    /// Operations that ask whom they wait for; empty between calls.
    asking: Vec<(u64, OpRef)>,
    /// When something was last looked at, for when peers were heard.
    clock: u64,
    /// By how much the last look at what is due came too late.
    slept_ns: u64,
    /// Messages that have not met their counterpart, and are in no place.
    unmatched: usize,
    /// The earliest time at which a deadline or a notice may be due.
    due: u64,
    is_closing: bool,
    /// Worlds that check payload have been here.
    has_checksums: bool,
}

impl Core {
    pub(super) fn new(mesh: Box<dyn Mesh>, size: usize, limits: Limits) -> Self {
        Self {
            mesh,
            limits,
            worlds: BTreeMap::new(),
            peers: (0..size).map(|_| Peer::new(&limits)).collect(),
            ops: Vec::with_capacity(PLACES),
            vacant: Vec::with_capacity(PLACES),
            next_id: 0,
            chores: VecDeque::with_capacity(PLACES),
            // Twice: who is dealt with stays in the list until all are.
            dirty: Vec::with_capacity(2 * size),
            unread: Vec::with_capacity(2 * size),
            stack: Vec::with_capacity(PLACES),
            early: Waitlist::new(),
            scratches: Scratches::new(),
            buffers: Buffers::new(limits.eager),
            ended: Vec::with_capacity(PLACES),
            events: Vec::with_capacity(PLACES + 2 * size),
            graves: VecDeque::new(),
            leavers: Vec::new(),
            misfits: Vec::new(),
            broken: Vec::new(),
            silent: Vec::new(),
            endings: Vec::new(),
            owing: Vec::new(),
            waking: Vec::with_capacity(PLACES),
            quiet: Vec::with_capacity(PLACES),
            asking: Vec::with_capacity(PLACES),
            clock: 0,
            slept_ns: 0,
            unmatched: 0,
            due: u64::MAX,
            is_closing: false,
            has_checksums: false,
        }
    }

    /// What ends a [`Core::poll`].
    pub(super) fn waker(&self) -> Arc<dyn Wake> {
        self.mesh.waker()
    }

    /// Now, in the mesh's nanoseconds.
    pub(super) fn now(&self) -> u64 {
        self.mesh.now()
    }

    /// Takes a command. The effects on links follow in [`Core::work`].
    pub(super) fn command(&mut self, command: Command) {
        match command {
            Command::Register(Registration { id, health, rank, members, checksum }) => {
                self.has_checksums |= checksum;
                self.worlds.insert(id, World::new(health, rank, members, checksum));
                self.owing.reserve(self.worlds.len());
                self.refuse_the_dead(id);
            }
            Command::Submit(op) => self.submit(op),
            Command::Fail { world, error } => self.fail_world(world, &error),
            Command::Leave { world } => self.leave(world),
            Command::Connect { world } => {
                let members = self.worlds.get(&world).map(|world| Arc::clone(&world.members));
                for peer in members.iter().flat_map(|members| members.peers()) {
                    self.dial(*peer as usize);
                }
            }
            Command::Close => self.close(),
        }
    }

    /// Does what can be done without waiting. Whether there is more of it.
    pub(super) fn work(&mut self) -> bool {
        let chores = self.chores.len();
        for _ in 0..chores {
            if let Some((op, slice, step)) = self.chores.pop_front() {
                self.do_chore(op, slice, step);
            }
        }
        let unread = self.unread.len();
        for at in 0..unread {
            // Out of the list before it is read, so that it comes again at its end.
            let peer = mem::replace(&mut self.unread[at], usize::MAX);
            self.read(peer);
        }
        self.unread.drain(..unread);
        self.flush();
        for (completion, error) in self.endings.drain(..) {
            completion.end(Err(error));
        }
        !self.chores.is_empty() || !self.unread.is_empty() || !self.dirty.is_empty()
    }

    /// Waits for the network for at most `limit`, and takes what has come.
    pub(super) fn poll(&mut self, limit: Option<Duration>) -> Result<bool, Error> {
        let mut events = mem::take(&mut self.events);
        let polled = self.mesh.poll(limit, &mut events);
        let came = !events.is_empty();
        if self.due != u64::MAX {
            self.clock = self.now();
        }
        for event in events.drain(..) {
            self.on_event(event);
        }
        self.events = events;
        self.tick();
        polled.map(|()| came)
    }

    /// Whether a signal that this thread has handled has ended the last [`Core::poll`].
    pub(super) fn was_interrupted(&self) -> bool {
        self.mesh.was_interrupted()
    }

    /// When a wait must end at the latest.
    pub(super) fn due(&self) -> Option<u64> {
        (self.due != u64::MAX).then_some(self.due)
    }

    /// Whether somebody must drive: operations are under way, or bytes wait to be written.
    pub(super) fn is_busy(&self) -> bool {
        self.ops.len() > self.vacant.len()
            || self.unmatched > 0
            || self.peers.iter().any(|p| p.state != LinkState::Gone && p.has_output())
    }

    /// Whether every link has ended, after [`Command::Close`].
    pub(super) fn is_closed(&self) -> bool {
        self.is_closing
            && self.peers.iter().enumerate().all(|(peer, link)| match link.state {
                LinkState::Gone => true,
                LinkState::Idle => !self.mesh.may_come_up(peer),
                LinkState::Dialing | LinkState::Up => false,
            })
    }

    /// Ended operations, to be used again by those who submit.
    #[expect(
        clippy::vec_box,
        reason = "operations move as boxes, from a pool into the core and back"
    )]
    pub(super) fn take_ended(&mut self, to: &mut Vec<Box<Operation>>) {
        to.append(&mut self.ended);
    }

    /// Ends every world with an error; the core is of no use any more. A panic may have lost operations that were out of
    /// their slots, and the list of what is to be written.
    pub(super) fn fail_all(&mut self, error: &Error) {
        for peer in 0..self.peers.len() {
            let link = &mut self.peers[peer];
            link.is_dirty = false;
            let is_lost = link.body.as_ref().is_some_and(|body| {
                let op = self.ops.get(body.op.slot).and_then(Option::as_ref);
                op.is_none_or(|op| op.run.id != body.op.id)
            });
            if is_lost {
                // The rest of the body may have been in the operation's scratch.
                link.go_down();
                self.mesh.close(peer);
            }
        }
        let worlds: Vec<u64> = self.worlds.keys().copied().collect();
        for world in worlds {
            self.fail_world(world, error);
        }
    }

    fn on_event(&mut self, event: Event) {
        match event {
            Event::Up(peer) => {
                self.peers[peer].come_up(&self.limits);
                self.dirty(peer);
                self.greet(peer);
                self.read(peer);
            }
            Event::Readable(peer) => self.read(peer),
            Event::Writable(peer) => self.dirty(peer),
            Event::Down(peer, Error::Resource(_)) if self.peers[peer].dial_until.is_some() => {
                self.give_up(peer);
            }
            Event::Down(peer, Error::Resource(text)) => self.lack(peer, &text),
            Event::Down(peer, error) => self.lose(peer, &error.to_string()),
        }
    }

    /// Makes sure that the link to `peer` is there or on its way.
    fn dial(&mut self, peer: usize) {
        if self.peers[peer].state == LinkState::Idle && !self.is_me(peer) {
            self.peers[peer].state = LinkState::Dialing;
            self.mesh.dial(peer);
        }
    }

    /// A link to oneself is never made: no plan sends to its own rank.
    fn is_me(&self, peer: usize) -> bool {
        self.me().is_some_and(|me| me as usize == peer)
    }

    /// This endpoint's own number.
    fn me(&self) -> Option<u32> {
        let world = self.worlds.values().next()?;
        u32::try_from(world.members.peer(world.rank)).ok()
    }

    /// The peer has something to be written, or an operation that may have.
    fn dirty(&mut self, peer: usize) {
        if !self.peers[peer].is_dirty {
            self.peers[peer].is_dirty = true;
            self.dirty.push(peer);
        }
    }

    /// Queues a frame without payload, or with a short one that is copied; the link is made if need be.
    fn push(&mut self, peer: usize, header: &Header, payload: &[u8]) {
        if self.peers[peer].state == LinkState::Gone || self.peers[peer].said_farewell {
            return;
        }
        self.dial(peer);
        self.peers[peer].dial_until = None;
        let mut header = *header;
        if matches!(header.kind, Kind::Abort | Kind::Reset) {
            header.checksum = crc32c::crc32c(payload);
        }
        self.peers[peer].push(&header, payload);
        self.dirty(peer);
    }

    /// Queues a frame that is not worth a wait: if its link must be made, that may take a second.
    fn push_soon(&mut self, peer: usize, header: &Header, payload: &[u8]) {
        let is_new = self.peers[peer].state == LinkState::Idle;
        let until = if is_new {
            Some(self.now().saturating_add(ABORT_DIAL_NS))
        } else {
            self.peers[peer].dial_until
        };
        self.push(peer, header, payload);
        self.limit_dial(peer, until);
    }

    /// Says until when a link that is being made is wanted at all.
    fn limit_dial(&mut self, peer: usize, until: Option<u64>) {
        if self.peers[peer].state == LinkState::Dialing {
            self.peers[peer].dial_until = until;
            self.due = self.due.min(until.unwrap_or(u64::MAX));
        }
    }

    /// Stops making a link that nobody needs any more.
    fn give_up(&mut self, peer: usize) {
        if self.peers[peer].state == LinkState::Dialing {
            self.mesh.give_up(peer);
            self.peers[peer].go_idle();
        }
    }

    /// Goes from a world: its members are told; nothing runs in it.
    fn leave(&mut self, id: u64) {
        note(Phase::Destroy);
        let Some(mut world) = self.worlds.remove(&id) else { return };
        self.end_all(id, &mut world, &Error::Aborted("the world was destroyed".into()));
        for rank in 0..world.state.len() {
            let peer = world.members.peer(u32::try_from(rank).unwrap_or(u32::MAX));
            self.reclaim(&mut world, rank, peer);
            if self.peers[peer].state == LinkState::Up {
                self.push(peer, &Header::control(Kind::Goodbye, id), &[]);
            }
        }
    }

    /// The endpoint closes.
    fn close(&mut self) {
        self.is_closing = true;
        for id in self.worlds.keys().copied().collect::<Vec<_>>() {
            self.leave(id);
        }
        for peer in 0..self.peers.len() {
            match self.peers[peer].state {
                LinkState::Up | LinkState::Dialing => self.say_farewell(peer),
                LinkState::Idle | LinkState::Gone => {}
            }
        }
        self.due = u64::MAX;
    }

    /// The last frame on a link.
    fn say_farewell(&mut self, peer: usize) {
        if !self.peers[peer].said_farewell {
            let operation = self.peers[peer].frames_out;
            let header = Header { operation, ..Header::control(Kind::Farewell, 0) };
            self.push(peer, &header, &[]);
            self.peers[peer].said_farewell = true;
        }
    }

    /// A link has come up: a closing endpoint says so at once.
    fn greet(&mut self, peer: usize) {
        if self.is_closing {
            self.say_farewell(peer);
        }
    }
}
