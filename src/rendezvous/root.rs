//! Rank 0's part: publish the record, then gather everybody (`Gathering`) and send the table.
//!
//! The key may hold what an earlier run left. Its writer is asked: if it answers, the store serves a living run and
//! this one is refused; if not, the record is replaced.
#![forbid(unsafe_code)]

mod gathering;

use std::time::{Duration, Instant};

use self::gathering::Gathering;
use super::reach::{reach, usable};
use super::record::{Entry, Member, Record};
use super::{JoinOptions, Joined, joined, random};
use crate::error::Error;
use crate::link::handshake::Purpose;
use crate::link::tcp::listener::Listener;
use crate::store::Store;

/// How long the writer of an old record may take to answer.
const PROBE_LIMIT: Duration = Duration::from_secs(2);
/// How long the deletion of the record may take when the time of the creation is over.
const CLEAR_LEAST: Duration = Duration::from_millis(200);

pub(super) fn join(
    store: &dyn Store,
    options: &JoinOptions,
    listener: Listener,
) -> Result<Joined, Error> {
    let entry = options.entry(&listener)?;
    let (run, secret) = (random()?, random()?);
    let record = Record { run, secret, size: options.size, entry: entry.clone() };
    publish(store, options, &record)?;
    let own = options.member(entry);
    let identity = options.identity(run, &secret);
    let gathered = Gathering::new(options, &identity, &listener, own).and_then(Gathering::run);
    // If this fails the record is stale, and the next run replaces it: the links' listener answers no probe.
    let _stale = store.delete(&options.key(), time_to_clear(options.deadline));
    let (table, links) = gathered?;
    Ok(joined(identity, listener, table, links))
}

/// When to give up the deletion of the record: a store that does not answer must not hold up a world that is made, nor
/// the news that it is not.
fn time_to_clear(deadline: Instant) -> Instant {
    let now = Instant::now();
    (now + PROBE_LIMIT).min(deadline.max(now + CLEAR_LEAST))
}

fn publish(store: &dyn Store, options: &JoinOptions, record: &Record) -> Result<(), Error> {
    let (key, bytes) = (options.key(), record.write());
    let mut expected: Option<Vec<u8>> = None;
    loop {
        let held = store.compare_and_set(&key, expected.as_deref(), &bytes, options.deadline)?;
        if held == expected {
            return Ok(());
        }
        if let Some(Ok(other)) = held.as_deref().map(Record::read)
            && answers(options, &other, &record.entry)
        {
            return Err(Error::Store(format!(
                "{} already serves a run of world \"{}\" (rank 0 at {:?}): give this one another name",
                store.description(),
                options.name,
                other.entry.addresses
            )));
        }
        if options.is_over() {
            let name = &options.name;
            let text = format!(
                "world \"{name}\": key \"{key}\" of {} keeps changing",
                store.description()
            );
            return Err(Error::timed_out(text));
        }
        expected = held;
    }
}

/// Whether the writer of a record lives.
fn answers(options: &JoinOptions, record: &Record, own: &Entry) -> bool {
    let identity = options.identity(record.run, &record.secret);
    let addresses = usable(record.entry.addresses.clone(), record.entry.host == own.host);
    let left = options.deadline.saturating_duration_since(Instant::now());
    let until = Instant::now() + PROBE_LIMIT.min(left / 2);
    reach(&addresses, &identity, Purpose::Probe, until).is_ok()
}

/// Whether a member says the same as rank 0.
pub(super) fn agree(name: &str, root: &Member, rank: usize, member: &Member) -> Result<(), Error> {
    if member.size != root.size {
        return Err(Error::Mismatch(format!(
            "world \"{name}\": rank {rank} says that it has {} ranks, rank 0 says {}",
            member.size, root.size
        )));
    }
    if member.options_hash != root.options_hash {
        let hash = |hash: &[u8; 32]| {
            hash.iter().take(4).fold(String::new(), |text, byte| text + &format!("{byte:02x}"))
        };
        return Err(Error::Mismatch(format!(
            "world \"{name}\": the options of rank {rank} (hash {}) differ from those of rank 0 (hash {}): \
             \"checksum\" must be equal on all ranks, and so must the library's version",
            hash(&member.options_hash),
            hash(&root.options_hash)
        )));
    }
    if member.rules.hash != 0 && member.rules.hash != root.rules.hash {
        return Err(Error::Mismatch(format!(
            "world \"{name}\": rank {rank} chooses algorithms by {}, rank 0 by {}: name the same on all ranks, or \
             leave it to rank 0",
            member.rules.source, root.rules.source
        )));
    }
    Ok(())
}
