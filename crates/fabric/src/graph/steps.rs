//! What packets spend in each step from a host or a switch to the next one, apart from waiting.

use weft_units::Span;

use super::{Graph, Link};
use crate::measure::Spent;
use crate::switch::PortPair;

impl Graph {
    /// Which of the latencies of switches one is. Beyond 256 of them the last one stands for all others, and
    /// [steps](Self::steps) cannot be numbered.
    pub(super) fn latency_kind(&mut self, latency: Span) -> u8 {
        let known = self.latencies.iter().position(|own| *own == latency);
        let kind = known.unwrap_or(self.latencies.len());
        match u8::try_from(kind) {
            Ok(kind) => {
                if known.is_none() {
                    self.latencies.push(latency);
                }
                kind
            }
            Err(_) => u8::MAX,
        }
    }

    /// The times of a packet from the queue of an output, which it joined late by `lag`, to the far
    /// end of the cable.
    pub fn spent(&self, output: u32, lag: Span) -> Spent {
        let link = self.link(output);
        let switch = self.owners.get(output as usize);
        Spent {
            wire: link.propagation,
            switches: switch.map_or(Span::ZERO, |switch| self.switches[*switch as usize].latency),
            transmission: lag + Span(link.arrival.0 - link.propagation.0),
        }
    }

    /// The times of a packet from an input of a switch to the far end of the cable in an output.
    #[inline]
    pub fn spent_across(&self, switch: u32, ports: PortPair) -> Spent {
        let latency = self.switches[switch as usize].latency;
        spent_between(self.link(ports.input), latency, self.link(ports.output))
    }

    /// How many kinds of steps there are that packets take from a host or a switch to the next one. All steps of a
    /// kind take the same times. With 256 latencies, beyond which kinds are not told apart, more than anybody numbers.
    pub fn steps(&self) -> usize {
        if self.latencies.len() > usize::from(u8::MAX) {
            return usize::MAX;
        }
        let links = self.links.len();
        links.saturating_mul(links).saturating_mul(self.latencies.len()).saturating_add(links)
    }

    /// The kind of the step from an input of a switch to the far end of the cable in an output.
    #[inline]
    pub fn step_across(&self, switch: u32, ports: PortPair) -> usize {
        let PortPair { input, output } = ports;
        let (from, to) = (&self.ports[input as usize], &self.ports[output as usize]);
        let latency = usize::from(self.switches[switch as usize].latency_kind);
        let links = self.links.len();
        (latency * links + from.link() as usize) * links + to.link() as usize
    }

    /// The kind of the step from a host to the far end of the cable in a port of it.
    #[inline]
    pub fn first_step(&self, port: u32) -> usize {
        let links = self.links.len();
        links * links * self.latencies.len() + self.ports[port as usize].link() as usize
    }

    /// The times of a packet in a step of a kind.
    pub fn spent_in(&self, step: usize) -> Spent {
        let links = self.links.len();
        let (before, to) = (step / links, &self.links[step % links]);
        match self.latencies.get(before / links) {
            Some(latency) => spent_between(&self.links[before % links], *latency, to),
            None => spent_between(to, Span::ZERO, to),
        }
    }

    /// The times of a packet from host to host through this many switches, if all links and
    /// switches are alike.
    #[inline]
    pub fn spent_alike(&self, hops: u16) -> Spent {
        let (link, hops) = (&self.links[0], u64::from(hops));
        Spent {
            wire: link.propagation * (hops + 1),
            switches: self.switches[0].latency * hops,
            transmission: link.span,
        }
    }
}

/// The times of a packet from the end of one link through a switch to the end of another one.
fn spent_between(from: &Link, latency: Span, to: &Link) -> Spent {
    let lag = Span(from.span.0.saturating_sub(to.span.0));
    let transmission = lag + Span(to.arrival.0 - to.propagation.0);
    Spent { wire: to.propagation, switches: latency, transmission }
}
