//! A half-duplex link whose ends take turns, and in which every frame announces how much its sender
//! can receive (Yamagiwa, Fukuda and Wada, "Design and Performance of Maestro Cluster Network",
//! 3.2).
//!
//! A message is divided into packets of 16 bytes ([`MessageHeader`]). Packets that wait in a send
//! FIFO leave in one burst, as many as the receive FIFO at the other end has room for, whatever
//! messages they belong to. That burst is a [`Frame`]. When it ends the other end must send one,
//! with packets or without, so that both take turns forever and neither needs to request the link
//! ([`End`]).
//!
//! The paper draws the formats (Figures 3 and 4) and leaves bits open. Choices of this crate, which
//! no measurement of the paper depends on:
//!
//! * **Symbols.** A byte travels as two symbols of 4 bits, the higher half first; with symbols of 8
//!   bits (the "eight-bit-wide IEEE1394PHY" of section 6) as one.
//! * **Preamble.** Three symbols: the credit of channel 0, the credit of channel 1, the kind. A
//!   credit counts packets; what a symbol does not hold is announced as its largest value.
//! * **Kind.** `0000` is the null frame. `1000` and `1001` are frames with packets for channel 0 and
//!   channel 1. Other values are errors. The number of packets stands nowhere: the physical layer
//!   signals the end of a frame, as that of IEEE 1394 does, so that a packet may still join a frame
//!   that has begun. That is what lets a message of 300 bytes travel in two frames (3.4) although
//!   the first begins when 16 bytes are there.
//! * **One channel per frame.** Where both have something to send, they take turns, too.
//! * **Routing.** Five bytes (Figure 3): type, operation and the length of the last packet in one
//!   byte, then target and initiator with two bytes each, big-endian like every number here.

mod end;
mod error;
mod frame;
mod message;

pub use end::{Burst, End, Holding, Overrun, Rules};
pub use error::{FrameError, MessageError};
pub use frame::{Frame, Kind, Preamble, SymbolWidth};
pub use message::{LONGEST_MESSAGE, MessageHeader, Operation, packets_of};

/// Bytes in a packet (Maestro Table 1).
pub const PACKET: usize = 16;

/// How many pairs of FIFOs each end has (Maestro Table 1). The protocol allows more; each would add
/// a symbol to the preamble.
pub const CHANNELS: usize = 2;

/// The content of a packet.
pub type Packet = [u8; PACKET];
