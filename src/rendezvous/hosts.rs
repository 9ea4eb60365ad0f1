//! Which ranks share a host, computed alike on all ranks from the table.
#![forbid(unsafe_code)]

use std::collections::HashMap;

/// The host of each rank.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hosts {
    /// Of each rank: the index of its host, in the order of the hosts' first ranks.
    host: Vec<usize>,
    /// Of each rank: how many lower ranks share its host.
    local_rank: Vec<usize>,
    /// Of each host: its ranks.
    ranks: Vec<usize>,
}

impl Hosts {
    /// From the identity of each rank's host.
    pub fn new(identities: impl IntoIterator<Item = String>) -> Self {
        let mut known = HashMap::new();
        let mut this = Self { host: Vec::new(), local_rank: Vec::new(), ranks: Vec::new() };
        for identity in identities {
            let count = known.len();
            let host = *known.entry(identity).or_insert(count);
            if host == count {
                this.ranks.push(0);
            }
            this.host.push(host);
            this.local_rank.push(this.ranks[host]);
            this.ranks[host] += 1;
        }
        this
    }

    /// How many hosts there are.
    #[must_use]
    pub fn count(&self) -> usize {
        self.ranks.len()
    }

    /// The index of a rank's host: hosts are numbered in the order of their first ranks.
    ///
    /// # Panics
    ///
    /// If there is no such rank; so do the others.
    #[must_use]
    pub fn host(&self, rank: usize) -> usize {
        self.host[rank]
    }

    /// How many lower ranks share this rank's host.
    #[must_use]
    pub fn local_rank(&self, rank: usize) -> usize {
        self.local_rank[rank]
    }

    /// How many ranks share this rank's host, itself counted.
    #[must_use]
    pub fn local_size(&self, rank: usize) -> usize {
        self.ranks[self.host[rank]]
    }

    /// Whether two ranks share a host.
    #[must_use]
    pub fn share(&self, one: usize, other: usize) -> bool {
        self.host[one] == self.host[other]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_are_counted_within_their_hosts() {
        let hosts = Hosts::new(["b", "a", "b", "a", "b"].map(String::from));
        assert_eq!(hosts.count(), 2);
        assert_eq!([0, 1, 2, 3, 4].map(|rank| hosts.host(rank)), [0, 1, 0, 1, 0]);
        assert_eq!([0, 1, 2, 3, 4].map(|rank| hosts.local_rank(rank)), [0, 0, 1, 1, 2]);
        assert_eq!([0, 1].map(|rank| hosts.local_size(rank)), [3, 2]);
        assert!(hosts.share(0, 4) && !hosts.share(0, 1));
    }
}
