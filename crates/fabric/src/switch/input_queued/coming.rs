//! The packets on the way to the inputs of a switch.

use weft_kernel::{prefetch, prefetch_all, prefetch_whole};
use weft_units::Time;

use crate::scheduler::PortSet;

/// For each input the packets that travel to it or from it to the scheduler, and when each can be
/// decided on. An input has one cable, so that they arrive in the order in which they were sent.
///
/// The size of a ring is a power of two, and its place a multiple of that, so that a packet costs no more
/// than an index and a mask. One that grows moves behind all others.
#[derive(Debug)]
pub(super) struct Coming<const W: usize> {
    rings: Box<[Ring]>,
    packets: Vec<Arrival>,
    /// When the first of all packets can be decided on, as far as that is known: not after it.
    soonest: Time,
    /// The inputs to which any come.
    inputs: PortSet<W>,
}

/// The packets in the ring of an input. The first one is stored here instead of in the ring.
#[derive(Clone, Copy, Debug)]
struct Ring {
    /// When the first one can be decided on; [`Time::NEVER`] if there is none.
    ready: Time,
    packet: u32,
    /// Its place among those of all rings.
    first: u32,
    count: u32,
    /// Its size less one.
    mask: u32,
}

/// A packet, and when it can be decided on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Arrival {
    pub ready: Time,
    pub packet: u32,
}

const NOTHING: Arrival = Arrival { ready: Time::NEVER, packet: u32::MAX };

/// How many packets the ring of an input holds at first.
const FEW: u32 = 4;

impl<const W: usize> Coming<W> {
    /// No packets on the way to this many inputs.
    pub fn new(inputs: usize) -> Coming<W> {
        let Arrival { ready, packet } = NOTHING;
        let ring = |input| Ring { ready, packet, first: input * FEW, count: 0, mask: FEW - 1 };
        Coming {
            rings: (0..inputs as u32).map(ring).collect(),
            packets: vec![NOTHING; inputs * FEW as usize],
            soonest: Time::NEVER,
            inputs: PortSet::EMPTY,
        }
    }

    /// A packet is sent to an input after all others there. Returns whether it can be decided on before
    /// all others.
    #[inline(always)]
    pub fn push(&mut self, input: usize, arrival: Arrival) -> bool {
        if self.rings[input].count > self.rings[input].mask {
            self.grow(input);
        }
        let ring = &mut self.rings[input];
        if ring.count == 0 {
            (ring.ready, ring.packet) = (arrival.ready, arrival.packet);
            self.inputs.insert(input);
        } else {
            self.packets[ring.further(ring.count) as usize] = arrival;
        }
        ring.count += 1;
        let is_first = arrival.ready < self.soonest;
        if is_first {
            self.soonest = arrival.ready;
        }
        is_first
    }

    /// The inputs to which packets come.
    #[inline]
    pub fn inputs(&self) -> PortSet<W> {
        self.inputs
    }

    /// When the first of all packets can be decided on; [`Time::NEVER`] if there is none.
    #[inline]
    pub fn soonest(&self) -> Time {
        self.soonest
    }

    /// Notes when the first of all packets that are left can be decided on.
    #[inline]
    pub fn set_soonest(&mut self, soonest: Time) {
        self.soonest = soonest;
    }

    /// When the first packet of an input can be decided on; [`Time::NEVER`] if there is none.
    #[inline]
    pub fn ready(&self, input: usize) -> Time {
        self.rings[input].ready
    }

    /// The first packet of an input, of which there must be one, leaves. Returns its number, and when the
    /// next one can be decided on.
    #[inline]
    pub fn pop(&mut self, input: usize) -> (u32, Time) {
        let ring = self.rings[input];
        debug_assert!(ring.count > 0, "no packet comes to input {input}");
        let (first, count) = (ring.further(1), ring.count.wrapping_sub(1));
        let Arrival { ready, packet } = if count > 0 {
            self.packets[first as usize]
        } else {
            self.inputs.remove(input);
            NOTHING
        };
        self.rings[input] = Ring { ready, packet, first, count, ..ring };
        (ring.packet, ready)
    }

    /// Prefetches the state of all rings.
    #[inline]
    pub fn prefetch(&self) {
        prefetch_all(&self.rings);
    }

    /// Prefetches the state of the ring of an input.
    #[inline]
    pub fn prefetch_input(&self, input: usize) {
        self.rings.get(input).into_iter().for_each(prefetch_whole);
    }

    /// Shows the first packet of each input that can be decided on at an edge, and asks the processor for the
    /// ones behind these.
    #[inline]
    pub fn each_due(&self, now: Time, mut show: impl FnMut(u32)) {
        if self.soonest > now {
            return;
        }
        for input in self.inputs {
            let ring = &self.rings[input];
            if ring.ready <= now {
                show(ring.packet);
                prefetch(&self.packets, ring.further(1) as usize);
            }
        }
    }

    /// Makes the ring of an input twice as large.
    #[cold]
    #[inline(never)]
    fn grow(&mut self, input: usize) {
        let ring = self.rings[input];
        let size = 2 * (ring.mask as usize + 1);
        let moved = self.packets.len().next_multiple_of(size);
        self.packets.resize(moved + size, NOTHING);
        for number in 0..ring.count {
            self.packets[moved + number as usize] = self.packets[ring.further(number) as usize];
        }
        self.rings[input] = Ring { first: moved as u32, mask: size as u32 - 1, ..ring };
    }
}

impl Ring {
    /// The place that is so many behind the first one.
    #[inline]
    fn further(&self, by: u32) -> u32 {
        self.first & !self.mask | self.first.wrapping_add(by) & self.mask
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use proptest::prelude::*;

    use super::*;

    /// The packets that can be decided on by a time, and when the next one can be.
    fn taken(coming: &mut Coming<1>, input: usize, now: u64) -> (Vec<u32>, Time) {
        let mut all = Vec::new();
        while coming.ready(input) <= Time(now) {
            let (packet, next) = coming.pop(input);
            assert_eq!(next, coming.ready(input));
            all.push(packet);
        }
        (all, coming.ready(input))
    }

    #[test]
    fn packets_wait_until_they_can_be_decided_on() {
        let mut coming = Coming::<1>::new(2);
        assert_eq!(taken(&mut coming, 1, 99), (vec![], Time::NEVER));
        let sent = [(10, 7), (20, 8), (30, 9)]
            .map(|(ready, packet)| coming.push(1, Arrival { ready: Time(ready), packet }));
        assert_eq!((sent, coming.soonest()), ([true, false, false], Time(10)));
        assert!(coming.push(0, Arrival { ready: Time(5), packet: 6 }));
        assert_eq!(taken(&mut coming, 0, 9), (vec![6], Time::NEVER));
        assert_eq!(coming.inputs(), PortSet::only(1));
        assert_eq!(taken(&mut coming, 1, 9), (vec![], Time(10)));
        assert_eq!(taken(&mut coming, 0, 99), (vec![], Time::NEVER));
        assert_eq!(taken(&mut coming, 1, 20), (vec![7, 8], Time(30)));
        assert_eq!(taken(&mut coming, 1, 30), (vec![9], Time::NEVER));
    }

    /// One input has 40,000 packets on the way, the others of a large switch none.
    #[test]
    fn a_ring_grows_alone() {
        let mut coming = Coming::<16>::new(1_024);
        for packet in 0..40_000 {
            coming.push(7, Arrival { ready: Time(1), packet });
        }
        assert!(coming.packets.len() < 4 * 65_536, "{}", coming.packets.len());
        assert!((0..40_000).all(|packet| coming.pop(7).0 == packet));
    }

    proptest! {
        /// Whatever was taken before a ring grew, against a queue for each input.
        #[test]
        fn every_input_keeps_its_order(
            steps in prop::collection::vec((0_usize..3, 0_u32..12, 0_u32..12), 1..60),
        ) {
            let mut coming = Coming::<1>::new(3);
            let mut plain = vec![VecDeque::new(); 3];
            let mut packet = 0;
            for (input, sent, left) in steps {
                for _ in 0..sent {
                    coming.push(input, Arrival { ready: Time(packet.into()), packet });
                    plain[input].push_back(packet);
                    packet += 1;
                }
                for _ in 0..left.min(plain[input].len() as u32) {
                    let own = coming.pop(input).0;
                    prop_assert_eq!(Some(own), plain[input].pop_front());
                    let next = plain[input].front().map_or(Time::NEVER, |own| Time(u64::from(*own)));
                    prop_assert_eq!(coming.ready(input), next);
                }
            }
            for (input, plain) in plain.into_iter().enumerate() {
                let (all, next) = taken(&mut coming, input, packet.into());
                prop_assert_eq!((all, next), (plain.into(), Time::NEVER));
            }
        }
    }
}
