//! Ports: the packets that wait for a cable, what may be sent on it, and what the input at its far
//! end holds.

use std::collections::VecDeque;

use weft_fabric::fabric::{PathHop, Wiring};
use weft_fabric::graph::{Departure, Graph};
use weft_fabric::switch::{Chain, SharedQueues};
use weft_kernel::Event;
use weft_protocol::flow::{Crossing, Hysteresis, Marks, Quenching};
use weft_units::{Bytes, Span, Time};

use super::quench::{Indication, Signal};
use super::{Cell, Memories};
use crate::drive::engine::Engine;
use crate::drive::engine::limits::{GO, STOP};

/// A port of a switch with a shared memory, or of an adapter: an output to a cable and an input from
/// it. Of other switches it has only what a report shows.
#[derive(Clone, Debug, Default)]
pub(super) struct Port {
    /// The queues that have packets for the output, by virtual channel; at an adapter, the
    /// connections.
    turns: Vec<VecDeque<u32>>,
    /// The virtual channel whose turn it is.
    turn: u8,
    /// Signals to sources that must be forwarded.
    pub indications: VecDeque<Indication>,
    /// Until when a switch of another kind sends signals to sources beside its packets.
    pub told: Time,
    sending: Option<Sending>,
    /// Packets that wait for the output.
    pub waiting: u32,
    /// What the input holds, by virtual channel, and for how many packets it has space.
    held: Vec<Hysteresis>,
    space: u32,
    /// The marks at which it stops its cable and lets it continue.
    marks: Option<Marks>,
    /// How long it was busy at the last sample.
    pub busy_before: Span,
    /// How long it was busy with signals to sources.
    pub busy_indicating: Span,
    /// The most packets that its input held.
    pub most_held: u32,
}

/// What occupies an output.
#[derive(Clone, Copy, Debug)]
pub(super) enum Sending {
    /// A packet of its own host, or an indication.
    Free,
    /// A packet in an input of the same switch.
    Held { input: u32, channel: u8, queue: u32 },
}

/// Packets in the order of arrival.
#[derive(Clone, Copy, Debug)]
pub(super) struct CellQueue {
    chain: Chain,
    /// Whether a packet of a queue that gives one at a time is leaving.
    is_leaving: bool,
}

impl CellQueue {
    pub const EMPTY: CellQueue = CellQueue { chain: Chain::EMPTY, is_leaving: false };

    /// The packet that leaves next.
    pub fn oldest(&self) -> Option<u32> {
        self.chain.oldest()
    }
}

/// Marks that no input reaches, where nothing stops it.
const NO_MARKS: Marks = Marks { high: u32::MAX, low: 0 };

impl Port {
    /// Packets that its input holds.
    pub fn held(&self) -> u32 {
        self.held.iter().map(Hysteresis::held).sum()
    }

    /// A queue, or a connection of an adapter, has something to send.
    pub fn enlist(&mut self, channel: u8, queue: u32) {
        self.turns[usize::from(channel)].push_back(queue);
    }

    /// The queues, or connections, that have something to send by a virtual channel.
    pub fn listed(&self, channel: u8) -> impl Iterator<Item = u32> {
        self.turns[usize::from(channel)].iter().copied()
    }

    /// Whether there is any.
    pub fn has_listed(&self, channel: u8) -> bool {
        !self.turns[usize::from(channel)].is_empty()
    }

    /// The next virtual channel and queue that may send: each in turn.
    #[inline]
    fn next(&mut self, may_send: impl Fn(u8) -> bool) -> Option<(u8, u32)> {
        let channels = self.turns.len();
        for step in 0..channels {
            let mut channel = usize::from(self.turn) + step;
            if channel >= channels {
                channel -= channels;
            }
            if self.turns[channel].is_empty() || !may_send(channel as u8) {
                continue;
            }
            if let Some(queue) = self.turns[channel].pop_front() {
                self.turn = if channel + 1 == channels { 0 } else { channel as u8 + 1 };
                return Some((channel as u8, queue));
            }
        }
        None
    }
}

impl Memories {
    /// Gives every port its queues, and the space of its input with its marks.
    pub(super) fn furnish(&mut self, wiring: &Wiring, graph: &Graph) {
        let channels = u32::from(self.control.channels);
        let mut count = 0;
        for port in 0..wiring.ports() {
            let switch = wiring.switch_of(port);
            self.first_queue.push(count);
            count += match self.kinds[switch as usize] {
                Some(SharedQueues::PerInput) => wiring.ports_of(switch) * channels,
                Some(SharedQueues::Fifo) => channels,
                Some(SharedQueues::PerConnection) | None => 0,
            };
            let own = graph.memory(switch).map(|buffer| {
                let marks = self.control.stop_go.map(|stop_go| stop_go.marks);
                self.port((buffer / channels).max(1), marks)
            });
            self.ports.push(own.unwrap_or_default());
        }
        self.queues = vec![CellQueue::EMPTY; count as usize];
        let own = &self.endpoints;
        let marks = Marks { high: own.receive_stop.get(), low: own.receive_go };
        let space = (own.receive_buffer.get() / channels).max(1);
        let host = self.port(space, self.control.stop_go.map(|_| marks));
        self.ports.extend(std::iter::repeat_n(host, wiring.hosts() as usize));
    }

    fn port(&self, space: u32, marks: Option<Marks>) -> Port {
        let channels = usize::from(self.control.channels);
        let turns = vec![VecDeque::new(); channels];
        Port { turns, held: vec![Hysteresis::default(); channels], space, marks, ..Port::default() }
    }

    /// The hop of a packet at a switch that it has reached as the `hops`th of its route, from 1.
    #[inline]
    pub(super) fn place(&self, id: u32, hops: u16) -> u32 {
        let connection = self.cells[id as usize].connection;
        self.connections[connection as usize].first + u32::from(hops) - 1
    }
}

impl Engine {
    /// How long a packet takes on the link of a port.
    #[inline]
    fn cell_span(&self, port: u32, id: u32) -> Span {
        let Cell { span, short, .. } = self.memories.cells[id as usize];
        if !self.graph.is_mixed() {
            return span;
        }
        match short {
            0 => self.graph.span(port),
            short => self.memories.links[self.graph.link_of(port)].span(Bytes(short.into())),
        }
    }

    /// Sends what is next at a port, if it is free.
    #[inline(never)]
    pub(in crate::drive::engine) fn serve(&mut self, now: Time, port: u32) {
        let own = &mut self.memories.ports[port as usize];
        if own.sending.is_some() {
            return;
        }
        if let Some(indication) = own.indications.pop_front() {
            own.sending = Some(Sending::Free);
            self.send_indication(now, port, indication);
            return;
        }
        while !self.graph.is_stopped(port) {
            let graph = &self.graph;
            let own = &mut self.memories.ports[port as usize];
            let next = own.next(|channel| graph.may_send(port, channel));
            let Some((channel, queue)) = next else { return };
            // The port counts as busy while it chooses: choosing a packet can cause an indication
            // for this very port, which must not start a transmission of its own.
            own.sending = Some(Sending::Free);
            let next = match port < self.graph.switch_ports() {
                true => self.take(now, channel, queue),
                false => self.make_cell(now, port, queue).map(|cell| (cell, Sending::Free)),
            };
            if let Some((cell, sending)) = next {
                self.start_cell(now, port, channel, cell, sending);
                return;
            }
            self.memories.ports[port as usize].sending = None;
        }
    }

    fn start_cell(&mut self, now: Time, port: u32, channel: u8, id: u32, sending: Sending) {
        let span = self.cell_span(port, id);
        let is_host = port >= self.graph.switch_ports();
        let own = &mut self.memories.ports[port as usize];
        own.sending = Some(sending);
        own.waiting -= u32::from(!is_host);
        let begins = match is_host {
            true => now,
            false => self.memories.begins(now, self.graph.switch_of(port)),
        };
        let departure = self.graph.start(begins, port, span, channel);
        self.schedule(begins + span, self.places.frees + port, 0);
        if self.graph.is_mixed() {
            self.spend_cell(port, id, sending);
        }
        let channel = self.packets.forwarding[id as usize].channel;
        self.travel(now, &departure, id, channel);
    }

    /// A packet spends what it takes from an input of a switch, or from its host, to the far end of a
    /// cable.
    fn spend_cell(&mut self, port: u32, id: u32, sending: Sending) {
        let lag = match sending {
            Sending::Held { input, .. } => self.cell_lag(input, port, id),
            Sending::Free => Span::ZERO,
        };
        let (span, whole) = (self.cell_span(port, id), self.graph.span(port));
        let ends = self.graph.peer(port).is_some_and(|place| place >= self.graph.switch_ports());
        let mut own = self.graph.spent(port, lag);
        if ends {
            own.transmission = Span(own.transmission.0 + span.0 - whole.0);
        }
        if let Some(spent) = self.packets.stored(id) {
            *spent = match sending {
                Sending::Free => own,
                Sending::Held { .. } => spent.and(own),
            };
        }
    }

    /// By how much longer a packet takes to arrive at a switch than to leave it.
    fn cell_lag(&self, input: u32, output: u32, id: u32) -> Span {
        Span(self.cell_span(input, id).0.saturating_sub(self.cell_span(output, id).0))
    }

    /// A packet is bound for a switch with a shared memory, where its first byte arrives at `time`.
    /// Its output follows from its connection, so it is known when the packet joins its queue.
    #[inline]
    pub(super) fn approach(&mut self, time: Time, input: u32, id: u32) {
        let forwarding = &mut self.packets.forwarding[id as usize];
        forwarding.hops += 1;
        let PathHop { switch, output, .. } =
            self.memories.hops[self.memories.place(id, forwarding.hops) as usize];
        if !self.memories.are_alone {
            // Switches of other kinds ask the routes, which store the choice in the packet.
            self.routes.port(
                switch,
                forwarding.hops - 1,
                forwarding.to,
                &mut forwarding.route_state,
                |_| 0,
            );
        }
        let mut joins = time + self.graph.latency(switch);
        if self.graph.is_mixed() {
            joins += self.cell_lag(input, output, id);
        }
        self.schedule(joins, self.places.enters + input, id);
    }

    /// Takes the oldest packet of a queue out of it. For a credit it is held until its last byte has
    /// left; else it cuts through, and is held no longer when it begins to leave.
    fn take(&mut self, now: Time, channel: u8, queue: u32) -> Option<(u32, Sending)> {
        let own = &mut self.memories.queues[queue as usize];
        let id = own.chain.pop(&self.packets.behind)?;
        let has_more = !own.chain.is_empty();
        let forwarding = &mut self.packets.forwarding[id as usize];
        let came_by = std::mem::replace(&mut forwarding.channel, channel);
        let hops = forwarding.hops;
        let place = self.memories.place(id, hops);
        let PathHop { switch, input, output, .. } = self.memories.hops[place as usize];
        let is_fifo = self.memories.kinds[switch as usize] == Some(SharedQueues::Fifo);
        self.memories.queues[queue as usize].is_leaving = is_fifo;
        if has_more && !is_fifo {
            self.memories.ports[output as usize].enlist(channel, queue);
        }
        if let Some(quench) = self.memories.control.quench
            && let Some(Quenching::Unquench) =
                self.memories.monitors[place as usize].leave(quench.marks)
        {
            let connection = self.memories.cells[id as usize].connection;
            self.indicate(now, connection, hops - 1, Signal::Unquench);
        }
        if !self.memories.control.has_credits {
            self.release(now, input, came_by);
        }
        Some((id, Sending::Held { input, channel: came_by, queue }))
    }

    /// A packet is in a switch with a shared memory: it joins its queue.
    pub(in crate::drive::engine) fn store(&mut self, now: Time, id: u32) {
        let forwarding = &self.packets.forwarding[id as usize];
        let (came_by, hops) = (forwarding.channel, forwarding.hops);
        let place = self.memories.place(id, hops);
        let PathHop { switch, input, output, .. } = self.memories.hops[place as usize];
        self.hold_cell(now, input, came_by);
        let memories = &mut self.memories;
        let has_room = memories.banks[switch as usize].store();
        memories.ports[output as usize].waiting += 1;
        let connection = memories.cells[id as usize].connection;
        if !has_room {
            self.note_full_memory(now, switch);
        }
        if self.memories.control.quench.is_some() {
            self.watch(now, connection, hops - 1);
        }
        let queue = self.memories.queue_at[place as usize];
        let own = &mut self.memories.queues[queue as usize];
        if own.chain.push(id, &mut self.packets.behind) && !own.is_leaving {
            let leaves_by = self.memories.leaves_by(connection, hops - 1);
            self.memories.ports[output as usize].enlist(leaves_by, queue);
            self.serve(now, output);
        }
    }

    /// The last byte of a packet, or of an indication, has left a port.
    #[inline(never)]
    pub(in crate::drive::engine) fn free(&mut self, now: Time, port: u32) {
        let sent = self.memories.ports[port as usize].sending.take();
        if let Some(Sending::Held { input, channel, queue }) = sent {
            let switch = self.graph.switch_of(port);
            self.memories.banks[switch as usize].stored -= 1;
            if self.memories.control.has_credits {
                self.release(now, input, channel);
            }
            if self.memories.kinds[switch as usize] == Some(SharedQueues::Fifo) {
                self.give_next(now, queue, port);
            }
        }
        self.serve(now, port);
    }

    /// The next packet of a queue that gives one at a time asks for its output.
    fn give_next(&mut self, now: Time, queue: u32, port: u32) {
        let own = &mut self.memories.queues[queue as usize];
        own.is_leaving = false;
        let Some(id) = own.chain.oldest() else { return };
        let hops = self.packets.forwarding[id as usize].hops;
        let connection = self.memories.cells[id as usize].connection;
        let output = self.memories.hops[self.memories.place(id, hops) as usize].output;
        let channel = self.memories.leaves_by(connection, hops - 1);
        self.memories.ports[output as usize].enlist(channel, queue);
        if output != port {
            self.serve(now, output);
        }
    }

    /// An input holds one packet more; it may stop its cable.
    pub(super) fn hold_cell(&mut self, now: Time, port: u32, channel: u8) {
        let own = &mut self.memories.ports[port as usize];
        let (marks, space) = (own.marks.unwrap_or(NO_MARKS), own.space);
        let held = &mut own.held[usize::from(channel)];
        let crossing = held.raise(marks);
        let count = held.held();
        own.most_held = own.most_held.max(count);
        if count > space && self.overrun.is_none() {
            self.note_overrun(now, port, space);
        }
        if crossing == Some(Crossing::High) {
            self.signal_stop(now, port, STOP);
        }
    }

    /// An input holds one packet less; it may let its cable go on, or return a credit.
    pub(super) fn release(&mut self, now: Time, port: u32, channel: u8) {
        let own = &mut self.memories.ports[port as usize];
        let crossing = own.held[usize::from(channel)].lower(own.marks.unwrap_or(NO_MARKS));
        if self.memories.control.has_credits {
            self.return_credit(now, port, channel);
        }
        if crossing == Some(Crossing::Low) {
            self.signal_stop(now, port, GO);
        }
    }

    /// An input returns a credit.
    pub(super) fn return_credit(&mut self, now: Time, port: u32, channel: u8) {
        let Some(peer) = self.graph.peer(port) else { return };
        let time = now + self.graph.propagation(port);
        self.schedule(time, self.places.signals + peer, channel.into());
    }

    /// An input stops its cable, or lets it continue.
    fn signal_stop(&mut self, now: Time, port: u32, said: u32) {
        let (Some(peer), Some(stop_go)) = (self.graph.peer(port), self.memories.control.stop_go)
        else {
            return;
        };
        let time = now + self.graph.propagation(port) + stop_go.reaction;
        self.schedule(time, self.places.signals + peer, said);
    }

    /// The next packet of a connection at its adapter; none while its source is quenched.
    fn make_cell(&mut self, now: Time, port: u32, connection: u32) -> Option<u32> {
        let own = &mut self.memories.connections[connection as usize];
        own.is_listed = false;
        if !own.source.is_open() {
            return None;
        }
        let message = *own.ready.front()?;
        let (from, hops, forwarding) = (own.from, own.hops, own.forwarding);
        let note = &mut self.memories.messages[message as usize];
        if note.start == Time::NEVER {
            note.start = now;
            note.is_damaged = self.memories.faults.damages(from, hops, note.wire);
            self.memories.unsent -= 1;
            self.observations.attempt(now);
        }
        note.left -= 1;
        let is_last = note.left == 0;
        let (short, span) = match is_last {
            true => (note.last, note.last_span),
            false => (0, self.graph.span(port)),
        };
        if is_last {
            own.ready.pop_front();
        }
        if !own.ready.is_empty() {
            own.is_listed = true;
            self.memories.ports[port as usize].enlist(forwarding.channel, connection);
        }
        if is_last {
            self.transmitted(now, connection, span);
        }
        let id = self.packets.insert_forwarding(forwarding);
        let cell = Cell { message, connection, span, short, is_last };
        let cells = &mut self.memories.cells;
        match cells.get_mut(id as usize) {
            Some(place) => *place = cell,
            None => cells.push(cell),
        }
        Some(id)
    }

    /// A packet without a next hop: its departure, if it is not at a memory.
    #[inline]
    pub(in crate::drive::engine) fn arrive_at(&mut self, departure: &Departure, id: u32) {
        let Departure { arrival: time, place, .. } = *departure;
        match self.graph.is_of_memory(place) {
            true => self.approach(time, place, id),
            false => self.forward(Event { time, place, item: id }),
        }
    }
}
