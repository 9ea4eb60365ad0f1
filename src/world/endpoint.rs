//! What a root world and all its forks share: a lane, the programs, and where everybody sits.
#![forbid(unsafe_code)]

use std::sync::Arc;

use crate::collective::{Programs, SpareProducts, Table};
use crate::engine::{Completion, Lane, Members, Request};
use crate::error::Error;

/// This process's end of the network.
#[derive(Debug)]
pub(super) struct Endpoint {
    lane: Arc<Lane>,
    programs: Programs,
    spare_products: SpareProducts,
    /// The host of every endpoint: equal numbers are one host.
    hosts: Vec<u32>,
    checksum: bool,
}

/// Where a rank sits among the members of its world.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Seating {
    pub(super) local_rank: usize,
    pub(super) local_size: usize,
    pub(super) host_index: usize,
}

impl Endpoint {
    pub(super) fn new(lane: Arc<Lane>, hosts: Vec<u32>, table: Table, checksum: bool) -> Self {
        let (programs, spare_products) = (Programs::new(table), SpareProducts::default());
        Self { lane, programs, spare_products, hosts, checksum }
    }

    pub(super) fn lane(&self) -> &Arc<Lane> {
        &self.lane
    }

    pub(super) fn programs(&self) -> &Programs {
        &self.programs
    }

    /// Whether payload carries checksums.
    pub(super) fn checksum(&self) -> bool {
        self.checksum
    }

    /// Memory for what operations multiply before they begin.
    pub(super) fn spare_products(&self) -> &SpareProducts {
        &self.spare_products
    }

    /// Waits for the end of what was submitted.
    pub(super) fn await_end(&self, completion: Arc<Completion>) -> Result<(), Error> {
        self.lane.wait(&completion, None);
        let outcome = completion.outcome();
        self.lane.give_back(completion);
        outcome.unwrap_or_else(|| Err(Error::Internal("a wait without an end".into())))
    }

    /// Lets what was submitted begin, and returns its handle.
    pub(super) fn request(&self, completion: Arc<Completion>) -> Result<Request, Error> {
        self.lane.prod();
        Ok(Request::new(Arc::clone(&self.lane), completion))
    }

    /// Where `rank` sits in a world of these members.
    pub(super) fn seating(&self, members: &Members, rank: usize) -> Seating {
        let hosts: Vec<u32> = members
            .peers()
            .iter()
            .map(|peer| self.hosts.get(*peer as usize).copied().unwrap_or(u32::MAX))
            .collect();
        seat(&hosts, rank)
    }
}

impl Drop for Endpoint {
    fn drop(&mut self) {
        self.lane.close();
    }
}

/// Where `rank` sits, given the host of every rank.
pub(super) fn seat(hosts: &[u32], rank: usize) -> Seating {
    let mine = hosts.get(rank).copied();
    let is_mine = |host: &&u32| Some(**host) == mine;
    let mut order = Vec::new();
    for host in hosts {
        if !order.contains(host) {
            order.push(*host);
        }
    }
    Seating {
        local_rank: hosts[..rank.min(hosts.len())].iter().filter(is_mine).count(),
        local_size: hosts.iter().filter(is_mine).count(),
        host_index: order.iter().position(|host| Some(*host) == mine).unwrap_or(0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_are_seated_by_host() {
        let hosts = [7, 3, 7, 3, 9];
        let at = |rank| seat(&hosts, rank);
        assert_eq!(at(2), Seating { local_rank: 1, local_size: 2, host_index: 0 });
        assert_eq!(at(1), Seating { local_rank: 0, local_size: 2, host_index: 1 });
        assert_eq!(at(4), Seating { local_rank: 0, local_size: 1, host_index: 2 });
    }
}
