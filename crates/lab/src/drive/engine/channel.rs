//! The engine's implementation of the interface of a driver.

use std::num::NonZeroUsize;

use weft_fabric::measure::Observations;
use weft_kernel::{Halt, Stopped};
use weft_units::Time;

use super::{Alone, Course, Engine, FlowReport, NetworkReport, Windows};
use crate::drive::Channel;
use crate::drive::interface::HandlerReport;
use crate::drive::trace::TraceEntry;

impl Channel for Engine {
    fn run(&mut self, until: Time, halt: &Halt) -> Option<Stopped> {
        self.run_until(until, halt, |_| {})
    }

    fn backlog(&self) -> u64 {
        if self.adapters.is_on {
            return self.unsent();
        }
        if let Some(turns) = &self.turns {
            return turns.unsent();
        }
        if let Some(hub) = &self.hub {
            return hub.unsent();
        }
        if let Some(held) = self.held_of_flows() {
            return held.unsent;
        }
        let waiting = match self.memories.is_on {
            true => self.memories.held().unsent,
            false => self.waiting_in_hosts(),
        };
        let on_rings = self.ring.as_ref().map_or(0, |rings| rings.unsent());
        waiting + on_rings + self.supply.unfed()
    }

    fn in_flight(&self) -> u64 {
        if self.memories.is_on {
            return self.memories.held().under_way;
        }
        if self.adapters.is_on {
            return self.undelivered();
        }
        if let Some(turns) = &self.turns {
            return turns.under_way();
        }
        if let Some(hub) = &self.hub {
            return hub.under_way();
        }
        if let Some(held) = self.held_of_flows() {
            return held.under_way + self.classed.as_ref().map_or(0, |own| own.apart());
        }
        let beside = self.beside.as_ref().map_or(0, |beside| beside.packets());
        let ranks = self.ranks.as_ref().map_or(0, |ranks| ranks.packets());
        (self.packets.len() + beside) as u64 + ranks - self.waiting_in_hosts()
    }

    fn observations_mut(&mut self) -> Option<&mut Observations> {
        Some(&mut self.observations)
    }

    fn spread(&mut self, threads: NonZeroUsize, even_if_slower: bool) -> Result<(), Alone> {
        Engine::spread(self, threads, even_if_slower)
    }

    fn counters(&self, until: Time) -> Vec<(&'static str, f64)> {
        match (&self.ring, &self.turns, &self.hub) {
            (Some(ring), ..) => ring.columns(),
            (None, Some(turns), _) => turns.columns(&self.observations),
            (None, None, Some(hub)) => hub.columns(until),
            (None, None, None) => self.adapter_columns(until),
        }
    }

    fn record_trace(&mut self) {
        match &mut self.turns {
            Some(turns) => turns.note_frames(),
            None => self.note_transmissions(),
        }
    }

    fn take_trace(&mut self) -> Vec<TraceEntry> {
        match &mut self.turns {
            Some(turns) => turns.noted_frames(),
            None => self.noted_transmissions(),
        }
    }

    fn network(&self) -> Option<NetworkReport> {
        self.report().or_else(|| self.report_classes())
    }

    fn flows(&self) -> Option<FlowReport> {
        let own = self.flows.as_ref()?;
        let unreachable = self.flows_without_a_way().1;
        Some(FlowReport { unreachable, ..own.report(self.observations.from, self.now) })
    }

    fn handlers(&self) -> Option<HandlerReport> {
        self.report_handlers()
    }

    fn course(&self) -> Vec<Course> {
        self.hub.as_deref().map_or_else(Vec::new, Windows::course)
    }

    fn broken_order(&self) -> Option<String> {
        self.hub.as_deref().and_then(Windows::broken_order)
    }

    fn overrun(&self) -> Option<&str> {
        self.overrun.as_ref().map(|own| own.said.as_str())
    }

    fn into_observations(mut self) -> Observations {
        self.take_observations()
    }
}

impl Engine {
    /// The observations; afterwards only counters remain.
    pub(in crate::drive) fn take_observations(&mut self) -> Observations {
        let starts_as_counted = self.adapters.is_on || self.turns.is_some() || self.hub.is_some();
        let waiting = if starts_as_counted { 0 } else { self.started_later() };
        let mut observations = std::mem::take(&mut self.observations);
        if let Some(hub) = &self.hub {
            hub.add_stages(&mut observations.budget);
        }
        if self.adapters.sends_in_slots() {
            // So that the records are the same whether or not anything happened after the last step.
            observations.sample(self.now);
        }
        let mut observations = observations.with_busy(self.busy());
        // They were counted when their start was known, which lies beyond the end.
        observations.attempts = observations.attempts.saturating_sub(waiting);
        observations.forget_deliveries();
        observations
    }

    /// Packets that have not left their hosts.
    fn waiting_in_hosts(&self) -> u64 {
        let of = |own: &Engine| own.classed.as_ref().map_or(0, |own| own.waiting_in_hosts());
        let beside = self.beside.iter().flat_map(|beside| beside.parts());
        let classed = of(self) + beside.map(of).sum::<u64>();
        let ranks = self.ranks.as_ref().map_or(0, |ranks| ranks.waiting_in_hosts());
        self.graph.waiting_in_hosts() + ranks + classed + self.started_later()
    }

    /// Packets whose known start is in the future. Each link sends one after another, so they
    /// follow from when it will be free.
    fn started_later(&self) -> u64 {
        if self.classed.is_some() {
            return 0;
        }
        let after = |host| {
            let port = self.graph.host_port(host);
            let rest = self.graph.free(port).since(self.now).0.saturating_sub(1);
            // A host on a ring has no cable, so that a packet may take no time on its link.
            if rest > 0 { rest / self.graph.span(port).0 } else { 0 }
        };
        (0..self.graph.ends()).map(after).sum()
    }
}
