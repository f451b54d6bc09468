//! The hosts around a fabric: what they hand over, and what is observed where they receive it.

use weft_fabric::fabric::{Routes, Wiring};
use weft_fabric::measure::{self, Latency, Observations, Stage};
use weft_fabric::workload::{Feedback, Source};
use weft_kernel::{Arena, Id};
use weft_units::{Bytes, Limit, Span, Time};

use super::feed::Feed;
use crate::drive::carrier::MessageId;

/// What a channel of a fabric is made of besides its switches.
#[derive(Debug)]
pub struct NetworkParts {
    /// Which switches and cables there are.
    pub wiring: Wiring,
    /// Which ways packets take.
    pub routes: Routes,
    /// The time that a packet occupies a link.
    pub packet: Span,
    /// What of a packet a program handed over.
    pub payload: Bytes,
    /// The time that a signal travels on a cable.
    pub propagation: Span,
    /// From a byte at an input of a switch to the same byte at a free output.
    pub latency: Span,
    /// How many packets each adapter holds.
    pub send_buffers: Limit,
    /// The source of each host, or none if all packets are those of messages.
    pub sources: Vec<Source>,
    /// Where the observations go.
    pub observations: Observations,
}

/// A packet that has been delivered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Delivery {
    /// The initiator.
    pub from: u16,
    /// The target.
    pub to: u16,
    /// When it was handed over.
    pub generated: Time,
    /// When its first byte left the initiator.
    pub start: Time,
    /// When its last byte reached the target.
    pub end: Time,
    /// How many switches it passed.
    pub hops: u8,
}

/// What a packet, or a message of several cells, went through on its way.
#[derive(Clone, Copy, Debug)]
pub(super) struct Course {
    /// How many switches it passed.
    pub hops: u8,
    /// How long all its cells take on a link.
    pub transmission: Span,
    pub payload: Bytes,
    /// What the adapter of the initiator took before anything could be sent.
    pub initiator: Span,
    /// What that of the target took after the last byte.
    pub target: Span,
}

/// A packet that has been handed over; `X` is what the switches note on it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Packet<X> {
    pub generated: Time,
    pub start: Time,
    pub from: u16,
    pub to: u16,
    /// The message that it belongs to.
    pub message: MessageId,
    pub note: X,
}

/// A packet that is handed over, and when the next one comes if it comes by itself.
#[derive(Clone, Copy, Debug)]
pub(super) struct Handed {
    pub to: u16,
    pub generated: Time,
    pub message: MessageId,
    /// What a program handed over: of a message, the whole of it.
    pub size: Bytes,
    pub next: Time,
}

/// Where packets come from: the sources of the hosts, or messages.
#[derive(Debug)]
enum Supply {
    Sources(Vec<Source>),
    Messages(Box<Feed>),
}

/// Sources, packets and observations: what any kind of switch needs around it.
#[derive(Debug)]
pub(super) struct Ends<X> {
    pub packets: Arena<Packet<X>>,
    pub observations: Observations,
    supply: Supply,
    send_buffers: Limit,
    /// What every packet spends on the whole: on its link, and for each switch and cable.
    packet: Span,
    propagation: Span,
    latency: Span,
    payload: Bytes,
}

impl<X: Copy> Ends<X> {
    /// When each source hands over its first packets: host and time, several of a greedy one.
    pub fn begin(&self) -> Vec<(u16, Time)> {
        let first = |(host, source): (u16, &Source)| {
            // A greedy source fills all buffers at once.
            let packets = match (source.feedback(), self.send_buffers.count()) {
                (Feedback::Ready, Some(buffers)) => buffers.as_usize(),
                _ => usize::from(source.next_time() < Time::NEVER),
            };
            std::iter::repeat_n((host, source.next_time()), packets)
        };
        match &self.supply {
            Supply::Sources(sources) => (0..).zip(sources).flat_map(first).collect(),
            Supply::Messages(_) => Vec::new(),
        }
    }

    /// The source of `host` hands over a packet.
    #[inline]
    pub fn hand_over(&mut self, now: Time, host: u16) -> Handed {
        match &mut self.supply {
            Supply::Sources(sources) => {
                let source = &mut sources[usize::from(host)];
                source.ready(now);
                let demand = source.take();
                self.observations.generate_from(usize::from(host), now);
                let (to, next) = (demand.target, source.next_time());
                Handed { to, generated: now, message: MessageId::NONE, size: self.payload, next }
            }
            Supply::Messages(feed) => feed.hand_over(now, host),
        }
    }

    /// Whether the source of `host` hands over another packet as soon as this one has started. It
    /// is then to be asked for it.
    #[inline]
    pub fn has_another(&mut self, host: u16) -> bool {
        match &mut self.supply {
            Supply::Sources(sources) => sources[usize::from(host)].feedback() == Feedback::Ready,
            Supply::Messages(feed) => feed.ask(host),
        }
    }

    /// The messages of a channel without sources, and where what is handed over is counted.
    pub fn messages(&mut self) -> Option<(&mut Feed, &mut Observations)> {
        match &mut self.supply {
            Supply::Sources(_) => None,
            Supply::Messages(feed) => Some((feed, &mut self.observations)),
        }
    }

    /// From now on a message is one packet, however large it is.
    pub fn keep_messages_whole(&mut self, hosts: u16) {
        if let Supply::Messages(feed) = &mut self.supply {
            **feed = Feed::new(hosts.into(), Bytes(u64::MAX));
        }
    }

    /// Packets of messages that have not been handed over.
    pub fn unfed(&self) -> u64 {
        match &self.supply {
            Supply::Sources(_) => 0,
            Supply::Messages(feed) => feed.waiting(),
        }
    }

    /// The time of the oldest notice that has not been taken.
    pub fn next_notice(&self) -> Option<Time> {
        match &self.supply {
            Supply::Sources(_) => None,
            Supply::Messages(feed) => feed.messages.next_notice(),
        }
    }

    /// The last byte of a packet that passed `hops` switches is at its target. Returns it, and when
    /// the source of the target is to be looked at because of that.
    #[inline]
    pub fn deliver(&mut self, now: Time, id: Id<Packet<X>>, hops: u8) -> (Delivery, Option<Time>) {
        let (transmission, payload) = (self.packet, self.payload);
        let host = Span::ZERO;
        let passage = Course { hops, transmission, payload, initiator: host, target: host };
        self.complete(now, id, passage)
    }

    /// The same of a packet or message whose way took what `passage` says.
    #[inline]
    pub fn complete(
        &mut self,
        now: Time,
        id: Id<Packet<X>>,
        passage: Course,
    ) -> (Delivery, Option<Time>) {
        let Packet { generated, start, from, to, message, .. } = self.packets[id];
        self.packets.remove(id);
        let Course { hops, transmission, payload, initiator, target } = passage;
        let seen = &mut self.observations;
        let queueing = start.since(generated);
        let transit = Span(now.since(start).0 - target.0);
        seen.latency(Latency::Queueing, now, queueing);
        seen.latency(Latency::Transit, now, transit);
        seen.latency(Latency::OneWay, now, queueing + transit + target);
        if now >= seen.from {
            let wire = Span(self.propagation.0 * (u64::from(hops) + 1));
            let switches = Span(self.latency.0 * u64::from(hops));
            let moving = transmission + wire + switches;
            for (stage, span) in [(Stage::InitiatorHost, initiator), (Stage::TargetHost, target)] {
                if span > Span::ZERO {
                    seen.budget.add(stage, span);
                }
            }
            seen.budget.add(Stage::SlotWait, Span(queueing.0 - initiator.0));
            seen.budget.add(Stage::Transmission, transmission);
            seen.budget.add(Stage::Wire, wire);
            seen.budget.add(Stage::Switch, switches);
            seen.budget.add(Stage::SwitchWait, Span(transit.0 - moving.0));
            seen.hops.count(hops);
        }
        seen.deliver_from(usize::from(from), now, payload);
        seen.pass(measure::Passage { from, to, start, end: now });
        let delivery = Delivery { from, to, generated, start, end: now, hops };
        let answer = match &mut self.supply {
            Supply::Sources(sources) => answer(&mut sources[usize::from(to)], now, from),
            Supply::Messages(feed) => {
                feed.messages.arrive(now, message);
                None
            }
        };
        (delivery, answer)
    }
}

/// When a source is to be looked at because a packet reached its host.
#[inline]
fn answer(source: &mut Source, now: Time, from: u16) -> Option<Time> {
    if source.feedback() != Feedback::Delivered {
        return None;
    }
    let before = source.next_time();
    source.delivered(now, from);
    Some(source.next_time()).filter(|next| *next != before)
}

impl<X> Ends<X> {
    /// Notes how long cables are busy: by the ports of all switches, then by hosts.
    pub fn watch_links(&mut self, wiring: &Wiring) {
        let links = wiring.ports() as usize + usize::from(wiring.hosts());
        self.observations = std::mem::take(&mut self.observations).of_links(links);
    }

    /// The hosts of a channel at time zero.
    pub fn new(parts: NetworkParts) -> (Ends<X>, Wiring, Routes) {
        let supply = if parts.sources.is_empty() {
            Supply::Messages(Box::new(Feed::new(parts.wiring.hosts().into(), parts.payload)))
        } else {
            Supply::Sources(parts.sources)
        };
        let ends = Ends {
            packets: Arena::new(),
            observations: parts.observations,
            supply,
            send_buffers: parts.send_buffers,
            packet: parts.packet,
            propagation: parts.propagation,
            latency: parts.latency,
            payload: parts.payload,
        };
        (ends, parts.wiring, parts.routes)
    }
}
