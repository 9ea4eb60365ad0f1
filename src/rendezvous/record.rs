//! What travels at a rendezvous, as bytes: rank 0's record in the store, a member's, and the table.
//!
//! Little-endian, every length checked: bytes from a store or a peer never panic, and never reserve more than they hold.
#![forbid(unsafe_code)]

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use super::Rules;
use crate::error::Error;

/// Version of these formats.
pub(super) const FORMAT: u16 = 3;
const MAGIC: &[u8; 4] = b"clct";
/// Addresses of one rank at most; further ones are not advertised.
const ADDRESSES_MAX: usize = 32;
/// Bytes of a host's identity, and of where rules come from, at most; the rest is cut.
const TEXT_BYTES_MAX: usize = 512;

/// Where a rank is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Entry {
    /// Its host's identity.
    pub(super) host: String,
    /// Where it listens.
    pub(super) addresses: Vec<SocketAddr>,
}

/// What rank 0 leaves in the store.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct Record {
    pub(super) run: [u8; 16],
    pub(super) secret: [u8; 32],
    pub(super) size: usize,
    pub(super) entry: Entry,
}

/// What a member tells rank 0, or everybody where the caller's allgather stands in for the store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Member {
    pub(super) size: usize,
    pub(super) options_hash: [u8; 32],
    /// How long it goes on waiting.
    pub(super) patience: Duration,
    pub(super) rules: Rules,
    pub(super) entry: Entry,
}

/// Where all ranks are, and what rank 0 tells them besides.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Table {
    pub(super) entries: Vec<Entry>,
    /// See [`Rules::text`].
    pub(super) rules: String,
}

impl Record {
    pub(super) fn write(&self) -> Vec<u8> {
        let mut bytes = [&MAGIC[..], &FORMAT.to_le_bytes(), &self.run, &self.secret].concat();
        put_number(&mut bytes, self.size);
        put_entry(&mut bytes, &self.entry);
        bytes
    }

    pub(super) fn read(bytes: &[u8]) -> Result<Self, Error> {
        let mut reader = Reader { rest: bytes, what: "rank 0's record" };
        if reader.take(4)? != MAGIC {
            return Err(Error::Store("the key holds something that is no record of a run".into()));
        }
        let format = u16::from_le_bytes(reader.array()?);
        if format != FORMAT {
            return Err(Error::Store(format!(
                "the record was written by another version of libcollect (format {format}, not {FORMAT})"
            )));
        }
        let (run, secret) = (reader.array()?, reader.array()?);
        let record = Self { run, secret, size: reader.number()?, entry: reader.entry()? };
        reader.end().map(|()| record)
    }
}

impl Member {
    pub(super) fn write(&self) -> Vec<u8> {
        let mut bytes = FORMAT.to_le_bytes().to_vec();
        put_number(&mut bytes, self.size);
        bytes.extend_from_slice(&self.options_hash);
        let patience = u64::try_from(self.patience.as_nanos()).unwrap_or(u64::MAX);
        bytes.extend_from_slice(&patience.to_le_bytes());
        bytes.extend_from_slice(&self.rules.hash.to_le_bytes());
        put_text(&mut bytes, &self.rules.source);
        put_whole(&mut bytes, &self.rules.text);
        put_entry(&mut bytes, &self.entry);
        bytes
    }

    pub(super) fn read(bytes: &[u8]) -> Result<Self, Error> {
        let mut reader = Reader { rest: bytes, what: "a member's record" };
        let format = u16::from_le_bytes(reader.array()?);
        if format != FORMAT {
            return Err(Error::Mismatch(format!(
                "a member's record has format {format}, not {FORMAT}: use one version of libcollect"
            )));
        }
        let member = Self {
            size: reader.number()?,
            options_hash: reader.array()?,
            patience: Duration::from_nanos(u64::from_le_bytes(reader.array()?)),
            rules: Rules {
                hash: u64::from_le_bytes(reader.array()?),
                source: reader.text()?,
                text: reader.text()?,
            },
            entry: reader.entry()?,
        };
        reader.end().map(|()| member)
    }
}

impl Table {
    /// The rules, each host's identity once, then each rank's host and addresses.
    pub(super) fn write(&self) -> Vec<u8> {
        let mut hosts: Vec<&str> = self.entries.iter().map(|entry| &entry.host[..]).collect();
        hosts.sort_unstable();
        hosts.dedup();
        let mut bytes = Vec::new();
        put_whole(&mut bytes, &self.rules);
        put_number(&mut bytes, hosts.len());
        hosts.iter().for_each(|host| put_text(&mut bytes, host));
        put_number(&mut bytes, self.entries.len());
        for entry in &self.entries {
            put_number(&mut bytes, hosts.partition_point(|host| *host < &entry.host[..]));
            put_addresses(&mut bytes, &entry.addresses);
        }
        bytes
    }

    pub(super) fn read(bytes: &[u8]) -> Result<Self, Error> {
        let mut reader = Reader { rest: bytes, what: "rank 0's table" };
        let rules = reader.text()?;
        let mut hosts = Vec::new();
        for _ in 0..reader.number()? {
            hosts.push(reader.text()?);
        }
        let mut entries = Vec::new();
        for _ in 0..reader.number()? {
            let host: Option<&String> = hosts.get(reader.number()?);
            let host = host.cloned().ok_or_else(|| reader.damaged())?;
            entries.push(Entry { host, addresses: reader.addresses()? });
        }
        reader.end().map(|()| Self { entries, rules })
    }
}

fn put_number(bytes: &mut Vec<u8>, number: usize) {
    let number = u32::try_from(number).unwrap_or(u32::MAX);
    bytes.extend_from_slice(&number.to_le_bytes());
}

fn put_text(bytes: &mut Vec<u8>, text: &str) {
    put_whole(bytes, &text[..text.floor_char_boundary(TEXT_BYTES_MAX)]);
}

/// Text that is not cut.
fn put_whole(bytes: &mut Vec<u8>, text: &str) {
    put_number(bytes, text.len());
    bytes.extend_from_slice(text.as_bytes());
}

fn put_entry(bytes: &mut Vec<u8>, entry: &Entry) {
    put_text(bytes, &entry.host);
    put_addresses(bytes, &entry.addresses);
}

fn put_addresses(bytes: &mut Vec<u8>, addresses: &[SocketAddr]) {
    let addresses = &addresses[..addresses.len().min(ADDRESSES_MAX)];
    put_number(bytes, addresses.len());
    for address in addresses {
        match address.ip() {
            IpAddr::V4(ip) => bytes.extend_from_slice(&[&[4][..], &ip.octets()].concat()),
            IpAddr::V6(ip) => bytes.extend_from_slice(&[&[6][..], &ip.octets()].concat()),
        }
        bytes.extend_from_slice(&address.port().to_le_bytes());
    }
}

/// Takes values from the front of bytes.
struct Reader<'a> {
    rest: &'a [u8],
    what: &'static str,
}

impl<'a> Reader<'a> {
    fn take(&mut self, count: usize) -> Result<&'a [u8], Error> {
        let (taken, rest) = self.rest.split_at_checked(count).ok_or_else(|| self.damaged())?;
        self.rest = rest;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], Error> {
        let taken = self.take(N)?;
        taken.try_into().map_err(|_| self.damaged())
    }

    fn number(&mut self) -> Result<usize, Error> {
        self.array().map(|bytes| u32::from_le_bytes(bytes) as usize)
    }

    fn text(&mut self) -> Result<String, Error> {
        let count = self.number()?;
        let bytes = self.take(count)?.to_vec();
        String::from_utf8(bytes).map_err(|_| self.damaged())
    }

    fn entry(&mut self) -> Result<Entry, Error> {
        Ok(Entry { host: self.text()?, addresses: self.addresses()? })
    }

    fn addresses(&mut self) -> Result<Vec<SocketAddr>, Error> {
        let count = self.number()?;
        if count > ADDRESSES_MAX {
            return Err(self.damaged());
        }
        (0..count).map(|_| self.address()).collect()
    }

    fn address(&mut self) -> Result<SocketAddr, Error> {
        let ip = match self.array()? {
            [4] => IpAddr::from(self.array::<4>()?),
            [6] => IpAddr::from(self.array::<16>()?),
            _ => return Err(self.damaged()),
        };
        Ok(SocketAddr::new(ip, u16::from_le_bytes(self.array()?)))
    }

    fn end(&self) -> Result<(), Error> {
        if self.rest.is_empty() { Ok(()) } else { Err(self.damaged()) }
    }

    fn damaged(&self) -> Error {
        Error::Store(format!("{} is damaged", self.what))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn entry(host: &str) -> Entry {
        let addresses = ["127.0.0.1:1", "[::1]:65535"].map(|text| text.parse().unwrap()).to_vec();
        Entry { host: host.into(), addresses }
    }

    fn record() -> Record {
        Record { run: [1; 16], secret: [2; 32], size: 3, entry: entry("host") }
    }

    #[test]
    fn what_is_written_is_read() {
        let read = Record::read(&record().write()).unwrap();
        assert!(read == record());
        let (options_hash, patience) = ([9; 32], Duration::from_millis(7));
        let rules = Rules { hash: 77, source: "here".into(), text: "x".repeat(70_000) };
        let member = Member { size: 5, options_hash, patience, rules, entry: entry("x") };
        assert_eq!(Member::read(&member.write()).unwrap(), member);
        let table = Table { entries: ["b", "a", "b", ""].map(entry).to_vec(), rules: "all".into() };
        assert_eq!(Table::read(&table.write()).unwrap(), table);
    }

    #[test]
    fn every_cut_is_refused() {
        let bytes = record().write();
        assert!((0..bytes.len()).all(|end| Record::read(&bytes[..end]).is_err()));
        let table = Table { entries: vec![entry("a"), entry("b")], rules: "all".into() }.write();
        assert!((0..table.len()).all(|end| Table::read(&table[..end]).is_err()));
        let mut newer = bytes;
        newer[4] = 9;
        let error = Record::read(&newer).err().unwrap().to_string();
        assert!(error.contains("format 9, not 3"), "{error}");
    }

    proptest! {
        #[test]
        fn random_bytes_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..400)) {
            let _ = (Record::read(&bytes), Member::read(&bytes), Table::read(&bytes));
            let mut altered = record().write();
            for (to, from) in altered.iter_mut().skip(6).zip(&bytes) {
                *to ^= from;
            }
            let _ = Record::read(&altered);
        }
    }
}
