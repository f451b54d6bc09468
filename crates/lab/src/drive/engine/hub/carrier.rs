//! The hub as a carrier of messages: a run of stores each, to several targets by one broadcast.

use weft_fabric::interface::window::Through;
use weft_protocol::window::{MapError, Node, Use};
use weft_units::{Bytes, Time};

use super::host::Purpose;
use super::{HubStep, Operation, Windows};
use crate::drive::carrier::{Departure, Destination, Message, Notice, RemoteAccess, Ticket};
use crate::drive::engine::Engine;

impl Windows {
    /// The time of the oldest notice that has not been taken.
    pub(in crate::drive::engine) fn next_notice(&self) -> Option<Time> {
        self.state.notices.first().map(|notice| notice.time())
    }

    /// Appends what there is to know of messages and operations.
    pub(in crate::drive::engine) fn take_notices(&mut self, notices: &mut Vec<Notice>) {
        notices.append(&mut self.state.notices);
    }

    /// Appends which nodes have left, and which nodes learned of it.
    pub(in crate::drive::engine) fn take_departures(&mut self, departures: &mut Vec<Departure>) {
        departures.append(&mut self.state.departures);
    }

    /// Whether all nodes see what each stores to all of them in one order.
    pub(in crate::drive::engine) fn has_one_order(&self) -> bool {
        self.state.has_one_order()
    }

    /// Whether a barrier can be made of sweeps and ordered broadcasts.
    pub(in crate::drive::engine) fn has_barrier(&self) -> bool {
        self.state.has_barrier()
    }
}

impl HubStep<'_> {
    /// A program hands a message over.
    fn offer(&mut self, now: Time, message: Message) {
        let Message { from, to, size, ticket } = message;
        let targets = match to {
            Destination::Host(host) => 1 << host,
            Destination::Hosts(hosts) => hosts,
        };
        // A message without payload is the smallest packet.
        let what = (Purpose::Message(ticket), Through::Use(Use::Store));
        self.store(now, from, targets, size.max(Bytes(4)), what);
    }

    fn read(&mut self, now: Time, read: RemoteAccess) -> Result<bool, MapError> {
        let RemoteAccess { from, target, offset, size, ticket } = read;
        // The response is one packet; generation 1 has no remote read at all.
        if !self.own.parts.window.remote_read || size > self.own.parts.payload {
            return Ok(false);
        }
        self.begin(now, from, Operation::Read { target, offset: offset.0, size }, ticket)?;
        Ok(true)
    }

    fn write_whole(&mut self, now: Time, write: RemoteAccess) -> Result<bool, MapError> {
        if self.own.parts.window.conditional_write
            && let Some(pages) = &self.own.pages
        {
            let [from, target] = [write.from, write.target].map(|host| Node(host as u8));
            pages.cluster().check_conditional(from, target, write.offset.0)?;
        }
        self.write_for_program(now, write);
        Ok(true)
    }
}

impl Engine {
    /// Begins an operation of the adapter of `from` at a hub; it is over with a [`Notice::Delivered`] to
    /// `from`. A read has another one before, to its target. Returns `false`, and does nothing, without a
    /// hub.
    ///
    /// # Errors
    /// [`MapError`] if pages are mapped and this one is not, or lacks the attribute.
    pub fn begin_operation(
        &mut self,
        now: Time,
        from: u16,
        operation: Operation,
        ticket: Ticket,
    ) -> Result<bool, MapError> {
        self.ask_hub(|step| step.begin(now, from, operation, ticket).map(|()| true))
    }

    /// The windows around the hub, if there is one.
    pub fn windows(&self) -> Option<&Windows> {
        self.hub.as_deref()
    }

    pub(in crate::drive::engine) fn offer_to_hub(&mut self, now: Time, message: Message) {
        if let Some(mut step) = self.step_at_hub() {
            step.offer(now, message);
        }
    }

    /// A host comes to the barrier of the first `hosts`.
    pub(in crate::drive::engine) fn enter_barrier_at_hub(
        &mut self,
        now: Time,
        host: u16,
        hosts: u16,
        ticket: Ticket,
    ) {
        if let Some(mut step) = self.step_at_hub() {
            step.enter_barrier(now, host, hosts, ticket);
        }
    }

    pub(in crate::drive::engine) fn read_over_hub(
        &mut self,
        now: Time,
        read: RemoteAccess,
    ) -> Result<bool, String> {
        self.ask_hub(|step| step.read(now, read)).map_err(|error| error.to_string())
    }

    pub(in crate::drive::engine) fn write_over_hub(
        &mut self,
        now: Time,
        write: RemoteAccess,
    ) -> Result<bool, String> {
        self.ask_hub(|step| step.write_whole(now, write)).map_err(|error| error.to_string())
    }

    /// Asks the adapters around a hub for something; `false` without a hub.
    fn ask_hub(
        &mut self,
        ask: impl FnOnce(&mut HubStep<'_>) -> Result<bool, MapError>,
    ) -> Result<bool, MapError> {
        let Some(mut step) = self.step_at_hub() else { return Ok(false) };
        let asked = ask(&mut step);
        self.next = self.next_with_adapters();
        asked
    }
}
