//! Transfers from their start to their outcome.

use weft_fabric::adapter::BulkPacket;
use weft_fabric::control::{
    Failure, PipelineTiming, Reception, Recovery, Settled, Taken, Transfer,
};
use weft_fabric::measure::{Drop, Latency, Passage, Stage};
use weft_fabric::workload::Feedback;
use weft_kernel::Id;
use weft_units::{Span, Time};

use super::super::host::Flight;
use super::super::{Adapters, Engine, acts};
use super::Pipelined;
use crate::drive::interface::Letter;
use crate::drive::trace::TraceEntry;

impl Pipelined {
    /// The transfer of a packet that is in flight or has arrived.
    fn of_packet(&self, number: u32) -> Option<Id<Transfer>> {
        self.of_packet.get(number as usize).copied().flatten()
    }

    fn note_packet(&mut self, number: u32, id: Id<Transfer>) {
        let place = number as usize;
        if place >= self.of_packet.len() {
            self.of_packet.resize(place + 1, None);
        }
        self.of_packet[place] = Some(id);
    }
}

impl Engine {
    /// An initiator sends if it has a grant.
    pub(super) fn start_transfer(&mut self, now: Time, host: u32) {
        let Some(own) = &mut self.adapters.pipelined else { return };
        let Some(target) = own.pipeline.take_grant(host as u16) else { return };
        let Some(packet) = own.outlets[host as usize].start(now, target) else {
            own.counters.unused_grants += 1;
            return;
        };
        own.pipeline.note_start(now, host as u16);
        if let Some(links) = self.shared_links_mut() {
            links.begin(now, host as u16, target);
        }
        self.start_message_in_slot(now, host, &packet);
        self.send_in_slot(now, host, packet);
        self.serve_outlet(now, host);
    }

    fn send_in_slot(&mut self, now: Time, host: u32, packet: BulkPacket) {
        let size = self.adapters.packet;
        let Adapters { pipelined: Some(own), hosts, .. } = &mut self.adapters else { return };
        let cycle = own.pipeline.cycle();
        let PipelineTiming { packet: span, switch, .. } = *own.pipeline.timing();
        let outcome = own.pipeline.timing().outcome(now);
        let wire = own.pipeline.wire(host as u16, packet.target);
        let errors = &mut hosts[host as usize].errors;
        let damaged =
            errors.as_mut().is_some_and(|errors| errors.damages_next(Some(cycle + 1), size));
        let id = own.transfers.begin(now, cycle, host as u16, packet, damaged);
        self.observations.attempt(now);
        if packet.first == Some(now) {
            self.observations.latency(Latency::FirstAttempt, now, now.since(packet.generated));
        }
        let flight = Flight { span, ..Flight::new(host as u16, packet.target, now) };
        let number = self.insert_flight(flight);
        if let Some(own) = &mut self.adapters.pipelined {
            own.note_packet(number, id);
        }
        self.act_later(outcome, host, acts::CONCLUDE, number);
        if let Some(trace) = &mut self.adapters.trace {
            trace.push(TraceEntry {
                time: now,
                until: now + span + wire + switch,
                kind: "breq",
                sequence: packet.sequence,
                initiator: Some(host),
                target: Some(packet.target.into()),
                slot: Some(cycle + 1),
                content: String::new(),
            });
        }
        self.depart(now, number);
    }

    /// The last byte of a packet is at its target, unless others went before it on links that are shared:
    /// what has passed the switch by then is known now.
    pub(in super::super) fn take_transfer_in(&mut self, now: Time, number: u32) {
        let Some(own) = &self.adapters.pipelined else { return };
        let Some(id) = own.of_packet(number) else { return };
        let Flight { from, to: target, start, .. } = self.adapters.flights[number as usize];
        let carried = own.pipeline.timing().carried;
        if let (Some(links), Some(carried)) = (self.shared_links(), carried) {
            let end = links.passed(target) + carried.latency + carried.propagation;
            if end > now {
                self.schedule(end, self.places.hosts + u32::from(target), number);
                return self.prolong_in_trace(start, from, end);
            }
        }
        let taken = self.receive_transfer(now, id);
        self.serve_outlet(now, target.into());
        if taken == Taken::New
            && self.adapters.hosts[usize::from(target)].feedback == Feedback::Delivered
        {
            self.tell_source(target.into(), |source| source.delivered(now, from.into()));
        }
        let Some((own, carried)) = self.adapters.pipelined.as_ref().zip(carried) else { return };
        let reception = own.transfers.get(id).reception;
        if reception.is_some_and(|seen| seen.acknowledgment().is_some()) {
            let ready = now + carried.turn_around;
            self.act_later(ready, target.into(), acts::ACKNOWLEDGE, number);
        }
    }

    fn prolong_in_trace(&mut self, start: Time, from: u16, end: Time) {
        let is_it =
            |entry: &&mut TraceEntry| entry.time == start && entry.initiator == Some(from.into());
        let mut entries = self.adapters.trace.iter_mut().flatten().rev();
        if let Some(entry) = entries.find(is_it) {
            entry.until = end;
        }
    }

    fn receive_transfer(&mut self, now: Time, id: Id<Transfer>) -> Taken {
        let Adapters { pipelined: Some(own), hosts, .. } = &mut self.adapters else {
            return Taken::OutOfOrder;
        };
        let Pipelined { transfers, outlets, counters, .. } = &mut **own;
        let taken = transfers.arrive(id, |Transfer { initiator, packet, .. }| {
            let BulkPacket { target: to, sequence, generated, .. } = *packet;
            let Some(interface) = outlets[usize::from(to)].interface_mut() else {
                return hosts[usize::from(to)].receiver.take(now);
            };
            interface.arrive(now, Letter { from: *initiator, to, generated, sequence })
        });
        let Transfer { initiator, packet, start, .. } = *transfers.get(id);
        match taken {
            Taken::New => {
                self.record_transfer(now, initiator, &packet, start);
                self.observations.deliver_from(initiator.into(), now, self.payload);
                self.arrive_from_slot(now, initiator, packet.target);
            }
            Taken::Duplicate => counters.duplicates += 1,
            Taken::OutOfOrder => self.observations.drop(Drop::OutOfOrder, now),
            Taken::Refused => self.observations.drop(Drop::NoReceiveBuffer, now),
            Taken::Damaged => self.observations.drop(Drop::Corrupted, now),
        }
        taken
    }

    /// A packet is taken whose transmission started at `start`.
    fn record_transfer(&mut self, now: Time, initiator: u16, packet: &BulkPacket, start: Time) {
        let Some(own) = &self.adapters.pipelined else { return };
        let BulkPacket { target, generated, buffered, first, .. } = *packet;
        let PipelineTiming { packet: span, switch, .. } = *own.pipeline.timing();
        let wire = own.pipeline.wire(initiator, target);
        let has_interface = own.outlets[usize::from(initiator)].interface().is_some();
        let host = if has_interface { Stage::InitiatorHost } else { Stage::BufferWait };
        let first = first.unwrap_or(start);
        let seen = &mut self.observations;
        seen.latency(Latency::Queueing, now, start.since(generated));
        seen.latency(Latency::Transit, now, now.since(start));
        seen.latency(Latency::OneWay, now, now.since(generated));
        for (stage, spent) in [
            (host, buffered.since(generated)),
            (Stage::SlotWait, first.since(buffered)),
            (Stage::Retry, start.since(first)),
            (Stage::Transmission, span),
            (Stage::Wire, wire),
            (Stage::Switch, switch),
        ] {
            seen.spend(stage, now, spent);
        }
        let held_up = Span(now.since(start).0 - (span + wire + switch).0);
        if held_up > Span::ZERO {
            seen.spend(Stage::SwitchWait, now, held_up);
        }
        seen.pass(Passage { from: initiator.into(), to: target.into(), start, end: now });
    }

    // Outcomes.

    /// The target of a transfer answers by a packet, if it does not stay silent.
    pub(in super::super) fn answer_transfer(&mut self, number: u32) {
        let Some(own) = &mut self.adapters.pipelined else { return };
        if let Some(id) = own.of_packet(number) {
            own.signals.extend(own.pipeline.acknowledge(id, own.transfers.get(id)));
        }
    }

    /// The packet by which a target answers is at the initiator.
    pub(super) fn transfer_acknowledged(&mut self, now: Time, id: Id<Transfer>) {
        let Some(own) = &self.adapters.pipelined else { return };
        let Transfer { initiator, start, reception, .. } = *own.transfers.get(id);
        if self.settle_transfer(now, id, reception) {
            self.observations.latency(Latency::RoundTrip, now, now.since(start));
            self.serve_outlet(now, initiator.into());
        }
    }

    /// The acknowledgment stage of a transfer is over. With ideal signalling its outcome is known
    /// now; otherwise no acknowledgment has arrived if nothing is known yet.
    pub(in super::super) fn conclude_transfer(&mut self, now: Time, host: u32, number: u32) {
        let Some(own) = &mut self.adapters.pipelined else { return };
        let Some(id) = own.of_packet(number) else { return };
        own.of_packet[number as usize] = None;
        let is_carried = own.pipeline.is_carried();
        let reception = own.transfers.get(id).reception.filter(|_| !is_carried);
        self.settle_transfer(now, id, reception);
        if let Some(own) = &mut self.adapters.pipelined {
            own.transfers.end(id);
        }
        self.packets.remove(number);
        self.serve_outlet(now, host);
    }

    /// The outcome of a transfer is known. Returns whether it made a difference.
    fn settle_transfer(&mut self, now: Time, id: Id<Transfer>, answer: Option<Reception>) -> bool {
        let Some(own) = &mut self.adapters.pipelined else { return false };
        let initiator = own.transfers.get(id).initiator;
        match own.transfers.settle(id, answer) {
            None => return false,
            Some(Settled::Delivered(packet)) => {
                own.outlets[usize::from(initiator)].finish(now, &packet, Ok(()));
            }
            Some(Settled::Failed(failure)) => self.fail_transfer(now, initiator, &failure),
        }
        true
    }

    /// A transfer failed: its packet and all later ones of the pair go again, unless it is given
    /// up.
    fn fail_transfer(&mut self, now: Time, initiator: u16, failure: &Failure) {
        let Failure { error, voided, packet, recovery } = failure;
        let Some(own) = &mut self.adapters.pipelined else { return };
        let outlet = &mut own.outlets[usize::from(initiator)];
        voided.iter().for_each(|later| outlet.again(now, *later));
        own.counters.reported_errors += u64::from(*recovery != Recovery::Retry);
        if *recovery != Recovery::GiveUp {
            return outlet.again(now, *packet);
        }
        outlet.finish(now, packet, Err(*error));
        if own.transfers.is_missing(initiator.into(), packet) {
            self.observations.abandon_from(initiator.into(), now);
            self.lose_from_slot(now, initiator, packet);
        }
    }
}
