//! One direction of a connection as a proxy sees it: a handshake, perhaps one byte that says which connection is the link,
//! then frames. The one bit that is to flip is found here.

use collect::link::frame::{Class, HEADER_BYTES, Header, Kind};
use collect::link::handshake::BYTES_MAX;
use collect::link::phase::Phase;

/// What is to flip.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Target {
    /// Where; `None`: anywhere.
    pub(crate) phase: Option<Phase>,
    /// In a payload, else in a header or a handshake.
    pub(crate) in_payload: bool,
    /// Chooses the bit.
    pub(crate) bit: usize,
}

/// What comes next.
#[derive(Debug)]
enum Stage {
    /// So many bytes have come.
    Handshake(usize),
    Verdict,
    /// As far as it has come.
    Header(Vec<u8>),
    /// Bytes that are yet to come, and the bit of them that flips.
    Payload(usize, Option<usize>),
}

/// One direction.
#[derive(Debug)]
pub(crate) struct Wire {
    stage: Stage,
    /// Whether the lower rank sends here, and so says which connection is the link.
    decides: bool,
}

impl Wire {
    pub(crate) fn new(decides: bool) -> Self {
        Self { stage: Stage::Handshake(0), decides }
    }

    /// Takes what comes in, and returns what goes out. `is_due` is asked of each place where a bit might flip, whether it
    /// does.
    pub(crate) fn pass(
        &mut self,
        mut input: &[u8],
        target: Target,
        is_due: &mut dyn FnMut() -> bool,
    ) -> Vec<u8> {
        let mut output = Vec::with_capacity(input.len() + HEADER_BYTES);
        while !input.is_empty() {
            let wanted = self.wanted().min(input.len());
            let (now, later) = input.split_at(wanted);
            input = later;
            self.take(now, target, is_due, &mut output);
        }
        output
    }

    fn wanted(&self) -> usize {
        match &self.stage {
            Stage::Handshake(come) => BYTES_MAX - come,
            Stage::Verdict => 1,
            Stage::Header(come) => HEADER_BYTES - come.len(),
            Stage::Payload(left, _) => *left,
        }
    }

    fn take(
        &mut self,
        input: &[u8],
        target: Target,
        is_due: &mut dyn FnMut() -> bool,
        output: &mut Vec<u8>,
    ) {
        let begin = output.len();
        match &mut self.stage {
            Stage::Handshake(come) => {
                output.extend_from_slice(input);
                let fits = !target.in_payload && matches!(target.phase, Some(Phase::Handshake));
                if fits && *come == 0 && is_due() {
                    flip(&mut output[begin..], target.bit);
                }
                *come += input.len();
                if *come == BYTES_MAX {
                    self.stage =
                        if self.decides { Stage::Verdict } else { Stage::Header(Vec::new()) };
                }
            }
            Stage::Verdict => {
                output.extend_from_slice(input);
                self.stage = Stage::Header(Vec::new());
            }
            Stage::Header(come) => {
                come.extend_from_slice(input);
                if let Ok(bytes) = <[u8; HEADER_BYTES]>::try_from(&come[..]) {
                    self.stage = Self::header(bytes, target, is_due, output);
                }
            }
            Stage::Payload(left, bit) => {
                output.extend_from_slice(input);
                let bits = input.len() * 8;
                match bit {
                    Some(at) if *at < bits => {
                        flip(&mut output[begin..], *at);
                        *bit = None;
                    }
                    Some(at) => *at -= bits,
                    None => {}
                }
                *left -= input.len();
                if *left == 0 {
                    self.stage = Stage::Header(Vec::new());
                }
            }
        }
    }

    /// A header is whole.
    fn header(
        mut bytes: [u8; HEADER_BYTES],
        target: Target,
        is_due: &mut dyn FnMut() -> bool,
        output: &mut Vec<u8>,
    ) -> Stage {
        let header = Header::decode(&bytes).expect("ranks send frames");
        let length = header.length as usize;
        let fits = target.phase.is_none_or(|phase| belongs_to(&header, phase));
        let fits = fits && (!target.in_payload || has_data(&header));
        let flips = fits && is_due();
        if flips && !target.in_payload {
            flip(&mut bytes, target.bit);
        }
        output.extend_from_slice(&bytes);
        let bit = (flips && target.in_payload).then(|| target.bit % (length * 8));
        if length > 0 { Stage::Payload(length, bit) } else { Stage::Header(Vec::new()) }
    }
}

fn flip(bytes: &mut [u8], bit: usize) {
    let bit = bit % (bytes.len() * 8);
    bytes[bit / 8] ^= 1 << (bit % 8);
}

/// Whether the payload of a frame is an operation's.
fn has_data(header: &Header) -> bool {
    header.length > 0 && matches!(header.kind, Kind::Data | Kind::Eager)
}

/// Whether a frame is what the engine is about in this phase.
fn belongs_to(header: &Header, phase: Phase) -> bool {
    match phase {
        Phase::Handshake => false,
        Phase::Parked => header.kind == Kind::Eager,
        Phase::Granted => header.kind == Kind::Grant,
        Phase::MidFrame => header.kind == Kind::Data,
        Phase::Reducing => has_data(header) && header.fingerprint.op != 0,
        Phase::Fork => header.class == Class::Fork,
        Phase::Destroy => matches!(header.kind, Kind::Goodbye | Kind::Farewell),
    }
}
