//! Channels of a few parts, and a way to run them on a list of packets.

use weft_fabric::adapter::{AdapterSettings, Feed, Insertion};
use weft_fabric::link::LinkSettings;
use weft_fabric::measure::{Collision, Drop, Latency, Observations};
use weft_fabric::switch::{
    AcknowledgmentRule, Contention, CrossbarSettings, OutputBufferedSettings, Overflow,
    Simultaneous,
};
use weft_kernel::{Queue, Streams};
use weft_lab::drive::event::{EventChannel, EventParts, EventSwitch};
use weft_protocol::retransmit::{
    ControlSettings, KnownAfter, Order, OutOfBandSettings, RequestAcknowledgeSettings, Retries,
};
use weft_units::{Bytes, Fraction, Limit, Rate, Span, Time};

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
    }
}

pub fn crossbar(
    latency: Span,
    contention: Contention,
    acknowledgments: AcknowledgmentRule,
) -> EventSwitch {
    let simultaneous = Simultaneous::RoundRobin;
    EventSwitch::Crossbar(CrossbarSettings { latency, contention, acknowledgments, simultaneous })
}

pub fn output_buffered(latency: Span, buffers: u32, writers: Limit) -> EventSwitch {
    EventSwitch::OutputBuffered(OutputBufferedSettings {
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
    parts: EventParts,
    offers: &[(Time, u16, u16)],
    until: Time,
    mut look: impl FnMut(Time, &EventChannel),
) -> EventChannel {
    let mut channel =
        EventChannel::new(parts, Vec::new(), &Streams::new(1), Observations::starting(Time::ZERO))
            .expect("legal parts");
    let mut queue = Queue::new();
    for (index, (time, _, _)) in offers.iter().enumerate() {
        queue.push(*time, Err(index));
    }
    while let Some((now, event)) = queue.pop() {
        if now > until {
            break;
        }
        let schedule = &mut |time, event| queue.push(time, Ok(event));
        match event {
            Ok(event) => channel.handle(now, event, schedule),
            Err(index) => {
                let (_, host, target) = offers[index];
                channel.offer(now, host, target, schedule);
            }
        }
        look(now, &channel);
    }
    channel
}

/// The sum of one kind of latency.
pub fn sum(observations: &Observations, kind: Latency) -> Span {
    Span(u64::try_from(observations.recorder(kind).sum_ps()).expect("a short run"))
}

/// Counters by name, in the words of the byte-by-byte model.
pub fn counters(channel: &EventChannel) -> [(&'static str, u64); 8] {
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
