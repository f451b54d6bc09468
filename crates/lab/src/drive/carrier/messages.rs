//! The messages in a channel: which packets belong to each, and how many of them are where.
//!
//! A driver that knows the message of each packet says so ([`Messages::start`],
//! [`Messages::arrive`]). A driver whose packets of a pair start and arrive in order says only to
//! which pair a packet belongs ([`Messages::start_next`], [`Messages::arrive_next`]), and needs no
//! room for a message in its packets.

use weft_units::{Bytes, Time};

use super::{Destination, Message, Notice, Ticket};

/// A message in flight to one target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::drive) struct MessageId(u32);

impl MessageId {
    /// No message.
    pub const NONE: MessageId = MessageId(u32::MAX);

    /// Its number, as an event carries it.
    pub fn number(self) -> u32 {
        self.0
    }

    /// The message with a number.
    pub fn of(number: u32) -> MessageId {
        MessageId(number)
    }

    fn place(self) -> usize {
        self.0 as usize
    }
}

/// All messages of a channel that have not been sent and delivered.
#[derive(Debug)]
pub(in crate::drive) struct Messages {
    payload: Bytes,
    held: Vec<Held>,
    free: Vec<MessageId>,
    /// The pairs that ever had a message, by initiator, in ascending order of the target.
    lanes: Vec<Vec<Lane>>,
    /// How many copies of each multicast message have not been sent. There are few, searched in
    /// order.
    multicasts: Vec<(Ticket, u32)>,
    notices: Vec<Notice>,
}

#[derive(Clone, Copy, Debug)]
struct Held {
    ticket: Ticket,
    from: u16,
    to: u16,
    /// Packets that have not started, and packets that have neither arrived nor been given up.
    unsent: u32,
    missing: u32,
    /// The number of its first packet in the pair, and how many packets it has.
    first: u32,
    packets: u32,
    multicast: bool,
    lost: bool,
    /// Whether its `Sent` has been reported, and its end.
    left: bool,
    ended: bool,
    /// The next message of the pair.
    behind: MessageId,
}

/// The messages of one pair that have not arrived.
#[derive(Clone, Copy, Debug)]
struct Lane {
    to: u16,
    oldest: MessageId,
    youngest: MessageId,
    /// The oldest one that has packets to start.
    starting: MessageId,
    /// Packets submitted so far.
    numbered: u32,
}

impl Messages {
    /// No messages, in a channel of `hosts` whose packets carry `payload`.
    pub fn new(hosts: usize, payload: Bytes) -> Messages {
        Messages {
            payload: payload.max(Bytes(1)),
            held: Vec::new(),
            free: Vec::new(),
            lanes: vec![Vec::new(); hosts],
            multicasts: Vec::new(),
            notices: Vec::new(),
        }
    }

    /// Adds a message, and reports for every target how many packets it has.
    pub fn post(&mut self, message: Message, mut tell: impl FnMut(MessageId, u16, u32)) {
        let Message { from, to, size, ticket } = message;
        let packets = size.0.div_ceil(self.payload.0).clamp(1, u64::from(u32::MAX)) as u32;
        let copies = to.hosts().count() as u32;
        if copies > 1 {
            self.multicasts.push((ticket, copies));
        }
        for to in to.hosts() {
            debug_assert!(from != to, "host {from} sends to itself over a channel");
            let held = Held {
                ticket,
                from,
                to,
                unsent: packets,
                missing: packets,
                first: 0,
                packets,
                multicast: copies > 1,
                lost: false,
                left: false,
                ended: false,
                behind: MessageId::NONE,
            };
            let id = self.insert(held);
            self.append(id, from, to, packets);
            tell(id, to, packets);
        }
    }

    fn insert(&mut self, held: Held) -> MessageId {
        match self.free.pop() {
            Some(id) => {
                self.held[id.place()] = held;
                id
            }
            None => {
                self.held.push(held);
                MessageId((self.held.len() - 1) as u32)
            }
        }
    }

    fn append(&mut self, id: MessageId, from: u16, to: u16, packets: u32) {
        let lane = self.lane(from, to);
        let (before, first) = (lane.youngest, lane.numbered);
        lane.youngest = id;
        lane.numbered = first.wrapping_add(packets);
        if lane.oldest == MessageId::NONE {
            lane.oldest = id;
        }
        if lane.starting == MessageId::NONE {
            lane.starting = id;
        }
        self.held[id.place()].first = first;
        if before != MessageId::NONE {
            self.held[before.place()].behind = id;
        }
    }

    fn lane(&mut self, from: u16, to: u16) -> &mut Lane {
        let lanes = &mut self.lanes[usize::from(from)];
        let place = lanes.binary_search_by_key(&to, |lane| lane.to).unwrap_or_else(|place| {
            let none = MessageId::NONE;
            let lane = Lane { to, oldest: none, youngest: none, starting: none, numbered: 0 };
            lanes.insert(place, lane);
            place
        });
        &mut lanes[place]
    }

    /// The next packet of a pair starts for the first time. Returns its message if it is the last
    /// one of it; [`Messages::sent`] is then to be called when its last byte has left.
    pub fn start_next(&mut self, from: u16, to: u16) -> Option<MessageId> {
        let id = self.lane(from, to).starting;
        if id == MessageId::NONE {
            return None;
        }
        let last = self.start(id);
        if last {
            self.lane(from, to).starting = self.held[id.place()].behind;
        }
        last.then_some(id)
    }

    /// A packet of a message starts for the first time. Returns whether it was the last one.
    pub fn start(&mut self, id: MessageId) -> bool {
        let held = &mut self.held[id.place()];
        held.unsent -= 1;
        held.unsent == 0
    }

    /// The last byte of a message has left its initiator.
    pub fn sent(&mut self, now: Time, id: MessageId) {
        let Held { ticket, multicast, ended, .. } = self.held[id.place()];
        self.held[id.place()].left = true;
        if ended {
            self.free.push(id);
        }
        if multicast {
            let copies = self.multicasts.iter_mut().find(|(other, _)| *other == ticket);
            if let Some((_, copies)) = copies {
                *copies -= 1;
                if *copies > 0 {
                    return;
                }
            }
            self.multicasts.retain(|(_, copies)| *copies > 0);
        }
        self.notices.push(Notice::Sent { time: now, ticket });
    }

    /// A packet of a message has reached its target, in any order.
    pub fn arrive(&mut self, now: Time, id: MessageId) {
        let held = &mut self.held[id.place()];
        held.missing -= 1;
        if held.missing == 0 {
            let (from, to) = (held.from, held.to);
            self.end_in_order(now, from, to);
        }
    }

    /// The next `count` packets of a pair have reached their target.
    pub fn arrive_next(&mut self, now: Time, from: u16, to: u16, count: u32) {
        for _ in 0..count {
            let oldest = self.lane(from, to).oldest;
            if oldest != MessageId::NONE {
                self.arrive(now, oldest);
            }
        }
    }

    /// The packet of this number in a pair is given up.
    pub fn lose(&mut self, now: Time, from: u16, to: u16, number: u32) {
        if let Some(id) = self.numbered(from, to, number) {
            self.give_up(now, id);
        }
    }

    /// The packet of this number in a pair has reached its target, in any order.
    pub fn arrive_numbered(&mut self, now: Time, from: u16, to: u16, number: u32) {
        if let Some(id) = self.numbered(from, to, number) {
            self.arrive(now, id);
        }
    }

    /// The message in flight to which the packet of this number among those of a pair belongs.
    fn numbered(&mut self, from: u16, to: u16, number: u32) -> Option<MessageId> {
        let mut id = self.lane(from, to).oldest;
        while id != MessageId::NONE {
            let held = &self.held[id.place()];
            if number.wrapping_sub(held.first) < held.packets {
                return Some(id);
            }
            id = held.behind;
        }
        None
    }

    /// A packet of a message is given up, in any order.
    pub fn give_up(&mut self, now: Time, id: MessageId) {
        self.held[id.place()].lost = true;
        self.arrive(now, id);
    }

    /// The message of a pair in flight with this name.
    fn named(&mut self, from: u16, to: u16, ticket: Ticket) -> Option<MessageId> {
        let mut id = self.lane(from, to).oldest;
        while id != MessageId::NONE && self.held[id.place()].ticket != ticket {
            id = self.held[id.place()].behind;
        }
        Some(id).filter(|id| *id != MessageId::NONE)
    }

    /// The last byte of a message has left its initiator, for all of its targets that it names.
    pub fn sent_to(&mut self, now: Time, from: u16, to: Destination, ticket: Ticket) {
        for to in to.hosts() {
            if let Some(id) = self.named(from, to, ticket) {
                self.sent(now, id);
            }
        }
    }

    /// A message of one packet is at one of its targets, or given up.
    pub fn end_named(&mut self, now: Time, from: u16, to: u16, ticket: Ticket, lost: bool) {
        match self.named(from, to, ticket) {
            Some(id) if lost => self.give_up(now, id),
            Some(id) => self.arrive(now, id),
            None => {}
        }
    }

    /// Appends another notice for now.
    pub fn tell(&mut self, notice: Notice) {
        self.notices.push(notice);
    }

    /// A message that has just been posted, the only one of its pair, is refused as a whole.
    pub fn refuse(&mut self, now: Time, id: MessageId) {
        let held = &mut self.held[id.place()];
        let (from, to, behind) = (held.from, held.to, held.behind);
        (held.unsent, held.missing, held.lost) = (0, 0, true);
        self.lane(from, to).starting = behind;
        self.sent(now, id);
        self.end_in_order(now, from, to);
    }

    /// Reports the oldest messages of a pair that are complete.
    fn end_in_order(&mut self, now: Time, from: u16, to: u16) {
        loop {
            let id = self.lane(from, to).oldest;
            if id == MessageId::NONE || self.held[id.place()].missing > 0 {
                return;
            }
            let held = &mut self.held[id.place()];
            held.ended = true;
            let Held { ticket, behind, lost, left, .. } = *held;
            let lane = self.lane(from, to);
            lane.oldest = behind;
            if behind == MessageId::NONE {
                lane.youngest = MessageId::NONE;
            }
            if left {
                self.free.push(id);
            }
            self.notices.push(if lost {
                Notice::Lost { time: now, ticket, to }
            } else {
                Notice::Delivered { time: now, ticket, to }
            });
        }
    }

    /// How many packets of a message have not started.
    pub fn unsent(&self, id: MessageId) -> u32 {
        self.held[id.place()].unsent
    }

    /// For each message by its number, how many packets have not started and how many have not
    /// arrived.
    pub fn left(&self) -> Vec<[u32; 2]> {
        self.held.iter().map(|own| [own.unsent, own.missing]).collect()
    }

    /// Starts and delivers again, this many times, what has started and arrived since the counts
    /// `before`; no message is completed by that.
    pub fn go_on(&mut self, before: &[[u32; 2]], times: u32) {
        for (own, [unsent, missing]) in self.held.iter_mut().zip(before) {
            own.unsent -= (unsent - own.unsent) * times;
            own.missing -= (missing - own.missing) * times;
        }
    }

    /// The ticket of a message in flight.
    #[cfg(test)]
    fn ticket(&self, id: MessageId) -> Ticket {
        self.held[id.place()].ticket
    }

    /// Whether all accepted messages have been sent, and delivered or given up.
    pub fn is_empty(&self) -> bool {
        self.held.len() == self.free.len()
    }

    /// The time of the oldest notice that has not been taken.
    pub fn next_notice(&self) -> Option<Time> {
        self.notices.first().map(|notice| notice.time())
    }

    /// Appends the notices.
    pub fn take_notices(&mut self, notices: &mut Vec<Notice>) {
        notices.append(&mut self.notices);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn post(messages: &mut Messages, to: Destination, size: u64, ticket: u64) -> Vec<MessageId> {
        let mut ids = Vec::new();
        let message = Message { from: 0, to, size: Bytes(size), ticket: Ticket(ticket) };
        messages.post(message, |id, _, _| ids.push(id));
        assert!(ids.iter().all(|id| messages.ticket(*id) == Ticket(ticket)));
        ids
    }

    fn notices(messages: &mut Messages) -> Vec<Notice> {
        let mut notices = Vec::new();
        messages.take_notices(&mut notices);
        notices
    }

    #[test]
    fn a_message_waits_for_the_earlier_ones_of_its_pair() {
        let mut messages = Messages::new(2, Bytes(10));
        let first = post(&mut messages, Destination::Host(1), 11, 1)[0];
        let second = post(&mut messages, Destination::Host(1), 0, 2)[0];
        assert!(!messages.start(first) && messages.start(first) && messages.start(second));
        messages.arrive(Time(5), second);
        messages.arrive(Time(6), first);
        assert_eq!(notices(&mut messages), []);
        messages.arrive(Time(7), first);
        let delivered = |ticket| Notice::Delivered { time: Time(7), ticket: Ticket(ticket), to: 1 };
        assert_eq!(notices(&mut messages), [delivered(1), delivered(2)]);
    }

    #[test]
    fn packets_told_by_pair_belong_to_the_oldest_message() {
        let mut messages = Messages::new(2, Bytes(10));
        let ids = [20, 10].map(|size| post(&mut messages, Destination::Host(1), size, size)[0]);
        assert_eq!(messages.start_next(0, 1), None);
        assert_eq!(messages.start_next(0, 1), Some(ids[0]));
        assert_eq!(messages.start_next(0, 1), Some(ids[1]));
        assert_eq!(messages.start_next(0, 1), None);
        messages.lose(Time(3), 0, 1, 2);
        assert_eq!(notices(&mut messages), [], "lost, but after the first in order");
        messages.arrive_next(Time(4), 0, 1, 2);
        let first = Notice::Delivered { time: Time(4), ticket: Ticket(20), to: 1 };
        let second = Notice::Lost { time: Time(4), ticket: Ticket(10), to: 1 };
        assert_eq!(notices(&mut messages), [first, second]);
    }

    #[test]
    fn a_packet_told_by_its_number_is_one_of_its_own_message() {
        let mut messages = Messages::new(2, Bytes(10));
        for size in [20, 10] {
            post(&mut messages, Destination::Host(1), size, size);
        }
        messages.arrive_numbered(Time(3), 0, 1, 2);
        messages.arrive_numbered(Time(4), 0, 1, 1);
        assert_eq!(notices(&mut messages), [], "the first packet is missing");
        messages.arrive_numbered(Time(5), 0, 1, 0);
        let delivered = |ticket| Notice::Delivered { time: Time(5), ticket: Ticket(ticket), to: 1 };
        assert_eq!(notices(&mut messages), [delivered(20), delivered(10)]);
    }

    #[test]
    fn a_multicast_is_sent_when_its_last_copy_is() {
        let mut messages = Messages::new(4, Bytes(10));
        let ids = post(&mut messages, Destination::Hosts(0b1010), 1, 9);
        messages.sent(Time(1), ids[0]);
        assert_eq!(notices(&mut messages), []);
        messages.sent(Time(2), ids[1]);
        assert_eq!(notices(&mut messages), [Notice::Sent { time: Time(2), ticket: Ticket(9) }]);
    }

    #[test]
    fn places_are_used_again() {
        let mut messages = Messages::new(2, Bytes(10));
        for round in 0..100 {
            let id = post(&mut messages, Destination::Host(1), 5, round)[0];
            assert_eq!(messages.start_next(0, 1), Some(id));
            messages.sent(Time(round), id);
            messages.arrive_next(Time(round), 0, 1, 1);
        }
        assert_eq!(messages.held.len(), 1);
    }
}
