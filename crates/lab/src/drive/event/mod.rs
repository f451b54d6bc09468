//! One channel of a star network, driven by events: packets of any length reach the switch
//! whenever they like (Clint's B1, B2, B3, Q1 and Q2).
//!
//! Latencies: a packet's *first attempt* starts when its first byte is sent for the first time;
//! the attempt that *succeeds* is the one whose bytes arrive, and where back pressure holds a
//! packet on its link it starts as late as it could have and passed without a stop.
//!
//! Everything that happens in one picosecond counts as simultaneous: an output decides when it
//! knows all arrivals of its picosecond, and a host starts a request when it knows all that
//! arrived, ran out or was handed over in the same one.

mod carrier;
mod faults;
mod host;
mod interface;
mod parts;
mod receive;
mod report;
mod scheduled;
mod switch;
mod transmit;

use weft_fabric::adapter::Insertion;
use weft_fabric::measure::Observations;
use weft_fabric::switch::Effect;
use weft_fabric::workload::{Feedback, Source};
use weft_kernel::{Arena, Id, Queue, Streams};
use weft_protocol::retransmit::{Attempt, Slot};
use weft_units::{Limit, Span, Time};

pub use faults::Faults;
pub use parts::{EventParts, EventPartsError, EventSwitch};
pub use scheduled::{Calendar, Route, ScheduledArrival, ScheduledPacket};

use super::carrier::Messages;
use super::trace::TraceEntry;
use host::{Departure, Flight, Host};
use scheduled::Scheduled;
use switch::Switch;

/// Something that happens in a channel at a certain time.
#[derive(Clone, Copy, Debug)]
pub struct Event(Happening);

#[derive(Clone, Copy, Debug)]
enum Happening {
    /// The source of a host hands over a packet.
    Generate(u16),
    /// A host's link may be free for the next transmission.
    Transmit(u16),
    /// All that happens to a host in this picosecond has happened: a request may start.
    Settle(u16),
    /// The first byte of a packet is at the switch.
    Reach(Id<Flight>),
    /// All arrivals of this picosecond at an output are known.
    Decide(u16),
    /// The last byte of a packet is at its destination.
    Deliver(Id<Flight>),
    /// The acknowledgment of a request is ready to be sent.
    Acknowledge(Id<Flight>),
    /// A timer runs out, or a loss becomes known.
    Fail { host: u16, slot: Slot, attempt: Attempt },
    /// Something is due at the interface of a host.
    Interface(u16),
    /// A success becomes known without an acknowledgment packet.
    Complete { host: u16, slot: Slot },
    /// The last byte of a message may have left its host.
    Sent(u16),
}

const _: () = assert!(size_of::<Event>() <= 16, "an event is copied at every step");

/// What the general observations of a channel have no column for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ControlCounters {
    /// Acknowledgments that arrived for a packet acknowledged before; ignored.
    pub late_acknowledgments: u64,
    /// Acknowledgments dropped in the switch because they met another one.
    pub lost_acknowledgments: u64,
    /// Requests that arrived although an earlier transmission of the same packet had.
    pub duplicates: u64,
    /// Acknowledgments that arrived damaged; ignored.
    pub damaged_acknowledgments: u64,
    /// Acknowledgments that met a packet of a schedule in the switch, and gave way.
    pub acknowledgments_against_schedule: u64,
}

/// One channel with all its parts and their state.
#[derive(Debug)]
pub struct EventChannel {
    parts: EventParts,
    hosts: Vec<Host>,
    switch: Switch,
    flights: Arena<Flight>,
    observations: Observations,
    counters: ControlCounters,
    /// Kept to be used again.
    effects: Vec<Effect<Id<Flight>>>,
    packet_span: Span,
    acknowledgment_span: Span,
    propagation: Span,
    insertion: Insertion,
    /// The last departure to each output.
    departures: Vec<Option<Departure>>,
    /// Every decision waits for the end of its picosecond: arrivals are not known from departures
    /// without a delay between them, and under back pressure packets wait at the output besides.
    decides_together: bool,
    /// What keeps to the schedule of another channel.
    scheduled: Scheduled,
    trace: Option<Vec<TraceEntry>>,
    /// What is handed over as messages; absent while packets come from sources.
    messages: Option<Box<Messages>>,
    queue: Queue<Event>,
    started: bool,
    steps: u64,
}

impl EventChannel {
    /// A channel at time zero with nothing on the way. `sources` holds the source of each host in
    /// order, or is empty if all packets are handed over by [`EventChannel::offer`].
    pub fn new(
        parts: EventParts,
        sources: Vec<Source>,
        streams: &Streams,
        observations: Observations,
    ) -> Result<EventChannel, EventPartsError> {
        parts.check()?;
        if !sources.is_empty() && sources.len() != usize::from(parts.ports) {
            return Err(EventPartsError {
                key: "hosts",
                value: format!("{} with {} sources", parts.ports, sources.len()),
                accepted: "one source a host, or none".into(),
            });
        }
        let greedy = sources.iter().any(|source| source.feedback() == Feedback::Ready);
        if greedy && parts.adapter.send_buffers == Limit::Unlimited {
            return Err(EventPartsError {
                key: "adapter.send_buffers",
                value: "unlimited".into(),
                accepted: "a number, since a greedy source fills them all at once".into(),
            });
        }
        if greedy && parts.interface.is_some() {
            return Err(EventPartsError {
                key: "interface",
                value: "given with a greedy source".into(),
                accepted: "another source, since an interface takes whatever it is given".into(),
            });
        }
        let purpose = format!("{}.back_off", parts.name);
        let mut sources = sources.into_iter();
        let mut hosts: Vec<Host> = (0..parts.ports)
            .map(|host| {
                let random = streams.stream(&purpose, host.into());
                Host::new(&parts.adapter, &parts.control, parts.ports, sources.next(), random)
            })
            .collect();
        parts.build_interfaces(&mut hosts);
        parts.faults.apply(&mut hosts, streams, &parts.name);
        let random = streams.stream(&format!("{}.switch", parts.name), 0);
        Ok(EventChannel {
            hosts,
            switch: Switch::new(&parts.switch, parts.ports, random),
            flights: Arena::new(),
            observations,
            counters: ControlCounters::default(),
            effects: Vec::new(),
            packet_span: parts.packet_span(),
            acknowledgment_span: parts.acknowledgment_span(),
            propagation: parts.link.propagation(),
            insertion: parts.adapter.acknowledgments,
            departures: vec![None; parts.ports.into()],
            decides_together: parts.link.propagation() == Span::ZERO || parts.blocks(),
            scheduled: Scheduled::new(&parts, streams),
            trace: None,
            messages: None,
            queue: Queue::new(),
            started: false,
            steps: 0,
            parts,
        })
    }

    /// Schedules the first packet of every source; to be called once, before any event, where the
    /// channel shares a queue with others.
    pub fn start(&mut self, schedule: &mut impl FnMut(Time, Event)) {
        self.started = true;
        for host in 0..self.parts.ports {
            self.schedule_source(host, schedule);
            self.ask_source(Time::ZERO, host, schedule);
        }
    }

    /// Lets one event happen; what follows from it is scheduled.
    pub fn handle(&mut self, now: Time, event: Event, schedule: &mut impl FnMut(Time, Event)) {
        match event.0 {
            Happening::Generate(host) => self.generate(now, host, schedule),
            Happening::Transmit(host) => {
                let state = &mut self.hosts[usize::from(host)];
                if state.wake == now {
                    state.wake = Time::NEVER;
                }
                self.transmit(now, host, schedule);
            }
            Happening::Settle(host) => {
                self.hosts[usize::from(host)].settling = false;
                self.start_requests(now, host, schedule);
            }
            Happening::Reach(id) => self.reach(now, id, schedule),
            Happening::Decide(output) => self.decide(now, output, schedule),
            Happening::Deliver(id) => self.deliver(now, id, schedule),
            Happening::Acknowledge(id) => self.acknowledge(now, id, schedule),
            Happening::Fail { host, slot, attempt } => {
                if self.hosts[usize::from(host)].window.fail(slot, attempt) {
                    self.transmit(now, host, schedule);
                }
            }
            Happening::Interface(host) => {
                self.serve(now, host, schedule);
                self.transmit(now, host, schedule);
            }
            Happening::Complete { host, slot } => self.complete(now, host, slot, schedule),
            Happening::Sent(host) => self.leave(now, host, schedule),
        }
    }

    /// Hands over a packet that no source generates.
    pub fn offer(
        &mut self,
        now: Time,
        host: u16,
        target: u16,
        schedule: &mut impl FnMut(Time, Event),
    ) {
        if self.take_over(now, host, target) {
            self.serve(now, host, schedule);
        }
        self.transmit(now, host, schedule);
    }

    /// All that was observed.
    pub fn observations(&self) -> &Observations {
        &self.observations
    }

    /// What was counted besides.
    pub fn control_counters(&self) -> ControlCounters {
        self.counters
    }

    /// The parts that the channel is made of.
    pub fn parts(&self) -> &EventParts {
        &self.parts
    }

    fn generate(&mut self, now: Time, host: u16, schedule: &mut impl FnMut(Time, Event)) {
        let state = &mut self.hosts[usize::from(host)];
        let Some(source) = &mut state.source else { return };
        let target = source.take().target;
        self.schedule_source(host, schedule);
        self.offer(now, host, target as u16, schedule);
    }

    fn schedule_source(&mut self, host: u16, schedule: &mut impl FnMut(Time, Event)) {
        let source = &self.hosts[usize::from(host)].source;
        let next = source.as_ref().map_or(Time::NEVER, Source::next_time);
        if next < Time::NEVER {
            schedule(next, Event(Happening::Generate(host)));
        }
    }

    /// A source that hands over whatever the adapter can take is asked for a packet if it can.
    #[inline]
    fn ask_source(&mut self, now: Time, host: u16, schedule: &mut impl FnMut(Time, Event)) {
        let state = &mut self.hosts[usize::from(host)];
        if state.feedback == Feedback::Ready && state.queue.is_empty() && state.window.has_space() {
            self.tell_source(host, schedule, |source| source.ready(now));
        }
    }

    /// Tells a source something that may make it hand over a packet.
    fn tell_source(
        &mut self,
        host: u16,
        schedule: &mut impl FnMut(Time, Event),
        tell: impl FnOnce(&mut Source),
    ) {
        let Some(source) = &mut self.hosts[usize::from(host)].source else { return };
        let before = source.next_time();
        tell(source);
        if source.next_time() != before {
            self.schedule_source(host, schedule);
        }
    }

    /// A success is known without a packet: the send buffer is free.
    fn complete(
        &mut self,
        now: Time,
        host: u16,
        slot: Slot,
        schedule: &mut impl FnMut(Time, Event),
    ) {
        let state = &mut self.hosts[usize::from(host)];
        let held = state.window.release(slot);
        state.queue.left_buffer(held.target);
        self.transmit(now, host, schedule);
    }
}
