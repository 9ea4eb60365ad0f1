//! Buffers for the payload of small messages that came early: two sizes, used again and again.
//!
//! The small ones are there from the start, so that no timing makes an endpoint in use allocate: how many messages come
//! early differs from run to run.
#![forbid(unsafe_code)]

/// Bytes of a small buffer.
const SMALL: usize = 1 << 10;

/// Small buffers that are there from the start.
const PREPARED: usize = 256;

/// Buffers of one size that are kept.
const KEPT: usize = 1024;

/// Empty buffers.
#[derive(Debug)]
pub(super) struct Buffers {
    small: Vec<Vec<u8>>,
    large: Vec<Vec<u8>>,
    /// Bytes of a large one.
    large_bytes: usize,
}

impl Buffers {
    /// Large ones take messages of up to `most` bytes.
    pub(super) fn new(most: usize) -> Self {
        let mut small = Vec::with_capacity(KEPT);
        small.extend((0..PREPARED).map(|_| Vec::with_capacity(SMALL)));
        Self { small, large: Vec::with_capacity(KEPT), large_bytes: most.max(SMALL + 1) }
    }

    /// An empty buffer that takes `bytes` bytes without growing.
    pub(super) fn take(&mut self, bytes: usize) -> Vec<u8> {
        let (kept, size) = if bytes <= SMALL {
            (&mut self.small, SMALL)
        } else {
            (&mut self.large, self.large_bytes.max(bytes))
        };
        let mut buffer = kept.pop().unwrap_or_else(|| Vec::with_capacity(size));
        buffer.reserve(bytes);
        buffer
    }

    /// Keeps a buffer for another time.
    pub(super) fn give_back(&mut self, mut buffer: Vec<u8>) {
        buffer.clear();
        let kept = match buffer.capacity() {
            large if large >= self.large_bytes => &mut self.large,
            small if small >= SMALL => &mut self.small,
            _ => return,
        };
        if kept.len() < KEPT {
            kept.push(buffer);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_buffer_comes_back_to_messages_of_its_size() {
        let mut buffers = Buffers::new(4000);
        let (small, large) = (buffers.take(4), buffers.take(1025));
        assert_eq!((small.capacity(), large.capacity()), (SMALL, 4000));
        let start = large.as_ptr();
        buffers.give_back(large);
        buffers.give_back(small);
        buffers.give_back(Vec::new());
        let again = buffers.take(3000);
        assert_eq!(again.as_ptr(), start);
        assert_eq!(buffers.take(0).capacity(), SMALL);
        assert_eq!(buffers.small.len(), PREPARED - 1);
    }
}
