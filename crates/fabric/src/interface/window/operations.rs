//! What the adapters do by themselves: sweeps, remote reads, conditional writes, messages that are used
//! only when they are known to be complete, and a barrier that consists of sweeps and ordered
//! broadcasts (MEMORY CHANNEL 2 Enhanced Software Support).
//!
//! Each is a request that the adapter of the target answers when its bus is done with it, behind
//! everything that came before on the path. The part has no packets: it names each request by its
//! place, is told what became of it, and returns what its program learns and what is sent next.

use std::collections::VecDeque;

use weft_protocol::window::{
    Barrier, BarrierAction, Conditional, Node, Outcome, RecoverableAction, RoundTrip, Use,
};
use weft_units::{Bytes, Time};

use crate::interface::RecoverableSettings;

/// A request or an acknowledgment that carries nothing else: one word.
pub const SHORT: Bytes = Bytes(4);

/// The effect of an adapter's action; `T` names what a program waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Act<T> {
    /// A host learns that this is done.
    Done {
        /// What.
        ticket: T,
        /// The host that learns of it.
        to: u16,
    },
    /// A host learns that this will not be done.
    Lost {
        /// What.
        ticket: T,
        /// The host that learns of it.
        to: u16,
    },
    /// A request is sent.
    Ask(Request),
    /// A host announces that it is at a barrier, by a broadcast that returns to it.
    Announce {
        /// The host.
        from: u16,
        /// A bit for each target.
        targets: u64,
        /// Which barrier of them it is.
        number: u32,
    },
    /// A target may use a message of a source.
    Usable {
        /// When it was submitted.
        since: Time,
    },
    /// The source of a message knows that its target may use it.
    Confirmed {
        /// When it was submitted.
        since: Time,
    },
}

/// A request that is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// Its index in the list of pending requests; reused once the request is complete.
    pub place: u32,
    /// The node that asks.
    pub from: u16,
    /// A bit for each target.
    pub targets: u64,
    /// What its page is to do.
    pub what: Use,
}

/// What a program asks of the adapters.
#[derive(Clone, Copy, Debug)]
pub struct Question<T> {
    /// The host that asks.
    pub from: u16,
    /// A bit for each target, not none.
    pub targets: u64,
    /// The size of a response.
    pub answer: Bytes,
    /// What the program waits for.
    pub ticket: T,
    /// Whether the one target hears of it, too: its memory is read.
    pub is_read: bool,
}

/// A message that is used only when it is known to be whole.
#[derive(Clone, Copy, Debug)]
pub struct Recoverable<T> {
    /// When it is submitted.
    pub generated: Time,
    /// The initiator.
    pub from: u16,
    /// The target.
    pub target: u16,
    /// How.
    pub how: RecoverableSettings,
    /// What a program waits for; none of a source.
    pub ticket: Option<T>,
}

/// A request that has not been answered by all.
#[derive(Clone, Copy, Debug)]
struct Pending<T> {
    from: u16,
    waiting: u64,
    answer: Bytes,
    whose: Whose<T>,
}

/// The origin of a request.
#[derive(Clone, Copy, Debug)]
enum Whose<T> {
    Program(T),
    /// A program that reads; the target is told, too.
    Read(T),
    /// A program that reads, after the target has been notified.
    Seen(T),
    Barrier,
    Recoverable(Confirmation<T>),
    /// A node that has died.
    Nobody,
}

/// One message that is being confirmed.
#[derive(Clone, Copy, Debug)]
struct Confirmation<T> {
    generated: Time,
    sender: Sender,
    /// What lets the target use the message is in flight, and the message has arrived.
    is_valid: bool,
    is_used: bool,
    ticket: Option<T>,
}

#[derive(Clone, Copy, Debug)]
enum Sender {
    RoundTrip(RoundTrip),
    Conditional(Conditional),
}

impl Sender {
    fn send(&mut self) -> Option<RecoverableAction> {
        match self {
            Sender::RoundTrip(own) => own.send(),
            Sender::Conditional(own) => own.send(),
        }
    }

    fn hear(&mut self) -> Option<RecoverableAction> {
        match self {
            Sender::RoundTrip(own) => own.hear(Outcome::Arrived),
            Sender::Conditional(own) => own.hear(Outcome::Arrived),
        }
    }

    fn what(&self) -> Use {
        match self {
            Sender::RoundTrip(_) => Use::Sweep,
            Sender::Conditional(_) => Use::Conditional,
        }
    }
}

/// The barrier of one host, and what its program waits for.
#[derive(Debug)]
struct Waiting<T> {
    barrier: Barrier,
    ticket: T,
    hosts: u64,
}

/// The requests of all hosts.
#[derive(Debug)]
pub struct Operations<T> {
    pending: Vec<Option<Pending<T>>>,
    barriers: Vec<Waiting<T>>,
    acts: VecDeque<Act<T>>,
}

impl<T> Default for Operations<T> {
    fn default() -> Operations<T> {
        Operations { pending: Vec::new(), barriers: Vec::new(), acts: VecDeque::new() }
    }
}

impl<T: Copy> Operations<T> {
    /// What must be done next.
    pub fn next_act(&mut self) -> Option<Act<T>> {
        self.acts.pop_front()
    }

    /// A program asks, by the request that is returned; [`Act::Done`] to `from` is the end. A read has
    /// another one before, to its target.
    pub fn ask(&mut self, question: Question<T>, what: Use) -> Request {
        let Question { from, targets, answer, ticket, is_read } = question;
        let whose = if is_read { Whose::Read(ticket) } else { Whose::Program(ticket) };
        self.open(Pending { from, waiting: targets, answer, whose }, what)
    }

    /// A message must be used only when it is known to be complete. Returns the request after it: with
    /// a conditional write that is the message itself.
    pub fn ask_recoverably(&mut self, message: Recoverable<T>) -> Request {
        let Recoverable { generated, from, target, how, ticket } = message;
        let (mut sender, is_valid) = match how {
            RecoverableSettings::RoundTrip => (Sender::RoundTrip(RoundTrip::default()), false),
            RecoverableSettings::ConditionalWrite => {
                (Sender::Conditional(Conditional::default()), true)
            }
        };
        sender.send();
        let own = Confirmation { generated, sender, is_valid, is_used: false, ticket };
        self.ask_to_confirm(from, target, own)
    }

    fn ask_to_confirm(&mut self, from: u16, target: u16, own: Confirmation<T>) -> Request {
        let what = own.sender.what();
        let whose = Whose::Recoverable(own);
        self.open(Pending { from, waiting: 1 << target, answer: SHORT, whose }, what)
    }

    fn open(&mut self, pending: Pending<T>, what: Use) -> Request {
        let place = self.pending.iter().position(Option::is_none);
        let place = place.unwrap_or_else(|| {
            self.pending.push(None);
            self.pending.len() - 1
        });
        self.pending[place] = Some(pending);
        let Pending { from, waiting, .. } = pending;
        Request { place: place as u32, from, targets: waiting, what }
    }

    fn of(&mut self, place: u32) -> Option<&mut Pending<T>> {
        self.pending.get_mut(place as usize)?.as_mut()
    }

    /// The size of the response to the request with this [`place`](Request::place), and the node
    /// that receives it; `None` if no request with this place is pending.
    pub fn answer(&self, place: u32) -> Option<(Bytes, u16)> {
        let pending = self.pending.get(place as usize)?.as_ref()?;
        Some((pending.answer, pending.from))
    }

    /// A request is where its target sees what was written to it before: a read is of this instant, and
    /// a message may be used from now on.
    pub fn seen(&mut self, place: u32, target: u16) {
        let Some(pending) = self.of(place) else { return };
        let act = match &mut pending.whose {
            Whose::Read(ticket) => {
                let ticket = *ticket;
                pending.whose = Whose::Seen(ticket);
                Act::Done { ticket, to: target }
            }
            Whose::Recoverable(own) if own.is_valid => {
                own.is_used = true;
                match own.ticket {
                    Some(ticket) => Act::Done { ticket, to: target },
                    None => Act::Usable { since: own.generated },
                }
            }
            _ => return,
        };
        self.acts.push_back(act);
    }

    /// The response of a target is in the memory of its initiator.
    pub fn answered(&mut self, place: u32, target: u16) {
        let Some(pending) = self.of(place) else { return };
        pending.waiting &= !(1 << target);
        let Pending { from, waiting, whose, .. } = *pending;
        if waiting == 0 {
            self.pending[place as usize] = None;
        }
        match whose {
            Whose::Program(ticket) | Whose::Read(ticket) | Whose::Seen(ticket) if waiting == 0 => {
                if matches!(whose, Whose::Read(_)) {
                    // Its program died before it could look; the adapter had read by then.
                    self.acts.push_back(Act::Done { ticket, to: target });
                }
                self.acts.push_back(Act::Done { ticket, to: from });
            }
            Whose::Program(_) | Whose::Read(_) | Whose::Seen(_) | Whose::Nobody => {}
            Whose::Recoverable(own) => self.confirm(from, target, own),
            Whose::Barrier => {
                let barrier = &mut self.barriers[usize::from(from)].barrier;
                let action = barrier.acknowledge(Node(target as u8));
                self.act(from, action);
            }
        }
    }

    /// The sender of a message has the response to its request.
    fn confirm(&mut self, from: u16, target: u16, mut own: Confirmation<T>) {
        if let Some(RecoverableAction::Validate(_)) = own.sender.hear() {
            own.is_valid = true;
            let request = self.ask_to_confirm(from, target, own);
            return self.acts.push_back(Act::Ask(request));
        }
        let Some(ticket) = own.ticket else {
            return self.acts.push_back(Act::Confirmed { since: own.generated });
        };
        if !own.is_used {
            // The adapter has taken it, and its program died before it could look.
            self.acts.push_back(Act::Lost { ticket, to: target });
        }
        self.acts.push_back(Act::Done { ticket, to: from });
    }

    /// A target is gone and will not answer. A host that asked for its memory learns that; a sweep
    /// continues without it.
    pub fn unanswered(&mut self, place: u32, target: u16) {
        let Some(pending) = self.of(place) else { return };
        let Pending { from, whose, .. } = *pending;
        let (ticket, has_seen) = match whose {
            Whose::Read(ticket) => (Some(ticket), false),
            Whose::Seen(ticket) => (Some(ticket), true),
            Whose::Recoverable(own) => (own.ticket, own.is_used),
            Whose::Program(_) | Whose::Barrier | Whose::Nobody => {
                return self.answered(place, target);
            }
        };
        self.pending[place as usize] = None;
        let Some(ticket) = ticket else { return };
        if !has_seen {
            self.acts.push_back(Act::Lost { ticket, to: target });
        }
        self.acts.push_back(Act::Lost { ticket, to: from });
    }

    /// A target did not take a request, and its adapter does not answer it.
    pub fn untaken(&mut self, place: u32, target: u16) {
        let Some(pending) = self.of(place) else { return };
        let Whose::Program(ticket) = pending.whose else {
            return self.unanswered(place, target);
        };
        pending.whose = Whose::Nobody;
        let to = pending.from;
        self.acts.push_back(Act::Lost { ticket, to });
        self.answered(place, target);
    }

    /// A node learns that another one is gone, and does not wait for its response to the first
    /// request from the place `from` on. Returns the place of that request; its effects must be
    /// processed before the next call.
    pub fn forget_next(&mut self, node: u16, other: u16, from: u32) -> Option<u32> {
        let waits = |own: &Pending<T>| own.from == node && own.waiting >> other & 1 == 1;
        let mut behind = self.pending.iter().enumerate().skip(from as usize);
        let place = behind.find(|(_, own)| own.as_ref().is_some_and(waits))?.0 as u32;
        self.unanswered(place, other);
        Some(place)
    }

    /// A node has died: nobody receives what it asked for. Its requests may be in flight, so that
    /// their slots stay taken.
    pub fn orphan(&mut self, node: u16) {
        let Operations { pending, acts, .. } = self;
        for pending in pending.iter_mut().flatten().filter(|own| own.from == node) {
            let waiting = pending.waiting.trailing_zeros() as u16;
            let heard = match std::mem::replace(&mut pending.whose, Whose::Nobody) {
                Whose::Read(ticket) => Some((ticket, false)),
                Whose::Program(ticket) | Whose::Seen(ticket) => Some((ticket, true)),
                Whose::Recoverable(own) => own.ticket.map(|ticket| (ticket, own.is_used)),
                Whose::Barrier | Whose::Nobody => None,
            };
            let Some((ticket, has_seen)) = heard else { continue };
            if !has_seen {
                acts.push_back(Act::Lost { ticket, to: waiting });
            }
            acts.push_back(Act::Lost { ticket, to: node });
        }
    }

    /// A host reaches the barrier of the first `hosts`. `view` says which hosts are on line, as far
    /// as a host knows.
    pub fn enter_barrier(&mut self, host: u16, hosts: u16, ticket: T, view: impl Fn(u16) -> u64) {
        if self.barriers.is_empty() {
            let all = u64::MAX >> (64 - hosts);
            let waiting = |own: u16| {
                let barrier = Barrier::new(Node(own as u8), all & (view(own) | 1 << own));
                Waiting { barrier, ticket, hosts: all }
            };
            self.barriers = (0..hosts).map(waiting).collect();
        }
        let own = &mut self.barriers[usize::from(host)];
        own.ticket = ticket;
        let action = own.barrier.enter();
        self.act(host, Some(action));
    }

    /// A host learns that another one is gone: it does not wait for it at its barrier.
    pub fn leave_barrier(&mut self, host: u16, other: u16) {
        let Some(own) = self.barriers.get_mut(usize::from(host)) else { return };
        let action = own.barrier.remove(Node(other as u8));
        self.act(host, action);
    }

    /// An announcement is in the memory of a host.
    pub fn announced(&mut self, host: u16, from: u16, number: u32) {
        let Some(own) = self.barriers.get_mut(usize::from(host)) else { return };
        let action = own.barrier.arrive(Node(from as u8), number);
        self.act(host, action);
    }

    fn act(&mut self, host: u16, action: Option<BarrierAction>) {
        let Some(action) = action else { return };
        let Waiting { ticket, hosts, .. } = self.barriers[usize::from(host)];
        let act = match action {
            BarrierAction::Sweep(targets) => {
                let whose = Whose::Barrier;
                let pending = Pending { from: host, waiting: targets, answer: SHORT, whose };
                Act::Ask(self.open(pending, Use::Sweep))
            }
            BarrierAction::Announce(number) => Act::Announce { from: host, targets: hosts, number },
            BarrierAction::Pass => Act::Done { ticket, to: host },
        };
        self.acts.push_back(act);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn acts(operations: &mut Operations<char>) -> Vec<Act<char>> {
        std::iter::from_fn(|| operations.next_act()).collect()
    }

    fn read(operations: &mut Operations<char>) -> u32 {
        let answer = Bytes(32);
        let question = Question { from: 0, targets: 0b10, answer, ticket: 'r', is_read: true };
        let request = operations.ask(question, Use::Sweep);
        assert_eq!((request.targets, request.what), (0b10, Use::Sweep));
        request.place
    }

    #[test]
    fn a_read_is_heard_of_at_its_target_and_then_by_who_reads() {
        let mut operations = Operations::default();
        let place = read(&mut operations);
        assert_eq!(operations.answer(place), Some((Bytes(32), 0)));
        operations.seen(place, 1);
        operations.answered(place, 1);
        let done = |to| Act::Done { ticket: 'r', to };
        assert_eq!(acts(&mut operations), [done(1), done(0)]);
        assert_eq!(operations.answer(place), None);
        assert_eq!(read(&mut operations), place, "its place is free again");
    }

    #[test]
    fn a_sweep_is_over_when_the_last_target_has_answered_or_is_gone() {
        let mut operations = Operations::default();
        let question =
            Question { from: 3, targets: 0b111, answer: SHORT, ticket: 's', is_read: false };
        let place = operations.ask(question, Use::Sweep).place;
        operations.answered(place, 0);
        operations.unanswered(place, 2);
        assert_eq!(acts(&mut operations), []);
        operations.answered(place, 1);
        assert_eq!(acts(&mut operations), [Act::Done { ticket: 's', to: 3 }]);
    }

    #[test]
    fn who_asked_for_the_memory_of_a_node_that_is_gone_hears_that() {
        let mut operations = Operations::default();
        let places = [read(&mut operations), read(&mut operations)];
        operations.seen(places[1], 1);
        acts(&mut operations);
        let lost = |to| Act::Lost { ticket: 'r', to };
        assert_eq!(operations.forget_next(0, 1, 0), Some(places[0]));
        assert_eq!(acts(&mut operations), [lost(1), lost(0)]);
        assert_eq!(operations.forget_next(0, 1, places[0] + 1), Some(places[1]));
        assert_eq!(acts(&mut operations), [lost(0)], "its target has seen it");
        assert_eq!(operations.forget_next(0, 1, places[1] + 1), None);
    }

    /// Round trip: a sweep, its response, the word that declares the message valid, its response.
    #[test]
    fn a_message_by_round_trip_is_used_after_three_ways() {
        let mut operations: Operations<char> = Operations::default();
        let how = RecoverableSettings::RoundTrip;
        let (generated, ticket) = (Time(100), None);
        let message = Recoverable { generated, from: 0, target: 1, how, ticket };
        let sweep = operations.ask_recoverably(message);
        assert_eq!(sweep.what, Use::Sweep);
        operations.seen(sweep.place, 1);
        assert_eq!(acts(&mut operations), [], "the message is not valid yet");
        operations.answered(sweep.place, 1);
        let again = Request { place: 0, from: 0, targets: 0b10, what: Use::Sweep };
        assert_eq!(acts(&mut operations), [Act::Ask(again)]);
        operations.seen(0, 1);
        operations.answered(0, 1);
        let since = Time(100);
        assert_eq!(acts(&mut operations), [Act::Usable { since }, Act::Confirmed { since }]);
    }

    #[test]
    fn a_conditional_write_is_used_after_one_way_and_its_program_hears_twice() {
        let mut operations = Operations::default();
        let how = RecoverableSettings::ConditionalWrite;
        let (generated, ticket) = (Time(100), Some('c'));
        let message = Recoverable { generated, from: 0, target: 1, how, ticket };
        let request = operations.ask_recoverably(message);
        assert_eq!(request.what, Use::Conditional);
        operations.seen(request.place, 1);
        operations.answered(request.place, 1);
        let done = |to| Act::Done { ticket: 'c', to };
        assert_eq!(acts(&mut operations), [done(1), done(0)]);
        // The adapter answers, and the program of the target died before it could look.
        let request = operations.ask_recoverably(message);
        operations.answered(request.place, 1);
        assert_eq!(acts(&mut operations), [Act::Lost { ticket: 'c', to: 1 }, done(0)]);
    }

    #[test]
    fn a_node_that_died_hears_nothing_and_its_requests_keep_their_places() {
        let mut operations = Operations::default();
        let place = read(&mut operations);
        operations.orphan(0);
        let lost = |to| Act::Lost { ticket: 'r', to };
        assert_eq!(acts(&mut operations), [lost(1), lost(0)]);
        assert_ne!(read(&mut operations), place);
        operations.answered(place, 1);
        assert_eq!(acts(&mut operations), []);
    }

    /// Two hosts: each sweeps the other, then broadcasts that it is there, and passes when both did.
    #[test]
    fn a_barrier_is_sweeps_and_broadcasts() {
        let mut operations = Operations::default();
        operations.enter_barrier(0, 2, 'a', |_| 0b11);
        let sweep = |place, from, targets| Request { place, from, targets, what: Use::Sweep };
        assert_eq!(acts(&mut operations), [Act::Ask(sweep(0, 0, 0b10))]);
        operations.answered(0, 1);
        let announce = |from| Act::Announce { from, targets: 0b11, number: 1 };
        assert_eq!(acts(&mut operations), [announce(0)]);
        operations.announced(0, 0, 1);
        operations.announced(1, 0, 1);
        assert_eq!(acts(&mut operations), []);
        operations.enter_barrier(1, 2, 'b', |_| 0b11);
        operations.answered(0, 0);
        assert_eq!(acts(&mut operations), [Act::Ask(sweep(0, 1, 0b01)), announce(1)]);
        operations.announced(1, 1, 1);
        operations.announced(0, 1, 1);
        let done = |ticket, to| Act::Done { ticket, to };
        assert_eq!(acts(&mut operations), [done('b', 1), done('a', 0)]);
        // The next one: the other host is gone, so that nobody is waited for.
        operations.enter_barrier(0, 2, 'c', |_| 0b11);
        operations.leave_barrier(0, 1);
        acts(&mut operations);
        operations.announced(0, 0, 2);
        assert_eq!(acts(&mut operations), [done('c', 0)]);
    }
}
