//! The host's packet queue of unlimited length, and in what order it feeds the send buffers.

use std::collections::VecDeque;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use weft_units::PositiveCount;

/// In what order packets move from the packet queue into send buffers.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Feed {
    /// In order of generation (Clint 4.1).
    #[default]
    Fifo,
    /// In order of generation, but a target that occupies its share of the send buffers is skipped
    /// (the method that Clint 3.1 outlines for future work).
    PerTarget(PerTargetSettings),
}

/// Settings of a feed with a limit per target.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PerTargetSettings {
    /// How many send buffers packets for one target may occupy.
    pub limit: PositiveCount,
}

/// Packets that wait for a send buffer, each with its target.
#[derive(Clone, Debug)]
pub struct PacketQueue<T> {
    order: Waiting<T>,
    length: usize,
}

#[derive(Clone, Debug)]
enum Waiting<T> {
    Fifo(VecDeque<(u16, T)>),
    PerTarget(PerTarget<T>),
}

/// One queue per target, so that skipping a target costs nothing however many of its packets wait.
#[derive(Clone, Debug)]
struct PerTarget<T> {
    queues: Vec<VecDeque<(u64, T)>>,
    buffered: Vec<u32>,
    limit: u32,
    pushed: u64,
}

impl<T> PacketQueue<T> {
    /// An empty queue of packets for `targets` hosts.
    pub fn new(feed: &Feed, targets: usize) -> PacketQueue<T> {
        let order = match feed {
            Feed::Fifo => Waiting::Fifo(VecDeque::new()),
            Feed::PerTarget(settings) => Waiting::PerTarget(PerTarget {
                queues: std::iter::repeat_with(VecDeque::new).take(targets).collect(),
                buffered: vec![0; targets],
                limit: settings.limit.get(),
                pushed: 0,
            }),
        };
        PacketQueue { order, length: 0 }
    }

    /// Appends a packet.
    #[inline]
    pub fn push(&mut self, target: u16, packet: T) {
        self.length += 1;
        match &mut self.order {
            Waiting::Fifo(queue) => queue.push_back((target, packet)),
            Waiting::PerTarget(queues) => {
                queues.queues[usize::from(target)].push_back((queues.pushed, packet));
                queues.pushed += 1;
            }
        }
    }

    /// Removes the packet that moves into a send buffer next, if one may.
    #[inline]
    pub fn take(&mut self) -> Option<(u16, T)> {
        let taken = match &mut self.order {
            Waiting::Fifo(queue) => queue.pop_front(),
            Waiting::PerTarget(queues) => queues.take(),
        };
        self.length -= usize::from(taken.is_some());
        taken
    }

    /// Records that a packet for `target` has left its send buffer.
    #[inline]
    pub fn left_buffer(&mut self, target: u16) {
        if let Waiting::PerTarget(queues) = &mut self.order {
            queues.buffered[usize::from(target)] -= 1;
        }
    }

    /// How many packets wait.
    pub fn len(&self) -> usize {
        self.length
    }

    /// Whether no packet waits.
    pub fn is_empty(&self) -> bool {
        self.length == 0
    }
}

impl<T> PerTarget<T> {
    fn take(&mut self) -> Option<(u16, T)> {
        let limit = self.limit;
        let target = self
            .queues
            .iter()
            .zip(&self.buffered)
            .enumerate()
            .filter(|(_, (_, buffered))| **buffered < limit)
            .filter_map(|(target, (queue, _))| queue.front().map(|(order, _)| (*order, target)))
            .min()
            .map(|(_, target)| target)?;
        let (_, packet) = self.queues[target].pop_front()?;
        self.buffered[target] += 1;
        Some((target as u16, packet))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_target_at_its_limit_is_skipped_until_a_packet_leaves() {
        let limit = PositiveCount::new(2).expect("positive");
        let mut queue = PacketQueue::new(&Feed::PerTarget(PerTargetSettings { limit }), 3);
        for (target, packet) in [(1, 'a'), (1, 'b'), (1, 'c'), (2, 'd'), (1, 'e')] {
            queue.push(target, packet);
        }
        assert_eq!(queue.take(), Some((1, 'a')));
        assert_eq!(queue.take(), Some((1, 'b')));
        assert_eq!(queue.take(), Some((2, 'd')), "target 1 is at its limit");
        assert_eq!(queue.take(), None);
        queue.left_buffer(1);
        assert_eq!(queue.take(), Some((1, 'c')));
        assert_eq!(queue.len(), 1);
    }

    #[test]
    fn a_fifo_feed_never_skips() {
        let mut queue = PacketQueue::new(&Feed::Fifo, 3);
        for (target, packet) in [(1, 'a'), (1, 'b'), (2, 'c')] {
            queue.push(target, packet);
        }
        let taken: Vec<_> = std::iter::from_fn(|| queue.take()).collect();
        assert_eq!(taken, [(1, 'a'), (1, 'b'), (2, 'c')]);
        assert!(queue.is_empty());
    }
}
