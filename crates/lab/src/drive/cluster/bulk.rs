//! The bulk channel: send buffers, schedule, transfers and what becomes of them.

mod messages;
mod offers;
mod report;

use weft_fabric::adapter::AdapterSettings;
use weft_fabric::control::{GlobalSchedule, NodeConfiguration, Reception};
use weft_fabric::link::{ErrorSettings, Errors, SharedLinks};
use weft_fabric::measure::{Drop, Latency, Observations, Stage};
use weft_fabric::workload::{Feedback, Source};
use weft_kernel::{Arena, Id, Stream, Streams};
use weft_protocol::adapter::TransmissionError;
use weft_units::{Bytes, Span, Time};

use super::outlet::Outlet;
use super::{BulkPacket, Distances, Event, OnError, RecoverySettings, Sender, Timing};
use crate::drive::carrier::Messages;
use crate::drive::faults::{DisabledInitiator, enable_vector};
use crate::drive::interface::{Bodies, InterfaceSettings, Letter};
use crate::drive::receiver::{Receiver, ReceiverSettings};
use crate::drive::trace::TraceEntry;

/// What a bulk channel is made of.
#[derive(Debug)]
pub struct BulkParts {
    /// The channel's name, of which the names of its random streams are made.
    pub name: String,
    /// Size of a packet on the wire.
    pub packet: Bytes,
    /// What of it a program handed over.
    pub payload: Bytes,
    /// When what happens.
    pub timing: Timing,
    /// Where the hosts are, if at different distances.
    pub distances: Option<Distances>,
    /// The send buffers.
    pub adapter: AdapterSettings,
    /// The schedule.
    pub schedule: GlobalSchedule,
    /// What happens on the links.
    pub errors: ErrorSettings,
    /// The receive buffers of each target; unlimited if absent.
    pub receiver: Option<ReceiverSettings>,
    /// The interface of each host, and how many send buffers its adapter has; without one packets
    /// are in send buffers as soon as there is space.
    pub interface: Option<(InterfaceSettings, u16)>,
    /// What messages say, where they say more than their target.
    pub bodies: Option<Box<Bodies>>,
    /// What is done about a transfer that failed.
    pub recovery: RecoverySettings,
    /// Initiators that the targets leave out of their enable vectors for this channel.
    pub disabled: Vec<DisabledInitiator>,
    /// The same for the channel that carries the signalling.
    pub quick_disabled: Vec<DisabledInitiator>,
}

/// What the general observations of a channel have no column for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ClusterCounters {
    /// Errors reported to a host (`trErr`, Clint 3.1).
    pub reported_errors: u64,
    /// Packets that arrived although they had arrived before.
    pub duplicates: u64,
    /// Grants that no packet was there for.
    pub unused_grants: u64,
    /// Configurations that came too late for their cycle, or damaged.
    pub lost_configurations: u64,
    /// Grants that came damaged or for another slot.
    pub lost_grants: u64,
    /// Acknowledgments that came damaged.
    pub lost_acknowledgments: u64,
}

/// One packet on its way from its initiator to its target, until its outcome is known.
#[derive(Clone, Copy, Debug)]
pub struct Transfer {
    pub(super) initiator: u16,
    pub(super) packet: BulkPacket,
    /// The oldest packet of the pair that the initiator has not done with.
    base: u64,
    pub(super) start: Time,
    pub(super) cycle: u64,
    damaged: bool,
    pub(super) reception: Option<Reception>,
    /// The initiator knows what became of it, or sends it again whatever became of it.
    concluded: bool,
}

#[derive(Debug)]
struct Host {
    source: Option<Source>,
    sender: Outlet,
    /// The transfers whose outcome is not known, oldest first: three at the most.
    transfers: Vec<Id<Transfer>>,
    receiver: Receiver,
    /// The next number by initiator.
    expected: Vec<u64>,
    errors: Option<Errors>,
    granted: Option<u16>,
}

/// A bulk channel with the state of all its parts.
#[derive(Debug)]
pub struct BulkChannel {
    parts: BulkParts,
    random: Stream,
    hosts: Vec<Host>,
    transfers: Arena<Transfer>,
    /// The cycle whose transfers began last.
    cycle: u64,
    /// What a program has handed over, where one does.
    messages: Option<Box<Messages>>,
    pub(super) counters: ClusterCounters,
    pub(super) observations: Observations,
    trace: Option<Vec<TraceEntry>>,
}

impl BulkChannel {
    /// A channel at time zero. `sources` holds the source of each host in order, or is empty.
    pub fn new(
        parts: BulkParts,
        sources: Vec<Source>,
        streams: &Streams,
        observations: Observations,
    ) -> BulkChannel {
        let ports = parts.schedule.ports();
        let mut sources = sources.into_iter();
        let faulty = !parts.errors.is_free_of_errors();
        let hosts = (0..ports as u16).map(|host| Host {
            source: sources.next(),
            sender: match &parts.interface {
                None => Outlet::Buffers(Sender::new(&parts.adapter, ports)),
                Some((settings, buffers)) => {
                    Outlet::through(settings.build(host, ports as u16, *buffers), host, ports)
                }
            },
            transfers: Vec::new(),
            receiver: Receiver::new(parts.receiver.as_ref()),
            expected: vec![0; ports],
            errors: faulty.then(|| parts.errors.build(streams, &parts.name, host)),
            granted: None,
        });
        BulkChannel {
            hosts: hosts.collect(),
            random: streams.stream(&format!("{}.scheduler", parts.name), 0),
            transfers: Arena::new(),
            cycle: 0,
            messages: None,
            counters: ClusterCounters::default(),
            observations,
            trace: None,
            parts,
        }
    }

    /// When what happens.
    pub fn timing(&self) -> &Timing {
        &self.parts.timing
    }

    /// What was counted besides.
    pub fn counters(&self) -> ClusterCounters {
        self.counters
    }

    /// What was observed; ends the channel.
    pub fn into_observations(self) -> Observations {
        self.observations
    }

    pub(super) fn record_trace(&mut self) {
        self.trace = Some(Vec::new());
    }

    pub(super) fn take_trace(&mut self) -> Vec<TraceEntry> {
        self.trace.as_mut().map(std::mem::take).unwrap_or_default()
    }

    pub(super) fn start(&mut self, schedule: &mut impl FnMut(Time, Event)) {
        for (index, host) in (0..).zip(&self.hosts) {
            Self::schedule_source(index, host, schedule);
        }
    }

    fn schedule_source(index: u16, host: &Host, schedule: &mut impl FnMut(Time, Event)) {
        let next = host.source.as_ref().map_or(Time::NEVER, Source::next_time);
        if next < Time::NEVER {
            schedule(next, Event::Generate(index));
        }
    }

    /// Sees to it that a greedy source hands over the next packet when there is space for it.
    fn ask_source(&mut self, now: Time, index: u16, schedule: &mut impl FnMut(Time, Event)) {
        let host = &mut self.hosts[usize::from(index)];
        let Some(source) = &mut host.source else { return };
        if source.feedback() == Feedback::Ready && host.sender.has_space() {
            let waits = source.next_time() < Time::NEVER;
            source.ready(now);
            if !waits {
                Self::schedule_source(index, host, schedule);
            }
        }
    }

    /// Lets a host and its interface do what is due, and asks its source for more.
    pub(super) fn serve(&mut self, now: Time, index: u16, schedule: &mut impl FnMut(Time, Event)) {
        let BulkChannel { hosts, messages, parts, .. } = self;
        if let Some(interface) = hosts[usize::from(index)].sender.interface_mut() {
            let handled = |letter| messages::handle(messages, now, letter);
            if let Some(next) = interface.serve(now, parts.bodies.as_deref_mut(), handled) {
                schedule(next, Event::Interface(index));
            }
            if self.send_answers(now, index) {
                return self.serve(now, index, schedule);
            }
        }
        self.ask_source(now, index, schedule);
    }

    // Arbitration.

    pub(super) fn hosts(&self) -> u16 {
        self.hosts.len() as u16
    }

    /// What a node tells the arbiter at `now`.
    pub(super) fn configuration(&mut self, now: Time, host: u16) -> NodeConfiguration {
        let BulkParts { disabled, quick_disabled, .. } = &self.parts;
        NodeConfiguration {
            requests: self.hosts[usize::from(host)].sender.requests(now),
            bulk_enable: enable_vector(disabled, now, host),
            quick_enable: enable_vector(quick_disabled, now, host),
        }
    }

    pub(super) fn schedule(&mut self) -> &mut GlobalSchedule {
        &mut self.parts.schedule
    }

    pub(super) fn calculate_grants(&mut self) {
        self.parts.schedule.arbitrate(&mut self.random);
    }

    pub(super) fn take_grant(&mut self, host: u16, target: Option<u16>) {
        self.hosts[usize::from(host)].granted = target;
    }

    /// Requests are known when they are sampled, and grants at once.
    pub(super) fn arbitrate_at_once(&mut self, now: Time) {
        self.parts.schedule.begin_cycle();
        for host in 0..self.hosts() {
            let configuration = self.configuration(now, host);
            self.parts.schedule.configure(host.into(), configuration);
        }
        self.calculate_grants();
        for host in 0..self.hosts() {
            let target = self.parts.schedule.grant(host.into()).target;
            self.take_grant(host, target.map(|target| target as u16));
        }
    }

    // Transfer.

    /// Every initiator with a grant sends, over `links` if they are shared.
    pub(super) fn transfer(
        &mut self,
        now: Time,
        cycle: u64,
        mut links: Option<&mut SharedLinks>,
        schedule: &mut impl FnMut(Time, Event),
    ) {
        self.parts.schedule.begin_slot();
        self.cycle = cycle;
        for index in 0..self.hosts() {
            match self.start_of(cycle, index).filter(|start| *start > now) {
                Some(start) => schedule(start, Event::Start(index)),
                None => self.start_transfer(now, index, links.as_deref_mut(), schedule),
            }
        }
    }

    /// An initiator sends if it has a grant.
    pub(super) fn start_transfer(
        &mut self,
        now: Time,
        index: u16,
        links: Option<&mut SharedLinks>,
        schedule: &mut impl FnMut(Time, Event),
    ) {
        let Some(target) = self.hosts[usize::from(index)].granted.take() else { return };
        match self.hosts[usize::from(index)].sender.start(now, target) {
            Some(packet) => {
                if let Some(links) = links {
                    links.begin(now, index, target);
                }
                let transfer = self.parts.timing.transfer(self.cycle);
                if let Some(distances) = &mut self.parts.distances {
                    distances.note(now, transfer, index.into());
                }
                self.start_message(now, index, &packet, schedule);
                self.send(now, self.cycle, index, packet, schedule);
                self.serve(now, index, schedule);
            }
            None => self.counters.unused_grants += 1,
        }
    }

    /// When the first transfers of a cycle may begin.
    pub(super) fn first_transfer(&self, cycle: u64) -> Time {
        let transfer = self.parts.timing.transfer(cycle);
        self.parts.distances.as_ref().map_or(transfer, |distances| distances.first(transfer))
    }

    /// When a host begins its transfer of a cycle, where that is a matter of its distance.
    fn start_of(&self, cycle: u64, host: u16) -> Option<Time> {
        let distances = self.parts.distances.as_ref()?;
        Some(distances.start(self.parts.timing.transfer(cycle), host.into()))
    }

    /// From the adapter of one host to that of another on cables.
    fn wire(&self, from: u16, to: u16) -> Span {
        let of = |distances: &Distances| distances.wire(from.into(), to.into());
        self.parts.distances.as_ref().map_or(self.parts.timing.wire, of)
    }

    fn send(
        &mut self,
        now: Time,
        cycle: u64,
        initiator: u16,
        packet: BulkPacket,
        schedule: &mut impl FnMut(Time, Event),
    ) {
        let host = &mut self.hosts[usize::from(initiator)];
        let size = self.parts.packet;
        let slot = cycle + 1;
        let damaged =
            host.errors.as_mut().is_some_and(|errors| errors.damages_next(Some(slot), size));
        let of_pair = host.transfers.iter().map(|id| self.transfers[*id].packet);
        let unsettled = of_pair.filter(|other| other.target == packet.target);
        let base = unsettled.map(|other| other.sequence).min().unwrap_or(packet.sequence);
        let base = base.min(packet.sequence);
        self.observations.attempt(now);
        let (hosts, span) = (self.hosts.len(), self.parts.timing.packet);
        self.observations.occupy(packet.target.into(), now, span);
        self.observations.occupy(hosts + usize::from(initiator), now, span);
        if packet.first == Some(now) {
            self.observations.latency(Latency::FirstAttempt, now, now.since(packet.generated));
        }
        let Timing { packet: span, switch, .. } = self.parts.timing;
        let until = now + span + self.wire(initiator, packet.target) + switch;
        let id = self.transfers.insert(Transfer {
            initiator,
            packet,
            base,
            start: now,
            cycle,
            damaged,
            reception: None,
            concluded: false,
        });
        self.hosts[usize::from(initiator)].transfers.push(id);
        schedule(until, Event::Arrive(id));
        schedule(self.parts.timing.outcome(now), Event::Conclude(id));
        self.note(|| TraceEntry {
            time: now,
            until,
            kind: "breq",
            sequence: packet.sequence,
            initiator: Some(initiator.into()),
            target: Some(packet.target.into()),
            slot: Some(slot),
            content: String::new(),
        });
    }

    fn note(&mut self, entry: impl FnOnce() -> TraceEntry) {
        if let Some(trace) = &mut self.trace {
            trace.push(entry());
        }
    }

    /// A packet is on its way until `until`, since others went before it on shared links.
    pub(super) fn prolong(
        &mut self,
        id: Id<Transfer>,
        until: Time,
        schedule: &mut impl FnMut(Time, Event),
    ) {
        schedule(until, Event::Arrive(id));
        let Transfer { initiator, start, .. } = self.transfers[id];
        let is_it = |entry: &&mut TraceEntry| {
            entry.time == start && entry.initiator == Some(initiator.into())
        };
        if let Some(entry) = self.trace.iter_mut().flatten().rev().find(is_it) {
            entry.until = until;
        }
    }

    /// The last byte of a packet is at its target. Returns whether the target answers.
    pub(super) fn arrive(
        &mut self,
        now: Time,
        id: Id<Transfer>,
        schedule: &mut impl FnMut(Time, Event),
    ) -> bool {
        let delivered = self.observations.delivered;
        let target = self.transfers[id].packet.target;
        let reception = self.receive(now, id);
        self.serve(now, target, schedule);
        if self.observations.delivered > delivered {
            self.tell_source(now, id, schedule);
        }
        self.transfers[id].reception = reception;
        reception.is_some_and(|reception| reception.acknowledgment().is_some())
    }

    /// A source that answers learns of a packet.
    fn tell_source(&mut self, now: Time, id: Id<Transfer>, schedule: &mut impl FnMut(Time, Event)) {
        let Transfer { initiator, packet, .. } = self.transfers[id];
        let host = &mut self.hosts[usize::from(packet.target)];
        if let Some(source) = &mut host.source
            && source.feedback() == Feedback::Delivered
        {
            source.delivered(now, initiator.into());
            Self::schedule_source(packet.target, host, schedule);
        }
    }

    fn receive(&mut self, now: Time, id: Id<Transfer>) -> Option<Reception> {
        let Transfer { initiator, packet, base, start, damaged, .. } = self.transfers[id];
        if damaged {
            self.observations.drop(Drop::Corrupted, now);
            return Some(Reception::Corrupted);
        }
        let host = &mut self.hosts[usize::from(packet.target)];
        let expected = &mut host.expected[usize::from(initiator)];
        *expected = base.max(*expected);
        if packet.sequence < *expected {
            self.counters.duplicates += 1;
            return Some(Reception::Accepted);
        }
        if packet.sequence > *expected {
            self.observations.drop(Drop::OutOfOrder, now);
            return None;
        }
        let taken = match host.sender.interface_mut() {
            None => host.receiver.take(now),
            Some(interface) => {
                let BulkPacket { target: to, sequence, generated, .. } = packet;
                interface.arrive(now, Letter { from: initiator, to, generated, sequence })
            }
        };
        if !taken {
            self.observations.drop(Drop::NoReceiveBuffer, now);
            return Some(Reception::NoReceiveBuffer);
        }
        host.expected[usize::from(initiator)] += 1;
        let wire = self.wire(initiator, packet.target);
        self.record_success(now, &packet, start, wire);
        self.observations.deliver_from(initiator.into(), now, self.parts.payload);
        self.arrive_for_message(now, initiator, packet.target);
        Some(Reception::Accepted)
    }

    /// A packet is taken whose transmission started at `start`.
    fn record_success(&mut self, now: Time, packet: &BulkPacket, start: Time, wire: Span) {
        let BulkPacket { generated, buffered, first, .. } = *packet;
        let seen = &mut self.observations;
        seen.latency(Latency::Queueing, now, start.since(generated));
        seen.latency(Latency::Transit, now, now.since(start));
        seen.latency(Latency::OneWay, now, now.since(generated));
        let BulkParts { timing, interface, .. } = &self.parts;
        let host = interface.as_ref().map_or(Stage::BufferWait, |_| Stage::InitiatorHost);
        let first = first.unwrap_or(start);
        seen.spend(host, now, buffered.since(generated));
        seen.spend(Stage::SlotWait, now, first.since(buffered));
        seen.spend(Stage::Retry, now, start.since(first));
        seen.spend(Stage::Transmission, now, timing.packet);
        seen.spend(Stage::Wire, now, wire);
        seen.spend(Stage::Switch, now, timing.switch);
        let held_up = Span(now.since(start).0 - (timing.packet + wire + timing.switch).0);
        if held_up > Span::ZERO {
            seen.spend(Stage::SwitchWait, now, held_up);
        }
    }

    // Acknowledgment.

    pub(super) fn in_transfer(&self, id: Id<Transfer>) -> &Transfer {
        &self.transfers[id]
    }

    /// An acknowledgment packet is at the initiator.
    pub(super) fn acknowledged(
        &mut self,
        now: Time,
        id: Id<Transfer>,
        schedule: &mut impl FnMut(Time, Event),
    ) {
        let Transfer { initiator, start, reception, concluded, .. } = self.transfers[id];
        if concluded {
            return;
        }
        self.observations.latency(Latency::RoundTrip, now, now.since(start));
        self.settle(now, id, reception);
        self.serve(now, initiator, schedule);
    }

    /// The acknowledgment stage of a transfer is over. With ideal signalling its outcome is known
    /// now; otherwise no acknowledgment has come if nothing is known yet.
    pub(super) fn conclude(
        &mut self,
        now: Time,
        id: Id<Transfer>,
        schedule: &mut impl FnMut(Time, Event),
    ) {
        let Transfer { initiator, concluded, reception, .. } = self.transfers[id];
        if !concluded {
            let carried = self.parts.timing.carried.is_some();
            self.settle(now, id, reception.filter(|_| !carried));
        }
        self.hosts[usize::from(initiator)].transfers.retain(|other| *other != id);
        self.transfers.remove(id);
        self.serve(now, initiator, schedule);
    }

    fn settle(&mut self, now: Time, id: Id<Transfer>, reception: Option<Reception>) {
        let outcome = match reception {
            Some(Reception::Accepted) => Ok(()),
            Some(Reception::NoReceiveBuffer) => Err(TransmissionError::NoReceiveBuffer),
            Some(Reception::Corrupted) | None => Err(TransmissionError::NoAcknowledgment),
        };
        let Transfer { initiator, packet, .. } = self.transfers[id];
        self.transfers[id].concluded = true;
        match outcome {
            Ok(()) => self.hosts[usize::from(initiator)].sender.finish(now, &packet, Ok(())),
            Err(error) => self.fail(now, initiator, packet, error),
        }
    }

    /// A transfer failed: its packet and all later ones of the pair go again, unless it is given
    /// up.
    fn fail(
        &mut self,
        now: Time,
        initiator: u16,
        mut packet: BulkPacket,
        error: TransmissionError,
    ) {
        let host = &mut self.hosts[usize::from(initiator)];
        for other in &host.transfers {
            let other = &mut self.transfers[*other];
            let later = other.packet.sequence > packet.sequence;
            if later && !other.concluded && other.packet.target == packet.target {
                other.concluded = true;
                // It had no chance, so the attempt does not count against it.
                let attempts = other.packet.attempts.saturating_sub(1);
                host.sender.again(now, BulkPacket { attempts, ..other.packet });
            }
        }
        let RecoverySettings { attempts, on_error } = self.parts.recovery;
        if attempts.admits(packet.attempts as usize) {
            return host.sender.again(now, packet);
        }
        self.counters.reported_errors += 1;
        match on_error {
            OnError::SendAgain => {
                packet.attempts = 0;
                host.sender.again(now, packet);
            }
            OnError::GiveUp => {
                host.sender.finish(now, &packet, Err(error));
                let target = usize::from(packet.target);
                let arrived = self.hosts[target].expected[usize::from(initiator)];
                if packet.sequence >= arrived {
                    self.observations.abandon(now);
                    self.lose_for_message(now, initiator, &packet);
                }
            }
        }
    }
}
