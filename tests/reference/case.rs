//! A call, and what each rank brings to it and gets from it.

use collect::plan::Collective;
use collect::{Algorithm, CallOptions, Datatype, Op};

use super::values::{self, Contributor, mix};

/// Elements repeat after so many, so that a large reference costs as little as a small one. A prime: no block or slice
/// is a multiple of it.
const PERIOD: usize = 257;

/// Bytes in all buffers of all ranks above which blocks are made shorter.
const BYTES_MAX: usize = 32 << 20;

/// Which ranks work in place, where they can.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum InPlace {
    Nobody,
    Everybody,
    /// Ranks with an odd number.
    Some,
}

/// How the blocks of a collective whose name ends in v differ.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Variety {
    /// Whether some are empty, some short and some full; else all are full.
    pub(crate) lengths_differ: bool,
    /// Whether displacements are given: parts then lie apart, in the order of ranks or in the opposite one.
    pub(crate) displaced: bool,
}

/// A call of all ranks.
#[derive(Debug, Clone)]
pub(crate) struct Case {
    pub(crate) collective: Collective,
    pub(crate) datatype: Datatype,
    pub(crate) op: Op,
    /// Elements of a block: of the whole buffer, or of each rank's part.
    pub(crate) count: usize,
    pub(crate) root: usize,
    pub(crate) in_place: InPlace,
    pub(crate) algorithm: Option<Algorithm>,
    pub(crate) degree: u16,
    pub(crate) key: Option<u64>,
    /// Buffers per rank: more than one is an allreduce_multi.
    pub(crate) buffers: usize,
    pub(crate) variety: Variety,
    /// Bytes from an aligned address to where buffers begin.
    pub(crate) shift: usize,
    pub(crate) seed: u64,
}

impl Case {
    /// A call of so many elements in which nothing is special.
    pub(crate) fn plain(collective: Collective, count: usize) -> Self {
        Self {
            collective,
            datatype: Datatype::U64,
            op: Op::Sum,
            count,
            root: 0,
            in_place: InPlace::Nobody,
            algorithm: None,
            degree: 0,
            key: None,
            buffers: 1,
            variety: Variety { lengths_differ: true, displaced: false },
            shift: 0,
            seed: 1,
        }
    }

    pub(crate) fn options(&self, rank: usize) -> CallOptions {
        CallOptions {
            algorithm: self.algorithm,
            degree: self.degree,
            key: self.key,
            factor: if self.op == Op::PremulSum {
                values::factor(self.datatype, rank)
            } else {
                0.0
            },
            ..CallOptions::default()
        }
    }

    /// Whether a rank works in place: only where it has both sides, and they can be one memory.
    pub(crate) fn is_in_place(&self, size: usize, rank: usize) -> bool {
        let chosen = match self.in_place {
            InPlace::Nobody => false,
            InPlace::Everybody => true,
            InPlace::Some => rank % 2 == 1,
        };
        chosen && !self.inputs(size, rank).is_empty() && !self.outputs(size, rank).is_empty()
    }

    /// The blocks that a rank brings.
    pub(crate) fn inputs(&self, size: usize, rank: usize) -> Vec<usize> {
        match self.collective.regular() {
            Collective::Barrier => Vec::new(),
            Collective::Broadcast if rank != self.root => Vec::new(),
            Collective::Scatter if rank != self.root => Vec::new(),
            Collective::Scatter | Collective::ReduceScatter => (0..size).collect(),
            Collective::Allgather | Collective::Gather => vec![rank],
            Collective::Alltoall => (0..size).map(|to| rank * size + to).collect(),
            _ => vec![0],
        }
    }

    /// The blocks that a rank gets.
    pub(crate) fn outputs(&self, size: usize, rank: usize) -> Vec<usize> {
        match self.collective.regular() {
            Collective::Barrier => Vec::new(),
            Collective::Reduce | Collective::Gather if rank != self.root => Vec::new(),
            Collective::Allgather | Collective::Gather => (0..size).collect(),
            Collective::Scatter | Collective::ReduceScatter => vec![rank],
            Collective::Alltoall => (0..size).map(|from| from * size + rank).collect(),
            _ => vec![0],
        }
    }

    /// Elements of a block.
    pub(crate) fn elements(&self, size: usize, block: usize) -> usize {
        let blocks = match self.collective.regular() {
            Collective::Alltoall => size * size,
            Collective::Allgather | Collective::ReduceScatter => size * size,
            _ => size,
        };
        let too_many = blocks * self.count * self.datatype.bytes() > BYTES_MAX;
        let count = if too_many { self.count / size } else { self.count };
        if !self.collective.is_irregular() || !self.variety.lengths_differ {
            return count;
        }
        // In place, an alltoallv gets from each rank as much as it sends there.
        let (from, to) = (block / size, block % size);
        let is_mirrored =
            self.collective == Collective::Alltoallv && self.in_place != InPlace::Nobody;
        let block = if is_mirrored && from > to { to * size + from } else { block };
        let random = mix(self.seed ^ mix(block as u64));
        match random % 4 {
            0 => 0,
            1 => count.min(1),
            2 => (random >> 8) as usize % (count + 1),
            _ => count,
        }
    }

    /// The elements of a block that a rank brings, in one of its buffers.
    pub(crate) fn contribution(
        &self,
        size: usize,
        (rank, buffer): (usize, usize),
        block: usize,
    ) -> Vec<u8> {
        let count = self.elements(size, block);
        repeat(&self.period(size, (rank, buffer), block), count * self.datatype.bytes())
    }

    fn period(&self, size: usize, (rank, buffer): (usize, usize), block: usize) -> Vec<u8> {
        let count = self.elements(size, block).min(PERIOD);
        let seed = mix(self.seed ^ mix(block as u64));
        let who = Contributor { number: rank * self.buffers + buffer, of: size * self.buffers };
        if self.collective.reduces() {
            return values::operand((self.datatype, self.op), who, seed, count);
        }
        values::noise(mix(seed ^ who.number as u64), count * self.datatype.bytes())
    }

    /// The elements of a block that a rank gets.
    pub(crate) fn expected(&self, size: usize, rank: usize, block: usize) -> Vec<u8> {
        let contributors: Vec<usize> = match self.collective.regular() {
            Collective::Broadcast | Collective::Scatter => vec![self.root],
            Collective::Allgather | Collective::Gather => vec![block],
            Collective::Alltoall => vec![block / size],
            Collective::Scan => (0..=rank).collect(),
            Collective::Exscan => (0..rank).collect(),
            _ => (0..size).collect(),
        };
        let all = contributors.iter().flat_map(|rank| (0..self.buffers).map(|i| (*rank, i)));
        let (ranks, operands): (Vec<usize>, Vec<Vec<u8>>) =
            all.map(|who| (who.0, self.period(size, who, block))).unzip();
        let period = if self.collective.reduces() {
            values::fold((self.datatype, self.op), &operands, &ranks)
        } else {
            operands.into_iter().next().unwrap_or_default()
        };
        repeat(&period, self.elements(size, block) * self.datatype.bytes())
    }
}

/// So many bytes, of the same over and over.
fn repeat(period: &[u8], bytes: usize) -> Vec<u8> {
    let mut all = Vec::with_capacity(bytes);
    while all.len() < bytes {
        all.extend_from_slice(&period[..period.len().min(bytes - all.len())]);
    }
    all
}
