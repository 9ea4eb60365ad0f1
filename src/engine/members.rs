//! Which endpoints the ranks of a group are.
#![forbid(unsafe_code)]

/// The members of a world, or of a fork that is being agreed on: ranks count from 0, peers are ranks of the root world.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Members {
    peers: Vec<u32>,
    /// (peer, rank), sorted by peer.
    ranks: Vec<(u32, u32)>,
}

impl Members {
    /// Rank i is `peers[i]`.
    #[must_use]
    pub fn new(peers: Vec<u32>) -> Self {
        let mut ranks: Vec<_> = peers.iter().copied().zip(0u32..).collect();
        ranks.sort_unstable();
        Self { peers, ranks }
    }

    /// Ranks.
    #[must_use]
    pub fn size(&self) -> usize {
        self.peers.len()
    }

    /// The endpoint of a rank of this group.
    #[must_use]
    pub fn peer(&self, rank: u32) -> usize {
        self.peers[rank as usize] as usize
    }

    /// The rank of an endpoint, if it is a member.
    #[must_use]
    pub fn rank(&self, peer: usize) -> Option<u32> {
        let peer = u32::try_from(peer).ok()?;
        let found = self.ranks.binary_search_by_key(&peer, |(peer, _)| *peer).ok()?;
        Some(self.ranks[found].1)
    }

    /// Every endpoint, by rank.
    #[must_use]
    pub fn peers(&self) -> &[u32] {
        &self.peers
    }
}
