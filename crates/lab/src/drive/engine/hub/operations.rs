//! Requests, responses and announcements as packets. Which of them exist, and what programs learn
//! of them, is decided by [`weft_fabric::interface::window::Operations`].

use weft_fabric::interface::RecoverableSettings;
use weft_fabric::interface::window::{
    Act, Operations, Question, Recoverable, Request, SHORT, Through,
};
use weft_fabric::measure::Latency;
use weft_protocol::window::{MapError, Node, Use};
use weft_units::{Bytes, Time};

use super::HubStep;
use super::host::{Packet, Purpose};
use crate::drive::carrier::{Notice, RemoteAccess, Ticket};

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

impl HubStep<'_> {
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
        let initiator = Node(from as u8);
        let (targets, size, answer, offset) = match operation {
            Operation::Sweep { targets } => {
                self.own.check_sweep(from, targets)?;
                (targets, SHORT, SHORT, None)
            }
            Operation::Read { target, offset, size } => {
                if let Some(pages) = &self.own.pages {
                    pages.cluster().check_read(initiator, Node(target as u8), offset)?;
                }
                (1 << target, SHORT, size.max(SHORT), Some(offset))
            }
            Operation::Conditional { target, offset, size } => {
                if let Some(pages) = &self.own.pages {
                    pages.cluster().check_conditional(initiator, Node(target as u8), offset)?;
                }
                (1 << target, size.max(SHORT), SHORT, Some(offset))
            }
        };
        let page = |offset| Some(Through::Page(self.own.pages.as_ref()?.cluster().page_of(offset)));
        let through = offset.and_then(page).unwrap_or(Through::Use(Use::Sweep));
        let is_read = matches!(operation, Operation::Read { .. });
        let question = Question { from, targets, answer, ticket, is_read };
        let request = self.own.operations.ask(question, Use::Sweep);
        self.request(now, size, request, through);
        Ok(())
    }

    fn request(&mut self, now: Time, size: Bytes, request: Request, through: Through) {
        let Request { place, from, targets, .. } = request;
        self.store(now, from, targets, size, (Purpose::Request(place), through));
    }

    /// Tells the operations something, and does what comes of it.
    pub(super) fn operate(&mut self, now: Time, tell: impl FnOnce(&mut Operations<Ticket>)) {
        tell(&mut self.own.operations);
        while let Some(act) = self.own.operations.next_act() {
            match act {
                Act::Done { ticket, to } => {
                    self.own.notices.push(Notice::Delivered { time: now, ticket, to });
                }
                Act::Lost { ticket, to } => {
                    self.own.notices.push(Notice::Lost { time: now, ticket, to });
                }
                Act::Ask(request) => {
                    self.request(now, SHORT, request, Through::Use(request.what));
                }
                Act::Announce { from, targets, number } => {
                    let what = (Purpose::Announce(number), Through::Use(Use::Store));
                    self.store(now, from, targets, SHORT, what);
                }
                Act::Usable { since } => {
                    self.seen.latency(Latency::OneWay, now, now.since(since));
                }
                Act::Confirmed { since } => {
                    self.seen.latency(Latency::RoundTrip, now, now.since(since));
                }
            }
        }
    }

    /// A source has a write for these targets.
    pub(super) fn offer_write(&mut self, now: Time, from: u16, targets: u64) {
        let size = self.own.parts.window.write;
        let Some(how) = self.own.parts.window.recoverable else {
            let what = (Purpose::Traffic, Through::Use(Use::Store));
            return self.store(now, from, targets, size, what);
        };
        for target in (0..64).filter(|target| targets >> target & 1 == 1) {
            let message = Recoverable { generated: now, from, target, how, ticket: None };
            self.write_recoverably(now, size, message);
        }
    }

    /// A program writes so that its target uses only what is whole: by conditional write where the
    /// adapters can, otherwise by round trip.
    pub(super) fn write_for_program(&mut self, now: Time, write: RemoteAccess) {
        let RemoteAccess { from, target, size, ticket, .. } = write;
        let how = match self.own.parts.window.conditional_write {
            true => RecoverableSettings::ConditionalWrite,
            false => RecoverableSettings::RoundTrip,
        };
        let message = Recoverable { generated: now, from, target, how, ticket: Some(ticket) };
        self.write_recoverably(now, size, message);
    }

    fn write_recoverably(&mut self, now: Time, size: Bytes, message: Recoverable<Ticket>) {
        let mut size = size.max(SHORT);
        if message.how == RecoverableSettings::RoundTrip {
            // The sweep follows all of the message.
            let what = (Purpose::Unconfirmed, Through::Use(Use::Store));
            self.store(now, message.from, 1 << message.target, size, what);
            size = SHORT;
        }
        let request = self.own.operations.ask_recoverably(message);
        self.request(now, size, request, Through::Use(request.what));
    }

    /// How much the bus of a target carries for a packet: what is read, or what is written.
    #[inline]
    pub(super) fn carried(&self, packet: &Packet) -> Bytes {
        match packet.purpose {
            Purpose::Request(place) if packet.last => self
                .own
                .operations
                .answer(place)
                .map_or(packet.size, |(size, _)| size.max(packet.size)),
            _ => packet.size,
        }
    }

    /// The bus of a target is done with a request at `time`: its adapter answers.
    pub(super) fn answer(&mut self, time: Time, target: u16, place: u32) {
        let Some((size, from)) = self.own.operations.answer(place) else { return };
        self.send_back(time, target, from, size, Purpose::Answer(place));
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
        let ready = time + self.own.times.transmit;
        self.seen.generate(time);
        self.own.flying += 1;
        let mut packet = Packet {
            from,
            targets: 1 << to,
            size,
            span: self.own.times.of(size).link,
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
            rail: self.own.hosts[usize::from(from)].rail,
            is_whole: true,
            survey: None,
            is_settled: false,
        };
        if self.name(&mut packet) {
            self.forward(packet);
        }
    }

    /// A node is told that another one is gone, and waits for no response of it.
    pub(super) fn expect_nothing_of(&mut self, now: Time, node: u16, other: u16) {
        let mut from = 0;
        loop {
            let mut found = None;
            self.operate(now, |own| found = own.forget_next(node, other, from));
            let Some(place) = found else { break };
            from = place + 1;
        }
        self.operate(now, |own| own.leave_barrier(node, other));
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
        if !self.own.has_barrier() {
            return false;
        }
        let view = |own: u16| match &self.own.management {
            Some(cluster) => cluster.members.view(own),
            None => u64::MAX,
        };
        self.own.operations.enter_barrier(host, hosts, ticket, view);
        self.operate(now, |_| {});
        true
    }
}
