//! Which message a receive takes: the oldest that fits, and the oldest receive takes it (MPI 3.1,
//! section 3.5, "Order"). Exact sender and tag are found by key; only receives that leave one of
//! them open look through the keys.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

/// What a receive accepts; an absent value accepts anything.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Wanted {
    /// The rank that sends.
    pub from: Option<u16>,
    /// The tag of the message.
    pub tag: Option<u32>,
}

/// The messages of one rank that no receive has taken, and its receives without a message.
#[derive(Debug, Default)]
pub(super) struct Matching {
    messages: Lanes,
    receives: Lanes,
    /// Receives that leave something open, oldest first.
    open: Vec<Open>,
    /// How many messages and receives there have been: their order.
    count: u64,
}

/// A receive that leaves its source or its tag open.
#[derive(Debug)]
struct Open {
    count: u64,
    wanted: Wanted,
    receive: u32,
}

impl Matching {
    /// A receive begins. Returns the message that it takes, or keeps the receive.
    pub fn receive(&mut self, wanted: Wanted, receive: u32) -> Option<u32> {
        self.count += 1;
        let message = match wanted {
            Wanted { from: Some(from), tag: Some(tag) } => self.messages.take((from, tag)),
            open => self.messages.take_oldest(open),
        };
        if message.is_some() {
            return message;
        }
        match wanted {
            Wanted { from: Some(from), tag: Some(tag) } => {
                self.receives.put((from, tag), self.count, receive);
            }
            wanted => self.open.push(Open { count: self.count, wanted, receive }),
        }
        None
    }

    /// A message has arrived. Returns the receive that takes it, or keeps the message.
    pub fn arrive(&mut self, from: u16, tag: u32, message: u32) -> Option<u32> {
        self.count += 1;
        let exact = self.receives.oldest((from, tag));
        let open = self.open.iter().position(|own| own.wanted.fits(from, tag));
        match open.filter(|place| exact.is_none_or(|count| self.open[*place].count < count)) {
            Some(place) => Some(self.open.remove(place).receive),
            None if exact.is_some() => self.receives.take((from, tag)),
            None => {
                self.messages.put((from, tag), self.count, message);
                None
            }
        }
    }
}

/// Tags from here on belong to barriers and locks; receives of any tag ignore them.
pub const RESERVED_TAGS: u32 = 0xf000_0000;

impl Wanted {
    fn fits(self, from: u16, tag: u32) -> bool {
        let fits = self.tag.map_or(tag < RESERVED_TAGS, |wanted| wanted == tag);
        fits && self.from.is_none_or(|wanted| wanted == from)
    }
}

type Key = (u16, u32);

const END: u32 = u32::MAX;

/// First in, first out for each key, all in one pool of nodes.
#[derive(Debug, Default)]
struct Lanes {
    ends: HashMap<Key, (u32, u32), BuildHasherDefault<KeyHasher>>,
    nodes: Vec<Node>,
    free: Vec<u32>,
}

#[derive(Clone, Copy, Debug)]
struct Node {
    count: u64,
    value: u32,
    behind: u32,
}

impl Lanes {
    fn put(&mut self, key: Key, count: u64, value: u32) {
        let node = Node { count, value, behind: END };
        let place = match self.free.pop() {
            Some(place) => {
                self.nodes[place as usize] = node;
                place
            }
            None => {
                self.nodes.push(node);
                (self.nodes.len() - 1) as u32
            }
        };
        match self.ends.get_mut(&key) {
            Some((_, youngest)) => {
                self.nodes[*youngest as usize].behind = place;
                *youngest = place;
            }
            None => {
                self.ends.insert(key, (place, place));
            }
        }
    }

    fn oldest(&self, key: Key) -> Option<u64> {
        if self.ends.is_empty() {
            return None;
        }
        self.ends.get(&key).map(|(oldest, _)| self.nodes[*oldest as usize].count)
    }

    fn take(&mut self, key: Key) -> Option<u32> {
        if self.ends.is_empty() {
            return None;
        }
        let (oldest, _) = self.ends.get_mut(&key)?;
        let place = *oldest;
        let Node { value, behind, .. } = self.nodes[place as usize];
        if behind == END {
            self.ends.remove(&key);
        } else {
            *oldest = behind;
        }
        self.free.push(place);
        Some(value)
    }

    /// The oldest value of any matching key. All keys are visited, so that their order in the map
    /// has no effect.
    fn take_oldest(&mut self, wanted: Wanted) -> Option<u32> {
        let fits = self.ends.iter().filter(|((from, tag), _)| wanted.fits(*from, *tag));
        let (key, _) = fits.min_by_key(|(_, (oldest, _))| self.nodes[*oldest as usize].count)?;
        let key = *key;
        self.take(key)
    }
}

/// A multiplicative hash: keys are small numbers, and the same on every machine.
#[derive(Debug, Default)]
pub(crate) struct KeyHasher(u64);

impl Hasher for KeyHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.write_u32(u32::from(*byte)));
    }

    fn write_u16(&mut self, value: u16) {
        self.write_u32(u32::from(value));
    }

    fn write_u32(&mut self, value: u32) {
        self.write_u64(value.into());
    }

    fn write_u64(&mut self, value: u64) {
        // The odd number nearest to 2^64 divided by the golden ratio (Knuth, TAOCP 3, 6.4).
        let mixed = (self.0 ^ value).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        self.0 = mixed.rotate_left(26);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn from(from: u16, tag: u32) -> Wanted {
        Wanted { from: Some(from), tag: Some(tag) }
    }

    #[test]
    fn the_oldest_message_that_fits_is_taken() {
        let mut matching = Matching::default();
        for (number, (sender, tag)) in (0..).zip([(2, 7), (1, 7), (2, 8), (2, 7)]) {
            assert_eq!(matching.arrive(sender, tag, number), None);
        }
        assert_eq!(matching.receive(from(2, 8), 0), Some(2));
        assert_eq!(matching.receive(Wanted { from: None, tag: Some(7) }, 0), Some(0));
        assert_eq!(matching.receive(Wanted { from: Some(2), tag: None }, 0), Some(3));
        assert_eq!(matching.receive(Wanted::default(), 0), Some(1));
        assert_eq!(matching.arrive(1, RESERVED_TAGS, 5), None);
        assert_eq!(matching.receive(Wanted::default(), 9), None, "a barrier's is left alone");
    }

    #[test]
    fn the_oldest_receive_takes_a_message_whether_open_or_not() {
        let mut matching = Matching::default();
        assert_eq!(matching.receive(from(1, 5), 10), None);
        assert_eq!(matching.receive(Wanted { from: Some(1), tag: None }, 11), None);
        assert_eq!(matching.receive(from(1, 5), 12), None);
        let taken: Vec<_> = (0..4).map(|number| matching.arrive(1, 5, number)).collect();
        assert_eq!(taken, [Some(10), Some(11), Some(12), None]);
        assert_eq!(matching.receive(from(1, 5), 13), Some(3));
    }
}
