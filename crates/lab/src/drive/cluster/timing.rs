//! When what happens in a slot of the bulk pipeline (Clint 3.3, Figure 5).

use weft_fabric::link::SharedLinkTiming;
use weft_units::{Span, Time};

/// The instants of a cycle, counted from the sampling of its requests. Cycle `n` is sampled at `n`
/// slots; its transfers begin `lead` later.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timing {
    /// From one slot to the next.
    pub slot: Span,
    /// From the sampling of requests to the transfers that are granted to them.
    pub lead: Span,
    /// How long a packet occupies a link.
    pub packet: Span,
    /// From an adapter to an adapter on cables.
    pub wire: Span,
    /// From an input of the switch to an output.
    pub switch: Span,
    /// How signalling that travels as packets divides the lead; absent where it is ideal.
    pub carried: Option<CarriedTiming>,
}

/// How signalling divides the lead.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CarriedTiming {
    /// How long a configuration occupies a link.
    pub configuration: Span,
    /// How long a grant occupies a link.
    pub grant: Span,
    /// How long an acknowledgment occupies a link.
    pub acknowledgment: Span,
    /// From the arrival of the configurations to the start of the grants in the switch.
    pub arbitration: Span,
    /// From the last byte of a request to the acknowledgment that is ready to be sent.
    pub turn_around: Span,
    /// From an input to an output of the switch that carries them.
    pub latency: Span,
    /// From one end of its links to the other.
    pub propagation: Span,
    /// The longest time for which another packet can be on the link when an acknowledgment wants
    /// to start.
    pub obstruction: Span,
    /// How the transfers share the links with all that; absent where they have links of their own.
    pub shared: Option<SharedLinkTiming>,
}

impl Timing {
    /// From the start of a transfer to the arrival of its last byte.
    pub fn transit(&self) -> Span {
        self.packet + self.wire + self.switch
    }

    /// When the requests of a cycle are sampled and its configurations leave.
    pub fn sampling(&self, cycle: u64) -> Time {
        Time::ZERO + self.slot * cycle
    }

    /// When the transfers of a cycle begin.
    pub fn transfer(&self, cycle: u64) -> Time {
        self.sampling(cycle) + self.lead
    }

    /// From the start of a transfer to the arrival of its last byte at the latest.
    pub fn longest_transit(&self) -> Span {
        let shared = self.carried.and_then(|carried| carried.shared);
        self.transit() + shared.map_or(Span::ZERO, |shared| shared.guard)
    }

    /// When an initiator without an acknowledgment knows that its transfer failed: the end of the
    /// acknowledgment stage.
    pub fn outcome(&self, start: Time) -> Time {
        start + self.slot * 2
    }
}

impl CarriedTiming {
    /// From the sampling to the last byte of the configurations at the switch.
    pub fn configured(&self) -> Span {
        self.configuration + self.propagation
    }

    /// From the sampling to the moment at which the grants enter the output stages.
    pub fn granted(&self) -> Span {
        self.configured() + self.arbitration
    }

    /// From the sampling to the last byte of the grants at the adapters: the shortest lead.
    pub fn shortest_lead(&self) -> Span {
        self.granted() + self.latency + self.grant + self.propagation
    }

    /// From the last byte of a request to the last byte of its acknowledgment, at the most.
    pub fn longest_acknowledgment(&self) -> Span {
        let way = self.propagation * 2 + self.latency;
        self.turn_around + self.obstruction + self.acknowledgment + way
    }
}
