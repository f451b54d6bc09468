//! Packets that wait and whose departures are known, port by port.
//!
//! In a large run most of a million packets may wait like this. Each port has a list of chunks from one pool, in large
//! pages, of which the chunk that was left last is the next to be used: ports with a few packets share what is in the
//! cache.

use weft_kernel::{append, prefetch};

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

/// How many of them are in a line of the cache.
const IN_LINE: usize = 4;

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

/// The packets of one port: the place of the oldest one, and the place behind the youngest one. A place is the number
/// of its chunk times [`PLACES`], plus its number in the chunk. Whoever holds the list knows whether it is empty.
#[derive(Clone, Copy, Debug)]
pub(super) struct PlannedList {
    first: u32,
    end: u32,
}

impl PlannedList {
    /// No packet.
    pub const EMPTY: PlannedList = PlannedList { first: 0, end: 0 };
}

/// How many places the numbers of a chunk allow for: those that it has, and one behind the last of them.
const PLACES: u32 = CHUNK as u32 + 1;

/// The chunk of a place, and the place in it.
#[inline]
fn in_chunk(place: u32) -> (usize, usize) {
    ((place / PLACES) as usize, (place % PLACES) as usize)
}

/// The chunks of the lists of all ports.
#[derive(Debug)]
pub(super) struct PlannedPackets {
    chunks: Vec<Chunk>,
    free: u32,
}

impl PlannedPackets {
    /// No chunks.
    pub const fn new() -> PlannedPackets {
        PlannedPackets { chunks: Vec::new(), free: NONE }
    }

    /// A packet is planned behind all others of a list, which may have none.
    #[inline]
    pub fn push(&mut self, list: &mut PlannedList, is_empty: bool, one: Planned) {
        let (chunk, place) = in_chunk(list.end);
        if is_empty || place == CHUNK {
            return self.push_in_new_chunk(list, is_empty, one);
        }
        self.chunks[chunk].packets[place] = one;
        list.end += 1;
    }

    /// Prefetches the packets that leave a port first; it need not have any.
    #[inline]
    pub fn prefetch(&self, list: PlannedList) {
        let (chunk, place) = in_chunk(list.first);
        if let Some(chunk) = self.chunks.get(chunk) {
            prefetch(&chunk.packets, place);
            prefetch(&chunk.packets, place + IN_LINE);
        }
    }

    /// Prefetches the line of the cache behind that of a packet that leaves. Packets of long lists have left the cache
    /// since they came.
    #[inline(always)]
    fn prefetch_behind(&self, chunk: usize, place: usize) {
        let Some(chunk) = self.chunks.get(chunk) else { return };
        prefetch(&chunk.packets, place + IN_LINE);
        if place == CHUNK - IN_LINE {
            prefetch(&self.chunks, chunk.next as usize);
        }
    }

    #[inline(never)]
    fn push_in_new_chunk(&mut self, list: &mut PlannedList, is_empty: bool, one: Planned) {
        let chunk = match self.chunks.get(self.free as usize) {
            Some(next) => std::mem::replace(&mut self.free, next.next),
            None => {
                append(&mut self.chunks, Chunk { packets: [Planned::NOTHING; CHUNK], next: NONE });
                (self.chunks.len() - 1) as u32
            }
        };
        self.chunks[chunk as usize].packets[0] = one;
        match is_empty {
            true => list.first = chunk * PLACES,
            false => self.chunks[in_chunk(list.end).0].next = chunk,
        }
        list.end = chunk * PLACES + 1;
    }

    /// Removes the oldest packet of a list that has any, and returns whether that was the last one.
    #[inline]
    pub fn pop(&mut self, list: &mut PlannedList) -> (Planned, bool) {
        let (number, place) = in_chunk(list.first);
        self.prefetch_behind(number, place);
        let chunk = &mut self.chunks[number];
        let one = chunk.packets[place];
        list.first += 1;
        let is_last = list.first == list.end;
        if is_last || place + 1 == CHUNK {
            let next = std::mem::replace(&mut chunk.next, self.free);
            self.free = number as u32;
            list.first = next.wrapping_mul(PLACES);
        }
        (one, is_last)
    }

    /// How many packets a list has that has any.
    pub fn count(&self, list: PlannedList) -> u32 {
        let ((mut chunk, begin), (last, end)) = (in_chunk(list.first), in_chunk(list.end));
        let mut places = end;
        while chunk != last {
            places += CHUNK;
            chunk = self.chunks[chunk].next as usize;
        }
        (places - begin) as u32
    }

    /// The packets of a list that has any, the oldest first.
    pub fn of(&self, list: PlannedList) -> impl Iterator<Item = Planned> {
        let mut next = list.first;
        std::iter::from_fn(move || {
            let (chunk, place) = in_chunk(next);
            if next == list.end {
                return None;
            }
            let own = self.chunks.get(chunk)?;
            next = if place + 1 == CHUNK && next + 1 != list.end {
                own.next * PLACES
            } else {
                next + 1
            };
            own.packets.get(place).copied()
        })
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
        fn packets_leave_a_port_as_they_came(
            steps in prop::collection::vec((0_usize..3, 0_u32..40, 0_u32..40), 0..60),
        ) {
            let mut pool = PlannedPackets::new();
            let mut lists = [PlannedList::EMPTY; 3];
            let mut plain = [const { VecDeque::new() }; 3];
            let mut packets = 0..;
            for (port, more, fewer) in steps {
                for packet in packets.by_ref().take(more as usize) {
                    let one = Planned { packet, input: packet + 1, size: packet + 2, class: packet as u8 % 8 };
                    pool.push(&mut lists[port], plain[port].is_empty(), one);
                    plain[port].push_back(one);
                }
                for _ in 0..fewer {
                    let Some(oldest) = plain[port].pop_front() else { break };
                    prop_assert_eq!(pool.pop(&mut lists[port]), (oldest, plain[port].is_empty()));
                }
                for (list, plain) in lists.iter().zip(&plain).filter(|own| !own.1.is_empty()) {
                    prop_assert_eq!(pool.count(*list) as usize, plain.len());
                    prop_assert!(pool.of(*list).eq(plain.iter().copied()));
                }
            }
        }
    }

    /// What one port leaves another one uses.
    #[test]
    fn chunks_are_used_again() {
        let mut pool = PlannedPackets::new();
        let mut lists = [PlannedList::EMPTY; 2];
        for _ in 0..100 {
            for list in &mut lists {
                (0..40).for_each(|count| pool.push(list, count == 0, Planned::NOTHING));
                while !pool.pop(list).1 {}
            }
        }
        assert_eq!(pool.chunks.len(), 3);
    }
}
