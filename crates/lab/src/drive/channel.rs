//! The interface of a driver to the code that runs it and reads its results.

use std::num::NonZeroUsize;

use weft_fabric::measure::Observations;
use weft_kernel::{Halt, Stopped};
use weft_units::Time;

use super::carrier::Carrier;
use super::engine::{Alone, Course, FlowReport, NetworkReport};
use super::interface::HandlerReport;
use super::trace::{TraceEntry, of_passages};

/// A channel that runs: with its own traffic, or moved by the messages of a [`Carrier`].
pub trait Channel: Carrier {
    /// Simulates the traffic of the channel's own workload up to and including `until`, or until
    /// `halt` stops it. May be called only once. Returns why it stopped early, if it did.
    fn run(&mut self, until: Time, halt: &Halt) -> Option<Stopped>;

    /// Divides the channel among this many threads, if that is worthwhile or `even_if_slower`, for
    /// a run of its own traffic without a limit on steps. Must be called before the run. Does not
    /// change the results.
    ///
    /// # Errors
    /// Why it keeps one thread.
    fn spread(&mut self, threads: NonZeroUsize, even_if_slower: bool) -> Result<(), Alone> {
        let _ = (threads, even_if_slower);
        Err(Alone::Kind)
    }

    /// Packets whose transmission has not begun.
    fn backlog(&self) -> u64;

    /// Packets in flight.
    fn in_flight(&self) -> u64;

    /// The observations, if anything is observed.
    fn observations_mut(&mut self) -> Option<&mut Observations>;

    /// The final observations; ends the channel.
    fn into_observations(self) -> Observations
    where
        Self: Sized;

    /// Further counts and measurements, with the names of their columns.
    fn counters(&self, until: Time) -> Vec<(&'static str, f64)> {
        let _ = until;
        Vec::new()
    }

    /// What streams received and cables carried, if that is recorded.
    fn network(&self) -> Option<NetworkReport> {
        None
    }

    /// The outcomes of flows, if there are any.
    fn flows(&self) -> Option<FlowReport> {
        None
    }

    /// What handlers did, if messages call some.
    fn handlers(&self) -> Option<HandlerReport> {
        None
    }

    /// How the throughput changed over time, if that is recorded.
    fn course(&self) -> Vec<Course> {
        Vec::new()
    }

    /// The buffer that was written while it was full, if that happened: the run then means nothing.
    fn overrun(&self) -> Option<&str> {
        None
    }

    /// The ordering rule that was broken, on a channel that checks rules of order.
    fn broken_order(&self) -> Option<String> {
        None
    }

    /// Records from now on what is in flight when: every transmission, or, if the driver does not
    /// distinguish transmissions, every packet that arrives; in front of hosts every message.
    fn record_trace(&mut self) {
        if let Some(observations) = self.observations_mut() {
            observations.note_passages();
        }
    }

    /// What has been recorded so far.
    fn take_trace(&mut self) -> Vec<TraceEntry> {
        let observations = self.observations_mut();
        of_passages("packet", observations.map_or(Vec::new(), Observations::take_passages))
    }
}
