//! Sans-IO protocol state machines, without a clock, a queue or a socket: what arrives goes in,
//! what to do comes out.

pub mod adapter;
pub mod break_even;
pub mod byte_ring;
pub mod congestion;
pub mod counting_flag;
pub mod detour;
pub mod emulation;
pub mod endpoint;
pub mod flow;
pub mod interrupt_flag;
pub mod lending;
pub mod migration;
pub mod misfit;
pub mod order;
pub mod packet;
pub mod record_ring;
pub mod resequence;
pub mod retransmit;
pub mod ring;
pub mod sci_address;
pub mod shared_ring;
pub mod sockets;
pub mod spraying;
pub mod sync;
pub mod transport;
pub mod turns;
pub mod vi;
pub mod wakers;
pub mod window;
pub mod write_log;

#[cfg(test)]
mod explore;
