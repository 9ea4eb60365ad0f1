//! The client: a connection for every call under way, kept for later calls.

use std::io::{self, ErrorKind};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use super::dial::{self, Failure};
use super::proof::Token;
use super::protocol::{Call, Expected, INSTANCE_BYTES, LENGTH_BYTES, Reply, Request, frame_bytes};
use super::{Store, contract};
use crate::error::Error;
use crate::link::syscall::poll::Interest;

/// How many connections are kept without a call under way.
const IDLE_MAX: usize = 4;
/// How much time a call must have had before the server's silence counts against the server.
const FAIR: Duration = Duration::from_millis(500);
/// How long before its deadline a get that has no reply asks whether the server lives.
const ASK_LIMIT: Duration = Duration::from_secs(1);

/// A client of a TCP store. Threads that share it do not wait for each other.
///
/// In a child of fork(2) every call fails with [`Error::Forked`]: the connections are its parent's.
#[derive(Debug)]
pub struct TcpStore {
    /// As the caller gave it.
    address: String,
    /// The one of its addresses that answered.
    peer: SocketAddr,
    token: Token,
    /// The server that answered; another one at its address does not hold what this one did.
    instance: [u8; INSTANCE_BYTES],
    idle: Mutex<Vec<TcpStream>>,
    process: u32,
}

impl TcpStore {
    /// Connects to a server at `host:port` (a name, an IPv4 address, or an IPv6 address in brackets), which may be
    /// started later. The token must be the server's. The resolution of a name has no deadline but the resolver's.
    ///
    /// # Errors
    ///
    /// [`Error::TimedOut`] if nobody answers until `deadline`; [`Error::Store`] if the token is wrong, or it is no store
    /// that answers; [`Error::InvalidArgument`] if the address has another form or the token is empty.
    pub fn connect(
        address: &str,
        token: Option<Vec<u8>>,
        deadline: Instant,
    ) -> Result<Self, Error> {
        let token = Token::new(token)?;
        let dialled = dial::until_answered(address, &token, deadline)?;
        Ok(Self {
            address: address.to_owned(),
            peer: dialled.peer,
            token,
            instance: dialled.instance,
            idle: Mutex::new(vec![dialled.socket]),
            process: std::process::id(),
        })
    }

    fn call(&self, name: &str, request: Request<'_>, deadline: Instant) -> Result<Reply, Error> {
        if std::process::id() != self.process {
            return Err(Error::Forked);
        }
        let is_fair = deadline.saturating_duration_since(Instant::now()) >= FAIR;
        let late = |why: &str| contract::timed_out(self.description(), name, request.key, why);
        let silent = |why: &str| {
            match is_fair {
            true => self.error(&format!(
                "the server does not answer to a {name} of key {:?} in time ({why}): it is stopped, or cannot be reached",
                request.key
            )),
            false => late("the server does not answer"),
        }
        };
        let socket = self.connection(deadline).map_err(|failure| match failure {
            Failure::Final(e) => e,
            Failure::Again(why) if Instant::now() >= deadline => silent(&why),
            Failure::Again(why) => self.error(&format!("the server is gone ({why})")),
        })?;
        // A connection that a call has failed on is dropped: its reply may yet come.
        let frame = self.exchange(&socket, &request, deadline).map_err(|none| match none {
            NoReply::Broken(e) => self.error(&format!("the server is gone ({e})")),
            NoReply::Nothing => late("nobody has set it"),
            NoReply::Silence(why) => silent(&why),
        })?;
        let reply = Reply::decode(&frame).ok_or_else(|| self.error("the reply makes no sense"))?;
        self.keep(socket);
        match reply {
            Reply::Refused(text) => Err(self.error(&text)),
            reply => Ok(reply),
        }
    }

    /// Sends a request, and reads what follows the length of its reply.
    fn exchange(
        &self,
        socket: &TcpStream,
        request: &Request<'_>,
        deadline: Instant,
    ) -> Result<Vec<u8>, NoReply> {
        let late = |why: &str| NoReply::Silence(why.to_owned());
        let unless = |at_deadline: NoReply| {
            |e: io::Error| if dial::is_deadline(&e) { at_deadline } else { NoReply::Broken(e) }
        };
        dial::write(socket, &request.encode(), deadline)
            .map_err(unless(late("it does not take the request")))?;
        let is_silent = match request.call {
            Call::Get => self.ask_if_silent(socket, deadline).map_err(NoReply::Broken)?,
            _ => Some("no reply".to_owned()),
        };
        let mut length = [0; LENGTH_BYTES];
        dial::read(socket, &mut length, deadline)
            .map_err(unless(is_silent.map_or(NoReply::Nothing, NoReply::Silence)))?;
        let bytes = frame_bytes(length).ok_or_else(|| {
            NoReply::Broken(io::Error::new(ErrorKind::InvalidData, "a reply of a wrong length"))
        })?;
        let mut frame = vec![0; bytes];
        dial::read(socket, &mut frame, deadline)
            .map_err(unless(late("it has stopped in the middle of its reply")))?;
        Ok(frame)
    }

    /// A get waits for somebody to set the key, so its silence says nothing about the server: if there is no reply shortly
    /// before the deadline, asks the server by a connection of its own. Returns why it does not answer, if it does not.
    fn ask_if_silent(&self, socket: &TcpStream, deadline: Instant) -> io::Result<Option<String>> {
        let left = deadline.saturating_duration_since(Instant::now());
        let limit = (left / 2).min(ASK_LIMIT);
        if limit < FAIR / 2 || dial::is_ready_by(socket, Interest::Readable, deadline - limit)? {
            return Ok(None);
        }
        // Some time is left for a reply that comes meanwhile.
        match dial::once(self.peer, &self.token, deadline - limit / 8) {
            Err(Failure::Again(why)) => Ok(Some(why)),
            Ok(_) | Err(Failure::Final(_)) => Ok(None),
        }
    }

    fn connection(&self, deadline: Instant) -> Result<TcpStream, Failure> {
        let idle = self.idle.lock().pop();
        if let Some(socket) = idle {
            return Ok(socket);
        }
        let dialled = dial::once(self.peer, &self.token, deadline)?;
        if dialled.instance != self.instance {
            let text = "the server was started anew, and what the store held is lost";
            return Err(Failure::Final(self.error(text)));
        }
        Ok(dialled.socket)
    }

    fn keep(&self, socket: TcpStream) {
        let mut idle = self.idle.lock();
        if idle.len() < IDLE_MAX {
            idle.push(socket);
        }
    }

    fn error(&self, text: &str) -> Error {
        Error::Store(format!("{}: {text}", self.description()))
    }

    fn unexpected<T>(&self, name: &str) -> Result<T, Error> {
        Err(self.error(&format!("the reply to a {name} makes no sense")))
    }
}

/// Why a request has no reply.
enum NoReply {
    /// The connection has ended.
    Broken(io::Error),
    /// A living server has none yet.
    Nothing,
    /// The server is silent.
    Silence(String),
}

impl Store for TcpStore {
    fn set(&self, key: &str, value: &[u8], deadline: Instant) -> Result<(), Error> {
        contract::check(key, value)?;
        match self.call("set", Request { key, call: Call::Set(value) }, deadline)? {
            Reply::Done => Ok(()),
            _ => self.unexpected("set"),
        }
    }

    fn get(&self, key: &str, deadline: Instant) -> Result<Vec<u8>, Error> {
        contract::check_key(key)?;
        match self.call("get", Request { key, call: Call::Get }, deadline)? {
            Reply::Value(value) => Ok(value.to_vec()),
            _ => self.unexpected("get"),
        }
    }

    fn add(&self, key: &str, amount: i64, deadline: Instant) -> Result<i64, Error> {
        contract::check_key(key)?;
        match self.call("add", Request { key, call: Call::Add(amount) }, deadline)? {
            Reply::Number(sum) => Ok(sum),
            _ => self.unexpected("add"),
        }
    }

    fn compare_and_set(
        &self,
        key: &str,
        expected: Option<&[u8]>,
        desired: &[u8],
        deadline: Instant,
    ) -> Result<Option<Vec<u8>>, Error> {
        contract::check(key, desired)?;
        let call = Call::CompareAndSet(Expected::new(expected), desired);
        match self.call("compare-and-set", Request { key, call }, deadline)? {
            Reply::Value(held) => Ok(Some(held.to_vec())),
            Reply::Absent => Ok(None),
            _ => self.unexpected("compare-and-set"),
        }
    }

    fn delete(&self, key: &str, deadline: Instant) -> Result<bool, Error> {
        contract::check_key(key)?;
        match self.call("delete", Request { key, call: Call::Delete }, deadline)? {
            Reply::Done => Ok(true),
            Reply::Absent => Ok(false),
            _ => self.unexpected("delete"),
        }
    }

    fn description(&self) -> String {
        format!("tcp store {}", self.address)
    }
}
