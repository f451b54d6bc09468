//! Head-of-line blocking in front of the send buffers in host memory (Clint 3.1): messages that
//! wait although no buffer holds a message for their target.

use weft_units::{Span, Time};

/// The messages of one host, by target: those that wait for a send buffer, and those in one.
#[derive(Debug)]
pub(super) struct HeadOfLine {
    targets: Vec<OfTarget>,
    blocked: u64,
    since: Time,
    /// Summed over messages, until `since`.
    time: Span,
}

#[derive(Clone, Copy, Debug, Default)]
struct OfTarget {
    waiting: u64,
    held: u64,
}

impl HeadOfLine {
    pub fn new(targets: u16) -> HeadOfLine {
        let targets = vec![OfTarget::default(); usize::from(targets)];
        HeadOfLine { targets, blocked: 0, since: Time::ZERO, time: Span::ZERO }
    }

    /// A message waits for a buffer.
    pub fn wait(&mut self, now: Time, target: u16) {
        self.change(now, target, |own| own.waiting += 1);
    }

    /// A message that waited is in a buffer.
    pub fn hold(&mut self, now: Time, target: u16) {
        self.change(now, target, |own| {
            own.waiting -= 1;
            own.held += 1;
        });
    }

    /// A buffer is free again.
    pub fn release(&mut self, now: Time, target: u16) {
        self.change(now, target, |own| own.held -= 1);
    }

    /// For how long messages have been blocked until `now`, summed over them.
    pub fn until(&self, now: Time) -> Span {
        self.time + now.since(self.since) * self.blocked
    }

    fn change(&mut self, now: Time, target: u16, change: impl FnOnce(&mut OfTarget)) {
        self.time = self.until(now);
        self.since = now;
        let own = &mut self.targets[usize::from(target)];
        let before = own.blocked();
        change(own);
        self.blocked = self.blocked - before + own.blocked();
    }
}

impl OfTarget {
    fn blocked(self) -> u64 {
        if self.held == 0 { self.waiting } else { 0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A host with one buffer. Two messages for target 0 and one for target 1 come at once: the
    /// first is in the buffer from 0 to 10, the second from 10 to 30, and behind it the third is
    /// blocked for all of the 30; then it is in the buffer itself.
    #[test]
    fn a_message_is_blocked_while_buffers_hold_none_for_its_target() {
        let mut line = HeadOfLine::new(2);
        [0, 0, 1].into_iter().for_each(|target| line.wait(Time(0), target));
        line.hold(Time(0), 0);
        line.release(Time(10), 0);
        line.hold(Time(10), 0);
        assert_eq!(line.until(Time(10)), Span(10));
        assert_eq!(line.until(Time(17)), Span(17));
        line.release(Time(30), 0);
        line.hold(Time(30), 1);
        line.release(Time(50), 1);
        assert_eq!(line.until(Time(99)), Span(30));
    }
}
