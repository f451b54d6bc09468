//! Ports of switches with a shared memory, and of hosts in front of them: the engine decides when a
//! packet starts, and asks here whether the far end has room.

use weft_kernel::prefetch;
use weft_units::{Limit, Rate, Span, Time};

use super::{Departure, Graph, Kind};

impl Graph {
    /// Whether a switch has a shared memory.
    #[inline]
    pub fn is_memory(&self, switch: u32) -> bool {
        matches!(self.kinds[switch as usize], Kind::Memory { .. })
    }

    /// Whether any switch has one.
    pub fn has_memories(&self) -> bool {
        self.kinds.iter().any(|kind| matches!(kind, Kind::Memory { .. }))
    }

    /// Whether a port is that of a switch with a shared memory.
    #[inline]
    pub fn is_of_memory(&self, port: u32) -> bool {
        self.owners.get(port as usize).is_some_and(|owner| self.is_memory(*owner))
    }

    /// How many cells of each input the memory of a switch holds, if the switch has one.
    pub fn memory(&self, switch: u32) -> Option<u32> {
        let Kind::Memory { buffer, .. } = self.kinds[switch as usize] else { return None };
        Some(buffer)
    }

    /// How many cells of all inputs together a memory holds, and its bandwidth, if a switch has a
    /// memory and these limit it.
    pub fn memory_limits(&self, switch: u32) -> (Limit, Option<Rate>) {
        let Kind::Memory { pool, bandwidth, .. } = self.kinds[switch as usize] else {
            return (Limit::Unlimited, None);
        };
        (pool, bandwidth)
    }

    /// Whether a port leads to a buffer of limited size.
    pub fn is_limited(&self, port: u32) -> bool {
        self.flow.is_limited(port)
    }

    /// Whether a port has a credit for a packet, or needs none.
    #[inline]
    pub fn may_send(&self, port: u32, channel: u8) -> bool {
        self.flow.may_send(port, channel)
    }

    /// Whether the far end of a port has stopped it.
    #[inline]
    pub fn is_stopped(&self, port: u32) -> bool {
        self.gates[port as usize].is_stopped()
    }

    /// Starts a packet, which takes `span`, at a free port; spends a credit.
    #[inline]
    pub fn start(&mut self, now: Time, port: u32, span: Span, channel: u8) -> Departure {
        self.flow.spend(port, channel);
        self.occupy(now, port, span);
        let (link, place) = (self.link(port), self.ports[port as usize].peer());
        let whole = if place >= self.switch_ports() { span } else { Span::ZERO };
        Departure { start: now, arrival: now + link.propagation + whole, place }
    }

    /// A free port sends for `span`.
    #[inline]
    pub fn occupy(&mut self, now: Time, port: u32, span: Span) {
        self.ports[port as usize].start(now, span, self.window);
    }

    /// A port is [occupied](Self::occupy) soon.
    #[inline]
    pub fn prefetch_port(&self, port: u32) {
        prefetch(&self.ports, port as usize);
    }

    /// How long a port was busy since recording began, up to `now`.
    pub fn busy_by(&self, now: Time, port: u32) -> Span {
        let own = &self.ports[port as usize];
        let beyond = self.window.overlap(now, own.free());
        Span(own.busy().0.saturating_sub(beyond.0))
    }

    /// The time that a signal travels on the cable in a port.
    #[inline]
    pub fn propagation(&self, port: u32) -> Span {
        self.link(port).propagation
    }

    /// The link of a port, by the number that the wiring gives it.
    #[inline]
    pub fn link_of(&self, port: u32) -> usize {
        self.ports[port as usize].link() as usize / 2
    }
}
