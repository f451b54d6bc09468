//! The send buffers of a host on a globally scheduled channel: what it requests and what it sends.

use std::collections::VecDeque;

use weft_units::Time;

use super::{AdapterSettings, PacketQueue, Release};

/// A packet of the bulk channel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BulkPacket {
    /// The target.
    pub target: u16,
    /// Its sequence number within the pair.
    pub sequence: u64,
    /// When it was submitted.
    pub generated: Time,
    /// When it got its send buffer on the adapter.
    pub buffered: Time,
    /// When its first transmission started, once it has.
    pub first: Option<Time>,
    /// How often it has been sent since it was last submitted.
    pub attempts: u32,
}

/// The send buffers of one host, by target.
#[derive(Debug)]
pub struct BulkSender {
    queue: PacketQueue<Time>,
    /// How many buffers are free; `None` if they are unlimited.
    free: Option<u32>,
    release: Release,
    ready: Vec<VecDeque<BulkPacket>>,
    /// The next number by target.
    numbers: Vec<u64>,
}

impl BulkSender {
    /// Empty buffers of one host among `hosts`.
    pub fn new(settings: &AdapterSettings, hosts: usize) -> BulkSender {
        BulkSender {
            queue: PacketQueue::new(&settings.feed, hosts),
            free: settings.send_buffers.count().map(|count| count.get()),
            release: settings.release.unwrap_or(Release::Transmission),
            ready: vec![VecDeque::new(); hosts],
            numbers: vec![0; hosts],
        }
    }

    /// Accepts a packet from the host.
    pub fn offer(&mut self, now: Time, target: u16) {
        self.queue.push(target, now);
        self.fill(now);
    }

    /// The targets with a packet in a send buffer, one bit each.
    pub fn requests(&self) -> u64 {
        let full = self.ready.iter().enumerate().filter(|(_, packets)| !packets.is_empty());
        full.fold(0, |set, (target, _)| set | 1 << target)
    }

    /// Takes the oldest packet for `target`, which is sent now.
    pub fn start(&mut self, now: Time, target: u16) -> Option<BulkPacket> {
        let mut packet = self.ready[usize::from(target)].pop_front()?;
        packet.attempts = packet.attempts.saturating_add(1);
        packet.first = packet.first.or(Some(now));
        if self.release == Release::Transmission {
            self.free_buffer(now, target);
        }
        Some(packet)
    }

    /// A packet is done with: delivered or given up.
    pub fn finish(&mut self, now: Time, packet: &BulkPacket) {
        if self.release == Release::Acknowledgment {
            self.free_buffer(now, packet.target);
        }
    }

    /// A packet must be retransmitted, before all later ones of its pair.
    pub fn again(&mut self, packet: BulkPacket) {
        let ready = &mut self.ready[usize::from(packet.target)];
        let place = ready.partition_point(|other| other.sequence < packet.sequence);
        ready.insert(place, packet);
    }

    /// The packets in send buffers that are not being transmitted.
    pub fn ready(&self) -> impl Iterator<Item = &BulkPacket> {
        self.ready.iter().flatten()
    }

    /// Whether a packet submitted now would have a send buffer immediately.
    pub fn has_space(&self) -> bool {
        self.free != Some(0) && self.queue.is_empty()
    }

    /// How many packets wait for a send buffer.
    pub fn waiting(&self) -> usize {
        self.queue.len()
    }

    fn free_buffer(&mut self, now: Time, target: u16) {
        if let Some(free) = &mut self.free {
            *free += 1;
        }
        self.queue.left_buffer(target);
        self.fill(now);
    }

    /// Moves packets from the packet queue into buffers that are free.
    fn fill(&mut self, now: Time) {
        while self.free != Some(0) {
            let Some((target, generated)) = self.queue.take() else { return };
            if let Some(free) = &mut self.free {
                *free -= 1;
            }
            let number = &mut self.numbers[usize::from(target)];
            let packet = BulkPacket {
                target,
                sequence: *number,
                generated,
                buffered: now,
                first: None,
                attempts: 0,
            };
            *number += 1;
            self.ready[usize::from(target)].push_back(packet);
        }
    }
}

#[cfg(test)]
mod tests {
    use weft_units::Limit;

    use super::*;
    use crate::adapter::{Feed, Insertion};

    fn sender(release: Release) -> BulkSender {
        let settings = AdapterSettings {
            send_buffers: Limit::at_most(2).expect("positive"),
            feed: Feed::Fifo,
            release: Some(release),
            acknowledgments: Insertion::Wait,
            throttle: None,
            transport: None,
        };
        BulkSender::new(&settings, 4)
    }

    #[test]
    fn a_packet_sent_again_goes_before_later_ones_and_keeps_its_number() {
        let mut sender = sender(Release::Acknowledgment);
        (0..3).for_each(|time| sender.offer(Time(time), 3));
        assert_eq!((sender.requests(), sender.waiting()), (0b1000, 1));
        let first = sender.start(Time(5), 3).expect("a packet");
        assert_eq!((first.sequence, first.attempts), (0, 1));
        assert_eq!(sender.waiting(), 1, "the buffer is kept");
        sender.again(first);
        let again = sender.start(Time(9), 3).expect("a packet");
        assert_eq!((again.sequence, again.attempts, again.first), (0, 2, Some(Time(5))));
        sender.finish(Time(11), &first);
        assert_eq!((sender.waiting(), sender.ready().count()), (0, 2));
        let buffered: Vec<Time> = sender.ready().map(|packet| packet.buffered).collect();
        assert_eq!(buffered, [Time(1), Time(11)], "the third took the buffer of the first");
    }

    #[test]
    fn a_buffer_released_at_transmission_is_filled_at_once() {
        let mut sender = sender(Release::Transmission);
        (0..3).for_each(|time| sender.offer(Time(time), 1));
        sender.start(Time(3), 1).expect("a packet");
        assert_eq!((sender.waiting(), sender.ready().count()), (0, 2));
    }
}
