//! Forks: new worlds from an old one.
//!
//! A fork is an operation of its own class on the parent: a barrier among the new world's members, whose fingerprint
//! covers the list of members and the options. Everyone registers the new world before the first message of that
//! barrier, so when it is complete every member knows the world, and an unknown world is always a dead one. Its number,
//! and the new world's id, follow from the parent, the members, the key, and how many forks these have made with it: no
//! message carries them. A fork that fails never fails its parent.
#![forbid(unsafe_code)]

use std::collections::HashMap;
use std::sync::Arc;

use super::options::nanoseconds;
use super::{ForkOptions, World};
use crate::collective::{Agreement, hash};
use crate::engine::{Health, Members, Registration};
use crate::error::Error;

/// How many forks each list of members has made, those of each key apart.
#[derive(Debug, Default)]
pub(super) struct Forks {
    made: HashMap<(Vec<u32>, Option<u64>), u64>,
    total: u64,
}

impl World {
    /// Makes a new world of all members, or of those that the options name; each of them calls this. Needs no store,
    /// no socket and no thread. Forks of the same members match by their keys, those without one in the order of the
    /// calls; operations of the parent may go on meanwhile. The new world outlives its parent.
    ///
    /// # Errors
    ///
    /// [`Error::InvalidArgument`] if the list names a rank twice, one that is not there, or not this rank. Others: the
    /// members disagree, did not come in time, or are gone; the parent stays whole unless it has failed by itself.
    pub fn fork(&self, options: &ForkOptions) -> Result<World, Error> {
        let parent = &*self.inner;
        let endpoint = Arc::clone(parent.endpoint()?);
        if let Some(error) = parent.health.failure() {
            return Err(error);
        }
        let (ranks, rank) = self.fork_ranks(options)?;
        let peers: Vec<u32> = ranks
            .iter()
            .map(|rank| u32::try_from(parent.members.peer(*rank)).unwrap_or(u32::MAX))
            .collect();
        let members = Arc::new(Members::new(peers));
        let (made, total) = {
            let mut forks = parent.forks.lock();
            forks.total += 1;
            let total = forks.total;
            let made = forks.made.entry((ranks.clone(), options.key)).or_default();
            *made += 1;
            (*made, total)
        };
        let mut numbers = vec![parent.id, made];
        if let Some(key) = options.key {
            // The first is no rank, so that a key is never taken for members.
            numbers.extend([u64::MAX, key]);
        }
        numbers.extend(ranks.iter().map(|rank| u64::from(*rank)));
        let number = hash(&numbers);
        let id = hash(&[number, 1]);
        let name = match (&*options.name, options.key) {
            ("", None) => format!("{}.{total}", parent.health.name()),
            ("", Some(key)) => format!("{}.key{key}", parent.health.name()),
            (name, _) => name.to_owned(),
        };
        let timeout_ns = nanoseconds(options.timeout, parent.timeout_ns);
        let health = Arc::new(Health::new(name));
        let small_rank = u32::try_from(rank).unwrap_or(u32::MAX);
        endpoint.lane().register(Registration {
            id,
            health: Arc::clone(&health),
            rank: small_rank,
            members: Arc::clone(&members),
            checksum: endpoint.checksum(),
        });
        let agreed = self.agree_on_fork(number, &members, rank, options, timeout_ns);
        if let Err(error) = agreed {
            // Who is through waits in the new world: it is told why the others will not come. A mere goodbye would blame
            // this rank.
            endpoint.lane().fail(id, error.in_fork(&ranks));
            return Err(error);
        }
        Ok(World::on(endpoint, id, rank, members, health, timeout_ns))
    }

    /// The parent's ranks that become members, and this rank's place among them.
    fn fork_ranks(&self, options: &ForkOptions) -> Result<(Vec<u32>, usize), Error> {
        let size = self.size();
        let ranks = options.members.clone().unwrap_or_else(|| (0..size).collect());
        let invalid = |text: String| {
            Err(Error::InvalidArgument(format!("fork of world {:?}: {text}", self.name())))
        };
        let mut seen = vec![false; size];
        for rank in &ranks {
            match seen.get_mut(*rank) {
                None => return invalid(format!("there is no rank {rank}, the size is {size}")),
                Some(true) => return invalid(format!("rank {rank} is named twice")),
                Some(seen) => *seen = true,
            }
        }
        let Some(mine) = ranks.iter().position(|rank| *rank == self.rank()) else {
            return invalid(format!("this rank, {}, is not among the members", self.rank()));
        };
        Ok((ranks.iter().map(|rank| u32::try_from(*rank).unwrap_or(u32::MAX)).collect(), mine))
    }

    /// Hears, directly or through others, from every member that it forks with the same options.
    fn agree_on_fork(
        &self,
        number: u64,
        members: &Arc<Members>,
        rank: usize,
        options: &ForkOptions,
        timeout_ns: Option<u64>,
    ) -> Result<(), Error> {
        let parent = &*self.inner;
        let endpoint = parent.endpoint()?;
        let programs = endpoint.programs();
        let agreement = Agreement::new(members, rank, &options.name, programs)?;
        let lane = endpoint.lane();
        let completion = lane.submit(|spare| agreement.fill(spare, parent.id, number, timeout_ns));
        endpoint.await_end(completion)
    }
}
