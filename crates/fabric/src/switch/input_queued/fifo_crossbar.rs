//! The crossbar of a hub, without slots (Memory Channel 2, The MEMORY CHANNEL 2 Hub).
//!
//! An input has one queue. Its first packet asks for its output once the packet before it has been
//! read, and passes when the output is free and its far end has room; whatever is behind it waits
//! meanwhile. Among the requests for an output decides request sampling: those that were sampled
//! together count as equally old and go by their inputs, before any newer one. A scheduler for all
//! outputs that are free may stand in its place.

use std::collections::VecDeque;

use weft_units::{Span, Time};

use super::hubs::{Announced, Arrivals, lag};
use super::inputs::{Levels, StopSettings};
use super::{Grant, Outbox};
use crate::switch::hub::{HubScheduler, Sampled};

/// What a switch with the crossbar of a hub is built from: up to 64 ports, and one virtual channel.
#[derive(Debug)]
pub struct FifoCrossbarParts {
    /// The number of its first port.
    pub first: u32,
    /// From the first byte at an input until its packet may ask for its output.
    pub latency: Span,
    /// How long a packet takes on the link of each port. Its input and its output are occupied for as
    /// long as it takes on the link behind, since outputs have no buffers.
    pub spans: Vec<Span>,
    /// How many packets an input holds, if it gives credits.
    pub room: u32,
    /// The largest number of these that an input may hold while its sender certainly has a credit
    /// left.
    pub spare: Vec<u32>,
    /// When inputs stop their cables, if they do that instead.
    pub stops: Option<StopSettings>,
    /// What decides in place of request sampling.
    pub scheduler: Option<Box<HubScheduler>>,
}

/// A crossbar with a queue before each input. Functions without a comment are those of
/// [`InputQueued`](super::InputQueued).
#[derive(Debug)]
pub(super) struct FifoCrossbar {
    spans: Box<[Span]>,
    announced: Announced,
    arrivals: Arrivals,
    inputs: Box<[Input]>,
    outputs: Box<[Output]>,
    /// A bit for each input whose first packet has asked for its output.
    asking: u64,
    scheduler: Option<Box<HubScheduler>>,
    /// Packets that have chosen each output and have not left.
    waiting: Box<[u32]>,
    levels: Levels,
}

#[derive(Clone, Debug, Default)]
struct Input {
    /// Packets that have chosen their output, in the order in which they came.
    queue: VecDeque<Waiting>,
    /// When the packet that passed last has been read.
    free: Time,
}

/// A packet that has chosen its output.
#[derive(Clone, Copy, Debug)]
struct Waiting {
    /// From when on it may pass.
    ready: Time,
    output: u16,
    packet: u32,
}

#[derive(Clone, Debug, Default)]
struct Output {
    requests: Sampled,
    free: Time,
    is_without_credit: bool,
    is_stopped: bool,
}

impl Input {
    /// When its first packet may ask for its output, if there is one.
    fn asks(&self) -> Time {
        self.queue.front().map_or(Time::NEVER, |first| first.ready.max(self.free))
    }
}

impl Output {
    fn has_room(&self) -> bool {
        !self.is_without_credit && !self.is_stopped
    }
}

impl FifoCrossbar {
    pub fn new(parts: FifoCrossbarParts) -> FifoCrossbar {
        let ports = parts.spans.len();
        FifoCrossbar {
            spans: parts.spans.into(),
            announced: Announced::NONE,
            arrivals: Arrivals::new(ports, parts.latency),
            inputs: vec![Input::default(); ports].into(),
            outputs: vec![Output::default(); ports].into(),
            asking: 0,
            scheduler: parts.scheduler,
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
        self.ask(now);
        let ready = self.ready_outputs(now);
        if ready == 0 {
            return;
        }
        if let Some(mut scheduler) = self.scheduler.take() {
            let matching = scheduler.decide(ready, |output| self.outputs[output].requests);
            for (input, output) in matching.iter() {
                self.outputs[output].requests.remove(input);
                self.pass(now, input, outbox);
            }
            self.scheduler = Some(scheduler);
            return;
        }
        for output in (0..self.outputs.len()).filter(|output| ready >> output & 1 == 1) {
            if let Some(input) = self.outputs[output].requests.take() {
                self.pass(now, input, outbox);
            }
        }
    }

    /// Packets that can be decided on from now on choose their outputs.
    fn admit_all(
        &mut self,
        now: Time,
        outbox: &mut Outbox,
        mut choose: impl FnMut(u32, &[u32]) -> (u32, u8),
    ) {
        let FifoCrossbar { arrivals, inputs, waiting, levels, spans, .. } = self;
        arrivals.take(now, |input, ready, packet| {
            let (output, _) = choose(packet, waiting);
            waiting[output as usize] += 1;
            let ready = ready + lag(spans, input, output);
            inputs[input].queue.push_back(Waiting { ready, output: output as u16, packet });
            levels.count_in(input as u16, outbox);
        });
    }

    /// The first packets of inputs ask for their outputs, each once.
    fn ask(&mut self, now: Time) {
        for (place, input) in self.inputs.iter().enumerate() {
            let Some(first) = input.queue.front() else { continue };
            if self.asking >> place & 1 == 0 && input.asks() <= now {
                self.asking |= 1 << place;
                self.outputs[usize::from(first.output)].requests.add(place);
            }
        }
    }

    /// The outputs that are asked for and can send, a bit each.
    fn ready_outputs(&self, now: Time) -> u64 {
        let is_ready = |own: &Output| !own.requests.is_empty() && own.free <= now && own.has_room();
        let all = self.outputs.iter().enumerate();
        all.filter(|(_, own)| is_ready(own)).fold(0, |ready, (output, _)| ready | 1 << output)
    }

    /// The first packet of an input passes, whose request has been taken.
    fn pass(&mut self, now: Time, place: usize, outbox: &mut Outbox) {
        let input = &mut self.inputs[place];
        let Some(Waiting { output, packet, .. }) = input.queue.pop_front() else { return };
        let end = now + self.spans[usize::from(output)];
        input.free = end;
        self.outputs[usize::from(output)].free = end;
        self.asking &= !(1 << place);
        self.waiting[usize::from(output)] -= 1;
        let input = place as u16;
        self.levels.count_out(input, outbox);
        outbox.grants.push(Grant { packet, input, output, channel: 0 });
    }

    pub fn next_edge(&mut self, now: Time) -> Option<Time> {
        let is_new = |place: &usize| self.asking >> place & 1 == 0;
        let asks = (0..self.inputs.len()).filter(is_new).map(|place| self.inputs[place].asks());
        let can_send = |own: &&Output| !own.requests.is_empty() && own.has_room();
        let sends = self.outputs.iter().filter(can_send).map(|own| own.free);
        let next = asks.chain(sends).fold(self.arrivals.soonest(), Time::min);
        self.announced.attend(next.max(now))
    }

    pub fn lose_credit(&mut self, output: u32, _channel: u8) {
        self.outputs[output as usize].is_without_credit = true;
    }

    pub fn regain_credit(&mut self, now: Time, output: u32, _channel: u8) -> Option<Time> {
        self.outputs[output as usize].is_without_credit = false;
        self.next_edge(now)
    }

    pub fn stop(&mut self, now: Time, output: u32, stops: bool) -> Option<Time> {
        self.outputs[output as usize].is_stopped = stops;
        if stops { None } else { self.next_edge(now) }
    }

    // What waits for what: the first packet of an input for its output, the others for the first.

    pub fn waiting(&self, output: u32) -> u32 {
        self.waiting[output as usize]
    }

    pub fn is_stopped(&self, output: u32) -> bool {
        self.outputs[output as usize].is_stopped
    }

    pub fn is_wanted(&self, output: u32, _channel: u8) -> bool {
        (0..self.inputs.len() as u32).any(|input| self.wanted_of(input).contains(&output))
    }

    pub fn wanted_of(&self, input: u32) -> Vec<u32> {
        let first = self.inputs[input as usize].queue.front();
        first.iter().map(|first| u32::from(first.output)).collect()
    }

    pub fn space(&self) -> u32 {
        self.levels.space()
    }
}

#[cfg(test)]
mod tests {
    use weft_kernel::Streams;

    use super::*;
    use crate::scheduler::SchedulerSettings;

    const LATENCY: Span = Span(5);

    /// A crossbar between ports whose links take a packet these spans.
    fn crossbar(spans: &[u64], scheduler: Option<&SchedulerSettings>) -> FifoCrossbar {
        let random = Streams::new(1).stream("hub", 0);
        let scheduler = scheduler
            .map(|own| Box::new(HubScheduler::new(own, spans.len(), random).expect("few ports")));
        FifoCrossbar::new(FifoCrossbarParts {
            first: 0,
            latency: LATENCY,
            spans: spans.iter().map(|span| Span(*span)).collect(),
            room: 8,
            spare: vec![0; spans.len()],
            stops: None,
            scheduler,
        })
    }

    /// Everything that passes until nothing more is announced: when, which, from where and to where.
    /// Packet n leaves by output `outputs[n]`.
    fn passing(own: &mut FifoCrossbar, outputs: &[u32]) -> Vec<(u64, u32, u16, u16)> {
        let (mut seen, mut outbox) = (Vec::new(), Outbox::default());
        while own.announced.due() != Time::NEVER {
            let now = own.announced.due();
            own.edge(now, &mut [], &mut outbox, |packet, _| (outputs[packet as usize], 0));
            let grants = outbox.grants.drain(..);
            seen.extend(grants.map(|grant| (now.0, grant.packet, grant.input, grant.output)));
            own.next_edge(now);
        }
        seen
    }

    /// Packets 0 and 1, of different inputs to different outputs, pass together; 2 waits for its
    /// input, and 3 for the output of 2.
    #[test]
    fn packets_pass_together_and_those_of_an_input_in_order() {
        let mut own = crossbar(&[60; 4], None);
        for (packet, input, arrival) in [(0, 0, 0), (1, 1, 0), (2, 0, 10), (3, 2, 70)] {
            own.expect(Time(arrival), packet, input);
        }
        let seen = passing(&mut own, &[2, 3, 1, 1]);
        assert_eq!(seen, [(5, 0, 0, 2), (5, 1, 1, 3), (65, 2, 0, 1), (125, 3, 2, 1)]);
        assert!(own.waiting.iter().all(|waiting| *waiting == 0));
    }

    /// While output 3 sends until 55, inputs 1 and 2 ask for it and are sampled then; input 0 asks at
    /// 65, has the higher priority, and comes after both.
    #[test]
    fn requests_that_were_sampled_go_before_newer_ones() {
        let mut own = crossbar(&[50; 4], None);
        for (packet, input, arrival) in [(0, 3, 0), (1, 2, 10), (2, 1, 20), (3, 0, 60)] {
            own.expect(Time(arrival), packet, input);
        }
        let seen = passing(&mut own, &[3; 4]);
        assert_eq!(seen, [(5, 0, 3, 3), (55, 2, 1, 3), (105, 1, 2, 3), (155, 3, 0, 3)]);
    }

    /// Output 2 has no credit: the packet of input 0 that is for output 3 waits behind the one for 2,
    /// and that of input 1 passes.
    #[test]
    fn the_first_packet_holds_up_those_behind_it() {
        let outputs = [2, 3, 3];
        let mut own = crossbar(&[50; 4], None);
        own.lose_credit(2, 0);
        for (packet, input, arrival) in [(0, 0, 0), (1, 0, 50), (2, 1, 60)] {
            own.expect(Time(arrival), packet, input);
        }
        assert_eq!(passing(&mut own, &outputs), [(65, 2, 1, 3)]);
        assert_eq!((own.waiting(3), own.is_wanted(2, 0), own.is_wanted(3, 0)), (1, true, false));
        assert_eq!((own.wanted_of(0), own.wanted_of(1)), (vec![2], vec![]));
        own.stop(Time(70), 2, true);
        assert_eq!(own.regain_credit(Time(80), 2, 0), None);
        assert_eq!(own.stop(Time(99), 2, false), Some(Time(99)));
        assert_eq!(passing(&mut own, &outputs), [(99, 0, 0, 2), (149, 1, 0, 3)]);
    }

    /// From a link of 100 to one of 40 it passes when its last byte comes in time; the next one of the
    /// input may follow when the link behind has taken the first.
    #[test]
    fn a_packet_occupies_both_ends_for_as_long_as_the_link_behind_takes() {
        let mut own = crossbar(&[100, 40, 40], None);
        for (packet, input, arrival) in [(0, 0, 0), (1, 1, 0), (2, 1, 40)] {
            own.expect(Time(arrival), packet, input);
        }
        // The first from 0 to 1 is ready at 65, the second takes output 0 from 5 to 105.
        let seen = passing(&mut own, &[1, 0, 2]);
        assert_eq!(seen, [(5, 1, 1, 0), (65, 0, 0, 1), (105, 2, 1, 2)]);
    }

    /// Any scheduler takes the place of request sampling.
    #[test]
    fn every_scheduler_serves_every_request_one_at_a_time() {
        for (name, settings) in SchedulerSettings::all_defaults() {
            let mut own = crossbar(&[50; 4], Some(&settings));
            let outputs: Vec<u32> = (0..32).map(|packet| (packet * 7 / 4) % 4).collect();
            for packet in 0..32 {
                own.expect(Time(u64::from(packet / 4) * 50), packet, packet % 4);
            }
            let seen = passing(&mut own, &outputs);
            assert_eq!(seen.len(), 32, "{name}");
            for output in 0..4 {
                let of_output = seen.iter().filter(|(.., to)| *to == output);
                let times: Vec<u64> = of_output.map(|(now, ..)| *now).collect();
                assert!(times.windows(2).all(|pair| pair[1] >= pair[0] + 50), "{name} {times:?}");
            }
        }
    }
}
