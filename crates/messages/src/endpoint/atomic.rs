//! Atomic operations on registered memory: those of `fi_atomic(3)` on integers of 1 to 8 bytes, `float` and `double`.
//!
//! Each element is changed by one compare-and-swap of the processor, so that it is atomic towards programs that use
//! the processor's own atomics on the same memory, too.

use std::sync::atomic::{AtomicU8, AtomicU16, AtomicU32, AtomicU64, Ordering};

use crate::channel::{AtomicCode, Returns};
use crate::parts::Parts;
use crate::sys::Errno;

// `enum fi_op`.
const MIN: u8 = 0;
const MAX: u8 = 1;
const SUM: u8 = 2;
const PROD: u8 = 3;
const LOR: u8 = 4;
const LAND: u8 = 5;
const BOR: u8 = 6;
const BAND: u8 = 7;
const LXOR: u8 = 8;
const BXOR: u8 = 9;
const ATOMIC_READ: u8 = 10;
const ATOMIC_WRITE: u8 = 11;
const CSWAP: u8 = 12;
const CSWAP_GT: u8 = 17;
const MSWAP: u8 = 18;

// `enum fi_datatype`.
const FLOAT: u8 = 8;
const DOUBLE: u8 = 9;

/// The bytes of a datatype that is offered.
pub const fn size_of_datatype(datatype: u8) -> Option<usize> {
    match datatype {
        0 | 1 => Some(1),
        2 | 3 => Some(2),
        4 | 5 | FLOAT => Some(4),
        6 | 7 | DOUBLE => Some(8),
        _ => None,
    }
}

/// Whether an operation is offered.
pub const fn is_offered(code: AtomicCode) -> bool {
    let AtomicCode { operation, datatype, returns } = code;
    if size_of_datatype(datatype).is_none() {
        return false;
    }
    let is_float = datatype == FLOAT || datatype == DOUBLE;
    match returns {
        Returns::BeforeCompared => {
            CSWAP <= operation && operation <= MSWAP && !(is_float && operation == MSWAP)
        }
        Returns::Nothing if operation == ATOMIC_READ => false,
        _ => match operation {
            BOR | BAND | BXOR => !is_float,
            _ => operation <= ATOMIC_WRITE,
        },
    }
}

/// Changes the elements in `memory` and returns what they were before.
///
/// # Errors
///
/// `EOPNOTSUPP` if the operation is not offered; `EINVAL` if the operands have other lengths than the memory, or an
/// element is not aligned to its size.
///
/// # Safety
///
/// The memory must be readable and writable.
pub unsafe fn apply(code: AtomicCode, memory: &Parts, operands: &[u8]) -> Result<Vec<u8>, Errno> {
    if !is_offered(code) {
        return Err(libc::EOPNOTSUPP);
    }
    let size = size_of_datatype(code.datatype).ok_or(libc::EOPNOTSUPP)?;
    let length = memory.length();
    let expected = match (code.operation, code.returns) {
        (_, Returns::BeforeCompared) => 2 * length,
        (ATOMIC_READ, _) => operands.len(),
        _ => length,
    };
    let is_aligned = |place: &libc::iovec| {
        place.iov_base.addr().is_multiple_of(size) && place.iov_len.is_multiple_of(size)
    };
    if operands.len() != expected || !memory.places().all(is_aligned) {
        return Err(libc::EINVAL);
    }
    let mut before = Vec::with_capacity(length);
    for place in memory.places() {
        for index in 0..place.iov_len / size {
            let at = before.len();
            let operand = |from: usize| {
                let mut word = [0; 8];
                if let Some(bytes) = operands.get(from + at..from + at + size) {
                    word[..size].copy_from_slice(bytes);
                }
                u64::from_le_bytes(word)
            };
            let (operand, compare) = (operand(0), operand(length));
            let change = |old: u64| changed(code, old, operand, compare);
            // SAFETY: the caller's promise; the element is aligned.
            let old =
                unsafe { update(place.iov_base.cast::<u8>().add(index * size), size, change) };
            before.extend_from_slice(&old.to_le_bytes()[..size]);
        }
    }
    Ok(before)
}

/// Changes one element of `size` bytes, and returns its previous value.
///
/// # Safety
///
/// The element must be aligned, readable and writable.
unsafe fn update(at: *mut u8, size: usize, change: impl Fn(u64) -> Option<u64>) -> u64 {
    const ORDER: Ordering = Ordering::AcqRel;
    macro_rules! word {
        ($atomic:ty, $int:ty) => {{
            // SAFETY: the caller's promise.
            let word = unsafe { &*at.cast::<$atomic>() };
            let change = |old: $int| change(old.into()).map(|new| new as $int);
            match word.fetch_update(ORDER, Ordering::Acquire, change) {
                Ok(old) | Err(old) => old.into(),
            }
        }};
    }
    match size {
        1 => word!(AtomicU8, u8),
        2 => word!(AtomicU16, u16),
        4 => word!(AtomicU32, u32),
        _ => word!(AtomicU64, u64),
    }
}

/// The new value of an element; `None` if it stays.
fn changed(code: AtomicCode, old: u64, operand: u64, compare: u64) -> Option<u64> {
    let AtomicCode { operation, datatype, .. } = code;
    macro_rules! integer {
        ($signed:ty) => {{
            let (a, b, c) = (old as $signed, operand as $signed, compare as $signed);
            let new: Option<$signed> = match operation {
                MIN => Some(a.min(b)),
                MAX => Some(a.max(b)),
                SUM => Some(a.wrapping_add(b)),
                PROD => Some(a.wrapping_mul(b)),
                BOR => Some(a | b),
                BAND => Some(a & b),
                BXOR => Some(a ^ b),
                MSWAP => Some(b & c | a & !c),
                LOR => Some((a != 0 || b != 0).into()),
                LAND => Some((a != 0 && b != 0).into()),
                LXOR => Some(((a != 0) != (b != 0)).into()),
                _ => exchanged(operation, &a, b, &c),
            };
            new.map(|new| new as u64)
        }};
    }
    macro_rules! float {
        ($float:ty, $bits:ty) => {{
            let of = |word: u64| <$float>::from_bits(word as $bits);
            let (a, b, c) = (of(old), of(operand), of(compare));
            let truth = |is: bool| Some(if is { 1.0 } else { 0.0 });
            let new: Option<$float> = match operation {
                MIN => Some(a.min(b)),
                MAX => Some(a.max(b)),
                SUM => Some(a + b),
                PROD => Some(a * b),
                LOR => truth(a != 0.0 || b != 0.0),
                LAND => truth(a != 0.0 && b != 0.0),
                LXOR => truth((a != 0.0) != (b != 0.0)),
                _ => exchanged(operation, &a, b, &c),
            };
            new.map(|new| new.to_bits().into())
        }};
    }
    match datatype {
        0 => integer!(i8),
        1 => integer!(u8),
        2 => integer!(i16),
        3 => integer!(u16),
        4 => integer!(i32),
        5 => integer!(u32),
        6 => integer!(i64),
        7 => integer!(u64),
        FLOAT => float!(f32, u32),
        _ => float!(f64, u64),
    }
}

/// Reads, writes and exchanges. The condition of an exchange compares the comparison with the old value, in this
/// order, as the manual page says.
fn exchanged<T: PartialOrd>(operation: u8, old: &T, operand: T, compare: &T) -> Option<T> {
    let swaps = match operation {
        ATOMIC_READ => false,
        ATOMIC_WRITE => true,
        CSWAP => compare == old,
        13 => compare != old,
        14 => compare <= old,
        15 => compare < old,
        16 => compare >= old,
        CSWAP_GT => compare > old,
        _ => false,
    };
    swaps.then_some(operand)
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn code(operation: u8, datatype: u8, returns: Returns) -> AtomicCode {
        AtomicCode { operation, datatype, returns }
    }

    fn run(code: AtomicCode, memory: &mut [u64], operands: &[u8]) -> Result<Vec<u8>, Errno> {
        let parts = Parts::one(memory.as_mut_ptr().cast(), size_of_val(memory));
        // SAFETY: the memory is there.
        unsafe { apply(code, &parts, operands) }
    }

    fn one(operation: u8, datatype: u8, old: u64, operand: u64, compare: u64) -> u64 {
        changed(code(operation, datatype, Returns::BeforeCompared), old, operand, compare)
            .unwrap_or(old)
    }

    #[test]
    fn integers_are_changed_by_their_sign_and_size() {
        assert_eq!(one(MIN, 0, 0xff, 1, 0) as u8, 0xff, "-1 as a signed byte");
        assert_eq!(one(MIN, 1, 0xff, 1, 0) as u8, 1, "255 as an unsigned one");
        assert_eq!(one(MAX, 4, u64::from(u32::MAX), 3, 0) as u32, 3);
        assert_eq!(one(SUM, 3, 0xffff, 2, 0) as u16, 1, "sums wrap around");
        assert_eq!(one(PROD, 7, 6, 7, 0), 42);
        assert_eq!((one(LAND, 5, 4, 2, 0), one(BAND, 5, 4, 2, 0)), (1, 0));
        assert_eq!((one(LXOR, 5, 4, 2, 0), one(BXOR, 5, 4, 2, 0)), (0, 6));
        assert_eq!((one(LOR, 5, 0, 2, 0), one(BOR, 5, 4, 2, 0)), (1, 6));
        assert_eq!(one(MSWAP, 7, 0xaaaa, 0x5555, 0x00ff), 0xaa55);
    }

    #[test]
    fn exchanges_compare_the_operand_with_what_is_there() {
        let swaps = |operation, compare| one(operation, 6, 5, 9, compare) == 9;
        let table: Vec<[bool; 3]> =
            (CSWAP..=CSWAP_GT).map(|it| [4, 5, 6].map(|compare| swaps(it, compare))).collect();
        let [equal, not, lower, lower_only, higher, higher_only] = table[..] else { panic!() };
        assert_eq!((equal, not), ([false, true, false], [true, false, true]));
        assert_eq!((lower, lower_only), ([true, true, false], [true, false, false]));
        assert_eq!((higher, higher_only), ([false, true, true], [false, false, true]));
    }

    #[test]
    fn floats_are_numbers() {
        let bits = |value: f64| value.to_bits();
        assert_eq!(one(SUM, DOUBLE, bits(1.5), bits(2.25), 0), bits(3.75));
        assert_eq!(one(MAX, DOUBLE, bits(-1.5), bits(-2.25), 0), bits(-1.5));
        let bits = |value: f32| u64::from(value.to_bits());
        assert_eq!(one(PROD, FLOAT, bits(1.5), bits(2.0), 0), bits(3.0));
        assert!(!is_offered(code(BAND, FLOAT, Returns::Nothing)));
    }

    #[test]
    fn several_elements_return_what_they_were() {
        let mut memory = [1_u64, 2, 3];
        let operands = [10_u64, 20, 30].map(u64::to_le_bytes).concat();
        let before = run(code(SUM, 7, Returns::Before), &mut memory, &operands).unwrap();
        assert_eq!(before, [1_u64, 2, 3].map(u64::to_le_bytes).concat());
        assert_eq!(memory, [11, 22, 33]);
        let read = run(code(ATOMIC_READ, 7, Returns::Before), &mut memory, &[]).unwrap();
        assert_eq!(read, [11_u64, 22, 33].map(u64::to_le_bytes).concat());
    }

    #[test]
    fn what_is_not_offered_or_not_aligned_changes_nothing() {
        let mut memory = [7_u64; 2];
        let nothing = Returns::Nothing;
        assert_eq!(run(code(SUM, 10, nothing), &mut memory, &[0; 16]), Err(libc::EOPNOTSUPP));
        assert_eq!(run(code(CSWAP, 7, nothing), &mut memory, &[0; 16]), Err(libc::EOPNOTSUPP));
        assert_eq!(run(code(ATOMIC_READ, 7, nothing), &mut memory, &[]), Err(libc::EOPNOTSUPP));
        assert_eq!(run(code(SUM, 7, nothing), &mut memory, &[1; 8]), Err(libc::EINVAL));
        let parts = Parts::one(memory.as_mut_ptr().cast::<u8>().wrapping_add(4), 8);
        // SAFETY: the bytes are there.
        let odd = unsafe { apply(code(SUM, 7, nothing), &parts, &[1; 8]) };
        assert_eq!((odd, memory), (Err(libc::EINVAL), [7; 2]));
    }
}
