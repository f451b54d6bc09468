//! Hosts with an interface in front of an event-driven channel.

use weft_protocol::ring::BufferId;
use weft_units::Time;

use super::host::Past;
use super::{Event, EventChannel, Happening};
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

impl EventChannel {
    /// What the interfaces did, as columns of a run until `until`; none without interfaces.
    pub fn interface_columns(&self, until: Time) -> Vec<(&'static str, f64)> {
        let mut sum = InterfaceCounters::default();
        let interfaces = self.hosts.iter().filter_map(|host| host.interface.as_ref());
        let count = interfaces.map(|quick| quick.interface.count(&mut sum)).count();
        if count == 0 { Vec::new() } else { sum.columns(self.parts.ports, until) }
    }

    /// A program hands a message over to the interface of its host. Returns whether it may pass.
    pub(super) fn submit(&mut self, now: Time, host: u16, target: u16) -> bool {
        let Some(quick) = &mut self.hosts[usize::from(host)].interface else { return false };
        let admitted = quick.interface.admits(host, target);
        if admitted {
            let letter = Letter { from: host, to: target, generated: now, sequence: 0 };
            quick.interface.submit(now, letter);
        }
        admitted
    }

    /// Lets a host and its interface do what is due. What is on the adapter then is in the send
    /// window: the adapter has as many buffers.
    pub(super) fn serve(&mut self, now: Time, host: u16, schedule: &mut impl FnMut(Time, Event)) {
        let state = &mut self.hosts[usize::from(host)];
        let Some(quick) = &mut state.interface else { return };
        let next = quick.interface.serve(now);
        let before = quick.admitted.len();
        loop {
            let requests = quick.interface.requests(now);
            if requests == 0 || !state.window.has_space() {
                break;
            }
            let target = requests.trailing_zeros() as u16;
            let Some((buffer, letter, fetched)) = quick.interface.transmit(now, target) else {
                break;
            };
            let sequence = state.window.numbered(target);
            let past = Past { generated: letter.generated, buffered: fetched, first: now };
            state.window.admit(target, past);
            quick.admitted.push(Admitted { target, sequence, buffer });
        }
        if quick.admitted.len() > before {
            schedule(now, Event(Happening::Transmit(host)));
        }
        if let Some(next) = next {
            schedule(next, Event(Happening::Interface(host)));
        }
    }
}
