//! The hub of a network that keeps one order of all packets: a broadcast bus, or a cut-through
//! crossbar that a broadcast takes over as a whole (Memory Channel 2, The MEMORY CHANNEL 2 Hub).
//!
//! The point of global ordering is here: a packet has its place in the order when it is granted.
//! Packets of one input pass in order, so that each sender's order holds on every path; one with
//! several targets passes when no other packet does, so that all targets see it at the same place.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use weft_kernel::Stream;
use weft_units::{PositiveCount, Span, Time};

use crate::scheduler::{AnyScheduler, Matching, Requests, Scheduler, SchedulerSettings};

mod lane;
mod request_sampling;

pub use lane::Lane;
use request_sampling::Sampled;

/// Settings of a hub.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct HubSettings {
    /// How many nodes it connects at the most.
    pub ports: u16,
    /// From an input to a free output: the packet is cut through.
    #[serde(default)]
    pub latency: Span,
    /// How packets pass.
    pub transfer: TransferSettings,
}

/// How packets pass a hub.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
#[schemars(rename = "HubTransferSettings")]
pub enum TransferSettings {
    /// No hub: two adapters and a cable, in both directions at the same time.
    Direct,
    /// One packet at a time, to all; targets filter (generation 1). A packet waits in its adapter.
    Bus {
        /// From the decision to the first byte.
        #[serde(default)]
        arbitration: Span,
    },
    /// Packets for different targets at the same time, one for several targets alone (generation
    /// 2).
    Crossbar {
        /// How many packets an input holds. An adapter sends while it knows of room.
        buffer: PositiveCount,
        /// Who goes first.
        arbiter: ArbiterSettings,
    },
}

/// Which of several packets for an output of a crossbar goes first.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum ArbiterSettings {
    /// Each output for itself: of the requests that it has sampled the lowest input, and no newer
    /// ones before all of them are served.
    RequestSampling,
    /// One scheduler for all outputs that are free.
    Scheduler(SchedulerSettings),
}

/// A packet at an input.
#[derive(Clone, Copy, Debug)]
pub struct HubRequest<K> {
    /// A bit for each target.
    pub targets: u64,
    /// How long it occupies a link.
    pub span: Span,
    /// The caller's name of the packet.
    pub key: K,
}

/// The hub with its queues.
#[derive(Debug)]
pub struct Hub<K> {
    inputs: Vec<Input<K>>,
    outputs: Vec<Output>,
    /// Inputs with packets, and those whose first packet stands as a request.
    waiting: u64,
    standing: u64,
    /// Requests for all outputs together.
    wide: Sampled,
    /// After a packet that took everything over, others go first once.
    others_first: bool,
    /// Outputs with control packets that have no place yet.
    telling: u64,
    arbitration: Span,
    is_bus: bool,
    scheduler: Option<Box<Matcher>>,
}

#[derive(Debug)]
struct Input<K> {
    queue: std::collections::VecDeque<HubRequest<K>>,
    free: Time,
}

#[derive(Clone, Debug)]
struct Output {
    requests: Sampled,
    lane: Lane,
}

#[derive(Debug)]
struct Matcher {
    scheduler: AnyScheduler,
    random: Stream,
    requests: Requests,
    matching: Matching,
}

impl HubSettings {
    /// Whether packets of both directions share a link, and wait for it in their adapters.
    pub fn is_bus(&self) -> bool {
        matches!(self.transfer, TransferSettings::Bus { .. })
    }

    /// Whether there is no hub.
    pub fn is_direct(&self) -> bool {
        self.transfer == TransferSettings::Direct
    }

    /// The scheduler of a crossbar that has one.
    pub fn scheduler(&self) -> Option<&SchedulerSettings> {
        match &self.transfer {
            TransferSettings::Crossbar { arbiter: ArbiterSettings::Scheduler(own), .. } => {
                Some(own)
            }
            _ => None,
        }
    }

    /// How many packets an input holds; none of a bus or a direct cable.
    pub fn buffer(&self) -> Option<PositiveCount> {
        match self.transfer {
            TransferSettings::Crossbar { buffer, .. } => Some(buffer),
            TransferSettings::Direct | TransferSettings::Bus { .. } => None,
        }
    }
}

impl<K: Copy> Hub<K> {
    /// A hub without packets, whose control packets take `control` on the link of an output.
    /// `random` is drawn from by schedulers that say so.
    ///
    /// # Errors
    /// If the scheduler does not take as many ports.
    pub fn new(
        settings: &HubSettings,
        control: Span,
        random: Stream,
    ) -> Result<Hub<K>, crate::scheduler::SchedulerError> {
        let ports = usize::from(settings.ports);
        let scheduler = match &settings.transfer {
            TransferSettings::Crossbar { arbiter: ArbiterSettings::Scheduler(own), .. } => {
                Some(Box::new(Matcher {
                    scheduler: own.build(ports)?,
                    random,
                    requests: Requests::new(ports),
                    matching: Matching::new(ports),
                }))
            }
            _ => None,
        };
        let arbitration = match settings.transfer {
            TransferSettings::Bus { arbitration } => arbitration,
            TransferSettings::Direct | TransferSettings::Crossbar { .. } => Span::ZERO,
        };
        let input = |_| Input { queue: Default::default(), free: Time::ZERO };
        let output = Output { requests: Sampled::default(), lane: Lane::new(control) };
        Ok(Hub {
            inputs: (0..ports).map(input).collect(),
            outputs: vec![output; ports],
            waiting: 0,
            standing: 0,
            wide: Sampled::default(),
            others_first: false,
            telling: 0,
            arbitration,
            is_bus: settings.is_bus(),
            scheduler,
        })
    }

    /// The first byte of a packet is at an input, or on a bus ready at its adapter.
    #[inline]
    pub fn request(&mut self, input: u16, request: HubRequest<K>) {
        self.inputs[usize::from(input)].queue.push_back(request);
        self.waiting |= 1 << input;
    }

    /// Grants what can pass at `now`, when all requests of the instant are known; `room` has a bit
    /// for each output whose target has room for a packet. Shows each packet with its input to
    /// `grant`. Returns when to decide again, [`Time::NEVER`] if only a new request or new room can
    /// change anything.
    pub fn decide(
        &mut self,
        now: Time,
        room: u64,
        mut grant: impl FnMut(u16, HubRequest<K>),
    ) -> Time {
        self.stand(now);
        self.settle(now);
        let others = self.others_first && self.any_narrow();
        if !self.wide.is_empty() && !others {
            self.others_first = false;
            return self.decide_wide(now, room, grant);
        }
        self.others_first = false;
        let idle = self.idle_outputs(now) & room;
        if self.scheduler.is_some() {
            self.match_narrow(now, idle, &mut grant);
        } else {
            let mut idle = idle;
            while idle != 0 {
                let output = idle.trailing_zeros() as usize;
                idle &= idle - 1;
                if let Some(input) = self.outputs[output].requests.take() {
                    self.pass(now, input, 1 << output, &mut grant);
                }
            }
        }
        self.next_decision(now)
    }

    /// How many packets are in the queues.
    pub fn held(&self) -> usize {
        self.inputs.iter().map(|input| input.queue.len()).sum()
    }

    /// Takes away everything that waits, without a place in the order: the hub has failed.
    pub fn drain(&mut self) -> Vec<HubRequest<K>> {
        let lost = self.inputs.iter_mut().flat_map(|input| input.queue.drain(..)).collect();
        (self.waiting, self.standing, self.wide) = (0, 0, Sampled::default());
        self.inputs.iter_mut().for_each(|input| input.free = Time::ZERO);
        self.telling = 0;
        for output in &mut self.outputs {
            output.requests = Sampled::default();
            output.lane.reset(Time::ZERO);
        }
        lost
    }

    /// The link of an output.
    pub fn lane(&mut self, output: u16) -> &mut Lane {
        &mut self.outputs[usize::from(output)].lane
    }

    /// An output has something to tell its node from `ready` on.
    pub fn tell(&mut self, output: u16, ready: Time) {
        self.telling |= 1 << output;
        self.lane(output).insert(ready);
    }

    /// When the packet that an input passed last has left it.
    pub fn read_until(&self, input: u16) -> Time {
        self.inputs[usize::from(input)].free
    }

    /// How many control packets its outputs have sent.
    pub fn control_packets(&self) -> u64 {
        self.outputs.iter().map(|output| output.lane.sent()).sum()
    }

    /// Control packets that are ready go before what is decided now.
    #[inline]
    fn settle(&mut self, now: Time) {
        let mut telling = self.telling;
        while telling != 0 {
            let place = telling.trailing_zeros() as usize;
            telling &= telling - 1;
            let lane = &mut self.outputs[place].lane;
            lane.settle(now);
            if lane.next_ready().is_none() {
                self.telling &= !(1 << place);
            }
        }
    }

    /// Lets the first packet of each input stand as a request that has been read past the one
    /// before.
    #[inline]
    fn stand(&mut self, now: Time) {
        let mut fresh = self.waiting & !self.standing;
        while fresh != 0 {
            let place = fresh.trailing_zeros() as usize;
            fresh &= fresh - 1;
            let input = &self.inputs[place];
            let Some(first) = input.queue.front().filter(|_| input.free <= now) else { continue };
            self.standing |= 1 << place;
            if self.is_bus || !first.targets.is_power_of_two() {
                self.wide.add(place);
            } else {
                self.outputs[first.targets.trailing_zeros() as usize].requests.add(place);
            }
        }
    }

    fn any_narrow(&self) -> bool {
        self.outputs.iter().any(|output| !output.requests.is_empty())
    }

    #[inline]
    fn idle_outputs(&self, now: Time) -> u64 {
        let bit = |(place, output): (usize, &Output)| u64::from(output.lane.free() <= now) << place;
        self.outputs.iter().enumerate().map(bit).sum()
    }

    /// Outputs finish what they have, take on nothing new, and when all are ready the packet takes
    /// over the whole crossbar.
    fn decide_wide(
        &mut self,
        now: Time,
        room: u64,
        mut grant: impl FnMut(u16, HubRequest<K>),
    ) -> Time {
        let last = self.outputs.iter().map(|output| output.lane.free()).max().unwrap_or(Time::ZERO);
        if last > now {
            return last;
        }
        let Some(input) = self.wide.peek() else { return Time::NEVER };
        let targets = self.inputs[input].queue.front().map_or(0, |first| first.targets);
        if targets & !room != 0 {
            return Time::NEVER;
        }
        self.wide.take();
        self.pass(now, input, u64::MAX, &mut grant);
        self.others_first = true;
        self.next_decision(now)
    }

    fn match_narrow(&mut self, now: Time, idle: u64, grant: &mut impl FnMut(u16, HubRequest<K>)) {
        let Some(mut matcher) = self.scheduler.take() else { return };
        matcher.requests.clear_all();
        let mut asked = false;
        for (place, output) in self.outputs.iter().enumerate() {
            if idle >> place & 1 == 1 && !output.requests.is_empty() {
                asked = true;
                output.requests.inputs().for_each(|input| matcher.requests.set(input, place));
            }
        }
        // A pass without requests would move the priorities of a scheduler on for nothing.
        if !asked {
            self.scheduler = Some(matcher);
            return;
        }
        let Matcher { scheduler, random, requests, matching } = &mut *matcher;
        scheduler.schedule(requests, random, matching);
        for (input, output) in matching.iter() {
            self.outputs[output].requests.remove(input);
            self.pass(now, input, 1 << output, grant);
        }
        self.scheduler = Some(matcher);
    }

    /// The first packet of an input passes, and occupies these outputs.
    #[inline]
    fn pass(
        &mut self,
        now: Time,
        place: usize,
        outputs: u64,
        grant: &mut impl FnMut(u16, HubRequest<K>),
    ) {
        let input = &mut self.inputs[place];
        let Some(request) = input.queue.pop_front() else { return };
        let end = now + self.arbitration + request.span;
        input.free = end;
        self.standing &= !(1 << place);
        if input.queue.is_empty() {
            self.waiting &= !(1 << place);
        }
        if outputs == u64::MAX {
            self.outputs.iter_mut().for_each(|output| output.lane.occupy(now, end.since(now)));
        } else {
            self.outputs[outputs.trailing_zeros() as usize].lane.occupy(now, end.since(now));
        }
        grant(place as u16, request);
    }

    /// The next instant at which an output or an input that matters comes free.
    #[inline]
    fn next_decision(&self, now: Time) -> Time {
        let mut next = Time::NEVER;
        let mut unread = self.waiting & !self.standing;
        while unread != 0 {
            let input = &self.inputs[unread.trailing_zeros() as usize];
            unread &= unread - 1;
            next = next.min(input.free);
        }
        if self.standing != 0 {
            let wide = !self.wide.is_empty();
            for output in &self.outputs {
                let free = output.lane.free();
                if free > now && (wide || !output.requests.is_empty()) {
                    next = next.min(free);
                }
            }
        }
        next
    }
}

#[cfg(test)]
mod tests {
    use weft_kernel::Streams;

    use super::*;

    const PACKET: Span = Span(100);

    fn hub(transfer: TransferSettings) -> Hub<u32> {
        let settings = HubSettings { ports: 4, latency: Span::ZERO, transfer };
        Hub::new(&settings, Span(10), Streams::new(1).stream("hub", 0)).unwrap()
    }

    fn crossbar(arbiter: ArbiterSettings) -> Hub<u32> {
        let buffer = PositiveCount::ONE;
        hub(TransferSettings::Crossbar { buffer, arbiter })
    }

    fn ask(hub: &mut Hub<u32>, input: u16, targets: u64, key: u32) {
        hub.request(input, HubRequest { targets, span: PACKET, key });
    }

    /// What passes at an instant, and when to decide again.
    fn decide(hub: &mut Hub<u32>, now: u64) -> (Vec<u32>, Time) {
        let mut passed = Vec::new();
        let next = hub.decide(Time(now), u64::MAX, |_, request| passed.push(request.key));
        (passed, next)
    }

    #[test]
    fn an_output_serves_what_it_sampled_before_anything_newer() {
        let mut hub = crossbar(ArbiterSettings::RequestSampling);
        ask(&mut hub, 3, 1, 30);
        assert_eq!(decide(&mut hub, 0), (vec![30], Time::NEVER));
        ask(&mut hub, 2, 1, 20);
        assert_eq!(decide(&mut hub, 50), (vec![], Time(100)));
        ask(&mut hub, 1, 1, 10);
        // 1 and 2 are sampled together; 0 comes later and has the higher priority.
        assert_eq!(decide(&mut hub, 100), (vec![10], Time(200)));
        ask(&mut hub, 0, 1, 0);
        assert_eq!(decide(&mut hub, 200), (vec![20], Time(300)));
        assert_eq!(decide(&mut hub, 300), (vec![0], Time::NEVER));
    }

    #[test]
    fn packets_for_different_targets_pass_together_and_one_input_in_order() {
        let mut hub = crossbar(ArbiterSettings::RequestSampling);
        ask(&mut hub, 0, 0b0010, 1);
        ask(&mut hub, 0, 0b0100, 2);
        ask(&mut hub, 3, 0b0100, 3);
        assert_eq!(decide(&mut hub, 0), (vec![1, 3], Time(100)));
        assert_eq!(decide(&mut hub, 100), (vec![2], Time::NEVER));
    }

    #[test]
    fn a_broadcast_waits_for_all_outputs_holds_others_back_and_lets_them_go_before_the_next() {
        let mut hub = crossbar(ArbiterSettings::RequestSampling);
        ask(&mut hub, 0, 0b0010, 1);
        assert_eq!(decide(&mut hub, 0).0, [1]);
        ask(&mut hub, 1, 0b1101, 2);
        ask(&mut hub, 2, 0b1011, 3);
        ask(&mut hub, 3, 0b0001, 4);
        assert_eq!(decide(&mut hub, 40), (vec![], Time(100)));
        assert_eq!(decide(&mut hub, 100), (vec![2], Time(200)));
        assert_eq!(decide(&mut hub, 200), (vec![4], Time(300)));
        assert_eq!(decide(&mut hub, 300), (vec![3], Time::NEVER));
    }

    #[test]
    fn a_hub_that_failed_is_as_new_and_names_what_is_lost() {
        let mut hub = crossbar(ArbiterSettings::RequestSampling);
        ask(&mut hub, 0, 0b0010, 1);
        assert_eq!(decide(&mut hub, 0).0, [1]);
        assert_eq!(hub.lane(1).free(), Time(100));
        ask(&mut hub, 1, 0b0010, 2);
        ask(&mut hub, 2, 0b1011, 3);
        let lost: Vec<u32> = hub.drain().iter().map(|request| request.key).collect();
        assert_eq!((lost, hub.held(), hub.lane(1).free()), (vec![2, 3], 0, Time::ZERO));
        ask(&mut hub, 1, 0b0010, 4);
        assert_eq!(decide(&mut hub, 10), (vec![4], Time::NEVER));
    }

    /// The output is free at 100, tells something until 110, and only then serves the next packet;
    /// what it has to tell later than that waits for the packet.
    #[test]
    fn an_output_tells_before_it_serves() {
        let mut hub = crossbar(ArbiterSettings::RequestSampling);
        ask(&mut hub, 0, 0b0010, 1);
        ask(&mut hub, 2, 0b0010, 2);
        assert_eq!(decide(&mut hub, 0), (vec![1], Time(100)));
        hub.tell(1, Time(60));
        hub.tell(1, Time(111));
        assert_eq!(decide(&mut hub, 100), (vec![], Time(110)));
        assert_eq!(decide(&mut hub, 110), (vec![2], Time::NEVER));
        hub.lane(1).settle(Time(300));
        let told = [(); 3].map(|()| hub.lane(1).take_begun());
        assert_eq!(told, [Some(Time(100)), Some(Time(210)), None]);
        assert_eq!(hub.control_packets(), 2);
    }

    #[test]
    fn a_packet_waits_for_room_at_its_target() {
        let mut hub = crossbar(ArbiterSettings::RequestSampling);
        ask(&mut hub, 0, 0b0010, 1);
        let next = hub.decide(Time(0), 0b1101, |_, _| unreachable!("there is no room"));
        assert_eq!((next, hub.held()), (Time::NEVER, 1));
        assert_eq!(decide(&mut hub, 10).0, [1]);
    }

    #[test]
    fn a_bus_passes_one_packet_at_a_time_after_its_arbitration() {
        let mut hub = hub(TransferSettings::Bus { arbitration: Span(20) });
        ask(&mut hub, 2, 0b0001, 2);
        ask(&mut hub, 1, 0b1000, 1);
        assert_eq!(decide(&mut hub, 0), (vec![1], Time(120)));
        assert_eq!(decide(&mut hub, 120), (vec![2], Time::NEVER));
    }

    /// Any scheduler takes the place of request sampling.
    #[test]
    fn every_scheduler_serves_every_request() {
        for (name, settings) in SchedulerSettings::all_defaults() {
            let mut hub = crossbar(ArbiterSettings::Scheduler(settings));
            for input in 0..4 {
                (0..4).for_each(|key| ask(&mut hub, input, 1 << (key % 3), key as u32));
            }
            let (mut served, mut now) = (0, 0);
            while hub.held() > 0 && now < 5_000 {
                served += decide(&mut hub, now).0.len();
                now += 100;
            }
            assert_eq!(served, 16, "{name}");
        }
    }
}
