//! The events of a graph, or of one of its parts that run in parallel, and what a part reports of them.

use std::sync::Arc;

use weft_fabric::graph::Graph;
use weft_fabric::measure::{Drop, Instants, Loss, Observations, Submission, Told};
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

/// How many slots of the calendar a window has at least where events happen node by node: what a node has in a slot is
/// sorted by inserting it.
const SLOTS: u64 = 64;

/// The order in which events happen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Order {
    /// Not decided yet.
    None,
    ByTime,
    /// Within a window node by node.
    ByNode,
}

/// The events of a graph or of a part of it.
#[derive(Debug)]
pub(super) struct Parts {
    calendar: Calendar,
    pace: EventPace,
    order: Order,
    /// What happened in the present window, if events happen node by node.
    pub window: Option<Box<Told>>,
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
        Parts { calendar, pace, order: Order::None, window: None, border: None }
    }

    /// The events of one of `count` parts that run in parallel.
    pub fn beside(&self, border: Border, count: u32) -> Parts {
        let spacing = self.pace.spacing * u64::from(count);
        let own = Parts::whole(EventPace { spacing, ..self.pace });
        Parts { border: Some(Box::new(border)), order: Order::ByTime, ..own }
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

    /// Whether what happens is counted at once, since it happens in order of time.
    #[inline]
    pub fn counts_at_once(&self) -> bool {
        self.is_one() && self.window.is_none()
    }

    /// What is counted at the end of the window.
    fn told(&mut self) -> Option<&mut Told> {
        match &mut self.border {
            Some(border) => Some(&mut border.told),
            None => self.window.as_deref_mut(),
        }
    }

    #[inline(never)]
    pub fn note_handed(&mut self, time: Time, host: u32, packets: u32) {
        if let Some(told) = self.told() {
            told.handed.push(Submission { time, host, packets });
        }
    }

    pub fn note_dropped(&mut self, now: Time, host: u32, why: Drop) {
        if let Some(told) = self.told() {
            told.dropped.push(Loss { time: now, host, why });
        }
    }

    #[inline(never)]
    pub fn note_delivered(&mut self, seen: &mut Observations, one: Instants) {
        if let Some(told) = self.told() {
            told.arrived.push(seen.complete_in_part(&one));
        }
    }

    /// Whether the order of events is not decided.
    pub fn has_no_order(&self) -> bool {
        self.order == Order::None
    }

    pub fn is_by_nodes(&self) -> bool {
        self.order == Order::ByNode
    }

    /// Events happen in order of time.
    pub fn keep_order_of_time(&mut self) {
        self.order = Order::ByTime;
    }

    /// Events happen node by node, by the node of each place, in windows shorter than `apart`; unless that is shorter
    /// than a slot.
    pub fn divide(&mut self, nodes: Arc<[u16]>, apart: Span) {
        let spacing = Span((apart.0 / SLOTS / Calendar::PER_SLOT).max(1));
        let mut calendar = Calendar::new(spacing, self.pace.ahead);
        if !calendar.divide(nodes, apart) {
            return self.keep_order_of_time();
        }
        while let Some(event) = self.calendar.pop_until(Time::NEVER) {
            calendar.push(event);
        }
        (self.calendar, self.order, self.window) = (calendar, Order::ByNode, Some(Box::default()));
    }

    /// When something happens next.
    pub fn earliest(&self) -> Option<Time> {
        self.calendar.earliest()
    }
}
