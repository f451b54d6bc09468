//! The near end of the flow control of every cable that leads to a buffer of limited size.

use weft_units::Span;

use crate::link::FlowControl;

/// Credits by port and virtual channel.
#[derive(Clone, Debug)]
pub(super) struct Flow {
    channels: u32,
    /// How many virtual channels a packet needs on its way.
    virtual_channels: u8,
    /// [`FREE`] where the far end counts none; nothing without any buffer of limited size.
    credits: Vec<u32>,
    /// Which ports lead to a buffer of limited size.
    limited: Vec<bool>,
    /// How long after it was brought about a stop is heard, besides the cable.
    reaction: Span,
    has_credits: bool,
}

/// Credits without end.
const FREE: u32 = u32::MAX;

impl Flow {
    /// The flow control of so many directed ports, of which none leads to a buffer of limited size
    /// so far.
    pub fn new(control: &FlowControl, virtual_channels: u8, ports: u32) -> Flow {
        let channels = control.channels;
        Flow {
            channels: channels.into(),
            virtual_channels: control.virtual_channels(virtual_channels),
            credits: vec![FREE; ports as usize * usize::from(channels)],
            limited: vec![false; ports as usize],
            reaction: control.stop_go.map_or(Span::ZERO, |own| own.reaction),
            has_credits: control.has_credits,
        }
    }

    /// Nothing has a limit.
    pub fn none() -> Flow {
        let credits = Vec::new();
        let limited = Vec::new();
        let reaction = Span::ZERO;
        Flow { channels: 1, virtual_channels: 1, credits, limited, reaction, has_credits: false }
    }

    /// A port leads to a buffer with room for so many packets of each virtual channel.
    pub fn limit(&mut self, port: u32, room: u32) {
        self.limited[port as usize] = true;
        if self.has_credits {
            let first = (port * self.channels) as usize;
            self.credits[first..first + self.channels as usize].fill(room);
        }
    }

    /// Whether a port leads to a buffer of limited size.
    #[inline]
    pub fn is_limited(&self, port: u32) -> bool {
        self.limited.get(port as usize).is_some_and(|limited| *limited)
    }

    /// Whether credits are counted.
    #[inline]
    pub fn has_credits(&self) -> bool {
        self.has_credits
    }

    /// How long after it was brought about a stop is heard, besides the cable.
    pub fn reaction(&self) -> Span {
        self.reaction
    }

    /// Virtual channels of each cable.
    #[inline]
    pub fn channels(&self) -> u8 {
        self.channels as u8
    }

    /// How many of them a packet needs on its way.
    #[inline]
    pub fn virtual_channels(&self) -> u8 {
        self.virtual_channels
    }

    #[inline]
    fn place(&self, port: u32, channel: u8) -> usize {
        (port * self.channels + u32::from(channel)) as usize
    }

    /// Whether a packet may be sent.
    #[inline]
    pub fn may_send(&self, port: u32, channel: u8) -> bool {
        self.credits[self.place(port, channel)] > 0
    }

    /// A packet is sent. Returns whether that was the last credit.
    #[inline]
    pub fn spend(&mut self, port: u32, channel: u8) -> bool {
        let place = self.place(port, channel);
        let credits = &mut self.credits[place];
        debug_assert!(*credits > 0, "a packet was sent to a full buffer");
        if *credits == FREE {
            return false;
        }
        *credits -= 1;
        *credits == 0
    }

    /// A credit is back. Returns whether there was none.
    #[inline]
    pub fn restore(&mut self, port: u32, channel: u8) -> bool {
        let place = self.place(port, channel);
        let credits = &mut self.credits[place];
        *credits = credits.saturating_add(1);
        *credits == 1
    }
}
