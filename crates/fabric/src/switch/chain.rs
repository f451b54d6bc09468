//! Linked lists of waiting packets.

/// A queue of packets by number: the oldest and the youngest. The successor of each packet is
/// stored in one array for all packets, since each is in one queue at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Chain {
    oldest: u32,
    youngest: u32,
}

/// No packet.
const NOBODY: u32 = u32::MAX;

impl Chain {
    /// The empty queue.
    pub const EMPTY: Chain = Chain { oldest: NOBODY, youngest: NOBODY };

    /// The queue of one packet.
    #[inline]
    pub fn of_one(packet: u32) -> Chain {
        Chain { oldest: packet, youngest: packet }
    }

    /// Both ends as one number, for who keeps them where threads can see them.
    #[inline]
    pub fn bits(self) -> u64 {
        u64::from(self.oldest) | u64::from(self.youngest) << 32
    }

    /// The chain with such a number.
    #[inline]
    pub fn of_bits(bits: u64) -> Chain {
        Chain { oldest: bits as u32, youngest: (bits >> 32) as u32 }
    }

    /// Whether the queue is empty.
    #[inline]
    pub fn is_empty(self) -> bool {
        self.oldest == NOBODY
    }

    /// The packet that leaves next.
    #[inline]
    pub fn oldest(self) -> Option<u32> {
        (!self.is_empty()).then_some(self.oldest)
    }

    /// Appends a packet. Returns whether the queue was empty.
    #[inline]
    pub fn push(&mut self, packet: u32, behind: &mut [u32]) -> bool {
        let is_first = self.is_empty();
        if is_first {
            self.oldest = packet;
        } else {
            behind[self.youngest as usize] = packet;
        }
        self.youngest = packet;
        is_first
    }

    /// The oldest packet leaves.
    #[inline]
    pub fn pop(&mut self, behind: &[u32]) -> Option<u32> {
        let oldest = self.oldest()?;
        if oldest == self.youngest {
            *self = Chain::EMPTY;
        } else {
            self.oldest = behind[oldest as usize];
        }
        Some(oldest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packets_of_two_queues_leave_in_the_order_in_which_they_came() {
        let mut behind = [0; 6];
        let (mut one, mut other) = (Chain::EMPTY, Chain::EMPTY);
        assert_eq!((one.pop(&behind), one.push(4, &mut behind)), (None, true));
        assert!(other.push(0, &mut behind) && !one.push(2, &mut behind));
        assert!(!other.push(5, &mut behind) && !one.push(3, &mut behind));
        assert_eq!([one.pop(&behind), one.pop(&behind)], [Some(4), Some(2)]);
        assert!(!one.push(4, &mut behind));
        assert_eq!(
            [one.pop(&behind), one.pop(&behind), one.pop(&behind)],
            [Some(3), Some(4), None]
        );
        assert_eq!(
            [other.pop(&behind), other.oldest(), other.pop(&behind)],
            [Some(0), Some(5), Some(5)]
        );
        assert!(one.is_empty() && other.is_empty());
    }

    #[test]
    fn a_chain_is_kept_as_one_number() {
        let mut behind = [0; 9];
        let mut chain = Chain::EMPTY;
        assert_eq!(Chain::of_bits(chain.bits()), chain);
        chain.push(7, &mut behind);
        chain.push(1 << 31, &mut behind[..]);
        assert_eq!(chain.bits(), 7 | 1 << 63);
        assert_eq!(Chain::of_bits(chain.bits()), chain);
    }
}
