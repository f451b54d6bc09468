//! The directed ports of a channel whose packets have sizes and classes of their own: those of all
//! switches, and behind them those of the hosts. The driver passes the time and what arrives, and
//! gets what leaves.
//!
//! A pause frame waits only for the packet that is being sent. For every class it says whether it
//! may be sent, as of the time when its first byte leaves.

use weft_kernel::Stream;
use weft_units::{Bytes, Rate, Span, Time};

use super::Header;
use super::counts::{ClassCounts, PauseCounts};
use super::credits::{Credit, Credits};
use super::egress::{Egress, PortKind, Queue};
use super::marks::mark;
use super::memory::Memory;
use super::planned::{Planned, PlannedPackets};
use super::rule::{Link, Rule};
use super::settings::{ClassSettings, MarkAt, SwitchForwarding};
use super::telemetry::{HopTelemetry, Telemetry};
use super::turns::Turn;
use crate::graph::RecordingWindow;
use crate::measure::Spent;
use crate::switch::PortPair;

/// When something is at the far end of a cable, and the port that is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FarEnd {
    /// When.
    pub time: Time,
    /// The port, among those of all switches and hosts.
    pub port: u32,
}

/// What a switch does with packets.
#[derive(Debug)]
pub struct SwitchRule {
    /// From an input to the queue of an output.
    pub latency: Span,
    /// When packets may leave.
    pub forwarding: SwitchForwarding,
    /// How many packets a queue holds; the largest number if that is unlimited.
    pub most: u32,
    /// Its classes, by number. Empty if all packets of an output share one queue.
    pub classes: Vec<ClassSettings>,
    /// Its memory, if that has a limit.
    pub memory: Option<Memory>,
    /// What marks are drawn from.
    pub random: Stream,
}

/// What a port does next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// It sends a packet, for so long.
    Packet(u32, Span),
    /// It sends a pause frame for so long: a bit for each class that stops.
    Pause(u8, Span),
    /// Nothing, but it needs an event at this instant, the end of its transmission, since something
    /// waits for that.
    Later(Time),
    /// Nothing: it is busy, or has nothing that it may send.
    Nothing,
}

/// What the last byte of a packet leaves behind at the input that it came by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Freed {
    /// Nothing that concerns the cable.
    Nothing,
    /// The port of the input has a pause to take back.
    GoesOn(u32),
}

/// All directed ports.
#[derive(Debug)]
pub struct Ports {
    pub(super) classes: usize,
    /// Packets are counted from its beginning on, and ports are recorded as busy within it.
    pub(super) window: RecordingWindow,
    /// The latency of all switches and when packets leave them, if all cables are of one kind.
    pub(super) alike: Option<(Span, SwitchForwarding)>,
    pub(super) egress: Vec<Egress>,
    pub(super) kinds: Vec<PortKind>,
    /// What is [planned](Ports::plan), and whether anything may be.
    pub(super) planned: PlannedPackets,
    pub(super) plans: bool,
    /// By port, as the next two: the classes that its input pauses, a bit each; whose turn it is; and the bytes of
    /// packets that it has begun to send, where these tell that to hosts.
    pub(super) pauses: Vec<u8>,
    pub(super) turns: Vec<Turn>,
    pub(super) sent: Vec<u64>,
    /// How long each port heeds a pause after it came.
    pub(super) responses: Vec<Span>,
    /// By port and class, as all below.
    pub(super) queues: Vec<Queue>,
    pub(super) deficits: Vec<u32>,
    pub(super) heard: Vec<PauseCounts>,
    pub(super) rules: Vec<Rule>,
    pub(super) links: Vec<Link>,
    pub(super) counts: Vec<ClassCounts>,
    pub(super) credits: Credits,
    /// The largest packet.
    pub(super) packet: u32,
    /// Whether any class is marked when its packets have left.
    pub(super) marks_departures: bool,
}

impl Ports {
    /// How many classes there are.
    pub fn classes(&self) -> usize {
        self.classes
    }

    /// How long a packet takes on the link of a port.
    #[inline]
    pub fn span(&self, port: u32, size: u32) -> Span {
        self.link_at(port).span(size)
    }

    /// The rate of the link of a port.
    pub fn rate(&self, port: u32) -> Rate {
        self.link_at(port).settings.rate
    }

    #[inline]
    pub(super) fn kind_of(&self, port: u32) -> &PortKind {
        &self.kinds[self.egress[port as usize].kind as usize]
    }

    #[inline]
    pub(super) fn rule_of(&self, port: u32) -> &Rule {
        &self.rules[self.kind_of(port).rule as usize]
    }

    #[inline]
    pub(super) fn link_at(&self, port: u32) -> &Link {
        &self.links[self.kind_of(port).link as usize]
    }

    /// When a port will have sent all that it was given to send.
    #[inline]
    pub fn free(&self, port: u32) -> Time {
        self.egress[port as usize].free
    }

    /// How long a port is busy within the window of the records, until it is [free](Self::free).
    pub fn busy(&self, port: u32) -> Span {
        self.egress[port as usize].busy
    }

    /// How long a port was busy within that window up to `now`.
    pub fn busy_by(&self, now: Time, port: u32) -> Span {
        let beyond = self.window.overlap(now, self.free(port));
        Span(self.busy(port).0.saturating_sub(beyond.0))
    }

    /// The packets that are planned at a port, the oldest first.
    pub(super) fn planned_at(&self, port: u32) -> impl Iterator<Item = Planned> {
        let own = &self.egress[port as usize];
        own.has_planned.then(|| self.planned.of(own.planned)).into_iter().flatten()
    }

    /// Whether a port sends nothing at present.
    #[inline]
    pub fn is_idle(&self, port: u32) -> bool {
        !self.egress[port as usize].is_busy
    }

    /// Whether a port sends something and gets an [event](Self::sent) when that has left.
    #[inline]
    pub fn is_noted(&self, port: u32) -> bool {
        self.egress[port as usize].is_noted
    }

    /// What waits at a port, in bytes.
    #[inline]
    pub fn waiting_bytes(&self, port: u32) -> u64 {
        self.egress[port as usize].waiting_bytes
    }

    /// How long a port is busy with what it sends and with all that waits there.
    #[inline]
    pub fn occupied(&self, now: Time, port: u32) -> Span {
        let own = &self.egress[port as usize];
        let link = self.link_at(port);
        let (mut until, mut waiting) = (own.until, own.waiting_bytes);
        for next in self.planned_at(port) {
            if until > now {
                break;
            }
            until += link.span(next.size);
            waiting -= u64::from(next.size);
        }
        let behind = match waiting {
            0 => Span::ZERO,
            bytes => link.settings.span(Bytes(bytes)),
        };
        until.since(now) + behind
    }

    /// How long a port takes for all that waits there.
    #[inline]
    pub fn until_empty(&self, port: u32) -> Span {
        match self.waiting_bytes(port) {
            0 => Span::ZERO,
            bytes => self.link_at(port).settings.span(Bytes(bytes)),
        }
    }

    /// Packets that wait at a port in the queue of a class.
    pub fn waiting(&self, port: u32, class: usize) -> u32 {
        self.queues[port as usize * self.classes + class].packets
    }

    /// The classes that the far end of a port pauses, a bit each.
    #[inline]
    pub fn paused(&self, port: u32) -> u8 {
        self.egress[port as usize].paused
    }

    /// Whether a port has credit for the largest packet of a class.
    #[inline]
    pub fn has_credit(&self, port: u32, class: usize) -> bool {
        self.credits.allow(port as usize * self.classes + class, self.packet)
    }

    /// Whether a port has no credit for a packet of so many bytes of a class.
    pub fn lacks_credit(&self, port: u32, class: usize, size: u32) -> bool {
        !self.credits.allow(port as usize * self.classes + class, size)
    }

    /// When the far end of a port hears of room at its input, which travels beside packets, and
    /// where.
    pub fn credited(&self, now: Time, port: u32, cable: Span) -> FarEnd {
        FarEnd { time: now + cable, port: self.egress[port as usize].peer }
    }

    /// A port hears that the far end of its cable has room again.
    pub fn give_credit(&mut self, port: u32, Credit { class, size }: Credit) {
        self.credits.give(port as usize * self.classes + usize::from(class), size);
    }

    /// The oldest packet of a class that waits at a port.
    pub fn oldest(&self, port: u32, class: usize) -> Option<u32> {
        self.queues[port as usize * self.classes + class].chain.oldest()
    }

    /// What was counted of a class at a port: what its queue dropped, trimmed and marked, and how
    /// often its input paused the class.
    pub fn counts(&self, port: u32, class: usize) -> ClassCounts {
        self.counts[port as usize * self.classes + class]
    }

    /// The stops of a class at a port until `now`.
    pub fn heard(&self, now: Time, port: u32, class: usize) -> PauseCounts {
        let own = self.heard[port as usize * self.classes + class];
        let still = own.since.map_or(Span::ZERO, |since| now.since(since.max(self.window.from)));
        PauseCounts { stopped: own.stopped + still, ..own }
    }

    /// When a packet arrives that starts at a port and takes `span`, and where.
    #[inline]
    pub fn arrival(&self, start: Time, port: u32, span: Span) -> FarEnd {
        let own = &self.egress[port as usize];
        let kind = &self.kinds[own.kind as usize];
        FarEnd { time: start + kind.delay(span), port: own.peer }
    }

    /// When the far end of a port heeds a pause frame that starts there, takes `span` and travels
    /// for `cable`: nothing more begins from then on.
    pub fn heeded(&self, start: Time, port: u32, cable: Span, span: Span) -> FarEnd {
        // The far end of this port hears it; how long it takes to heed it is a setting of this end.
        let own = &self.egress[port as usize];
        let response = self.response_at(own.peer);
        FarEnd { time: start + span + cable + response, port: own.peer }
    }

    fn response_at(&self, far: u32) -> Span {
        self.responses[far as usize]
    }

    /// How much later a packet joins the queue of an output than it could if its cables had one
    /// rate, since it takes longer to come than to leave. Ports are counted among those of all
    /// switches.
    #[inline]
    pub fn lag(&self, ports: PortPair, size: u32) -> Span {
        if self.are_alike() {
            return Span::ZERO;
        }
        let PortPair { input, output } = ports;
        let [own, other] = [input, output].map(|port| self.kind_of(port).link);
        if own == other || self.kind_of(self.egress[input as usize].peer).is_whole {
            return Span::ZERO;
        }
        let [came, goes] = [own, other].map(|link| self.links[link as usize].span(size));
        Span(came.0.saturating_sub(goes.0))
    }

    /// Whether a port that is idle has nothing to send.
    #[inline]
    pub fn is_empty(&self, port: u32) -> bool {
        let own = &self.egress[port as usize];
        own.waiting == 0 && !own.has_to_tell && !own.has_planned
    }

    /// Whether all cables and all switches are alike, so that what a packet spends follows from its
    /// size and how many switches it passed.
    pub fn are_alike(&self) -> bool {
        self.alike.is_some()
    }

    /// The time of a packet from host to host through `hops` switches, where these and all cables
    /// are [alike](Self::are_alike): on cables, in switches, and in transmission.
    #[inline]
    pub fn spent_alike(&self, cable: Span, size: u32, hops: u16) -> Spent {
        let Some((latency, forwarding)) = self.alike else { return Default::default() };
        let (span, hops) = (self.links[0].span(size), u64::from(hops));
        let lengths = match forwarding {
            SwitchForwarding::StoreAndForward => hops + 1,
            SwitchForwarding::CutThrough => 1,
        };
        Spent { wire: cable * (hops + 1), switches: latency * hops, transmission: span * lengths }
    }

    /// What a packet of length `span` spends at a port and on its cable, on which it travels for
    /// `cable`.
    pub fn spent(&self, port: u32, cable: Span, span: Span) -> Spent {
        let own = self.kind_of(port);
        let whole = if own.is_whole { span } else { Span::ZERO };
        let switches = self.rules[own.rule as usize].latency;
        Spent { wire: cable, switches, transmission: whole }
    }

    /// A packet joins the queue of its class at a port.
    #[inline]
    pub fn enqueue(
        &mut self,
        now: Time,
        port: u32,
        packet: u32,
        header: &mut Header,
        behind: &mut [u32],
    ) {
        let egress = &mut self.egress[port as usize];
        let rule = &mut self.rules[self.kinds[egress.kind as usize].rule as usize];
        let number = rule.queue_of(header.class);
        let queue = &mut self.queues[port as usize * self.classes + number];
        if let Some(ecn) = &rule.ecn[number]
            && ecn.at == MarkAt::Enqueue
            && mark(ecn, queue.bytes, header, rule.random.as_mut())
        {
            let counts = &mut self.counts[port as usize * self.classes + number];
            counts.marked += u64::from(now >= self.window.from);
        }
        queue.chain.push(packet, behind);
        queue.packets += 1;
        queue.bytes += u64::from(header.size);
        egress.waiting |= 1 << number;
        egress.waiting_bytes += u64::from(header.size);
    }

    /// The class that a port sends of next, if any is ready.
    #[inline(always)]
    fn turn(&mut self, now: Time, port: u32, headers: &[Header]) -> Option<u8> {
        let egress = &self.egress[port as usize];
        let rule = &self.rules[self.kinds[egress.kind as usize].rule as usize];
        let first = port as usize * self.classes;
        let queues = &self.queues[first..first + self.classes];
        let oldest = |class: u8| match queues[usize::from(class)].chain.oldest() {
            Some(packet) => &headers[packet as usize],
            None => &NOTHING,
        };
        let ready = match rule.is_fifo {
            true => egress.waiting & !(egress.paused >> (oldest(0).class & 7) & 1),
            false => egress.waiting & !egress.paused,
        };
        let short = self.credits.short(first, ready, |class| oldest(class).size);
        if short != 0 {
            for class in (0..self.classes).filter(|class| short >> class & 1 == 1) {
                self.heard[first + class].stop(now, self.window.from);
            }
        }
        let ready = ready & !short;
        if ready == 0 {
            return None;
        }
        let deficits = &mut self.deficits[first..first + self.classes];
        Some(
            rule.sharing
                .next(&mut self.turns[port as usize], ready, deficits, |class| oldest(class).size),
        )
    }

    /// The next transmission of a port, from `now` on. A host may have a packet
    /// [awaited](Self::note_end) that does not wait at its port.
    #[inline]
    pub fn next(
        &mut self,
        now: Time,
        port: u32,
        is_awaited: bool,
        headers: &mut [Header],
        behind: &[u32],
        telemetry: Option<&mut Vec<Telemetry>>,
    ) -> Next {
        let egress = &mut self.egress[port as usize];
        if egress.is_busy {
            let waits = egress.waiting != 0 || egress.has_to_tell || is_awaited;
            return match waits && !std::mem::replace(&mut egress.is_noted, true) {
                true => Next::Later(egress.until),
                false => Next::Nothing,
            };
        }
        if egress.has_to_tell {
            (egress.has_to_tell, egress.is_busy) = (false, true);
            return Next::Pause(self.pauses[port as usize], self.link_at(port).small);
        }
        let Some(class) = self.turn(now, port, headers) else { return Next::Nothing };
        let egress = &mut self.egress[port as usize];
        let PortKind { rule, link, .. } = self.kinds[egress.kind as usize];
        let (rule, link) = (&mut self.rules[rule as usize], &mut self.links[link as usize]);
        let first = port as usize * self.classes;
        let queue = &mut self.queues[first + usize::from(class)];
        let Some(packet) = queue.chain.pop(behind) else { return Next::Nothing };
        let header = &mut headers[packet as usize];
        queue.packets -= 1;
        queue.bytes -= u64::from(header.size);
        egress.waiting_bytes -= u64::from(header.size);
        if queue.packets == 0 {
            egress.waiting &= !(1 << class);
            self.deficits[first + usize::from(class)] = 0;
        }
        if let Some(ecn) = &rule.ecn[usize::from(class)]
            && ecn.at == MarkAt::Dequeue
            && mark(ecn, queue.bytes, header, rule.random.as_mut())
        {
            self.counts[first + usize::from(class)].marked += u64::from(now >= self.window.from);
        }
        let Header { size, class, .. } = *header;
        if self.credits.are_given() {
            self.credits.spend(first + usize::from(class), size);
            self.heard[first + usize::from(class)].go_on(now, self.window.from);
        }
        egress.start(header);
        let span = link.note_span(size);
        if let Some(all) = telemetry {
            self.tell_hosts(now, port, header, &mut all[packet as usize]);
        }
        Next::Packet(packet, span)
    }

    /// A packet comes to a port where nothing waits. If it may start, it does so as from the queue,
    /// which it does not join: an empty queue marks nothing, and a class that is alone keeps no
    /// share. Returns how long its transmission takes; `None` if it may not start.
    #[inline(always)]
    pub fn start_at_once(
        &mut self,
        now: Time,
        port: u32,
        packet: u32,
        header: &Header,
        telemetry: Option<&mut Vec<Telemetry>>,
    ) -> Option<Span> {
        let egress = &mut self.egress[port as usize];
        let is_held = egress.paused >> (header.class & 7) & 1 != 0 || self.credits.are_given();
        if egress.is_busy || egress.has_to_tell || egress.waiting != 0 || is_held {
            return None;
        }
        egress.start(header);
        let link = self.kinds[egress.kind as usize].link;
        if let Some(all) = telemetry {
            self.tell_hosts(now, port, header, &mut all[packet as usize]);
        }
        Some(self.links[link as usize].note_span(header.size))
    }

    /// A packet starts, into which a port writes what it knows if the packet asks for it.
    #[inline(never)]
    fn tell_hosts(&mut self, now: Time, port: u32, header: &Header, told: &mut Telemetry) {
        let sent = &mut self.sent[port as usize];
        *sent += u64::from(header.size);
        if header.has(Header::TELEMETRY) {
            let queue = self.egress[port as usize].waiting_bytes.min(u32::MAX.into()) as u32;
            told.write(HopTelemetry { port, queue, sent: *sent, time: now });
        }
    }

    /// A port heeds from now on what the far end of its cable says: a bit for each class that
    /// stops.
    pub fn hear(&mut self, now: Time, port: u32, paused: u8) {
        let before = std::mem::replace(&mut self.egress[port as usize].paused, paused);
        let from = self.window.from;
        for class in 0..self.classes {
            let own = &mut self.heard[port as usize * self.classes + class];
            match (before >> class & 1, paused >> class & 1) {
                (0, 1) => own.stop(now, from),
                (1, 0) => own.go_on(now, from),
                _ => {}
            }
        }
    }
}

/// What a class without packets shows of its oldest.
const NOTHING: Header = Header::NOTHING;
