//! Fixed priority with request sampling: requests that were sampled together count as equally old,
//! and all of them are served before any newer one. No request starves.

/// The requests of one arbiter, a bit for each input.
#[derive(Clone, Copy, Debug, Default)]
pub struct Sampled {
    sample: u64,
    newer: u64,
}

impl Sampled {
    #[inline]
    pub fn add(&mut self, input: usize) {
        self.newer |= 1 << input;
    }

    #[inline]
    pub fn is_empty(self) -> bool {
        self.sample | self.newer == 0
    }

    /// The input that is served next.
    #[inline]
    pub fn peek(&mut self) -> Option<usize> {
        if self.sample == 0 {
            self.sample = std::mem::take(&mut self.newer);
        }
        (self.sample != 0).then(|| self.sample.trailing_zeros() as usize)
    }

    /// Serves the next input.
    #[inline]
    pub fn take(&mut self) -> Option<usize> {
        let input = self.peek()?;
        self.sample &= self.sample - 1;
        Some(input)
    }

    /// An input was served by another rule.
    pub fn remove(&mut self, input: usize) {
        self.sample &= !(1 << input);
        self.newer &= !(1 << input);
    }

    /// All inputs, whatever the age of their requests.
    pub fn inputs(self) -> impl Iterator<Item = usize> {
        let all = self.sample | self.newer;
        (0..64).filter(move |input| all >> input & 1 == 1)
    }
}
