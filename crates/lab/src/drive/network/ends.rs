//! The hosts around a fabric: what they hand over, and what is observed where they receive it.

use weft_fabric::fabric::{Routes, Wiring};
use weft_fabric::measure::{Instants, Observations};
use weft_fabric::workload::Source;
use weft_kernel::{Arena, Id};
use weft_units::{Bytes, Limit, Span, Time};

use super::feed::Feed;
use super::supply::{Handed, Supply};
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
    pub from: u32,
    /// The target.
    pub to: u32,
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

/// Sources, packets and observations: what any kind of switch needs around it.
#[derive(Debug)]
pub(super) struct Ends<X> {
    pub packets: Arena<Packet<X>>,
    pub observations: Observations,
    supply: Supply,
    send_buffers: Limit,
    /// What every packet spends for each cable and switch.
    propagation: Span,
    latency: Span,
    payload: Bytes,
}

impl<X: Copy> Ends<X> {
    /// When each source hands over its first packets: host and time, several of a greedy one.
    pub fn begin(&self) -> Vec<(u16, Time)> {
        let first = self.supply.begin(self.send_buffers).into_iter();
        first.map(|(host, time)| (host as u16, time)).collect()
    }

    /// The source of `host` hands over a packet.
    #[inline]
    pub fn hand_over(&mut self, now: Time, host: u16) -> Handed {
        let handed = self.supply.hand_over(now, host.into(), self.payload);
        if handed.message == MessageId::NONE {
            self.observations.generate_from(host.into(), now);
        }
        handed
    }

    /// Whether the source of `host` hands over another packet as soon as this one has started. It
    /// is then to be asked for it.
    #[inline]
    pub fn has_another(&mut self, host: u16) -> bool {
        self.supply.has_another(host.into())
    }

    /// The messages of a channel without sources, and where what is handed over is counted.
    pub fn messages(&mut self) -> Option<(&mut Feed, &mut Observations)> {
        self.supply.messages().map(|feed| (feed, &mut self.observations))
    }

    /// From now on a message is one packet, however large it is.
    pub fn keep_messages_whole(&mut self, hosts: u32) {
        if let Some(feed) = self.supply.messages() {
            *feed = Feed::new(hosts as usize, Bytes(u64::MAX));
        }
    }

    /// Packets of messages that have not been handed over.
    pub fn unfed(&self) -> u64 {
        self.supply.unfed()
    }

    /// The time of the oldest notice that has not been taken.
    pub fn next_notice(&self) -> Option<Time> {
        self.supply.next_notice()
    }

    /// The last byte of a packet or message is at its target; its way took what `passage` says.
    /// Returns it, and when the source of the target is to be looked at because of that.
    #[inline]
    pub fn complete(
        &mut self,
        now: Time,
        id: Id<Packet<X>>,
        passage: Course,
    ) -> (Delivery, Option<Time>) {
        let Packet { generated, start, from, to, message, .. } = self.packets[id];
        self.packets.remove(id);
        let (from, to) = (u32::from(from), u32::from(to));
        let Course { hops, transmission, payload, initiator, target } = passage;
        self.observations.complete(&Instants {
            from,
            to,
            generated,
            started: start,
            delivered: now,
            hops,
            payload,
            transmission,
            wire: self.propagation * (u64::from(hops) + 1),
            switches: self.latency * u64::from(hops),
            initiator,
            target,
        });
        let delivery = Delivery { from, to, generated, start, end: now, hops };
        (delivery, self.supply.arrived(now, (from, to), message))
    }
}

impl<X> Ends<X> {
    /// The hosts of a channel at time zero.
    pub fn new(parts: NetworkParts) -> (Ends<X>, Wiring, Routes) {
        let ends = Ends {
            packets: Arena::new(),
            observations: parts.observations,
            supply: Supply::new(parts.sources, parts.wiring.hosts(), parts.payload),
            send_buffers: parts.send_buffers,
            propagation: parts.propagation,
            latency: parts.latency,
            payload: parts.payload,
        };
        (ends, parts.wiring, parts.routes)
    }
}
