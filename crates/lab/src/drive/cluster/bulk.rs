//! The bulk channel: send buffers, schedule, transfers and what becomes of them.

mod messages;
mod offers;
mod report;

use weft_fabric::adapter::{AdapterSettings, BulkPacket, BulkSender};
use weft_fabric::control::{
    Failure, Heard, NodeConfiguration, Pipeline, PipelineTiming, Reception, Recovery,
    RecoverySettings, ScheduledPacket, Settled, Taken, Transfer, Transfers,
};
use weft_fabric::link::{ErrorSettings, Errors, SharedLinks};
use weft_fabric::measure::{Drop, Latency, Observations, Stage};
use weft_fabric::workload::{Feedback, Source};
use weft_kernel::{Id, Streams};
use weft_units::{Bytes, Span, Time};

use super::Event;
use super::outlet::Outlet;
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
    /// The schedule, and what nodes and arbiter say to each other.
    pub pipeline: Pipeline,
    /// The send buffers.
    pub adapter: AdapterSettings,
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

#[derive(Debug)]
struct Host {
    source: Option<Source>,
    sender: Outlet,
    receiver: Receiver,
    errors: Option<Errors>,
}

/// A bulk channel with the state of all its parts.
#[derive(Debug)]
pub struct BulkChannel {
    parts: BulkParts,
    hosts: Vec<Host>,
    transfers: Transfers,
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
        let ports = parts.pipeline.ports();
        let mut sources = sources.into_iter();
        let faulty = !parts.errors.is_free_of_errors();
        let hosts = (0..ports as u16).map(|host| Host {
            source: sources.next(),
            sender: match &parts.interface {
                None => Outlet::Buffers(BulkSender::new(&parts.adapter, ports)),
                Some((settings, buffers)) => {
                    Outlet::through(settings.build(host, ports as u16, *buffers), host, ports)
                }
            },
            receiver: Receiver::new(parts.receiver.as_ref()),
            errors: faulty.then(|| parts.errors.build(streams, &parts.name, host)),
        });
        BulkChannel {
            hosts: hosts.collect(),
            transfers: Transfers::new(parts.recovery, ports),
            messages: None,
            counters: ClusterCounters::default(),
            observations,
            trace: None,
            parts,
        }
    }

    /// When what happens.
    pub fn timing(&self) -> &PipelineTiming {
        self.parts.pipeline.timing()
    }

    pub(super) fn pipeline(&mut self) -> &mut Pipeline {
        &mut self.parts.pipeline
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
    fn configuration(&mut self, now: Time, host: u16) -> NodeConfiguration {
        let BulkParts { disabled, quick_disabled, .. } = &self.parts;
        NodeConfiguration {
            requests: self.hosts[usize::from(host)].sender.requests(now),
            bulk_enable: enable_vector(disabled, now, host),
            quick_enable: enable_vector(quick_disabled, now, host),
        }
    }

    /// The requests of a cycle are sampled: every node says what it asks for, by what `send` is given
    /// unless that is known at once.
    pub(super) fn sample(&mut self, now: Time, cycle: u64, mut send: impl FnMut(ScheduledPacket)) {
        self.parts.pipeline.begin_cycle(cycle);
        for host in 0..self.hosts() {
            let configuration = self.configuration(now, host);
            if let Some(packet) = self.parts.pipeline.configure(host, configuration) {
                send(packet);
            }
        }
    }

    /// What follows from a packet of the signalling, besides what the pipeline knows by it.
    pub(super) fn heard(
        &mut self,
        now: Time,
        heard: &Heard,
        schedule: &mut impl FnMut(Time, Event),
    ) {
        match *heard {
            Heard::Configuration { .. } | Heard::Grant { .. } => {}
            Heard::Acknowledgment(id) => self.acknowledged(now, id, schedule),
            Heard::LostConfiguration => self.counters.lost_configurations += 1,
            Heard::LostGrant => self.counters.lost_grants += 1,
            Heard::LostAcknowledgment => self.counters.lost_acknowledgments += 1,
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
        self.parts.pipeline.begin_slot(cycle);
        for index in 0..self.hosts() {
            match self.parts.pipeline.start(index).filter(|start| *start > now) {
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
        let Some(target) = self.parts.pipeline.take_grant(index) else { return };
        match self.hosts[usize::from(index)].sender.start(now, target) {
            Some(packet) => {
                if let Some(links) = links {
                    links.begin(now, index, target);
                }
                self.parts.pipeline.note_start(now, index);
                self.start_message(now, index, &packet, schedule);
                self.send(now, index, packet, schedule);
                self.serve(now, index, schedule);
            }
            None => self.counters.unused_grants += 1,
        }
    }

    fn send(
        &mut self,
        now: Time,
        initiator: u16,
        packet: BulkPacket,
        schedule: &mut impl FnMut(Time, Event),
    ) {
        let (size, cycle) = (self.parts.packet, self.parts.pipeline.cycle());
        let slot = cycle + 1;
        let errors = &mut self.hosts[usize::from(initiator)].errors;
        let damaged = errors.as_mut().is_some_and(|errors| errors.damages_next(Some(slot), size));
        self.observations.attempt(now);
        let PipelineTiming { packet: span, switch, .. } = *self.timing();
        self.observations.occupy(packet.target.into(), now, span);
        self.observations.occupy(self.hosts.len() + usize::from(initiator), now, span);
        if packet.first == Some(now) {
            self.observations.latency(Latency::FirstAttempt, now, now.since(packet.generated));
        }
        let wire = self.parts.pipeline.wire(initiator, packet.target);
        let until = now + span + wire + switch;
        let id = self.transfers.begin((now, cycle), initiator, packet, damaged);
        schedule(until, Event::Arrive(id));
        schedule(self.timing().outcome(now), Event::Conclude(id));
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
        let Transfer { initiator, start, .. } = *self.transfers.get(id);
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
        let target = self.transfers.get(id).packet.target;
        let taken = self.receive(now, id);
        self.serve(now, target, schedule);
        if taken == Taken::New {
            self.tell_source(now, id, schedule);
        }
        self.transfers.get(id).reception.is_some_and(|seen| seen.acknowledgment().is_some())
    }

    /// A source that answers learns of a packet.
    fn tell_source(&mut self, now: Time, id: Id<Transfer>, schedule: &mut impl FnMut(Time, Event)) {
        let Transfer { initiator, packet, .. } = *self.transfers.get(id);
        let host = &mut self.hosts[usize::from(packet.target)];
        if let Some(source) = &mut host.source
            && source.feedback() == Feedback::Delivered
        {
            source.delivered(now, initiator.into());
            Self::schedule_source(packet.target, host, schedule);
        }
    }

    fn receive(&mut self, now: Time, id: Id<Transfer>) -> Taken {
        let hosts = &mut self.hosts;
        let taken = self.transfers.arrive(id, |Transfer { initiator, packet, .. }| {
            let host = &mut hosts[usize::from(packet.target)];
            let Some(interface) = host.sender.interface_mut() else {
                return host.receiver.take(now);
            };
            let BulkPacket { target: to, sequence, generated, .. } = *packet;
            interface.arrive(now, Letter { from: *initiator, to, generated, sequence })
        });
        let Transfer { initiator, packet, start, .. } = *self.transfers.get(id);
        match taken {
            Taken::New => {
                let wire = self.parts.pipeline.wire(initiator, packet.target);
                self.record_success(now, &packet, start, wire);
                self.observations.deliver_from(initiator.into(), now, self.parts.payload);
                self.arrive_for_message(now, initiator, packet.target);
            }
            Taken::Duplicate => self.counters.duplicates += 1,
            Taken::OutOfOrder => self.observations.drop(Drop::OutOfOrder, now),
            Taken::Refused => self.observations.drop(Drop::NoReceiveBuffer, now),
            Taken::Damaged => self.observations.drop(Drop::Corrupted, now),
        }
        taken
    }

    /// A packet is taken whose transmission started at `start`.
    fn record_success(&mut self, now: Time, packet: &BulkPacket, start: Time, wire: Span) {
        let BulkPacket { generated, buffered, first, .. } = *packet;
        let seen = &mut self.observations;
        seen.latency(Latency::Queueing, now, start.since(generated));
        seen.latency(Latency::Transit, now, now.since(start));
        seen.latency(Latency::OneWay, now, now.since(generated));
        let BulkParts { pipeline, interface, .. } = &self.parts;
        let timing = pipeline.timing();
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

    /// A transfer whose acknowledgment stage is not over.
    pub(super) fn transfer_of(&self, id: Id<Transfer>) -> &Transfer {
        self.transfers.get(id)
    }

    /// The packet by which the target of a transfer answers, if it does.
    pub(super) fn acknowledgment(&mut self, id: Id<Transfer>) -> Option<ScheduledPacket> {
        self.parts.pipeline.acknowledge(id, self.transfers.get(id))
    }

    /// An acknowledgment packet is at the initiator.
    fn acknowledged(
        &mut self,
        now: Time,
        id: Id<Transfer>,
        schedule: &mut impl FnMut(Time, Event),
    ) {
        let Transfer { initiator, start, reception, .. } = *self.transfers.get(id);
        if self.settle(now, id, reception) {
            self.observations.latency(Latency::RoundTrip, now, now.since(start));
            self.serve(now, initiator, schedule);
        }
    }

    /// The acknowledgment stage of a transfer is over. With ideal signalling its outcome is known
    /// now; otherwise no acknowledgment has come if nothing is known yet.
    pub(super) fn conclude(
        &mut self,
        now: Time,
        id: Id<Transfer>,
        schedule: &mut impl FnMut(Time, Event),
    ) {
        let Transfer { initiator, reception, .. } = *self.transfers.get(id);
        let is_carried = self.parts.pipeline.is_carried();
        self.settle(now, id, reception.filter(|_| !is_carried));
        self.transfers.end(id);
        self.serve(now, initiator, schedule);
    }

    /// The outcome of a transfer is known. Returns whether it made a difference.
    fn settle(&mut self, now: Time, id: Id<Transfer>, answer: Option<Reception>) -> bool {
        let initiator = self.transfers.get(id).initiator;
        let settled = self.transfers.settle(id, answer);
        let sender = &mut self.hosts[usize::from(initiator)].sender;
        match &settled {
            None => {}
            Some(Settled::Delivered(packet)) => sender.finish(now, packet, Ok(())),
            Some(Settled::Failed(failure)) => self.fail(now, initiator, failure),
        }
        settled.is_some()
    }

    /// A transfer failed: its packet and all later ones of the pair go again, unless it is given
    /// up.
    fn fail(&mut self, now: Time, initiator: u16, failure: &Failure) {
        let Failure { error, voided, packet, recovery } = failure;
        let sender = &mut self.hosts[usize::from(initiator)].sender;
        voided.iter().for_each(|later| sender.again(now, *later));
        self.counters.reported_errors += u64::from(*recovery != Recovery::Retry);
        if *recovery != Recovery::GiveUp {
            return sender.again(now, *packet);
        }
        sender.finish(now, packet, Err(*error));
        if self.transfers.is_missing(initiator.into(), packet) {
            self.observations.abandon(now);
            self.lose_for_message(now, initiator, packet);
        }
    }
}
