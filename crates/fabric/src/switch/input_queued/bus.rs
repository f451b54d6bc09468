//! A bus between the inputs and the outputs of a switch, which carries one packet at a time.
//!
//! It has no slots. A packet crosses as soon as the bus is free and the far end of its output has
//! room. First come, first served: of several such packets the one that could cross first goes
//! first, and of those that could in the same instant the one at the lowest input, so that none can
//! be passed for ever. That older requests go before newer ones is an idea of Memory Channel 2 (The
//! MEMORY CHANNEL 2 Hub), which tells their age only by sampling intervals. A packet without room
//! lets others pass, of its input too.

use std::collections::VecDeque;

use weft_units::{Span, Time};

use super::hubs::{Announced, Arrivals, lag};
use super::inputs::{Levels, StopSettings};
use super::{Grant, Outbox};

/// What a switch with a bus is built from.
#[derive(Debug)]
pub struct BusParts {
    /// The number of its first port.
    pub first: u32,
    /// From the first byte at an input until the bus may take the packet.
    pub latency: Span,
    /// From the decision for a packet to its first byte on the bus, which is not free until then.
    pub arbitration: Span,
    /// How long a packet takes on the link of each port. It is on the bus for as long as on the link
    /// behind it, since outputs have no buffers.
    pub spans: Vec<Span>,
    /// How many packets of each virtual channel an input holds, if it gives credits.
    pub room: u32,
    /// The largest number of these that an input may hold while its sender certainly has a credit
    /// left.
    pub spare: Vec<u32>,
    /// Virtual channels of each cable.
    pub channels: u8,
    /// When inputs stop their cables, if they do that instead.
    pub stops: Option<StopSettings>,
}

impl BusParts {
    /// From the decision for a packet to the end of its transmission by each output.
    pub(super) fn occupations(&self) -> Box<[Span]> {
        self.spans.iter().map(|span| self.arbitration + *span).collect()
    }
}

/// A bus with the queues before it. Functions without a comment are those of
/// [`InputQueued`](super::InputQueued).
#[derive(Debug)]
pub(super) struct Bus {
    channels: usize,
    spans: Box<[Span]>,
    occupations: Box<[Span]>,
    /// When the bus has carried the packet that crossed last.
    free: Time,
    announced: Announced,
    arrivals: Arrivals,
    /// Packets that have chosen their output, in the order in which they may cross, by output and
    /// virtual channel.
    queues: Box<[VecDeque<Waiting>]>,
    /// Likewise, whether no credit is left there.
    without_credit: Box<[bool]>,
    /// The outputs that the far end has stopped.
    stopped: Box<[bool]>,
    /// Packets that have chosen each output and have not left.
    waiting: Box<[u32]>,
    levels: Levels,
}

/// A packet that has chosen its output.
#[derive(Clone, Copy, Debug)]
struct Waiting {
    /// From when on it may cross.
    ready: Time,
    input: u16,
    packet: u32,
}

impl Waiting {
    fn order(&self) -> (Time, u16) {
        (self.ready, self.input)
    }
}

impl Bus {
    pub fn new(parts: BusParts) -> Bus {
        let (ports, channels) = (parts.spans.len(), usize::from(parts.channels));
        Bus {
            channels,
            occupations: parts.occupations(),
            spans: parts.spans.into(),
            free: Time::ZERO,
            announced: Announced::NONE,
            arrivals: Arrivals::new(ports, parts.latency),
            queues: vec![VecDeque::new(); ports * channels].into(),
            without_credit: vec![false; ports * channels].into(),
            stopped: vec![false; ports].into(),
            waiting: vec![0; ports].into(),
            levels: Levels::new(ports, parts.stops),
        }
    }

    pub fn expect(&mut self, arrival: Time, packet: u32, input: u32) -> Option<Time> {
        let ready = self.arrivals.expect(arrival, packet, input);
        self.announced.attend(ready)
    }

    pub fn edge(
        &mut self,
        now: Time,
        _behind: &mut [u32],
        outbox: &mut Outbox,
        choose: impl FnMut(u32, &[u32]) -> (u32, u8),
    ) {
        if !self.announced.take(now) {
            return;
        }
        self.admit_all(now, outbox, choose);
        if self.free <= now
            && let Some(lot) = self.first().filter(|own| own.ready <= now).map(|own| own.lot)
        {
            self.pass(now, lot, outbox);
        }
    }

    /// Packets that can be decided on from now on choose their outputs.
    fn admit_all(
        &mut self,
        now: Time,
        outbox: &mut Outbox,
        mut choose: impl FnMut(u32, &[u32]) -> (u32, u8),
    ) {
        let Bus { arrivals, queues, waiting, levels, spans, channels, .. } = self;
        arrivals.take(now, |input, ready, packet| {
            let (output, channel) = choose(packet, waiting);
            waiting[output as usize] += 1;
            let ready = ready + lag(spans, input, output);
            let own = Waiting { ready, input: input as u16, packet };
            let queue = &mut queues[output as usize * *channels + usize::from(channel)];
            let place = queue.partition_point(|other| other.order() <= own.order());
            queue.insert(place, own);
            // It takes its place while its last bytes still come, so it counts before it may cross.
            levels.count_in(own.input, outbox);
        });
    }

    /// The packet that crosses next if nothing changes, among those with room.
    fn first(&self) -> Option<First> {
        let has_room = |lot: usize| !self.without_credit[lot] && !self.stopped[lot / self.channels];
        let heads = self.queues.iter().enumerate().filter(|(lot, _)| has_room(*lot));
        let heads = heads.filter_map(|(lot, queue)| Some((queue.front()?, lot)));
        let (first, lot) = heads.min_by_key(|(own, _)| own.order())?;
        Some(First { ready: first.ready, lot })
    }

    /// The first packet of a queue crosses. It counts as having left its input from the decision on,
    /// `arbitration` before its first byte leaves.
    fn pass(&mut self, now: Time, lot: usize, outbox: &mut Outbox) {
        let Some(Waiting { input, packet, .. }) = self.queues[lot].pop_front() else { return };
        let output = lot / self.channels;
        self.waiting[output] -= 1;
        self.free = now + self.occupations[output];
        self.levels.count_out(input, outbox);
        let (output, channel) = (output as u16, (lot % self.channels) as u8);
        outbox.grants.push(Grant { packet, input, output, channel });
    }

    pub fn next_edge(&mut self, now: Time) -> Option<Time> {
        let crosses = self.first().map_or(Time::NEVER, |first| first.ready.max(self.free));
        self.announced.attend(crosses.min(self.arrivals.soonest()).max(now))
    }

    pub fn lose_credit(&mut self, output: u32, channel: u8) {
        self.without_credit[self.lot(output, channel)] = true;
    }

    pub fn regain_credit(&mut self, now: Time, output: u32, channel: u8) -> Option<Time> {
        self.without_credit[self.lot(output, channel)] = false;
        self.next_edge(now)
    }

    pub fn stop(&mut self, now: Time, output: u32, stops: bool) -> Option<Time> {
        self.stopped[output as usize] = stops;
        if stops { None } else { self.next_edge(now) }
    }

    fn lot(&self, output: u32, channel: u8) -> usize {
        output as usize * self.channels + usize::from(channel)
    }

    // What waits for what.

    pub fn waiting(&self, output: u32) -> u32 {
        self.waiting[output as usize]
    }

    pub fn is_stopped(&self, output: u32) -> bool {
        self.stopped[output as usize]
    }

    pub fn is_wanted(&self, output: u32, channel: u8) -> bool {
        !self.queues[self.lot(output, channel)].is_empty()
    }

    pub fn wanted_of(&self, input: u32) -> Vec<u32> {
        let is_of_input = |own: &Waiting| u32::from(own.input) == input;
        let queues = self.queues.chunks(self.channels);
        let wants = |queues: &[VecDeque<Waiting>]| queues.iter().flatten().any(is_of_input);
        (0..).zip(queues).filter(|(_, queues)| wants(queues)).map(|(output, _)| output).collect()
    }

    pub fn space(&self) -> u32 {
        self.levels.space()
    }
}

/// The packet that crosses next: when it may, and its queue.
#[derive(Clone, Copy)]
struct First {
    ready: Time,
    lot: usize,
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A bus between ports whose links take a packet these spans.
    fn bus(spans: &[u64], arbitration: u64) -> Bus {
        let spans: Vec<Span> = spans.iter().map(|span| Span(*span)).collect();
        let spare = vec![0; spans.len()];
        let (latency, arbitration) = (Span(5), Span(arbitration));
        let parts = BusParts {
            first: 0,
            latency,
            arbitration,
            spans,
            room: 8,
            spare,
            channels: 1,
            stops: None,
        };
        Bus::new(parts)
    }

    /// Everything that crosses until nothing more is announced: when, which, from where and to
    /// where. Packet n leaves by output `outputs[n]`.
    fn crossing(bus: &mut Bus, outputs: &[u32]) -> Vec<(u64, u32, u16, u16)> {
        let (mut seen, mut outbox) = (Vec::new(), Outbox::default());
        while bus.announced.due() != Time::NEVER {
            let now = bus.announced.due();
            bus.edge(now, &mut [], &mut outbox, |packet, _| (outputs[packet as usize], 0));
            let grants = outbox.grants.drain(..);
            seen.extend(grants.map(|own| (now.0, own.packet, own.input, own.output)));
            bus.next_edge(now);
        }
        seen
    }

    /// All are there at 105, but the second, at 103. They go to different outputs and do not pass
    /// together; of those that came together, the lowest input is first.
    #[test]
    fn one_packet_crosses_at_a_time_in_the_order_of_arrival() {
        let mut bus = bus(&[60; 4], 10);
        for (packet, input, arrival) in [(0, 3, 100), (1, 2, 98), (2, 0, 100)] {
            bus.expect(Time(arrival), packet, input);
        }
        let seen = crossing(&mut bus, &[0, 1, 2]);
        assert_eq!(seen, [(103, 1, 2, 1), (173, 2, 0, 2), (243, 0, 3, 0)]);
        // It is free at 313.
        bus.expect(Time(300), 1, 0);
        assert_eq!(crossing(&mut bus, &[0, 1]), [(313, 1, 0, 1)]);
        bus.expect(Time(400), 0, 1);
        assert_eq!(crossing(&mut bus, &[0]), [(405, 0, 1, 0)]);
    }

    /// Output 2 has no credit and then is stopped: what is for output 3 passes it, from the same
    /// input too. What waited goes first when there is room, since it came first.
    #[test]
    fn what_waits_for_room_lets_others_pass_and_keeps_its_place() {
        let outputs = [2, 3, 3, 2, 3];
        let mut bus = bus(&[50; 4], 0);
        bus.lose_credit(2, 0);
        for (packet, input, arrival) in [(0, 0, 0), (1, 0, 50), (2, 1, 60), (3, 1, 110)] {
            bus.expect(Time(arrival), packet, input);
        }
        assert_eq!(crossing(&mut bus, &outputs), [(55, 1, 0, 3), (105, 2, 1, 3)]);
        assert_eq!((bus.waiting(2), bus.is_wanted(2, 0), bus.is_wanted(3, 0)), (2, true, false));
        assert_eq!(
            [bus.wanted_of(0), bus.wanted_of(1), bus.wanted_of(2)],
            [vec![2], vec![2], vec![]]
        );
        assert_eq!(bus.stop(Time(200), 2, true), None);
        assert_eq!(bus.regain_credit(Time(200), 2, 0), None);
        bus.expect(Time(295), 4, 3);
        assert_eq!(bus.stop(Time(299), 2, false), Some(Time(299)));
        assert_eq!(crossing(&mut bus, &outputs), [(299, 0, 0, 2), (349, 3, 1, 2), (399, 4, 3, 3)]);
        assert!(bus.waiting.iter().all(|waiting| *waiting == 0));
    }

    /// A credit that comes back while the bus is busy counts when it is free.
    #[test]
    fn a_credit_does_not_interrupt_a_packet() {
        let mut bus = bus(&[50; 3], 0);
        bus.lose_credit(2, 0);
        bus.expect(Time(10), 0, 0);
        bus.expect(Time(15), 1, 1);
        assert_eq!(crossing(&mut bus, &[2, 0]), [(20, 1, 1, 0)]);
        assert_eq!(bus.regain_credit(Time(30), 2, 0), Some(Time(70)));
        assert_eq!(crossing(&mut bus, &[2, 0]), [(70, 0, 0, 2)]);
    }

    /// From a link of 100 to one of 40 it crosses when its last byte comes in time, and it holds the
    /// bus for 40; from there to the slow link it crosses at once, and holds the bus for 100.
    #[test]
    fn a_packet_is_on_the_bus_for_as_long_as_on_the_link_behind() {
        let mut bus = bus(&[100, 40, 40], 0);
        bus.expect(Time(0), 0, 0);
        bus.expect(Time(10), 1, 2);
        bus.expect(Time(20), 2, 1);
        let seen = crossing(&mut bus, &[1, 1, 0]);
        // The first would be ready at 65, when the last one is on the bus from 55 to 155.
        assert_eq!(seen, [(15, 1, 2, 1), (55, 2, 1, 0), (155, 0, 0, 1)]);
    }
}
