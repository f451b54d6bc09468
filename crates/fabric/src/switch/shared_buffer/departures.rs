//! When packets have left the ports of switches: what a memory holds until then, and which
//! departures can therefore be planned.
//!
//! An event for the end of each transmission would cost as much as the packet itself. Only the
//! admission of the next packets depends on it if nothing waits at the port or at its host, no
//! input of its switch pauses its cable, and no packet is [marked](Ports::mark_departure) then:
//! such a port is [settled](Ports::settle) when it is next used. Other ports get an event
//! ([`Ports::sent`]), and so do all ports of hosts with several, since any of them may send next.

use weft_kernel::prefetch;
use weft_units::{Span, Time};

use super::credits::{Credit, InputCredit};
use super::egress::{Egress, Held, PortKind};
use super::marks::mark;
use super::memory::Admission;
use super::planned::{Planned, PlannedPackets};
use super::ports::Freed;
use super::rule::{Link, Rule};
use super::settings::MarkAt;
use super::{Header, Ports};
use crate::graph::RecordingWindow;
use crate::switch::PortPair;

/// The output of a port, with all that changes when packets join it and leave.
pub(super) struct Output<'a> {
    pub own: &'a mut Egress,
    pub kind: PortKind,
    pub rule: &'a mut Rule,
    pub link: &'a mut Link,
    planned: &'a mut PlannedPackets,
    port: u32,
}

impl Output<'_> {
    /// What it has sent by `now` has left.
    #[inline]
    pub fn let_leave(&mut self, now: Time) {
        loop {
            let (left, rule) = (self.own.end(), &mut *self.rule);
            // No input waits for this room: otherwise the port would have an event for the departure.
            if let (Some(Held { input, size, class }), Some(memory)) = (left, &mut rule.memory) {
                let ports = PortPair { input, output: self.port }.counted_from(rule.first);
                memory.let_go(ports, class, size.into());
            }
            if !self.begin_planned() || self.own.until > now {
                return;
            }
        }
    }

    /// The next packet that is planned is sent. Returns whether there is one.
    #[inline]
    fn begin_planned(&mut self) -> bool {
        let own = &mut *self.own;
        if !own.has_planned {
            return false;
        }
        let (Planned { size, input, class, .. }, is_last) = self.planned.pop(&mut own.planned);
        own.has_planned = !is_last;
        own.waiting_bytes -= u64::from(size);
        (own.input, own.size, own.class) = (input, size, class);
        (own.is_busy, own.until) = (true, own.until + self.link.span(size));
        true
    }

    /// Whether a packet may join those that are planned, or be the first of them.
    #[inline]
    pub fn may_plan(&self, header: &Header) -> bool {
        let queue = self.rule.queue_of(header.class);
        let is_alone = !self.own.has_planned || usize::from(self.own.planned_queue) == queue;
        is_alone && self.own.waiting_bytes + u64::from(header.size) <= self.rule.plannable[queue]
    }

    /// A packet joins those that are planned. Returns when it starts and how long it is sent then.
    #[inline]
    pub fn put_behind(
        &mut self,
        packet: u32,
        header: &mut Header,
        window: RecordingWindow,
        marked: &mut u64,
    ) -> (Time, Span) {
        let (own, rule) = (&mut *self.own, &mut *self.rule);
        let queue = rule.queue_of(header.class);
        if let Some(ecn) = &rule.ecn[queue]
            && ecn.at == MarkAt::Enqueue
            && mark(ecn, own.waiting_bytes, header, rule.random.as_mut())
        {
            *marked += 1;
        }
        let Header { size, input, class, .. } = *header;
        let span = self.link.note_span(size);
        let (start, is_first) = (own.free, !own.has_planned);
        self.planned.push(&mut own.planned, is_first, Planned { packet, input, size, class });
        (own.has_planned, own.planned_queue) = (true, queue as u8);
        own.waiting_bytes += u64::from(size);
        own.occupy(start, span, window);
        (start, span)
    }
}

impl Ports {
    /// Lets ports plan departures: packets of one queue leave in the order in which they come while no
    /// other queue has any, and nothing is decided about them when they do. A pause changes that, as does
    /// a packet of another class, or so much behind them that some might be marked: the driver of the
    /// ports then [recalls](Self::recall) what is planned.
    pub fn let_plan(&mut self) {
        // Packets that are marked when they have left need an event at that instant.
        if self.credits.are_given() || self.marks_departures {
            return;
        }
        // That of hosts is the last one: what they send is decided when their ports are free.
        let Some((_, switches)) = self.rules.split_last_mut() else { return };
        switches.iter_mut().for_each(Rule::let_plan);
        self.plans = switches.iter().flat_map(|rule| rule.plannable).any(|most| most > 0);
    }

    /// Has no port plan anything, before anything happens.
    pub fn let_plan_nothing(&mut self) {
        self.rules.iter_mut().for_each(|rule| rule.plannable.fill(0));
    }

    /// Has every port get an event for every departure, before anything happens.
    pub fn tell_all(&mut self) {
        self.let_plan_nothing();
        self.rules.iter_mut().for_each(|rule| rule.tells_all = true);
    }

    /// What a port has sent by `now` has left, unless the port gets an [event](Self::sent) for it.
    #[inline]
    pub fn settle(&mut self, now: Time, port: u32) {
        if self.egress[port as usize].has_left(now) {
            self.let_leave(now, port);
        }
    }

    fn let_leave(&mut self, now: Time, port: u32) {
        self.output(port).let_leave(now);
    }

    #[inline(always)]
    pub(super) fn output(&mut self, port: u32) -> Output<'_> {
        let Ports { egress, kinds, rules, planned, links, .. } = self;
        let own = &mut egress[port as usize];
        let kind = kinds[own.kind as usize];
        let (rule, link) = (&mut rules[kind.rule as usize], &mut links[kind.link as usize]);
        Output { own, kind, rule, link, planned, port }
    }

    /// A port sends for `span` from `now` on. Returns whether it needs an event for the end of that: if
    /// something waits for that there or, as `is_awaited` says, at its host.
    #[inline]
    pub fn note_end(&mut self, now: Time, port: u32, span: Span, is_awaited: bool) -> bool {
        let own = &mut self.egress[port as usize];
        let rule = &self.rules[self.kinds[own.kind as usize].rule as usize];
        own.until = now + span;
        own.occupy(now, span, self.window);
        let waits = own.waiting != 0 || own.has_to_tell || is_awaited;
        own.is_noted = waits || rule.pausing > 0 || rule.tells_all;
        own.is_noted
    }

    /// An input has begun to pause its cable: calls `note` with the ports of its switch that need
    /// an event at the end of their transmission, because that matters from now on, and with the
    /// time of that end.
    pub fn note_all(&mut self, now: Time, input: u32, mut note: impl FnMut(u32, Time)) {
        let rule = self.rule_of(input);
        for port in rule.first..rule.first + rule.ports {
            self.settle(now, port);
            let own = &mut self.egress[port as usize];
            if own.is_busy && !std::mem::replace(&mut own.is_noted, own.is_busy) {
                note(port, own.until);
            }
        }
    }

    /// Admits a packet from an input for an output to the memory of a switch, whole or trimmed, if
    /// that has room for it, and counts it as dropped otherwise. If the packet is trimmed, its
    /// header says so from then on. The input may then have a pause to send.
    #[inline]
    pub fn admit(&mut self, now: Time, output: u32, header: &mut Header) -> Admission {
        self.settle(now, output);
        let egress = &self.egress[output as usize];
        let rule = &mut self.rules[self.kinds[egress.kind as usize].rule as usize];
        if rule.most < u32::MAX {
            let queue = rule.queue_of(header.class);
            let place = output as usize * self.classes;
            let is_same = usize::from(egress.planned_queue) == queue;
            let is_planned = is_same && egress.has_planned;
            let planned = if is_planned { self.planned.count(egress.planned) } else { 0 };
            let waiting = self.queues[place + queue].packets + planned;
            if waiting + u32::from(egress.is_busy) >= rule.most {
                let counts = &mut self.counts[place + usize::from(header.class)];
                counts.dropped += u64::from(now >= self.window.from);
                return Admission::Full;
            }
        }
        let Some(memory) = &mut rule.memory else { return Admission::Held };
        let ports = PortPair { input: header.input, output }.counted_from(rule.first);
        match memory.hold(ports, header.class, header.size.into()) {
            true => Admission::Held,
            false => self.admit_beyond(now, output, header),
        }
    }

    /// Settles all ports of the switch, which may make room for a packet, and then holds it, pauses
    /// its input, trims it or refuses it.
    #[inline(never)]
    fn admit_beyond(&mut self, now: Time, output: u32, header: &mut Header) -> Admission {
        let rule = self.rule_of(output);
        for port in rule.first..rule.first + rule.ports {
            self.settle(now, port);
        }
        let rule = self.kind_of(output).rule;
        let rule = &mut self.rules[rule as usize];
        let Some(memory) = &mut rule.memory else { return Admission::Held };
        let ports = PortPair { input: header.input, output }.counted_from(rule.first);
        let admission = memory.admit(ports, header.class, header.size.into());
        match admission {
            Admission::Held => {}
            Admission::Pauses => {
                rule.pausing += 1;
                self.tell(now, header.input, header.class, true);
            }
            Admission::Full => return self.cut(now, output, header),
        }
        admission
    }

    /// A packet found its queue full: it is trimmed if it may be, and if there is room for its
    /// header in the class of trimmed packets; otherwise it is dropped.
    #[cold]
    fn cut(&mut self, now: Time, output: u32, header: &mut Header) -> Admission {
        let counted = u64::from(now >= self.window.from);
        let rule = self.kind_of(output).rule;
        let rule = &mut self.rules[rule as usize];
        let counts = &mut self.counts[output as usize * self.classes + usize::from(header.class)];
        let trim = rule.trim[usize::from(header.class)].filter(|_| header.has(Header::TRIMMABLE));
        if let (Some(trim), Some(memory)) = (trim, &mut rule.memory) {
            let ports = PortPair { input: header.input, output }.counted_from(rule.first);
            let size = (trim.header.0 as u32).min(header.size);
            if memory.admit(ports, trim.class, size.into()) == Admission::Held {
                counts.trimmed += counted;
                header.size = size;
                header.class = trim.class;
                header.bits = header.bits & !Header::TRIMMABLE | Header::TRIMMED;
                return Admission::Held;
            }
        }
        counts.dropped += counted;
        Admission::Full
    }

    /// The input of a port pauses a class of its cable, or lets it go on.
    fn tell(&mut self, now: Time, input: u32, class: u8, pauses: bool) {
        let own = &mut self.pauses[input as usize];
        *own = *own & !(1 << class) | u8::from(pauses) << class;
        self.egress[input as usize].has_to_tell = true;
        if pauses && now >= self.window.from {
            self.counts[input as usize * self.classes + usize::from(class)].pauses += 1;
        }
    }

    /// The last byte of a transmission leaves at `now`, for which the port had an event.
    #[inline]
    pub fn sent(&mut self, now: Time, port: u32) -> Freed {
        debug_assert!(self.egress[port as usize].until == now, "port {port} at {now}");
        self.end(now, port)
    }

    /// Continues with what is planned at a port whose transmission has ended. Returns when the next
    /// one ends, if the port needs an event then.
    #[inline]
    pub fn go_on(&mut self, port: u32) -> Option<Time> {
        if !self.output(port).begin_planned() {
            return None;
        }
        let until = self.egress[port as usize].until;
        let is_noted = self.rule_of(port).pausing > 0;
        self.egress[port as usize].is_noted = is_noted;
        is_noted.then_some(until)
    }

    #[inline]
    fn end(&mut self, now: Time, port: u32) -> Freed {
        let egress = &mut self.egress[port as usize];
        let Some(Held { input, size, class }) = egress.end() else { return Freed::Nothing };
        let rule = &mut self.rules[self.kinds[egress.kind as usize].rule as usize];
        let first = rule.first;
        let Some(memory) = rule.memory.as_mut() else { return Freed::Nothing };
        let ports = PortPair { input, output: port }.counted_from(first);
        if memory.release(ports, class, size.into()) {
            rule.pausing -= 1;
            self.tell(now, input, class, false);
            return Freed::GoesOn(input);
        }
        Freed::Nothing
    }

    /// The credit that an input gives when what a port begins to send has left.
    #[inline]
    pub fn credit(&self, port: u32) -> Option<InputCredit> {
        if !self.credits.are_given() {
            return None;
        }
        let own = &self.egress[port as usize];
        let memory = self.rule_of(port).memory.as_ref()?;
        let credit = Credit { class: own.class, size: own.size };
        let gives = own.size > 0 && memory.gives_credits(own.class);
        gives.then_some(InputCredit { input: own.input, credit })
    }

    /// A packet comes to a port that sends another one. If it may be known by now when it leaves,
    /// it joins those that are planned: returns when it starts and how long it is sent then.
    #[inline]
    pub fn plan(
        &mut self,
        now: Time,
        port: u32,
        packet: u32,
        header: &mut Header,
    ) -> Option<(Time, Span)> {
        let window = self.window;
        let mut at = self.output(port);
        let is_held = at.own.paused != 0 || at.own.has_to_tell || at.own.waiting != 0;
        if is_held || !at.own.is_busy || !at.may_plan(header) {
            return None;
        }
        let mut marked = 0;
        let planned = at.put_behind(packet, header, window, &mut marked);
        self.count_marked(now, port, marked);
        Some(planned)
    }

    /// Counts packets that were marked as they joined those that are planned at a port.
    pub(super) fn count_marked(&mut self, now: Time, port: u32, marked: u64) {
        if marked > 0 && now >= self.window.from {
            let queue = usize::from(self.egress[port as usize].planned_queue);
            self.counts[port as usize * self.classes + queue].marked += marked;
        }
    }

    /// Whether anything is planned at a port.
    #[inline]
    pub fn has_planned(&self, port: u32) -> bool {
        self.egress[port as usize].has_planned
    }

    /// Whether anything is planned at a port, which a pause is to be sent by, or that is to pause.
    #[inline]
    pub fn is_to_recall(&self, port: u32) -> bool {
        let own = &self.egress[port as usize];
        own.has_planned && (own.has_to_tell || own.paused != 0)
    }

    /// Revokes what is planned at a port: its packets wait in the queue, and `note` is called with
    /// each of them, since it will not arrive as planned. The port is free when the transmission under way ends.
    pub fn recall(&mut self, port: u32, behind: &mut [u32], mut note: impl FnMut(u32)) {
        let egress = &mut self.egress[port as usize];
        let number = egress.planned_queue;
        let queue = &mut self.queues[port as usize * self.classes + usize::from(number)];
        debug_assert!(queue.chain.is_empty(), "nothing else waits where packets are planned");
        while egress.has_planned {
            let (Planned { packet, size, .. }, is_last) = self.planned.pop(&mut egress.planned);
            egress.has_planned = !is_last;
            queue.chain.push(packet, behind);
            queue.packets += 1;
            queue.bytes += u64::from(size);
            egress.waiting |= 1 << number;
            note(packet);
        }
        egress.vacate(self.window);
    }

    /// The inputs by which the packets came that are planned at a port and have not begun to leave.
    pub fn planned_inputs(&self, now: Time, port: u32) -> impl Iterator<Item = u32> {
        let own = &self.egress[port as usize];
        let (mut until, link) = (own.until, self.link_at(port));
        let has_not_begun = move |own: &Planned| {
            let start = until;
            until = start + link.span(own.size);
            start > now
        };
        self.planned_at(port).filter(has_not_begun).map(|own| own.input)
    }

    /// Prefetches what events at all ports of the switch with a port need.
    pub fn prefetch_switch(&self, port: u32) {
        let rule = self.rule_of(port);
        (rule.first..rule.first + rule.ports).for_each(|port| self.prefetch(port));
    }

    /// Prefetches the planned packets that leave the ports of the same switch first. The ports themselves are in the
    /// cache.
    pub fn prefetch_planned(&self, port: u32) {
        let rule = self.rule_of(port);
        for own in &self.egress[rule.first as usize..(rule.first + rule.ports) as usize] {
            if own.has_planned {
                self.planned.prefetch(own.planned);
            }
        }
    }

    /// Prefetches what events at a port need.
    #[inline]
    pub fn prefetch(&self, port: u32) {
        prefetch(&self.egress, port as usize);
        // Where packets are planned, most do not join a queue.
        if !self.plans {
            prefetch(&self.queues, port as usize * self.classes);
        }
    }
}
