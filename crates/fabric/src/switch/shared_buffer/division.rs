//! Ports of parts of a channel that run side by side.

use super::Ports;
use super::planned::PlannedPackets;
use super::rule::Rule;

impl Ports {
    /// Divides the ports among `count` parts, by the part of each switch, before anything happens.
    /// All parts have all ports, each of which only one part may touch. Memories, and the random
    /// streams of marks, move into their parts, so that these ports cannot be used any more.
    pub fn divide(&mut self, part: &[u32], count: u32) -> Vec<Ports> {
        let mut parts: Vec<Ports> = (0..count).map(|_| self.without_switches()).collect();
        for (switch, (own, part)) in self.rules.iter_mut().zip(part).enumerate() {
            std::mem::swap(own, &mut parts[*part as usize].rules[switch]);
        }
        parts.iter_mut().for_each(Ports::let_plan_nothing);
        parts
    }

    fn without_switches(&self) -> Ports {
        Ports {
            classes: self.classes,
            alike: self.alike,
            egress: self.egress.clone(),
            kinds: self.kinds.clone(),
            planned: PlannedPackets::new(),
            plans: false,
            pauses: self.pauses.clone(),
            turns: self.turns.clone(),
            sent: self.sent.clone(),
            window: self.window,
            responses: self.responses.clone(),
            queues: self.queues.clone(),
            deficits: self.deficits.clone(),
            heard: self.heard.clone(),
            rules: self.rules.iter().map(Rule::without_memory).collect(),
            links: self.links.clone(),
            counts: self.counts.clone(),
            credits: self.credits.clone(),
            packet: self.packet,
            marks_departures: self.marks_departures,
        }
    }
}
