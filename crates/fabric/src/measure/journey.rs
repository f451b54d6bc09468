//! The latency of a message between links with turns, by stages: that of its last packet, which ends
//! with the message, and the legs of its first packet, which sets up the path (Maestro Table 2 and
//! Figure 8).

use weft_units::{Span, Time};

use super::Stage;

/// The position of a message, and the stages of its last packet so far.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Journey {
    /// When its first packet reached its present position.
    head: Time,
    /// When the switch that it is in began to read its header, and to set up its transfer.
    read: Time,
    invoked: Time,
    /// When its last packet reached its present position.
    tail: Time,
    memory: Span,
    link_wait: Span,
    transmission: Span,
    wire: Span,
    switch: Span,
    switch_wait: Span,
}

/// A packet of a message: whether it is the first, and whether the last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ends {
    /// The first one, which says where the message goes.
    pub first: bool,
    /// The last one.
    pub last: bool,
}

/// The time of a packet on a link without waiting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Crossing {
    /// For its length.
    pub transmission: Span,
    /// On the cable.
    pub wire: Span,
}

/// The instants between which a message passes its stages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct JourneyEnds {
    /// When it was submitted.
    pub generated: Time,
    /// When its first byte was moved.
    pub begun: Time,
    /// When its last packet arrived at its target.
    pub arrived: Time,
    /// When it was complete in the memory of its target.
    pub complete: Time,
}

impl Journey {
    /// A message that is in the memory of its initiator.
    pub fn new(now: Time) -> Journey {
        let [memory, link_wait, transmission, wire, switch, switch_wait] = [Span::ZERO; 6];
        Journey {
            head: now,
            read: now,
            invoked: now,
            tail: now,
            memory,
            link_wait,
            transmission,
            wire,
            switch,
            switch_wait,
        }
    }

    /// A packet is in the send FIFO of the initiator, whose first byte was moved at `begun`.
    pub fn filled(&mut self, now: Time, begun: Time, ends: Ends) {
        if ends.first {
            self.head = now;
        }
        if ends.last {
            self.tail = now;
            self.memory = now.since(begun);
        }
    }

    /// The first packet moves on. Returns how long it took from its previous position.
    pub fn advance(&mut self, now: Time) -> Span {
        let span = now.since(self.head);
        self.head = now;
        span
    }

    /// How long the first packet has been in its present position.
    pub fn since_head(&self, now: Time) -> Span {
        now.since(self.head)
    }

    /// The last packet has arrived over a link, to a switch.
    pub fn cross(&mut self, now: Time, link: Crossing) {
        let moving = link.transmission + link.wire;
        self.link_wait += Span(now.since(self.tail).0.saturating_sub(moving.0));
        self.transmission += link.transmission;
        self.wire += link.wire;
        self.tail = now;
    }

    /// The last packet has passed a switch, which takes `alone` if nothing else is there.
    pub fn pass(&mut self, now: Time, alone: Span) {
        let span = now.since(self.tail);
        let switch = alone.min(span);
        self.switch += switch;
        self.switch_wait += Span(span.0 - switch.0);
        self.tail = now;
    }

    /// A switch begins to read its header.
    pub fn read(&mut self, now: Time) {
        self.read = now;
    }

    /// How long a switch has read its header.
    pub fn since_read(&self, now: Time) -> Span {
        now.since(self.read)
    }

    /// A switch begins to set up its transfer.
    pub fn invoke(&mut self, now: Time) {
        self.invoked = now;
    }

    /// How long its transfer has taken, with its set-up.
    pub fn since_invoked(&self, now: Time) -> Span {
        now.since(self.invoked)
    }

    /// The last packet continues as the last packet of another message, a branch of this one.
    pub fn part(&self, other: &mut Journey) {
        let Journey { head, read, invoked, .. } = *other;
        *other = Journey { head, read, invoked, ..*self };
    }

    /// The stages of a message whose last packet arrived over a last link. They add up to the whole latency.
    pub fn stages(&self, ends: JourneyEnds, link: Crossing) -> [(Stage, Span); 8] {
        let JourneyEnds { generated, begun, arrived, complete } = ends;
        let mut whole = *self;
        whole.cross(arrived, link);
        [
            (Stage::BufferWait, begun.since(generated)),
            (Stage::InitiatorHost, whole.memory),
            (Stage::SlotWait, whole.link_wait),
            (Stage::Transmission, whole.transmission),
            (Stage::Wire, whole.wire),
            (Stage::Switch, whole.switch),
            (Stage::SwitchWait, whole.switch_wait),
            (Stage::TargetHost, complete.since(arrived)),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LINK: Crossing = Crossing { transmission: Span(640), wire: Span(10) };

    fn at(time: u64) -> Time {
        Time(time)
    }

    /// Submitted at 100 ps and begun at 130 ps: in the FIFO at 450 ps, on the link 200 ps later for
    /// 650 ps, in a switch for 3000 ps of which 2260 ps are its own, immediately on the last link,
    /// and read for 320 ps.
    #[test]
    fn stages_are_the_whole_of_the_time() {
        let mut own = Journey::new(at(100));
        own.filled(at(450), at(130), Ends { first: true, last: true });
        own.cross(at(1_300), LINK);
        own.pass(at(4_300), Span(2_260));
        let ends = JourneyEnds {
            generated: at(100),
            begun: at(130),
            arrived: at(4_950),
            complete: at(5_270),
        };
        let stages = own.stages(ends, LINK);
        let spans = stages.map(|(_, span)| span.0);
        assert_eq!(spans, [30, 320, 200, 1_280, 20, 2_260, 740, 320]);
        assert_eq!(spans.iter().sum::<u64>(), 5_270 - 100);
    }

    /// The first packet is timed from place to place, and the last one does not move that clock.
    #[test]
    fn the_first_packet_is_timed_from_place_to_place() {
        let mut own = Journey::new(at(0));
        own.filled(at(40), at(0), Ends { first: true, last: false });
        own.filled(at(90), at(0), Ends { first: false, last: true });
        assert_eq!(own.since_head(at(100)), Span(60));
        assert_eq!((own.advance(at(100)), own.advance(at(130))), (Span(60), Span(30)));
    }

    /// A branch is as far as the whole message when the last packet continues in it.
    #[test]
    fn a_part_takes_over_where_the_time_went() {
        let mut own = Journey::new(at(0));
        let mut part = own;
        own.filled(at(100), at(0), Ends { first: false, last: true });
        own.cross(at(900), LINK);
        own.part(&mut part);
        let [generated, begun] = [at(0); 2];
        let [arrived, complete] = [at(1_600); 2];
        let ends = JourneyEnds { generated, begun, arrived, complete };
        assert_eq!(part.stages(ends, LINK), own.stages(ends, LINK));
    }
}
