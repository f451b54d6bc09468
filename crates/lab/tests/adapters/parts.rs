//! Channels of a few parts, and a way to run them on a list of packets.

use weft_fabric::adapter::{AdapterSettings, Feed, Insertion};
use weft_fabric::fabric::{FabricSettings, Routes, RoutesSettings};
use weft_fabric::graph::SwitchParts;
use weft_fabric::link::FlowControl;
use weft_fabric::link::LinkSettings;
use weft_fabric::measure::{Collision, Drop, Latency, Observations};
use weft_fabric::switch::{
    AcknowledgmentRule, Contention, CrossbarSettings, OutputBufferedSettings, OutputQueuedSettings,
    Overflow, Simultaneous,
};
use weft_fabric::workload::Source;
use weft_kernel::Streams;
use weft_lab::drive::engine::{AdapterParts, ConnectionParts, Engine, EngineParts};
use weft_lab::drive::faults::Faults;
use weft_protocol::retransmit::{
    ControlSettings, KnownAfter, Order, OutOfBandSettings, RequestAcknowledgeSettings, Retries,
};
use weft_units::{Bytes, Fraction, Limit, Rate, Span, Time};

/// Hosts with adapters around one switch.
#[derive(Clone, Debug)]
pub struct Star {
    pub name: String,
    pub ports: u16,
    pub packet: Bytes,
    pub payload: Bytes,
    pub link: LinkSettings,
    pub switch: Switch,
    pub adapter: AdapterSettings,
    pub control: ControlSettings,
}

/// A switch that packets reach unannounced.
#[derive(Clone, Debug)]
pub enum Switch {
    Crossbar(CrossbarSettings),
    OutputBuffered(OutputBufferedSettings),
    OutputQueued(OutputQueuedSettings),
}

impl Star {
    /// The time that a request packet occupies a link.
    pub fn packet_span(&self) -> Span {
        self.link.span(self.packet)
    }

    /// From the start of a request to the end of its acknowledgment if nothing disturbs them.
    pub fn round_trip(&self) -> Option<Span> {
        let ControlSettings::RequestAcknowledge(control) = &self.control else { return None };
        let latency = match &self.switch {
            Switch::Crossbar(own) => own.latency,
            Switch::OutputBuffered(own) => own.latency,
            Switch::OutputQueued(own) => own.latency,
        };
        let pass = self.link.propagation() * 2 + latency;
        let acknowledgment = self.link.span(control.acknowledgment);
        Some(self.packet_span() + acknowledgment + control.turn_around + pass * 2)
    }

    /// The channel at time zero, with a source for each host or none.
    pub fn channel(self, sources: Vec<Source>, streams: &Streams, seen: Observations) -> Engine {
        let star = (FabricSettings::Star, RoutesSettings::default());
        self.in_fabric(star, sources, streams, seen)
    }

    /// The same with a fabric of such switches in place of one.
    pub fn in_fabric(
        self,
        (fabric, routes): (FabricSettings, RoutesSettings),
        sources: Vec<Source>,
        streams: &Streams,
        seen: Observations,
    ) -> Engine {
        let hosts = u32::from(self.ports);
        let wiring = fabric.wiring(hosts, self.link.rate).expect("a fabric");
        let random = |purpose: &str, number: u32| {
            streams.stream(&format!("{}.{purpose}", self.name), number as usize)
        };
        let routes = Routes::new(&routes, &wiring, random("routes", 0));
        let interleaves = matches!(&self.switch, Switch::Crossbar(own)
            if own.acknowledgments == AcknowledgmentRule::Interleave)
            && self.adapter.acknowledgments == Insertion::Interleave;
        let switch = |number| match self.switch.clone() {
            Switch::Crossbar(own) => SwitchParts::Crossbar(own, random("switch", number)),
            Switch::OutputBuffered(own) => {
                SwitchParts::OutputBuffered(own, random("switch", number))
            }
            Switch::OutputQueued(own) => SwitchParts::OutputQueued(own),
        };
        let switches = (0..wiring.switches()).map(switch).collect();
        Engine::new(EngineParts {
            wiring,
            routes: routes.expect("routes"),
            link: self.link,
            packet: self.packet,
            payload: self.payload,
            switches,
            flow: FlowControl::new(&Default::default(), u32::MAX).expect("none"),
            send_buffers: self.adapter.send_buffers,
            sources,
            observations: seen,
            until: Time(1 << 60),
            ring: None,
            turns: None,
            hub: None,
            connections: ConnectionParts::default(),
            classed: None,
            flows: None,
            adapters: Some(AdapterParts {
                bodies: None,
                name: self.name,
                streams: *streams,
                packet: self.packet,
                settings: self.adapter,
                control: self.control,
                interface: None,
                faults: Faults::default(),
                interleaves,
                slots: None,
                pipeline: None,
            }),
        })
    }
}

/// One byte takes this long on the links of [`link`].
pub const BYTE: Span = Span(1_000);

/// A link of 8 Gbit/s whose cable takes `propagation`.
pub fn link(propagation: Span) -> LinkSettings {
    LinkSettings {
        rate: Rate::from_bits_per_second(8_000_000_000),
        length: "1 m".parse().expect("a length"),
        delay_per_metre: format!("{} ps/m", propagation.0).parse().expect("a delay"),
        reserved: Fraction::default(),
    }
}

pub fn limit(count: u32) -> Limit {
    Limit::at_most(count).expect("positive")
}

pub fn adapter(send_buffers: u32, acknowledgments: Insertion) -> AdapterSettings {
    let send_buffers = limit(send_buffers);
    AdapterSettings {
        send_buffers,
        feed: Feed::Fifo,
        release: None,
        acknowledgments,
        throttle: None,
        transport: None,
    }
}

pub fn crossbar(
    latency: Span,
    contention: Contention,
    acknowledgments: AcknowledgmentRule,
) -> Switch {
    let simultaneous = Simultaneous::RoundRobin;
    Switch::Crossbar(CrossbarSettings { latency, contention, acknowledgments, simultaneous })
}

pub fn output_buffered(latency: Span, buffers: u32, writers: Limit) -> Switch {
    Switch::OutputBuffered(OutputBufferedSettings {
        latency,
        buffers: limit(buffers),
        writers,
        overflow: Overflow::Drop,
        simultaneous: Simultaneous::RoundRobin,
    })
}

pub fn out_of_band(known_after: KnownAfter, delay: Span, outstanding: Limit) -> ControlSettings {
    ControlSettings::OutOfBand(OutOfBandSettings {
        known_after,
        delay,
        outstanding,
        order: Order::Unordered,
        retries: Retries::First,
        back_off: Span::ZERO,
    })
}

pub fn request_acknowledge(
    timeout: Span,
    outstanding: u32,
    acknowledgment: u64,
    turn_around: Span,
) -> ControlSettings {
    ControlSettings::RequestAcknowledge(RequestAcknowledgeSettings {
        timeout,
        outstanding: limit(outstanding),
        acknowledgment: Bytes(acknowledgment),
        turn_around,
        order: Order::Unordered,
        retries: Retries::First,
        back_off: Span::ZERO,
    })
}

/// Hands packets over at given times and lets the channel run until nothing happens any more or
/// `until` is reached. `look` sees the channel after every event.
pub fn run(
    parts: Star,
    offers: &[(Time, u16, u16)],
    until: Time,
    look: impl FnMut(Time, &Engine),
) -> Engine {
    let seen = Observations::starting(Time::ZERO);
    run_channel(parts.channel(Vec::new(), &Streams::new(1), seen), offers, until, look)
}

/// The same with a channel that has no sources.
pub fn run_channel(
    mut channel: Engine,
    offers: &[(Time, u16, u16)],
    until: Time,
    mut look: impl FnMut(Time, &Engine),
) -> Engine {
    for (time, host, target) in offers.iter().filter(|offer| offer.0 <= until) {
        while let Some(now) = channel.step(Time(time.0.saturating_sub(1))) {
            look(now, &channel);
        }
        channel.offer_packet(*time, *host, *target);
        look(*time, &channel);
    }
    while let Some(now) = channel.step(until) {
        look(now, &channel);
    }
    channel
}

/// The sum of one kind of latency.
pub fn sum(observations: &Observations, kind: Latency) -> Span {
    Span(u64::try_from(observations.recorder(kind).sum_ps()).expect("a short run"))
}

/// Counters by name, in the words of the byte-by-byte model.
pub fn counters(channel: &Engine) -> [(&'static str, u64); 8] {
    let observations = channel.observations();
    let control = channel.control_counters();
    assert_eq!(observations.dropped(Drop::Overflow), 0);
    [
        ("attempt", observations.attempts),
        ("delivered", observations.delivered),
        ("acknowledged", observations.recorder(Latency::RoundTrip).count()),
        ("lost to request", observations.collisions(Collision::Request)),
        ("lost to acknowledgment", observations.collisions(Collision::Acknowledgment)),
        ("acknowledgment lost", control.lost_acknowledgments),
        ("late acknowledgment", control.late_acknowledgments),
        ("duplicate", control.duplicates),
    ]
}
