//! The times in a slot at which links are kept clear for the packets of a global schedule (Clint
//! 3.3).

use weft_units::{Span, Time};

/// When the adapters keep their links clear for packets of the schedule. All spans repeat in every
/// slot, from time zero on.
///
/// The paper says this of grants: "Since the initiators know the times when grant packets are sent,
/// they can avoid collisions by not sending any packets during these times" (Clint 3.3). A
/// configuration is sampled at its instant, so its own link must be free then as well; that is a
/// choice here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Calendar {
    /// From one slot to the next.
    pub slot: Span,
    /// How long a configuration occupies the link; it starts at the beginning of the period.
    pub configuration: Span,
    /// From the beginning of the period to the first byte of the grants, as if it had come from an
    /// input of the switch.
    pub grant_from: Span,
    /// How long a grant occupies an output.
    pub grant: Span,
}

impl Calendar {
    /// The first time from `at` on at which a packet of `span` can start on a link of
    /// `propagation` and meet neither the configuration of its own adapter nor, at any output, a
    /// grant. A slot must have room for it beside both, see [`Calendar::has_room_for`].
    pub fn clear_from(&self, at: Time, span: Span, propagation: Span) -> Time {
        let mut start = at;
        loop {
            let own = self.after(start, span, Span::ZERO, self.configuration);
            let reached = own + propagation;
            let clear = self.after(reached, span, self.grant_from, self.grant) - propagation;
            if clear == start {
                return clear;
            }
            start = clear;
        }
    }

    /// Whether a slot has room for a packet of `span` beside the packets of the schedule.
    pub fn has_room_for(&self, span: Span) -> bool {
        (span + self.configuration + self.grant) * 2 < self.slot
    }

    /// `from`, or the end of the window that [from, from + span) meets.
    fn after(&self, from: Time, span: Span, offset: Span, length: Span) -> Time {
        let Some(last) = (from + span).0.checked_sub(offset.0 + 1) else { return from };
        let window = Time(last - last % self.slot.0) + offset;
        from.max(window + length)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A slot of 1000 with a configuration in 0..20 and grants that reach the outputs in 300..310;
    /// the link is 5 long and the packet 40.
    #[test]
    fn a_packet_starts_where_it_meets_nothing_of_the_schedule() {
        let calendar = Calendar {
            slot: Span(1000),
            configuration: Span(20),
            grant_from: Span(300),
            grant: Span(10),
        };
        let clear = |at| calendar.clear_from(Time(at), Span(40), Span(5)).0;
        assert_eq!([0, 19, 20].map(clear), [20, 20, 20], "the configuration");
        assert_eq!([255, 256, 304, 305].map(clear), [255, 305, 305, 305], "the grant");
        assert_eq!([960, 961, 1000].map(clear), [960, 1020, 1020], "the next configuration");
        assert!(calendar.has_room_for(Span(40)) && !calendar.has_room_for(Span(480)));
    }
}
