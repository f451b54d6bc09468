//! Flows at the adapters of a channel: each is sent as its congestion control and its window allow, and
//! sent again where something was lost; those of a host take turns at its port.
//!
//! Whoever drives them asks for packets when a port is free ([`Transports::next`]), tells of
//! packets that came ([`Transports::arrive`]), and wakes them at the instants that they ask for
//! ([`Transports::take_wakes`]). What belongs to the initiator of a flow and what to its target is
//! apart, and each is touched by what happens at its host alone, so that parts of a channel may run
//! one beside the other.

mod outcome;
mod settings;

use weft_protocol::congestion::{Acknowledged, CongestionControl, Line, LinkState, Loss};
use weft_protocol::transport::{Answer, Notifier, Receiver, Sender};
use weft_units::{Bytes, Rate, Span, Time};

use crate::workload::FlowDemand;

pub use outcome::{FlowCounts, Outcome};
pub use settings::TransportSettings;

/// What the flows of a channel are made of.
#[derive(Debug)]
pub struct TransportParts {
    /// How they are carried.
    pub settings: TransportSettings,
    /// What a full packet carries, and what a packet has besides.
    pub payload: Bytes,
    /// Header and check code of each packet.
    pub overhead: Bytes,
    /// The rate of the link of each host.
    pub rates: Vec<Rate>,
    /// How many traffic classes there are.
    pub classes: usize,
    /// All flows, in the order in which they begin.
    pub flows: Vec<FlowDemand>,
    /// From when on packets are counted.
    pub from: Time,
}

/// A packet between the ends of a flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Segment {
    /// The flow, by its number.
    pub flow: u32,
    /// What it says.
    pub content: Content,
    /// When it started, or when the packet started that it answers.
    pub sent: Time,
}

/// What a packet between the ends of a flow says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Content {
    /// A part of the flow: its number.
    Data(u32),
    /// An acknowledgment.
    Acknowledgment {
        /// What it says of what has come.
        answer: Answer,
        /// Whether the packet that it answers was marked.
        is_marked: bool,
        /// How many switches that one passed.
        hops: u8,
    },
    /// A congestion notification.
    Notification,
}

/// A packet that is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outgoing {
    /// What it says.
    pub segment: Segment,
    /// Where to.
    pub to: u32,
    /// Its size on the wire.
    pub size: Bytes,
    /// What of it a program handed over.
    pub payload: Bytes,
    /// Its traffic class.
    pub class: u8,
    /// Whether it is a part of a flow that is sent for the first time.
    pub is_first: bool,
}

/// What has become of a packet that came.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Arrived {
    /// What the target answers.
    pub answers: [Option<Outgoing>; 2],
    /// What of the flow came with it that had not come: nothing if it is no part of a flow.
    pub payload: Option<Bytes>,
}

/// When a host wants to be woken, by what it then says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wake {
    /// When.
    pub time: Time,
    /// Whom.
    pub host: u32,
    /// What to say to it: see [`Transports::wake`].
    pub item: u32,
}

/// The reason of a wake, in its last two bits; the flow is in the others.
const BEGINS: u32 = 0;
const MAY_SEND: u32 = 1;
const TIMER: u32 = 2;

/// Nobody in a queue of flows.
const NONE: u32 = u32::MAX;

/// The flows of a channel.
#[derive(Debug)]
pub struct Transports {
    settings: TransportSettings,
    payload: u64,
    overhead: u64,
    lines: Vec<Line>,
    classes: usize,
    flows: Vec<FlowDemand>,
    /// The next flow of the same initiator.
    following: Vec<u32>,
    initiators: Vec<Option<Box<Initiator>>>,
    targets: Vec<Option<Box<Target>>>,
    outcomes: Vec<Outcome>,
    /// By host and class: the flows that may send, in turn.
    turns: Vec<Turns>,
    wakes: Vec<Wake>,
    from: Time,
    counts: FlowCounts,
}

/// Flows of a host and class that may send.
#[derive(Clone, Copy, Debug)]
struct Turns {
    first: u32,
    last: u32,
}

/// What the initiator of a flow keeps of it.
#[derive(Debug)]
struct Initiator {
    sender: Sender,
    control: CongestionControl,
    /// From when on the next packet may start.
    ready: Time,
    /// When something new was heard, or something was sent while nothing was under way.
    progress: Time,
    /// Whether it stands among those that may send, and the one behind it there.
    is_queued: bool,
    behind: u32,
    /// Whether it will be woken because it may send, and because of the timer.
    is_waking: bool,
    has_timer: bool,
}

/// What the target of a flow keeps of it.
#[derive(Debug)]
struct Target {
    receiver: Receiver,
    notifier: Notifier,
}

impl Transports {
    /// All flows before they begin. Their first wakes are to be taken.
    pub fn new(parts: TransportParts) -> Transports {
        let TransportParts { settings, payload, overhead, rates, classes, flows, from } = parts;
        let (payload, overhead) = (payload.0.max(1), overhead.0);
        let packet = Bytes(payload + overhead);
        let hosts = rates.len();
        let mut following = vec![NONE; flows.len()];
        let mut first = vec![NONE; hosts];
        for (number, flow) in flows.iter().enumerate().rev() {
            following[number] = std::mem::replace(&mut first[flow.from as usize], number as u32);
        }
        let count = flows.len();
        let mut own = Transports {
            lines: rates.into_iter().map(|rate| Line { rate, packet }).collect(),
            settings,
            payload,
            overhead,
            classes,
            flows,
            following,
            initiators: std::iter::repeat_with(|| None).take(count).collect(),
            targets: std::iter::repeat_with(|| None).take(count).collect(),
            outcomes: vec![Outcome::default(); count],
            turns: vec![Turns { first: NONE, last: NONE }; hosts * classes],
            wakes: Vec::new(),
            from,
            counts: FlowCounts::default(),
        };
        first.into_iter().for_each(|flow| own.announce(flow));
        own
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

    /// How many packets a flow has.
    #[inline]
    pub fn packets(&self, number: u32) -> u32 {
        let packets = self.flow(number).size.0.div_ceil(self.payload);
        u32::try_from(packets).unwrap_or(u32::MAX)
    }

    /// What a packet of a flow carries: all are full but the last.
    #[inline]
    pub fn payload(&self, flow: u32, number: u32) -> Bytes {
        let before = u64::from(number) * self.payload;
        Bytes((self.flow(flow).size.0 - before).min(self.payload))
    }

    /// The size of a packet on the wire by what it carries.
    #[inline]
    pub fn size(&self, payload: Bytes) -> Bytes {
        Bytes(payload.0 + self.overhead)
    }

    /// The instants at which hosts want to be woken, since they were taken last.
    #[inline]
    pub fn take_wakes(&mut self) -> std::vec::Drain<'_, Wake> {
        self.wakes.drain(..)
    }

    /// A host is woken. Returns the flow that begins, if one does.
    pub fn wake(&mut self, now: Time, item: u32) -> Option<u32> {
        let flow = item >> 2;
        match item & 3 {
            BEGINS => {
                self.begin(now, flow);
                self.announce(self.following[flow as usize]);
                return Some(flow);
            }
            MAY_SEND => {
                if let Some(own) = &mut self.initiators[flow as usize] {
                    own.is_waking = false;
                    self.consider(now, flow, Span::ZERO);
                }
            }
            _ => self.look_at_timer(now, flow),
        }
        None
    }

    fn begin(&mut self, now: Time, number: u32) {
        let flow = self.flows[number as usize];
        let line = self.lines[flow.from as usize];
        let (packets, reliability) = (self.packets(number), self.settings.reliability);
        let control = self.settings.congestion_control.as_ref();
        let own = Initiator {
            sender: Sender::new(reliability, packets, self.settings.reordering.get()),
            control: CongestionControl::new(control, line, now),
            ready: now,
            progress: now,
            is_queued: false,
            behind: NONE,
            is_waking: false,
            has_timer: false,
        };
        self.initiators[number as usize] = Some(Box::new(own));
        let receiver = Receiver::new(reliability, packets);
        let target = Target { receiver, notifier: Notifier::default() };
        self.targets[number as usize] = Some(Box::new(target));
        self.consider(now, number, Span::ZERO);
    }

    /// Lets a flow stand among those that may send, or asks for it to be woken when it may. What its host
    /// has just been given to send takes `busy`: it is not asked before.
    fn consider(&mut self, now: Time, flow: u32, busy: Span) {
        let FlowDemand { from, class, .. } = self.flows[flow as usize];
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
        let turns = &mut self.turns[from as usize * self.classes + usize::from(class)];
        let before = std::mem::replace(&mut turns.last, flow);
        match self.initiators.get_mut(before as usize).and_then(Option::as_deref_mut) {
            Some(before) => before.behind = flow,
            None => turns.first = flow,
        }
    }

    /// Whether a flow of a host and class may send.
    #[inline]
    pub fn is_waiting(&self, host: u32, class: u8) -> bool {
        self.turns[host as usize * self.classes + usize::from(class)].first != NONE
    }

    /// The next packet of a host and class, which has nothing to send that it was given before.
    pub fn next(&mut self, now: Time, host: u32, class: u8) -> Option<Outgoing> {
        let place = host as usize * self.classes + usize::from(class);
        let packet = self.payload + self.overhead;
        loop {
            let flow = self.turns[place].first;
            let own = self.initiators.get_mut(flow as usize)?.as_deref_mut()?;
            let turns = &mut self.turns[place];
            turns.first = own.behind;
            if turns.first == NONE {
                turns.last = NONE;
            }
            own.is_queued = false;
            if own.sender.is_done() {
                self.initiators[flow as usize] = None;
                continue;
            }
            // What came meanwhile may have closed the window.
            if own.may_send(packet, self.settings.window)
                && let Some(number) = own.sender.next()
            {
                return Some(self.send(now, flow, number));
            }
        }
    }

    fn send(&mut self, now: Time, flow: u32, number: u32) -> Outgoing {
        let FlowDemand { to, from, class, .. } = self.flows[flow as usize];
        let payload = self.payload(flow, number);
        let size = self.size(payload);
        let span = self.lines[from as usize].rate.span(size);
        let mut is_first = false;
        if let Some(own) = self.initiators[flow as usize].as_deref_mut() {
            if own.sender.outstanding() == 0 {
                own.progress = now;
            }
            is_first = own.sender.sent(number);
            own.control.sent(now, size.0);
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
        let segment = Segment { flow, content: Content::Data(number), sent: now };
        Outgoing { segment, to, size, payload, class, is_first }
    }

    fn look_at_timer(&mut self, now: Time, flow: u32) {
        let host = self.flows[flow as usize].from;
        let Some(own) = self.initiators[flow as usize].as_deref_mut() else { return };
        if own.sender.outstanding() == 0 {
            own.has_timer = false;
            return;
        }
        let due = own.progress + self.settings.timeout;
        let time = match due > now {
            true => due,
            false => {
                own.sender.timed_out();
                let next = u64::from(own.sender.fresh()) * (self.payload + self.overhead);
                own.control.lost(now, Loss::Timeout, next);
                own.progress = now;
                self.counts.timeouts += u64::from(now >= self.from);
                now + self.settings.timeout
            }
        };
        self.wakes.push(Wake { time, host, item: flow << 2 | TIMER });
        self.consider(now, flow, Span::ZERO);
    }

    /// A packet has come, having been marked or not and having passed so many switches; an
    /// acknowledgment with what links said to the packet that it answers, if they did.
    pub fn arrive(
        &mut self,
        now: Time,
        segment: &Segment,
        (is_marked, hops): (bool, u8),
        links: &[LinkState],
    ) -> Arrived {
        match segment.content {
            Content::Data(number) => self.receive(now, segment, number, (is_marked, hops)),
            Content::Acknowledgment { answer, is_marked, hops } => {
                let delay = now.since(segment.sent);
                self.hear(now, segment.flow, (&answer, is_marked), (delay, hops, links));
                Arrived::default()
            }
            Content::Notification => {
                if let Some(own) = self.initiators[segment.flow as usize].as_deref_mut() {
                    own.control.notified(now);
                    self.counts.notifications += u64::from(now >= self.from);
                }
                Arrived::default()
            }
        }
    }

    fn receive(
        &mut self,
        now: Time,
        segment: &Segment,
        number: u32,
        (is_marked, hops): (bool, u8),
    ) -> Arrived {
        let flow = segment.flow;
        let is_counted = now >= self.from;
        self.counts.marked += u64::from(is_counted && is_marked);
        let Some(own) = self.targets[flow as usize].as_deref_mut() else {
            // It has all of the flow already.
            let expected = self.packets(flow);
            let answer = Answer { expected, number, is_refusal: false };
            let first = self.answer(segment, answer, (is_marked, hops));
            return Arrived { answers: [Some(first), None], payload: None };
        };
        let arrival = own.receiver.arrive(number);
        let interval = self.settings.congestion_control.as_ref();
        let interval = interval.and_then(|own| own.notification_interval()).filter(|_| is_marked);
        let notifies = interval.is_some_and(|interval| own.notifier.marked(now, interval));
        let is_complete = own.receiver.is_complete();
        if is_counted && arrival.is_late {
            self.counts.out_of_order += 1;
        }
        if is_counted && !arrival.is_new {
            self.counts.unneeded += 1;
        }
        if is_complete {
            self.targets[flow as usize] = None;
            self.outcomes[flow as usize].end = now;
        }
        let answer = arrival.answer.map(|answer| self.answer(segment, answer, (is_marked, hops)));
        let notification = notifies.then(|| self.control_packet(flow, Content::Notification, now));
        let payload = arrival.is_new.then(|| self.payload(flow, number));
        if let Some(payload) = payload {
            self.outcomes[flow as usize].delivered += 1;
            self.counts.payload += payload.0 * u64::from(is_counted);
        }
        Arrived { answers: [answer, notification], payload }
    }

    fn answer(&self, segment: &Segment, answer: Answer, (is_marked, hops): (bool, u8)) -> Outgoing {
        let content = Content::Acknowledgment { answer, is_marked, hops };
        self.control_packet(segment.flow, content, segment.sent)
    }

    fn control_packet(&self, flow: u32, content: Content, sent: Time) -> Outgoing {
        Outgoing {
            segment: Segment { flow, content, sent },
            to: self.flow(flow).from,
            size: self.settings.acknowledgment,
            payload: Bytes(0),
            class: self.settings.acknowledgment_class,
            is_first: false,
        }
    }

    fn hear(
        &mut self,
        now: Time,
        flow: u32,
        (answer, is_marked): (&Answer, bool),
        (delay, hops, links): (Span, u8, &[LinkState]),
    ) {
        let packet = self.payload + self.overhead;
        let Some(own) = self.initiators[flow as usize].as_deref_mut() else { return };
        let heard = own.sender.hear(answer);
        if own.sender.is_done() {
            // One that stands among those that may send is passed over there.
            if !own.is_queued {
                self.initiators[flow as usize] = None;
            }
            return;
        }
        let next = u64::from(own.sender.fresh()) * packet;
        if heard.packets > 0 {
            own.progress = now;
            own.control.acknowledged(
                now,
                &Acknowledged {
                    bytes: u64::from(heard.packets) * packet,
                    is_marked,
                    delay,
                    hops,
                    up_to: u64::from(own.sender.acknowledged()) * packet,
                    next,
                },
                links,
            );
        }
        if heard.is_loss {
            self.counts.gaps += u64::from(now >= self.from);
            own.control.lost(now, Loss::Gap, next);
        }
        self.consider(now, flow, Span::ZERO);
    }

    /// How each flow went, in the order in which they begin.
    pub fn outcomes(&self) -> impl Iterator<Item = (&FlowDemand, &Outcome)> {
        self.flows.iter().zip(&self.outcomes)
    }

    /// Notes how long a flow takes alone on the same way.
    pub fn note_alone(&mut self, flow: u32, span: Span) {
        self.outcomes[flow as usize].alone = span;
    }

    /// What was counted.
    pub fn counts(&self) -> &FlowCounts {
        &self.counts
    }

    /// Packets of flows that have begun which were never sent, and those that were and have not come.
    pub fn held(&self) -> (u64, u64) {
        let mut held = (0, 0);
        for (number, outcome) in (0..).zip(&self.outcomes) {
            if let Some(own) = &self.initiators[number as usize] {
                let fresh = u64::from(own.sender.fresh());
                held.0 += u64::from(self.packets(number)) - fresh;
                held.1 += fresh - u64::from(outcome.delivered);
            }
        }
        held
    }

    /// The rate and the window in bytes that the congestion control of a flow allows at `now`; `None` of a
    /// flow that has not begun or has ended.
    pub fn allowed(&mut self, now: Time, flow: u32) -> Option<(f64, f64)> {
        let own = self.initiators.get_mut(flow as usize)?.as_deref_mut()?;
        Some((own.control.rate(now), own.control.window()))
    }
}

impl Initiator {
    /// Whether the next packet fits the window, whenever it may start.
    #[inline]
    fn may_send(&self, packet: u64, most: Option<Bytes>) -> bool {
        if self.sender.next().is_none() {
            return false;
        }
        let outstanding = u64::from(self.sender.outstanding());
        let after = ((outstanding + 1) * packet) as f64;
        let window = self.control.window().min(most.map_or(f64::INFINITY, |own| own.0 as f64));
        outstanding == 0 || after <= window
    }

    /// From the start of a packet to the next at the rate of now.
    #[inline]
    fn gap(&mut self, now: Time, size: Bytes) -> Span {
        let rate = self.control.rate(now);
        Span(libm::round(size.0 as f64 * 8e12 / rate) as u64)
    }
}

#[cfg(test)]
mod tests;
