//! Ports that hold packets back: their far end is a buffer of limited size, and they are those of
//! hosts or of switches with queues at their outputs. Packets leave in the order in which they came,
//! each when the link is free and the far end has given a credit, or does not stop the link.

use weft_units::Time;

use super::{Departure, Graph};
use crate::switch::Chain;

/// The queue before a link that may have to wait for its far end.
#[derive(Clone, Copy, Debug)]
pub(super) struct Gate {
    chain: Chain,
    waiting: u32,
    is_stopped: bool,
    /// The earliest instant at which it is looked at whether a packet may leave.
    due: Time,
}

/// What a gate does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Passage {
    /// Its oldest packet leaves.
    Leaves(u32, Departure),
    /// It is to be looked at again then.
    Later(Time),
    /// Nothing, until the far end says something or a packet comes.
    Waits,
}

impl Gate {
    pub const EMPTY: Gate =
        Gate { chain: Chain::EMPTY, waiting: 0, is_stopped: false, due: Time::NEVER };

    /// How many packets wait.
    pub fn waiting(&self) -> u32 {
        self.waiting
    }

    /// The packet that leaves next.
    pub fn oldest(&self) -> Option<u32> {
        self.chain.oldest()
    }

    /// Whether the far end has stopped it.
    pub fn is_stopped(&self) -> bool {
        self.is_stopped
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
        self.gates[port as usize].waiting > 0
    }

    /// A packet joins the queue of a gated port. Returns whether it is the only one there.
    #[inline]
    pub fn enqueue(&mut self, port: u32, packet: u32, behind: &mut [u32]) -> bool {
        let gate = &mut self.gates[port as usize];
        gate.waiting += 1;
        gate.chain.push(packet, behind)
    }

    /// Whether a gated port of a switch that limits its queues has no room for another packet.
    pub fn is_gate_full(&self, now: Time, port: u32) -> bool {
        let most = self.most(self.switch_of(port));
        let leaving = u32::from(self.free(port) > now);
        most < u32::MAX && self.gates[port as usize].waiting + leaving >= most
    }

    /// Lets the oldest packet of a gated port leave if it may. `channel_of` tells its virtual
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
        let gate = &mut self.gates[port as usize];
        if gate.due <= now {
            gate.due = Time::NEVER;
        }
        let Some(packet) = gate.chain.oldest().filter(|_| !gate.is_stopped) else {
            return Passage::Waits;
        };
        let channel = channel_of(packet);
        if !self.flow.may_send(port, channel) {
            return Passage::Waits;
        }
        if free > now {
            let is_sooner = free < gate.due;
            gate.due = gate.due.min(free);
            return if is_sooner { Passage::Later(free) } else { Passage::Waits };
        }
        gate.chain.pop(behind);
        gate.waiting -= 1;
        self.flow.spend(port, channel);
        Passage::Leaves(packet, self.depart(now, port))
    }

    /// The far end stops a gated port, or lets it go on.
    pub fn stop_gate(&mut self, port: u32, stops: bool) {
        self.gates[port as usize].is_stopped = stops;
    }

    /// Packets that wait in gated ports of hosts.
    pub fn waiting_in_hosts(&self) -> u64 {
        let hosts = self.gates.get(self.owners.len()..).unwrap_or_default();
        hosts.iter().map(|gate| u64::from(gate.waiting)).sum()
    }
}
