//! The interrupt flag: a word that a sender stimulates after every transfer, and that wakes the
//! receiver only if the receiver has said that it sleeps (SCILAN 3.2 and 3.5).
//!
//! In the paper an adapter increments the word and interrupts if the most significant bit was zero,
//! so that 0x7FFFFFFF means asleep and 0x80000000 upwards awake. A processor has no such adapter;
//! here the word says in which ways threads sleep, a stimulus takes all of them out together, and
//! the thread that took them out owes the wake-up. Zero is awake. The effect is the paper's: the
//! first stimulus after a sleeper went to sleep interrupts, all others cost a load.
//!
//! The paper leaves open how a wake-up is not lost. The rule is the one of Dekker's algorithm: the
//! sleeper stores the flag, fences, and looks at the ring once more before it sleeps; the
//! stimulator stores the ring's pointer, fences, and looks at the flag. At least one of the two
//! sees the other. Both fences are inside [`InterruptFlag::arm`] and [`InterruptFlag::stimulate`].

use crate::sync::{AtomicU32, Ordering, full_fence};

/// How a receiver sleeps, which determines how it must be woken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sleep {
    /// On the flag's word itself, in one blocking call: the cheapest to wake.
    OnWord,
    /// In a call that waits for the connection among others: needs an event on the connection.
    InKernel,
    /// In a call that waits for many connections: needs an event beside the connection.
    OnEvent,
}

impl Sleep {
    const fn bit(self) -> u32 {
        match self {
            Self::OnWord => 1,
            Self::InKernel => 2,
            Self::OnEvent => 4,
        }
    }
}

/// The wake-ups that a stimulus owes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[must_use = "a wake-up that is not carried out is lost: the flag no longer asks for it"]
pub struct Wake(u32);

impl Wake {
    /// Whether everybody was awake.
    pub const fn is_none(self) -> bool {
        self.0 == 0
    }

    /// Whether sleepers of this kind must be woken.
    pub const fn includes(self, sleep: Sleep) -> bool {
        self.0 & sleep.bit() != 0
    }
}

/// The flag, on cache lines of its own. All bits zero is awake.
#[derive(Debug, Default)]
#[repr(C, align(128))]
pub struct InterruptFlag {
    word: AtomicU32,
}

impl InterruptFlag {
    const KNOWN: u32 = Sleep::OnWord.bit() | Sleep::InKernel.bit() | Sleep::OnEvent.bit();

    /// Announces that a thread is about to sleep. The caller must look at the ring once more after
    /// this and before it sleeps. Sleepers of several kinds may be armed together; an unnecessary
    /// wake-up costs one system call.
    ///
    /// Returns the value of the word to sleep on.
    #[inline]
    pub fn arm(&self, sleep: Sleep) -> u32 {
        let before = self.word.fetch_or(sleep.bit(), Ordering::Relaxed);
        full_fence();
        before | sleep.bit()
    }

    /// Whether this kind of sleeper is armed already, so that nothing need be stored.
    #[inline]
    pub fn is_armed(&self, sleep: Sleep) -> bool {
        self.word.load(Ordering::Relaxed) & sleep.bit() != 0
    }

    /// Removes one kind of sleeping, for a receiver that was woken by something else and knows that
    /// no other thread sleeps in this way: what arrives while it is awake then interrupts nothing.
    #[inline]
    pub fn disarm(&self, sleep: Sleep) {
        if self.is_armed(sleep) {
            self.word.fetch_and(!sleep.bit(), Ordering::Relaxed);
        }
    }

    /// To be called after every change that the other side may wait for. Takes all sleepers out
    /// and returns the wake-ups that the caller must now carry out. Bits that no sleep uses are
    /// ignored: the word is in the other side's reach.
    #[inline]
    pub fn stimulate(&self) -> Wake {
        if self.is_armed_after_change() { self.take() } else { Wake(0) }
    }

    /// The first half of a stimulus: whether a thread may sleep that has not seen the change.
    #[inline]
    pub fn is_armed_after_change(&self) -> bool {
        full_fence();
        self.word.load(Ordering::Relaxed) != 0
    }

    /// The second half of a stimulus, if the first half returned true: takes all sleepers, which
    /// the caller must then wake.
    #[inline]
    pub fn take(&self) -> Wake {
        Wake(self.word.swap(0, Ordering::AcqRel) & Self::KNOWN)
    }

    /// Makes threads that have armed the flag, and do not sleep on the word yet, check once more
    /// instead of sleeping: the word has another value from now on. To be called after the change
    /// that they must see. Sleepers sleep on, and the next thread that stimulates the flag still
    /// owes them the wake-up.
    pub fn let_look_again(&self) {
        full_fence();
        // Beyond the bits of sleeps, which a stimulus clears with them.
        self.word.fetch_add(0x100, Ordering::Relaxed);
    }

    /// The word to sleep on, for [`Sleep::OnWord`].
    pub const fn word(&self) -> &AtomicU32 {
        &self.word
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn only_the_first_stimulus_after_a_sleeper_went_to_sleep_owes_a_wake_up() {
        let flag = InterruptFlag::default();
        assert!(flag.stimulate().is_none());
        assert_eq!(flag.arm(Sleep::OnWord), 1);
        assert!(flag.is_armed(Sleep::OnWord));
        let wake = flag.stimulate();
        assert!(wake.includes(Sleep::OnWord) && !wake.includes(Sleep::InKernel));
        assert!(flag.stimulate().is_none());
    }

    #[test]
    fn two_kinds_of_sleepers_are_both_woken_by_one_stimulus() {
        let flag = InterruptFlag::default();
        assert_eq!(flag.arm(Sleep::InKernel), 2);
        assert_eq!(flag.arm(Sleep::OnWord), 3);
        let wake = flag.stimulate();
        assert!(wake.includes(Sleep::OnWord) && wake.includes(Sleep::InKernel));
    }

    #[test]
    fn a_receiver_that_woke_by_itself_is_not_woken_again() {
        let flag = InterruptFlag::default();
        flag.arm(Sleep::OnEvent);
        flag.arm(Sleep::OnWord);
        flag.disarm(Sleep::OnEvent);
        let wake = flag.stimulate();
        assert!(wake.includes(Sleep::OnWord) && !wake.includes(Sleep::OnEvent));
    }

    #[test]
    fn who_is_about_to_sleep_looks_again_and_is_owed_the_wake_up_all_the_same() {
        let flag = InterruptFlag::default();
        let value = flag.arm(Sleep::OnWord);
        flag.let_look_again();
        let now = flag.word().load(Ordering::Relaxed);
        assert_ne!(now, value, "it would sleep on");
        assert_eq!(flag.arm(Sleep::OnWord), now);
        assert!(flag.stimulate().includes(Sleep::OnWord));
        assert!(flag.stimulate().is_none());
    }

    #[test]
    fn garbage_in_the_word_asks_for_nothing() {
        let flag = InterruptFlag::default();
        flag.word().store(0xffff_fff0, Ordering::Relaxed);
        assert!(flag.stimulate().is_none());
        assert_eq!(flag.word().load(Ordering::Relaxed), 0);
    }
}
