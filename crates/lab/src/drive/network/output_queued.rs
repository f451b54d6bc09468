//! Switches with unlimited queues at their outputs: a packet is in the queue of its output as soon
//! as it is there, so that the time at which it leaves is known when it comes.

use weft_fabric::fabric::{Heading, Peer, Routes};
use weft_fabric::measure::Observations;
use weft_kernel::{Halt, Id, Stopped};
use weft_units::{Span, Time};

use super::ends::{Delivery, Ends, Handed, NetworkParts};
use super::skeleton::{Agenda, Network};
use crate::drive::Channel;
use crate::drive::carrier::MessageId;

type Packet = super::ends::Packet<()>;

/// A channel of output-queued switches: an event for each packet and switch.
#[derive(Debug)]
pub struct OutputQueuedNetwork {
    ends: Ends<()>,
    routes: Routes,
    adapters: Vec<Adapter>,
    /// The first output of each switch.
    first: Vec<u32>,
    outputs: Vec<Output>,
    packet: Span,
    propagation: Span,
    latency: Span,
    agenda: Agenda<Event>,
}

/// The link from a host.
#[derive(Clone, Copy, Debug)]
struct Adapter {
    /// When the last byte of what has been handed over so far is sent.
    free: Time,
    /// The switch at the other end of the cable.
    home: u32,
}

/// An output of a switch.
#[derive(Clone, Copy, Debug)]
struct Output {
    /// When the last byte of what has come so far leaves.
    free: Time,
    /// The switch at the other end of the cable; [`HOST`] for a host.
    next: u32,
}

const HOST: u32 = u32::MAX;

#[derive(Clone, Copy, Debug)]
pub(super) enum Event {
    /// The source of a host hands over a packet.
    Generate(u16),
    /// The first byte of a packet is at a switch: the fields of a [`Hop`], laid out so that the
    /// kind of event fits beside them.
    Reach { id: Id<Packet>, heading: Heading, switch: u32, to: u16, hops: u8 },
    /// The last byte of a packet, which passed so many switches, is at its target.
    Deliver(Id<Packet>, u8),
    /// The last byte of a message has left its initiator.
    Sent(MessageId),
}

/// A packet at a switch. It has with it what the switch must know, so that no packet is looked up
/// on its way.
#[derive(Clone, Copy, Debug)]
struct Hop {
    id: Id<Packet>,
    heading: Heading,
    switch: u32,
    to: u16,
    /// How many switches it passed before.
    hops: u8,
}

impl From<Hop> for Event {
    #[inline]
    fn from(Hop { id, heading, switch, to, hops }: Hop) -> Event {
        Event::Reach { id, heading, switch, to, hops }
    }
}

const _: () = assert!(size_of::<Event>() <= 16, "an event is copied at every step");

impl Network for OutputQueuedNetwork {
    type Event = Event;
    type Note = ();

    fn agenda(&self) -> &Agenda<Event> {
        &self.agenda
    }

    #[inline]
    fn agenda_mut(&mut self) -> &mut Agenda<Event> {
        &mut self.agenda
    }

    fn ends(&self) -> &Ends<()> {
        &self.ends
    }

    fn ends_mut(&mut self) -> &mut Ends<()> {
        &mut self.ends
    }

    fn generate_at(host: u16) -> Event {
        Event::Generate(host)
    }

    #[inline]
    fn happen(&mut self, now: Time, event: Event) -> Option<Delivery> {
        match event {
            Event::Generate(host) => self.generate(now, host),
            Event::Reach { id, heading, switch, to, hops } => {
                self.reach(now, Hop { id, heading, switch, to, hops });
            }
            Event::Deliver(id, hops) => return Some(self.deliver(now, id, hops)),
            Event::Sent(message) => self.sent(now, message),
        }
        None
    }
}

impl Channel for OutputQueuedNetwork {
    fn run(&mut self, until: Time, halt: &Halt) -> Option<Stopped> {
        self.work_off(until, halt, |_| {})
    }

    fn backlog(&self) -> u64 {
        self.started_later() + self.ends.unfed()
    }

    fn in_flight(&self) -> u64 {
        self.ends.packets.len() as u64 - self.started_later()
    }

    fn observations_mut(&mut self) -> Option<&mut Observations> {
        Some(&mut self.ends.observations)
    }

    fn into_observations(self) -> Observations {
        let waiting = self.started_later();
        let mut observations = self.ends.observations;
        // They were counted when their start was known, which lies beyond the end.
        observations.attempts = observations.attempts.saturating_sub(waiting);
        observations
    }
}

impl OutputQueuedNetwork {
    /// A channel at time zero.
    pub fn new(parts: NetworkParts) -> OutputQueuedNetwork {
        let NetworkParts { packet, propagation, latency, .. } = parts;
        let (mut ends, wiring, routes) = Ends::new(parts);
        ends.watch_links(&wiring);
        let output = |port| Output {
            free: Time::ZERO,
            next: match wiring.peer(port) {
                Peer::Port(peer) => wiring.switch_of(peer),
                Peer::Host(_) | Peer::Unused => HOST,
            },
        };
        let adapter =
            |host| Adapter { free: Time::ZERO, home: wiring.switch_of(wiring.host_port(host)) };
        let mut network = OutputQueuedNetwork {
            adapters: (0..wiring.hosts()).map(adapter).collect(),
            first: (0..wiring.switches()).map(|switch| wiring.port(switch, 0)).collect(),
            outputs: (0..wiring.ports()).map(output).collect(),
            ends,
            routes,
            packet,
            propagation,
            latency,
            agenda: Agenda::new(),
        };
        for (host, time) in network.ends.begin() {
            network.agenda.push(time, Event::Generate(host));
        }
        network
    }

    /// [`Channel::run`], showing every delivery to `watch`.
    pub fn run_watched(
        &mut self,
        until: Time,
        halt: &Halt,
        watch: impl FnMut(Delivery),
    ) -> Option<Stopped> {
        self.work_off(until, halt, watch)
    }

    /// Packets whose start is known and has not come. Each link sends one after another, so that
    /// they follow from when it will be free.
    fn started_later(&self) -> u64 {
        let after = |adapter: &Adapter| adapter.free.since(self.agenda.now()).0.saturating_sub(1);
        self.adapters.iter().map(|adapter| after(adapter) / self.packet.0).sum()
    }

    #[inline]
    fn generate(&mut self, now: Time, host: u16) {
        let Handed { to, generated, message, next, .. } = self.ends.hand_over(now, host);
        let adapter = &mut self.adapters[usize::from(host)];
        let (start, switch) = (now.max(adapter.free), adapter.home);
        adapter.free = start + self.packet;
        self.ends.observations.attempt(start);
        let link = self.outputs.len() + usize::from(host);
        self.ends.observations.occupy(link, start, self.packet);
        // The buffer of a greedy source is free when the transmission starts.
        let again = if self.ends.has_another(host) { start } else { next };
        if again < Time::NEVER {
            self.agenda.push(again, Event::Generate(host));
        }
        if message != MessageId::NONE
            && let Some((feed, _)) = self.ends.messages()
            && feed.messages.start(message)
        {
            self.agenda.push(start + self.packet, Event::Sent(message));
        }
        let packet = Packet { generated, start, from: host, to, message, note: () };
        let id = self.ends.packets.insert(packet);
        let heading = self.routes.depart(host, to);
        let hop = Hop { id, heading, switch, to, hops: 0 };
        self.agenda.push(start + self.propagation, hop.into());
    }

    #[inline]
    fn reach(&mut self, now: Time, mut hop: Hop) {
        let first = self.first[hop.switch as usize];
        let outputs = &self.outputs;
        let free_at = |port| outputs[(first + port) as usize].free.0;
        let place = (hop.switch, hop.hops);
        let port = self.routes.port(place, hop.to, &mut hop.heading, free_at);
        let output = &mut self.outputs[(first + port) as usize];
        let start = output.free.max(now + self.latency);
        output.free = start + self.packet;
        self.ends.observations.occupy((first + port) as usize, start, self.packet);
        let next = start + self.propagation;
        hop.hops += 1;
        if output.next == HOST {
            self.agenda.push(next + self.packet, Event::Deliver(hop.id, hop.hops));
        } else {
            hop.switch = output.next;
            self.agenda.push(next, hop.into());
        }
    }

    #[inline]
    fn deliver(&mut self, now: Time, id: Id<Packet>, hops: u8) -> Delivery {
        let (delivery, answer) = self.ends.deliver(now, id, hops);
        if let Some(time) = answer {
            self.agenda.push(time, Event::Generate(delivery.to));
        }
        delivery
    }
}
