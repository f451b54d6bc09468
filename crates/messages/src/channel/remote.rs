//! Remote memory access on a channel: the requests of an initiator, and their layout.
//!
//! A request names ranges of memory that the target has registered; the target validates them against its own
//! registrations and moves the bytes itself while it makes progress. Its record holds, behind the header, the code of
//! an atomic operation, the ranges, the initiator's buffers (of a long write, or of a read), and the bytes of a short
//! write or the operands of an atomic operation.

use super::receiving::{Body, Remote, parts_of};
use crate::parts::MOST;

/// The most ranges of one request.
pub const MOST_RANGES: usize = 4;
/// The longest operands of an atomic operation, in bytes; source and comparison each.
pub const LONGEST_OPERANDS: usize = super::WHOLE / 2;

/// A range of memory that the target has registered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Range {
    /// The first byte, as the registration counts: a virtual address, or an offset.
    pub address: u64,
    /// The length in bytes.
    pub length: u64,
    /// The key of the registration.
    pub key: u64,
}

/// Up to [`MOST_RANGES`] ranges.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ranges {
    count: usize,
    ranges: [Range; MOST_RANGES],
}

impl Ranges {
    /// The ranges; `None` if there are too many, or their lengths overflow.
    pub fn new(ranges: &[Range]) -> Option<Self> {
        ranges.iter().try_fold(0_u64, |sum, it| sum.checked_add(it.length))?;
        let mut all = [Range::default(); MOST_RANGES];
        all.get_mut(..ranges.len())?.copy_from_slice(ranges);
        Some(Self { count: ranges.len(), ranges: all })
    }

    /// The ranges as a slice.
    pub fn as_slice(&self) -> &[Range] {
        &self.ranges[..self.count]
    }

    /// The sum of the lengths, in bytes.
    pub fn length(&self) -> u64 {
        self.as_slice().iter().map(|it| it.length).sum()
    }
}

/// What an atomic operation returns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Returns {
    /// Nothing.
    Nothing,
    /// The values before the operation.
    Before,
    /// The values before the operation; a second operand is compared with them.
    BeforeCompared,
}

/// An atomic operation, by the numbers of libfabric's headers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AtomicCode {
    /// `enum fi_op`.
    pub operation: u8,
    /// `enum fi_datatype`.
    pub datatype: u8,
    /// What it returns.
    pub returns: Returns,
}

/// What a request asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// To write the initiator's bytes.
    Write,
    /// To read into the initiator's buffers.
    Read,
    /// To carry out an atomic operation.
    Atomic(AtomicCode),
}

impl Operation {
    /// Whether bytes come back to the initiator.
    pub const fn returns_bytes(self) -> bool {
        match self {
            Self::Write => false,
            Self::Read => true,
            Self::Atomic(code) => !matches!(code.returns, Returns::Nothing),
        }
    }
}

/// A request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// What to do.
    pub operation: Operation,
    /// Where, in the target's registered memory.
    pub ranges: Ranges,
    /// The completion data for the target's program.
    pub data: Option<u64>,
}

/// A request as it arrives.
#[derive(Debug)]
pub struct Requested {
    /// The initiator's number for it.
    pub number: u32,
    /// The request.
    pub request: Request,
    /// The bytes or operands, or where the initiator's buffers are.
    pub body: Body,
}

/// The words behind the header: the code, the ranges, the buffers.
const MOST_WORDS: usize = 1 + 3 * MOST_RANGES + 2 * MOST;

/// The words of a request behind its header.
pub(super) struct Words {
    words: [u64; MOST_WORDS],
    count: usize,
}

impl Words {
    pub fn as_slice(&self) -> &[u64] {
        &self.words[..self.count]
    }
}

const WRITE: u64 = 0;
const READ: u64 = 1;
const ATOMIC: u64 = 2;

/// Encodes the words of a request, with the initiator's buffers if the target needs them.
pub(super) fn encode(request: &Request, places: &[libc::iovec]) -> Words {
    let code = match request.operation {
        Operation::Write => WRITE,
        Operation::Read => READ,
        Operation::Atomic(AtomicCode { operation, datatype, returns }) => {
            ATOMIC | u64::from(operation) << 8 | u64::from(datatype) << 16 | (returns as u64) << 24
        }
    };
    let ranges = request.ranges.as_slice();
    let counts = (ranges.len() as u64) << 32 | (places.len().min(MOST) as u64) << 40;
    let ranges = ranges.iter().flat_map(|it| [it.address, it.length, it.key]);
    let places = places.iter().flat_map(|it| [it.iov_base.addr() as u64, it.iov_len as u64]);
    let mut all = Words { words: [0; MOST_WORDS], count: 0 };
    for (to, from) in
        all.words.iter_mut().zip(std::iter::once(code | counts).chain(ranges).chain(places))
    {
        *to = from;
        all.count += 1;
    }
    all
}

/// Parses the bytes of a request's record behind the header; `None` if no correct initiator writes them.
pub(super) fn decode(
    number: u32,
    data: Option<u64>,
    bytes: *const u8,
    length: usize,
) -> Option<Requested> {
    let mut words = [0_u64; MOST_WORDS];
    let copied = length.min(size_of_val(&words));
    // SAFETY: the bytes lie in the ring; they are copied once, and only the copy is validated and used.
    unsafe { std::ptr::copy_nonoverlapping(bytes, words.as_mut_ptr().cast(), copied) };
    let code = words[0];
    let (ranges, places) = ((code >> 32 & 0xff) as usize, (code >> 40 & 0xff) as usize);
    if ranges > MOST_RANGES || places > MOST {
        return None;
    }
    let used = size_of::<u64>() * (1 + 3 * ranges + 2 * places);
    let rest = length.checked_sub(used)?;
    let (range_words, place_words) = words[1..].split_at(3 * ranges);
    let all = range_words.as_chunks::<3>().0.iter();
    let all: Vec<Range> =
        all.map(|&[address, length, key]| Range { address, length, key }).collect();
    let operation = match code & 0xff {
        WRITE => Operation::Write,
        READ => Operation::Read,
        ATOMIC => Operation::Atomic(AtomicCode {
            operation: (code >> 8) as u8,
            datatype: (code >> 16) as u8,
            returns: match code >> 24 & 0xff {
                0 => Returns::Nothing,
                1 => Returns::Before,
                2 => Returns::BeforeCompared,
                _ => return None,
            },
        }),
        _ => return None,
    };
    let body = if places > 0 {
        if rest != 0 {
            return None;
        }
        let parts = parts_of(&place_words[..2 * places])?;
        Body::There(Remote::new(number, parts))
    } else {
        Body::Here(bytes.wrapping_add(used), rest)
    };
    let request = Request { operation, ranges: Ranges::new(&all)?, data };
    Some(Requested { number, request, body })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(words: &Words, payload: &[u8]) -> Vec<u8> {
        let words = words.as_slice().iter().flat_map(|it| it.to_ne_bytes());
        words.chain(payload.iter().copied()).collect()
    }

    #[test]
    fn a_request_survives_its_words() {
        let ranges =
            [Range { address: 8, length: 5, key: 77 }, Range { address: 9, length: 3, key: 2 }];
        let code = AtomicCode { operation: 3, datatype: 7, returns: Returns::BeforeCompared };
        for operation in [Operation::Write, Operation::Read, Operation::Atomic(code)] {
            let request =
                Request { operation, ranges: Ranges::new(&ranges).unwrap(), data: Some(4) };
            let all = bytes(&encode(&request, &[]), b"payload");
            let found = decode(9, Some(4), all.as_ptr(), all.len()).unwrap();
            assert_eq!((found.number, found.request), (9, request));
            let Body::Here(at, length) = found.body else { panic!("the bytes are in the record") };
            assert_eq!(length, 7);
            assert_eq!(at, all[all.len() - 7..].as_ptr());
        }
    }

    #[test]
    fn requests_that_do_not_fit_their_record_are_refused() {
        let mut place = [0_u8; 4];
        let places = [libc::iovec { iov_base: place.as_mut_ptr().cast(), iov_len: 4 }];
        let request = Request { operation: Operation::Read, ranges: Ranges::default(), data: None };
        let all = bytes(&encode(&request, &places), b"");
        assert!(decode(0, None, all.as_ptr(), all.len()).is_some());
        for length in 0..all.len() {
            assert!(decode(0, None, all.as_ptr(), length).is_none(), "{length} bytes");
        }
        for (at, value) in [(0, 3), (4, 5), (5, 5)] {
            let mut wrong = all.clone();
            wrong[at] = value;
            assert!(decode(0, None, wrong.as_ptr(), wrong.len()).is_none(), "byte {at}");
        }
        assert!(Ranges::new(&[Range::default(); MOST_RANGES + 1]).is_none());
        let most = Range { length: u64::MAX, ..Range::default() };
        assert!(Ranges::new(&[most, most]).is_none());
    }
}
