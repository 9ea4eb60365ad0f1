//! Frames as text: follows the bytes that one end writes, and prints each header when it is complete.
#![forbid(unsafe_code)]

use crate::link::frame::{HEADER_BYTES, Header};

/// Where in a stream of frames the next byte falls.
#[derive(Debug, Default)]
pub(super) struct Tracer {
    header: Vec<u8>,
    /// Bytes of payload that are still to come.
    payload: usize,
}

impl Tracer {
    /// Looks at what has been written.
    pub(super) fn follow(&mut self, mut bytes: &[u8], now: u64, from: usize, to: usize) {
        while !bytes.is_empty() {
            if self.payload > 0 {
                let skipped = self.payload.min(bytes.len());
                self.payload -= skipped;
                bytes = &bytes[skipped..];
                continue;
            }
            let taken = (HEADER_BYTES - self.header.len()).min(bytes.len());
            self.header.extend_from_slice(&bytes[..taken]);
            bytes = &bytes[taken..];
            if let Ok(whole) = <&[u8; HEADER_BYTES]>::try_from(self.header.as_slice()) {
                match Header::decode(whole) {
                    Ok(header) => {
                        self.payload = header.length as usize;
                        println!("{now:>12} {from} -> {to}: {}", describe(&header));
                    }
                    Err(bad) => println!("{now:>12} {from} -> {to}: {bad}"),
                }
                self.header.clear();
            }
        }
    }
}

fn describe(header: &Header) -> String {
    format!(
        "{:?} world {:x} {:?} {} slice {} ordinal {} bytes {}+{} of {} credits {}",
        header.kind,
        header.world,
        header.class,
        header.operation,
        header.slice,
        header.ordinal,
        header.offset,
        header.length,
        header.message,
        header.credits
    )
}
