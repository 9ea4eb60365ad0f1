//! Rendezvous by the caller's own allgather: no store, and no connection yet.
#![forbid(unsafe_code)]

use super::record::{Member, Record, Table};
use super::{JoinOptions, Joined, alone, joined, random, root};
use crate::error::Error;
use crate::link::tcp::listener::Listener;

/// The caller's allgather: takes this rank's bytes, returns those of all ranks in order.
pub type Exchange<'a> = dyn FnMut(&[u8]) -> Result<Vec<Vec<u8>>, Error> + 'a;

/// Joins the world through `exchange`, which is called once (not at all in a world of one).
///
/// # Errors
///
/// As [`super::join`], and what `exchange` returns.
pub fn join_with(exchange: &mut Exchange<'_>, options: &JoinOptions) -> Result<Joined, Error> {
    options.check()?;
    if options.size == 1 {
        return alone(options);
    }
    let listener = Listener::bind(&options.listen)?;
    let all = exchange(&contribution(options, &listener)?)?;
    if all.len() != options.size {
        return Err(Error::InvalidArgument(format!(
            "world \"{}\": the caller's exchange returned {} values for {} ranks",
            options.name,
            all.len(),
            options.size
        )));
    }
    let parts = all.iter().enumerate().map(|(rank, bytes)| {
        read(bytes).map_err(|error| Error::Mismatch(format!("from rank {rank}: {error}")))
    });
    let parts: Vec<(Record, Member)> = parts.collect::<Result<_, _>>()?;
    let Some((first, leader)) = parts.first() else {
        return Err(Error::Internal("an exchange of nobody".into()));
    };
    for (rank, (_, member)) in parts.iter().enumerate() {
        root::agree(&options.name, leader, rank, member)?;
    }
    let identity = options.identity(first.run, &first.secret);
    let rules = leader.rules.text.clone();
    let entries = parts.into_iter().map(|(_, member)| member.entry).collect();
    Ok(joined(identity, listener, Table { entries, rules }, Vec::new()))
}

/// Every rank proposes a run; rank 0's is taken.
fn contribution(options: &JoinOptions, listener: &Listener) -> Result<Vec<u8>, Error> {
    let entry = options.entry(listener)?;
    let member = options.member(entry.clone());
    let record = Record { run: random()?, secret: random()?, size: options.size, entry }.write();
    let length = u32::try_from(record.len()).unwrap_or(u32::MAX).to_le_bytes();
    Ok([&length, &record[..], &member.write()].concat())
}

fn read(bytes: &[u8]) -> Result<(Record, Member), Error> {
    let damaged = || Error::Mismatch("its contribution is damaged".into());
    let (length, rest) = bytes.split_first_chunk().ok_or_else(damaged)?;
    let length = u32::from_le_bytes(*length) as usize;
    let (record, member) = rest.split_at_checked(length).ok_or_else(damaged)?;
    Ok((Record::read(record)?, Member::read(member)?))
}
