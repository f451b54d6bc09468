//! Where the packets of a host wait for the bulk channel: in plain send buffers, or in the buffers
//! of an interface.

use weft_fabric::adapter::{BulkPacket, BulkSender};
use weft_protocol::adapter::TransmissionError;
use weft_protocol::ring::BufferId;
use weft_units::Time;

use crate::drive::interface::{Bodies, Interface, Letter, Text, Transmitted};

/// The sending side of one host.
#[derive(Debug)]
pub(super) enum Outlet {
    /// Send buffers, fed immediately.
    Buffers(BulkSender),
    /// Send buffers of an interface.
    Interface(Box<InterfaceOutlet>),
}

/// An interface, and what the adapter knows of the packets that it has sent.
#[derive(Debug)]
pub(super) struct InterfaceOutlet {
    pub interface: Interface,
    host: u16,
    /// The next number by target.
    numbers: Vec<u64>,
    sent: Vec<Sent>,
}

/// A packet that has been sent and is not settled.
#[derive(Clone, Copy, Debug)]
struct Sent {
    packet: BulkPacket,
    buffer: BufferId,
    under_way: bool,
}

impl Outlet {
    pub fn through(interface: Interface, host: u16, hosts: usize) -> Outlet {
        let (numbers, sent) = (vec![0; hosts], Vec::new());
        Outlet::Interface(Box::new(InterfaceOutlet { interface, host, numbers, sent }))
    }

    /// Accepts a packet. Returns whether it is allowed; it is not between virtual networks.
    pub fn offer(&mut self, now: Time, target: u16) -> bool {
        match self {
            Outlet::Buffers(sender) => {
                sender.offer(now, target);
                true
            }
            Outlet::Interface(outlet) => outlet.offer(now, target),
        }
    }

    /// Accepts a message with content. Returns whether it is allowed; it is not between virtual
    /// networks, nor without an interface, which alone has endpoints for it.
    pub fn offer_text(&mut self, now: Time, target: u16, text: Text, bodies: &mut Bodies) -> bool {
        match self {
            Outlet::Buffers(_) => false,
            Outlet::Interface(outlet) => outlet.offer_text(now, target, text, bodies),
        }
    }

    pub fn requests(&mut self, now: Time) -> u64 {
        match self {
            Outlet::Buffers(sender) => sender.requests(),
            Outlet::Interface(outlet) => outlet.interface.requests(now),
        }
    }

    pub fn start(&mut self, now: Time, target: u16) -> Option<BulkPacket> {
        match self {
            Outlet::Buffers(sender) => sender.start(now, target),
            Outlet::Interface(outlet) => outlet.start(now, target),
        }
    }

    /// A packet is settled, with this outcome.
    pub fn finish(
        &mut self,
        now: Time,
        packet: &BulkPacket,
        outcome: Result<(), TransmissionError>,
    ) {
        match self {
            Outlet::Buffers(sender) => sender.finish(now, packet),
            Outlet::Interface(outlet) => {
                if let Some(place) = outlet.place(packet) {
                    let Sent { buffer, .. } = outlet.sent.swap_remove(place);
                    outlet.interface.complete(now, buffer, outcome);
                }
            }
        }
    }

    /// A packet must be retransmitted, before all later ones of its pair.
    pub fn again(&mut self, now: Time, packet: BulkPacket) {
        match self {
            Outlet::Buffers(sender) => sender.again(packet),
            Outlet::Interface(outlet) => {
                if let Some(place) = outlet.place(&packet) {
                    let sent = &mut outlet.sent[place];
                    (sent.packet, sent.under_way) = (packet, false);
                    outlet.interface.retry(now, sent.buffer);
                }
            }
        }
    }

    /// Packets that have never been sent.
    pub fn backlog(&self) -> u64 {
        match self {
            Outlet::Buffers(sender) => {
                let fresh = sender.ready().filter(|packet| packet.first.is_none()).count();
                (sender.waiting() + fresh) as u64
            }
            Outlet::Interface(outlet) => {
                (outlet.interface.unsent() - outlet.to_send_again().count()) as u64
            }
        }
    }

    /// How many of the packets that wait for retransmission are `missing` at their targets.
    pub fn to_send_again(&self, missing: impl Fn(&BulkPacket) -> bool) -> u64 {
        let count = match self {
            Outlet::Buffers(sender) => {
                sender.ready().filter(|packet| packet.first.is_some() && missing(packet)).count()
            }
            Outlet::Interface(outlet) => outlet.to_send_again().filter(|p| missing(p)).count(),
        };
        count as u64
    }

    pub fn has_space(&self) -> bool {
        match self {
            Outlet::Buffers(sender) => sender.has_space(),
            Outlet::Interface(outlet) => outlet.interface.has_space(),
        }
    }

    pub fn interface(&self) -> Option<&Interface> {
        match self {
            Outlet::Buffers(_) => None,
            Outlet::Interface(outlet) => Some(&outlet.interface),
        }
    }

    pub fn interface_mut(&mut self) -> Option<&mut Interface> {
        match self {
            Outlet::Buffers(_) => None,
            Outlet::Interface(outlet) => Some(&mut outlet.interface),
        }
    }
}

impl InterfaceOutlet {
    fn offer(&mut self, now: Time, target: u16) -> bool {
        let admitted = self.interface.admits(self.host, target);
        if admitted {
            self.submit(now, target);
        }
        admitted
    }

    fn offer_text(&mut self, now: Time, target: u16, text: Text, bodies: &mut Bodies) -> bool {
        let body = self.interface.compose(self.host, target, text);
        let admitted = body.is_some();
        if let Some(body) = body {
            bodies.post(body);
            self.submit(now, target);
        }
        admitted
    }

    fn submit(&mut self, now: Time, target: u16) {
        let number = &mut self.numbers[usize::from(target)];
        let sequence = *number;
        *number += 1;
        let letter = Letter { from: self.host, to: target, generated: now, sequence };
        self.interface.submit(now, letter);
    }

    fn start(&mut self, now: Time, target: u16) -> Option<BulkPacket> {
        let Transmitted { buffer, letter, fetched: buffered } =
            self.interface.transmit(now, target)?;
        if let Some(known) = self.sent.iter_mut().find(|sent| sent.buffer == buffer) {
            known.under_way = true;
            known.packet.attempts = known.packet.attempts.saturating_add(1);
            return Some(known.packet);
        }
        let packet = BulkPacket {
            target,
            sequence: letter.sequence,
            generated: letter.generated,
            buffered,
            first: Some(now),
            attempts: 1,
        };
        self.sent.push(Sent { packet, buffer, under_way: true });
        Some(packet)
    }

    fn place(&self, packet: &BulkPacket) -> Option<usize> {
        let same = |sent: &Sent| {
            (sent.packet.target, sent.packet.sequence) == (packet.target, packet.sequence)
        };
        self.sent.iter().position(same)
    }

    fn to_send_again(&self) -> impl Iterator<Item = &BulkPacket> {
        self.sent.iter().filter(|sent| !sent.under_way).map(|sent| &sent.packet)
    }
}
