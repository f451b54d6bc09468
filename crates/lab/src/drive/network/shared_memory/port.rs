//! Ports: what waits for a cable, what may be sent on it, and what is held behind it.

use std::collections::VecDeque;

use weft_fabric::switch::SharedQueues;
use weft_kernel::Id;
use weft_protocol::flow::{Credits, Crossing, Hysteresis, Marks, Quenching};
use weft_units::{Span, Time};

use super::FlowControl;
use super::quench::{Indication, Signal};
use super::{Cell, Event, Packet, SharedMemoryNetwork};
use weft_fabric::interface::EndpointSettings;

/// A port of a switch, or of an adapter: an output to a cable and an input from it.
#[derive(Clone, Debug)]
pub(super) struct Port {
    /// The port at the other end of the cable; itself where there is none.
    pub peer: u32,
    /// The switch that it belongs to; none of an adapter.
    pub switch: Option<u32>,
    /// The queues that have cells for the output, by virtual channel; at an adapter, the connections.
    turns: Vec<VecDeque<u32>>,
    /// The virtual channel whose turn it is.
    turn: u8,
    /// Credits for the far end, by virtual channel.
    credits: Vec<Credits>,
    /// Whether the far end has stopped it.
    is_stopped: bool,
    /// Signals to sources that are to be passed on.
    pub indications: VecDeque<Indication>,
    sending: Option<Sending>,
    /// Cells that wait for the output.
    pub waiting: u32,
    /// What the input holds, by virtual channel, and how many cells it has space for.
    held: Vec<Hysteresis>,
    space: u32,
    /// Where it stops its cable, and where it lets it go on.
    marks: Marks,
    /// How long the output is busy since records began, to the end of what it sends now, and when
    /// that is.
    busy: Span,
    busy_until: Time,
    /// How long it was busy at the last sample.
    pub busy_before: Span,
    /// The part of it with signals to sources.
    pub busy_indicating: Span,
    /// The most cells that its input held.
    pub most_held: u32,
}

/// What occupies an output.
#[derive(Clone, Copy, Debug)]
enum Sending {
    /// A cell of its own host, or an indication.
    Free,
    /// A cell that is held behind an input of the same switch.
    Held { input: u32, channel: u8, queue: u32 },
}

/// Cells in the order in which they came.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct CellQueue {
    oldest: Option<Id<Cell>>,
    youngest: Option<Id<Cell>>,
    /// Whether a cell of a queue that gives one at a time is leaving.
    is_leaving: bool,
}

/// Marks that no input reaches, where nothing stops it.
const NO_MARKS: Marks = Marks { high: u32::MAX, low: 0 };

impl Port {
    pub fn new(peer: u32, switch: Option<u32>) -> Port {
        Port {
            peer,
            switch,
            turns: Vec::new(),
            turn: 0,
            credits: Vec::new(),
            is_stopped: false,
            indications: VecDeque::new(),
            sending: None,
            waiting: 0,
            held: Vec::new(),
            space: 0,
            marks: NO_MARKS,
            busy: Span::ZERO,
            busy_until: Time::ZERO,
            busy_before: Span::ZERO,
            busy_indicating: Span::ZERO,
            most_held: 0,
        }
    }

    /// It sends for `span` from `start` on. Returns what of that lies behind `from`.
    pub fn occupy(&mut self, from: Time, (start, span): (Time, Span)) -> Span {
        self.busy_until = start + span;
        let measured = self.busy_until.since(start.max(from));
        self.busy += measured;
        measured
    }

    /// How long it was busy from the beginning of records to `now`.
    pub fn busy_by(&self, now: Time) -> Span {
        Span(self.busy.0 - self.busy_until.since(now).0.min(self.busy.0))
    }

    /// Gives it virtual channels with so much space behind each, and credits for the far end.
    pub fn furnish(
        &mut self,
        channels: u8,
        (space, marks): (u32, Option<Marks>),
        credits: Option<Credits>,
    ) {
        let channels = usize::from(channels);
        self.turns = vec![VecDeque::new(); channels];
        self.held = vec![Hysteresis::default(); channels];
        self.credits = credits.map_or_else(Vec::new, |credits| vec![credits; channels]);
        self.space = space;
        self.marks = marks.unwrap_or(NO_MARKS);
    }

    /// Cells that its input holds.
    pub fn held(&self) -> u32 {
        self.held.iter().map(Hysteresis::held).sum()
    }

    /// Whether cells wait that the far end does not let go.
    pub fn is_blocked(&self) -> bool {
        let is_broke = |(channel, turns): (usize, &VecDeque<u32>)| {
            !turns.is_empty() && self.credits.get(channel).is_some_and(|own| own.left() == 0)
        };
        let waits = self.turns.iter().any(|turns| !turns.is_empty());
        waits && (self.is_stopped || self.turns.iter().enumerate().any(is_broke))
    }

    /// A queue, or a connection of an adapter, has something to send.
    pub fn enlist(&mut self, channel: u8, queue: u32) {
        self.turns[usize::from(channel)].push_back(queue);
    }

    /// The next virtual channel and queue that may send: each in turn.
    #[inline]
    fn next(&mut self) -> Option<(u8, u32)> {
        let channels = self.turns.len();
        for step in 0..channels {
            let channel = (usize::from(self.turn) + step) % channels;
            if self.credits.get(channel).is_some_and(|credits| credits.left() == 0) {
                continue;
            }
            if let Some(queue) = self.turns[channel].pop_front() {
                self.turn = ((channel + 1) % channels) as u8;
                return Some((channel as u8, queue));
            }
        }
        None
    }
}

/// Gives every port its credits, the space behind it and the marks of that, as `control` says.
/// Inputs of switches hold `buffer` cells, those of adapters what `endpoints` say.
pub(super) fn furnish(
    control: &FlowControl,
    ports: &mut [Port],
    buffer: u32,
    endpoints: &EndpointSettings,
) {
    let channels = u32::from(control.channels);
    let space = |port: &Port| match port.switch {
        Some(_) => (buffer / channels).max(1),
        None => (endpoints.receive_buffer.get() / channels).max(1),
    };
    let spaces: Vec<u32> = ports.iter().map(space).collect();
    for (port, own) in ports.iter_mut().zip(&spaces) {
        let credits = Credits::new(spaces[port.peer as usize]);
        let marks = control.stop_go.map(|stop_go| match port.switch {
            Some(_) => stop_go.marks,
            None => Marks { high: endpoints.receive_stop.get(), low: endpoints.receive_go },
        });
        port.furnish(control.channels, (*own, marks), control.has_credits.then_some(credits));
    }
}

impl SharedMemoryNetwork {
    /// Sends what is next at a port, if it is free.
    pub(super) fn serve(&mut self, now: Time, port: u32) {
        let own = &mut self.ports[port as usize];
        if own.sending.is_some() {
            return;
        }
        if let Some(indication) = own.indications.pop_front() {
            own.sending = Some(Sending::Free);
            self.send_indication(now, port, indication);
            return;
        }
        while !self.ports[port as usize].is_stopped {
            let own = &mut self.ports[port as usize];
            let Some((channel, queue)) = own.next() else { return };
            // It is taken while the cell is chosen: an indication that this brings about may be
            // for this very port.
            own.sending = Some(Sending::Free);
            let next = match own.switch {
                Some(_) => self.take(now, queue),
                None => self.make_cell(now, port, queue).map(|cell| (cell, Sending::Free)),
            };
            if let Some((cell, sending)) = next {
                self.start(now, (port, channel), cell, sending);
                return;
            }
            self.ports[port as usize].sending = None;
        }
    }

    fn start(&mut self, now: Time, (port, channel): (u32, u8), id: Id<Cell>, sending: Sending) {
        let span = Span(u64::from(self.cells[id].span));
        let own = &mut self.ports[port as usize];
        own.sending = Some(sending);
        own.waiting -= u32::from(own.switch.is_some());
        if let Some(credits) = own.credits.get_mut(usize::from(channel)) {
            credits.spend();
        }
        own.occupy(self.ends.observations.from, (now, span));
        let peer = own.peer as usize;
        self.agenda.push(now + span, Event::Free(port));
        match self.ports[peer].switch {
            Some(_) => self.agenda.push(now + self.propagation + self.latency, Event::Reach(id)),
            None => self.agenda.push(now + self.propagation + span, Event::Arrive(id)),
        }
    }

    /// Takes the oldest cell of a queue out of it. For a credit it is held until its last byte has
    /// left; else it cuts through, and is held no longer when it begins to leave.
    fn take(&mut self, now: Time, queue: u32) -> Option<(Id<Cell>, Sending)> {
        let own = &mut self.queues[queue as usize];
        let id = own.oldest?;
        let cell = &mut self.cells[id];
        own.oldest = cell.behind.take();
        if own.oldest.is_none() {
            own.youngest = None;
        }
        let (connection, hop) = (cell.connection, cell.hop);
        cell.hop += 1;
        let place = self.connections[connection as usize].first + u32::from(hop);
        let way = self.hops[place as usize];
        let is_fifo = self.queues_kind == SharedQueues::Fifo;
        own.is_leaving = is_fifo;
        let has_more = own.oldest.is_some();
        let (channel, leaves_by) = self.channels(connection, hop);
        if has_more && !is_fifo {
            self.ports[way.output as usize].enlist(leaves_by, queue);
        }
        if let Some(quench) = self.control.quench
            && let Some(Quenching::Unquench) = self.monitors[place as usize].leave(quench.marks)
        {
            self.indicate(now, (connection, hop), Signal::Unquench);
        }
        if !self.control.has_credits {
            self.release(now, way.input, channel);
        }
        Some((id, Sending::Held { input: way.input, channel, queue }))
    }

    /// A cell is in a switch: it joins its queue.
    pub(super) fn reach(&mut self, now: Time, id: Id<Cell>) {
        let Cell { connection, hop, .. } = self.cells[id];
        let own = &self.connections[connection as usize];
        let place = own.first + u32::from(hop);
        let way = self.hops[place as usize];
        let (came_by, channel) = self.channels(connection, hop);
        self.hold(now, way.input, came_by);
        self.stored[way.switch as usize] += 1;
        self.ports[way.output as usize].waiting += 1;
        self.watch(now, (connection, hop));
        let queue = self.queue_of(connection, hop);
        self.cells[id].behind = None;
        let own = &mut self.queues[queue as usize];
        match own.youngest.replace(id) {
            Some(before) => self.cells[before].behind = Some(id),
            None => {
                own.oldest = Some(id);
                if !own.is_leaving {
                    self.ports[way.output as usize].enlist(channel, queue);
                    self.serve(now, way.output);
                }
            }
        }
    }

    /// The last byte of a cell, or of an indication, has left a port.
    pub(super) fn free(&mut self, now: Time, port: u32) {
        let sent = self.ports[port as usize].sending.take();
        if let Some(Sending::Held { input, channel, queue }) = sent {
            if let Some(switch) = self.ports[port as usize].switch {
                self.stored[switch as usize] -= 1;
            }
            if self.control.has_credits {
                self.release(now, input, channel);
            }
            if self.queues_kind == SharedQueues::Fifo {
                self.advance(now, queue, port);
            }
        }
        self.serve(now, port);
    }

    /// The next cell of a queue that gives one at a time asks for its output.
    fn advance(&mut self, now: Time, queue: u32, port: u32) {
        let own = &mut self.queues[queue as usize];
        own.is_leaving = false;
        let Some(id) = own.oldest else { return };
        let Cell { connection, hop, .. } = self.cells[id];
        let own = &self.connections[connection as usize];
        let output = self.hops[(own.first + u32::from(hop)) as usize].output;
        let channel = self.channels(connection, hop).1;
        self.ports[output as usize].enlist(channel, queue);
        if output != port {
            self.serve(now, output);
        }
    }

    /// An input holds one cell more; it may stop its cable.
    pub(super) fn hold(&mut self, now: Time, port: u32, channel: u8) {
        let own = &mut self.ports[port as usize];
        let (peer, space) = (own.peer, own.space);
        let held = &mut own.held[usize::from(channel)];
        let crossing = held.raise(own.marks);
        let count = held.held();
        own.most_held = own.most_held.max(count);
        if count > space && self.overrun.is_none() {
            self.overrun = Some(self.describe_overrun(now, port, space));
        }
        if let (Some(Crossing::High), Some(stop_go)) = (crossing, self.control.stop_go) {
            self.agenda.push(now + self.propagation + stop_go.reaction, Event::Stop(peer, true));
        }
    }

    /// An input holds one cell less; it may let its cable go on, or return a credit.
    pub(super) fn release(&mut self, now: Time, port: u32, channel: u8) {
        let own = &mut self.ports[port as usize];
        let crossing = own.held[usize::from(channel)].lower(own.marks);
        if self.control.has_credits {
            self.agenda.push(now + self.propagation, Event::Credit(own.peer, channel));
        }
        if let (Some(Crossing::Low), Some(stop_go)) = (crossing, self.control.stop_go) {
            let peer = own.peer;
            self.agenda.push(now + self.propagation + stop_go.reaction, Event::Stop(peer, false));
        }
    }

    pub(super) fn credit(&mut self, now: Time, port: u32, channel: u8) {
        if let Some(credits) = self.ports[port as usize].credits.get_mut(usize::from(channel)) {
            credits.restore();
        }
        self.serve(now, port);
    }

    pub(super) fn stop(&mut self, now: Time, port: u32, stops: bool) {
        self.ports[port as usize].is_stopped = stops;
        self.report.stops += u64::from(stops && now >= self.ends.observations.from);
        if !stops {
            self.serve(now, port);
        }
    }

    /// The next cell of a connection at its adapter; none while its source is quenched.
    fn make_cell(&mut self, now: Time, port: u32, connection: u32) -> Option<Id<Cell>> {
        let own = &mut self.connections[connection as usize];
        own.is_listed = false;
        if !own.source.is_open() {
            return None;
        }
        let message: Id<Packet> = *own.ready.front()?;
        let packet = &mut self.ends.packets[message];
        if packet.start == Time::NEVER {
            packet.start = now;
            packet.note.is_damaged = self.faults.damages(own.from, own.hops, packet.note.wire);
            self.unsent -= 1;
            self.ends.observations.attempt(now);
        }
        packet.note.left -= 1;
        let is_last = packet.note.left == 0;
        let span = if is_last { packet.note.last } else { self.packet };
        if is_last {
            own.ready.pop_front();
        }
        if !own.ready.is_empty() {
            own.is_listed = true;
            self.ports[port as usize].enlist(own.channel, connection);
        }
        if is_last {
            self.transmitted(now, connection, span);
        }
        let span = span.0 as u32;
        Some(self.cells.insert(Cell { message, behind: None, connection, span, hop: 0, is_last }))
    }
}
