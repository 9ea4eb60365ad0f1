//! Rank 0 gathers the members: one thread, one epoll set, no connection waited for alone.
//!
//! It ends when all are there and agree, or when some time limit is near: rank 0's, or that of a member that has
//! arrived. Then everyone that is there hears the same: the table, or who is missing or differs.
#![forbid(unsafe_code)]

use std::collections::BTreeMap;
use std::net::{SocketAddr, TcpStream};
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use super::agree;
use crate::error::Error;
use crate::link::handshake::{Identity, Peer, Purpose};
use crate::link::syscall::epoll::{Epoll, Ready};
use crate::link::syscall::socket::SHORTAGE_PAUSE;
use crate::link::tcp::half_open::HalfOpen;
use crate::link::tcp::listener::{Listener, is_about_one_connection};
use crate::link::tcp::slots::Slots;
use crate::link::tcp::socket::Socket;
use crate::link::tcp::{HALF_OPEN_LIMIT, HALF_OPEN_MAX};
use crate::rendezvous::JoinOptions;
use crate::rendezvous::message::{
    Inbox, JOIN, JOIN_BYTES_MAX, Outbox, REFUSED, TABLE, write_refusal,
};
use crate::rendezvous::record::{Member, Table};

/// How long before a time limit everyone is told, so that they hear it in time.
const MARGIN: Duration = Duration::from_millis(200);
/// How long others may come to hear of a disagreement that is known.
const GRACE: Duration = Duration::from_secs(1);
/// How long it may take to tell why there is no table, if there is so much time.
const REFUSAL_LIMIT: Duration = Duration::from_secs(2);
/// How long accepting rests when descriptors ran out.
const ACCEPT_PAUSE: Duration = Duration::from_millis(20);

/// How long descriptors may be short before rank 0 gives up: longer than strangers may hold theirs.
const SHORTAGE_LIMIT: Duration = Duration::from_secs(7);

const LISTENER: u64 = u64::MAX;

/// A connection to rank 0.
#[derive(Debug)]
struct Joiner {
    half: HalfOpen,
    since: Instant,
    peer: Option<Peer>,
    member: Option<Member>,
    inbox: Inbox,
    outbox: Outbox,
    /// Its answer is on the way; what it sends from now on belongs to the link, and is not read here.
    told: bool,
    /// Refused: it goes once it has been told.
    leaves: bool,
}

/// The members that are there, and those on their way.
#[derive(Debug)]
pub(super) struct Gathering<'a> {
    options: &'a JoinOptions,
    identity: &'a Identity,
    listener: &'a Listener,
    own: Member,
    epoll: Epoll,
    joiners: Slots<Joiner>,
    /// The connection of each rank that has arrived.
    arrived: Vec<Option<usize>>,
    missing: usize,
    /// Where ranks have called from that proved who they are, and said no more.
    silent: BTreeMap<usize, SocketAddr>,
    /// When to give up.
    limit: Instant,
    /// Whose limit that is.
    limit_rank: usize,
    disagreement: Option<Error>,
    accept_at: Option<Instant>,
    /// Since when the system has had no descriptor for those that come, and what it says.
    shortage: Option<(Instant, Error)>,
    /// Why the last one that came could not be served, if it could not.
    unserved: Option<Error>,
}

impl<'a> Gathering<'a> {
    pub(super) fn new(
        options: &'a JoinOptions,
        identity: &'a Identity,
        listener: &'a Listener,
        own: Member,
    ) -> Result<Self, Error> {
        let failed = |error| Error::system("wait for the members", &error);
        let epoll = Epoll::new().map_err(failed)?;
        epoll
            .add(listener.as_fd(), LISTENER)
            .map_err(|error| Error::watch("the listener", &error))?;
        let (limit, missing) = (limit_of(own.patience), options.size - 1);
        let (joiners, arrived) = (Slots::default(), vec![None; options.size]);
        Ok(Self {
            options,
            identity,
            listener,
            own,
            epoll,
            joiners,
            arrived,
            missing,
            silent: BTreeMap::new(),
            limit,
            limit_rank: 0,
            disagreement: None,
            accept_at: None,
            shortage: None,
            unserved: None,
        })
    }

    /// Gathers and tells. Returns the table, and the connections as links.
    pub(super) fn run(mut self) -> Result<(Table, Vec<(usize, Socket)>), Error> {
        while self.missing > 0 && Instant::now() < self.limit && !self.is_starved() {
            self.step(self.limit)?;
        }
        if self.missing > 0 || self.disagreement.is_some() {
            let error = self.disagreement.take().unwrap_or_else(|| self.absence());
            let _unheard = self.tell(REFUSED, &write_refusal(&error))?;
            return Err(error);
        }
        let table = self.table();
        if let Some(rank) = self.tell(TABLE, &table.write())? {
            let name = &self.options.name;
            let text = format!(
                "world \"{name}\": rank {rank} does not take the table: its process is stopped, or its host cannot be \
                 reached"
            );
            return Err(Error::TimedOut { rank: Some(rank), text });
        }
        self.links().map(|links| (table, links))
    }

    fn table(&self) -> Table {
        let entry = |slot: &Option<usize>| {
            let joiner = slot.and_then(|slot| self.joiners.get(slot));
            joiner.and_then(|joiner| joiner.member.as_ref()).unwrap_or(&self.own).entry.clone()
        };
        let rules = self.own.rules.text.clone();
        Table { entries: self.arrived.iter().map(entry).collect(), rules }
    }

    fn links(&mut self) -> Result<Vec<(usize, Socket)>, Error> {
        let mut links = Vec::with_capacity(self.options.size);
        for (rank, slot) in self.arrived.iter().enumerate().skip(1) {
            let joiner = slot.and_then(|slot| self.joiners.remove(slot));
            let Some(joiner) = joiner else {
                let text =
                    format!("world \"{}\": rank {rank} left while it was made", self.options.name);
                return Err(Error::PeerLost { rank, text });
            };
            let _closed_with_the_set = self.epoll.remove(joiner.half.as_fd());
            links.push((rank, joiner.half.into_socket()));
        }
        Ok(links)
    }

    /// Whether nobody could be let in for too long.
    fn is_starved(&self) -> bool {
        self.shortage.as_ref().is_some_and(|(since, _)| since.elapsed() >= SHORTAGE_LIMIT)
    }

    fn absence(&self) -> Error {
        const NAMED_MAX: usize = 16;
        let shortage = self.shortage.as_ref().map(|(_, error)| error);
        if let Some(Error::Resource(text)) = shortage.or(self.unserved.as_ref()) {
            let name = &self.options.name;
            return Error::Resource(format!(
                "world \"{name}\": rank 0 cannot let members in: {text}"
            ));
        }
        let missing = self.arrived.iter().enumerate().skip(1).filter(|(_, slot)| slot.is_none());
        let missing: Vec<usize> = missing.map(|(rank, _)| rank).collect();
        let name_of = |rank: &usize| match self.silent.get(rank) {
            Some(address) => format!("{rank} (called from {address}, then fell silent)"),
            None => rank.to_string(),
        };
        let mut names: Vec<String> = missing.iter().take(NAMED_MAX).map(name_of).collect();
        if missing.len() > NAMED_MAX {
            names.push(format!("and {} more", missing.len() - NAMED_MAX));
        }
        let text = format!(
            "world \"{}\": {} of {} ranks have not come within the time of rank {}: {}; check that they were started, \
             with this name, store and size",
            self.options.name,
            self.missing,
            self.options.size,
            self.limit_rank,
            names.join(", ")
        );
        Error::TimedOut { rank: missing.first().copied(), text }
    }

    /// Waits for something to happen, and handles it.
    fn step(&mut self, until: Instant) -> Result<(), Error> {
        let until = self.accept_at.map_or(until, |at| until.min(at));
        let until = self.expiry().map_or(until, |at| until.min(at));
        let until = self.rest().map_or(until, |at| until.min(at));
        let left = until.saturating_duration_since(Instant::now());
        let mut ready = [Ready::EMPTY; 64];
        let count = self
            .epoll
            .wait(&mut ready, Some(left))
            .map_err(|error| Error::system("wait for the members", &error))?;
        let now = Instant::now();
        if self.accept_at.is_some_and(|at| at <= now) {
            self.accept(now);
        }
        for event in &ready[..count] {
            match event.token() {
                LISTENER => self.accept(now),
                slot => self.progress(slot as usize),
            }
        }
        let short = self.joiners.iter().filter(|(_, joiner)| joiner.is_short());
        for slot in short.map(|(slot, _)| slot).collect::<Vec<_>>() {
            self.progress(slot);
        }
        while let Some(slot) = self
            .joiners
            .find(|joiner| joiner.is_half_open() && now >= joiner.since + HALF_OPEN_LIMIT)
        {
            self.remove(slot);
        }
        Ok(())
    }

    /// When to go on with those for which the system has no memory now.
    fn rest(&self) -> Option<Instant> {
        let rests = self.joiners.find(Joiner::is_short).is_some();
        rests.then(|| Instant::now() + SHORTAGE_PAUSE)
    }

    /// When the next connection has had its time.
    fn expiry(&self) -> Option<Instant> {
        let half_open = self.joiners.iter().filter(|(_, joiner)| joiner.is_half_open());
        half_open.map(|(_, joiner)| joiner.since + HALF_OPEN_LIMIT).min()
    }

    fn accept(&mut self, now: Instant) {
        self.accept_at = None;
        loop {
            match self.listener.accept() {
                Ok((stream, address)) => {
                    self.shortage = None;
                    self.admit(stream, address, now);
                }
                Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {
                    self.shortage = None;
                    return;
                }
                Err(error) if is_about_one_connection(&error) => {}
                Err(error) => {
                    let (since, _) = self.shortage.take().unwrap_or((now, Error::Forked));
                    self.shortage = Some((since, Error::system("accept a member", &error)));
                    self.accept_at = Some(now + ACCEPT_PAUSE);
                    return;
                }
            }
        }
    }

    fn admit(&mut self, stream: TcpStream, address: SocketAddr, now: Instant) {
        let half_open = || self.joiners.iter().filter(|(_, joiner)| joiner.is_half_open());
        if half_open().count() >= HALF_OPEN_MAX {
            let oldest = half_open().min_by_key(|(_, joiner)| joiner.since).map(|(slot, _)| slot);
            oldest.and_then(|slot| self.remove(slot));
        }
        self.unserved = self.serve(stream, address, now).err();
    }

    fn serve(&mut self, stream: TcpStream, address: SocketAddr, now: Instant) -> Result<(), Error> {
        let socket = Socket::new(stream).map_err(|error| {
            Error::system(format!("set up the connection of {address}"), &error)
        })?;
        let half = HalfOpen::accept(socket, address, self.identity, Purpose::Join)?;
        let slot = self.joiners.insert(Joiner {
            half,
            since: now,
            peer: None,
            member: None,
            inbox: Inbox::default(),
            outbox: Outbox::default(),
            told: false,
            leaves: false,
        });
        let Some(joiner) = self.joiners.get_mut(slot) else { return Ok(()) };
        let watched = self.epoll.add(joiner.half.as_fd(), slot as u64);
        watched.map_err(|error| {
            self.remove(slot);
            Error::watch(format!("the connection of {address}"), &error)
        })
    }

    /// Goes on with a connection as far as its socket allows.
    fn progress(&mut self, slot: usize) {
        let Some(joiner) = self.joiners.get_mut(slot) else { return };
        let advanced = joiner.advance();
        if let Some(rank) = joiner.silent_rank() {
            self.silent.insert(rank, joiner.half.address());
        }
        match advanced {
            Ok(None) => {}
            Ok(Some((peer, member))) => self.arrive(slot, peer.rank, member),
            Err(_) => drop(self.remove(slot)),
        }
    }

    /// A member has told who it is.
    fn arrive(&mut self, slot: usize, rank: usize, member: Member) {
        self.silent.remove(&rank);
        let limit = limit_of(member.patience);
        if limit < self.limit {
            (self.limit, self.limit_rank) = (limit, rank);
        }
        let agreed = agree(&self.options.name, &self.own, rank, &member);
        if let Some(joiner) = self.joiners.get_mut(slot) {
            joiner.member = Some(member);
        }
        if let Err(error) = agreed {
            self.limit = self.limit.min(Instant::now() + GRACE);
            self.disagreement.get_or_insert(error);
        }
        match self.arrived.get(rank).copied() {
            // Only where it disagrees on the size; it waits to hear that.
            None => {}
            Some(None) => self.seat(slot, rank),
            Some(Some(other)) => {
                // The other connection may have ended without our having heard.
                self.progress(other);
                match self.joiners.get(other).map(|joiner| joiner.half.address()) {
                    Some(address) => self.refuse_twin(slot, rank, address),
                    None => self.seat(slot, rank),
                }
            }
        }
    }

    fn seat(&mut self, slot: usize, rank: usize) {
        if let Some(seat) = self.arrived.get_mut(rank) {
            *seat = Some(slot);
            self.missing -= 1;
        }
    }

    fn refuse_twin(&mut self, slot: usize, rank: usize, other: SocketAddr) {
        let Some(joiner) = self.joiners.get_mut(slot) else { return };
        let error = Error::InvalidArgument(format!(
            "world \"{}\": rank {rank} has joined from {other} already; two processes have the same rank",
            self.options.name
        ));
        joiner.outbox.put(REFUSED, &write_refusal(&error));
        joiner.leaves = true;
        if !matches!(joiner.outbox.flush(joiner.half.socket()), Ok(false)) {
            self.remove(slot);
        }
    }

    fn remove(&mut self, slot: usize) -> Option<Joiner> {
        let joiner = self.joiners.remove(slot)?;
        let _closed_anyway = self.epoll.remove(joiner.half.as_fd());
        for seat in self.arrived.iter_mut().filter(|seat| **seat == Some(slot)) {
            *seat = None;
            self.missing += 1;
        }
        Some(joiner)
    }

    /// Sends all members the same. Returns one that has not taken it in time, if there is any.
    fn tell(&mut self, kind: u8, content: &[u8]) -> Result<Option<usize>, Error> {
        let members = self.joiners.iter().filter(|(_, joiner)| joiner.member.is_some());
        let mut left: Vec<usize> =
            members.filter(|(_, joiner)| !joiner.leaves).map(|(slot, _)| slot).collect();
        for &slot in &left {
            if let Some(joiner) = self.joiners.get_mut(slot) {
                joiner.outbox.put(kind, content);
                joiner.told = true;
            }
        }
        let until = match kind {
            TABLE => self.options.deadline,
            _ => self.options.deadline.min(Instant::now() + REFUSAL_LIMIT),
        };
        loop {
            left.retain(|&slot| {
                let joiner = self.joiners.get_mut(slot);
                joiner.is_some_and(|joiner| {
                    matches!(joiner.outbox.flush(joiner.half.socket()), Ok(false))
                })
            });
            let Some(&first) = left.first() else { return Ok(None) };
            if Instant::now() >= until {
                return Ok(self.arrived.iter().position(|slot| *slot == Some(first)));
            }
            self.step(until)?;
        }
    }
}

impl Joiner {
    /// Whether a stranger may hold it: everyone that has not told who it is.
    fn is_half_open(&self) -> bool {
        self.member.is_none()
    }

    /// Its rank, if it has proved which that is and not told the rest.
    fn silent_rank(&self) -> Option<usize> {
        let peer = self.peer.filter(|peer| peer.purpose == Purpose::Join);
        peer.map(|peer| peer.rank).filter(|_| self.is_half_open())
    }

    /// Whether it is to be tried again without an event.
    fn is_short(&self) -> bool {
        self.half.is_short() || self.inbox.is_short || self.outbox.is_short
    }

    /// Returns the member once it has told who it is. An error ends the connection.
    fn advance(&mut self) -> Result<Option<(Peer, Member)>, Error> {
        let peer = match self.peer {
            Some(peer) => peer,
            None => match self.half.advance().map_err(|failure| failure.error)? {
                Some(peer) => *self.peer.insert(peer),
                None => return Ok(None),
            },
        };
        let flushed = self.outbox.flush(self.half.socket())?;
        if self.leaves && flushed {
            return Err(Error::System("it was refused".into()));
        }
        if self.leaves || self.told {
            return Ok(None);
        }
        let Some((kind, content)) = self.inbox.receive(self.half.socket(), JOIN_BYTES_MAX)? else {
            return Ok(None);
        };
        if kind != JOIN || self.member.is_some() || peer.purpose != Purpose::Join {
            return Err(Error::System("a member sent what it must not".into()));
        }
        Member::read(&content).map(|member| Some((peer, member)))
    }
}

/// When everyone must be told, so that one who waits so long hears it in time.
fn limit_of(patience: Duration) -> Instant {
    let now = Instant::now();
    let patience = patience.saturating_sub(MARGIN.min(patience / 8));
    now.checked_add(patience).unwrap_or(now + Duration::from_secs(u32::MAX.into()))
}
