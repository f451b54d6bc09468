//! Any channel with any driver: static dispatch over the one closed choice.

use std::num::NonZeroUsize;

use weft_fabric::measure::Observations;
use weft_kernel::{Halt, Stopped};
use weft_units::Time;

use super::Driver;
use crate::drive::Channel;
use crate::drive::carrier::{Carrier, Departure, Message, Notice, RemoteAccess, Ticket};
use crate::drive::engine::{Alone, Course, FastForward, FlowReport, Horizon, Jump, NetworkReport};
use crate::drive::interface::HandlerReport;
use crate::drive::trace::TraceEntry;

/// Makes the same call on any driver.
macro_rules! on_each {
    ($driver:expr, $channel:ident => $call:expr) => {
        match $driver {
            Driver::Engine($channel) => $call,
            Driver::Coupled($channel) => $call,
            Driver::Half($channel) => $call,
            Driver::Hosted($channel) => $call,
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

    fn remote_read(&mut self, now: Time, read: RemoteAccess) -> Result<bool, String> {
        on_each!(self, channel => Carrier::remote_read(&mut **channel, now, read))
    }

    fn recoverable_write(&mut self, now: Time, write: RemoteAccess) -> Result<bool, String> {
        on_each!(self, channel => Carrier::recoverable_write(&mut **channel, now, write))
    }

    fn take_departures(&mut self, departures: &mut Vec<Departure>) {
        on_each!(self, channel => Carrier::take_departures(&mut **channel, departures));
    }

    fn keeps_one_order(&self) -> bool {
        on_each!(self, channel => channel.keeps_one_order())
    }

    fn begin_fast_forward(&mut self) -> Result<(), String> {
        let why = match self {
            Driver::Engine(channel) => return Carrier::begin_fast_forward(&mut **channel),
            Driver::Hosted(_) => "hosts with stages, buses or libraries",
            Driver::Coupled(_) | Driver::Half(_) => "a switch with a schedule",
        };
        Err(why.to_owned())
    }

    #[inline]
    fn fast_forward(&mut self, horizon: Horizon) -> Option<Jump> {
        on_each!(self, channel => Carrier::fast_forward(&mut **channel, horizon))
    }

    fn fast_forwarded(&self) -> Option<FastForward> {
        on_each!(self, channel => Carrier::fast_forwarded(&**channel))
    }

    fn steps(&self) -> u64 {
        on_each!(self, channel => channel.steps())
    }

    fn waiting(&self) -> Vec<String> {
        on_each!(self, channel => channel.waiting())
    }
}

impl Channel for Driver {
    fn run(&mut self, until: Time, halt: &Halt) -> Option<Stopped> {
        on_each!(self, channel => channel.run(until, halt))
    }

    fn spread(&mut self, threads: NonZeroUsize, even_if_slower: bool) -> Result<(), Alone> {
        on_each!(self, channel => Channel::spread(&mut **channel, threads, even_if_slower))
    }

    fn backlog(&self) -> u64 {
        on_each!(self, channel => channel.backlog())
    }

    fn in_flight(&self) -> u64 {
        on_each!(self, channel => channel.in_flight())
    }

    fn observations_mut(&mut self) -> Option<&mut Observations> {
        on_each!(self, channel => Channel::observations_mut(&mut **channel))
    }

    fn into_observations(self) -> Observations {
        on_each!(self, channel => channel.into_observations())
    }

    fn counters(&self, until: Time) -> Vec<(&'static str, f64)> {
        on_each!(self, channel => channel.counters(until))
    }

    fn network(&self) -> Option<NetworkReport> {
        on_each!(self, channel => channel.network())
    }

    fn flows(&self) -> Option<FlowReport> {
        on_each!(self, channel => channel.flows())
    }

    fn handlers(&self) -> Option<HandlerReport> {
        on_each!(self, channel => channel.handlers())
    }

    fn course(&self) -> Vec<Course> {
        on_each!(self, channel => channel.course())
    }

    fn overrun(&self) -> Option<&str> {
        on_each!(self, channel => channel.overrun())
    }

    fn broken_order(&self) -> Option<String> {
        on_each!(self, channel => channel.broken_order())
    }

    fn record_trace(&mut self) {
        on_each!(self, channel => channel.record_trace());
    }

    fn take_trace(&mut self) -> Vec<TraceEntry> {
        on_each!(self, channel => channel.take_trace())
    }
}
