//! Credits: the space that the far end of a cable is known to have.

/// The credits of one cable, or of one virtual channel on it, at the near end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Credits {
    left: u32,
    all: u32,
}

impl Credits {
    /// One for each cell that the buffer at the far end can hold.
    pub const fn new(all: u32) -> Credits {
        Credits { left: all, all }
    }

    /// Spends a credit for a cell that is sent. `false` if there is none: nothing may be sent.
    #[inline]
    pub fn spend(&mut self) -> bool {
        let may_send = self.left > 0;
        self.left -= u32::from(may_send);
        may_send
    }

    /// A credit has returned. `false` if none was spent: the far end has made one up.
    #[inline]
    pub fn restore(&mut self) -> bool {
        let was_spent = self.left < self.all;
        self.left += u32::from(was_spent);
        was_spent
    }

    /// How many there are.
    #[inline]
    pub const fn left(&self) -> u32 {
        self.left
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_more_is_spent_than_there_is_and_none_is_made_up() {
        let mut credits = Credits::new(2);
        assert_eq!([credits.spend(), credits.spend(), credits.spend()], [true, true, false]);
        assert_eq!([credits.restore(), credits.restore(), credits.restore()], [true, true, false]);
        assert_eq!(credits.left(), 2);
    }
}
