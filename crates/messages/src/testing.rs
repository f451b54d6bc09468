//! What tests of hostile and killed processes share.

/// The variable that multiplies the rounds of these tests: `make test-hostile TIMES=100`.
const TIMES: &str = "WEFT_TEST_TIMES";

/// This many rounds, or as many times more as the environment says.
pub fn rounds(few: u64) -> u64 {
    let times = std::env::var(TIMES).ok().and_then(|value| value.parse::<u64>().ok());
    few * times.unwrap_or(1)
}

/// Xorshift: the same numbers each time.
pub struct Random(pub u64);

impl Random {
    /// The next number.
    pub fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }
}

impl Default for Random {
    fn default() -> Self {
        Self(88_172_645_463_325_252)
    }
}

/// What is done in few instructions: see `endpoint/short.rs`.
#[derive(Clone, Copy, Debug)]
pub enum Shortcut {
    Sent,
    Posted,
    Received,
}

thread_local! {
    static TAKEN: std::cell::Cell<[usize; 3]> = const { std::cell::Cell::new([0; 3]) };
}

/// This thread has sent, posted or received in few instructions.
pub fn took(which: Shortcut) {
    let mut taken = TAKEN.get();
    taken[which as usize] += 1;
    TAKEN.set(taken);
}

/// How often this thread has sent, posted and received so since it was asked last.
pub fn taken() -> [usize; 3] {
    TAKEN.take()
}
