//! The fate of packets on a path when one of them is damaged (MEMORY CHANNEL Ordering Rules).
//!
//! Hardware discards everything behind the damaged packet, so that no target takes a packet while
//! it misses an older one of the path. Pages marked enabled-under-error go on, for the traffic with
//! which software recovers the network. When the path is recovered, senders first send again what
//! was lost, in order.

/// The state of a path, at its receiving end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum PathState {
    /// Packets are accepted.
    #[default]
    Normal,
    /// A damaged packet came: what follows is discarded, and software does not know yet.
    Discarding,
    /// Software recovers the path over the marked pages; all else is discarded still.
    Recovering,
    /// Recovery failed too often: the error is nonrecoverable, and the standby network takes over.
    Failed,
}

/// The fate of a packet that arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Admission {
    /// It is taken.
    Accept,
    /// It is discarded because it follows a damaged one.
    Discard,
    /// It is damaged itself.
    Damaged,
}

/// The receiving end of a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Path {
    state: PathState,
    /// Damaged packets of recovery traffic that are left before the error is nonrecoverable.
    left: u8,
    tries: u8,
}

impl Path {
    /// A path without error; recovery traffic may be damaged `tries` times in one recovery.
    pub const fn new(tries: u8) -> Path {
        Path { state: PathState::Normal, left: tries, tries }
    }

    /// The state.
    pub const fn state(&self) -> PathState {
        self.state
    }

    /// A packet comes; `whole` is the verdict of its check code, `under_error` the attribute of its
    /// page at this end.
    pub fn arrive(&mut self, whole: bool, under_error: bool) -> Admission {
        match (self.state, whole) {
            (PathState::Normal, true) => Admission::Accept,
            (PathState::Normal, false) => {
                self.state = PathState::Discarding;
                Admission::Damaged
            }
            (PathState::Recovering, false) => {
                self.left = self.left.saturating_sub(1);
                if self.left == 0 {
                    self.state = PathState::Failed;
                }
                Admission::Damaged
            }
            (_, false) => Admission::Damaged,
            (PathState::Discarding | PathState::Recovering, true) if under_error => {
                Admission::Accept
            }
            (_, true) => Admission::Discard,
        }
    }

    /// Software has seen the error. Returns whether there was one to recover from.
    pub fn recover(&mut self) -> bool {
        let found = self.state == PathState::Discarding;
        if found {
            self.state = PathState::Recovering;
        }
        found
    }

    /// All nodes agree on what was lost: ordinary traffic goes on, lost packets first. Returns
    /// whether the path was being recovered.
    pub fn resume(&mut self) -> bool {
        let found = self.state == PathState::Recovering;
        if found {
            *self = Path::new(self.tries);
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::explore::explore;

    #[test]
    fn an_error_its_recovery_and_the_traffic_between() {
        let mut path = Path::new(2);
        assert_eq!(path.arrive(true, false), Admission::Accept);
        assert_eq!(path.arrive(false, false), Admission::Damaged);
        assert_eq!(path.arrive(true, false), Admission::Discard);
        assert_eq!(path.arrive(true, true), Admission::Accept);
        assert!(!path.resume(), "software has not seen the error yet");
        assert!(path.recover() && !path.recover());
        assert_eq!(path.arrive(true, false), Admission::Discard);
        assert!(path.resume());
        assert_eq!(path.arrive(true, false), Admission::Accept);
    }

    #[test]
    fn recovery_traffic_that_is_damaged_again_and_again_fails_the_path() {
        let mut path = Path::new(2);
        path.arrive(false, false);
        path.recover();
        assert_eq!(path.arrive(false, true), Admission::Damaged);
        assert_eq!(path.state(), PathState::Recovering);
        path.arrive(false, true);
        assert_eq!(path.state(), PathState::Failed);
        assert_eq!(path.arrive(true, true), Admission::Discard);
        assert!(!path.recover() && !path.resume());
    }

    /// Whatever comes in whatever state: no ordinary packet is taken between a damaged one and the
    /// end of its recovery.
    #[test]
    fn nothing_ordinary_passes_behind_an_error() {
        let states = explore((Path::new(2), false), |(path, missing)| {
            let mut next = Vec::new();
            for (whole, under_error) in [(true, false), (true, true), (false, false), (false, true)]
            {
                let mut path = *path;
                let admission = path.arrive(whole, under_error);
                assert!(!(*missing && admission == Admission::Accept && !under_error));
                next.push((path, *missing || admission == Admission::Damaged));
            }
            let mut recovering = *path;
            recovering.recover();
            next.push((recovering, *missing));
            let mut resumed = *path;
            let missing = *missing && !resumed.resume();
            next.push((resumed, missing));
            next
        });
        assert_eq!(states.len(), 5);
    }
}
