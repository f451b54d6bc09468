//! What becomes of a port while its cable is not as it was.

use weft_units::{Fraction, Span, Time};

use super::Ports;
use super::egress::PortKind;
use super::rule::Link;
use crate::link::LinkSettings;

impl Ports {
    /// Cables will change, so that what a packet spends no longer follows from its size and the
    /// number of switches.
    pub fn will_change(&mut self) {
        self.alike = None;
    }

    /// The number of the link of a port.
    pub fn link(&self, port: u32) -> u32 {
        self.kind_of(port).link
    }

    /// Adds a link like that of a port with so much of its rate, and returns its number.
    pub fn add_slower(&mut self, port: u32, share: Fraction) -> u32 {
        let own = &self.links[self.link(port) as usize];
        let rate = own.settings.rate.share(share);
        let slower = Link::new(LinkSettings { rate, ..own.settings.clone() }, own.packet.0);
        self.links.push(slower);
        (self.links.len() - 1) as u32
    }

    /// What a port sends from now on goes by another link.
    pub fn use_link(&mut self, port: u32, link: u32) {
        let kind = PortKind { link, ..*self.kind_of(port) };
        let known = self.kinds.iter().position(|own| *own == kind);
        let number = known.unwrap_or_else(|| {
            self.kinds.push(kind);
            self.kinds.len() - 1
        });
        self.egress[port as usize].kind = number as u32;
    }

    /// How long a packet takes on a link, by its number.
    pub fn span_on(&self, link: u32, size: u32) -> Span {
        self.links[link as usize].span(size)
    }

    /// Whether packets that leave by a port count as arrived with their last byte.
    pub fn waits_for_all(&self, port: u32) -> bool {
        self.kind_of(port).is_whole
    }

    /// The cable in a port fails: no pause of the far end is in force any more. If the port `holds`
    /// what it has it sends no packet until the cable is [back](Self::come_back).
    pub fn fail(&mut self, now: Time, port: u32, holds: bool) {
        self.egress[port as usize].paused = if holds { u8::MAX } else { 0 };
        let first = port as usize * self.classes;
        for own in &mut self.heard[first..first + self.classes] {
            if let Some(since) = own.since.take() {
                own.stopped += now.since(since.max(self.window.from));
            }
        }
    }

    /// The cable in a port is back. If any class can be paused, the far end is told which classes
    /// this end pauses.
    pub fn come_back(&mut self, port: u32, tells: bool) {
        let own = &mut self.egress[port as usize];
        own.paused = 0;
        own.has_to_tell |= tells;
    }
}
