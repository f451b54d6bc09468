//! A switch between links with turns, from the receive FIFO of one port into the send FIFOs of others
//! (Maestro 3.3): headers are read, messages get their outputs, and packets pass one after another.
//!
//! The part has no clock and no FIFOs. The caller reports arrivals, and the part sees the FIFOs at
//! its ports through [`BoxPorts`]; it returns what is due, and after what time.

use weft_protocol::turns::CHANNELS;
use weft_units::{Bytes, Span};

use super::{BarrierCounter, BusController, FifoBusSettings, HeaderQueues};
use super::{MulticastStart, Transfer};
use crate::interface::Forwarding;

/// The properties of a switch between links with turns.
#[derive(Clone, Copy, Debug)]
pub struct BoxRules {
    /// From the arrival of a header to the order to move its message.
    pub analysis: Span,
    /// How many ports share a queue of headers for the one processor; `None` if every port analyses
    /// its own.
    pub processor: Option<usize>,
    /// The set-up time of a message before its first packet.
    pub set_up: Span,
    /// The time of a packet from FIFO to FIFO.
    pub packet: Span,
    /// Whether only one packet at a time passes the whole switch.
    pub shared: bool,
    /// When packets that have arrived may be moved on.
    pub forwarding: Forwarding,
    /// Whether one transfer serves several outputs.
    pub multicast: bool,
    /// What such a transfer waits for if there are several switches.
    pub multicast_start: MulticastStart,
    /// What counts the hosts at a barrier.
    pub barrier: Option<BarrierCounter>,
}

/// What the switch sees of the FIFOs at its ports.
pub trait BoxPorts<M> {
    /// The message whose packet is first in a receive FIFO and may be moved.
    fn front(&self, port: u32, channel: usize) -> Option<M>;
    /// For how many more packets a send FIFO has room.
    fn room(&self, port: u32, channel: usize) -> usize;
    /// How many packets a message has.
    fn packets(&self, message: M) -> usize;
}

/// What happens to a header that has arrived at a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Header {
    /// It is being read, which takes [`BoxRules::analysis`].
    Read,
    /// It waits until the processor is free.
    Waits,
    /// It need not be read: its message can be ordered at once.
    Known,
}

/// A switch with its processor and its controller; `M` names a message.
#[derive(Clone, Debug)]
pub struct SwitchBox<M> {
    rules: BoxRules,
    /// Whether a message for several outputs needs room for all of it.
    waits_for_room: bool,
    /// Headers that wait for the processor: the port that they are at, and the message.
    headers: HeaderQueues<(u32, M)>,
    analysing: bool,
    controller: BusController<M>,
    /// Inputs from which a packet is passing through the switch, by channel.
    moving: [u64; CHANNELS],
}

/// The input of messages from the controller itself, which has no such port.
pub const CONTROLLER: u32 = 63;

impl BoxRules {
    /// The rules of a box of FIFOs on one bus, with packets of a size.
    pub fn of_bus(bus: &FifoBusSettings, packet: Bytes) -> BoxRules {
        BoxRules {
            analysis: bus.analysis,
            processor: Some(bus.ports_per_interface.as_usize()),
            set_up: bus.set_up,
            packet: bus.rate.span(packet),
            shared: true,
            forwarding: bus.forwarding,
            multicast: bus.multicast,
            multicast_start: bus.multicast_start,
            barrier: bus.barrier,
        }
    }

    /// The rules of a switch in which every input routes its own messages, after a latency, and has
    /// a separate path to every output.
    pub fn of_crossbar(latency: Span) -> BoxRules {
        BoxRules {
            analysis: latency,
            processor: None,
            set_up: Span::ZERO,
            packet: Span::ZERO,
            shared: false,
            forwarding: Forwarding::Packets,
            multicast: true,
            multicast_start: MulticastStart::WithRoom,
            barrier: None,
        }
    }
}

impl<M: Copy + PartialEq> SwitchBox<M> {
    /// A switch with this many ports, alone or one of several.
    pub fn new(rules: &BoxRules, ports: u32, alone: bool) -> SwitchBox<M> {
        let per_interface = rules.processor.unwrap_or(1).max(1);
        SwitchBox {
            rules: *rules,
            waits_for_room: !alone && rules.multicast_start == MulticastStart::WithRoom,
            headers: HeaderQueues::new((ports as usize).div_ceil(per_interface)),
            analysing: false,
            controller: BusController::new(CHANNELS),
            moving: [0; CHANNELS],
        }
    }

    /// Messages and headers that have not passed.
    pub fn held(&self) -> usize {
        self.headers.len() + self.controller.active().len() + self.controller.waiting().count()
    }

    /// The first packet of a message has arrived at a port; `of_barrier` or not.
    pub fn header(&mut self, port: u32, message: M, of_barrier: bool) -> Header {
        let Some(per_interface) = self.rules.processor else { return Header::Read };
        if of_barrier && self.rules.barrier == Some(BarrierCounter::Controller) {
            return Header::Known;
        }
        self.headers.push(port as usize / per_interface.max(1), (port, message));
        if self.analysing {
            return Header::Waits;
        }
        // No header waits while the processor is free, so this is the one that is taken.
        self.headers.take();
        self.analysing = true;
        Header::Read
    }

    /// A header has been read. Returns the one that the processor reads next, if it has one to read.
    pub fn analysed(&mut self) -> Option<(u32, M)> {
        self.rules.processor?;
        let next = self.headers.take();
        self.analysing = next.is_some();
        next
    }

    /// The controller is ordered to move a message.
    pub fn order(&mut self, transfer: Transfer<M>) {
        self.controller.order(transfer);
    }

    /// Gives outputs to the messages that can begin: those that are first in their FIFOs.
    pub fn begin(&mut self, ports: &impl BoxPorts<M>) {
        let is_first = |transfer: &Transfer<M>| {
            transfer.input == CONTROLLER
                || ports.front(transfer.input, transfer.channel) == Some(transfer.message)
        };
        let waits_for_room = self.waits_for_room;
        let has_room = |transfer: &Transfer<M>| {
            let alone = transfer.outputs.count_ones() < 2;
            let room = |port: u32| ports.room(port, transfer.channel);
            let needed = || ports.packets(transfer.message);
            alone || !waits_for_room || bits(transfer.outputs).all(|port| room(port) >= needed())
        };
        self.controller.begin(is_first, has_room);
    }

    /// The next message in progress that leaves by no port: the switch keeps it, and is done with
    /// it.
    pub fn keep(&mut self) -> Option<Transfer<M>> {
        let kept = self.controller.active().iter().find(|transfer| transfer.outputs == 0).copied();
        if let Some(transfer) = kept {
            self.controller.finish(transfer.message);
        }
        kept
    }

    /// The next packet that begins to pass, if one can, and how long it takes. The caller reserves its
    /// places in the FIFOs of the outputs.
    pub fn grant(&mut self, ports: &impl BoxPorts<M>) -> Option<(Transfer<M>, Span)> {
        let (moving, shared) = (self.moving, self.rules.shared);
        let granted = self.controller.grant(|transfer| {
            let Transfer { input, channel, outputs, message, .. } = *transfer;
            let busy =
                if shared { moving != [0; CHANNELS] } else { moving[channel] >> input & 1 != 0 };
            let has = || input == CONTROLLER || ports.front(input, channel) == Some(message);
            !busy && has() && bits(outputs).all(|port| ports.room(port, channel) > 0)
        })?;
        self.moving[granted.channel] |= 1 << granted.input;
        let before = if granted.set_up { Span::ZERO } else { self.rules.set_up };
        Some((granted, before + self.rules.packet))
    }

    /// A packet has passed from an input. Returns the message that it is of.
    pub fn passed(&mut self, input: u32, channel: usize) -> Option<Transfer<M>> {
        self.moving[channel] &= !(1 << input);
        let mut active = self.controller.active().iter();
        active.find(|own| own.input == input && own.channel == channel).copied()
    }

    /// The last packet of a message has passed: its outputs are free.
    pub fn finish(&mut self, message: M) {
        self.controller.finish(message);
    }
}

/// The numbers of the bits that are set.
pub fn bits(mut set: u64) -> impl Iterator<Item = u32> {
    std::iter::from_fn(move || {
        let lowest = set.trailing_zeros();
        set &= set.wrapping_sub(1);
        (lowest < u64::BITS).then_some(lowest)
    })
}

#[cfg(test)]
mod tests {
    use weft_units::Rate;

    use super::*;

    const ANALYSIS: Span = Span::from_ns(1_900);
    const SET_UP: Span = Span::from_ns(40);

    /// The box of Maestro, with the analysis and the set-up of its Table 2 and 16 bytes in 320 ns.
    fn bus() -> BoxRules {
        let settings = FifoBusSettings {
            analysis: ANALYSIS,
            set_up: SET_UP,
            rate: Rate::from_bits_per_second(400_000_000),
            ports_per_interface: weft_units::PositiveCount::new(2).unwrap(),
            forwarding: Forwarding::Packets,
            multicast: true,
            multicast_start: MulticastStart::WithRoom,
            barrier: Some(BarrierCounter::Controller),
        };
        BoxRules::of_bus(&settings, Bytes(16))
    }

    /// What is in the receive FIFOs of four ports, with room for this many packets in each send
    /// FIFO. All is of channel 0, and messages have two packets.
    struct Four {
        fronts: [Option<char>; 4],
        room: [usize; 4],
    }

    impl BoxPorts<char> for Four {
        fn front(&self, port: u32, _: usize) -> Option<char> {
            self.fronts[port as usize]
        }

        fn room(&self, port: u32, _: usize) -> usize {
            self.room[port as usize]
        }

        fn packets(&self, _: char) -> usize {
            2
        }
    }

    fn transfer(message: char, input: u32, outputs: u64) -> Transfer<char> {
        Transfer { message, input, channel: 0, outputs, set_up: false }
    }

    fn granted(found: Option<(Transfer<char>, Span)>) -> Option<(char, u64)> {
        found.map(|(transfer, span)| (transfer.message, span.0 / 1_000))
    }

    /// One header is read at a time; those of another interface go before the second of the same.
    #[test]
    fn a_processor_reads_one_header_after_another() {
        let mut own = SwitchBox::new(&bus(), 4, true);
        let come = [(0, 'a'), (1, 'b'), (2, 'c')].map(|(port, m)| own.header(port, m, false));
        assert_eq!(come, [Header::Read, Header::Waits, Header::Waits]);
        let read = [(); 3].map(|()| own.analysed());
        assert_eq!(read, [Some((2, 'c')), Some((1, 'b')), None]);
        assert_eq!(own.header(3, 'd', false), Header::Read);
    }

    /// A barrier is the controller's, unless the processor counts.
    #[test]
    fn requests_of_a_barrier_pass_by_the_processor() {
        let mut own = SwitchBox::new(&bus(), 4, true);
        assert_eq!(own.header(0, 'a', false), Header::Read);
        assert_eq!(own.header(1, 'b', true), Header::Known);
        let rules = BoxRules { barrier: Some(BarrierCounter::Processor), ..bus() };
        assert_eq!(SwitchBox::new(&rules, 4, true).header(1, 'b', true), Header::Read);
    }

    /// Inputs of a crossbar read their headers by themselves, all at once.
    #[test]
    fn every_input_of_a_crossbar_reads_for_itself() {
        let mut own = SwitchBox::new(&BoxRules::of_crossbar(Span::from_ns(90)), 4, true);
        let come = [0, 1].map(|port| own.header(port, 'a', false));
        assert_eq!(come, [Header::Read, Header::Read]);
        assert_eq!(own.analysed(), None);
    }

    /// The first packet of a message takes 40 + 320 ns, every other one 320 ns, and messages have the
    /// bus packet by packet, one on it at a time.
    #[test]
    fn packets_have_the_bus_in_turn() {
        let mut own = SwitchBox::new(&bus(), 4, true);
        let ports = Four { fronts: [Some('a'), Some('b'), None, None], room: [4; 4] };
        own.order(transfer('a', 0, 0b0100));
        own.order(transfer('b', 1, 0b1000));
        own.begin(&ports);
        let mut seen = Vec::new();
        for input in [0, 1, 0, 1] {
            seen.extend(granted(own.grant(&ports)));
            assert_eq!(own.grant(&ports), None, "one packet is on the bus");
            assert!(own.passed(input, 0).is_some());
        }
        assert_eq!(seen, [('a', 360), ('b', 360), ('a', 320), ('b', 320)]);
    }

    /// In a crossbar each input moves a packet of its own at once, and only one.
    #[test]
    fn inputs_of_a_crossbar_move_side_by_side() {
        let mut own = SwitchBox::new(&BoxRules::of_crossbar(Span::from_ns(90)), 4, true);
        let ports = Four { fronts: [Some('a'), Some('b'), None, None], room: [4; 4] };
        own.order(transfer('a', 0, 0b0100));
        own.order(transfer('b', 1, 0b1000));
        own.begin(&ports);
        let all = [(); 3].map(|()| granted(own.grant(&ports)));
        assert_eq!(all, [Some(('a', 0)), Some(('b', 0)), None]);
    }

    /// A message waits until what is before it in its FIFO is gone, and its packets until there is
    /// room behind its output.
    #[test]
    fn a_message_waits_for_its_fifo_and_for_room() {
        let mut own = SwitchBox::new(&bus(), 4, true);
        let mut ports = Four { fronts: [Some('x'), None, None, None], room: [4, 4, 0, 4] };
        own.order(transfer('a', 0, 0b0100));
        own.begin(&ports);
        assert_eq!((own.held(), own.grant(&ports)), (1, None));
        ports.fronts[0] = Some('a');
        own.begin(&ports);
        assert_eq!(own.grant(&ports), None);
        ports.room[2] = 1;
        assert_eq!(granted(own.grant(&ports)), Some(('a', 360)));
        own.finish('a');
        assert_eq!(own.held(), 0);
    }

    /// In a tree a message of two packets for two outputs needs two places behind each of them before
    /// it begins; a box alone begins with one.
    #[test]
    fn a_multicast_needs_room_for_all_of_it_in_a_tree_alone() {
        for (alone, room, expected) in
            [(true, 1, Some(('a', 360))), (false, 1, None), (false, 2, Some(('a', 360)))]
        {
            let mut own = SwitchBox::new(&bus(), 4, alone);
            let ports = Four { fronts: [Some('a'), None, None, None], room: [4, 4, 2, room] };
            own.order(transfer('a', 0, 0b1100));
            own.begin(&ports);
            assert_eq!(granted(own.grant(&ports)), expected, "{alone} {room}");
        }
    }

    /// What leaves by no port is kept, once; what the controller says itself waits in no FIFO.
    #[test]
    fn requests_are_kept_and_answers_need_no_fifo() {
        let mut own = SwitchBox::new(&bus(), 4, true);
        let ports = Four { fronts: [Some('r'), None, None, None], room: [4; 4] };
        own.order(transfer('r', 0, 0));
        own.begin(&ports);
        assert_eq!(own.keep().map(|kept| (kept.message, kept.input)), Some(('r', 0)));
        assert_eq!(own.keep(), None);
        own.order(transfer('y', CONTROLLER, 0b1111));
        own.begin(&ports);
        assert_eq!(granted(own.grant(&ports)), Some(('y', 360)));
        assert_eq!(own.passed(CONTROLLER, 0).map(|own| own.outputs), Some(0b1111));
    }
}
