//! Hosts with an interface in front of an event-driven channel.

use weft_fabric::adapter::Past;
use weft_protocol::ring::BufferId;
use weft_units::Time;

use super::{Engine, acts};
use crate::drive::interface::{Interface, InterfaceCounters, Letter};

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

impl Engine {
    /// What the interfaces did, as columns of a run until `until`; none without interfaces.
    pub(in crate::drive::engine) fn interface_columns(
        &self,
        until: Time,
    ) -> Vec<(&'static str, f64)> {
        let mut sum = InterfaceCounters::default();
        let hosts = &self.adapters.hosts;
        let interfaces = hosts.iter().filter_map(|host| host.interface.as_ref());
        let count = interfaces.map(|quick| quick.interface.count(until, &mut sum)).count();
        if count == 0 { Vec::new() } else { sum.columns(hosts.len() as u16, until) }
    }

    /// A program hands a message over to the interface of its host. Returns whether it may pass.
    pub(super) fn submit_letter(&mut self, now: Time, host: u16, target: u16) -> bool {
        let Some(quick) = &mut self.adapters.hosts[usize::from(host)].interface else {
            return false;
        };
        let admitted = quick.interface.admits(host, target);
        if admitted {
            let letter = Letter { from: host, to: target, generated: now, sequence: 0 };
            quick.interface.submit(now, letter);
        }
        admitted
    }

    /// Lets a host and its interface do what is due. What is on the adapter then is in the send
    /// window: the adapter has as many buffers.
    #[inline]
    pub(super) fn serve_interface(&mut self, now: Time, host: u32) {
        if self.adapters.hosts[host as usize].interface.is_some() {
            self.serve_quick(now, host);
        }
    }

    #[inline(never)]
    fn serve_quick(&mut self, now: Time, host: u32) {
        let messages = &mut self.adapters.messages;
        let state = &mut self.adapters.hosts[host as usize];
        let Some(quick) = &mut state.interface else { return };
        let next = quick.interface.serve(now, |Letter { from, to, sequence, .. }| {
            if let Some(messages) = messages {
                // Packets of a pair are numbered modulo 2^32.
                messages.arrive_numbered(now, from, to, sequence as u32);
            }
        });
        let window = &mut state.initiator.window;
        let before = quick.admitted.len();
        while window.has_space() {
            let Some(target) = quick.interface.lowest_request(now) else { break };
            let Some((buffer, letter, fetched)) = quick.interface.transmit(now, target) else {
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
            self.act_later(next, host, (acts::INTERFACE, 0));
        }
    }
}
