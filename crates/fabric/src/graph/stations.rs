//! Stations: the ends of links with turns with their FIFOs, at hosts and at the ports of switches, and
//! the links between them (Maestro 3.2).
//!
//! A station has the number of its port in the graph. Links of hosts are the first, and those between
//! switches follow, each at the first of its ports. Each has the rate and the length of its own cable.

use weft_protocol::turns::{CHANNELS, Kind, Overrun, Rules};
use weft_units::{Bytes, Span, Time};

use crate::fabric::{Peer, Wiring};
use crate::interface::{ByteFifo, Forwarding};
use crate::link::{TurnEvent, TurnLink, TurnTiming};

/// A packet in a FIFO: its message, which `M` names, and its position in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StationPacket<M> {
    /// The message.
    pub message: M,
    /// Its number in the message, from 0.
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
    /// The packets to send, by channel.
    pub send: [ByteFifo<StationPacket<M>>; CHANNELS],
    /// The packets received, by channel.
    pub receive: [ByteFifo<StationPacket<M>>; CHANNELS],
}

/// Where a station is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StationPlace {
    /// At a host.
    Host(u32),
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
    /// The room that its preamble announces.
    pub credits: [u16; CHANNELS],
    /// When each end last handed the link over, unless the link slept since.
    pub released: [Option<Time>; 2],
}

/// The event on a cable in one step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CableEvent {
    /// An end began a frame.
    Began {
        /// The end that sends, 0 or 1.
        side: usize,
        /// From the end of its frame before, unless the link slept since or the end kept the link.
        waited: Option<Span>,
        /// When the frame ends, if it has no packets.
        null_over: Option<Time>,
    },
    /// The last symbol of a packet is at the other end, with a place for it.
    Moved {
        /// The end that sent it.
        side: usize,
        /// Its channel.
        channel: usize,
        /// Whether it was the first one of its frame.
        opens: bool,
        /// Whether it was the last one, which ends the frame.
        ends: bool,
    },
}

impl TurnCable {
    /// Carries out what is due at `now`, with this many packets in the send FIFOs of the holder. Returns
    /// what happened and when the next step is due, if one is before [`TurnCable::wake`].
    ///
    /// # Errors
    /// [`Overrun`] where a packet comes without room for it: a defect, since credits prevent it.
    pub fn step(
        &mut self,
        now: Time,
        waiting: [u16; CHANNELS],
    ) -> Result<(CableEvent, Option<Time>), Overrun> {
        let (event, next) = self.link.step(now, waiting)?;
        let event = match event {
            TurnEvent::Began { side, preamble, first, over } => {
                (self.first, self.packets, self.credits) = (first, 0, preamble.credits);
                let waited = self.released[side].take().map(|released| first.since(released));
                let null_over = (preamble.kind == Kind::Null).then_some(over);
                self.released[side] = null_over;
                CableEvent::Began { side, waited, null_over }
            }
            TurnEvent::Moved { side, channel, last } => {
                self.packets += 1;
                if last {
                    // An end that keeps the link begins its next frame now.
                    self.released[side] = Some(now).filter(|_| self.link.holder() != side);
                }
                CableEvent::Moved { side, channel, opens: self.packets == 1, ends: last }
            }
        };
        Ok((event, next))
    }

    /// A packet is ready to be sent. Returns when the next step is due, unless one is due anyway.
    pub fn wake(&mut self, now: Time) -> Option<Time> {
        let next = self.link.wake(now)?;
        self.released = [None; 2];
        Some(next)
    }

    /// How long the cable has carried the frame whose last symbol is at the other end.
    pub fn busy(&self, now: Time) -> Span {
        Span(now.since(self.first).0.saturating_sub(self.link.timing().propagation.0))
    }
}

/// What the stations of a channel are built from.
#[derive(Clone, Copy, Debug)]
pub struct StationParts<'a> {
    /// The hosts, ports and cables.
    pub wiring: &'a Wiring,
    /// The parameters on which the ends of a link agree.
    pub rules: Rules,
    /// The capacity of each FIFO in packets.
    pub capacity: u16,
    /// The size of a packet.
    pub packet: Bytes,
    /// The timing on each kind of cable, in the order of [`Wiring::links`].
    pub timings: &'a [TurnTiming],
    /// When the content of a host's FIFOs may be read.
    pub hosts: Forwarding,
    /// When packets received at a port of each switch may be read; those that wait to leave are
    /// read at once.
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
        let hosts = (0..self.wiring.hosts()).map(StationPlace::Host);
        let ports = (0..self.wiring.ports()).map(|port| {
            let switch = self.wiring.switch_of(port);
            StationPlace::Port { switch, number: port - self.wiring.port(switch, 0) }
        });
        let mut stations: Vec<Station<M>> =
            ports.chain(hosts).map(|place| self.station(place)).collect();
        for (number, cable) in (0..).zip(&cables) {
            for (side, &place) in cable.stations.iter().enumerate() {
                let station = &mut stations[place as usize];
                (station.link, station.side) = (number, side);
            }
        }
        (stations, cables)
    }

    fn cables(&self) -> Vec<TurnCable> {
        let ports = self.wiring.ports();
        let of_hosts = (0..self.wiring.hosts()).map(|host| {
            let port = self.wiring.host_port(host);
            self.cable(port, [ports + host, port])
        });
        let between = (0..ports).filter_map(|port| match self.wiring.peer(port) {
            Peer::Port(peer) if port < peer => Some(self.cable(port, [port, peer])),
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

    /// Stations 0 and 1 are the ports of a, 2 and 3 those of b, 4 and 5 the hosts.
    #[test]
    fn stations_are_ports_and_each_cable_is_there_once() {
        let (stations, cables) = build(&two(""), &[timing(0)]);
        let ends: Vec<[u32; 2]> = cables.iter().map(|cable| cable.stations).collect();
        assert_eq!(ends, [[4, 0], [5, 2], [1, 3]]);
        let at: Vec<(u32, usize)> = stations.iter().map(|own| (own.link, own.side)).collect();
        assert_eq!(at, [(0, 1), (2, 0), (1, 1), (2, 1), (0, 0), (1, 0)]);
        assert_eq!(stations[5].place, StationPlace::Host(1));
        assert_eq!(stations[3].place, StationPlace::Port { switch: 1, number: 1 });
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

    /// A null frame of each end, 1140 ns a turn; with a credit end 0 then sends two packets, from 3360 to
    /// 4700, which open and end its frame. The first symbol of its next one follows a turn-around, a null
    /// frame of the other end and another turn-around later.
    #[test]
    fn a_cable_tells_where_frames_begin_and_end() {
        let (_, mut cables) = build(&two(""), &[timing(0)]);
        let (mut now, mut seen) = (Time::ZERO, Vec::new());
        for waiting in [0, 0, 2, 2, 1, 0, 0] {
            let (event, next) = cables[0].step(now, [waiting, 0]).unwrap();
            seen.push((event, cables[0].busy(now).0 / 1_000));
            now = next.unwrap_or(now);
        }
        let null = |side, waited: Option<u64>, over: u64| CableEvent::Began {
            side,
            waited: waited.map(Span::from_ns),
            null_over: Some(Time(over * 1_000)),
        };
        let moved = |opens, ends| CableEvent::Moved { side: 0, channel: 0, opens, ends };
        let frame =
            CableEvent::Began { side: 0, waited: Some(Span::from_ns(2_220)), null_over: None };
        let expected = [
            null(0, None, 1_140),
            null(1, None, 2_280),
            frame,
            moved(true, false),
            moved(false, true),
            null(1, Some(3_500), 5_840),
            null(0, Some(2_220), 6_980),
        ];
        assert_eq!(seen.iter().map(|own| own.0).collect::<Vec<CableEvent>>(), expected);
        // The preamble of 60 ns and two packets of 640 ns.
        assert_eq!((seen[3].1, seen[4].1), (700, 1_340));
    }

    /// What comes to b is moved on when it is there as a whole, or the FIFO of two packets is full.
    #[test]
    fn switches_read_what_has_come_each_in_its_way() {
        let (mut stations, _) = build(&two(""), &[timing(0)]);
        let packet = |number| StationPacket { message: 7, number, last: false };
        for station in [1, 3] {
            stations[station].receive[0].put(packet(0), false);
        }
        assert_eq!([1, 3].map(|station| stations[station].receive[0].readable()), [1, 0]);
        stations[3].receive[0].put(packet(1), false);
        assert_eq!(stations[3].receive[0].readable(), 2);
        stations[1].send[1].put(packet(0), false);
        assert_eq!(stations[1].waiting(), [0, 1]);
    }
}
