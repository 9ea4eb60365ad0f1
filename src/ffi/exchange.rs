//! The caller's own allgather as the exchange of a world's creation.
//!
//! C's allgathers take as many bytes from every rank, so values travel in records of one size: the length of the whole
//! value, then a part of it, then zeros. Every rank sees all lengths in the first round, so all make as many rounds as
//! the longest value needs.

use std::ffi::c_void;

use crate::error::Error;

/// The caller's function; [`super::types::collect_exchange_fn`] has its contract.
type Gather = unsafe extern "C" fn(*mut c_void, *const c_void, usize, *mut c_void) -> i32;

/// A record; one is enough unless a host has dozens of addresses.
const RECORD_BYTES: usize = 1024;
const LENGTH_BYTES: usize = 4;
const PART_BYTES: usize = RECORD_BYTES - LENGTH_BYTES;
/// A longer value is taken for garbage.
const VALUE_BYTES_MAX: usize = 1 << 20;

/// The caller's allgather.
#[derive(Debug)]
pub(super) struct Exchange {
    gather: Gather,
    user: *mut c_void,
    rank: usize,
    size: usize,
}

impl Exchange {
    /// The exchange of this rank.
    ///
    /// # Safety
    ///
    /// `gather` keeps the contract of its type with `user`, as long as the exchange exists.
    pub(super) unsafe fn new(gather: Gather, user: *mut c_void, rank: usize, size: usize) -> Self {
        Self { gather, user, rank, size }
    }

    /// Gives everybody's value, by rank, for one's own.
    ///
    /// # Errors
    ///
    /// [`Error::Store`] if the caller's function fails or does not do what it must.
    pub(super) fn run(&self, mine: &[u8]) -> Result<Vec<Vec<u8>>, Error> {
        let length = u32::try_from(mine.len()).unwrap_or(u32::MAX).to_le_bytes();
        let mut values = vec![Vec::new(); self.size];
        let mut parts = mine.chunks(PART_BYTES);
        let (mut round, mut rounds) = (0, 1);
        while round < rounds {
            let part = parts.next().unwrap_or_default();
            let mut record = [0; RECORD_BYTES];
            record[..LENGTH_BYTES].copy_from_slice(&length);
            record[LENGTH_BYTES..][..part.len()].copy_from_slice(part);
            let table = self.gather(&record)?;
            for (rank, record) in table.chunks_exact(RECORD_BYTES).enumerate() {
                let length = append(&mut values[rank], record)
                    .ok_or_else(|| failed(&format!("gave garbage for rank {rank}")))?;
                rounds = rounds.max(length.div_ceil(PART_BYTES));
            }
            round += 1;
        }
        Ok(values)
    }

    /// One call of the caller's function.
    fn gather(&self, record: &[u8; RECORD_BYTES]) -> Result<Vec<u8>, Error> {
        let bytes = self.size.saturating_mul(RECORD_BYTES);
        let mut table = Vec::new();
        table.try_reserve_exact(bytes).map_err(|_| {
            Error::Resource(format!("no memory for the records of {} ranks", self.size))
        })?;
        table.resize(bytes, 0u8);
        let all = table.as_mut_ptr().cast();
        // SAFETY: the caller's contract (see `new`); `all` has room for a record of every rank.
        let code = unsafe { (self.gather)(self.user, record.as_ptr().cast(), RECORD_BYTES, all) };
        if code != 0 {
            return Err(failed(&format!("returned {code}")));
        }
        if table.chunks_exact(RECORD_BYTES).nth(self.rank) != Some(record.as_slice()) {
            return Err(failed("did not put this rank's bytes in their place"));
        }
        Ok(table)
    }
}

/// Appends the part that a record holds to the value it is from. Returns the length of the whole value, if it can be.
fn append(value: &mut Vec<u8>, record: &[u8]) -> Option<usize> {
    let (length, part) = record.split_first_chunk::<LENGTH_BYTES>()?;
    let length = usize::try_from(u32::from_le_bytes(*length)).ok()?;
    let missing = length.checked_sub(value.len())?;
    value.extend_from_slice(&part[..missing.min(part.len())]);
    (length <= VALUE_BYTES_MAX).then_some(length)
}

fn failed(text: &str) -> Error {
    Error::Store(format!("the caller's exchange function {text}"))
}

#[cfg(test)]
mod tests {
    use std::slice;
    use std::sync::{Barrier, Mutex};
    use std::thread;

    use super::*;
    use crate::{Call, CallOptions, World, WorldOptions};

    const SIZE: usize = 3;

    /// What the threads of a test share.
    struct Meeting {
        records: Mutex<[Vec<u8>; SIZE]>,
        barrier: Barrier,
        calls: Mutex<usize>,
    }

    struct Seat<'a> {
        meeting: &'a Meeting,
        rank: usize,
    }

    /// An allgather among the threads of a meeting.
    unsafe extern "C" fn meet(
        user: *mut c_void,
        mine: *const c_void,
        bytes: usize,
        all: *mut c_void,
    ) -> i32 {
        // SAFETY: the test passes its seat.
        let Seat { meeting, rank } = unsafe { &*user.cast::<Seat<'_>>() };
        // SAFETY: the contract of the type.
        let mine = unsafe { slice::from_raw_parts(mine.cast::<u8>(), bytes) };
        meeting.records.lock().unwrap()[*rank] = mine.to_vec();
        *meeting.calls.lock().unwrap() += 1;
        meeting.barrier.wait();
        let table = meeting.records.lock().unwrap().concat();
        // SAFETY: the contract of the type.
        let all = unsafe { slice::from_raw_parts_mut(all.cast::<u8>(), SIZE * bytes) };
        all.copy_from_slice(&table);
        meeting.barrier.wait();
        0
    }

    unsafe extern "C" fn fail(_: *mut c_void, _: *const c_void, _: usize, _: *mut c_void) -> i32 {
        5
    }

    unsafe extern "C" fn idle(_: *mut c_void, _: *const c_void, _: usize, _: *mut c_void) -> i32 {
        0
    }

    #[test]
    fn values_of_any_length_reach_everybody() {
        let meeting = Meeting {
            records: Mutex::default(),
            barrier: Barrier::new(SIZE),
            calls: Mutex::default(),
        };
        let values: [Vec<u8>; SIZE] = [vec![], vec![1; PART_BYTES], vec![2; 2 * PART_BYTES + 1]];
        thread::scope(|scope| {
            for (rank, mine) in values.iter().enumerate() {
                let (meeting, values) = (&meeting, &values);
                scope.spawn(move || {
                    let mut seat = Seat { meeting, rank };
                    // SAFETY: `meet` wants a seat.
                    let exchange =
                        unsafe { Exchange::new(meet, (&raw mut seat).cast(), rank, SIZE) };
                    assert_eq!(exchange.run(mine).unwrap(), values);
                });
            }
        });
        assert_eq!(*meeting.calls.lock().unwrap(), SIZE * 3);
    }

    #[test]
    fn a_world_comes_from_an_allgather() {
        let meeting = Meeting {
            records: Mutex::default(),
            barrier: Barrier::new(SIZE),
            calls: Mutex::default(),
        };
        let options = WorldOptions { listen: Some("127.0.0.1".into()), ..WorldOptions::default() };
        thread::scope(|scope| {
            for rank in 0..SIZE {
                let (meeting, options) = (&meeting, &options);
                scope.spawn(move || {
                    let mut seat = Seat { meeting, rank };
                    // SAFETY: `meet` wants a seat.
                    let exchange =
                        unsafe { Exchange::new(meet, (&raw mut seat).cast(), rank, SIZE) };
                    let mut run = |mine: &[u8]| exchange.run(mine);
                    let world = World::create_with(&mut run, rank, SIZE, options).unwrap();
                    world.run(&Call::Barrier, &CallOptions::default()).unwrap();
                });
            }
        });
        assert_eq!(*meeting.calls.lock().unwrap(), SIZE, "one record holds what a rank says");
    }

    #[test]
    fn a_function_that_fails_or_does_nothing_is_an_error() {
        for (gather, text) in [(fail as Gather, "returned 5"), (idle, "in their place")] {
            // SAFETY: they touch nothing.
            let exchange = unsafe { Exchange::new(gather, std::ptr::null_mut(), 1, 2) };
            let error = exchange.run(b"value").unwrap_err();
            assert!(matches!(&error, Error::Store(t) if t.contains(text)), "{error}");
        }
    }

    #[test]
    fn garbage_is_refused() {
        let mut record = [0; RECORD_BYTES];
        record[..LENGTH_BYTES].copy_from_slice(&u32::MAX.to_le_bytes());
        assert_eq!(append(&mut Vec::new(), &record), None);
        record[..LENGTH_BYTES].copy_from_slice(&1u32.to_le_bytes());
        assert_eq!(append(&mut vec![0; 2], &record), None);
        assert_eq!(append(&mut vec![0; 1], &record), Some(1));
    }
}
