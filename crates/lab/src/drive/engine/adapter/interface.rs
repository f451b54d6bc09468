//! Hosts with an interface in front of an event-driven channel.

use weft_fabric::adapter::Past;
use weft_fabric::measure::Drop;
use weft_protocol::ring::BufferId;
use weft_units::Time;

use super::{Engine, acts};
use crate::drive::interface::{
    HandlerReport, Interface, InterfaceCounters, Letter, Text, Transmitted,
};

/// An interface, and which of its buffers the packets in the send window are in.
#[derive(Debug)]
pub(super) struct QuickInterface {
    pub interface: Interface,
    admitted: Vec<Admitted>,
}

#[derive(Clone, Copy, Debug)]
struct Admitted {
    target: u16,
    sequence: u32,
    buffer: BufferId,
}

impl QuickInterface {
    pub fn new(interface: Interface) -> QuickInterface {
        QuickInterface { interface, admitted: Vec::new() }
    }

    /// The adapter knows that a packet has arrived.
    pub fn acknowledged(&mut self, now: Time, target: u16, sequence: u32) {
        let same = |packet: &Admitted| (packet.target, packet.sequence) == (target, sequence);
        if let Some(place) = self.admitted.iter().position(same) {
            let buffer = self.admitted.swap_remove(place).buffer;
            self.interface.complete(now, buffer, Ok(()));
        }
    }
}

/// A message that its adapter has not numbered.
fn unnumbered(now: Time, from: u16, to: u16) -> Letter {
    Letter { from, to, generated: now, sequence: 0 }
}

impl Engine {
    /// What a schedule and the interfaces counted, as columns of a run until `until`; none without
    /// either.
    pub(in crate::drive::engine) fn adapter_columns(
        &self,
        until: Time,
    ) -> Vec<(&'static str, f64)> {
        let own = self.adapters.pipelined.as_ref();
        let mut columns = own.map_or(Vec::new(), |own| own.columns());
        let mut sum = InterfaceCounters::default();
        let count = self.interfaces().map(|(_, own)| own.count(until, &mut sum)).count();
        if count > 0 {
            columns.extend(sum.columns(self.adapters.hosts.len() as u16, until));
        }
        columns
    }

    /// The interface of each host that has one.
    fn interfaces(&self) -> impl Iterator<Item = (u16, &Interface)> {
        let hosts = (0..).zip(&self.adapters.hosts);
        let quick =
            hosts.filter_map(|(host, own)| Some((host, &own.interface.as_ref()?.interface)));
        quick.chain(self.adapters.pipelined.iter().flat_map(|own| own.interfaces()))
    }

    /// What the handlers did that messages call, if they call any.
    pub(in crate::drive::engine) fn report_handlers(&self) -> Option<HandlerReport> {
        let bodies = self.adapters.bodies.as_ref()?;
        let endpoints = self.interfaces().flat_map(|(host, own)| own.report_endpoints(host));
        Some(bodies.report(endpoints.collect()))
    }

    /// A program, or a list, submits a message to the interface of its host. Returns whether it is
    /// allowed.
    pub(super) fn submit_letter(&mut self, now: Time, host: u16, target: u16) -> bool {
        if let Some(bodies) = &mut self.adapters.bodies {
            let text = bodies.next_listed(host);
            return self.submit_text(now, host, target, text);
        }
        let Some(quick) = &mut self.adapters.hosts[usize::from(host)].interface else {
            return false;
        };
        let admitted = quick.interface.admits(host, target);
        if admitted {
            quick.interface.submit(now, unnumbered(now, host, target));
        }
        admitted
    }

    /// Submits a message with content. Returns whether it is allowed.
    fn submit_text(&mut self, now: Time, host: u16, target: u16, text: Text) -> bool {
        let super::Adapters { hosts, bodies: Some(bodies), .. } = &mut self.adapters else {
            return false;
        };
        let Some(quick) = &mut hosts[usize::from(host)].interface else { return false };
        let body = quick.interface.compose(host, target, text);
        let admitted = body.is_some();
        if let Some(body) = body {
            bodies.post(body);
            quick.interface.submit(now, unnumbered(now, host, target));
        }
        admitted
    }

    /// Submits the responses of a host's handlers. Returns whether there were any.
    fn send_answers(&mut self, now: Time, host: u16) -> bool {
        let Some(quick) = &mut self.adapters.hosts[usize::from(host)].interface else {
            return false;
        };
        let answers = quick.interface.take_answers();
        let any = !answers.is_empty();
        for (target, text) in answers {
            self.observations.generate_from(usize::from(host), now);
            if !self.submit_text(now, host, target, text) {
                self.refuse_letter(now, host);
            }
        }
        any
    }

    /// Messages that are not allowed are dropped.
    pub(super) fn refuse_letter(&mut self, now: Time, host: u16) {
        self.observations.drop(Drop::Protected, now);
        self.observations.abandon_from(usize::from(host), now);
    }

    /// Lets a host and its interface do what is due. What is on the adapter then is in the send
    /// window: the adapter has as many buffers.
    #[inline]
    pub(super) fn serve_interface(&mut self, now: Time, host: u32) {
        if self.adapters.hosts[host as usize].interface.is_some() {
            self.serve_quick(now, host);
        }
    }

    /// Lets a host and its interface do what is due. Returns when to be called again, unless that is
    /// known already.
    fn serve_host(&mut self, now: Time, host: u32) -> Option<Time> {
        let super::Adapters { hosts, messages, bodies, .. } = &mut self.adapters;
        let quick = hosts[host as usize].interface.as_mut()?;
        quick.interface.serve(
            now,
            bodies.as_deref_mut(),
            |Letter { from, to, sequence, .. }| {
                if let Some(messages) = messages {
                    // Packets of a pair are numbered modulo 2^32.
                    messages.arrive_numbered(now, from, to, sequence as u32);
                }
            },
        )
    }

    #[inline(never)]
    fn serve_quick(&mut self, now: Time, host: u32) {
        let mut next = self.serve_host(now, host);
        while self.adapters.bodies.is_some() && self.send_answers(now, host as u16) {
            // If the call must be earlier than announced, it announces the earlier time.
            next = self.serve_host(now, host).or(next);
        }
        let state = &mut self.adapters.hosts[host as usize];
        let Some(quick) = &mut state.interface else { return };
        let window = &mut state.initiator.window;
        let before = quick.admitted.len();
        while window.has_space() {
            let Some(target) = quick.interface.lowest_request(now) else { break };
            let Some(Transmitted { buffer, letter, fetched }) =
                quick.interface.transmit(now, target)
            else {
                break;
            };
            let sequence = window.numbered(target);
            let past = Past { generated: letter.generated, buffered: fetched, first: now };
            window.admit(target, past);
            quick.admitted.push(Admitted { target, sequence, buffer });
        }
        if quick.admitted.len() > before {
            self.schedule(now, self.places.wakes + self.graph.host_port(host), 0);
        }
        if let Some(next) = next {
            self.act_later(next, host, acts::INTERFACE, 0);
        }
    }
}
