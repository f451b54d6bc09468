//! The check codes: CRC-16 for short packets, CRC-32 for the bulk request.
//!
//! The paper says that a packet has a CRC and not which. CRC-16/IBM-3740 (polynomial 0x1021) has
//! x + 1 as a factor, so it detects every odd number of wrong bits, and every two wrong bits in
//! packets shorter than 4 KiB. CRC-32/ISO-HDLC, the code of Ethernet, detects up to three wrong
//! bits at 2086 bytes. Both detect every burst that is no longer than the code.

use crc::{CRC_16_IBM_3740, CRC_32_ISO_HDLC, Crc};

use super::{DecodeError, Header, PacketType};

const SHORT: Crc<u16> = Crc::<u16>::new(&CRC_16_IBM_3740);
const LONG: Crc<u32> = Crc::<u32>::new(&CRC_32_ISO_HDLC);

/// Puts header, body and CRC-16 into a packet of `SIZE` bytes.
pub(super) fn seal<const SIZE: usize>(header: Header, body: &[u8]) -> [u8; SIZE] {
    let mut bytes = [0; SIZE];
    bytes[..Header::SIZE].copy_from_slice(&header.encode());
    bytes[Header::SIZE..Header::SIZE + body.len()].copy_from_slice(body);
    let code = SHORT.checksum(&bytes[..SIZE - 2]);
    bytes[SIZE - 2..].copy_from_slice(&code.to_be_bytes());
    bytes
}

/// Puts the CRC-32 at the end of a bulk request.
pub(super) fn seal_bulk(mut bytes: Vec<u8>) -> Vec<u8> {
    let code = LONG.checksum(&bytes);
    bytes.extend_from_slice(&code.to_be_bytes());
    bytes
}

/// Compares the check code and returns the header and what lies between both.
pub(super) fn open(bytes: &[u8]) -> Result<(Header, &[u8]), DecodeError> {
    let size = bytes.len();
    if !PacketType::ALL.iter().any(|packet_type| packet_type.size().0 as usize == size) {
        return Err(DecodeError::NoSuchSize { size });
    }
    let is_bulk = size == PacketType::BulkRequest.size().0 as usize;
    let (covered, code) = bytes.split_at(size - if is_bulk { 4 } else { 2 });
    let found = code.iter().fold(0, |code, byte| code << 8 | u32::from(*byte));
    let computed =
        if is_bulk { LONG.checksum(covered) } else { u32::from(SHORT.checksum(covered)) };
    if found != computed {
        return Err(DecodeError::Check { found, computed });
    }
    let (header, body) = covered.split_at(Header::SIZE);
    Ok((Header::decode([header[0], header[1]])?, body))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn check_codes_are_the_catalogued_ones() {
        assert_eq!(SHORT.checksum(b"123456789"), 0x29b1);
        assert_eq!(LONG.checksum(b"123456789"), 0xcbf4_3926);
    }
}
