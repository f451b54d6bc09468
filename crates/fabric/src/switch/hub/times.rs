//! The latency of packets of mapped windows, and how long they occupy a bus and a link, by size (Memory
//! Channel 2, Latency and Network Throughput).

use weft_units::{Bytes, Span, Time};

use super::{HubSettings, TransferSettings};
use crate::interface::{WindowBusSettings, WindowSettings};
use crate::link::LinkSettings;

/// The parameters that determine the times.
#[derive(Clone, Copy, Debug)]
pub struct HubTimesParts<'settings> {
    /// The host side.
    pub window: &'settings WindowSettings,
    /// The hub.
    pub hub: &'settings HubSettings,
    /// The cable from each adapter to the hub, or between two adapters.
    pub link: &'settings LinkSettings,
    /// What a packet has on the wire in addition to its payload.
    pub overhead: Bytes,
    /// The largest payload of a packet.
    pub payload: Bytes,
}

/// The times that every packet spends alike, and those that depend on its size.
#[derive(Clone, Debug)]
pub struct HubTimes {
    /// From a store of the processor to the bus.
    pub store: Span,
    /// In the adapter of the initiator after the bus.
    pub transmit: Span,
    /// In the adapter of the target after the link.
    pub receive: Span,
    /// From the write on the bus to memory.
    pub memory: Span,
    /// From memory to a program that polls.
    pub poll: Span,
    /// From memory to a program that is interrupted.
    pub interrupt: Span,
    /// The delay of the message after its flag.
    pub read: Span,
    /// All cables of the path.
    pub wire: Span,
    /// One cable.
    pub cable: Span,
    /// Whether a packet can have left before its first byte is at the far end of a cable.
    pub is_long: bool,
    /// In the hub.
    pub hub: Span,
    /// From a grant of a bus to the first byte.
    pub arbitration: Span,
    /// A control packet on a link.
    pub control: Span,
    /// From the first byte of a control packet until the other end knows its content.
    pub notice: Span,
    /// The rest of the bus after a write of the host.
    pub stall: Span,
    /// From the grant of a packet to the end of the check at its target, without its transmission
    /// time.
    behind_grant: Span,
    by_size: Vec<TimesOfSize>,
    bus: Option<WindowBusSettings>,
    link: LinkSettings,
    overhead: Bytes,
}

/// The times of a packet of one size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TimesOfSize {
    /// On the bus of a host.
    pub bus: Span,
    /// On a link.
    pub link: Span,
}

/// Packets with more payload than this are so few that their times are computed for each.
const TABULATED: u64 = 1024;

impl HubTimes {
    /// The times of a channel.
    pub fn new(parts: HubTimesParts<'_>) -> HubTimes {
        let HubTimesParts { window, hub, link, overhead, payload } = parts;
        let cable = link.propagation();
        let arbitration = match hub.transfer {
            TransferSettings::Bus { arbitration, .. } => arbitration,
            _ => Span::ZERO,
        };
        let wire = if hub.is_direct() { cable } else { cable * 2 };
        let behind_grant = match hub.transfer {
            TransferSettings::Direct => Span::ZERO,
            TransferSettings::Bus { arbitration, .. } => hub.latency + wire + arbitration,
            TransferSettings::Crossbar { .. } => hub.latency + cable,
        };
        let mut times = HubTimes {
            store: window.store,
            transmit: window.transmit,
            receive: window.receive,
            memory: window.memory,
            poll: window.poll,
            interrupt: window.interrupt.unwrap_or(Span::ZERO),
            read: window.flag.as_ref().map_or(Span::ZERO, |flag| flag.read),
            wire,
            cable,
            is_long: cable > link.span(Bytes(4) + overhead),
            hub: hub.latency,
            arbitration,
            control: link.span(window.control),
            notice: link.span(window.control) + cable,
            stall: window.bus.as_ref().map_or(Span::ZERO, WindowBusSettings::stall_span),
            behind_grant: behind_grant + window.receive,
            by_size: Vec::new(),
            bus: window.bus.clone(),
            link: link.clone(),
            overhead,
        };
        let sizes = (0..=payload.0.min(TABULATED)).map(Bytes);
        times.by_size = sizes.map(|size| times.computed(size)).collect();
        times
    }

    fn computed(&self, size: Bytes) -> TimesOfSize {
        let bus = self.bus.as_ref().map_or(Span::ZERO, |bus| bus.transaction(size));
        TimesOfSize { bus, link: self.link.span(size + self.overhead) }
    }

    /// The times of a packet with a payload of `size`.
    #[inline]
    pub fn of(&self, size: Bytes) -> TimesOfSize {
        let tabulated = self.by_size.get(size.0 as usize).copied();
        tabulated.unwrap_or_else(|| self.computed(size))
    }

    /// When a packet that was granted at `granted`, and takes `link` on one, is checked at the adapter
    /// of its target.
    #[inline]
    pub fn at_target(&self, granted: Time, link: Span) -> Time {
        granted + link + self.behind_grant
    }

    /// From the end of the write on the bus of the target to the program, which polls or is
    /// interrupted.
    #[inline]
    pub fn after(&self, is_interrupted: bool) -> Span {
        self.memory + if is_interrupted { self.interrupt } else { self.poll } + self.read
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WINDOW: &str = "
        page = '8 KiB'
        size = '1 MiB'
        write = '32 B'
        store = '330 ns'
        transmit = '375 ns'
        receive = '375 ns'
        memory = '180 ns'
        poll = '400 ns'
        interrupt = '5 us'
        receive_buffers = 16
        control = '12 B'
        bus = { rate = '1.056 Gbit/s', word = '4 B', overhead = 3, stall = 1 }
    ";

    fn times(transfer: &str, length: u64) -> HubTimes {
        let hub = format!("ports = 16\nlatency = '450 ns'\ntransfer = {transfer}");
        let link =
            format!("rate = '16 bit/15 ns'\nlength = '{length} m'\ndelay_per_metre = '5 ns/m'");
        let (window, hub, link): (WindowSettings, HubSettings, LinkSettings) = (
            toml::from_str(WINDOW).unwrap(),
            toml::from_str(&hub).unwrap(),
            toml::from_str(&link).unwrap(),
        );
        let (overhead, payload) = (Bytes(12), Bytes(256));
        HubTimes::new(HubTimesParts { window: &window, hub: &hub, link: &link, overhead, payload })
    }

    /// 8 bytes are 5 cycles of 33 MHz on a bus and 10 of 15 ns on a link; with one cable and no hub the
    /// program has them after 2.163 us, for which Table 2 prints 2.17.
    #[test]
    fn a_write_through_a_direct_pair_by_hand() {
        let times = times("'direct'", 10);
        let small = times.of(Bytes(8));
        assert_eq!(small, TimesOfSize { bus: Span(151_515), link: Span(150_000) });
        let start = Time(330_000 + 151_515 + 375_000);
        assert_eq!(
            (times.store, times.transmit, times.wire),
            (Span(330_000), Span(375_000), Span(50_000))
        );
        let there = times.at_target(start + times.wire, small.link);
        assert_eq!(there.0, 330_000 + 151_515 + 375_000 + 50_000 + 150_000 + 375_000);
        assert_eq!((there + small.bus + times.after(false)).0, 2_163_030);
        assert_eq!(times.after(true), Span(180_000 + 5_000_000));
    }

    /// At a crossbar, one cable comes before the grant and one after it. On a bus the packet waits in
    /// its adapter, so that both cables come after the grant, and so does the arbitration.
    #[test]
    fn what_is_behind_a_grant() {
        let crossbar = times("{ crossbar = { buffer = 4, arbiter = 'request_sampling' } }", 10);
        let (granted, link) = (Time(1_000_000), Span(330_000));
        assert_eq!(crossbar.at_target(granted, link), Time(1_330_000 + 450_000 + 50_000 + 375_000));
        let bus = times("{ bus = { arbitration = '20 ns' } }", 10);
        let behind = 450_000 + 100_000 + 20_000 + 375_000;
        assert_eq!(bus.at_target(granted, link), Time(1_330_000 + behind));
        assert_eq!((crossbar.control, crossbar.notice), (Span(90_000), Span(140_000)));
        assert_eq!((crossbar.stall, crossbar.arbitration), (Span(30_303), Span::ZERO));
    }

    /// The smallest packet takes 8 cycles of 15 ns, as long as light needs for 24 m.
    #[test]
    fn a_long_cable_holds_more_than_one_packet() {
        assert!(!times("'direct'", 24).is_long && times("'direct'", 25).is_long);
        let large = times("'direct'", 24).of(Bytes(2_000));
        assert_eq!(large.link, Span(1_006 * 15_000), "it is not in the table");
    }
}
