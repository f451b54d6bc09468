//! The interface of a driver to the code that runs it and reads its results.

use std::num::NonZeroUsize;

use weft_fabric::measure::Observations;
use weft_kernel::{Halt, Stopped};
use weft_units::Time;

use super::carrier::Carrier;
use super::engine::{Alone, FlowReport, NetworkReport};
use super::hub::Course;
use super::interface::HandlerReport;
use super::trace::{TraceEntry, of_passages};

/// A channel that runs: with its own traffic, or moved by the messages of a [`Carrier`].
pub trait Channel: Carrier {
    /// Lets its own traffic run up to and including `until`, or until `halt` stops it; to be called
    /// once. Returns why it stopped early, if it did.
    fn run(&mut self, until: Time, halt: &Halt) -> Option<Stopped>;

    /// Divides the channel among so many threads if that is worth it, or `even_if_slower`, for a run of its own
    /// traffic without a limit on steps: to be called before it runs. Changes nothing that a run shows.
    ///
    /// # Errors
    /// Why it has one thread all the same.
    fn spread(&mut self, threads: NonZeroUsize, even_if_slower: bool) -> Result<(), Alone> {
        let _ = (threads, even_if_slower);
        Err(Alone::Kind)
    }

    /// Packets whose transmission has not begun.
    fn backlog(&self) -> u64;

    /// Packets on their way.
    fn in_flight(&self) -> u64;

    /// What is observed, where anything is.
    fn observations_mut(&mut self) -> Option<&mut Observations>;

    /// What was observed; ends the channel.
    fn into_observations(self) -> Observations
    where
        Self: Sized;

    /// What was counted and measured besides, with the names of its columns.
    fn counters(&self, until: Time) -> Vec<(&'static str, f64)> {
        let _ = until;
        Vec::new()
    }

    /// What streams got and cables carried, where it is noted.
    fn network(&self) -> Option<NetworkReport> {
        None
    }

    /// What became of flows, where there are any.
    fn flows(&self) -> Option<FlowReport> {
        None
    }

    /// What handlers did, where messages call some.
    fn handlers(&self) -> Option<HandlerReport> {
        None
    }

    /// How the throughput went over time, where it is noted.
    fn course(&self) -> Vec<Course> {
        Vec::new()
    }

    /// Which buffer was written while it was full, if one was: the run then means nothing.
    fn overrun(&self) -> Option<&str> {
        None
    }

    /// The ordering rule that was broken, on a channel that has such rules and looks.
    fn broken_order(&self) -> Option<String> {
        None
    }

    /// Notes from now on what is on its way when: every transmission, or, where transmissions are
    /// not told apart, every packet that arrives; in front of hosts every message.
    fn record_trace(&mut self) {
        if let Some(observations) = self.observations_mut() {
            observations.note_passages();
        }
    }

    /// What was noted so far.
    fn take_trace(&mut self) -> Vec<TraceEntry> {
        let observations = self.observations_mut();
        of_passages("packet", observations.map_or(Vec::new(), Observations::take_passages))
    }
}
