//! The part of every rank but 0: read its record, connect, tell, and wait for the table.
//!
//! A record may be what a crashed run left: if its writer does not answer, the member waits for the record to change.
#![forbid(unsafe_code)]

use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use super::message::{Inbox, JOIN, Outbox, REFUSED, TABLE, TABLE_BYTES_MAX, read_refusal};
use super::reach::{reach, usable};
use super::record::{Entry, Record, Table};
use super::{JoinOptions, Joined, joined, random};
use crate::error::Error;
use crate::link::handshake::Purpose;
use crate::link::syscall::epoll::{Epoll, Ready, pause_until};
use crate::link::syscall::socket::SHORTAGE_PAUSE;
use crate::link::tcp::Jitter;
use crate::link::tcp::listener::Listener;
use crate::link::tcp::socket::Socket;
use crate::store::Store;

/// How long rank 0 may take to answer before the record is read again, at first; each failure doubles it.
const ANSWER_LIMIT: Duration = Duration::from_secs(1);
/// The longest is 8 s.
const DOUBLINGS_MAX: u32 = 3;

/// So many attempts in vain, over a second or two, before a lack of descriptors is for good.
const SHORTAGE_ATTEMPTS: u32 = 9;

/// Why an attempt failed.
enum Failure {
    /// For good.
    Final(Error),
    /// The writer of the record is not there: perhaps another one comes.
    Absent(Error),
}

pub(super) fn join(
    store: &dyn Store,
    options: &JoinOptions,
    listener: Listener,
) -> Result<Joined, Error> {
    let own = options.entry(&listener)?;
    let (key, mut failures, mut cause) = (options.key(), 0, None);
    let mut jitter = Jitter::new(&random()?, options.rank);
    loop {
        let bytes = store
            .get(&key, options.deadline)
            .map_err(|error| waiting(options, store, error, cause.as_ref()))?;
        let failure = match Record::read(&bytes) {
            Ok(record) => match attend(options, &record, &own, failures) {
                Ok((socket, table)) => {
                    let identity = options.identity(record.run, &record.secret);
                    return Ok(joined(identity, listener, table, vec![(0, socket)]));
                }
                Err(Failure::Final(error)) => return Err(error),
                Err(Failure::Absent(error)) => error,
            },
            Err(error) => error,
        };
        failures += 1;
        pause_until(options.deadline.min(Instant::now() + jitter.pause(failures)));
        let is_short = matches!(failure, Error::Resource(_));
        if is_short && (failures >= SHORTAGE_ATTEMPTS || options.is_over()) {
            return Err(failure);
        }
        if options.is_over() {
            let text = format!(
                "world \"{}\": rank 0 was not reached in time; the record in {} is stale, or its writer is gone: \
                 {failure}",
                options.name,
                store.description()
            );
            return Err(Error::TimedOut { rank: Some(0), text });
        }
        cause = Some(failure);
    }
}

/// A time-out of the store, told as what it means.
fn waiting(options: &JoinOptions, store: &dyn Store, error: Error, cause: Option<&Error>) -> Error {
    let Error::TimedOut { text, .. } = error else { return error };
    if let Some(cause @ Error::Resource(_)) = cause {
        return cause.clone();
    }
    let before = cause.map(|cause| format!("; before: {cause}")).unwrap_or_default();
    let text = format!(
        "world \"{}\": rank {} waited for rank 0, which has not come to {} ({text}{before})",
        options.name,
        options.rank,
        store.description()
    );
    Error::TimedOut { rank: Some(0), text }
}

/// Joins the run that the record names.
fn attend(
    options: &JoinOptions,
    record: &Record,
    own: &Entry,
    failures: u32,
) -> Result<(Socket, Table), Failure> {
    let identity = options.identity(record.run, &record.secret);
    let addresses = usable(record.entry.addresses.clone(), record.entry.host == own.host);
    let limit = ANSWER_LIMIT * (1 << failures.min(DOUBLINGS_MAX));
    let until = options.deadline.min(Instant::now() + limit);
    let half = reach(&addresses, &identity, Purpose::Join, until).map_err(|error| match error {
        Error::Mismatch(_) => Failure::Final(error),
        error => Failure::Absent(error),
    })?;
    let address = half.address();
    let socket = half.into_socket();
    let member = options.member(own.clone());
    let lost = |error| Failure::Absent(Error::System(format!("rank 0 at {address}: {error}")));
    let answer = ask(&socket, &member.write(), options.deadline).map_err(lost)?;
    let Some((kind, content)) = answer else {
        // One that waits for others tells in time who they are.
        let text = format!(
            "world \"{}\": rank 0 at {address} has let rank {} in, and has neither sent the table nor said who is \
             missing: its process is stopped, or its host cannot be reached",
            options.name, options.rank
        );
        return Err(Failure::Final(Error::TimedOut { rank: Some(0), text }));
    };
    match kind {
        TABLE => {}
        REFUSED => return Err(Failure::Final(read_refusal(&content))),
        _ => return Err(lost(Error::System("it answered with something unknown".into()))),
    }
    let table = Table::read(&content).map_err(Failure::Final)?;
    if table.entries.len() != options.size {
        let (theirs, ours) = (table.entries.len(), options.size);
        let text = format!("rank 0 at {address} sent a table of {theirs} ranks, not {ours}");
        return Err(Failure::Final(Error::Mismatch(text)));
    }
    Ok((socket, table))
}

/// Sends a record, and waits for the answer; `None` when the deadline passes.
fn ask(socket: &Socket, record: &[u8], deadline: Instant) -> Result<Option<(u8, Vec<u8>)>, Error> {
    let failed = |error| Error::system("wait for the table", &error);
    let epoll = Epoll::new().map_err(failed)?;
    epoll.add(socket.as_fd(), 0).map_err(|error| Error::watch("the connection", &error))?;
    let (mut inbox, mut outbox, mut ready) =
        (Inbox::default(), Outbox::default(), [Ready::EMPTY; 1]);
    outbox.put(JOIN, record);
    loop {
        outbox.flush(socket)?;
        if let Some(answer) = inbox.receive(socket, TABLE_BYTES_MAX)? {
            return Ok(Some(answer));
        }
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Ok(None);
        }
        let rests = inbox.is_short || outbox.is_short;
        let limit = if rests { left.min(SHORTAGE_PAUSE) } else { left };
        epoll.wait(&mut ready, Some(limit)).map_err(failed)?;
    }
}
