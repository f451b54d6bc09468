//! How nodes get their numbers, as control packets on their links (MEMORY CHANNEL 2 Link Protocol).
//!
//! At a hub the adapter asks, and the port answers with its number. On one cable each adapter tells the
//! other a number that it drew, and draws again if both are the same. The part has no events: it is
//! told which control packet is sent or arrives, and says what follows.

use weft_kernel::{Stream, Streams};
use weft_protocol::window::{Identification, Node};
use weft_units::{Span, Time};

use crate::interface::ConfigurationSettings;

/// How far a node is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NumberingStep {
    /// Its adapter sends a control packet.
    Ask,
    /// That is at the other side.
    Heard,
    /// Its port answers.
    Answer,
    /// That is at the adapter.
    Done,
}

/// The effect of a control packet at the other end of a cable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Paired {
    /// The node there has its number.
    Known(u16),
    /// The node there draws again and tells.
    AsksAgain(u16),
}

/// The numbers of all nodes.
#[derive(Debug)]
pub struct Numbering {
    settings: ConfigurationSettings,
    nodes: Vec<Numbered>,
    packets: u64,
    longest: Span,
}

#[derive(Debug)]
struct Numbered {
    began: Time,
    random: Stream,
    drawn: u32,
    identity: Identification,
}

/// The number that an adapter draws stands in the field of a node number.
const DRAWN: u64 = 1 << 6;

impl Numbering {
    /// The nodes of a channel, whose name names the random streams; none has a number.
    pub fn new(
        settings: &ConfigurationSettings,
        (channel, nodes): (&str, u16),
        streams: &Streams,
    ) -> Numbering {
        let purpose = format!("{channel}.configuration");
        let node = |node: u16| Numbered {
            began: Time::ZERO,
            random: streams.stream(&purpose, node.into()),
            drawn: 0,
            identity: Identification::DrawAgain,
        };
        let nodes = (0..nodes).map(node).collect();
        Numbering { settings: settings.clone(), nodes, packets: 0, longest: Span::ZERO }
    }

    /// From a control packet that requests a node number to the one that assigns it.
    pub fn answer(&self) -> Span {
        self.settings.answer
    }

    /// A node begins to ask for its number.
    pub fn begin(&mut self, now: Time, node: u16) {
        self.nodes[usize::from(node)].began = now;
    }

    /// The adapter of a node sends a control packet with a number that it draws.
    pub fn ask(&mut self, node: u16) {
        self.packets += 1;
        let own = &mut self.nodes[usize::from(node)];
        own.drawn = own.random.below(DRAWN) as u32;
        own.identity = Identification::Told(own.drawn);
    }

    /// The control packet of a node is at the other end of its cable, where another node is.
    pub fn pair(&mut self, node: u16) -> Paired {
        let told = self.nodes[usize::from(node)].drawn;
        let peer = 1 - node;
        let other = &mut self.nodes[usize::from(peer)];
        other.identity = other.identity.hear(told);
        match other.identity {
            Identification::Known(_) => Paired::Known(peer),
            Identification::DrawAgain | Identification::Told(_) => Paired::AsksAgain(peer),
        }
    }

    /// The port of a node answers.
    pub fn answers(&mut self) {
        self.packets += 1;
    }

    /// The response of its port is at a node.
    pub fn told(&mut self, node: u16) {
        self.nodes[usize::from(node)].identity = Identification::Known(Node(node as u8));
    }

    /// A node has its number.
    pub fn end(&mut self, now: Time, node: u16) {
        let began = self.nodes[usize::from(node)].began;
        self.longest = self.longest.max(now.since(began));
    }

    /// The numbers that nodes have, in the order of the hosts.
    pub fn identities(&self) -> impl Iterator<Item = Identification> + '_ {
        self.nodes.iter().map(|own| own.identity)
    }

    /// How many control packets it took, and the longest time from power to number; with the names of
    /// their columns.
    pub fn columns(&self) -> [(&'static str, f64); 2] {
        let packets = self.packets as f64;
        [("configuration_packets", packets), ("configuration_max_us", self.longest.as_us())]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn numbering(nodes: u16) -> Numbering {
        let settings = ConfigurationSettings { answer: Span(1_000) };
        Numbering::new(&settings, ("memory", nodes), &Streams::new(1))
    }

    #[test]
    fn a_port_tells_its_number() {
        let mut numbering = numbering(3);
        numbering.begin(Time(5_000_000), 2);
        numbering.ask(2);
        numbering.answers();
        numbering.told(2);
        numbering.end(Time(7_000_000), 2);
        let known = Identification::Known(Node(2));
        let none = Identification::DrawAgain;
        assert_eq!(numbering.identities().collect::<Vec<_>>(), [none, none, known]);
        let columns = [("configuration_packets", 2.0), ("configuration_max_us", 2.0)];
        assert_eq!(numbering.columns(), columns);
    }

    /// Whatever is drawn: two nodes on a cable end with different numbers, and draw again as long as
    /// they have drawn the same.
    #[test]
    fn two_nodes_on_a_cable_agree() {
        for seed in 0..200 {
            let settings = ConfigurationSettings { answer: Span(1_000) };
            let mut numbering = Numbering::new(&settings, ("memory", 2), &Streams::new(seed));
            let mut rounds = 0;
            loop {
                rounds += 1;
                assert!(rounds < 10, "seed {seed}");
                (0..2).for_each(|node| numbering.ask(node));
                let seen = [0, 1].map(|node| numbering.pair(node));
                if seen == [Paired::Known(1), Paired::Known(0)] {
                    break;
                }
                assert_eq!(seen, [Paired::AsksAgain(1), Paired::AsksAgain(0)]);
            }
            let mut known: Vec<_> = numbering.identities().collect();
            known.sort_by_key(|own| matches!(own, Identification::Known(Node(1))));
            assert_eq!(known, [0, 1].map(|node| Identification::Known(Node(node))));
            assert_eq!(numbering.columns()[0].1, f64::from(2 * rounds));
        }
    }
}
