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
