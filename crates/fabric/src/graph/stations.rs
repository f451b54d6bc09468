//! Stations: the ends of links with turns with their FIFOs, at hosts and at the ports of switches, and
//! the links between them (Maestro 3.2).
//!
//! Those of the hosts are the first, and the ports of all switches follow, one switch behind the
//! other; links are in the same order, each at the first of its ports. Each has the rate and the
//! length of its own cable.

use weft_protocol::turns::{CHANNELS, Rules};
use weft_units::{Bytes, Time};

use crate::fabric::{Peer, Wiring};
use crate::interface::{ByteFifo, Forwarding};
use crate::link::{TurnLink, TurnTiming};

/// A packet in a FIFO: which one of which message, which `M` names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StationPacket<M> {
    /// The message.
    pub message: M,
    /// Which of its packets, from 0 on.
    pub number: u32,
    /// Whether it is the last one.
    pub last: bool,
}

/// One end of a link, with its FIFOs.
#[derive(Clone, Debug)]
pub struct Station<M> {
    /// The link.
    pub link: u32,
    /// Which end of it, 0 or 1.
    pub side: usize,
    /// Where it is.
    pub place: StationPlace,
    /// What is to be sent, by channel.
    pub send: [ByteFifo<StationPacket<M>>; CHANNELS],
    /// What has come, by channel.
    pub receive: [ByteFifo<StationPacket<M>>; CHANNELS],
}

/// Where a station is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StationPlace {
    /// At a host.
    Host(u16),
    /// At a port of a switch.
    Port {
        /// The switch.
        switch: u32,
        /// The port, by its number there.
        number: u32,
    },
}

/// A link, the stations at its ends, and the frame that is on it.
#[derive(Clone, Debug)]
pub struct TurnCable {
    /// The link.
    pub link: TurnLink,
    /// The stations at its ends; end 0 has the first turn.
    pub stations: [u32; 2],
    /// When the first symbol of the present frame left.
    pub first: Time,
    /// How many packets that frame has.
    pub packets: u32,
    /// What its preamble says that there is room for.
    pub credits: [u16; CHANNELS],
    /// When each end handed the link over last, unless the link slept since.
    pub released: [Option<Time>; 2],
}

/// What the stations of a channel are like.
#[derive(Clone, Copy, Debug)]
pub struct StationParts<'a> {
    /// Which hosts, ports and cables there are.
    pub wiring: &'a Wiring,
    /// What the ends of a link agree on.
    pub rules: Rules,
    /// How many packets each FIFO holds.
    pub capacity: u16,
    /// How large each is.
    pub packet: Bytes,
    /// How long everything takes on each kind of cable, in the order of [`Wiring::links`].
    pub timings: &'a [TurnTiming],
    /// When what is in the FIFOs of a host may be read.
    pub hosts: Forwarding,
    /// When what has come to a port of each switch may be; what waits to leave one is read at once.
    pub switches: &'a [Forwarding],
}

impl<M> Station<M> {
    /// How many packets the link may take from each send FIFO.
    pub fn waiting(&self) -> [u16; CHANNELS] {
        [self.send[0].readable(), self.send[1].readable()]
    }
}

impl StationParts<'_> {
    /// The stations and the links between them, all empty.
    pub fn build<M>(&self) -> (Vec<Station<M>>, Vec<TurnCable>) {
        let cables = self.cables();
        let hosts = (0..self.wiring.hosts()).map(|host| StationPlace::Host(host as u16));
        let ports = (0..self.wiring.ports()).map(|port| {
            let switch = self.wiring.switch_of(port);
            StationPlace::Port { switch, number: port - self.wiring.port(switch, 0) }
        });
        let mut stations: Vec<Station<M>> =
            hosts.chain(ports).map(|place| self.station(place)).collect();
        for (number, cable) in (0..).zip(&cables) {
            for (side, &place) in cable.stations.iter().enumerate() {
                let station = &mut stations[place as usize];
                (station.link, station.side) = (number, side);
            }
        }
        (stations, cables)
    }

    fn cables(&self) -> Vec<TurnCable> {
        let hosts = self.wiring.hosts();
        let of_hosts = (0..hosts).map(|host| {
            let port = self.wiring.host_port(host);
            self.cable(port, [host, hosts + port])
        });
        let between = (0..self.wiring.ports()).filter_map(|port| match self.wiring.peer(port) {
            Peer::Port(peer) if port < peer => Some(self.cable(port, [hosts + port, hosts + peer])),
            _ => None,
        });
        of_hosts.chain(between).collect()
    }

    /// The cable in a port.
    fn cable(&self, port: u32, stations: [u32; 2]) -> TurnCable {
        let timing = self.timings[self.wiring.link_of(port)];
        TurnCable {
            link: TurnLink::new(self.rules, self.capacity, timing),
            stations,
            first: Time::ZERO,
            packets: 0,
            credits: [0; CHANNELS],
            released: [None; 2],
        }
    }

    fn station<M>(&self, place: StationPlace) -> Station<M> {
        let (send, receive) = match place {
            StationPlace::Host(_) => (self.hosts, self.hosts),
            StationPlace::Port { switch, .. } => {
                (Forwarding::Packets, self.switches[switch as usize])
            }
        };
        let fifo = |forwarding| {
            [(); CHANNELS].map(|()| ByteFifo::new(self.capacity, self.packet, forwarding))
        };
        Station { link: u32::MAX, side: 0, place, send: fifo(send), receive: fifo(receive) }
    }
}

#[cfg(test)]
mod tests {
    use weft_protocol::turns::{Burst, Holding, SymbolWidth};
    use weft_units::{Rate, Span};

    use super::*;
    use crate::fabric::FabricSettings;

    /// Two boxes, each with a host at port 0, and between their ports 1 a cable that is `own`.
    fn two(own: &str) -> Wiring {
        let text = format!(
            "[table]\nswitches = [{{ name = 'a', ports = 2 }}, {{ name = 'b', ports = 2 }}]\n\
             cables = [{{ from = 'host 0', to = 'a.0' }}, {{ from = 'host 1', to = 'b.0' }}, \
             {{ from = 'a.1', to = 'b.1'{own} }}]\n"
        );
        let fabric: FabricSettings = toml::from_str(&text).unwrap();
        fabric.wiring(2_u32, Rate::from_bits_per_second(200_000_000)).unwrap()
    }

    fn timing(propagation: u64) -> TurnTiming {
        TurnTiming {
            turn_around: Span::from_ns(1_080),
            undecided: Span::ZERO,
            preamble: Span::from_ns(60),
            packet: Span::from_ns(640),
            propagation: Span::from_ns(propagation),
        }
    }

    fn build(wiring: &Wiring, timings: &[TurnTiming]) -> (Vec<Station<u8>>, Vec<TurnCable>) {
        let (width, burst) = (SymbolWidth::FourBits, Burst::Credit);
        let parts = StationParts {
            wiring,
            rules: Rules { width, most: 15, burst, holding: Holding::OneFrame },
            capacity: 2,
            packet: Bytes(16),
            timings,
            hosts: Forwarding::Packets,
            switches: &[Forwarding::Packets, Forwarding::Messages],
        };
        parts.build()
    }

    /// Stations 0 and 1 are the hosts, 2 and 3 the ports of a, 4 and 5 those of b.
    #[test]
    fn hosts_come_first_and_each_cable_is_there_once() {
        let (stations, cables) = build(&two(""), &[timing(0)]);
        let ends: Vec<[u32; 2]> = cables.iter().map(|cable| cable.stations).collect();
        assert_eq!(ends, [[0, 2], [1, 4], [3, 5]]);
        let at: Vec<(u32, usize)> = stations.iter().map(|own| (own.link, own.side)).collect();
        assert_eq!(at, [(0, 0), (1, 0), (0, 1), (2, 0), (1, 1), (2, 1)]);
        assert_eq!(stations[1].place, StationPlace::Host(1));
        assert_eq!(stations[5].place, StationPlace::Port { switch: 1, number: 1 });
    }

    /// A null turn is the turn-around, the preamble and the way: 1140 ns, and 500 more over a cable of
    /// 100 m.
    #[test]
    fn a_cable_has_the_length_of_its_own() {
        let wiring = two(", link.length = '100 m'");
        let (_, cables) = build(&wiring, &[timing(0), timing(500)]);
        let turns: Vec<u64> =
            cables.iter().map(|cable| cable.link.timing().null_turn().0 / 1_000).collect();
        assert_eq!(turns, [1_140, 1_140, 1_640]);
    }

    /// What comes to b is moved on when it is there as a whole, or the FIFO of two packets is full.
    #[test]
    fn switches_read_what_has_come_each_in_its_way() {
        let (mut stations, _) = build(&two(""), &[timing(0)]);
        let packet = |number| StationPacket { message: 7, number, last: false };
        for station in [3, 5] {
            stations[station].receive[0].put(packet(0), false);
        }
        assert_eq!([3, 5].map(|station| stations[station].receive[0].readable()), [1, 0]);
        stations[5].receive[0].put(packet(1), false);
        assert_eq!(stations[5].receive[0].readable(), 2);
        stations[3].send[1].put(packet(0), false);
        assert_eq!(stations[3].waiting(), [0, 1]);
    }
}
