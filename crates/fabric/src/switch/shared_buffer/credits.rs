//! Credits of classes: for how many bytes of each class the far end of a cable still has room.
//!
//! A credit stands for a byte of the buffer that an input has for a class. It is spent when a
//! packet starts, and returns when the last byte of the packet has left the switch, along the cable
//! and beside the packets there, as credits of virtual channels do.

/// The bit that distinguishes an event that returns credits from one of pauses.
const CREDIT: u32 = 1 << 31;

/// Where the class stands in it, above the bytes.
const CLASS_SHIFT: u32 = 28;

/// The largest buffer of an input for a class, and so the most bytes that come back at a time.
pub const MOST_CREDIT: u64 = (1 << CLASS_SHIFT) - 1;

/// Bytes of a class for which there is room again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Credit {
    /// The class.
    pub class: u8,
    /// How many bytes.
    pub size: u32,
}

/// A credit, and the input that gives it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InputCredit {
    /// The input.
    pub input: u32,
    /// What it has room for.
    pub credit: Credit,
}

/// Writes credits as the item of an event.
#[inline]
pub fn credit_item(Credit { class, size }: Credit) -> u32 {
    CREDIT | u32::from(class & 7) << CLASS_SHIFT | size & MOST_CREDIT as u32
}

/// The credits that an item brings back, unless it tells of pauses.
#[inline]
pub fn credit_of(item: u32) -> Option<Credit> {
    let class = (item >> CLASS_SHIFT & 7) as u8;
    (item & CREDIT != 0).then_some(Credit { class, size: item & MOST_CREDIT as u32 })
}

/// The credits of each port and class.
#[derive(Clone, Debug, Default)]
pub(super) struct Credits {
    /// In bytes; `u64::MAX` where the far end counts nothing. Empty where none does.
    left: Vec<u64>,
}

impl Credits {
    /// The credits with which ports begin; `None` where there is no limit.
    pub fn new(all: impl Iterator<Item = Option<u64>>) -> Credits {
        let left: Vec<u64> = all.map(|own| own.unwrap_or(u64::MAX)).collect();
        match left.iter().all(|own| *own == u64::MAX) {
            true => Credits::default(),
            false => Credits { left },
        }
    }

    /// Whether any far end counts.
    #[inline]
    pub fn are_given(&self) -> bool {
        !self.left.is_empty()
    }

    /// Whether a packet of so many bytes may start.
    #[inline]
    pub fn allow(&self, place: usize, size: u32) -> bool {
        self.left.get(place).is_none_or(|own| *own >= u64::from(size))
    }

    /// Which of the classes that are ready, a bit each, have no credit for their oldest packet;
    /// classes of a port stand behind each other from `first` on.
    #[inline]
    pub fn short(&self, first: usize, ready: u8, size: impl Fn(u8) -> u32) -> u8 {
        if self.left.is_empty() {
            return 0;
        }
        let is_short = |class: &u8| {
            ready >> class & 1 == 1 && !self.allow(first + usize::from(*class), size(*class))
        };
        (0..8).filter(is_short).fold(0, |short, class| short | 1 << class)
    }

    /// A packet starts.
    #[inline]
    pub fn spend(&mut self, place: usize, size: u32) {
        if let Some(own) = self.left.get_mut(place).filter(|own| **own != u64::MAX) {
            *own -= u64::from(size);
        }
    }

    /// Credits have come back.
    #[inline]
    pub fn give(&mut self, place: usize, size: u32) {
        if let Some(own) = self.left.get_mut(place).filter(|own| **own != u64::MAX) {
            *own += u64::from(size);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_item_says_what_it_brings_and_pauses_are_none() {
        for (class, size) in [(0, 1), (7, 1082), (3, MOST_CREDIT as u32)] {
            let credit = Credit { class, size };
            assert_eq!(credit_of(credit_item(credit)), Some(credit));
        }
        assert!((0..=255).all(|paused| credit_of(paused).is_none()));
    }

    #[test]
    fn credits_are_spent_and_come_back() {
        let mut own = Credits::new([Some(250), None].into_iter());
        let size = |_| 100;
        assert_eq!(own.short(0, 0b11, size), 0);
        own.spend(0, 100);
        own.spend(1, 100);
        own.spend(0, 100);
        // 50 are left of the first class; of the other nobody counts.
        assert_eq!(
            (own.short(0, 0b11, size), own.allow(0, 50), own.allow(0, 51)),
            (1, true, false)
        );
        assert_eq!(own.short(0, 0b10, size), 0, "it has nothing to send");
        own.give(0, 100);
        own.give(1, 100);
        assert_eq!(own.short(0, 0b11, size), 0);
        assert!(own.allow(1, u32::MAX));
        let none = Credits::new([None, None].into_iter());
        assert_eq!((none.short(0, 0b11, size), none.allow(1, 1)), (0, true));
    }
}
