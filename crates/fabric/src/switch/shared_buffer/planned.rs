//! Packets that wait and whose departures are known, port by port.
//!
//! In a large run most of a million packets may wait like this. Each port has a list of chunks from one pool, in large pages, of
//! which the chunk that was left last is the next to be used: ports with a few packets share what is in the cache.

use weft_kernel::{append, prefetch};
use weft_units::Time;

/// A packet that waits and whose departure is known: it leaves right behind the packets before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Planned {
    pub packet: u32,
    pub input: u32,
    pub size: u32,
    pub class: u8,
}

impl Planned {
    const NOTHING: Planned = Planned { packet: 0, input: 0, size: 0, class: 0 };
}

/// How many packets are in a chunk.
const CHUNK: usize = 15;

/// A chunk has four cache lines of its own.
#[derive(Clone, Copy, Debug)]
#[repr(C, align(64))]
struct Chunk {
    packets: [Planned; CHUNK],
    /// The next chunk of the same port, or of those that are free.
    next: u32,
}

const _: () = assert!(size_of::<Chunk>() == 256);

/// No chunk.
const NONE: u32 = u32::MAX;

/// The packets of one port.
#[derive(Clone, Copy, Debug)]
struct List {
    /// When the last one will have left.
    until: Time,
    count: u32,
    /// The chunks of the oldest and of the youngest one, and where the oldest is in the one, and the next one will be in
    /// the other.
    first: u32,
    last: u32,
    begin: u8,
    end: u8,
}

/// The packets of all ports.
#[derive(Debug)]
pub(super) struct PlannedLists {
    /// By port; empty where nothing is planned.
    lists: Vec<List>,
    chunks: Vec<Chunk>,
    free: u32,
}

impl PlannedLists {
    /// The lists of so many ports.
    pub fn new(ports: usize) -> PlannedLists {
        let list = List { until: Time::ZERO, count: 0, first: NONE, last: NONE, begin: 0, end: 0 };
        PlannedLists { lists: vec![list; ports], chunks: Vec::new(), free: NONE }
    }

    /// Whether there are no lists, since no port plans.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.lists.is_empty()
    }

    /// How many packets are planned at a port.
    #[inline]
    pub fn count(&self, port: u32) -> u32 {
        self.lists.get(port as usize).map_or(0, |list| list.count)
    }

    /// When the last packet that is planned at a port will have left, if any is.
    #[inline]
    pub fn until(&self, port: u32) -> Option<Time> {
        let list = self.lists.get(port as usize)?;
        (list.count > 0).then_some(list.until)
    }

    /// A packet is planned behind all others of a port. It will have left at `until`.
    #[inline]
    pub fn push(&mut self, port: u32, until: Time, one: Planned) {
        let Some(list) = self.lists.get_mut(port as usize) else { return };
        list.until = until;
        if list.count == 0 || usize::from(list.end) == CHUNK {
            return self.push_in_new_chunk(port, one);
        }
        list.count += 1;
        self.chunks[list.last as usize].packets[usize::from(list.end)] = one;
        list.end += 1;
    }

    #[inline(never)]
    fn push_in_new_chunk(&mut self, port: u32, one: Planned) {
        let chunk = match self.chunks.get(self.free as usize) {
            Some(next) => std::mem::replace(&mut self.free, next.next),
            None => {
                append(&mut self.chunks, Chunk { packets: [Planned::NOTHING; CHUNK], next: NONE });
                (self.chunks.len() - 1) as u32
            }
        };
        self.chunks[chunk as usize].packets[0] = one;
        let list = &mut self.lists[port as usize];
        if list.count == 0 {
            (list.first, list.begin) = (chunk, 0);
        } else {
            self.chunks[list.last as usize].next = chunk;
        }
        (list.last, list.end) = (chunk, 1);
        list.count += 1;
    }

    /// Removes the oldest packet of a port.
    #[inline]
    pub fn pop(&mut self, port: u32) -> Option<Planned> {
        let list = self.lists.get_mut(port as usize).filter(|list| list.count > 0)?;
        let chunk = &mut self.chunks[list.first as usize];
        let one = chunk.packets[usize::from(list.begin)];
        list.count -= 1;
        list.begin += 1;
        if list.count == 0 || usize::from(list.begin) == CHUNK {
            let next = std::mem::replace(&mut chunk.next, self.free);
            self.free = std::mem::replace(&mut list.first, next);
            list.begin = 0;
        }
        Some(one)
    }

    /// The packets of a port, the oldest first.
    pub fn of(&self, port: u32) -> impl Iterator<Item = Planned> {
        let list = self.lists.get(port as usize);
        let mut left = list.map_or(0, |list| list.count);
        let (mut chunk, mut place) = list.map_or((NONE, 0), |list| (list.first, list.begin));
        std::iter::from_fn(move || {
            left = left.checked_sub(1)?;
            let own = self.chunks.get(chunk as usize)?;
            let one = own.packets[usize::from(place)];
            place += 1;
            if usize::from(place) == CHUNK {
                (chunk, place) = (own.next, 0);
            }
            Some(one)
        })
    }

    /// Prefetches what events at a port need.
    #[inline]
    pub fn prefetch(&self, port: u32) {
        prefetch(&self.lists, port as usize);
    }

    /// Prefetches the places of the oldest packet of a port and of the next one to be planned there.
    #[inline]
    pub fn prefetch_ends(&self, port: u32) {
        let Some(list) = self.lists.get(port as usize) else { return };
        for (chunk, place) in [(list.first, list.begin), (list.last, list.end)] {
            if let Some(own) = self.chunks.get(chunk as usize) {
                prefetch(&own.packets, usize::from(place));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// Against a queue for each port, with more packets than a chunk holds.
        #[test]
        fn packets_leave_a_port_as_they_came(steps in prop::collection::vec((0_u32..3, 0_u32..40, 0_u32..40), 0..60)) {
            let mut lists = PlannedLists::new(3);
            let mut plain = vec![VecDeque::new(); 3];
            let mut packets = 0..;
            for (port, more, fewer) in steps {
                for packet in packets.by_ref().take(more as usize) {
                    let one = Planned { packet, input: packet + 1, size: packet + 2, class: packet as u8 % 8 };
                    let until = Time(u64::from(packet));
                    lists.push(port, until, one);
                    plain[port as usize].push_back(one);
                    prop_assert_eq!(lists.until(port), Some(until));
                }
                for _ in 0..fewer {
                    prop_assert_eq!(lists.pop(port), plain[port as usize].pop_front());
                }
                for (port, plain) in (0..).zip(&plain) {
                    prop_assert_eq!(lists.count(port) as usize, plain.len());
                    prop_assert!(lists.of(port).eq(plain.iter().copied()));
                    prop_assert_eq!(lists.until(port).is_some(), !plain.is_empty());
                }
            }
        }
    }

    /// What one port leaves another one uses.
    #[test]
    fn chunks_are_used_again() {
        let mut lists = PlannedLists::new(2);
        for _ in 0..100 {
            for port in [0, 1] {
                (0..40).for_each(|_| lists.push(port, Time::ZERO, Planned::NOTHING));
                while lists.pop(port).is_some() {}
            }
        }
        assert_eq!(lists.chunks.len(), 3);
    }
}
