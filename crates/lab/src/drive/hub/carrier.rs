//! The channel as a carrier of messages: a run of stores each, to several targets by one broadcast.

use weft_fabric::interface::window::Through;
use weft_protocol::window::{Node, Use};
use weft_units::{Bytes, Time};

use super::host::Purpose;
use super::{HubChannel, Operation};
use crate::drive::carrier::{
    Carrier, Departure, Destination, Message, Notice, RemoteAccess, Ticket,
};

impl Carrier for HubChannel {
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

    fn next_time(&self) -> Time {
        match self.notices.first() {
            Some(notice) => notice.time(),
            None => self.agenda.next_time().min(self.decide),
        }
    }

    fn advance(&mut self, now: Time, notices: &mut Vec<Notice>) {
        while self.step(now) {}
        notices.append(&mut self.notices);
    }

    fn keeps_barrier(&self) -> bool {
        self.has_barrier()
    }

    fn barrier(&mut self, now: Time, host: u16, hosts: u16, ticket: Ticket) -> bool {
        self.enter_barrier(now, host, hosts, ticket)
    }

    fn remote_read(&mut self, now: Time, read: RemoteAccess) -> Result<bool, String> {
        let RemoteAccess { from, target, offset, size, ticket } = read;
        // The answer is one packet; generation 1 has no remote read at all.
        if !self.parts.window.remote_read || size > self.parts.payload {
            return Ok(false);
        }
        let read = Operation::Read { target, offset: offset.0, size };
        self.begin(now, from, read, ticket).map_err(|error| error.to_string())?;
        Ok(true)
    }

    fn recoverable_write(&mut self, now: Time, write: RemoteAccess) -> Result<bool, String> {
        if self.parts.window.conditional_write
            && let Some(pages) = &self.pages
        {
            let [from, target] = [write.from, write.target].map(|host| Node(host as u8));
            let checked = pages.cluster().check_conditional(from, target, write.offset.0);
            checked.map_err(|error| error.to_string())?;
        }
        self.write_for_program(now, write);
        Ok(true)
    }

    fn take_departures(&mut self, departures: &mut Vec<Departure>) {
        departures.append(&mut self.departures);
    }

    fn keeps_one_order(&self) -> bool {
        self.has_one_order()
    }

    fn steps(&self) -> u64 {
        self.steps
    }

    fn waiting(&self) -> Vec<String> {
        let line = |(place, host): (usize, &super::Host)| {
            let (stores, packets) = (host.bus.messages(), host.link.waiting());
            (stores + packets > 0).then(|| {
                format!("host {place}: {stores} stores wait for its bus, {packets} for its link")
            })
        };
        self.hosts.iter().enumerate().filter_map(line).collect()
    }
}
