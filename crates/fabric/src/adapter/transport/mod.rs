//! Flows at the adapters of a channel. Each is sent as its congestion control and its window allow, and
//! lost packets are retransmitted; the flows of a host take turns at its port.
//!
//! The engine asks for packets when a port is free ([`Transports::next`]), reports arrivals
//! ([`Transports::arrive`]), and wakes flows at the instants that they ask for
//! ([`Transports::take_wakes`]). The initiator's and the target's state of a flow are separate, and
//! each changes only through events at its own host, so that parts of a channel may run in parallel.

mod answers;
mod credits;
mod division;
mod ends;
mod outcome;
mod packets;
mod planes;
mod queue_pairs;
mod settings;
mod soon;
mod turns;

use std::sync::Arc;

use weft_protocol::congestion::{
    Acknowledged, CongestionControl, Flight, Line, LinkState, Loss, Pacer,
};
use weft_protocol::spraying::{Spraying, WayReport};
use weft_protocol::transport::{Answer, LossRecovery, Sender};
use weft_units::{Bytes, Rate, Span, Time};

use crate::fabric::LivePlanes;
use crate::workload::{FlowDemand, FlowLoop};

use credits::Asked;
use ends::{Initiator, Target};

pub use outcome::{FlowCounts, HeldPackets, Outcome};
pub use packets::{Allowed, Arrived, Content, Outgoing, SeenOnPath, Segment, Wake, Woken};
use queue_pairs::{Kept, QueuePair};
pub use settings::{QueuePairs, TransportSettings};
use turns::Turns;

/// What flows are built from.
#[derive(Debug)]
pub struct TransportParts {
    /// The transport.
    pub settings: TransportSettings,
    /// The payload of a full packet, and the overhead of every packet.
    pub payload: Bytes,
    /// Header and check code of each packet.
    pub overhead: Bytes,
    /// The highest rate at which a host sends a flow: that of its link.
    pub rates: Vec<Rate>,
    /// Over how many planes flows are spread, each of which uses one port of its host; otherwise 1.
    pub planes: u32,
    /// How many traffic classes there are.
    pub classes: usize,
    /// All flows, in the order in which they begin.
    pub flows: Vec<FlowDemand>,
    /// What follows them in closed loops.
    pub loops: Vec<FlowLoop>,
    /// When counting begins.
    pub from: Time,
    /// The state from which spraying values are drawn.
    pub key: u64,
}

/// The reason for a wake-up, in the last two bits; the other bits are the flow, or the host whose pacer has
/// paused.
const BEGINS: u32 = 0;
const MAY_SEND: u32 = 1;
const TIMER: u32 = 2;
const PACE: u32 = 3;

/// End of a list of flows.
const NONE: u32 = u32::MAX;

/// The flows of a channel.
#[derive(Debug)]
pub struct Transports {
    settings: TransportSettings,
    payload: u64,
    overhead: u64,
    lines: Vec<Line>,
    /// How long a full packet takes on the line of any host, if all are alike.
    full_span: Option<Span>,
    planes: u32,
    classes: usize,
    flows: Vec<FlowDemand>,
    /// What follows flows in closed loops.
    loops: Vec<FlowLoop>,
    /// The next flow of the same initiator.
    following: Vec<u32>,
    initiators: Vec<Option<Box<Initiator>>>,
    targets: Vec<Option<Box<Target>>>,
    outcomes: Vec<Outcome>,
    /// By plane, host and class: the flows that may send, in turn.
    turns: Vec<Turns>,
    /// Which planes still connect which hosts, if some no longer do.
    left: Option<Arc<LivePlanes>>,
    /// By host: the pacer that grants credits to the flows to it; empty without credits.
    pacers: Vec<Pacer>,
    /// Queue pairs that outlive flows, if they do.
    kept: Option<Kept>,
    wakes: Vec<Wake>,
    /// The responses to the packet that arrived last. They are read from here, since copying them took longer than
    /// making them.
    answers: Vec<Outgoing>,
    from: Time,
    key: u64,
    counts: FlowCounts,
}

impl Transports {
    /// All flows before they begin. The caller must take their first wake-ups.
    pub fn new(parts: TransportParts) -> Transports {
        let TransportParts { settings, payload, overhead, rates, planes, classes, .. } = parts;
        let TransportParts { flows, loops, from, key, .. } = parts;
        let (payload, overhead) = (payload.0.max(1), overhead.0);
        let line = |rate| Line { rate, packet: Bytes(payload + overhead), payload: Bytes(payload) };
        let hosts = rates.len();
        let mut following = vec![NONE; flows.len()];
        let mut first = vec![NONE; hosts];
        for (number, flow) in flows.iter().enumerate().rev() {
            following[number] = std::mem::replace(&mut first[flow.from as usize], number as u32);
        }
        let count = flows.len();
        let lines: Vec<Line> = rates.into_iter().map(line).collect();
        let credits = settings.congestion_control.as_ref().and_then(|own| own.credits());
        // Packets of flows may arrive in any plane.
        let all = |line: &Line| Line { rate: line.rate.times(planes), ..*line };
        let pacers =
            credits.map(|own| lines.iter().map(|line| Pacer::new(own, all(line))).collect());
        let mut own = Transports {
            pacers: pacers.unwrap_or_default(),
            full_span: full_span(&lines),
            lines,
            planes,
            kept: (settings.queue_pairs == QueuePairs::Kept).then(Kept::default),
            settings,
            payload,
            overhead,
            classes,
            flows,
            loops,
            following,
            initiators: std::iter::repeat_with(|| None).take(count).collect(),
            targets: std::iter::repeat_with(|| None).take(count).collect(),
            outcomes: vec![Outcome::default(); count],
            turns: vec![Turns::default(); hosts * planes as usize * classes],
            left: None,
            wakes: Vec::new(),
            answers: Vec::new(),
            from,
            key,
            counts: FlowCounts::default(),
        };
        first.into_iter().for_each(|flow| own.announce(flow));
        own
    }

    /// Adds a flow, and returns its number. The caller must wake its host.
    pub fn add(&mut self, flow: FlowDemand) -> u32 {
        let number = self.flows.len() as u32;
        self.wakes.push(Wake { time: flow.start, host: flow.from, item: number << 2 | BEGINS });
        self.flows.push(flow);
        self.following.push(NONE);
        self.initiators.push(None);
        self.targets.push(None);
        self.outcomes.push(Outcome::default());
        number
    }

    /// A host is woken when its next flow begins.
    fn announce(&mut self, flow: u32) {
        if let Some(FlowDemand { start: time, from: host, .. }) = self.flows.get(flow as usize) {
            self.wakes.push(Wake { time: *time, host: *host, item: flow << 2 | BEGINS });
        }
    }

    /// A flow.
    #[inline]
    pub fn flow(&self, number: u32) -> &FlowDemand {
        &self.flows[number as usize]
    }

    /// How many packets a flow has; an empty flow has one.
    #[inline]
    pub fn packets(&self, number: u32) -> u32 {
        let packets = self.flow(number).size.0.div_ceil(self.payload).max(1);
        u32::try_from(packets).unwrap_or(u32::MAX)
    }

    /// The payload of a packet of a flow: all packets are full but the last.
    #[inline]
    pub fn payload(&self, flow: u32, number: u32) -> Bytes {
        let before = u64::from(number) * self.payload;
        Bytes((self.flow(flow).size.0 - before).min(self.payload))
    }

    /// The size of a packet on the wire, given its payload.
    #[inline]
    pub fn size(&self, payload: Bytes) -> Bytes {
        Bytes(payload.0 + self.overhead)
    }

    /// Whether hosts want to be woken.
    #[inline]
    pub fn has_wakes(&self) -> bool {
        !self.wakes.is_empty()
    }

    /// The wake-ups that were requested since the last call.
    #[inline]
    pub fn take_wakes(&mut self) -> std::vec::Drain<'_, Wake> {
        self.wakes.drain(..)
    }

    /// Wakes a host. Returns the flow that begins, if one does, and what the host sends, if anything.
    pub fn wake(&mut self, now: Time, item: u32) -> Woken {
        let flow = item >> 2;
        match item & 3 {
            BEGINS => {
                self.begin(now, flow);
                self.announce(self.following[flow as usize]);
                Woken { begins: Some(flow), says: None }
            }
            MAY_SEND => {
                if let Some(own) = &mut self.initiators[flow as usize] {
                    own.is_waking = false;
                    self.consider(now, flow, Span::ZERO);
                }
                Woken::default()
            }
            TIMER => Woken { begins: None, says: self.look_at_timer(now, flow) },
            _ => Woken { begins: None, says: self.pace(now, item >> 2) },
        }
    }

    fn begin(&mut self, now: Time, number: u32) {
        let flow = self.flows[number as usize];
        let line = self.lines[flow.from as usize];
        let (packets, reliability) = (self.packets(number), self.settings.reliability);
        let control = self.settings.congestion_control.as_ref();
        let seed = self.seed(number);
        let fresh = CongestionControl::new(control, line, now);
        let QueuePair { number: queue_pair, control, notifier, before, ready } =
            self.open(number, fresh);
        let own = Initiator {
            sender: Sender::new(reliability, packets, self.settings.reordering.get()),
            control,
            queue_pair,
            before,
            spraying: self.settings.spraying.map(|own| Spraying::new(own, seed)),
            ready: now.max(ready),
            progress: now,
            is_queued: false,
            behind: NONE,
            is_waking: false,
            has_timer: false,
        };
        self.initiators[number as usize] = Some(Box::new(own));
        // The target of a queue pair that is kept continues with the notifications that are due there.
        if self.kept.is_some() {
            self.targets[number as usize] = Some(self.fresh_target(number, queue_pair, notifier));
        }
        self.consider(now, number, Span::ZERO);
    }

    /// Puts a flow into the list of those that may send, or asks for a wake-up when it may. The packet
    /// that its host has just been given takes `busy`: the port does not ask before.
    fn consider(&mut self, now: Time, flow: u32, busy: Span) {
        let from = self.flows[flow as usize].from;
        let Some(own) = self.initiators[flow as usize].as_deref_mut() else { return };
        if own.is_queued || own.is_waking {
            return;
        }
        let packet = self.payload + self.overhead;
        if !own.may_send(packet, self.settings.window) {
            return;
        }
        if own.ready > now + busy {
            own.is_waking = true;
            self.wakes.push(Wake { time: own.ready, host: from, item: flow << 2 | MAY_SEND });
            return;
        }
        (own.is_queued, own.behind) = (true, NONE);
        self.line_up(flow);
    }

    /// The next packet of a host and class without a packet waiting at its port. A flow must be allowed to
    /// leave by the port that asks, which `may_leave` decides from its two hosts.
    pub fn next(
        &mut self,
        now: Time,
        host: u32,
        class: u8,
        may_leave: impl Fn(u32, u32) -> bool,
    ) -> Option<Outgoing> {
        let place = self.turn_of(host, class);
        let packet = self.payload + self.overhead;
        while self.turn_to(place, &may_leave) {
            let flow = self.take_first(place)?;
            let own = self.initiators.get_mut(flow as usize)?.as_deref_mut()?;
            if own.sender.is_done() {
                self.close(flow);
                continue;
            }
            // What arrived since may have closed the window.
            if own.may_send(packet, self.settings.window)
                && let Some(number) = own.sender.next()
            {
                return Some(self.send(now, flow, number));
            }
        }
        None
    }

    fn send(&mut self, now: Time, flow: u32, number: u32) -> Outgoing {
        let FlowDemand { to, from, class, .. } = self.flows[flow as usize];
        let payload = self.payload(flow, number);
        let size = self.size(payload);
        let span = match self.full_span {
            Some(span) if payload.0 == self.payload => span,
            _ => self.lines[from as usize].rate.span(size),
        };
        let (mut is_first, mut asks, mut spray) = (false, false, 0);
        let full = self.payload + self.overhead;
        let short = (!self.pacers.is_empty()).then(|| self.short(flow));
        let mut pull_target = 0;
        if let Some(own) = self.initiators[flow as usize].as_deref_mut() {
            if own.sender.outstanding() == 0 {
                own.progress = now;
            }
            is_first = own.sender.sent(number);
            own.control.sent(now, size.0);
            pull_target = short.map_or(0, |short| own.pull_target(full, short));
            let has_more = own.sender.next().is_some() && own.fits(full, self.settings.window);
            asks = !is_first || !has_more;
            // The settings are asked first, since what a flow keeps of it may not be in the cache.
            if self.settings.spraying.is_some() {
                spray = own.spraying.as_mut().map_or(0, Spraying::choose);
            }
            own.ready = now + own.gap(now, size).max(span);
            if !std::mem::replace(&mut own.has_timer, true) {
                let time = own.progress + self.settings.timeout;
                self.wakes.push(Wake { time, host: from, item: flow << 2 | TIMER });
            }
        }
        if !is_first && now >= self.from {
            self.counts.retransmitted += 1;
            self.outcomes[flow as usize].retransmitted += 1;
        }
        if now >= self.from {
            self.counts.sent += 1;
        }
        self.consider(now, flow, span);
        let content = Content::Data { number, asks, pull_target };
        let segment = Segment { flow, content, sent: now, spray };
        Outgoing { segment, to, size, payload, class, is_first }
    }

    /// The timer of a flow runs while packets are in flight, or the flow waits for credits. Returns what
    /// the initiator then sends.
    fn look_at_timer(&mut self, now: Time, flow: u32) -> Option<Outgoing> {
        let host = self.flows[flow as usize].from;
        let own = self.initiators[flow as usize].as_deref_mut()?;
        let is_under_way = own.sender.outstanding() > 0;
        if !is_under_way && !own.lacks_credit() {
            own.has_timer = false;
            return None;
        }
        let due = own.progress + self.settings.timeout;
        if due > now {
            self.wakes.push(Wake { time: due, host, item: flow << 2 | TIMER });
            self.consider(now, flow, Span::ZERO);
            return None;
        }
        if is_under_way {
            own.sender.timed_out();
            if let Some(spraying) = &mut own.spraying {
                spraying.timed_out(now);
            }
            let next = own.before + u64::from(own.sender.fresh()) * (self.payload + self.overhead);
            own.control.lost(now, Loss::Timeout, Flight { next, under_way: 0 });
            self.counts.timeouts += u64::from(now >= self.from);
        }
        own.progress = now;
        let time = now + self.settings.timeout;
        self.wakes.push(Wake { time, host, item: flow << 2 | TIMER });
        self.consider(now, flow, Span::ZERO);
        self.request(now, flow)
    }

    /// A packet has arrived over a path, an acknowledgment with the link states that the acknowledged packet
    /// recorded.
    pub fn arrive(
        &mut self,
        now: Time,
        segment: &Segment,
        path: SeenOnPath,
        links: &[LinkState],
    ) -> Arrived {
        self.answers.clear();
        match segment.content {
            Content::Data { number, asks, pull_target } => {
                let grant = self.ask(now, segment.flow, pull_target, Asked::ByData);
                let payload = self.receive(now, segment, number, asks, path);
                if let Some(grant) = grant {
                    self.answers.push(grant);
                }
                return Arrived { answers: self.answers.len(), payload };
            }
            Content::Acknowledgment { answer, is_marked, hops } => {
                self.note_way(now, segment, &answer, is_marked);
                let there = SeenOnPath { is_marked, hops };
                self.hear(now, segment, &answer, there, links);
            }
            Content::Notification => {
                let is_heard = match self.initiators[segment.flow as usize].as_deref_mut() {
                    Some(own) => {
                        own.control.notified(now);
                        true
                    }
                    None => self.notify_kept(now, segment.flow),
                };
                self.counts.notifications += u64::from(is_heard && now >= self.from);
            }
            Content::Grant { up_to } => self.hear_grant(now, segment.flow, up_to),
            Content::Request { pull_target } => self.hear_request(now, segment, pull_target),
        }
        Arrived { answers: self.answers.len(), payload: None }
    }

    /// A part of a flow has arrived. Returns how many bytes of it, if it is new.
    fn receive(
        &mut self,
        now: Time,
        segment: &Segment,
        number: u32,
        asks: bool,
        path: SeenOnPath,
    ) -> Option<Bytes> {
        let (flow, is_marked) = (segment.flow, path.is_marked);
        let is_counted = now >= self.from;
        self.counts.marked += u64::from(is_counted && is_marked);
        let full = self.payload + self.overhead;
        self.begin_target(flow);
        let Some(own) = self.targets[flow as usize].as_deref_mut() else {
            self.answers.push(self.has_all(segment, number, path));
            return None;
        };
        let arrival = own.receiver.arrive(number);
        let interval = self.settings.congestion_control.as_ref();
        let interval = interval.and_then(|own| own.notification_interval()).filter(|_| is_marked);
        let notifies = interval.is_some_and(|interval| own.notifier.marked(now, interval));
        let is_complete = own.receiver.is_complete();
        let mut said = arrival.answer;
        if let Some(after) = self.settings.acknowledged_after
            && arrival.is_new
            && !is_complete
        {
            let (is_first, size) = (self.outcomes[flow as usize].delivered == 0, full);
            let is_due = own.owes(size, after.0, asks) || is_marked || is_first;
            said = said.filter(|_| is_due).map(|said| own.tell_before(said));
        }
        if is_counted && arrival.is_late {
            self.counts.out_of_order += 1;
        }
        if is_counted && !arrival.is_new {
            self.counts.unneeded += 1;
        }
        if is_complete {
            self.complete(flow);
            self.outcomes[flow as usize].end = now;
        }
        if let Some(said) = said {
            self.answers.push(self.answer(segment, said, path));
        }
        if notifies {
            self.answers.push(self.control_packet(segment, Content::Notification, now));
        }
        let payload = arrival.is_new.then(|| self.payload(flow, number));
        if let Some(payload) = payload {
            self.outcomes[flow as usize].delivered += 1;
            self.counts.payload += payload.0 * u64::from(is_counted);
        }
        payload
    }

    /// The header of a packet of a flow has arrived, whose payload a switch had trimmed.
    pub fn arrive_cut(&mut self, now: Time, segment: &Segment, hops: u16) -> Arrived {
        self.answers.clear();
        let Content::Data { number, pull_target, .. } = segment.content else {
            return Arrived::default();
        };
        self.counts.cut += u64::from(now >= self.from);
        let path = SeenOnPath { is_marked: false, hops };
        self.begin_target(segment.flow);
        let Some(own) = self.targets[segment.flow as usize].as_deref() else {
            self.answers.push(self.has_all(segment, number, path));
            return Arrived { answers: self.answers.len(), payload: None };
        };
        let answer = own.receiver.arrive_cut(number);
        let asked = if answer.is_refusal { Asked::ByHeader } else { Asked::ByData };
        let grant = self.ask(now, segment.flow, pull_target, asked);
        self.answers.push(self.answer(segment, answer, path));
        self.answers.extend(grant);
        Arrived { answers: self.answers.len(), payload: None }
    }

    /// A response reports on the route of the packet that it answers.
    fn note_way(&mut self, now: Time, segment: &Segment, answer: &Answer, is_marked: bool) {
        if self.settings.spraying.is_none() {
            return;
        }
        let Some(own) = self.initiators[segment.flow as usize].as_deref_mut() else { return };
        let Some(spraying) = &mut own.spraying else { return };
        let report = match (answer.is_refusal, is_marked) {
            (true, _) => WayReport::Cut,
            (false, true) => WayReport::Marked,
            (false, false) => WayReport::Good,
        };
        spraying.heard(now, segment.spray, report);
    }

    /// An acknowledgment of a packet whose path there was such, with the link states that it recorded.
    fn hear(
        &mut self,
        now: Time,
        segment: &Segment,
        answer: &Answer,
        SeenOnPath { is_marked, hops }: SeenOnPath,
        links: &[LinkState],
    ) {
        let (flow, delay) = (segment.flow, now.since(segment.sent));
        let packet = self.payload + self.overhead;
        let Some(own) = self.initiators[flow as usize].as_deref_mut() else { return };
        let heard = own.sender.hear(answer);
        let is_done = own.sender.is_done();
        let next = own.before + u64::from(own.sender.fresh()) * packet;
        if heard.packets > 0 && !(is_done && self.kept.is_none()) {
            own.progress = now;
            own.control.acknowledged(
                now,
                &Acknowledged {
                    bytes: u64::from(heard.packets) * packet,
                    is_marked,
                    delay,
                    hops,
                    up_to: own.before + u64::from(own.sender.acknowledged()) * packet,
                    next,
                },
                links,
            );
        }
        if is_done {
            // A finished flow that waits for its port is dropped at its turn; until then further
            // acknowledgments of it may arrive.
            if self.outcomes[flow as usize].acknowledged < Time::NEVER {
                return;
            }
            let is_queued = own.is_queued;
            self.outcomes[flow as usize].acknowledged = now;
            if !is_queued {
                self.close(flow);
            }
            self.follow(now, flow);
            return;
        }
        if heard.is_loss {
            // Go-back-N discards packets after a gap.
            let is_cut =
                answer.is_refusal && self.settings.reliability == LossRecovery::SelectiveRepeat;
            let loss = if is_cut { Loss::Cut } else { Loss::Gap };
            self.counts.gaps += u64::from(now >= self.from && !is_cut);
            let under_way = u64::from(own.sender.outstanding()) * packet;
            own.control.lost(now, loss, Flight { next, under_way });
        }
        self.consider(now, flow, Span::ZERO);
    }

    /// How long an initiator waits for an acknowledgment before it retransmits.
    pub fn timeout(&self) -> Span {
        self.settings.timeout
    }

    /// What the congestion control of a flow allows at `now`; `None` if the flow has not begun or has
    /// ended.
    pub fn allowed(&mut self, now: Time, flow: u32) -> Option<Allowed> {
        let own = self.initiators.get_mut(flow as usize)?.as_deref_mut()?;
        Some(Allowed { rate: own.control.rate(now), window: own.control.window() })
    }
}

/// How long a full packet takes on the line of any host, if all are alike.
fn full_span(lines: &[Line]) -> Option<Span> {
    let (first, others) = lines.split_first()?;
    others.iter().all(|own| own == first).then(|| first.rate.span(first.packet))
}

#[cfg(test)]
mod tests;
