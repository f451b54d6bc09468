//! Messages between the processes of a host over shared memory, for real programs.
//!
//! From the outside in: [`endpoint`] sends and receives messages, matched by source and tag;
//! [`channel`] is one direction between two endpoints; [`segment`] is the memory of a channel, whose
//! state machines are `weft_protocol`'s record ring and interrupt flag; [`rendezvous`] is how processes
//! find each other. [`fi`] is the libfabric provider, through which MPI programs use it.
//!
//! Beside them are the programming interfaces of the documents: [`window`], reflected memory (Memory Channel);
//! [`vi`], connected pairs of work queues (cLAN); [`active`], messages that call handlers (Clint). The last two
//! are built on [`link`].

#![cfg(target_os = "linux")]

pub mod active;
mod c;
pub mod channel;
pub mod endpoint;
pub mod fi;
pub mod figures;
pub mod link;
pub mod one_way;
pub mod parts;
pub mod peers;
pub mod rendezvous;
pub mod segment;
mod sys;
#[cfg(test)]
mod testing;
pub mod vi;
pub mod window;
