//! What keeps the buffers of the switches from being written while they are full: credits, one lot
//! for each virtual channel of a cable, or inputs that stop their cables.

use weft_protocol::flow::{Crossing, Hysteresis, Marks};
use weft_units::{Span, Time};

use super::calendar::Signal;
use super::{Event, InputQueuedNetwork, Plug};
use crate::drive::network::control::FlowControl;

/// The state of the flow control of all ports of all switches.
#[derive(Debug)]
pub(super) struct Flow {
    /// Virtual channels of each cable, and how many of them a packet may use on its way.
    pub channels: u8,
    pub lanes: u8,
    pub has_credits: bool,
    /// Credits of each virtual channel of each port.
    pub credits: Vec<u32>,
    /// How many of these are used up.
    pub starved: u32,
    /// Where an input stops its cable, and how long that takes beyond the cable.
    stop_go: Option<(Marks, Span)>,
    /// The cells that each input holds.
    held: Vec<Hysteresis>,
    /// How many cells an input has space for.
    space: u32,
    pub overrun: Option<String>,
}

impl Flow {
    /// Buffers of so many cells in inputs of so many switches, and packets of so many cells.
    pub fn new(control: &FlowControl, ports: u32, lanes: u8, (space, cells): (u32, u64)) -> Flow {
        let channels = control.channels;
        let credits = u64::from(space / u32::from(channels)) / cells;
        Flow {
            channels,
            lanes: if channels.is_multiple_of(lanes) { lanes } else { 1 },
            has_credits: control.has_credits,
            credits: vec![credits as u32; ports as usize * usize::from(channels)],
            starved: 0,
            stop_go: control.stop_go.map(|own| (own.marks, own.reaction)),
            held: vec![Hysteresis::default(); ports as usize],
            space,
            overrun: None,
        }
    }

    /// How many connections can have virtual channels of their own.
    #[inline]
    pub fn classes(&self) -> u8 {
        self.channels / self.lanes
    }

    /// How long after it was brought about a stop is heard, if there are stops.
    pub fn reaction(&self) -> Span {
        self.stop_go.map_or(Span::ZERO, |own| own.1)
    }
}

impl InputQueuedNetwork {
    /// An input holds another packet, if it counts them.
    #[inline]
    pub(super) fn hold(&mut self, slot: u64, port: u32) {
        if let Some((marks, _)) = self.flow.stop_go {
            self.count_in(slot, port, marks);
        }
    }

    fn count_in(&mut self, slot: u64, port: u32, marks: Marks) {
        for _ in 0..self.timing.cells {
            let held = &mut self.flow.held[port as usize];
            let crossing = held.raise(marks);
            if held.held() > self.flow.space && self.flow.overrun.is_none() {
                self.flow.overrun = Some(format!(
                    "at {} a cell came to {}, whose buffer of {} cells was full; a lossless \
                     channel needs a larger buffer, or has to stop earlier",
                    self.timing.time_of(slot).since(Time::ZERO),
                    self.wiring.port_name(port),
                    self.flow.space,
                ));
            }
            if crossing == Some(Crossing::High) {
                self.signal(slot, port, true);
            }
        }
    }

    /// A packet begins to leave an input in `slot`: it cuts through, and is held no longer, or its
    /// credit goes back when its last byte has left.
    #[inline]
    pub(super) fn release(&mut self, slot: u64, port: u32, channel: u8) {
        if self.flow.has_credits {
            let end = slot + self.timing.cells;
            match self.plugs[port as usize] {
                Plug::Port(port) => {
                    let place = port * u32::from(self.flow.channels) + u32::from(channel);
                    self.calendar.credits.push(end + self.timing.credit, place);
                }
                Plug::Host(host) => {
                    let time = self.timing.time_of(end) + self.timing.propagation;
                    self.restore(host, channel, time);
                }
                Plug::Unused => {}
            }
        } else if let Some((marks, _)) = self.flow.stop_go {
            for _ in 0..self.timing.cells {
                let crossing = self.flow.held[port as usize].lower(marks);
                if crossing == Some(Crossing::Low) {
                    self.signal(slot, port, false);
                }
            }
        }
    }

    /// An input tells whoever sends to it to stop, or to go on.
    fn signal(&mut self, slot: u64, port: u32, stops: bool) {
        match self.plugs[port as usize] {
            Plug::Port(port) => {
                self.calendar.signals.push(slot + self.timing.signal, Signal { port, stops });
            }
            Plug::Host(host) => {
                let time = self.timing.time_of(slot) + self.timing.propagation;
                self.agenda.push(time + self.flow.reaction(), Event::Stop(host, stops));
            }
            Plug::Unused => {}
        }
    }
}
