//! Stations: the ends of links with their FIFOs, at hosts and at the ports of switches.

use weft_fabric::fabric::{Peer, Wiring};
use weft_fabric::interface::{ByteFifo, Forwarding};
use weft_fabric::link::TurnLink;
use weft_kernel::Id;
use weft_protocol::turns::CHANNELS;
use weft_units::Time;

use super::message::Carried;
use super::parts::TurnParts;

/// A packet in a FIFO: which one of which message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Packet {
    pub message: Id<Carried>,
    pub number: u32,
    pub last: bool,
}

/// One end of a link, with its FIFOs.
#[derive(Clone, Debug)]
pub(super) struct Station {
    pub link: u32,
    pub side: usize,
    pub place: Place,
    pub send: [ByteFifo<Packet>; CHANNELS],
    pub receive: [ByteFifo<Packet>; CHANNELS],
}

/// Where a station is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    Host(u16),
    /// A port of a switch, by its number there.
    Port {
        switch: u32,
        number: u32,
    },
}

/// A link, the stations at its ends, and the frame that is on it.
#[derive(Clone, Debug)]
pub(super) struct Cable {
    pub link: TurnLink,
    pub stations: [u32; 2],
    /// When the first symbol of the present frame left, and how many packets it has.
    pub first: Time,
    pub packets: u32,
    pub credits: [u16; CHANNELS],
    /// When each end handed the link over last, unless the link slept since.
    pub released: [Option<Time>; 2],
}

/// The stations of a fabric, those of the hosts first, and its cables, those of the hosts first.
pub(super) fn stations(parts: &TurnParts) -> (Vec<Station>, Vec<Cable>) {
    let wiring = &parts.wiring;
    let hosts = wiring.hosts();
    let cable = |one, other| Cable {
        link: TurnLink::new(parts.link.rules, parts.link.capacity, parts.link.timing),
        stations: [one, other],
        first: Time::ZERO,
        packets: 0,
        credits: [0; CHANNELS],
        released: [None; 2],
    };
    let mut cables: Vec<Cable> =
        (0..wiring.hosts()).map(|host| cable(host, hosts + wiring.host_port(host))).collect();
    for port in 0..wiring.ports() {
        if let Peer::Port(peer) = wiring.peer(port)
            && port < peer
        {
            cables.push(cable(hosts + port, hosts + peer));
        }
    }
    let at = (0..wiring.hosts()).map(|host| Place::Host(host as u16)).chain(ports(wiring));
    let mut stations: Vec<Station> = at.map(|place| station(parts, place)).collect();
    for (number, cable) in (0..).zip(&cables) {
        for (side, &place) in cable.stations.iter().enumerate() {
            let station = &mut stations[place as usize];
            (station.link, station.side) = (number, side);
        }
    }
    (stations, cables)
}

fn ports(wiring: &Wiring) -> impl Iterator<Item = Place> + '_ {
    (0..wiring.ports()).map(|port| {
        let switch = wiring.switch_of(port);
        Place::Port { switch, number: port - wiring.port(switch, 0) }
    })
}

fn station(parts: &TurnParts, place: Place) -> Station {
    let (send, receive) = match place {
        Place::Host(_) => (parts.transfer.forwarding, parts.transfer.forwarding),
        Place::Port { .. } => (Forwarding::Packets, parts.switching.forwarding),
    };
    let fifo = |forwarding| {
        [(); CHANNELS].map(|()| ByteFifo::new(parts.link.capacity, parts.link.packet, forwarding))
    };
    Station { link: u32::MAX, side: 0, place, send: fifo(send), receive: fifo(receive) }
}

impl Station {
    /// How many packets the link may take from each send FIFO.
    pub fn waiting(&self) -> [u16; CHANNELS] {
        [self.send[0].readable(), self.send[1].readable()]
    }
}
