//! Connections in simulated time: messages between libraries travel like those of programs, which
//! wait for them (SCILAN 3.4).

use weft_protocol::sockets::SetUp;
use weft_units::{Span, Time};

use super::libraries::{Follows, Verdict};
use super::{Due, Held, HostPath};
use crate::drive::carrier::{Carrier, Destination, Message, Notice, Ticket};

/// What must be done for a connection; the caller decides when.
#[derive(Clone, Copy, Debug)]
pub(super) enum Step {
    /// The first host tries to lock the receiver of the second one.
    Lock(u16, u16),
    /// The receiver of a host is free again.
    Unlock(u16),
    /// The program of a host accepts what waits.
    Accept(u16),
    /// The first host has mapped the buffer of the second one, and says this.
    Accepted(u16, u16, SetUp),
    /// The first host has mapped the buffer of the second one, which accepted.
    Mapped(u16, u16),
}

impl<C: Carrier> HostPath<C> {
    /// A message of a program to one host goes, waits for a connection, or falls through.
    pub(super) fn judge(&mut self, now: Time, number: u32, to: u16, notices: &mut Vec<Notice>) {
        let from = self.messages.get(number).from;
        let Some(libraries) = &mut self.libraries else { return self.enter(now, number, notices) };
        match libraries.judge(now, from, to, number) {
            Verdict::Goes => self.enter(now, number, notices),
            Verdict::Waits { first: false } => {}
            Verdict::Waits { first: true } => {
                let lock = libraries.settings().lock;
                self.due.push(now + lock, Due::SetUp(Step::Lock(from, to)));
            }
            Verdict::Falls => self.fall(now, number, to, notices),
        }
    }

    /// What is due for a connection.
    pub(super) fn set_up(&mut self, now: Time, step: Step, notices: &mut Vec<Notice>) {
        let Some(libraries) = &mut self.libraries else { return };
        match step {
            Step::Lock(from, to) => {
                if !libraries.lock(to) {
                    let again = now + libraries.settings().lock;
                    self.due.push(again, Due::SetUp(step));
                } else if let Some(request) = libraries.request(from, to) {
                    self.say(now, from, to, request, notices);
                }
            }
            Step::Unlock(to) => libraries.unlock(to),
            Step::Accept(host) => self.accept(now, host),
            Step::Accepted(host, peer, said) => {
                libraries.accepted(host);
                let waited = libraries.open(now, host, peer, false);
                debug_assert!(waited.is_empty(), "its own request brings an answer of its own");
                self.say(now, host, peer, said, notices);
                self.accept(now, host);
            }
            Step::Mapped(from, to) => {
                for number in libraries.open(now, from, to, true) {
                    let offered = self.messages.get(number).offered;
                    if now >= self.from {
                        self.connecting.add(now.since(offered));
                    }
                    self.enter(now, number, notices);
                }
            }
        }
    }

    /// A message to a host is complete in its memory.
    pub(super) fn heard(
        &mut self,
        now: Time,
        from: u16,
        host: u16,
        said: SetUp,
        notices: &mut Vec<Notice>,
    ) {
        let Some(libraries) = &mut self.libraries else { return };
        match libraries.hear(host, said) {
            Follows::Nothing => {}
            Follows::Answer(answer) => self.say(now, host, from, answer, notices),
            Follows::MayAccept => self.accept(now, host),
            Follows::Map => {
                let mapped = now + libraries.settings().map;
                self.due.push(mapped, Due::SetUp(Step::Mapped(host, from)));
            }
            Follows::Refused => {
                for number in libraries.refuse(host, from) {
                    self.fall(now, number, from, notices);
                }
            }
        }
    }

    /// One library sends a message to another one.
    pub(super) fn say(
        &mut self,
        now: Time,
        from: u16,
        to: u16,
        said: SetUp,
        notices: &mut Vec<Notice>,
    ) {
        let Some(libraries) = &self.libraries else { return };
        let (to, size) = (Destination::Host(to), libraries.settings().request);
        let message = Message { from, to, size, ticket: Ticket::default() };
        let held = Held { said: Some(said), ..Held::new(now, message) };
        let number = self.messages.insert(held);
        self.enter(now, number, notices);
    }

    /// The last byte of a library's message has left: the writer of a request then unlocks the
    /// receiver.
    pub(super) fn said(&mut self, now: Time, to: Destination, said: SetUp) {
        if let (SetUp::Request { .. }, Destination::Host(to), Some(libraries)) =
            (said, to, &self.libraries)
        {
            let store = Span(libraries.settings().lock.0 / 2);
            self.due.push(now + store, Due::SetUp(Step::Unlock(to)));
        }
    }

    /// The program of a host accepts a request if one waits, not before it accepts at all.
    fn accept(&mut self, now: Time, host: u16) {
        let Some(libraries) = &mut self.libraries else { return };
        let begins = Time::ZERO + libraries.settings().accept_from;
        if now < begins {
            self.due.push(begins, Due::SetUp(Step::Accept(host)));
        } else if let Some((peer, said)) = libraries.accept(host) {
            let mapped = now + libraries.settings().map;
            self.due.push(mapped, Due::SetUp(Step::Accepted(host, peer, said)));
        }
    }

    /// A message is left to the ordinary stack.
    fn fall(&mut self, now: Time, number: u32, to: u16, notices: &mut Vec<Notice>) {
        let held = self.messages.get(number);
        (held.sent, held.missing) = (true, 0);
        notices.push(Notice::FallsThrough { time: now, ticket: held.ticket, to });
        self.forget(number);
    }
}
