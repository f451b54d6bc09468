//! What the adapters do by themselves: sweeps, remote reads, conditional writes, and a barrier that
//! is made of sweeps and ordered broadcasts.
//!
//! Each is a request that the adapter of the target answers when its bus is done with it, behind
//! everything that came before on the path.

use weft_protocol::window::{Barrier, BarrierAction, MapError, Node, Use};
use weft_units::{Bytes, Time};

use super::HubChannel;
use super::host::{Packet, Purpose};
use super::pages::Through;
use super::recoverable::Confirmation;
use crate::drive::carrier::{Notice, Ticket};

/// What a program asks of the adapters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// Tells when all that was sent to these hosts before has arrived, a bit each.
    Sweep {
        /// The hosts, not none.
        targets: u64,
    },
    /// Reads the memory of another host without its program.
    Read {
        /// Whose memory.
        target: u16,
        /// Offset into the window.
        offset: u64,
        /// How much; at most one packet.
        size: Bytes,
    },
    /// Writes, and tells whether it was taken.
    Conditional {
        /// Whose memory.
        target: u16,
        /// Offset into the window.
        offset: u64,
        /// How much.
        size: Bytes,
    },
}

/// An operation that has not been answered by all.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pending {
    pub from: u16,
    pub waiting: u64,
    /// The size of an answer.
    pub answer: Bytes,
    pub whose: Whose,
}

impl Pending {
    /// Whether a host waits for the answer of another one.
    pub fn waits(&self, host: u16, other: u16) -> bool {
        self.from == host && self.waiting >> other & 1 == 1
    }
}

/// Who asked.
#[derive(Clone, Copy, Debug)]
pub(super) enum Whose {
    Program(Ticket),
    /// A program that reads; the target is told, too.
    Read(Ticket),
    /// The same, and the target has been told.
    Seen(Ticket),
    Barrier,
    Recoverable(Confirmation),
    /// A node that has died.
    Nobody,
}

/// A request or an acknowledgment that carries nothing else: one word.
pub(super) const SHORT: Bytes = Bytes(4);

/// One barrier a host, and under which ticket the host hears of it.
#[derive(Debug)]
pub(super) struct Waiting {
    barrier: Barrier,
    ticket: Ticket,
    hosts: u64,
}

impl HubChannel {
    /// Begins an operation of `from`; it is over with a [`Notice::Delivered`] to `from`.
    /// A read has another one before, to its target.
    ///
    /// # Errors
    /// [`MapError`] if pages are mapped and this one is not, or lacks the attribute.
    pub fn begin(
        &mut self,
        now: Time,
        from: u16,
        operation: Operation,
        ticket: Ticket,
    ) -> Result<(), MapError> {
        let whose = match operation {
            Operation::Read { .. } => Whose::Read(ticket),
            _ => Whose::Program(ticket),
        };
        let initiator = Node(from as u8);
        let (targets, size, answer, offset) = match operation {
            Operation::Sweep { targets } => {
                self.check_sweep(from, targets)?;
                (targets, SHORT, SHORT, None)
            }
            Operation::Read { target, offset, size } => {
                if let Some(pages) = &self.pages {
                    pages.cluster.check_read(initiator, Node(target as u8), offset)?;
                }
                (1 << target, SHORT, size.max(SHORT), Some(offset))
            }
            Operation::Conditional { target, offset, size } => {
                if let Some(pages) = &self.pages {
                    pages.cluster.check_conditional(initiator, Node(target as u8), offset)?;
                }
                (1 << target, size.max(SHORT), SHORT, Some(offset))
            }
        };
        let page = |offset| Some(Through::Page(self.pages.as_ref()?.cluster.page_of(offset)));
        let through = offset.and_then(page).unwrap_or(Through::Use(Use::Sweep));
        self.request(now, size, Pending { from, waiting: targets, answer, whose }, through);
        Ok(())
    }

    pub(super) fn request(&mut self, now: Time, size: Bytes, pending: Pending, through: Through) {
        let place = self.operations.iter().position(Option::is_none);
        let place = place.unwrap_or_else(|| {
            self.operations.push(None);
            self.operations.len() - 1
        });
        self.operations[place] = Some(pending);
        let Pending { from, waiting, .. } = pending;
        self.store(now, from, waiting, size, (Purpose::Request(place as u32), through));
    }

    /// How much the bus of a target carries for a packet: what is read, or what is written.
    pub(super) fn carried(&self, packet: &Packet) -> Bytes {
        let operation = match packet.purpose {
            Purpose::Request(place) if packet.last => self.operations[place as usize],
            _ => None,
        };
        operation.map_or(packet.size, |own| own.answer.max(packet.size))
    }

    /// The bus of a target is done with a request at `time`: its adapter answers.
    pub(super) fn answer(&mut self, time: Time, target: u16, place: u32) {
        let Some(Pending { from, answer, .. }) = self.operations[place as usize] else { return };
        self.send_back(time, target, from, answer, Purpose::Answer(place));
    }

    /// An adapter sends a packet of its own, which comes over no bus and through no page.
    pub(super) fn send_back(
        &mut self,
        time: Time,
        from: u16,
        to: u16,
        size: Bytes,
        purpose: Purpose,
    ) {
        let ready = time + self.spans.transmit;
        self.observations.generate(time);
        self.flying += 1;
        let mut packet = Packet {
            from,
            targets: 1 << to,
            size,
            span: self.parts.span(size),
            last: true,
            purpose,
            page: None,
            is_copied: false,
            missing: 1,
            number: None,
            generated: time,
            taken: time,
            ready,
            start: ready,
            granted: Time::ZERO,
            rail: self.hosts[usize::from(from)].rail,
            is_whole: true,
            survey: None,
            is_settled: false,
        };
        if self.name(&mut packet) {
            self.forward(packet);
        }
    }

    /// A request is where its target sees what was written to it before: a read is of this instant.
    pub(super) fn requested(&mut self, now: Time, place: u32, target: u16) {
        let Some(Pending { whose, .. }) = &mut self.operations[place as usize] else { return };
        if let Whose::Read(ticket) = *whose {
            *whose = Whose::Seen(ticket);
            self.notices.push(Notice::Delivered { time: now, ticket, to: target });
        }
    }

    /// The answer of a target is in the memory of its initiator.
    pub(super) fn answered(&mut self, now: Time, place: u32, target: u16) {
        let Some(pending) = &mut self.operations[place as usize] else { return };
        pending.waiting &= !(1 << target);
        let Pending { from, waiting, whose, .. } = *pending;
        if waiting == 0 {
            self.operations[place as usize] = None;
        }
        match whose {
            Whose::Program(ticket) | Whose::Read(ticket) | Whose::Seen(ticket) if waiting == 0 => {
                if matches!(whose, Whose::Read(_)) {
                    // Its program died before it could look; the adapter had read by then.
                    self.notices.push(Notice::Delivered { time: now, ticket, to: target });
                }
                self.notices.push(Notice::Delivered { time: now, ticket, to: from });
            }
            Whose::Program(_) | Whose::Read(_) | Whose::Seen(_) | Whose::Nobody => {}
            Whose::Recoverable(own) => self.confirm(now, from, target, own),
            Whose::Barrier => {
                let own = &mut self.barriers[usize::from(from)];
                let action = own.barrier.acknowledge(Node(target as u8));
                self.act(now, from, action);
            }
        }
    }

    /// A target is gone and will not answer. Who asked for its memory hears that; a sweep goes on
    /// without it.
    pub(super) fn unanswered(&mut self, now: Time, place: u32, target: u16) {
        let Some(pending) = self.operations[place as usize] else { return };
        let Pending { from, whose, .. } = pending;
        let (ticket, has_seen) = match whose {
            Whose::Read(ticket) => (ticket, false),
            Whose::Seen(ticket) => (ticket, true),
            Whose::Recoverable(own) => {
                self.operations[place as usize] = None;
                let Some(ticket) = own.ticket else { return };
                (ticket, own.is_used)
            }
            Whose::Program(_) | Whose::Barrier | Whose::Nobody => {
                return self.answered(now, place, target);
            }
        };
        self.operations[place as usize] = None;
        if !has_seen {
            self.notices.push(Notice::Lost { time: now, ticket, to: target });
        }
        self.notices.push(Notice::Lost { time: now, ticket, to: from });
    }

    /// A node has died: nobody hears what it asked for. Its requests may be under way, so that their
    /// places stay taken.
    pub(super) fn orphan(&mut self, now: Time, node: u16) {
        let HubChannel { operations, notices, .. } = self;
        for pending in operations.iter_mut().flatten().filter(|own| own.from == node) {
            let waiting = pending.waiting.trailing_zeros() as u16;
            let heard = match std::mem::replace(&mut pending.whose, Whose::Nobody) {
                Whose::Read(ticket) => Some((ticket, false)),
                Whose::Program(ticket) | Whose::Seen(ticket) => Some((ticket, true)),
                Whose::Recoverable(own) => own.ticket.map(|ticket| (ticket, own.is_used)),
                Whose::Barrier | Whose::Nobody => None,
            };
            let Some((ticket, has_seen)) = heard else { continue };
            if !has_seen {
                notices.push(Notice::Lost { time: now, ticket, to: waiting });
            }
            notices.push(Notice::Lost { time: now, ticket, to: node });
        }
    }

    /// A host is told that another one is gone: it does not wait for it at its barrier.
    pub(super) fn leave_barrier(&mut self, now: Time, host: u16, other: u16) {
        let Some(own) = self.barriers.get_mut(usize::from(host)) else { return };
        let action = own.barrier.remove(Node(other as u8));
        self.act(now, host, action);
    }

    /// A host comes to the barrier of the first `hosts`; see [`crate::drive::carrier::Carrier`].
    /// Two hosts on one cable have no point of ordering between them, and send messages.
    pub(super) fn enter_barrier(
        &mut self,
        now: Time,
        host: u16,
        hosts: u16,
        ticket: Ticket,
    ) -> bool {
        if !self.has_barrier() {
            return false;
        }
        if self.barriers.is_empty() {
            let all = (1 << hosts) - 1;
            let waiting = |own: u16| {
                let view = self.management.as_ref().map_or(all, |cluster| cluster.view(own));
                let barrier = Barrier::new(Node(own as u8), all & (view | 1 << own));
                Waiting { barrier, ticket, hosts: all }
            };
            self.barriers = (0..hosts).map(waiting).collect();
        }
        let own = &mut self.barriers[usize::from(host)];
        own.ticket = ticket;
        let action = own.barrier.enter();
        self.act(now, host, Some(action));
        true
    }

    /// An announcement is in the memory of a host.
    pub(super) fn announced(&mut self, now: Time, host: u16, from: u16, number: u32) {
        let action = self.barriers[usize::from(host)].barrier.arrive(Node(from as u8), number);
        self.act(now, host, action);
    }

    fn act(&mut self, now: Time, host: u16, action: Option<BarrierAction>) {
        match action {
            Some(BarrierAction::Sweep(targets)) => {
                let pending =
                    Pending { from: host, waiting: targets, answer: SHORT, whose: Whose::Barrier };
                self.request(now, SHORT, pending, Through::Use(Use::Sweep));
            }
            Some(BarrierAction::Announce(number)) => {
                let all = self.barriers[usize::from(host)].hosts;
                let what = (Purpose::Announce(number), Through::Use(Use::Store));
                self.store(now, host, all, SHORT, what);
            }
            Some(BarrierAction::Pass) => {
                let ticket = self.barriers[usize::from(host)].ticket;
                self.notices.push(Notice::Delivered { time: now, ticket, to: host });
            }
            None => {}
        }
    }
}
