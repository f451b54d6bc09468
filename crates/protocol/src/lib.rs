//! Protocol state machines without a clock, a queue or a socket: what arrives goes in, what to do
//! comes out.

pub mod adapter;
pub mod endpoint;
pub mod order;
pub mod packet;
pub mod resequence;
pub mod retransmit;
pub mod ring;

#[cfg(test)]
mod explore;
