//! When each step of a slot of the bulk pipeline happens (Clint 3.3, Figure 5).

use weft_units::{Span, Time};

use super::Calendar;
use crate::link::SharedLinkTiming;

/// The instants of a cycle, counted from the sampling of its requests. Cycle `n` is sampled at `n`
/// slots; its transfers begin `lead` later.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PipelineTiming {
    /// From one slot to the next.
    pub slot: Span,
    /// From the sampling of requests to the transfers that are granted to them.
    pub lead: Span,
    /// How long a packet occupies a link.
    pub packet: Span,
    /// The delay of the cables from one adapter to another.
    pub wire: Span,
    /// From an input of the switch to an output.
    pub switch: Span,
    /// How signalling in packets divides the lead; absent if signalling is ideal.
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
    /// How transfers share the links with the signalling; absent if they have links of their own.
    pub shared: Option<SharedLinkTiming>,
}

impl PipelineTiming {
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

    /// The longest time from the last byte of a request to the last byte of its acknowledgment.
    pub fn longest_acknowledgment(&self) -> Span {
        let way = self.propagation * 2 + self.latency;
        self.turn_around + self.obstruction + self.acknowledgment + way
    }

    /// When adapters keep the links of the signalling channel clear for it, in slots of this
    /// length.
    pub fn calendar(&self, slot: Span) -> Calendar {
        Calendar {
            slot,
            configuration: self.configuration,
            grant_from: self.granted(),
            grant: self.grant,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Clint's bulk channel: slots of 8983.158 ns and packets of 8344 ns, sent 1880 ns after their
    /// requests were sampled, over two cables of 25 ns and a switch of 1.5 ns. On its quick channel, with
    /// a switch of 90 ns, 19 bytes take 287.879 ns, 4 bytes 60.606 ns and a packet 545.455 ns.
    #[test]
    fn a_cycle_of_clint_takes_what_figure_5_shows() {
        let carried = CarriedTiming {
            configuration: Span(287_879),
            grant: Span(60_606),
            acknowledgment: Span(60_606),
            arbitration: Span(1_260_000),
            turn_around: Span::ZERO,
            latency: Span(90_000),
            propagation: Span(25_000),
            obstruction: Span(545_455 + 287_879),
            shared: None,
        };
        let timing = PipelineTiming {
            slot: Span(8_983_158),
            lead: Span(1_880_000),
            packet: Span(8_344_000),
            wire: Span(50_000),
            switch: Span(1_500),
            carried: Some(carried),
        };
        assert_eq!(carried.configured(), Span(312_879));
        assert_eq!(carried.granted(), Span(1_572_879));
        assert_eq!(carried.shortest_lead(), Span(1_748_485), "less than the lead");
        assert_eq!(timing.sampling(2), Time(17_966_316));
        assert_eq!(timing.transfer(1), Time(10_863_158));
        assert_eq!(timing.transit(), Span(8_395_500));
        assert_eq!(timing.longest_transit(), timing.transit(), "the links are not shared");
        // The transfer of cycle 1 is answered at the latest 9.4 us after its start.
        assert_eq!(carried.longest_acknowledgment(), Span(833_334 + 60_606 + 140_000));
        assert_eq!(timing.outcome(timing.transfer(1)), Time(28_829_474));
        assert_eq!(carried.calendar(timing.slot).grant_from, Span(1_572_879));
        let shared = Some(SharedLinkTiming {
            transfer: timing.packet,
            guard: Span(956_000),
            reserve: Span(156_000),
            propagation: Span(25_000),
        });
        let timing =
            PipelineTiming { carried: Some(CarriedTiming { shared, ..carried }), ..timing };
        assert_eq!(timing.longest_transit(), Span(9_351_500));
    }
}
