//! Messages over any channel, whatever drives it: static dispatch by the one closed choice.

use weft_units::Time;

use super::Driver;
use crate::drive::carrier::{Carrier, Message, Notice, RemoteRead, Ticket};

/// The same call on whichever driver it is.
macro_rules! on_each {
    ($driver:expr, $channel:ident => $call:expr) => {
        match $driver {
            Driver::Slotted($channel) => $call,
            Driver::OutputQueued($channel) => $call,
            Driver::Event($channel) => $call,
            Driver::OutputQueuedNetwork($channel) => $call,
            Driver::InputQueuedNetwork($channel) => $call,
            Driver::SharedMemoryNetwork($channel) => $call,
            Driver::Ring($channel) => $call,
            Driver::Hosted($channel) => $call,
            Driver::Hub($channel) => $call,
            Driver::Turns($channel) => $call,
        }
    };
}

/// For a driver that was built without a workload.
impl Carrier for Driver {
    #[inline]
    fn offer(&mut self, now: Time, message: Message) {
        on_each!(self, channel => Carrier::offer(&mut **channel, now, message));
    }

    #[inline]
    fn next_time(&self) -> Time {
        on_each!(self, channel => channel.next_time())
    }

    #[inline]
    fn advance(&mut self, now: Time, notices: &mut Vec<Notice>) {
        on_each!(self, channel => channel.advance(now, notices));
    }

    fn keeps_barrier(&self) -> bool {
        on_each!(self, channel => channel.keeps_barrier())
    }

    fn barrier(&mut self, now: Time, host: u16, hosts: u16, ticket: Ticket) -> bool {
        on_each!(self, channel => Carrier::barrier(&mut **channel, now, host, hosts, ticket))
    }

    fn remote_read(&mut self, now: Time, read: RemoteRead) -> Result<bool, String> {
        on_each!(self, channel => Carrier::remote_read(&mut **channel, now, read))
    }

    fn keeps_one_order(&self) -> bool {
        on_each!(self, channel => channel.keeps_one_order())
    }

    fn steps(&self) -> u64 {
        Driver::steps(self)
    }

    fn waiting(&self) -> Vec<String> {
        Driver::waiting(self)
    }
}
