//! Signalling that travels as packets: the nodes and the arbiter of a globally scheduled channel
//! communicate over another channel (Clint 3.3, Figure 5).
//!
//! The part composes the packets and interprets them when they arrive, by their tokens. The engine
//! sends them and reports arrivals.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use weft_kernel::Id;
use weft_protocol::packet::{Configuration, Grant, Port, PortVector, Sequence, TransmissionReport};
use weft_units::{Bytes, Span};

use super::{
    BulkNode, CarriedTiming, GrantNotice, NodeConfiguration, Route, ScheduledPacket, Transfer,
};
use crate::link::SharedLinkSettings;

/// How configurations, grants and acknowledgments of a scheduled channel travel.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum SignallingSettings {
    /// Without packets: requests are known when they are sampled, grants when they are used, and
    /// outcomes at the end of the acknowledgment stage.
    #[default]
    Ideal,
    /// As packets on another channel (Clint 3.2: "all signaling for the bulk channel is done via
    /// the quick channel").
    Carried(CarriedSettings),
}

/// Settings of signalling that travels as packets on another channel (Clint 3.2, Table 1; 3.3).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CarriedSettings {
    /// The channel that carries it: one with a crossbar that drops. Its link has nothing
    /// `reserved`, because the signalling itself travels as packets.
    pub by: String,
    /// Size of a configuration packet (`cfg`), from every adapter to the switch once a slot.
    pub configuration: Bytes,
    /// Size of a grant packet (`gnt`), from the switch to every adapter once a slot.
    pub grant: Bytes,
    /// Size of an acknowledgment packet (`back`), from the target of each transfer to its
    /// initiator, over the connections of the transfer in the opposite direction.
    pub acknowledgment: Bytes,
    /// From the arrival of the configurations to the moment at which the grants enter the output
    /// stages of the switch.
    pub arbitration: Span,
    /// From the last byte of a request to the moment when its acknowledgment is ready to be sent.
    #[serde(default)]
    pub turn_around: Span,
    /// Both channels are virtual channels of one link, which they share on demand. The paper names
    /// this option but did not build it (Clint 2). Both channels then have the same `link`, and
    /// switches of the same `latency`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shared_link: Option<SharedLinkSettings>,
}

/// The content of a signalling packet.
#[derive(Clone, Copy, Debug)]
pub enum Said {
    /// `cfg` of a host, for a cycle.
    Configuration {
        /// The node that sends it.
        host: u16,
        /// The cycle of the arbitration.
        cycle: u64,
        /// The configuration.
        packet: Configuration,
    },
    /// `gnt` for a host, of a cycle.
    Grant {
        /// The node to which it goes.
        host: u16,
        /// The cycle of the arbitration.
        cycle: u64,
        /// The grant.
        packet: Grant,
    },
    /// `back` of a transfer.
    Acknowledgment {
        /// The acknowledged transfer.
        transfer: Id<Transfer>,
        /// How.
        report: TransmissionReport,
    },
}

/// The effect of a signalling packet that has arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Heard {
    /// The arbiter knows what a node requests and accepts.
    Configuration {
        /// The node.
        host: u16,
        /// The node's configuration.
        configuration: NodeConfiguration,
    },
    /// A node learns to which target it may send, if any.
    Grant {
        /// The node.
        host: u16,
        /// The target.
        target: Option<u16>,
    },
    /// An initiator has a response to a transfer.
    Acknowledgment(Id<Transfer>),
    /// A configuration is damaged or too late for its cycle.
    LostConfiguration,
    /// A grant is damaged, or not for this node and slot.
    LostGrant,
    /// An acknowledgment is damaged.
    LostAcknowledgment,
}

/// The nodes, and the packets in flight between them and the arbiter.
#[derive(Debug)]
pub struct Signalling {
    settings: CarriedSettings,
    timing: CarriedTiming,
    nodes: Vec<BulkNode>,
    /// Packets in flight, by token.
    said: Vec<Option<Said>>,
    free: Vec<u32>,
    /// The cycle whose arbitration is next or in progress, and whether it is still open.
    cycle: u64,
    is_open: bool,
}

impl Signalling {
    /// Signalling between this many hosts and the arbiter, at cycle zero.
    pub fn new(settings: CarriedSettings, timing: CarriedTiming, hosts: usize) -> Signalling {
        Signalling {
            settings,
            timing,
            nodes: vec![BulkNode::new(); hosts],
            said: Vec::new(),
            free: Vec::new(),
            cycle: 0,
            is_open: false,
        }
    }

    /// When each step of a slot happens.
    pub fn timing(&self) -> &CarriedTiming {
        &self.timing
    }

    /// The requests of a cycle are sampled: configurations count from now on.
    pub fn open(&mut self, cycle: u64) {
        (self.cycle, self.is_open) = (cycle, true);
    }

    /// The arbitration begins: later configurations do not count.
    pub fn close(&mut self) {
        self.is_open = false;
    }

    /// The packet in which a node announces what it requests and accepts.
    pub fn configure(&mut self, host: u16, configuration: NodeConfiguration) -> ScheduledPacket {
        let NodeConfiguration { requests, bulk_enable, quick_enable } = configuration;
        let node = &mut self.nodes[usize::from(host)];
        node.bulk_enable = PortVector(bulk_enable as u16);
        node.quick_enable = PortVector(quick_enable as u16);
        let asked = (0..16).filter(|target| requests >> target & 1 == 1);
        let packet = node.configuration(asked.filter_map(|target| Port::new(target).ok()));
        let said = Said::Configuration { host, cycle: self.cycle, packet };
        self.compose(Route::ToSwitch { from: host }, said)
    }

    /// The packet that carries a node's grant; none beyond the 16 ports for which it has room.
    pub fn grant(&mut self, host: u16, notice: &GrantNotice) -> Option<ScheduledPacket> {
        let packet = notice.packet().ok()?;
        let said = Said::Grant { host, cycle: self.cycle, packet };
        Some(self.compose(Route::FromSwitch { to: host }, said))
    }

    /// The packet by which a target answers, over the connection of the transfer in the opposite
    /// direction; none if it stays silent.
    pub fn acknowledge(
        &mut self,
        id: Id<Transfer>,
        transfer: &Transfer,
    ) -> Option<ScheduledPacket> {
        let report = transfer.reception.and_then(|reception| reception.acknowledgment())?;
        let route = Route::Through { from: transfer.packet.target, to: transfer.initiator };
        Some(self.compose(route, Said::Acknowledgment { transfer: id, report }))
    }

    fn compose(&mut self, route: Route, said: Said) -> ScheduledPacket {
        let (settings, timing) = (&self.settings, &self.timing);
        let (size, span) = match said {
            Said::Configuration { .. } => (settings.configuration, timing.configuration),
            Said::Grant { .. } => (settings.grant, timing.grant),
            Said::Acknowledgment { .. } => (settings.acknowledgment, timing.acknowledgment),
        };
        let token = match self.free.pop() {
            Some(token) => {
                self.said[token as usize] = Some(said);
                token
            }
            None => {
                self.said.push(Some(said));
                (self.said.len() - 1) as u32
            }
        };
        ScheduledPacket { route, size, span, token }
    }

    /// The contents of a packet in flight.
    pub fn said(&self, token: u32) -> Option<&Said> {
        self.said.get(token as usize)?.as_ref()
    }

    /// A packet has arrived, damaged or whole. `None` if no packet with this token was in flight.
    pub fn hear(&mut self, token: u32, damaged: bool) -> Option<Heard> {
        let said = self.said.get_mut(token as usize)?.take()?;
        self.free.push(token);
        Some(match said {
            Said::Configuration { host, cycle, packet } => {
                let is_late = !self.is_open || cycle != self.cycle;
                if damaged || is_late || packet.slot != Sequence::of(cycle + 1) {
                    return Some(Heard::LostConfiguration);
                }
                Heard::Configuration { host, configuration: packet.into() }
            }
            Said::Grant { host, packet, .. } => {
                let granted = self.nodes[usize::from(host)].grant(&packet);
                match granted.ok().filter(|_| !damaged) {
                    Some(granted) => {
                        let target = granted.target.map(|port| port.index() as u16);
                        Heard::Grant { host, target }
                    }
                    None => Heard::LostGrant,
                }
            }
            Said::Acknowledgment { .. } if damaged => Heard::LostAcknowledgment,
            Said::Acknowledgment { transfer, .. } => Heard::Acknowledgment(transfer),
        })
    }

    /// The transfers of a slot begin.
    pub fn begin_slot(&mut self) {
        self.nodes.iter_mut().for_each(BulkNode::begin_slot);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Packets of Clint's sizes (Table 1), on links of 528 Mbit/s.
    fn signalling() -> Signalling {
        let settings = CarriedSettings {
            by: "quick".to_owned(),
            configuration: Bytes(19),
            grant: Bytes(4),
            acknowledgment: Bytes(4),
            arbitration: Span(1_260_000),
            turn_around: Span::ZERO,
            shared_link: None,
        };
        let timing = CarriedTiming {
            configuration: Span(287_879),
            grant: Span(60_606),
            acknowledgment: Span(60_606),
            arbitration: settings.arbitration,
            turn_around: settings.turn_around,
            latency: Span(90_000),
            propagation: Span(25_000),
            obstruction: Span(833_334),
            shared: None,
        };
        Signalling::new(settings, timing, 4)
    }

    fn asks(requests: u64) -> NodeConfiguration {
        NodeConfiguration { requests, bulk_enable: 0xffff, quick_enable: 0xfffe }
    }

    fn granted(node: usize, slot: u64, target: Option<usize>) -> GrantNotice {
        GrantNotice { node, slot, target, speculative: false }
    }

    /// Cycle 0 assigns the identifier of host 2; in cycle 1 it asks for hosts 0 and 3, and is granted 3.
    #[test]
    fn a_node_asks_and_is_told_in_its_cycle() {
        let mut signalling = signalling();
        signalling.open(0);
        let packet = signalling.configure(2, asks(0b1001));
        assert_eq!(packet.route, Route::ToSwitch { from: 2 });
        assert_eq!((packet.size, packet.span), (Bytes(19), Span(287_879)));
        let silent = NodeConfiguration { requests: 0, ..asks(0) };
        let heard = Heard::Configuration { host: 2, configuration: silent };
        assert_eq!(signalling.hear(packet.token, false), Some(heard), "it has no identifier yet");
        signalling.close();
        let packet = signalling.grant(2, &granted(2, 1, None)).expect("one of 16 ports");
        assert_eq!((packet.route, packet.size), (Route::FromSwitch { to: 2 }, Bytes(4)));
        let heard = Heard::Grant { host: 2, target: None };
        assert_eq!(signalling.hear(packet.token, false), Some(heard));
        signalling.begin_slot();
        signalling.open(1);
        let packet = signalling.configure(2, asks(0b1001));
        let heard = Heard::Configuration { host: 2, configuration: asks(0b1001) };
        assert_eq!(signalling.hear(packet.token, false), Some(heard));
        let packet = signalling.grant(2, &granted(2, 2, Some(3))).expect("one of 16 ports");
        let heard = Heard::Grant { host: 2, target: Some(3) };
        assert_eq!(signalling.hear(packet.token, false), Some(heard));
        assert_eq!(signalling.hear(packet.token, false), None, "it has arrived");
    }

    #[test]
    fn what_is_late_or_damaged_is_lost() {
        let mut signalling = signalling();
        signalling.open(0);
        let [damaged, late] = [0, 1].map(|host| signalling.configure(host, asks(0)).token);
        assert_eq!(signalling.hear(damaged, true), Some(Heard::LostConfiguration));
        signalling.close();
        assert_eq!(signalling.hear(late, false), Some(Heard::LostConfiguration));
        let grant = |signalling: &mut Signalling, slot, damaged| {
            let packet = signalling.grant(1, &granted(1, slot, Some(0))).expect("one of 16 ports");
            signalling.hear(packet.token, damaged)
        };
        assert_eq!(grant(&mut signalling, 1, true), Some(Heard::LostGrant));
        assert_eq!(grant(&mut signalling, 2, false), Some(Heard::LostGrant), "for another slot");
        assert_eq!(
            grant(&mut signalling, 1, false),
            Some(Heard::Grant { host: 1, target: Some(0) })
        );
    }

    /// Tokens are used again, and `back` goes the other way round.
    #[test]
    fn a_target_answers_what_it_has_seen() {
        use crate::adapter::BulkPacket;
        use crate::control::{RecoverySettings, Transfers};
        use weft_units::Time;

        let mut signalling = signalling();
        let mut transfers = Transfers::new(RecoverySettings::default(), 4);
        let packet = BulkPacket {
            target: 3,
            sequence: 0,
            generated: Time(0),
            buffered: Time(0),
            first: Some(Time(5)),
            attempts: 1,
        };
        let id = transfers.begin(Time(5), 0, 1, packet, false);
        assert_eq!(signalling.acknowledge(id, transfers.get(id)), None, "it has seen nothing");
        transfers.arrive(id, |_| false);
        let answer = signalling.acknowledge(id, transfers.get(id)).expect("it was refused");
        assert_eq!(answer.route, Route::Through { from: 3, to: 1 });
        let said = signalling.said(answer.token);
        let report = TransmissionReport::NoReceiveBuffer;
        assert!(matches!(said, Some(Said::Acknowledgment { report: said, .. }) if *said == report));
        assert_eq!(signalling.hear(answer.token, false), Some(Heard::Acknowledgment(id)));
        let again = signalling.acknowledge(id, transfers.get(id)).expect("it was refused");
        assert_eq!(again.token, answer.token);
        assert_eq!(signalling.hear(again.token, true), Some(Heard::LostAcknowledgment));
    }
}
