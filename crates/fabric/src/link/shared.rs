//! Links that two channels share on demand, as virtual channels of one physical channel: an option
//! that Clint names but did not build (2). The paper does not say how it would work; the rules here
//! are our choices, see [`SharedLinks`].

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use weft_units::{Span, Time};

/// Settings of links that a scheduled channel shares with the one that carries its signalling.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SharedLinkSettings {
    /// By how much packets of the other channel may delay a transfer; it is part of the gap of each
    /// slot. A packet that would delay it more waits in the adapter, and is dropped in the switch.
    pub guard: Span,
}

/// How long what takes on shared links.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SharedLinkTiming {
    /// How long a transfer occupies the link if it has the link to itself.
    pub transfer: Span,
    /// By how much a transfer may be delayed.
    pub guard: Span,
    /// What of the guard is kept for packets of the schedule, which always pass.
    pub reserve: Span,
    /// From one end of a link to the other.
    pub propagation: Span,
}

/// The links of all hosts around a switch, each of which transfers in slots and short packets at
/// any time share.
///
/// * A short packet goes before the bytes of a transfer as soon as it comes, also in the midst of
///   it; the transfer goes on behind it. The grain is the byte, whose time is neglected.
/// * A transfer must be through within its guard. Where a short packet would delay it beyond, the
///   packet waits for the end of the transfer in an adapter, and is dropped at an output of the
///   switch, which holds no packets. Packets that keep to a schedule always pass; a part of the
///   guard is kept for them.
/// * The output of the switch keeps what it cannot pass on, of the transfer, in a buffer of the
///   length of the guard. A hole that the initiator left in the transfer, for a packet to another
///   output, empties it again.
///
/// Times at outputs count from the inputs, as in every switch here.
#[derive(Clone, Debug)]
pub struct SharedLinks {
    timing: SharedLinkTiming,
    up: Vec<Upward>,
    down: Vec<Downward>,
    overrun: Option<u16>,
}

/// The direction from an adapter to the switch.
#[derive(Clone, Debug, Default)]
struct Upward {
    /// Until when short packets occupy it.
    short_until: Time,
    /// When the transfer ends, when it has to, and to which host it is.
    end: Time,
    limit: Time,
    to: usize,
}

/// The direction from the switch to an adapter.
#[derive(Clone, Debug, Default)]
struct Downward {
    /// Until when short packets occupy it, or room was made for them.
    short_until: Time,
    /// When the transfer begins, when it ends by what is known, and when it has to.
    begin: Time,
    end: Time,
    limit: Time,
    /// When it is paused before its end, in order of time: holes that nothing has filled.
    idle: Vec<(Time, Time)>,
}

impl SharedLinks {
    /// The links of this many hosts, all free.
    pub fn new(timing: SharedLinkTiming, hosts: usize) -> SharedLinks {
        SharedLinks {
            timing,
            up: vec![Upward::default(); hosts],
            down: vec![Downward::default(); hosts],
            overrun: None,
        }
    }

    /// The slot of a transfer begins: its first byte goes now, or behind the short packet that is
    /// on the link.
    pub fn begin(&mut self, now: Time, from: u16, to: u16) {
        let SharedLinkTiming { transfer, guard, propagation, .. } = self.timing;
        let begin = now + propagation;
        let down = &mut self.down[usize::from(to)];
        down.idle.clear();
        (down.begin, down.end) = (begin, begin + transfer);
        down.limit = down.end + guard;
        let in_switch = down.short_until.since(begin);
        let up = &mut self.up[usize::from(from)];
        (up.end, up.to) = (now + transfer, usize::from(to));
        up.limit = up.end + guard;
        let on_link = up.short_until.since(now);
        self.delay_at_source(now, from, on_link);
        self.down[usize::from(to)].insert(begin, in_switch);
        self.check(from, to);
    }

    /// The first time from `at` on at which a short packet that lasts `span` may start on the link
    /// of `host`, by what is known now.
    #[inline]
    pub fn sendable_from(&self, at: Time, host: u16, span: Span) -> Time {
        let up = &self.up[usize::from(host)];
        let fits = up.end + span + self.timing.reserve <= up.limit;
        if fits { at } else { at.max(up.end) }
    }

    /// A short packet starts on the link of `host`, on which no other one is.
    #[inline]
    pub fn send(&mut self, now: Time, host: u16, span: Span) {
        let up = &mut self.up[usize::from(host)];
        up.short_until = now + span;
        if now < up.end {
            let to = up.to as u16;
            self.delay_at_source(now, host, span);
            self.check(host, to);
        }
    }

    /// Whether a short packet may leave by the link to `host`, of which the first byte is at an
    /// input now.
    #[inline]
    pub fn has_room(&self, now: Time, host: u16, span: Span) -> bool {
        let down = &self.down[usize::from(host)];
        let (from, more) = down.more_room(now, span);
        let delay = Span(more.0.saturating_sub(down.idle_after(from).0));
        from >= down.end
            || delay == Span::ZERO
            || down.end + delay + self.timing.reserve <= down.limit
    }

    /// A short packet leaves by the link to `host`. The room that was made for another one, the
    /// rest of which was dropped, serves it first.
    #[inline]
    pub fn forward(&mut self, now: Time, host: u16, span: Span) {
        let down = &mut self.down[usize::from(host)];
        let (from, more) = down.more_room(now, span);
        down.short_until = down.short_until.max(now + span);
        down.insert(from, more);
        if down.end > down.limit {
            self.overrun.get_or_insert(host);
        }
    }

    /// When the last byte of the transfer to `host` has passed the switch, counted at the inputs
    /// and as known now. Final once that time has come.
    #[inline]
    pub fn passed(&self, host: u16) -> Time {
        self.down[usize::from(host)].end
    }

    /// When the last byte of the latest transfer of `host` has left it, as known now. Final once that
    /// time has come.
    #[inline]
    pub fn left(&self, host: u16) -> Time {
        self.up[usize::from(host)].end
    }

    /// The target of the first transfer that was delayed by more than its guard, if one ever was.
    pub fn overrun(&self) -> Option<u16> {
        self.overrun
    }

    /// The transfer of `from` is paused for `span` from `now` on.
    fn delay_at_source(&mut self, now: Time, from: u16, span: Span) {
        let up = &mut self.up[usize::from(from)];
        up.end += span;
        let last = up.end + self.timing.propagation;
        self.down[up.to].stand_still(now + self.timing.propagation, span, last);
    }

    fn check(&mut self, from: u16, to: u16) {
        let (up, down) = (&self.up[usize::from(from)], &self.down[usize::from(to)]);
        if up.end > up.limit || down.end > down.limit {
            self.overrun.get_or_insert(to);
        }
    }
}

impl Downward {
    /// From when, and for how long, a packet that occupies the link for `span` from `now` on needs
    /// the link in addition to other short packets.
    #[inline]
    fn more_room(&self, now: Time, span: Span) -> (Time, Span) {
        let from = now.max(self.short_until).max(self.begin);
        (from, (now + span).since(from))
    }

    /// For how long the transfer is paused after `from` at an output that is free.
    fn idle_after(&self, from: Time) -> Span {
        let of = |(begin, end): &(Time, Time)| end.since((*begin).max(from));
        self.idle.iter().map(of).fold(Span::ZERO, |sum, span| sum + span)
    }

    /// No byte of the transfer arrives for `span` from `at` on, and the last one arrives at `last`:
    /// buffered bytes are sent meanwhile, and then none.
    fn stand_still(&mut self, at: Time, span: Span, last: Time) {
        let kept_back = (self.end + span).since(last);
        if span > kept_back {
            self.idle.push((at + kept_back, at + span));
            self.end = last;
        }
    }

    /// The transfer is held up for `span` from `from` on, unless it is paused.
    fn insert(&mut self, from: Time, span: Span) {
        if span == Span::ZERO || from >= self.end {
            return;
        }
        let mut rest = span;
        for (begin, end) in &mut self.idle {
            *begin = (*begin).max(from).min(*end);
            let filled = end.since(*begin).min(rest);
            *begin += filled;
            rest = Span(rest.0 - filled.0);
        }
        self.idle.retain(|(begin, end)| begin < end);
        self.end += rest;
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const TIMING: SharedLinkTiming = SharedLinkTiming {
        transfer: Span(100),
        guard: Span(20),
        reserve: Span(4),
        propagation: Span(5),
    };

    fn links() -> SharedLinks {
        SharedLinks::new(TIMING, 4)
    }

    /// A transfer from 0 to 1 begins at 1000 ps: on the link to 1100 and at most 1120 ps, through
    /// the switch from 1005 to 1105 and at most 1125 ps. 16 ps of the guard are for packets of 8
    /// ps.
    #[test]
    fn a_transfer_ends_later_by_what_is_inserted_and_stays_within_its_guard() {
        let mut links = links();
        links.begin(Time(1000), 0, 1);
        assert_eq!(links.passed(1), Time(1105));
        assert_eq!(links.sendable_from(Time(1010), 0, Span(8)), Time(1010));
        links.send(Time(1010), 0, Span(8));
        assert_eq!(links.passed(1), Time(1113), "one packet");
        links.send(Time(1050), 0, Span(8));
        assert_eq!(links.passed(1), Time(1121), "two");
        assert_eq!(links.sendable_from(Time(1060), 0, Span(8)), Time(1116), "a third one waits");
        links.send(Time(1060), 0, Span(4));
        assert_eq!((links.passed(1), links.overrun()), (Time(1125), None), "of the schedule");
        links.send(Time(1070), 0, Span(1));
        assert_eq!(links.overrun(), Some(1), "more than was kept for it");
    }

    /// A packet of the initiator leaves a hole of 8 from 1015 to 1023 at output 1. There another
    /// packet of 8 delays nothing, and one that comes 3 late delays by 3.
    #[test]
    fn what_fills_a_hole_delays_nothing() {
        for (at, end) in [(1015, 1113), (1007, 1113), (1018, 1116), (1023, 1121)] {
            let mut links = links();
            links.begin(Time(1000), 0, 1);
            links.send(Time(1010), 0, Span(8));
            assert!(links.has_room(Time(at), 1, Span(8)), "{at}");
            links.forward(Time(at), 1, Span(8));
            assert_eq!(links.passed(1), Time(end), "{at}");
        }
    }

    /// At output 1 packets of others hold up 16 of the transfer. A hole of 8 lets half of that
    /// go, so that it ends no later.
    #[test]
    fn a_hole_lets_go_what_the_switch_keeps() {
        let mut links = links();
        links.begin(Time(1000), 0, 1);
        links.forward(Time(1010), 1, Span(8));
        links.forward(Time(1018), 1, Span(8));
        assert_eq!(links.passed(1), Time(1121));
        assert!(!links.has_room(Time(1030), 1, Span(8)), "dropped");
        assert!(links.has_room(Time(1121), 1, Span(8)), "behind it");
        links.send(Time(1040), 0, Span(8));
        assert_eq!((links.passed(1), links.overrun()), (Time(1121), None));
    }

    /// On the link to 1003, at the output to 1009, 4 after the first byte could be there.
    #[test]
    fn a_packet_that_is_there_first_goes_first() {
        let mut links = links();
        links.send(Time(995), 0, Span(8));
        links.forward(Time(1001), 1, Span(8));
        links.begin(Time(1000), 0, 1);
        assert_eq!(links.passed(1), Time(1109), "a hole of 3 at 1005 and a packet to 1009");
        assert_eq!(links.sendable_from(Time(1001), 0, Span(14)), Time(1103));
    }

    /// The rest of a packet that was dropped is room for the acknowledgment that drops it.
    #[test]
    fn room_is_made_once() {
        let mut links = links();
        links.begin(Time(1000), 0, 1);
        links.forward(Time(1010), 1, Span(8));
        links.forward(Time(1013), 1, Span(4));
        assert_eq!(links.passed(1), Time(1113));
        links.forward(Time(1016), 1, Span(4));
        assert_eq!(links.passed(1), Time(1115), "two more");
    }

    /// A reference model, byte by byte: a transfer whose bytes leave whenever no short packet has
    /// the link, reach the switch 5 later, and leave it in order whenever no short packet has the
    /// output.
    fn byte_by_byte(sent: &[(u64, u64)], forwarded: &[(u64, u64)]) -> u64 {
        let has =
            |list: &[(u64, u64)], at| list.iter().any(|(t, span)| (*t..t + span).contains(&at));
        let (mut to_send, mut left) = (100, 100);
        let mut arrivals = std::collections::VecDeque::new();
        let mut kept = 0;
        for at in 1000.. {
            if to_send > 0 && !has(sent, at) {
                to_send -= 1;
                arrivals.push_back(at + 5);
            }
            kept += u64::from(arrivals.pop_front_if(|arrival| *arrival == at).is_some());
            if kept > 0 && !has(forwarded, at) {
                (kept, left) = (kept - 1, left - 1);
            }
            if left == 0 {
                return at + 1;
            }
        }
        unreachable!("an unbounded range")
    }

    proptest! {
        /// Whatever comes when: the end is that of the model byte by byte, and never beyond the
        /// guard where the rule was asked.
        #[test]
        fn the_end_is_that_of_a_model_byte_by_byte(
            gaps in prop::collection::vec((any::<bool>(), 0..40_u64, 1..16_u64), 1..12),
        ) {
            let mut links = links();
            links.begin(Time(1000), 0, 1);
            let (mut sent, mut forwarded) = (Vec::new(), Vec::new());
            let (mut up, mut down, mut now) = (1000, 1000, 1000);
            for (upward, gap, span) in gaps {
                now += gap;
                if upward {
                    let at = links.sendable_from(Time(now.max(up)), 0, Span(span));
                    if at == Time(now) {
                        links.send(at, 0, Span(span));
                        sent.push((now, span));
                        up = now + span;
                    }
                } else if now >= down && links.has_room(Time(now), 1, Span(span)) {
                    links.forward(Time(now), 1, Span(span));
                    forwarded.push((now, span));
                    down = now + span;
                }
            }
            prop_assert_eq!(links.passed(1).0, byte_by_byte(&sent, &forwarded));
            prop_assert_eq!(links.overrun(), None);
            prop_assert!(links.passed(1) <= Time(1125 - 4));
        }
    }
}
