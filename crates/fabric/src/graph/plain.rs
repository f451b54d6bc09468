//! What packets meet on their way through a graph in which none waits for room and all links and
//! switches are alike: most fabrics of output-queued switches are such graphs.

use super::{Departure, Graph, Link, Port, RecordingWindow, Switch};
use weft_kernel::prefetch;
use weft_units::Time;

/// The switches of such a graph, at hand for many packets one after another.
#[derive(Clone, Copy, Debug)]
pub struct PlainSwitches<'a> {
    ports: &'a [Port],
    owners: &'a [u32],
    switches: &'a [Switch],
    links: &'a [Link],
    window: RecordingWindow,
}

impl Graph {
    /// Whether all switches queue without limits at their outputs, before cables that never wait, and all switches
    /// and links are alike.
    pub fn is_plain_throughout(&self) -> bool {
        self.is_without_limits() && !self.is_mixed
    }

    /// The switches of a graph that is [plain throughout](Self::is_plain_throughout).
    #[inline]
    pub fn plain_switches(&self) -> PlainSwitches<'_> {
        let Graph { ports, owners, switches, links, window, .. } = self;
        PlainSwitches { ports, owners, switches, links, window: *window }
    }
}

impl PlainSwitches<'_> {
    /// The first byte of a packet is at a port of a switch. The packet leaves by the port that `choose` returns for the
    /// number of the switch.
    #[inline(always)]
    pub fn cross(&self, now: Time, input: u32, choose: impl FnOnce(u32) -> u32) -> Departure {
        let switch = self.owners[input as usize];
        let Switch { first, number, latency, .. } = self.switches[switch as usize];
        let own = &self.ports[(first + choose(number)) as usize];
        let link = &self.links[own.link() as usize];
        let start = own.enqueue(now + latency, link.span, self.window);
        Departure { start, arrival: start + link.arrival, place: own.peer() }
    }

    /// A packet comes to a port soon, whose switch has its outputs near it.
    #[inline(always)]
    pub fn prefetch(&self, input: u32) {
        prefetch(self.ports, input as usize);
    }
}
