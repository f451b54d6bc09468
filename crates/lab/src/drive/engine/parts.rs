//! The events of a graph, or of one of its parts that run in parallel, and what a part reports of them.

use weft_fabric::graph::Graph;
use weft_fabric::measure::{Drop, Instants, Loss, Observations, Submission};
use weft_kernel::{Calendar, Event};
use weft_units::{Span, Time};

use super::border::Border;

/// How close events are to each other.
#[derive(Clone, Copy, Debug)]
pub(super) struct EventPace {
    /// From one event to the next, about.
    pub spacing: Span,
    /// From an event to those that it causes, if nothing else waits.
    pub ahead: Span,
    /// How many times wider than usual the slots of the calendar are.
    pub widening: u64,
}

/// The events of a graph or of a part of it.
#[derive(Debug)]
pub(super) struct Parts {
    calendar: Calendar,
    pace: EventPace,
    /// If these are the events of one of several parts: what it reports and sends to the others.
    pub border: Option<Box<Border>>,
}

impl Parts {
    /// The whole graph as one part. With traffic classes the engine prefetches slot by slot, at a cost for each slot,
    /// so slots are wider there.
    pub fn one(graph: &Graph, has_adapters: bool, has_classes: bool) -> Parts {
        let widening = if has_classes { 2 } else { 1 };
        // At half of its capacity each directed port has an event for every two packets, and each
        // host one more for each packet that it submits.
        let ports = u64::from(graph.switch_ports()) + 2 * u64::from(graph.ends());
        let span = (0..graph.ends()).map(|host| graph.span(graph.host_port(host))).min();
        let spacing = Span(span.map_or(1, |span| 2 * span.0 / ports.max(1)).max(1));
        // Adapters do more at an instant and soon after it: acknowledge, serve their links, send.
        let spacing = if has_adapters { Span((spacing.0 / 2).max(1)) } else { spacing };
        // A packet that finds one before it, over a cable like most.
        let delay = |port| u128::from((graph.least_delay(port) + graph.span(port) * 2).0);
        let all = graph.switch_ports() + graph.ends();
        let sum: u128 = (0..all).map(delay).sum();
        let ahead = Span((sum / u128::from(all.max(1))) as u64);
        Parts::whole(EventPace { spacing, ahead, widening })
    }

    /// The events of an undivided graph.
    pub fn whole(pace: EventPace) -> Parts {
        let calendar = Calendar::new(pace.spacing * pace.widening, pace.ahead);
        Parts { calendar, pace, border: None }
    }

    /// The events of one of `count` parts that run in parallel.
    pub fn beside(&self, border: Border, count: u32) -> Parts {
        let spacing = self.pace.spacing * u64::from(count);
        let own = Parts::whole(EventPace { spacing, ..self.pace });
        Parts { border: Some(Box::new(border)), ..own }
    }

    /// Whether these are the events of a graph and not of a part of it.
    #[inline]
    pub fn is_one(&self) -> bool {
        self.border.is_none()
    }

    /// From one event to the next, about, at half of what the graph carries.
    pub fn spacing(&self) -> Span {
        self.pace.spacing
    }

    /// The events.
    #[inline]
    pub fn first(&mut self) -> &mut Calendar {
        &mut self.calendar
    }

    #[inline(always)]
    pub fn push(&mut self, event: Event) {
        self.calendar.push(event);
    }

    #[inline(never)]
    pub fn note_handed(&mut self, now: Time, host: u32) {
        if let Some(border) = &mut self.border {
            border.told.handed.push(Submission { time: now, host });
        }
    }

    pub fn note_dropped(&mut self, now: Time, host: u32, why: Drop) {
        if let Some(border) = &mut self.border {
            border.told.dropped.push(Loss { time: now, host, why });
        }
    }

    #[inline(never)]
    pub fn note_delivered(&mut self, seen: &mut Observations, one: Instants) {
        if let Some(border) = &mut self.border {
            border.told.arrived.push(seen.complete_in_part(&one));
        }
    }

    /// When something happens next.
    pub fn earliest(&self) -> Option<Time> {
        self.calendar.earliest()
    }
}
