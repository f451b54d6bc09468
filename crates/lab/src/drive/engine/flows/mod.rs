//! Flows between the hosts of a channel whose packets have sizes of their own: hosts are asked for
//! packets when their ports are free, and acknowledgments and notifications travel as packets do.
//!
//! Each class of a host has at most one packet at its port, so that the choice of the flow that
//! sends is made when the port is free, and classes share the port as its scheduler determines.
//! Control packets between hosts wait only for the port.

mod alone;
mod division;
mod messages;
mod report;

use weft_fabric::adapter::{
    Arrived, Content, Outgoing, SeenOnPath, Segment, TransportParts, Transports,
};
use weft_fabric::fabric::{HostPair, Routes};
use weft_fabric::measure::Spent;
use weft_fabric::measure::{Drop, Instants};
use weft_fabric::switch::PortPair;
use weft_fabric::switch::shared_buffer::{Header, HopTelemetry, Telemetry};
use weft_fabric::workload::FlowDemand;
use weft_kernel::{append, prefetch};
use weft_protocol::congestion::LinkState;
use weft_protocol::transport::LossRecovery;
use weft_units::{Span, Time};

use super::{Delivery, Engine};
use crate::drive::carrier::MessageId;

pub use report::{FlowBin, FlowReport, MILLIONTHS};

/// What hosts that send flows have.
#[derive(Debug)]
pub struct FlowParts {
    /// How flows are carried, and all of them.
    pub transports: TransportParts,
    /// The names of their groups.
    pub groups: Vec<String>,
    /// The traffic class of messages, each of which is a flow.
    pub class: u8,
}

/// The flows of a channel that runs.
#[derive(Debug)]
pub(super) struct Flows {
    transports: Transports,
    /// The content of each packet, by its number.
    segments: Vec<Carried>,
    groups: Vec<String>,
    classes: u8,
    /// The message that each flow is, where flows are messages; and their class.
    messages: Vec<MessageId>,
    class: u8,
    /// What the header of a part of a flow has set.
    bits: u8,
    /// Ways of flows that are alone are drawn apart, so that they change nothing.
    alone: Routes,
    path: Vec<PortPair>,
}

/// What a packet carries from one end of its flow to the other. The flow itself is named by its header.
#[derive(Clone, Copy, Debug)]
#[repr(align(32))]
struct Carried {
    content: Content,
    sent: Time,
    spray: u16,
}

// Two of them in a line of the cache, and none in two lines.
const _: () = assert!(size_of::<Carried>() == 32);

/// A flow that has begun and has not come to an end.
pub(super) struct FlowUnderWay<'a> {
    pub number: usize,
    /// The name of its group.
    pub group: &'a str,
    pub flow: &'a FlowDemand,
}

impl Flows {
    pub fn new(parts: FlowParts, alone: Routes) -> Flows {
        let FlowParts { transports, groups, class } = parts;
        let TransportParts { settings, classes, .. } = &transports;
        let control = settings.congestion_control.as_ref();
        let marks = control.filter(|own| own.hears_marks()).map_or(0, |_| Header::ECN_CAPABLE);
        let telemetry =
            control.filter(|own| own.needs_telemetry()).map_or(0, |_| Header::TELEMETRY);
        let trims = match settings.reliability {
            LossRecovery::GoBackN => 0,
            LossRecovery::SelectiveRepeat => Header::TRIMMABLE,
        };
        Flows {
            classes: *classes as u8,
            transports: Transports::new(transports),
            segments: Vec::new(),
            groups,
            messages: Vec::new(),
            class,
            bits: marks | telemetry | trims,
            alone,
            path: Vec::new(),
        }
    }

    /// How long an initiator waits before it sends again.
    pub fn timeout(&self) -> Span {
        self.transports.timeout()
    }

    /// Flows that have begun by `now` and have not come to an end.
    pub fn under_way(&self, now: Time) -> impl Iterator<Item = FlowUnderWay<'_>> {
        let all = self.transports.outcomes().enumerate();
        let under_way = all.filter(move |(_, (flow, own))| flow.start <= now && own.end > now);
        under_way.map(|(number, (flow, _))| {
            let group = self.groups.get(usize::from(flow.group)).map_or("", String::as_str);
            FlowUnderWay { number, group, flow }
        })
    }

    /// A packet is at an end of its flow soon.
    #[inline]
    pub fn prefetch(&self, id: usize) {
        prefetch(&self.segments, id);
    }

    /// Prefetches the state that a flow has at the end that the packet reaches.
    #[inline]
    pub fn prefetch_end(&self, header: &Header) {
        self.transports.prefetch(header.flow, header.has(Header::CONTROL));
    }

    /// A host is woken soon.
    #[inline]
    pub fn prefetch_wake(&self, item: u32) {
        self.transports.prefetch_wake(item);
    }

    /// A host may send soon.
    #[inline]
    pub fn prefetch_next(&self, host: u32) {
        self.transports.prefetch_next(host);
    }

    /// Stores the content of a packet.
    #[inline(always)]
    pub fn note(&mut self, id: u32, segment: Segment) {
        let Segment { content, sent, spray, .. } = segment;
        let carried = Carried { content, sent, spray };
        while self.segments.len() <= id as usize {
            append(&mut self.segments, carried);
        }
        self.segments[id as usize] = carried;
    }

    /// The content of a packet of a flow.
    #[inline]
    pub fn segment(&self, id: u32, flow: u32) -> Segment {
        let Carried { content, sent, spray } = self.segments[id as usize];
        Segment { flow, content, sent, spray }
    }
}

impl Engine {
    /// Routes use other next hops from now on, and flows that keep to a plane use other planes.
    pub(super) fn keep_flows_to_planes(&mut self, now: Time) {
        let left = self.routes.planes_left().cloned();
        let Some(flows) = &mut self.flows else { return };
        flows.transports.keep_to(left);
        if self.graph.planes() > 1 {
            (0..self.graph.hosts()).for_each(|host| self.send_from(now, host));
        }
    }

    /// Has hosts woken when they have asked for it.
    #[inline]
    pub(super) fn schedule_wakes(&mut self) {
        if self.flows.as_ref().is_some_and(|own| own.transports.has_wakes()) {
            self.schedule_each_wake();
        }
    }

    fn schedule_each_wake(&mut self) {
        let Some(flows) = &mut self.flows else { return };
        let acts = self.places.acts;
        for wake in flows.transports.take_wakes() {
            self.parts.push(weft_kernel::Event {
                time: wake.time,
                place: acts + wake.host,
                item: wake.item,
            });
        }
    }

    /// A host with flows is woken.
    pub(super) fn wake_flow(&mut self, now: Time, host: u32, item: u32) {
        let Some(flows) = &mut self.flows else { return };
        let woken = flows.transports.wake(now, item);
        if let Some(flow) = woken.begins {
            let packets = flows.transports.packets(flow);
            self.note_alone(flow);
            self.count_all_handed(now, host, packets);
        }
        self.schedule_wakes();
        if let Some(out) = &woken.says {
            let id = self.insert_segment(now, host, out);
            let port = self.graph.host_port(self.end_of(host, out.segment.flow, out.to));
            self.put_in_queue(now, port, id);
        }
        self.send_from(now, host);
    }

    /// The end by which a host says something of a flow to the host at its other end, of its own accord.
    fn end_of(&self, host: u32, flow: u32, to: u32) -> u32 {
        match &self.flows {
            Some(own) if own.transports.planes() > 1 => {
                own.transports.plane(flow) * self.graph.hosts() + host
            }
            _ => self.end_towards(self.next_end(host), to),
        }
    }

    /// Puts a packet of each class that has one and may send it at the port of a host. Returns whether one has started
    /// already, so that the port has nothing more to do now.
    #[inline]
    pub(super) fn feed_port(&mut self, now: Time, port: u32) -> bool {
        let end = port - self.graph.switch_ports();
        let host = self.graph.host_of(end);
        let Some(flows) = &self.flows else { return false };
        let mut has_started = false;
        // Flows that keep to a plane wait for the end there, others for any.
        let place = if flows.transports.planes() > 1 { end } else { host };
        for class in 0..flows.classes {
            let (Some(flows), Some(own)) = (&mut self.flows, &self.classed) else { break };
            if !flows.transports.is_waiting(place, class) || !own.takes_packet_of(port, class) {
                continue;
            }
            let (left, hosts) = (self.routes.planes_left(), self.graph.hosts());
            let may_leave =
                |from, to| left.is_none_or(|left| left.admits(end / hosts, HostPair { from, to }));
            if let Some(out) = flows.transports.next(now, place, class, may_leave) {
                let id = self.insert_segment(now, host, &out);
                self.use_end(end);
                has_started |= self.feed_packet(now, port, id);
            }
            self.schedule_wakes();
        }
        has_started
    }

    /// Whether a flow waits until the port of a host is free.
    #[inline]
    pub(super) fn is_awaited(&self, port: u32) -> bool {
        let (Some(end), Some(flows)) = (port.checked_sub(self.places.hosts), &self.flows) else {
            return false;
        };
        let host = self.graph.host_of(end);
        (0..flows.classes).any(|class| flows.transports.is_waiting(host, class))
    }

    /// A packet of a flow, or a response, is at the port of its host. It starts immediately if
    /// there is no other class that might be before it. Returns whether it does.
    #[inline]
    fn feed_packet(&mut self, now: Time, port: u32, id: u32) -> bool {
        if self.flows.as_ref().is_some_and(|own| own.classes == 1)
            && let Some(span) = self.start_at_once(now, port, id)
        {
            self.send(now, port, id, span);
            return true;
        }
        self.put_in_queue(now, port, id);
        false
    }

    /// A packet with what it says is in the adapter of a host.
    fn insert_segment(&mut self, now: Time, host: u32, out: &Outgoing) -> u32 {
        let Outgoing { segment, to, size, payload, class, .. } = *out;
        let Some(flows) = &mut self.flows else { return 0 };
        let is_data = matches!(segment.content, Content::Data { .. });
        let generated = if is_data { flows.transports.flow(segment.flow).start } else { now };
        // A message is told of the first attempt of each of its packets.
        let message = match out.is_first {
            true => flows.message(segment.flow),
            false => MessageId::NONE,
        };
        let header = Header {
            flow: segment.flow,
            size: size.0 as u32,
            payload: payload.0 as u32,
            to,
            from: host,
            message: message.number(),
            generated,
            start: now,
            route_state: self.routes.depart_flow(host, to, segment.flow, segment.spray),
            class,
            bits: if is_data { flows.bits } else { Header::CONTROL },
            ..Header::NOTHING
        };
        let id = self.packets.insert_header();
        flows.note(id, segment);
        self.note_header(id, header);
        id
    }

    /// The last byte of a packet of a flow, or of what hosts say of flows, is at its target, which answers
    /// in the same plane, as long as that leads back.
    pub(super) fn deliver_segment(
        &mut self,
        now: Time,
        end: u32,
        id: u32,
        header: Header,
        watch: &mut impl FnMut(Delivery),
    ) {
        let Some(flows) = &self.flows else { return };
        let segment = flows.segment(id, header.flow);
        let Header { hops, to: host, generated, start, from, .. } = header;
        // The time of control packets per stage is not recorded.
        let spent = match segment.content {
            Content::Data { .. } => {
                self.observations.prefetch_latencies(header.class, generated, start, now);
                self.spent_in_all(id, header.size)
            }
            _ => Spent::default(),
        };
        let said = self.classed.as_ref().and_then(|own| own.telemetry_of(id));
        self.packets.remove(id);
        // What the port has sent until now leaves after that.
        self.settle_port(Time(now.0.saturating_sub(1)), self.graph.host_port(end));
        let Arrived { answers, payload } =
            self.arrive_at_end(now, &segment, header, hops, said.as_ref());
        self.schedule_wakes();
        if answers > 0 {
            self.answer_segment(now, end, host, said);
        }
        match self.graph.planes() {
            1 => self.send_next(now, self.graph.host_port(host)),
            planes => self.send_from_planes(now, host, planes),
        }
        let Some(payload) = payload else { return };
        self.part_arrived(now, segment.flow);
        let instants = Instants {
            from,
            to: host,
            generated,
            started: start,
            delivered: now,
            hops,
            class: header.class,
            payload,
            transmission: spent.transmission,
            wire: spent.wire,
            switches: spent.switches,
            initiator: Span::ZERO,
            target: Span::ZERO,
        };
        self.observe_delivery(instants, watch);
    }

    /// A host answers the packet of a flow that has just come to one of its ends, with what switches wrote into that.
    #[inline(never)]
    fn answer_segment(&mut self, now: Time, end: u32, host: u32, said: Option<Telemetry>) {
        let Some(flows) = &mut self.flows else { return };
        let answers = flows.transports.take_answers();
        for out in &answers {
            // A grant may be for another flow than the one whose packet has come.
            let port = self.graph.host_port(self.end_towards(end, out.to));
            let id = self.insert_segment(now, host, out);
            if let (Some(own), Some(said)) = (&mut self.classed, said) {
                own.carry_telemetry(id, said);
            }
            self.feed_packet(now, port, id);
        }
        if let Some(flows) = &mut self.flows {
            flows.transports.return_answers(answers);
        }
    }

    /// A packet is at an end of its flow, with what switches wrote into it, where they do.
    fn arrive_at_end(
        &mut self,
        now: Time,
        segment: &Segment,
        header: Header,
        hops: u16,
        said: Option<&Telemetry>,
    ) -> Arrived {
        let (Some(flows), Some(own)) = (&mut self.flows, &self.classed) else {
            return Arrived::default();
        };
        if header.has(Header::TRIMMED | Header::DAMAGED) {
            if header.has(Header::DAMAGED) {
                self.observations.drop(Drop::FailedCable, now);
                return Arrived::default();
            }
            return flows.transports.arrive_cut(now, segment, hops);
        }
        let path = SeenOnPath { is_marked: header.has(Header::MARKED), hops };
        let Some(said) = said else { return flows.transports.arrive(now, segment, path, &[]) };
        // The port of the host is none of the links that are looked at.
        let of_switches = said.hops().iter().filter(|hop| hop.port < self.places.hosts);
        let mut links = [LinkState::NONE; Telemetry::MOST];
        let mut count = 0;
        for (state, hop) in links.iter_mut().zip(of_switches) {
            let HopTelemetry { port, queue, sent, time } = *hop;
            *state = LinkState { link: port, rate: own.rate(port), time, sent, queue };
            count += 1;
        }
        flows.transports.arrive(now, segment, path, &links[..count])
    }

    /// A packet was dropped, of which its flow will learn.
    #[cold]
    pub(super) fn lose_segment(&mut self, now: Time, id: u32, why: Drop) {
        self.packets.remove(id);
        self.observations.drop(why, now);
    }
}
