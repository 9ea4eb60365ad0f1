//! Connects to a server: finds its address, waits for it to start, and proves to each other who they are.
//!
//! Sockets do not block; every read and write waits in poll(2) until its deadline. Only the resolution of a name has no
//! deadline but the resolver's.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream, ToSocketAddrs};
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use socket2::{Domain, Protocol, Socket, Type};

use super::contract;
use super::proof::{self, Side, Token, Transcript};
use super::protocol::{
    CLIENT_NONCE_BYTES, GREETING_BYTES, HELLO_BYTES, INSTANCE_BYTES, MAGIC, VERDICT_BYTES, VERSION,
    WELCOME, WRONG_TOKEN,
};
use super::server::bound_silence;
use crate::error::Error;
use crate::link::syscall::poll::{self, Entry, Interest};
use crate::link::syscall::socket::{SHORTAGE_PAUSE, is_shortage, start_connect};

/// How long one address may take, while others may answer.
const ATTEMPT_LIMIT: Duration = Duration::from_secs(5);
const FIRST_PAUSE: Duration = Duration::from_millis(10);
const LONGEST_PAUSE: Duration = Duration::from_millis(500);

/// A connection on which requests can be made.
#[derive(Debug)]
pub(super) struct Dialled {
    pub(super) socket: TcpStream,
    pub(super) peer: SocketAddr,
    pub(super) instance: [u8; INSTANCE_BYTES],
}

/// Why there is none.
#[derive(Debug)]
pub(super) enum Failure {
    /// A later try may succeed.
    Again(String),
    /// No try will.
    Final(Error),
}

/// Tries all addresses of `host:port` until one answers.
pub(super) fn until_answered(
    address: &str,
    token: &Token,
    deadline: Instant,
) -> Result<Dialled, Error> {
    let mut limit = FIRST_PAUSE;
    loop {
        let why = match any(address, token, deadline) {
            Ok(dialled) => return Ok(dialled),
            Err(Failure::Final(e)) => return Err(e),
            Err(Failure::Again(why)) => why,
        };
        if Instant::now() >= deadline {
            return Err(Error::timed_out(format!(
                "tcp store {address}: nobody answers ({why}); is the server there, and the address right?"
            )));
        }
        poll::pause(deadline, limit);
        limit = (limit * 2).min(LONGEST_PAUSE);
    }
}

/// Tries every address once.
fn any(address: &str, token: &Token, deadline: Instant) -> Result<Dialled, Failure> {
    let peers = address.to_socket_addrs().map_err(|e| match e.kind() {
        ErrorKind::InvalidInput => Failure::Final(Error::InvalidArgument(format!(
            "tcp store {address:?}: not of the form host:port: {e}"
        ))),
        // Names of hosts that are starting may not be known yet.
        _ => Failure::Again(e.to_string()),
    })?;
    let mut failure = Failure::Again("the name has no address".to_owned());
    for peer in peers {
        match once(peer, token, deadline.min(Instant::now() + ATTEMPT_LIMIT)) {
            Err(Failure::Again(why)) => failure = Failure::Again(why),
            result => return result,
        }
    }
    Err(failure)
}

/// Tries one address once.
pub(super) fn once(peer: SocketAddr, token: &Token, deadline: Instant) -> Result<Dialled, Failure> {
    let socket = connect(peer, deadline).map_err(|e| failure(peer, &e))?;
    let instance = greet(&socket, peer, token, deadline)?;
    Ok(Dialled { socket, peer, instance })
}

fn connect(peer: SocketAddr, deadline: Instant) -> io::Result<TcpStream> {
    let socket = Socket::new(Domain::for_address(peer), Type::STREAM, Some(Protocol::TCP))?;
    socket.set_nonblocking(true)?;
    let socket = TcpStream::from(socket);
    start_connect(socket.as_fd(), peer)?;
    if !is_ready_by(&socket, Interest::Writable, deadline)? {
        return Err(io::Error::new(ErrorKind::TimedOut, "no answer to the connection in time"));
    }
    if let Some(error) = socket.take_error()? {
        return Err(error);
    }
    // Where nobody listens, a port that the system gives out may be given to this socket, which then meets itself.
    if socket.local_addr()? == peer {
        return Err(ErrorKind::ConnectionRefused.into());
    }
    socket.set_nodelay(true)?;
    bound_silence(&socket)?;
    Ok(socket)
}

/// Both sides prove that they know the token. Returns the server's instance.
fn greet(
    socket: &TcpStream,
    peer: SocketAddr,
    token: &Token,
    deadline: Instant,
) -> Result<[u8; INSTANCE_BYTES], Failure> {
    let refuse =
        |text: &str| Failure::Final(Error::Store(format!("tcp store {peer}: wrong token: {text}")));
    let mut greeting = [0; GREETING_BYTES];
    read(socket, &mut greeting, deadline).map_err(|e| failure(peer, &e))?;
    check_magic(peer, &greeting)?;
    let client_nonce = proof::random::<CLIENT_NONCE_BYTES>().map_err(|e| failure(peer, &e))?;
    let transcript = Transcript { greeting: &greeting, client_nonce: &client_nonce };
    let mut hello = Vec::with_capacity(HELLO_BYTES);
    hello.extend_from_slice(&MAGIC);
    hello.extend_from_slice(&client_nonce);
    hello.extend_from_slice(&token.prove(Side::Client, transcript));
    write(socket, &hello, deadline).map_err(|e| failure(peer, &e))?;
    let mut verdict = [0; VERDICT_BYTES];
    read(socket, &mut verdict, deadline).map_err(|e| failure(peer, &e))?;
    match verdict.split_first() {
        Some((&WELCOME, proof)) if token.verify(Side::Server, transcript, proof) => {}
        Some((&WRONG_TOKEN, _)) => return Err(refuse("the server has another one")),
        _ => return Err(refuse("the server does not prove that it knows it")),
    }
    let (_, rest) = greeting.split_at(MAGIC.len());
    Ok(*rest.first_chunk().expect("a greeting has an instance after its magic"))
}

fn check_magic(peer: SocketAddr, greeting: &[u8; GREETING_BYTES]) -> Result<(), Failure> {
    let (magic, _) = greeting.split_at(MAGIC.len());
    if magic == MAGIC {
        return Ok(());
    }
    let text = match magic.strip_prefix(MAGIC.split_at(MAGIC.len() - 1).0) {
        Some([version]) => format!("it speaks version {version}, and this client {VERSION}"),
        _ => "what answers is no store of libcollect".to_owned(),
    };
    Err(Failure::Final(Error::Store(format!("tcp store {peer}: {text}"))))
}

fn failure(peer: SocketAddr, source: &io::Error) -> Failure {
    let refused = source.kind() == ErrorKind::PermissionDenied;
    match contract::failed(format_args!("tcp store {peer}: connect"), source) {
        Error::Store(_) if !refused => Failure::Again(format!("{peer}: {source}")),
        error => Failure::Final(error),
    }
}

/// Whether an error of `read` or `write` says that the deadline passed (and not that the system gave up).
pub(super) fn is_deadline(e: &io::Error) -> bool {
    e.kind() == ErrorKind::TimedOut && e.raw_os_error().is_none()
}

/// Fills a buffer.
pub(super) fn read(mut socket: &TcpStream, buffer: &mut [u8], deadline: Instant) -> io::Result<()> {
    let mut done = 0;
    while done < buffer.len() {
        match socket.read(&mut buffer[done..]) {
            Ok(0) => return Err(io::Error::new(ErrorKind::UnexpectedEof, "closed by the server")),
            Ok(n) => done += n,
            Err(e) => wait(socket, Interest::Readable, e, deadline)?,
        }
    }
    Ok(())
}

/// Writes a buffer.
pub(super) fn write(mut socket: &TcpStream, buffer: &[u8], deadline: Instant) -> io::Result<()> {
    let mut done = 0;
    while done < buffer.len() {
        match socket.write(&buffer[done..]) {
            Ok(n) => done += n,
            Err(e) => wait(socket, Interest::Writable, e, deadline)?,
        }
    }
    Ok(())
}

/// Waits if that is what the error asks for.
fn wait(socket: &TcpStream, interest: Interest, e: io::Error, deadline: Instant) -> io::Result<()> {
    let is_short = is_shortage(&e);
    match e.kind() {
        ErrorKind::Interrupted => return Ok(()),
        ErrorKind::WouldBlock => {}
        _ if is_short => {}
        _ => return Err(e),
    }
    let left = deadline.saturating_duration_since(Instant::now());
    if left.is_zero() {
        return Err(io::Error::new(ErrorKind::TimedOut, "no answer in time"));
    }
    if is_short {
        // The socket is ready, and would be found so at once.
        poll::pause(deadline, SHORTAGE_PAUSE);
        return Ok(());
    }
    wait_once(socket, interest, left).map(drop)
}

/// Waits until a socket is ready. False if it is not by `until`.
pub(super) fn is_ready_by(
    socket: &TcpStream,
    interest: Interest,
    until: Instant,
) -> io::Result<bool> {
    loop {
        let left = until.saturating_duration_since(Instant::now());
        if wait_once(socket, interest, left)? {
            return Ok(true);
        }
        if left.is_zero() {
            return Ok(false);
        }
    }
}

/// Waits until a socket is ready, for at most `limit`. May return early.
fn wait_once(socket: &TcpStream, interest: Interest, limit: Duration) -> io::Result<bool> {
    let mut entries = [Entry::new(socket.as_fd(), interest)];
    poll::wait_any(&mut entries, Some(limit))?;
    Ok(entries[0].is_ready())
}
