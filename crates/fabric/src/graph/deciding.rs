//! Switches that decide at the end of an instant on everything that reached an output in it:
//! crossbars without buffers and outputs with buffers. Also ports that carry packets of two sizes,
//! requests and acknowledgments.

use weft_kernel::Stream;
use weft_units::{Span, Time};

use super::{Departure, Graph, Kind};
use crate::switch::{
    Arrival, Blocked, Contention, Crossbar, CrossbarSettings, Effect, Met, OutputBuffered,
    OutputBufferedSettings,
};

/// A switch that decides, whose packets have numbers.
#[derive(Debug)]
pub(super) enum Deciding {
    Crossbar { switch: Crossbar<u32>, holds: bool },
    OutputBuffered(OutputBuffered<u32>),
}

impl Deciding {
    pub fn crossbar(own: CrossbarSettings, ports: u32, random: Stream) -> Deciding {
        let holds = own.contention == Contention::BackPressure;
        // The caller allows such a switch at most 65535 ports.
        Deciding::Crossbar { switch: Crossbar::new(own, ports as u16, random), holds }
    }

    pub fn output_buffered(own: OutputBufferedSettings, ports: u32, random: Stream) -> Deciding {
        Deciding::OutputBuffered(OutputBuffered::new(own, ports as u16, random))
    }
}

impl Graph {
    pub(super) fn add_deciding(&mut self, own: Deciding) -> Kind {
        self.deciding.push(own);
        Kind::Deciding(self.deciding.len() as u32 - 1)
    }

    /// Whether a switch decides at the end of an instant.
    #[inline]
    pub fn is_deciding(&self, switch: u32) -> bool {
        matches!(self.kinds[switch as usize], Kind::Deciding(_))
    }

    /// Whether any switch decides at the end of an instant.
    pub fn has_deciding(&self) -> bool {
        !self.deciding.is_empty()
    }

    /// Whether a switch is a crossbar without buffers.
    #[inline]
    pub fn is_crossbar(&self, switch: u32) -> bool {
        let Kind::Deciding(index) = self.kinds[switch as usize] else { return false };
        matches!(self.deciding[index as usize], Deciding::Crossbar { .. })
    }

    /// Whether any switch holds packets back on their links.
    pub fn has_back_pressure(&self) -> bool {
        self.deciding.iter().any(|own| matches!(own, Deciding::Crossbar { holds: true, .. }))
    }

    /// The deciding switch that an output belongs to, and the number of the output within that
    /// switch.
    #[inline]
    fn deciding_at(&mut self, output: u32) -> Option<(&mut Deciding, u16)> {
        let switch = self.switch_of(output);
        let number = (output - self.first_port(switch)) as u16;
        match self.kinds[switch as usize] {
            Kind::Deciding(index) => Some((&mut self.deciding[index as usize], number)),
            _ => None,
        }
    }

    /// A packet reaches an output of a deciding switch, as others may in the same instant. Returns
    /// whether it is the first one of the instant: the caller must then call
    /// [`decide`](Self::decide) at its end. Inputs are ports of the switch, counted from 0.
    #[inline]
    pub fn contend(&mut self, output: u32, arrival: Arrival<u32>) -> bool {
        match self.deciding_at(output) {
            Some((Deciding::Crossbar { switch, .. }, number)) => switch.arrive(number, arrival),
            Some((Deciding::OutputBuffered(switch), number)) => switch.arrive(number, arrival),
            None => false,
        }
    }

    /// A packet alone reaches an output of a deciding switch that need not wait for the end of the
    /// instant. Returns what happens to the packet in progress, and to this one.
    #[inline]
    pub fn meet(&mut self, now: Time, output: u32, arrival: Arrival<u32>) -> Option<Met<u32>> {
        match self.deciding_at(output)? {
            (Deciding::Crossbar { switch, .. }, number) => Some(switch.meet(now, number, arrival)),
            (Deciding::OutputBuffered(switch), number) => {
                Some(Met { in_progress: None, own: switch.meet(now, number, arrival) })
            }
        }
    }

    /// Everything that reached an output in this instant is known. Returns when to decide again, if
    /// that is known.
    pub fn decide(
        &mut self,
        now: Time,
        output: u32,
        effects: &mut Vec<Effect<u32>>,
    ) -> Option<Time> {
        match self.deciding_at(output)? {
            (Deciding::Crossbar { switch, .. }, number) => switch.decide(now, number, effects),
            (Deciding::OutputBuffered(switch), number) => {
                switch.decide(now, number, effects);
                None
            }
        }
    }

    /// A packet of a schedule passes an output of a crossbar.
    pub fn pass_scheduled(
        &mut self,
        now: Time,
        output: u32,
        arrival: Arrival<u32>,
        effects: &mut Vec<Effect<u32>>,
    ) {
        if let Some((Deciding::Crossbar { switch, .. }, number)) = self.deciding_at(output) {
            switch.pass(now, number, arrival, effects);
        }
    }

    /// Other bytes are inserted into a packet before it is complete at its output.
    pub fn stretch(&mut self, output: u32, packet: u32, by: Span) {
        if let Some((Deciding::Crossbar { switch, .. }, number)) = self.deciding_at(output) {
            switch.stretch(number, packet, by);
        }
    }

    /// The packets that back pressure holds; inputs and outputs are counted among the ports of all switches.
    pub fn blocked(&self) -> Vec<Blocked<u32, u32>> {
        let crossbars =
            (0..self.switches()).filter_map(|number| match self.kinds[number as usize] {
                Kind::Deciding(index) => match &self.deciding[index as usize] {
                    Deciding::Crossbar { switch, .. } => Some((self.first_port(number), switch)),
                    Deciding::OutputBuffered(_) => None,
                },
                _ => None,
            });
        let held = crossbars.flat_map(|(first, switch)| {
            let of = move |port: u16| first + u32::from(port);
            switch.blocked().map(move |Blocked { output, packet, holder }| Blocked {
                output: of(output),
                packet,
                holder: holder.map(of),
            })
        });
        held.collect()
    }

    /// A packet that takes `span` leaves a deciding switch by an output, its last byte at `end`.
    #[inline]
    pub fn forward(&mut self, end: Time, output: u32, span: Span) -> Departure {
        let start = Time(end.0.saturating_sub(span.0));
        self.launch(start, output, span)
    }

    /// How long a packet, or an acknowledgment if it is `short`, occupies the link of a port.
    #[inline]
    pub fn span_of(&self, port: u32, is_short: bool) -> Span {
        let link = self.link(port);
        if is_short { link.short } else { link.span }
    }

    /// [`Graph::lag`] of a packet, or of an acknowledgment.
    pub fn lag_of(&self, input: u32, output: u32, is_short: bool) -> Span {
        let (comes, leaves) = (self.span_of(input, is_short), self.span_of(output, is_short));
        Span(comes.0.saturating_sub(leaves.0))
    }

    /// A packet that takes `span` joins the queue of an output without a gate; `None` if that is full.
    #[inline]
    pub fn pass_sized(&mut self, now: Time, output: u32, span: Span) -> Option<Departure> {
        let switch = self.switch_of(output);
        let (ready, most) = (now + self.latency(switch), self.most(switch));
        let port = &self.ports[output as usize];
        if most < u32::MAX && port.held(ready, span) >= most {
            return None;
        }
        let start = port.free().max(ready);
        Some(self.launch(start, output, span))
    }

    /// Whether the far end of a port lets a packet of a virtual channel start now.
    #[inline]
    pub fn is_open(&self, port: u32, channel: u8) -> bool {
        !self.flow.is_limited(port) || (self.flow.may_send(port, channel) && !self.is_stopped(port))
    }

    /// A packet that takes `span` leaves a host by a port that is free and [open](Self::is_open).
    #[inline]
    pub fn send_sized(&mut self, now: Time, port: u32, span: Span, channel: u8) -> Departure {
        if self.flow.is_limited(port) {
            self.flow.spend(port, channel);
        }
        self.launch(now, port, span)
    }

    #[inline]
    fn launch(&mut self, start: Time, port: u32, span: Span) -> Departure {
        self.occupy(start, port, span);
        let place = self.ports[port as usize].peer();
        let whole = if place >= self.switch_ports() { span } else { Span::ZERO };
        Departure { start, arrival: start + self.link(port).propagation + whole, place }
    }
}
