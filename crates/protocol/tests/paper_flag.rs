//! The interrupt flag of the document as it stands there, as an oracle: the flags that are run
//! interrupt exactly when that one does.

#![cfg(not(loom))]
use proptest::prelude::*;
use weft_protocol::counting_flag::CountingFlag;
use weft_protocol::interrupt_flag::{InterruptFlag, Sleep};

/// A word that the adapter increments at every stimulus, with an interrupt if its most significant
/// bit was zero before (SCILAN 3.2).
#[derive(Debug)]
struct PaperFlag(u32);

impl PaperFlag {
    /// The next stimulus interrupts, and those after it do not.
    const ENABLED: u32 = 0x7fff_ffff;
    /// No stimulus interrupts, for the next 2^31.
    const DISABLED: u32 = 0x8000_0000;

    fn stimulate(&mut self) -> bool {
        let interrupts = self.0 & 0x8000_0000 == 0;
        self.0 = self.0.wrapping_add(1);
        interrupts
    }

    /// A disabled flag as a lock: whoever makes the first stimulus has it. The adapter must give
    /// back what it incremented, which the document does not say.
    fn try_lock(&mut self) -> bool {
        let before = self.0;
        self.0 = self.0.wrapping_add(1);
        before == PaperFlag::DISABLED
    }
}

#[test]
fn several_stimuli_make_one_interrupt() {
    let mut flag = PaperFlag(PaperFlag::ENABLED);
    let interrupts = [(); 4].map(|()| flag.stimulate());
    assert_eq!(interrupts, [true, false, false, false]);
    assert_eq!(flag.0, 0x8000_0003, "the others are counted and can be seen in memory");
}

/// The document leaves this open: after 2^31 stimuli its word enables interrupts by itself. The
/// flag that is run counts nothing, so that nothing wraps.
#[test]
fn the_paper_s_word_wraps_around_and_ours_does_not() {
    let mut word = PaperFlag(u32::MAX);
    assert!(!word.stimulate());
    assert!(word.stimulate(), "nobody has enabled it");
    let flag = InterruptFlag::default();
    assert!((0..100_000).all(|_| flag.stimulate().is_none()));
}

#[test]
fn a_disabled_flag_is_a_lock() {
    let mut flag = PaperFlag(PaperFlag::DISABLED);
    assert!(flag.try_lock() && !flag.try_lock() && !flag.try_lock());
    flag.0 = PaperFlag::DISABLED;
    assert!(flag.try_lock(), "it was let go");
}

#[derive(Clone, Copy, Debug)]
enum Step {
    Sleep,
    Stimulate,
    WakeByItself,
}

proptest! {
    /// A receiver enables its flag before it sleeps and disables it when it is awake again,
    /// whatever woke it.
    #[test]
    fn both_flags_interrupt_at_the_same_stimuli(
        steps in prop::collection::vec(
            prop::sample::select(vec![Step::Sleep, Step::Stimulate, Step::WakeByItself]),
            0..100,
        ),
    ) {
        let mut paper = PaperFlag(PaperFlag::DISABLED);
        let ours = InterruptFlag::default();
        let counting = CountingFlag::default();
        for step in steps {
            match step {
                Step::Sleep => {
                    paper.0 = PaperFlag::ENABLED;
                    let _ = ours.arm(Sleep::InKernel);
                    let _ = counting.enable();
                }
                Step::Stimulate => {
                    let interrupts = ours.stimulate().includes(Sleep::InKernel);
                    prop_assert_eq!(paper.stimulate(), interrupts);
                    prop_assert_eq!(counting.stimulate(), interrupts);
                }
                Step::WakeByItself => {
                    paper.0 = PaperFlag::DISABLED;
                    ours.disarm(Sleep::InKernel);
                    let _ = counting.disable();
                }
            }
            prop_assert_eq!(counting.counted(), paper.0.saturating_sub(PaperFlag::DISABLED));
        }
    }
}
