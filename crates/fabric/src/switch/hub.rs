//! The hub of a network that keeps one order of all packets: a broadcast bus, or a cut-through
//! crossbar that a broadcast takes over as a whole (Memory Channel 2, The MEMORY CHANNEL 2 Hub).
//! Without mapped windows around it a hub is another switch of its fabric: see
//! [`BusParts`](super::BusParts) and [`FifoCrossbarParts`](super::FifoCrossbarParts).
//!
//! The point of global ordering is here: a packet has its place in the order when it is granted.
//! Packets of one input pass in order, so that each sender's order holds on every path; one with
//! several targets passes when no other packet does, so that all targets see it at the same place.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use weft_kernel::Stream;
use weft_units::{PositiveCount, Span, Time};

use crate::link::Lane;
use crate::scheduler::{PortSet, SchedulerError, SchedulerSettings};

mod arbiter;
mod request_sampling;
mod synchronisation;
mod times;

pub use arbiter::HubScheduler;
pub(super) use request_sampling::Sampled;
pub use synchronisation::Synchronisation;
pub use times::{HubTimes, HubTimesParts, TimesOfSize};

/// The largest hub: the targets of a packet are a word.
pub const MAX_HUB_PORTS: usize = PortSet::<1>::MOST;

/// Settings of a hub.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct HubSettings {
    /// The largest number of nodes, or of cables without a `window`: up to 64.
    pub ports: u16,
    /// From an input to a free output: the packet is cut through.
    #[serde(default)]
    pub latency: Span,
    /// How the hub transfers packets.
    pub transfer: TransferSettings,
}

/// How a hub transfers packets.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
#[schemars(rename = "HubTransferSettings")]
pub enum TransferSettings {
    /// No hub: two adapters and a cable, in both directions at the same time.
    Direct,
    /// One packet at a time, which reaches all nodes; targets filter (generation 1). A packet waits
    /// in its adapter. Without a `window`, the ports filter, and a packet waits in the buffer of its
    /// port.
    Bus {
        /// From the decision to the first byte.
        #[serde(default)]
        arbitration: Span,
        /// How many packets each port holds that came by its cable. Required without a `window`.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        buffer: Option<PositiveCount>,
    },
    /// Packets for different targets at the same time, one for several targets alone (generation
    /// 2).
    Crossbar {
        /// How many packets an input holds. An adapter sends while it knows of free space; without a
        /// `window`, flow control keeps to it.
        buffer: PositiveCount,
        /// The arbitration.
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

/// What a hub waits for after a decision.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Awaited {
    /// When to decide again; [`Time::NEVER`] if only a new request or new room can change anything.
    pub next: Time,
    /// A bit for each output that a packet wants and that has nothing else to send: room is missed.
    pub idle: u64,
}

impl Awaited {
    /// A packet wants an output that does not send one at `now`, or that has just begun to.
    #[inline]
    fn add(&mut self, now: Time, output: usize, lane: &Lane) {
        if lane.free() > now {
            self.next = self.next.min(lane.free());
        } else {
            self.idle |= 1 << output;
        }
    }
}

/// What a hub asks about its targets and reports of its packets.
pub trait HubSide<K> {
    /// Whether the target behind an output has room for a packet.
    fn has_room(&mut self, output: u16) -> bool;

    /// The first packet of an input passes.
    fn grant(&mut self, input: u16, request: HubRequest<K>);
}

/// The hub with its queues.
#[derive(Debug)]
pub struct Hub<K> {
    inputs: Vec<Input<K>>,
    outputs: Vec<Output>,
    /// Inputs with packets, and those whose first packet is a valid request; when the first of the
    /// other requests becomes valid.
    waiting: u64,
    standing: u64,
    next_to_stand: Time,
    /// Outputs with requests for them alone.
    asked: u64,
    /// Requests for all outputs together.
    wide: Sampled,
    /// After a packet that needed all outputs, others go first once.
    others_first: bool,
    /// How its outputs prepare for a packet that needs all of them.
    synchronisation: Synchronisation,
    arbitration: Span,
    is_bus: bool,
    scheduler: Option<Box<HubScheduler>>,
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

impl HubSettings {
    /// Whether packets of both directions share a link, and wait for it in their adapters.
    pub fn is_bus(&self) -> bool {
        matches!(self.transfer, TransferSettings::Bus { .. })
    }

    /// Whether two hosts are connected directly, without a hub.
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

    /// How many packets an input of a crossbar holds.
    pub fn buffer(&self) -> Option<PositiveCount> {
        match self.transfer {
            TransferSettings::Crossbar { buffer, .. } => Some(buffer),
            TransferSettings::Direct | TransferSettings::Bus { .. } => None,
        }
    }
}

impl<K: Copy> Hub<K> {
    /// A hub without packets, whose control packets take `control` on the link of an output. Some
    /// schedulers draw from `random`.
    ///
    /// # Errors
    /// Where there are no ports, or more than [`MAX_HUB_PORTS`].
    pub fn new(
        settings: &HubSettings,
        control: Span,
        random: Stream,
    ) -> Result<Hub<K>, SchedulerError> {
        let ports = usize::from(settings.ports);
        if !(1..=MAX_HUB_PORTS).contains(&ports) {
            return Err(SchedulerError::Ports { ports, most: MAX_HUB_PORTS });
        }
        let scheduler = settings.scheduler().map(|own| HubScheduler::new(own, ports, random));
        let scheduler = scheduler.transpose()?.map(Box::new);
        let arbitration = match settings.transfer {
            TransferSettings::Bus { arbitration, .. } => arbitration,
            TransferSettings::Direct | TransferSettings::Crossbar { .. } => Span::ZERO,
        };
        let input = |_| Input { queue: Default::default(), free: Time::ZERO };
        let output = Output { requests: Sampled::default(), lane: Lane::new(control) };
        Ok(Hub {
            inputs: (0..ports).map(input).collect(),
            outputs: vec![output; ports],
            waiting: 0,
            standing: 0,
            next_to_stand: Time::NEVER,
            asked: 0,
            wide: Sampled::default(),
            others_first: false,
            synchronisation: Synchronisation::default(),
            arbitration,
            is_bus: settings.is_bus(),
            scheduler,
        })
    }

    /// The first byte of a packet is at an input, or on a bus ready at its adapter.
    #[inline]
    pub fn request(&mut self, input: u16, request: HubRequest<K>) {
        let own = &mut self.inputs[usize::from(input)];
        own.queue.push_back(request);
        if self.waiting >> input & 1 == 0 {
            self.waiting |= 1 << input;
            self.next_to_stand = self.next_to_stand.min(own.free);
        }
    }

    /// Grants what can pass at `now`, when all requests of the instant are known.
    #[inline]
    pub fn decide(&mut self, now: Time, side: &mut impl HubSide<K>) -> Awaited {
        self.stand(now);
        let others = self.others_first && self.asked != 0;
        if !self.wide.is_empty() && !others {
            self.others_first = false;
            return self.decide_wide(now, side);
        }
        self.others_first = false;
        if !self.wide.is_empty() {
            // The others have their turn now, and are what it waits for.
            self.synchronisation.begin_again(now);
        }
        let (mut ready, mut awaited) = self.ready_outputs(now, side);
        if self.scheduler.is_some() {
            self.match_narrow(now, ready, side);
            return self.next_decision(now);
        }
        while ready != 0 {
            let output = ready.trailing_zeros() as usize;
            ready &= ready - 1;
            let requests = &mut self.outputs[output].requests;
            let Some(input) = requests.take() else { continue };
            let is_served = requests.is_empty();
            self.pass(now, input, 1 << output, side);
            if is_served {
                self.asked &= !(1 << output);
            } else {
                awaited.add(now, output, &self.outputs[output].lane);
            }
        }
        if !self.wide.is_empty() {
            return self.next_decision(now);
        }
        awaited.next = awaited.next.min(self.next_to_stand);
        awaited
    }

    /// Whether a packet wants an output that has nothing else to send at `now`.
    #[inline]
    pub fn is_wanted(&self, now: Time, output: u16) -> bool {
        self.asked_of() >> output & 1 == 1 && self.outputs[usize::from(output)].lane.free() <= now
    }

    /// A bit for each output that a packet wants: all of them if it is for several.
    #[inline]
    fn asked_of(&self) -> u64 {
        if self.wide.is_empty() { self.asked } else { u64::MAX >> (64 - self.outputs.len()) }
    }

    /// Takes away everything that waits, without a place in the order: the hub has failed.
    pub fn drain(&mut self) -> Vec<HubRequest<K>> {
        let lost = self.inputs.iter_mut().flat_map(|input| input.queue.drain(..)).collect();
        (self.waiting, self.standing, self.asked) = (0, 0, 0);
        (self.wide, self.next_to_stand) = (Sampled::default(), Time::NEVER);
        self.synchronisation.give_up();
        self.inputs.iter_mut().for_each(|input| input.free = Time::ZERO);
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

    /// When the packet that an input passed last has left it.
    pub fn read_until(&self, input: u16) -> Time {
        self.inputs[usize::from(input)].free
    }

    /// How long its outputs took to prepare for packets that need all of them.
    pub fn synchronisation(&self) -> &Synchronisation {
        &self.synchronisation
    }

    /// How many control packets its outputs have sent.
    pub fn control_packets(&self) -> u64 {
        self.outputs.iter().map(|output| output.lane.sent()).sum()
    }

    /// The outputs that can send the packet that is for them now, and what the others wait for.
    /// Control packets that are ready go before it.
    #[inline]
    fn ready_outputs(&mut self, now: Time, side: &mut impl HubSide<K>) -> (u64, Awaited) {
        let (mut asked, mut ready) = (self.asked, 0);
        let mut awaited = Awaited { next: Time::NEVER, idle: 0 };
        while asked != 0 {
            let output = asked.trailing_zeros() as usize;
            asked &= asked - 1;
            let lane = &mut self.outputs[output].lane;
            lane.settle(now);
            if lane.free() <= now && side.has_room(output as u16) {
                ready |= 1 << output;
            } else {
                awaited.add(now, output, lane);
            }
        }
        (ready, awaited)
    }

    /// Makes the first packet of each input a valid request once it has been read past the packet
    /// before it.
    #[inline]
    fn stand(&mut self, now: Time) {
        if self.next_to_stand > now {
            return;
        }
        self.next_to_stand = Time::NEVER;
        let mut fresh = self.waiting & !self.standing;
        while fresh != 0 {
            let place = fresh.trailing_zeros() as usize;
            fresh &= fresh - 1;
            let input = &self.inputs[place];
            if input.free > now {
                self.next_to_stand = self.next_to_stand.min(input.free);
                continue;
            }
            let Some(first) = input.queue.front() else { continue };
            self.standing |= 1 << place;
            if self.is_bus || !first.targets.is_power_of_two() {
                self.wide.add(place);
            } else {
                self.outputs[first.targets.trailing_zeros() as usize].requests.add(place);
                self.asked |= first.targets;
            }
        }
    }

    /// Outputs finish what they have, take on nothing new, and when all are ready the packet takes
    /// over the whole crossbar.
    fn decide_wide(&mut self, now: Time, side: &mut impl HubSide<K>) -> Awaited {
        self.synchronisation.begin(now);
        self.outputs.iter_mut().for_each(|output| output.lane.settle(now));
        let last = self.outputs.iter().map(|output| output.lane.free()).max().unwrap_or(Time::ZERO);
        if last > now {
            return Awaited { next: last, idle: 0 };
        }
        self.synchronisation.end(now);
        let Some(input) = self.wide.peek() else {
            return Awaited { next: Time::NEVER, idle: 0 };
        };
        let idle = self.inputs[input].queue.front().map_or(0, |first| first.targets);
        let mut targets = (0..64).filter(|target| idle >> target & 1 == 1);
        if !targets.all(|target| side.has_room(target)) {
            return Awaited { next: Time::NEVER, idle };
        }
        self.wide.take();
        self.synchronisation.give_up();
        self.pass(now, input, u64::MAX, side);
        self.others_first = true;
        self.next_decision(now)
    }

    fn match_narrow(&mut self, now: Time, ready: u64, side: &mut impl HubSide<K>) {
        if ready == 0 {
            return;
        }
        let Some(mut scheduler) = self.scheduler.take() else { return };
        let matching = scheduler.decide(ready, |output| self.outputs[output].requests);
        for (input, output) in matching.iter() {
            self.outputs[output].requests.remove(input);
            if self.outputs[output].requests.is_empty() {
                self.asked &= !(1 << output);
            }
            self.pass(now, input, 1 << output, side);
        }
        self.scheduler = Some(scheduler);
    }

    /// The first packet of an input passes, and occupies these outputs.
    #[inline]
    fn pass(&mut self, now: Time, place: usize, outputs: u64, side: &mut impl HubSide<K>) {
        let input = &mut self.inputs[place];
        let Some(request) = input.queue.pop_front() else { return };
        let end = now + self.arbitration + request.span;
        input.free = end;
        self.standing &= !(1 << place);
        if input.queue.is_empty() {
            self.waiting &= !(1 << place);
        } else {
            self.next_to_stand = self.next_to_stand.min(end);
        }
        if outputs == u64::MAX {
            self.outputs.iter_mut().for_each(|output| output.lane.occupy(now, end.since(now)));
        } else {
            self.outputs[outputs.trailing_zeros() as usize].lane.occupy(now, end.since(now));
        }
        side.grant(place as u16, request);
    }

    /// The next instant at which an output or an input that matters becomes free, and what is free.
    #[inline]
    fn next_decision(&self, now: Time) -> Awaited {
        let mut awaited = Awaited { next: self.next_to_stand, idle: 0 };
        let mut asked = self.asked_of();
        while asked != 0 {
            let output = asked.trailing_zeros() as usize;
            asked &= asked - 1;
            awaited.add(now, output, &self.outputs[output].lane);
        }
        awaited
    }
}

#[cfg(test)]
mod tests {
    use weft_kernel::Streams;

    use super::*;

    const PACKET: Span = Span(100);

    fn held(hub: &Hub<u32>) -> usize {
        hub.inputs.iter().map(|input| input.queue.len()).sum()
    }

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

    struct Side {
        room: u64,
        passed: Vec<u32>,
    }

    impl HubSide<u32> for Side {
        fn has_room(&mut self, output: u16) -> bool {
            self.room >> output & 1 == 1
        }

        fn grant(&mut self, _: u16, request: HubRequest<u32>) {
            self.passed.push(request.key);
        }
    }

    /// The packets that pass at an instant, and when to decide again.
    fn decide(hub: &mut Hub<u32>, now: u64) -> (Vec<u32>, Time) {
        decide_with(hub, now, u64::MAX)
    }

    fn decide_with(hub: &mut Hub<u32>, now: u64, room: u64) -> (Vec<u32>, Time) {
        let mut side = Side { room, passed: Vec::new() };
        let Awaited { next, .. } = hub.decide(Time(now), &mut side);
        (side.passed, next)
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
        // The first from 40 to 100; the second behind the turn of the others, from 200 to 300.
        let own = hub.synchronisation();
        assert_eq!((own.count(), own.longest()), (2, Span(100)));
        assert!((own.mean_us() - 80e-6).abs() < 1e-12);
    }

    /// Outputs that are ready and have no room are not what a broadcast synchronises for.
    #[test]
    fn synchronisation_ends_when_the_outputs_are_ready_and_not_when_there_is_room() {
        let mut hub = crossbar(ArbiterSettings::RequestSampling);
        ask(&mut hub, 0, 0b0010, 1);
        assert_eq!(decide(&mut hub, 0).0, [1]);
        ask(&mut hub, 1, 0b1101, 2);
        assert_eq!(decide_with(&mut hub, 70, 0), (vec![], Time(100)));
        assert_eq!(decide_with(&mut hub, 100, 0), (vec![], Time::NEVER));
        assert_eq!(decide(&mut hub, 900).0, [2]);
        assert_eq!(hub.synchronisation().longest(), Span(30));
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
        assert_eq!((lost, held(&hub), hub.lane(1).free()), (vec![2, 3], 0, Time::ZERO));
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
        hub.lane(1).insert(Time(60));
        hub.lane(1).insert(Time(111));
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
        assert_eq!(decide_with(&mut hub, 0, 0b1101), (vec![], Time::NEVER));
        assert_eq!((held(&hub), hub.is_wanted(Time(0), 1)), (1, true));
        let awaited = hub.decide(Time(5), &mut Side { room: 0, passed: Vec::new() });
        assert_eq!(awaited, Awaited { next: Time::NEVER, idle: 0b0010 });
        assert_eq!(decide(&mut hub, 10).0, [1]);
    }

    #[test]
    fn a_bus_passes_one_packet_at_a_time_after_its_arbitration() {
        let mut hub = hub(TransferSettings::Bus { arbitration: Span(20), buffer: None });
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
            while held(&hub) > 0 && now < 5_000 {
                served += decide(&mut hub, now).0.len();
                now += 100;
            }
            assert_eq!(served, 16, "{name}");
        }
    }
}
