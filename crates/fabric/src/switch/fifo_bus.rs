//! A switch box whose ports are FIFOs on one bus (Maestro 3.3): an analyzer at each interface finds
//! the headers of messages, a processor decides where they go, and a controller moves each message
//! from one FIFO to others over the bus, once, whatever the number of its targets.
//!
//! Choices where the paper leaves one: the bus serves the messages in flight packet by packet in
//! turn, since a message that is paced by its link would otherwise hold up the others ("SB does not
//! slow down duplex communication", 4.1). An output belongs to one message until its last packet,
//! since only the first packet says where a message goes. A message to several outputs waits until
//! all of them are free and takes them together, and no later message takes one of them before it:
//! so no two messages hold what the other one needs. Across several switch boxes this is not
//! enough, see [`MulticastStart`].

use std::collections::VecDeque;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use weft_units::{PositiveCount, Rate, Span};

use crate::interface::Forwarding;

/// Settings of a switch box with a FIFO bus.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct FifoBusSettings {
    /// The time of the processor from reading a header to ordering the transfer.
    pub analysis: Span,
    /// The time of the controller on the bus to set up the transfer of a message.
    pub set_up: Span,
    /// How fast the bus moves packets from FIFO to FIFO.
    pub rate: Rate,
    /// How many ports share an interface, and so a queue of headers, which the processor serves one
    /// after another (Maestro 3.3: two).
    pub ports_per_interface: PositiveCount,
    /// Whether a message may be moved before all of it has arrived. By default it is moved as soon
    /// as its header has been analysed, at the speed of its arrival.
    #[serde(default)]
    pub forwarding: Forwarding,
    /// Whether one transfer serves several outputs: all FIFOs are on the bus, and the selected ones
    /// copy the message at the same time (Maestro 3.3).
    #[serde(default)]
    pub multicast: bool,
    /// What such a transfer waits for if there are several switch boxes in a tree.
    #[serde(default)]
    pub multicast_start: MulticastStart,
    /// What counts the hosts that have arrived at a barrier; without a value the box has no
    /// barrier.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub barrier: Option<BarrierCounter>,
}

/// What a message to several outputs waits for besides the outputs themselves, in a tree of switch
/// boxes. In a single box it waits for nothing more, because its outputs lead to hosts, which
/// always read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum MulticastStart {
    /// Room for the whole message in the FIFO of every output, so that it never waits for room
    /// while others wait for its outputs. Messages without room let others pass, and a message
    /// longer than a FIFO is sent as copies.
    #[default]
    WithRoom,
    /// Nothing. Two such messages that begin in different boxes may each hold an output that the
    /// other one needs, and deadlock.
    AtOnce,
}

/// What counts the hosts that have arrived at a barrier.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum BarrierCounter {
    /// The switch controller, as soon as it has a request in its FIFO (Maestro 3.3).
    Controller,
    /// The processor, which analyses each request like the header of a message.
    Processor,
}

/// Headers that wait for the processor: a queue for each interface, served in turn.
#[derive(Clone, Debug)]
pub struct HeaderQueues<H> {
    queues: Vec<VecDeque<H>>,
    next: usize,
}

impl<H> HeaderQueues<H> {
    /// Empty queues of this many interfaces.
    pub fn new(interfaces: usize) -> HeaderQueues<H> {
        let queues = std::iter::repeat_with(VecDeque::new).take(interfaces.max(1)).collect();
        HeaderQueues { queues, next: 0 }
    }

    /// An analyzer has found a header.
    pub fn push(&mut self, interface: usize, header: H) {
        self.queues[interface].push_back(header);
    }

    /// The header that the processor reads next: that of the next interface with headers, in
    /// round-robin order.
    pub fn take(&mut self) -> Option<H> {
        let count = self.queues.len();
        let mut places = (self.next..count).chain(0..self.next);
        let place = places.find(|place| !self.queues[*place].is_empty())?;
        self.next = (place + 1) % count;
        self.queues[place].pop_front()
    }

    /// How many headers wait.
    pub fn len(&self) -> usize {
        self.queues.iter().map(VecDeque::len).sum()
    }

    /// Whether no header waits.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// A message that the controller is to move; `M` names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Transfer<M> {
    /// The message.
    pub message: M,
    /// The port in whose receive FIFO it is.
    pub input: u32,
    /// The pair of FIFOs that it uses at every port.
    pub channel: usize,
    /// The ports that it leaves by, a bit each.
    pub outputs: u64,
    /// Whether the bus has been set up for it.
    pub set_up: bool,
}

/// The controller: which message owns which output, and whose packet is next on the bus.
#[derive(Clone, Debug)]
pub struct BusController<M> {
    /// Orders that wait for their outputs, the oldest first.
    waiting: VecDeque<Transfer<M>>,
    /// Messages in progress.
    active: Vec<Transfer<M>>,
    /// Outputs that belong to a message in flight, by channel.
    taken: Vec<u64>,
    next: usize,
}

impl<M: Copy + PartialEq> BusController<M> {
    /// A controller of ports with this many pairs of FIFOs.
    pub fn new(channels: usize) -> BusController<M> {
        BusController {
            waiting: VecDeque::new(),
            active: Vec::new(),
            taken: vec![0; channels],
            next: 0,
        }
    }

    /// The processor orders a transfer.
    pub fn order(&mut self, transfer: Transfer<M>) {
        self.waiting.push_back(transfer);
    }

    /// Gives outputs to the orders whose message `is_first` in its FIFO and `has_room` at all of its
    /// outputs, in the order of arrival: an output for which an older order waits is not given to a
    /// younger one. An order without room blocks nothing, since younger messages may be what makes
    /// room. Returns how many began.
    pub fn begin(
        &mut self,
        is_first: impl Fn(&Transfer<M>) -> bool,
        has_room: impl Fn(&Transfer<M>) -> bool,
    ) -> usize {
        let before = self.active.len();
        let mut reserved = self.taken.clone();
        let (active, taken) = (&mut self.active, &mut self.taken);
        self.waiting.retain(|transfer| {
            let reserved = &mut reserved[transfer.channel];
            let may = is_first(transfer) && has_room(transfer);
            let begins = may && *reserved & transfer.outputs == 0;
            if may {
                *reserved |= transfer.outputs;
            }
            if begins {
                taken[transfer.channel] |= transfer.outputs;
                active.push(*transfer);
            }
            !begins
        });
        self.active.len() - before
    }

    /// The message whose packet crosses the bus next, of those that are `ready`, in round-robin
    /// order. The transfer says whether the bus must be set up for it first; that then counts as
    /// done.
    pub fn grant(&mut self, ready: impl Fn(&Transfer<M>) -> bool) -> Option<Transfer<M>> {
        let count = self.active.len();
        let mut places = (self.next.min(count)..count).chain(0..self.next.min(count));
        let place = places.find(|place| ready(&self.active[*place]))?;
        self.next = place + 1;
        let granted = self.active[place];
        self.active[place].set_up = true;
        Some(granted)
    }

    /// The last packet of a message is over: its outputs are free.
    pub fn finish(&mut self, message: M) {
        if let Some(place) = self.active.iter().position(|own| own.message == message) {
            let transfer = self.active.remove(place);
            self.taken[transfer.channel] &= !transfer.outputs;
            if place < self.next {
                self.next -= 1;
            }
        }
    }

    /// Messages in progress.
    pub fn active(&self) -> &[Transfer<M>] {
        &self.active
    }

    /// Orders that wait for their outputs, the oldest first.
    pub fn waiting(&self) -> impl Iterator<Item = &Transfer<M>> {
        self.waiting.iter()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn transfer(message: u32, input: u32, outputs: u64) -> Transfer<u32> {
        Transfer { message, input, channel: 0, outputs, set_up: false }
    }

    /// Maestro 3.3: "it accepts a new message header from each message analyzer of the four SB
    /// interfaces in a round-robin fashion".
    #[test]
    fn headers_are_read_interface_by_interface() {
        let mut queues = HeaderQueues::new(4);
        for (interface, header) in [(0, 'a'), (0, 'b'), (0, 'c'), (2, 'd'), (3, 'e')] {
            queues.push(interface, header);
        }
        let order: String = std::iter::from_fn(|| queues.take()).collect();
        assert_eq!(order, "adebc");
        assert!(queues.is_empty());
    }

    #[test]
    fn messages_share_the_bus_packet_by_packet() {
        let mut bus = BusController::new(1);
        bus.order(transfer(1, 0, 0b0010));
        bus.order(transfer(2, 1, 0b0001));
        assert_eq!(bus.begin(|_| true, |_| true), 2);
        let mut granted = Vec::new();
        for _ in 0..4 {
            let next = bus.grant(|_| true).unwrap();
            granted.push((next.message, next.set_up));
        }
        assert_eq!(granted, [(1, false), (2, false), (1, true), (2, true)]);
        bus.finish(1);
        assert_eq!(bus.grant(|_| true).map(|next| next.message), Some(2));
        assert_eq!(bus.grant(|own| own.message != 2), None);
    }

    /// A multicast waits for both outputs; a younger message for one of them does not go first,
    /// one for a third output does.
    #[test]
    fn a_multicast_takes_its_outputs_together_and_is_not_overtaken() {
        let mut bus = BusController::new(1);
        bus.order(transfer(1, 0, 0b0100));
        assert_eq!(bus.begin(|_| true, |_| true), 1);
        bus.order(transfer(2, 1, 0b1100));
        bus.order(transfer(3, 2, 0b1000));
        bus.order(transfer(4, 3, 0b0001));
        assert_eq!(bus.begin(|_| true, |_| true), 1);
        let active: Vec<u32> = bus.active().iter().map(|own| own.message).collect();
        assert_eq!(active, [1, 4]);
        bus.finish(1);
        assert_eq!(bus.begin(|_| true, |_| true), 1);
        assert_eq!(bus.active().last().map(|own| own.message), Some(2));
        let waiting: Vec<u32> = bus.waiting().map(|own| own.message).collect();
        assert_eq!(waiting, [3]);
    }

    /// If it reserved its outputs, two boxes could wait for each other: each for room towards the
    /// other one, which is behind a message for a reserved output.
    #[test]
    fn a_multicast_without_room_lets_others_pass() {
        let mut bus = BusController::new(1);
        bus.order(transfer(1, 0, 0b0110));
        bus.order(transfer(2, 1, 0b0100));
        bus.order(transfer(3, 2, 0b1000));
        let room = |own: &Transfer<u32>| own.message != 1;
        assert_eq!(bus.begin(|_| true, room), 2);
        assert_eq!(bus.begin(|_| true, |_| true), 0);
        bus.finish(2);
        assert_eq!(bus.begin(|_| true, |_| true), 1);
        assert_eq!(bus.active().last().map(|own| own.message), Some(1));
    }

    proptest! {
        /// Whatever is ordered: no output belongs to two messages, and everything is moved.
        #[test]
        fn every_order_is_carried_out_and_no_output_is_shared(
            orders in prop::collection::vec((0_u32..8, 1_u64..256), 1..40),
        ) {
            let mut bus = BusController::new(1);
            for (message, (input, outputs)) in (0..).zip(&orders) {
                bus.order(transfer(message, *input, *outputs));
            }
            for _ in 0..orders.len() {
                bus.begin(|_| true, |_| true);
                let taken = bus.active().iter().map(|own| own.outputs.count_ones()).sum::<u32>();
                let union = bus.active().iter().fold(0, |all, own| all | own.outputs);
                prop_assert_eq!(taken, union.count_ones());
                let Some(next) = bus.grant(|_| true) else { break };
                bus.finish(next.message);
            }
            prop_assert_eq!((bus.active().len(), bus.waiting().count()), (0, 0));
        }
    }
}
