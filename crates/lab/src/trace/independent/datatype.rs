//! The data types of SimGrid's traces, by their numbers.

use weft_units::Bytes;

/// Bytes of the types 0 to 55 of SimGrid's `smpi_datatype.cpp`, version 3.20 and later, on a machine
/// with 64-bit pointers; 0 to 6 (double, int, char, short, long, float, byte) are the same in every
/// version. Zero stands where versions differ (40 to 45, of Fortran), where a type has no bytes (51
/// and 52), and for a type of the simulator itself (54).
const SIZES: [u8; 56] = [
    8, 4, 1, 2, 8, 4, 1, 8, 1,
    1, // double, int, char, short, long, float, byte, long long, chars
    2, 4, 8, 8, 16, 4, 1, 1, 2, 4, // unsigned, long double, wchar_t, bool, int8_t to int32_t
    8, 1, 2, 4, 8, 8, 16, 32, 8, 8, // int64_t, uint8_t to uint64_t, complex, aint, offset
    8, 16, 16, 8, 8, 8, 16, 16, 4, 4, // pairs, real, real4
    0, 0, 0, 0, 0, 0, 2, 4, 8, 16, // Fortran's others, integer2 to integer16
    32, 0, 0, 1, 0, 8, // long double and int, bounds, packed, pointer, count
];

/// What a file may have in place of a type.
pub(super) const ACCEPTED: &str =
    "the number of a data type of SimGrid, 0 (double) to 39, 46 to 50, 53 or 55";

/// `MPI_BYTE`, the type of counts without one.
pub(super) const BYTE: Bytes = Bytes(1);

/// `MPI_DOUBLE`, the type of counts without one if a word follows `init`.
pub(super) const DOUBLE: Bytes = Bytes(8);

/// The size of a type by its number in a file.
pub(super) fn size(word: &str) -> Option<Bytes> {
    let digits = word.bytes().all(|byte| byte.is_ascii_digit());
    let number: usize = word.parse().ok().filter(|_| digits)?;
    let size = SIZES.get(number).copied().filter(|size| *size > 0)?;
    Some(Bytes(size.into()))
}
