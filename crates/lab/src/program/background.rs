//! Traffic beside a program: the workload of a channel while a program uses it. Both share hosts,
//! adapters, links and switches; the channel counts them together, and the workload is also counted
//! separately. It is offered for `run.length`, so that a program beside more traffic than hosts can
//! send still ends.

use weft_fabric::measure::Latency;
use weft_fabric::workload::{SourceSettings, WorkloadSettings};
use weft_units::{Span, Time};

use crate::assemble::{Driver, Site, refuse_classes_of_messages, refuse_in_workload, sources};
use crate::composition::ChannelSettings;
use crate::drive::Channel;
use crate::drive::carrier::{Carrier, Departure, Message, Notice, RemoteAccess, Ticket};
use crate::drive::engine::{FastForward, Horizon, Jump};
use crate::drive::traffic::Traffic;
use crate::error::Error;
use crate::program::library::Metrics;

/// A channel that a program uses.
#[derive(Debug)]
pub enum ProgramChannel {
    /// By itself.
    Alone(Driver),
    /// Beside a workload.
    Shared(Box<Traffic<Driver>>),
}

/// Whether a workload offers anything: what a preset says of arrivals offers nothing without a
/// load.
pub(crate) fn offers(workload: &WorkloadSettings) -> bool {
    workload.load.is_some() || workload.source != SourceSettings::OpenLoop
}

impl ProgramChannel {
    /// A channel at time zero, with its workload if it has one. `trace` records every transmission.
    pub(super) fn around(
        mut driver: Driver,
        settings: &ChannelSettings,
        workload: Option<&WorkloadSettings>,
        site: Site<'_>,
        trace: bool,
    ) -> Result<ProgramChannel, Error> {
        if trace {
            driver.record_trace();
        }
        let Some(workload) = workload.filter(|own| offers(own)) else {
            return Ok(ProgramChannel::Alone(driver));
        };
        let refused = match workload.source {
            SourceSettings::Streams(_) => Some("streams"),
            SourceSettings::Flows(_) => Some("flows"),
            _ => None,
        };
        if let Some(value) = refused {
            let accepted = "open_loop, greedy, paced, ping_pong or a list beside a program";
            return refuse_in_workload(site.name, "source", value, accepted);
        }
        if let Some(key) = workload.says() {
            let accepted = "it only without a program, whose ranks the handlers would wake";
            return refuse_in_workload(site.name, &format!("source.list.{key}"), "given", accepted);
        }
        refuse_classes_of_messages(workload, site.name)?;
        let sources = sources(settings, workload, site)?;
        let size = settings.message(Some(workload));
        let observations = site.observations();
        let traffic = Traffic::beside(driver, sources, site.until, size, observations);
        Ok(ProgramChannel::Shared(Box::new(traffic)))
    }

    /// The channel, and what is known of its workload at the end of a run, with the names of the
    /// columns. `packet` is the time that one of its messages occupies a link; the workload was
    /// offered `until` the end of the program, or of `run.length` if that is earlier.
    pub(crate) fn into_driver(
        self,
        name: &str,
        hosts: u16,
        packet: Span,
        until: Time,
        seed: u64,
    ) -> Result<(Driver, Metrics), Error> {
        let traffic = match self {
            ProgramChannel::Alone(driver) => return Ok((driver, Vec::new())),
            ProgramChannel::Shared(traffic) => traffic,
        };
        let seen = traffic.observations();
        let under_way = traffic.backlog() + traffic.in_flight();
        seen.conserve(under_way).map_err(|error| Error::Conservation {
            channel: name.to_owned(),
            seed,
            problem: format!("of the traffic beside the program, {error}"),
        })?;
        let time = until.since(Time::ZERO);
        let capacity = time.0 as f64 / packet.0 as f64 * f64::from(hosts);
        let latency = seen.recorder(Latency::OneWay).mean_ps().map_or(f64::NAN, |ps| ps * 1e-6);
        let columns = vec![
            ("background_offered_load", seen.generated as f64 / capacity),
            ("background_accepted_load", seen.delivered as f64 / capacity),
            ("background_mb_per_s", seen.payload_measured.0 as f64 / time.as_secs() * 1e-6),
            ("background_one_way_mean_us", latency),
            ("background_generated_messages", seen.generated as f64),
            ("background_delivered_messages", seen.delivered as f64),
            ("background_lost_messages", seen.abandoned as f64),
            ("background_under_way_messages", under_way as f64),
        ];
        Ok((traffic.into_carrier(), columns))
    }
}

/// Makes a call on whichever kind of channel it is.
macro_rules! on_either {
    ($channel:expr, $own:ident => $call:expr) => {
        match $channel {
            ProgramChannel::Alone($own) => $call,
            ProgramChannel::Shared($own) => $call,
        }
    };
}

impl Carrier for ProgramChannel {
    #[inline]
    fn offer(&mut self, now: Time, message: Message) {
        on_either!(self, own => own.offer(now, message));
    }

    #[inline]
    fn next_time(&self) -> Time {
        on_either!(self, own => own.next_time())
    }

    #[inline]
    fn advance(&mut self, now: Time, notices: &mut Vec<Notice>) {
        on_either!(self, own => own.advance(now, notices));
    }

    fn keeps_barrier(&self) -> bool {
        on_either!(self, own => own.keeps_barrier())
    }

    fn barrier(&mut self, now: Time, host: u16, hosts: u16, ticket: Ticket) -> bool {
        on_either!(self, own => own.barrier(now, host, hosts, ticket))
    }

    fn remote_read(&mut self, now: Time, read: RemoteAccess) -> Result<bool, String> {
        on_either!(self, own => own.remote_read(now, read))
    }

    fn recoverable_write(&mut self, now: Time, write: RemoteAccess) -> Result<bool, String> {
        on_either!(self, own => own.recoverable_write(now, write))
    }

    fn take_departures(&mut self, departures: &mut Vec<Departure>) {
        on_either!(self, own => own.take_departures(departures));
    }

    fn keeps_one_order(&self) -> bool {
        on_either!(self, own => own.keeps_one_order())
    }

    fn begin_fast_forward(&mut self) -> Result<(), String> {
        match self {
            ProgramChannel::Alone(own) => own.begin_fast_forward(),
            ProgramChannel::Shared(_) => Err("a workload beside the program".to_owned()),
        }
    }

    #[inline]
    fn fast_forward(&mut self, horizon: Horizon) -> Option<Jump> {
        on_either!(self, own => own.fast_forward(horizon))
    }

    fn fast_forwarded(&self) -> Option<FastForward> {
        on_either!(self, own => own.fast_forwarded())
    }

    fn steps(&self) -> u64 {
        on_either!(self, own => own.steps())
    }

    fn waiting(&self) -> Vec<String> {
        on_either!(self, own => own.waiting())
    }
}
