//! Segmentation: how a message becomes cells.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use weft_units::Bytes;

/// How messages become the packets of a channel, its cells.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum SegmentationSettings {
    /// ATM adaptation layer 5: cells of one connection follow each other, the last one is marked, and
    /// a trailer follows the message (ITU-T I.363.5; cLAN C).
    Aal5(Aal5Settings),
}

/// Settings of AAL5. The `packet` of the channel is a whole cell, and its `payload` is the cell
/// without its header.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Aal5Settings {
    /// Length and check code after the message, in its last cell.
    pub trailer: Bytes,
    /// Further bytes that a message carries once: connection state, address, immediate data.
    #[serde(default)]
    pub envelope: Bytes,
    /// What the last cell of a message holds after the trailer.
    #[serde(default)]
    pub last: LastCell,
}

/// What the last cell of a message holds after the trailer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum LastCell {
    /// Padding: all cells are equally long (ITU-T I.363.5).
    #[default]
    Padded,
    /// Nothing: it ends with the trailer.
    Cut,
}

/// The cells of messages on one channel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Segmentation {
    header: u64,
    payload: u64,
    extra: u64,
    last: LastCell,
}

impl SegmentationSettings {
    /// The segmentation for a channel whose `packet`s carry this much `payload`.
    pub fn build(&self, packet: Bytes, payload: Bytes) -> Segmentation {
        let SegmentationSettings::Aal5(settings) = self;
        let extra = settings.trailer.0 + settings.envelope.0;
        Segmentation { extra, last: settings.last, ..Segmentation::none(packet, payload) }
    }
}

impl Segmentation {
    /// Nothing but the packets themselves: a message takes as many whole ones as its bytes fill
    /// payloads.
    pub fn none(packet: Bytes, payload: Bytes) -> Segmentation {
        let header = packet.0 - payload.0.min(packet.0);
        Segmentation { header, payload: payload.0, extra: 0, last: LastCell::Padded }
    }

    /// How many cells a message takes; at least one.
    pub fn cells(&self, message: Bytes) -> u64 {
        (message.0 + self.extra).div_ceil(self.payload.max(1)).max(1)
    }

    /// The size on the wire of a cell of a message that `after` others of it follow.
    pub fn cell(&self, message: Bytes, after: u64) -> Bytes {
        if after > 0 || self.last == LastCell::Padded {
            return Bytes(self.header + self.payload);
        }
        let before = (self.cells(message) - 1) * self.payload;
        Bytes(self.header + message.0 + self.extra - before)
    }

    /// The size on the wire of all cells of a message.
    pub fn wire(&self, message: Bytes) -> Bytes {
        let whole = self.header + self.payload;
        Bytes((self.cells(message) - 1) * whole + self.cell(message, 0).0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn aal5(envelope: u64, last: LastCell) -> Segmentation {
        let (trailer, envelope) = (Bytes(8), Bytes(envelope));
        let settings = SegmentationSettings::Aal5(Aal5Settings { trailer, envelope, last });
        settings.build(Bytes(53), Bytes(48))
    }

    #[test]
    fn forty_bytes_are_one_cell_and_forty_one_are_two() {
        let cells = aal5(0, LastCell::Padded);
        assert_eq!(
            (cells.cells(Bytes(0)), cells.cells(Bytes(40)), cells.cells(Bytes(41))),
            (1, 1, 2)
        );
        assert_eq!((cells.wire(Bytes(40)), cells.wire(Bytes(41))), (Bytes(53), Bytes(106)));
        // 2048 + 8 bytes fill 42 cells and 40 bytes of another one.
        assert_eq!((cells.cells(Bytes(2048)), cells.wire(Bytes(2048))), (43, Bytes(43 * 53)));
    }

    #[test]
    fn a_cut_cell_ends_with_the_trailer() {
        let cells = aal5(4, LastCell::Cut);
        assert_eq!(cells.wire(Bytes(4)), Bytes(5 + 4 + 4 + 8));
        assert_eq!(cells.wire(Bytes(48)), Bytes(53 + 5 + 12));
        assert_eq!((cells.cell(Bytes(48), 1), cells.cell(Bytes(48), 0)), (Bytes(53), Bytes(17)));
    }

    #[test]
    fn without_segmentation_payloads_fill_whole_packets() {
        let cells = Segmentation::none(Bytes(53), Bytes(48));
        let of = |message| (cells.cells(Bytes(message)), cells.wire(Bytes(message)));
        assert_eq!([0, 48, 49].map(of), [(1, Bytes(53)), (1, Bytes(53)), (2, Bytes(106))]);
    }
}
