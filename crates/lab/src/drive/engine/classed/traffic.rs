//! Traffic of the same hosts beside the first, or beside flows: each with a class, a size and a time of its
//! own.

use weft_fabric::switch::shared_buffer::Header;
use weft_fabric::workload::Source;
use weft_units::{Bytes, Span, Time};

use crate::drive::carrier::MessageId;
use crate::drive::engine::{Engine, Handed};

/// The traffic of one kind from all hosts.
#[derive(Debug)]
pub struct Traffic {
    /// By host; none of them waits for the fabric.
    pub sources: Vec<Source>,
    /// The traffic class.
    pub class: u8,
    /// The size of a packet on the wire.
    pub packet: Bytes,
    /// The payload in it.
    pub payload: Bytes,
    /// When this traffic begins: it is added to the times of the sources, which count from zero.
    pub start: Span,
    /// Later packets are not submitted.
    pub end: Time,
}

impl Traffic {
    /// When a host hands over its next packet, if it does.
    fn next_time(&self, host: u32) -> Option<Time> {
        let next = self.sources[host as usize].next_time();
        let is_any = next < Time::NEVER;
        Some(next + self.start).filter(|time| is_any && *time <= self.end)
    }
}

impl Engine {
    /// The first packets of what is handed over beside the first kind of traffic.
    pub(super) fn begin_traffic(&mut self) {
        let Some(own) = &self.classed else { return };
        let first = |(number, traffic): (u32, &Traffic)| {
            let of_host = |host| Some((traffic.next_time(host)?, host, number));
            (0..own.hosts).filter_map(of_host).collect::<Vec<_>>()
        };
        let all: Vec<(Time, u32, u32)> = (1..).zip(&own.traffic).flat_map(first).collect();
        for (time, host, number) in all {
            self.schedule(time, self.places.generates + host, number);
        }
    }

    /// A host hands over a packet of such traffic, by its number from 1.
    pub(super) fn generate_beside(&mut self, now: Time, host: u32, number: u32) {
        let Some(own) = &mut self.classed else { return };
        let traffic = &mut own.traffic[number as usize - 1];
        let to = traffic.sources[host as usize].take().target;
        let (part, next) = (traffic.payload, traffic.next_time(host));
        let header = Header {
            flow: number,
            size: traffic.packet.0 as u32,
            payload: part.0 as u32,
            class: traffic.class,
            bits: Header::ECN_CAPABLE | Header::TRIMMABLE | Header::APART,
            ..Header::NOTHING
        };
        own.apart += 1;
        if let Some(time) = next {
            self.schedule(time, self.places.generates + host, number);
        }
        self.count_handed(now, host);
        let (generated, message) = (now, MessageId::NONE);
        let handed = Handed { to, generated, message, size: part, part, next: Time::NEVER };
        self.submit(now, host, &handed, header);
    }
}
