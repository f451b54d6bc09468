//! Frames as the symbols of the physical layer (Maestro Figure 4).

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{CHANNELS, FrameError, PACKET, Packet};

/// How many bits travel on the link at a time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum SymbolWidth {
    /// Four, as the physical layer of IEEE 1394 has up to 200 Mbit/s (Maestro Table 1).
    #[default]
    FourBits,
    /// Eight: the wider credit of Maestro 6.
    EightBits,
}

/// The content of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// Nothing but credits; it hands the link back.
    Null,
    /// Packets for the FIFO of one channel.
    Data {
        /// The channel, below [`CHANNELS`].
        channel: usize,
    },
}

/// The beginning of every frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Preamble {
    /// How many packets the sender of the frame can receive on each channel.
    pub credits: [u16; CHANNELS],
    /// What follows.
    pub kind: Kind,
}

/// A frame with its content.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Frame {
    /// How it begins.
    pub preamble: Preamble,
    /// The packets; none in a null frame, at least one in any other.
    pub packets: Vec<Packet>,
}

impl SymbolWidth {
    /// How many bits a symbol has.
    pub const fn bits(self) -> u32 {
        match self {
            SymbolWidth::FourBits => 4,
            SymbolWidth::EightBits => 8,
        }
    }

    /// The largest credit that a symbol holds, in packets.
    pub const fn most_credit(self) -> u16 {
        (1 << self.bits()) - 1
    }

    /// How many bits of the link a frame of this many packets takes.
    pub const fn frame_bits(self, packets: u64) -> u64 {
        self.preamble_bits() + packets * PACKET as u64 * 8
    }

    /// How many bits of the link a preamble, and so a null frame, takes.
    pub const fn preamble_bits(self) -> u64 {
        (CHANNELS as u64 + 1) * self.bits() as u64
    }

    /// How many symbols a packet takes.
    const fn packet_symbols(self) -> usize {
        PACKET * 8 / self.bits() as usize
    }

    fn append(self, byte: u8, symbols: &mut Vec<u8>) {
        match self {
            SymbolWidth::FourBits => symbols.extend([byte >> 4, byte & 0xf]),
            SymbolWidth::EightBits => symbols.push(byte),
        }
    }

    fn byte(self, symbols: &[u8]) -> u8 {
        match self {
            SymbolWidth::FourBits => symbols.iter().fold(0, |byte, symbol| byte << 4 | symbol),
            SymbolWidth::EightBits => symbols.first().copied().unwrap_or_default(),
        }
    }
}

/// The bit of the third symbol that marks a frame with packets.
const DATA: u8 = 0b1000;

impl Kind {
    const fn symbol(self) -> u8 {
        match self {
            Kind::Null => 0,
            Kind::Data { channel } => DATA | channel as u8,
        }
    }

    fn from_symbol(value: u8) -> Result<Kind, FrameError> {
        let channel = usize::from(value & !DATA);
        match value {
            0 => Ok(Kind::Null),
            _ if value & DATA != 0 && channel < CHANNELS => Ok(Kind::Data { channel }),
            _ => Err(FrameError::NoSuchKind { value }),
        }
    }
}

impl Frame {
    /// The symbols in the order in which they travel, each in the low bits of a byte.
    ///
    /// # Errors
    /// A credit or a number of packets that the symbols cannot express.
    pub fn encode(&self, width: SymbolWidth) -> Result<Vec<u8>, FrameError> {
        let most = usize::from(width.most_credit());
        self.check(most)?;
        let mut symbols = Vec::with_capacity(CHANNELS + 1 + self.packets.len() * 32);
        for (channel, &credit) in self.preamble.credits.iter().enumerate() {
            let symbol = u8::try_from(credit).ok().filter(|credit| usize::from(*credit) <= most);
            symbols.push(symbol.ok_or(FrameError::Credit { channel, credit, most })?);
        }
        symbols.push(self.preamble.kind.symbol());
        for byte in self.packets.iter().flatten() {
            width.append(*byte, &mut symbols);
        }
        Ok(symbols)
    }

    /// Reads one whole frame; the physical layer has told where it ends.
    ///
    /// # Errors
    /// [`FrameError`] names what was found and what would have been accepted.
    pub fn decode(symbols: &[u8], width: SymbolWidth) -> Result<Frame, FrameError> {
        let bits = width.bits();
        let wide = symbols.iter().position(|symbol| u32::from(*symbol) >> bits != 0);
        if let Some(place) = wide {
            return Err(FrameError::Symbol { place, value: symbols[place], bits });
        }
        let Some((&[first, second, kind], rest)) = symbols.split_first_chunk() else {
            return Err(FrameError::NoPreamble { symbols: symbols.len() });
        };
        let credits = [first, second].map(u16::from);
        let preamble = Preamble { credits, kind: Kind::from_symbol(kind)? };
        let packet = width.packet_symbols();
        if preamble.kind != Kind::Null && !rest.len().is_multiple_of(packet) {
            return Err(FrameError::PartialPacket { symbols: rest.len(), packet });
        }
        if preamble.kind == Kind::Null && !rest.is_empty() {
            return Err(FrameError::FilledNull { symbols: rest.len() });
        }
        let per_byte = packet / PACKET;
        let content = |symbols: &[u8]| {
            let mut packet = Packet::default();
            for (byte, symbols) in packet.iter_mut().zip(symbols.chunks(per_byte)) {
                *byte = width.byte(symbols);
            }
            packet
        };
        let frame = Frame { preamble, packets: rest.chunks(packet).map(content).collect() };
        frame.check(usize::from(width.most_credit()))?;
        Ok(frame)
    }

    fn check(&self, most: usize) -> Result<(), FrameError> {
        let packets = self.packets.len();
        match self.preamble.kind {
            Kind::Null if packets > 0 => Err(FrameError::FilledNull { symbols: packets }),
            Kind::Data { channel } if channel >= CHANNELS => {
                Err(FrameError::NoSuchKind { value: self.preamble.kind.symbol() })
            }
            Kind::Data { .. } if packets == 0 => Err(FrameError::Empty),
            _ if packets > most => Err(FrameError::TooLong { packets, most }),
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(kind: Kind, packets: usize) -> Frame {
        let preamble = Preamble { credits: [15, 7], kind };
        Frame { preamble, packets: vec![[0xa5; PACKET]; packets] }
    }

    /// Maestro 3.2: "the frame size varies from 4 x 3 bits to 4 x 483 bits".
    #[test]
    fn nibbles_of_null_one_packet_and_full_frames() {
        for (packets, nibbles) in [(0, 3), (1, 35), (15, 483)] {
            let kind = if packets == 0 { Kind::Null } else { Kind::Data { channel: 1 } };
            let symbols = frame(kind, packets).encode(SymbolWidth::FourBits).unwrap();
            assert_eq!(symbols.len(), nibbles);
            assert_eq!(SymbolWidth::FourBits.frame_bits(packets as u64), 4 * nibbles as u64);
        }
    }

    #[test]
    fn the_preamble_bit_by_bit() {
        let symbols = frame(Kind::Data { channel: 1 }, 1).encode(SymbolWidth::FourBits).unwrap();
        assert_eq!(symbols[..5], [0b1111, 0b0111, 0b1001, 0xa, 0x5]);
        let symbols = frame(Kind::Null, 0).encode(SymbolWidth::FourBits).unwrap();
        assert_eq!(symbols, [0b1111, 0b0111, 0b0000]);
        let symbols = frame(Kind::Data { channel: 0 }, 1).encode(SymbolWidth::EightBits).unwrap();
        assert_eq!(symbols[..4], [15, 7, 0b1000, 0xa5]);
        assert_eq!(symbols.len(), 19);
    }

    #[test]
    fn a_frame_ends_where_a_credit_ends() {
        let data = Kind::Data { channel: 0 };
        let refused = frame(data, 16).encode(SymbolWidth::FourBits);
        assert_eq!(refused, Err(FrameError::TooLong { packets: 16, most: 15 }));
        assert!(frame(data, 255).encode(SymbolWidth::EightBits).is_ok());
        assert_eq!(frame(data, 0).encode(SymbolWidth::FourBits), Err(FrameError::Empty));
        let mut wide = frame(data, 1);
        wide.preamble.credits[1] = 16;
        let refused = wide.encode(SymbolWidth::FourBits);
        assert_eq!(refused, Err(FrameError::Credit { channel: 1, credit: 16, most: 15 }));
    }

    #[test]
    fn what_is_no_frame_is_named() {
        let read =
            |symbols: &[u8]| Frame::decode(symbols, SymbolWidth::FourBits).unwrap_err().to_string();
        assert_eq!(read(&[1, 2]), "2 symbols: expected a preamble of 3");
        assert_eq!(read(&[1, 16, 0]), "symbol 1 is 0x10: expected 4 bits");
        assert_eq!(
            read(&[1, 1, 2]),
            "kind 0b0010: expected 0000 without packets, 1000 or 1001 with packets"
        );
        assert_eq!(
            read(&[1, 1, 0, 4]),
            "1 symbols behind the preamble of a null frame: expected none"
        );
        assert_eq!(read(&[1, 1, 8, 4]), "1 symbols behind the preamble: expected a multiple of 32");
        assert_eq!(
            read(&[1, 1, 8]),
            "no packet in a frame that is not null: expected at least one"
        );
    }
}
