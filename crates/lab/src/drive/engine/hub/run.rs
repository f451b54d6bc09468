//! The hub in the engine: what it begins with, and how it is moved through time.

use weft_kernel::{Halt, Stopped};
use weft_units::{Limit, Time};

use super::{HubStep, Windows};
use crate::drive::engine::parts::EventPace;
use crate::drive::engine::{Delivery, Engine};

impl Windows {
    /// Whether a cable between two hosts stands in the place of the hub.
    pub(in crate::drive::engine) fn is_direct(&self) -> bool {
        self.state.parts.hub.is_direct()
    }

    /// Somebody watches from now on.
    pub(in crate::drive::engine) fn show_deliveries(&mut self) {
        self.shown.is_watched = true;
    }

    /// How close the events of the calendar are.
    pub(in crate::drive::engine) fn pace(&self) -> EventPace {
        let spacing = self.state.parts.spacing();
        EventPace { spacing, ahead: spacing * 16, widening: 1 }
    }

    /// When something happens next; [`Time::NEVER`] if nothing does.
    pub(in crate::drive::engine) fn next_time(&self) -> Time {
        self.state.lines.next_time().min(self.state.decide)
    }
}

impl Engine {
    #[inline]
    pub(super) fn step_at_hub(&mut self) -> Option<HubStep<'_>> {
        let Windows { state, shown } = &mut **self.hub.as_mut()?;
        Some(HubStep {
            own: state,
            calendar: self.parts.first(),
            graph: &mut self.graph,
            supply: &mut self.supply,
            seen: &mut self.observations,
            shown,
            steps: &mut self.steps,
        })
    }

    /// What nodes, hub and files do by themselves, and the first messages of sources.
    pub(in crate::drive::engine) fn begin_hub(&mut self, send_buffers: Limit) {
        if let Some(mut step) = self.step_at_hub() {
            step.start_nodes();
            step.start_cluster();
            step.begin_sources(send_buffers);
        }
        self.next = self.next_with_adapters();
    }

    /// Runs the traffic of sources around a hub until `until`, or until it is stopped.
    pub(in crate::drive::engine) fn run_hub(
        &mut self,
        until: Time,
        halt: &Halt,
        watch: &mut impl FnMut(Delivery),
    ) -> Option<Stopped> {
        let mut step = self.step_at_hub()?;
        let stopped = step.run_traffic(until, halt, watch);
        self.now = step.own.now;
        stopped
    }

    /// Lets the next thing happen that is due by `until`. Returns when it happened.
    pub(in crate::drive::engine) fn step_with_hub(&mut self, until: Time) -> Option<Time> {
        let mut step = self.step_at_hub()?;
        let now = step.step(until).then_some(step.own.now)?;
        self.now = now;
        Some(now)
    }
}
