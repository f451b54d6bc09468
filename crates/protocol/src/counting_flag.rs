//! The interrupt flag as its document has it: a word that the adapter of the receiver increments at
//! every stimulus, with an interrupt if its most significant bit was zero before (SCILAN 3.2, 3.5).
//!
//! [`crate::interrupt_flag`] interrupts at the same stimuli and counts nothing, which a processor
//! without such an adapter does with one load. This word counts, and has room for 2^31 stimuli: a
//! receiver that stays awake for more is interrupted nevertheless. The document says nothing of
//! that.

use crate::sync::{AtomicU32, Ordering, exchange, full_fence};

/// The word. The owner of the memory writes it with plain stores; others stimulate it.
#[derive(Debug)]
pub struct CountingFlag {
    word: AtomicU32,
}

impl Default for CountingFlag {
    /// Disabled: its owner is awake.
    fn default() -> CountingFlag {
        CountingFlag { word: AtomicU32::new(CountingFlag::DISABLED) }
    }
}

impl CountingFlag {
    /// The next stimulus interrupts, and those after it do not.
    pub const ENABLED: u32 = 0x7fff_ffff;
    /// No stimulus interrupts, for the next 2^31.
    pub const DISABLED: u32 = 0x8000_0000;

    /// Says that the owner is about to sleep. It must look at what it waits for once more after this
    /// and before it sleeps. Returns what had been counted until now.
    pub fn enable(&self) -> u32 {
        let before = self.word.swap(CountingFlag::ENABLED, Ordering::AcqRel);
        full_fence();
        counted(before)
    }

    /// Says that the owner is awake. Returns what had been counted until now.
    pub fn disable(&self) -> u32 {
        counted(self.word.swap(CountingFlag::DISABLED, exchange()))
    }

    /// The adapter's reaction to a write through the special mapping. Returns whether it interrupts.
    pub fn stimulate(&self) -> bool {
        full_fence();
        self.word.fetch_add(1, Ordering::AcqRel) < CountingFlag::DISABLED
    }

    /// How many stimuli have not interrupted since the flag was disabled, by its owner or by the
    /// stimulus that did: the value in the owner's memory.
    pub fn counted(&self) -> u32 {
        counted(self.word.load(Ordering::Acquire))
    }

    /// A disabled flag as a lock (3.4, 3.5): the first stimulus takes it, until
    /// [`CountingFlag::disable`]. The adapter must return the value before the increment, which the
    /// document does not say.
    pub fn try_lock(&self) -> bool {
        self.word.fetch_add(1, exchange()) == CountingFlag::DISABLED
    }
}

/// A word below [`CountingFlag::DISABLED`] is enabled, and has counted nothing.
fn counted(word: u32) -> u32 {
    word.saturating_sub(CountingFlag::DISABLED)
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    /// SCILAN 3.2: 0x7FFFFFFF, the first stimulus interrupts and sets the most significant bit, the
    /// others remain visible.
    #[test]
    fn the_first_stimulus_interrupts_and_the_others_are_counted() {
        let flag = CountingFlag::default();
        assert!(!flag.stimulate() && !flag.stimulate());
        assert_eq!(flag.enable(), 2, "both came while nobody slept");
        assert_eq!(flag.counted(), 0);
        assert_eq!([(); 4].map(|()| flag.stimulate()), [true, false, false, false]);
        assert_eq!(flag.word.load(Ordering::Relaxed), 0x8000_0003);
        assert_eq!(flag.counted(), 3);
        assert_eq!(flag.disable(), 3);
        assert!(!flag.stimulate());
    }

    /// The document leaves it open: nobody has enabled the flag, and it interrupts.
    #[test]
    fn after_so_many_stimuli_the_word_wraps_around() {
        let flag = CountingFlag { word: AtomicU32::new(u32::MAX) };
        assert!(!flag.stimulate());
        assert_eq!(flag.counted(), 0);
        assert!(flag.stimulate());
    }

    #[test]
    fn a_disabled_flag_is_a_lock() {
        let flag = CountingFlag::default();
        assert!(flag.try_lock() && !flag.try_lock() && !flag.try_lock());
        assert_eq!(flag.disable(), 3, "those who failed are counted, too");
        assert!(flag.try_lock());
    }
}
