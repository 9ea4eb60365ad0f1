//! The server's thread: accepts, reads, serves, replies, and drops who does not prove itself in time.
//!
//! It waits in poll(2) over all connections, which costs time proportional to their number a turn: a store's clients
//! call a few times at start, and 4096 entries take some tens of microseconds.

use std::collections::BTreeMap;
use std::io::{self, ErrorKind};
use std::mem::ManuallyDrop;
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use socket2::{Domain, Protocol, SockRef, Socket, TcpKeepalive, Type};

use super::connection::{Connection, Over, TURN_BYTES};
use super::contract;
use super::proof::{self, Token};
use super::protocol::INSTANCE_BYTES;
use super::service::{Id, Service};
use crate::error::Error;
use crate::link::syscall::fork::{Registration, close_in_child};
use crate::link::syscall::poll::{self, Entry, Interest};
use crate::link::syscall::signals;
use crate::link::syscall::socket::set_silence_limit;

const CONNECTIONS_MAX: usize = 4096;
/// How long a client may take to prove that it knows the token.
const PROOF_LIMIT: Duration = Duration::from_secs(5);
/// How long nothing is accepted after the system has refused to.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);
/// How many connections are accepted before others have their turn.
const ACCEPTS_A_TURN: usize = 64;
const BACKLOG: i32 = 1024;

/// A server of a TCP store, with one thread. Dropping it ends the thread, and all its connections.
///
/// In a child of fork(2), which has no such thread, dropping it does nothing to the parent's server.
#[derive(Debug)]
pub struct TcpServer {
    address: SocketAddr,
    /// Its shutdown ends the thread.
    stop: UnixStream,
    thread: Option<JoinHandle<()>>,
    process: u32,
}

impl TcpServer {
    /// Starts a server at an address; port 0 is any free one. With a token, only clients that know it are served.
    ///
    /// # Errors
    ///
    /// [`Error::Store`] if the address cannot be listened at; [`Error::InvalidArgument`] if the token is empty;
    /// [`Error::Resource`] if descriptors or threads have run out.
    pub fn start(address: SocketAddr, token: Option<Vec<u8>>) -> Result<Self, Error> {
        let token = Token::new(token)?;
        let failed =
            |e: io::Error| contract::failed(format_args!("tcp store: serve at {address}"), &e);
        let listener = listen(address).map_err(failed)?;
        let address = listener.local_addr().map_err(failed)?;
        let (stop, stopped) = UnixStream::pair().map_err(failed)?;
        let server = Server {
            _registration: close_in_child(listener.as_fd()).map_err(failed)?,
            listener,
            stopped,
            token,
            instance: proof::random().map_err(failed)?,
            connections: BTreeMap::new(),
            next: 0,
            service: Service::default(),
            scratch: vec![0; TURN_BYTES],
            accept_after: None,
        };
        // The thread inherits the mask: no handler of the program ever runs on it.
        let blocked = signals::block_signals().map_err(failed)?;
        let thread = std::thread::Builder::new().name(format!("store-{}", address.port()));
        let thread = thread.spawn(move || server.run());
        drop(blocked);
        let thread = thread.map_err(|e| {
            Error::thread(format_args!("tcp store: start the thread that serves {address}"), &e)
        })?;
        Ok(Self { address, stop, thread: Some(thread), process: std::process::id() })
    }

    /// Where it listens; the port is the real one.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for TcpServer {
    fn drop(&mut self) {
        let thread = self.thread.take();
        if std::process::id() != self.process {
            // The thread is the parent's: it can be neither joined nor detached here.
            let _ = ManuallyDrop::new(thread);
            return;
        }
        // Cannot fail: the pair is connected. If the thread has ended by itself, it is joined all the same.
        let _ = self.stop.shutdown(Shutdown::Both);
        if let Some(thread) = thread {
            // A panic has been reported by its hook.
            let _ = thread.join();
        }
    }
}

fn listen(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
    // Lets a new server take the port of one that has just ended, not of one that lives.
    socket.set_reuse_address(true)?;
    socket.bind(&address.into())?;
    socket.listen(BACKLOG)?;
    socket.set_nonblocking(true)?;
    Ok(socket.into())
}

/// What the thread owns.
struct Server {
    /// A child of fork(2) would keep the port, where clients then wait for an answer from nobody.
    _registration: Registration,
    listener: TcpListener,
    stopped: UnixStream,
    token: Token,
    /// Tells this server from one that listens at the same address later.
    instance: [u8; INSTANCE_BYTES],
    /// By age.
    connections: BTreeMap<Id, Connection>,
    next: Id,
    service: Service,
    scratch: Vec<u8>,
    /// Set while the system refuses to accept.
    accept_after: Option<Instant>,
}

/// What there is to do.
struct Ready {
    stop: bool,
    accept: bool,
    connections: Vec<Id>,
}

impl Server {
    fn run(mut self) {
        loop {
            match self.wait() {
                Ok(ready) if ready.stop => return,
                Ok(ready) => self.turn(&ready),
                Err(e) => {
                    // Clients see their connections end.
                    log::error!("tcp store: the server ends, since it cannot wait: {e}");
                    return;
                }
            }
        }
    }

    fn wait(&mut self) -> io::Result<Ready> {
        let now = Instant::now();
        self.accept_after = self.accept_after.filter(|after| *after > now);
        let next = self.connections.values().filter_map(Connection::until);
        let rest = self.connections.values().filter_map(|c| c.rests_until).filter(|it| *it > now);
        let next = next.chain(rest).chain(self.accept_after).min();
        let awake = |c: &&Connection| c.rests_until.is_none_or(|until| until <= now);
        let mut entries = Vec::with_capacity(self.connections.len() + 2);
        entries.push(Entry::new(self.stopped.as_fd(), Interest::Readable));
        let watched = self.connections.values().filter(awake);
        entries.extend(watched.map(|c| Entry::new(c.descriptor(), c.interest())));
        if self.accept_after.is_none() {
            entries.push(Entry::new(self.listener.as_fd(), Interest::Readable));
        }
        poll::wait_any(&mut entries, next.map(|next| next.saturating_duration_since(now)))?;
        let mut ready = entries.iter().map(Entry::is_ready);
        Ok(Ready {
            stop: ready.next() == Some(true),
            connections: self
                .connections
                .iter()
                .filter(|(_, connection)| awake(connection))
                .zip(&mut ready)
                .filter_map(|((id, _), ready)| ready.then_some(*id))
                .collect(),
            accept: ready.next() == Some(true),
        })
    }

    fn turn(&mut self, ready: &Ready) {
        for id in &ready.connections {
            self.advance(*id);
        }
        if ready.accept {
            self.accept();
        }
        self.expire();
    }

    fn advance(&mut self, id: Id) {
        // It may have been closed in this turn, by a reply that failed.
        let Some(connection) = self.connections.get_mut(&id) else { return };
        match connection.advance(&self.token, &mut self.scratch) {
            Ok(false) => {}
            Ok(true) => self.serve(id),
            Err(Over) => self.close(id),
        }
    }

    fn serve(&mut self, id: Id) {
        let Some(connection) = self.connections.get_mut(&id) else { return };
        let Some(request) = connection.request() else { return self.close(id) };
        let key = request.key.to_owned();
        let mut replies = Vec::new();
        self.service.serve(id, request, &mut replies);
        connection.clear_request();
        connection.waiting = replies.iter().all(|(to, _)| *to != id).then_some(key);
        for (to, reply) in replies {
            if let Some(connection) = self.connections.get_mut(&to)
                && connection.reply(reply).is_err()
            {
                self.close(to);
            }
        }
    }

    fn accept(&mut self) {
        for _ in 0..ACCEPTS_A_TURN {
            match self.listener.accept() {
                // Whoever it is does not matter if its socket is broken already.
                Ok((socket, _)) => drop(self.admit(socket)),
                Err(e) if e.kind() == ErrorKind::WouldBlock => return,
                Err(e)
                    if matches!(
                        e.kind(),
                        ErrorKind::ConnectionAborted | ErrorKind::Interrupted
                    ) => {}
                Err(e) => {
                    // Out of descriptors or memory: the connection stays queued, so that waiting would return at once.
                    log::warn!("tcp store: cannot accept a connection: {e}");
                    self.drop_oldest_unproven();
                    self.accept_after = Some(Instant::now() + ACCEPT_PAUSE);
                    return;
                }
            }
        }
    }

    fn admit(&mut self, socket: TcpStream) -> io::Result<()> {
        if self.connections.len() >= CONNECTIONS_MAX && !self.drop_oldest_unproven() {
            log::warn!(
                "tcp store: {CONNECTIONS_MAX} clients are connected, another one is refused"
            );
            return Ok(());
        }
        socket.set_nonblocking(true)?;
        socket.set_nodelay(true)?;
        bound_silence(&socket)?;
        let connection = Connection::new(socket, self.instance, Instant::now() + PROOF_LIMIT)?;
        let id = self.next;
        self.next += 1;
        self.connections.insert(id, connection);
        self.advance(id);
        Ok(())
    }

    /// Returns whether there was one.
    fn drop_oldest_unproven(&mut self) -> bool {
        let oldest = self.connections.iter().find(|(_, c)| !c.is_proven()).map(|(id, _)| *id);
        oldest.inspect(|id| self.close(*id)).is_some()
    }

    fn expire(&mut self) {
        let now = Instant::now();
        self.connections.retain(|_, connection| connection.until().is_none_or(|until| until > now));
    }

    fn close(&mut self, id: Id) {
        let waiting = self.connections.remove(&id).and_then(|connection| connection.waiting);
        if let Some(key) = waiting {
            self.service.forget(id, &key);
        }
    }
}

/// Ends connections whose other host is gone without a word, after two minutes: a client's get would wait, and be waited
/// for, for ever.
pub(super) fn bound_silence(socket: &TcpStream) -> io::Result<()> {
    const IDLE: Duration = Duration::from_secs(60);
    const INTERVAL: Duration = Duration::from_secs(10);
    const PROBES: u32 = 6;
    let keepalive =
        TcpKeepalive::new().with_time(IDLE).with_interval(INTERVAL).with_retries(PROBES);
    SockRef::from(socket).set_tcp_keepalive(&keepalive)?;
    // While bytes wait to be acknowledged nothing is probed: they are the probe, with the same limit.
    set_silence_limit(socket.as_fd(), IDLE + INTERVAL * PROBES)
}
