//! From stores to packets (MEMORY CHANNEL 2 Performance, Network Throughput).
//!
//! The processor's write buffer collects stores into writes of at most 32 bytes (Alpha 21164); each
//! write on the PCI becomes a packet of its own size. Nothing is put together from several writes,
//! and a write above 256 bytes, which only a device can make, is split.

use weft_units::Bytes;

/// The smallest payload: one PCI word.
pub const WORD: u64 = 4;

/// The largest payload of a packet of generation 2.
pub const MAX_PAYLOAD: u64 = 256;

/// How a run of stores reaches the PCI.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HostWrites {
    /// The largest write that the host makes; aligned to itself.
    pub write: Bytes,
    /// The largest payload of a packet.
    pub payload: Bytes,
}

/// The packets of a run of stores, one after another: offset and size of each payload.
#[derive(Clone, Debug)]
pub struct Pieces {
    writes: HostWrites,
    offset: u64,
    end: u64,
    /// End of the write that is being split.
    write_end: u64,
}

impl HostWrites {
    /// Returns these writes as made by a PCI device, which writes up to the payload of a packet at
    /// once.
    pub fn of_device(self) -> HostWrites {
        HostWrites { write: self.payload, ..self }
    }

    /// The packets of `size` bytes stored from `offset` on, in order.
    pub fn pieces(self, offset: u64, size: Bytes) -> Pieces {
        Pieces { writes: self, offset, end: offset + size.0, write_end: offset }
    }

    /// How many packets that is.
    pub fn packets(self, offset: u64, size: Bytes) -> u64 {
        self.pieces(offset, size).count() as u64
    }
}

impl Iterator for Pieces {
    type Item = (u64, Bytes);

    fn next(&mut self) -> Option<(u64, Bytes)> {
        if self.offset >= self.end {
            return None;
        }
        let HostWrites { write, payload } = self.writes;
        if self.offset == self.write_end {
            // A write ends at a multiple of its size: that is what the write buffer holds.
            let line = self.offset - self.offset % write.0;
            self.write_end = (line + write.0).min(self.end);
        }
        let size = payload.0.min(self.write_end - self.offset);
        let piece = (self.offset, Bytes(size));
        self.offset += size;
        Some(piece)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn sizes(write: u64, payload: u64, offset: u64, size: u64) -> Vec<u64> {
        let writes = HostWrites { write: Bytes(write), payload: Bytes(payload) };
        writes.pieces(offset, Bytes(size)).map(|(_, size)| size.0).collect()
    }

    #[test]
    fn the_processor_writes_lines_of_32_bytes() {
        assert_eq!(sizes(32, 256, 0, 8), [8]);
        assert_eq!(sizes(32, 256, 0, 256), [32; 8]);
        assert_eq!(sizes(32, 256, 24, 16), [8, 8]);
    }

    #[test]
    fn a_device_write_is_split_at_256_bytes_and_nothing_is_aggregated() {
        assert_eq!(sizes(4096, 256, 0, 600), [256, 256, 88]);
        assert_eq!(sizes(4, 256, 0, 12), [4, 4, 4]);
    }

    proptest! {
        #[test]
        fn pieces_cover_the_run_once(offset in 0_u64..5000, size in 1_u64..3000) {
            let writes = HostWrites { write: Bytes(32), payload: Bytes(16) };
            let mut at = offset;
            for (from, piece) in writes.pieces(offset, Bytes(size)) {
                prop_assert_eq!(from, at);
                prop_assert!((1..=16).contains(&piece.0));
                prop_assert_eq!(from / 32, (from + piece.0 - 1) / 32);
                at += piece.0;
            }
            prop_assert_eq!(at, offset + size);
        }
    }
}
