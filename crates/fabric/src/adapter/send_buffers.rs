//! The send buffers of a host as a scheduler sees them: kept apart by target.

use std::collections::VecDeque;

use weft_units::{PositiveCount, Time};

use super::{AdapterSettings, Feed, PacketQueue};
use crate::workload::Demand;

/// The packets of one host that wait for a slot (Clint 4.1, Figure 7).
///
/// A packet is *buffered* once it has a send buffer; only buffered packets are requested from a
/// scheduler. The others wait in the packet queue.
#[derive(Clone, Debug)]
pub struct SendBuffers {
    /// The buffered packets, by target.
    buffered: Vec<VecDeque<Buffered>>,
    /// `None` if send buffers are unlimited, in all and per target, and nothing ever waits for one.
    limited: Option<Limited>,
}

#[derive(Clone, Debug)]
struct Limited {
    free: u32,
    queue: PacketQueue<Time>,
}

/// A packet in a send buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Buffered {
    /// When it was submitted.
    pub generated: Time,
    /// When it got its buffer.
    pub since: Time,
}

impl SendBuffers {
    /// Empty buffers of one host in a network of `ports` hosts.
    pub fn new(settings: &AdapterSettings, ports: usize) -> SendBuffers {
        let count = settings.send_buffers.count().map(PositiveCount::get);
        // There may be a limit per target where there is none for all together.
        let count = count.or((settings.feed != Feed::Fifo).then_some(u32::MAX));
        let queue = || PacketQueue::new(&settings.feed, ports);
        let limited = count.map(|free| Limited { free, queue: queue() });
        SendBuffers { buffered: vec![VecDeque::new(); ports], limited }
    }

    /// Accepts a packet from the workload. Returns the target that becomes requested by it, if one
    /// does.
    // Called once for each size of switch, so that a mere hint leaves a call for each packet.
    #[inline(always)]
    pub fn accept(&mut self, demand: Demand) -> Option<usize> {
        let Some(limited) = &mut self.limited else {
            let packet = Buffered { generated: demand.time, since: demand.time };
            return self.buffer(demand.target as u16, packet);
        };
        limited.queue.push(demand.target as u16, demand.time);
        self.refill(demand.time)
    }

    /// Takes the oldest buffered packet for `target` out for transmission, and says whether the
    /// target is still requested. The buffer stays occupied until [`SendBuffers::release`]. `None`
    /// if nothing is buffered for the target.
    #[inline]
    pub fn take(&mut self, target: usize) -> Option<(Buffered, bool)> {
        let queue = &mut self.buffered[target];
        let packet = queue.pop_front()?;
        Some((packet, !queue.is_empty()))
    }

    /// Whether the number of buffers is limited; without a limit nothing is ever released.
    pub fn is_limited(&self) -> bool {
        self.limited.is_some()
    }

    /// Whether a packet submitted now would have a send buffer; never if they are unlimited, since
    /// a source that fills free buffers would not come to an end.
    pub fn has_space(&self) -> bool {
        let limited = self.limited.as_ref();
        limited.is_some_and(|limited| limited.free > 0 && limited.queue.is_empty())
    }

    /// Frees the buffer of a packet for `target` at `now` and moves the next waiting packet, if
    /// one may, into it. Returns the target that is newly requested through that.
    #[inline]
    pub fn release(&mut self, now: Time, target: usize) -> Option<usize> {
        let limited = self.limited.as_mut()?;
        limited.free += 1;
        limited.queue.left_buffer(target as u16);
        self.refill(now)
    }

    /// Packets that have not been taken, buffered or waiting.
    pub fn backlog(&self) -> u64 {
        let buffered: usize = self.buffered.iter().map(VecDeque::len).sum();
        let waiting = self.limited.as_ref().map_or(0, |limited| limited.queue.len());
        (buffered + waiting) as u64
    }

    #[inline]
    fn refill(&mut self, now: Time) -> Option<usize> {
        let limited = self.limited.as_mut()?;
        if limited.free == 0 {
            return None;
        }
        let (target, generated) = limited.queue.take()?;
        limited.free -= 1;
        self.buffer(target, Buffered { generated, since: now.max(generated) })
    }

    #[inline]
    fn buffer(&mut self, target: u16, packet: Buffered) -> Option<usize> {
        let queue = &mut self.buffered[usize::from(target)];
        queue.push_back(packet);
        (queue.len() == 1).then_some(usize::from(target))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::adapter::{Insertion, PerTargetSettings};
    use weft_units::Limit;

    fn buffers(count: u32, feed: Feed) -> SendBuffers {
        let settings = AdapterSettings {
            send_buffers: Limit::at_most(count).expect("positive"),
            feed,
            release: None,
            acknowledgments: Insertion::Wait,
            throttle: None,
            transport: None,
        };
        SendBuffers::new(&settings, 4)
    }

    fn buffered(generated: u64, since: u64) -> Buffered {
        Buffered { generated: Time(generated), since: Time(since) }
    }

    fn packet(time: u64, target: u32) -> Demand {
        Demand { time: Time(time), target }
    }

    #[test]
    fn a_fifo_feed_hides_what_stands_behind_a_blocked_packet() {
        let mut host = buffers(2, Feed::Fifo);
        assert_eq!(host.accept(packet(1, 3)), Some(3));
        assert_eq!(host.accept(packet(2, 3)), None, "requested already");
        assert_eq!(host.accept(packet(3, 1)), None, "waits for a buffer");
        assert_eq!(host.take(1), None);
        assert_eq!(host.take(3), Some((buffered(1, 1), true)));
        assert_eq!(host.backlog(), 2);
        assert_eq!(host.release(Time(9), 3), Some(1), "the waiting packet has a buffer now");
        assert_eq!(host.take(1), Some((buffered(3, 9), false)));
    }

    #[test]
    fn a_feed_with_a_limit_per_target_lets_others_pass() {
        let limit = PositiveCount::ONE;
        let mut host = buffers(2, Feed::PerTarget(PerTargetSettings { limit }));
        assert_eq!(host.accept(packet(1, 3)), Some(3));
        assert_eq!(host.accept(packet(2, 3)), None);
        assert_eq!(host.accept(packet(3, 1)), Some(1), "target 3 is at its limit");
        assert_eq!(host.take(3), Some((buffered(1, 1), false)));
        assert_eq!(host.release(Time(9), 3), Some(3), "the second packet for target 3 moves up");
    }
}
