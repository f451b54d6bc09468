//! Ports that hold packets back, because their far end is a buffer of limited size: ports of hosts
//! and of switches with queues at their outputs. Packets leave in order, each when the link is free
//! and the far end has given a credit, or does not stop the link.

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

use weft_units::Time;

use super::{Departure, Graph};
use crate::switch::Chain;

/// The queue before a link that may have to wait for its far end. Parts of a graph that run side by side
/// share them as they share [ports](super::Port).
#[derive(Debug)]
pub(super) struct Gate {
    /// The packets, as [`Chain::bits`].
    chain: AtomicU64,
    /// The earliest instant at which the gate checks whether a packet may leave, in picoseconds.
    due: AtomicU64,
    waiting: AtomicU32,
    is_stopped: AtomicBool,
}

/// The action of a gate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Passage {
    /// Its oldest packet leaves.
    Leaves(u32, Departure),
    /// The gate must be looked at again at this time.
    Later(Time),
    /// Nothing, until a signal or a packet arrives.
    Waits,
}

impl Gate {
    pub fn empty() -> Gate {
        Gate {
            chain: AtomicU64::new(Chain::EMPTY.bits()),
            due: AtomicU64::new(Time::NEVER.0),
            waiting: AtomicU32::new(0),
            is_stopped: AtomicBool::new(false),
        }
    }

    #[inline]
    fn chain(&self) -> Chain {
        Chain::of_bits(self.chain.load(Ordering::Relaxed))
    }

    /// How many packets wait.
    #[inline]
    pub fn waiting(&self) -> u32 {
        self.waiting.load(Ordering::Relaxed)
    }

    /// The packet that leaves next.
    #[inline]
    pub fn oldest(&self) -> Option<u32> {
        self.chain().oldest()
    }

    /// Whether the far end has stopped it.
    #[inline]
    pub fn is_stopped(&self) -> bool {
        self.is_stopped.load(Ordering::Relaxed)
    }

    /// Appends a packet. Returns whether it is the only one.
    #[inline]
    fn push(&self, packet: u32, behind: &mut [u32]) -> bool {
        let mut chain = self.chain();
        let is_first = chain.push(packet, behind);
        self.chain.store(chain.bits(), Ordering::Relaxed);
        self.waiting.store(self.waiting() + 1, Ordering::Relaxed);
        is_first
    }

    /// The oldest packet leaves.
    #[inline]
    fn pop(&self, behind: &[u32]) {
        let mut chain = self.chain();
        chain.pop(behind);
        self.chain.store(chain.bits(), Ordering::Relaxed);
        self.waiting.store(self.waiting() - 1, Ordering::Relaxed);
    }

    /// Schedules the port for `time`. Returns whether that is earlier than any time scheduled
    /// before.
    #[inline]
    fn attend(&self, time: Time) -> bool {
        let is_sooner = time.0 < self.due.load(Ordering::Relaxed);
        if is_sooner {
            self.due.store(time.0, Ordering::Relaxed);
        }
        is_sooner
    }

    /// The port is served.
    #[inline]
    fn look(&self, now: Time) {
        if self.due.load(Ordering::Relaxed) <= now.0 {
            self.due.store(Time::NEVER.0, Ordering::Relaxed);
        }
    }
}

impl Graph {
    /// Whether a port holds packets back.
    #[inline]
    pub fn is_gated(&self, port: u32) -> bool {
        self.flow.is_limited(port) && !self.is_clocked(port)
    }

    /// Whether packets wait at a gated port.
    #[inline]
    pub fn has_waiting(&self, port: u32) -> bool {
        self.gates[port as usize].waiting() > 0
    }

    /// A packet joins the queue of a gated port. Returns whether it is the only one there.
    #[inline]
    pub fn enqueue(&mut self, port: u32, packet: u32, behind: &mut [u32]) -> bool {
        self.gates[port as usize].push(packet, behind)
    }

    /// Whether a gated port of a switch that limits its queues has no room for another packet.
    pub fn is_gate_full(&self, now: Time, port: u32) -> bool {
        let most = self.most(self.switch_of(port));
        most < u32::MAX && self.held_at_gate(now, port) >= most
    }

    /// How many packets a gated port holds: those that wait, and the one that is being sent.
    #[inline]
    pub(super) fn held_at_gate(&self, now: Time, port: u32) -> u32 {
        self.gates[port as usize].waiting() + u32::from(self.free(port) > now)
    }

    /// Lets the oldest packet of a gated port leave if it may. `channel_of` returns its virtual
    /// channel.
    #[inline]
    pub fn try_gate(
        &mut self,
        now: Time,
        port: u32,
        behind: &[u32],
        channel_of: impl Fn(u32) -> u8,
    ) -> Passage {
        let free = self.free(port);
        let gate = &self.gates[port as usize];
        gate.look(now);
        let Some(packet) = gate.oldest().filter(|_| !gate.is_stopped()) else {
            return Passage::Waits;
        };
        let channel = channel_of(packet);
        if !self.flow.may_send(port, channel) {
            return Passage::Waits;
        }
        if free > now {
            return if gate.attend(free) { Passage::Later(free) } else { Passage::Waits };
        }
        gate.pop(behind);
        self.flow.spend(port, channel);
        Passage::Leaves(packet, self.depart(now, port))
    }

    /// Sends a packet by a gated port on a virtual channel if it may leave at once, because nothing
    /// waits there and nothing holds it back. The packet then takes no place in the queue.
    #[inline(always)]
    pub fn send_at_once(&mut self, now: Time, port: u32, channel: u8) -> Option<Departure> {
        let gate = &self.gates[port as usize];
        let is_free = gate.chain().is_empty() && !gate.is_stopped() && self.free(port) <= now;
        if !is_free || !self.flow.may_send(port, channel) {
            return None;
        }
        gate.look(now);
        self.flow.spend(port, channel);
        Some(self.depart(now, port))
    }

    /// The far end stops a gated port, or lets it continue.
    pub fn stop_gate(&mut self, port: u32, stops: bool) {
        self.gates[port as usize].is_stopped.store(stops, Ordering::Relaxed);
    }

    /// Packets that wait in gated ports of hosts.
    pub fn waiting_in_hosts(&self) -> u64 {
        let hosts = self.gates.get(self.owners.len()..).unwrap_or_default();
        hosts.iter().map(|gate| u64::from(gate.waiting())).sum()
    }
}
