//! Which algorithm serves a collective: a pure function of facts that all ranks agree on.
//!
//! Never of pointer kind, alignment, in place, load or this process's environment: ranks would choose differently, and
//! their messages would not meet.

use super::{Algorithm, Collective};

/// Up to this many bytes two ranks exchange whole inputs: half the rounds of a ring and no more bytes sent. Above it
/// the ring wins, as each rank reduces only half the elements and needs no scratch.
const DIRECT_PAIR_BYTES: usize = 64 << 10;

/// Up to this many ranks a rank sends to all others at once where messages are small: one round in place of log2 p.
const DIRECT_SIZE: u32 = 4;

/// Up to this many bytes it does: p-1 copies of the message leave one process, so payload must weigh less than the
/// fixed cost of a frame (some µs, or 4 KiB at a GB/s).
const DIRECT_BYTES: usize = 4 << 10;

/// Up to this many bytes small worlds double: log2 p rounds against 2(p-1), for log2 p against 2(p-1)/p times the bytes.
/// With α a round's latency and β a byte's time they cost the same at α/β · (2(p-1) - log2 p) / (log2 p - 2(p-1)/p)
/// bytes, which is 8 α/β for 4 or 8 ranks; α/β is at least 2 KiB on every transport.
const DOUBLING_BYTES: usize = 16 << 10;

/// Ranks for which [`DOUBLING_BYTES`] holds; the cross-over grows in proportion to the size beyond (30 α/β for 64 ranks).
const DOUBLING_SIZE: u32 = 8;

/// Up to this many bytes in all an allgather takes log2 p rounds; above, p-1 rounds of contiguous blocks pipeline better.
const CIRCULANT_BYTES: usize = 64 << 10;

/// Above this a ring always: its blocks are then large enough for any number of ranks that doubling would serve.
const DOUBLING_BYTES_MAX: usize = 1 << 20;

/// The algorithm for `bytes` bytes per buffer.
///
/// `_buffers`, the buffers per rank, is one of the agreed facts, but changes nothing today: they are folded into one
/// before the first byte is sent.
#[must_use]
pub fn choose(collective: Collective, size: u32, bytes: usize, _buffers: u16) -> Algorithm {
    match collective {
        Collective::Broadcast => Algorithm::Binomial,
        Collective::Barrier => Algorithm::Dissemination,
        Collective::Reduce => Algorithm::Binomial,
        Collective::Allgather if bytes <= CIRCULANT_BYTES => Algorithm::Circulant,
        Collective::Allgather => Algorithm::Ring,
        Collective::Allreduce if size == 2 && bytes <= DIRECT_PAIR_BYTES => Algorithm::Direct,
        Collective::Allreduce if size == 2 => Algorithm::Ring,
        Collective::Allreduce if size <= DIRECT_SIZE && bytes <= DIRECT_BYTES => Algorithm::Direct,
        Collective::Allreduce if bytes <= doubling_bytes(size) => Algorithm::Doubling,
        Collective::Allreduce => Algorithm::Ring,
    }
}

/// The largest message for which doubling is chosen.
fn doubling_bytes(size: u32) -> usize {
    let times = (size / DOUBLING_SIZE).max(1) as usize;
    DOUBLING_BYTES.saturating_mul(times).min(DOUBLING_BYTES_MAX)
}

/// The algorithms that serve a collective, the most general one first.
#[must_use]
pub fn algorithms(collective: Collective) -> &'static [Algorithm] {
    match collective {
        Collective::Allreduce => {
            &[Algorithm::Ring, Algorithm::Direct, Algorithm::Doubling, Algorithm::Circulant]
        }
        Collective::Broadcast => &[Algorithm::Binomial],
        Collective::Barrier => &[Algorithm::Dissemination],
        Collective::Reduce => &[Algorithm::Binomial],
        Collective::Allgather => &[Algorithm::Ring, Algorithm::Circulant],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_chosen_serves_the_collective() {
        for collective in Collective::ALL {
            for size in [1, 2, 3, 4, 5, 8, 9, 64, 1 << 20, u32::MAX] {
                for bytes in [0, 1, 4 << 10, 16 << 10, 64 << 10, 1 << 30, usize::MAX] {
                    let chosen = choose(collective, size, bytes, 1);
                    assert!(algorithms(collective).contains(&chosen), "{collective} {chosen}");
                    assert_eq!(chosen, choose(collective, size, bytes, 7));
                }
            }
        }
    }

    #[test]
    fn small_allreduces_take_few_rounds_and_large_ones_few_bytes() {
        let chosen = |size, bytes| choose(Collective::Allreduce, size, bytes, 1);
        assert_eq!(chosen(2, 64 << 10), Algorithm::Direct);
        assert_eq!(chosen(2, (64 << 10) + 1), Algorithm::Ring);
        assert_eq!(chosen(4, 4 << 10), Algorithm::Direct);
        assert_eq!(chosen(4, 16 << 10), Algorithm::Doubling);
        assert_eq!(chosen(5, 8), Algorithm::Doubling);
        assert_eq!(chosen(8, (16 << 10) + 1), Algorithm::Ring);
        assert_eq!(chosen(64, 128 << 10), Algorithm::Doubling);
        assert_eq!(chosen(1 << 20, 2 << 20), Algorithm::Ring);
    }
}
