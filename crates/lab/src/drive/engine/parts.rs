//! Parts of the graph, each with the events that happen in it.
//!
//! What one part sends to another takes at least the shortest delay between them to get there. For
//! as long the parts run one after the other, each over a part of memory that stays in the cache.
//! What is observed is put into the order of time at the end of each such window.

use weft_fabric::graph::Graph;
use weft_fabric::measure::{Drop, Instants, Loss, Observations, Submission};
use weft_kernel::{Calendar, Event, Halt, Stopped};
use weft_units::{Span, Time};

use super::border::Border;
use super::delivery::{complete, give_up};
use super::division::Division;
use super::places::Places;
use super::{Delivery, Engine};

/// The events of all parts.
#[derive(Debug)]
pub(super) struct Parts {
    calendars: Vec<Calendar>,
    /// Whether the graph is not divided.
    is_one: bool,
    /// The part of each place; empty if there is only one.
    part_of: Vec<u32>,
    /// The least delay from an event in one part to its effect in another.
    apart: Span,
    spacing: Span,
    /// The delay from an event to those that it causes, if nothing else waits.
    ahead: Span,
    /// Packets submitted, dropped and delivered in the present window.
    handed: Vec<Submission>,
    pub dropped: Vec<Loss>,
    pub delivered: Vec<Instants>,
    /// If these are the events of one of several parts: what it reports and sends to the others.
    pub border: Option<Box<Border>>,
}

impl Parts {
    /// The whole graph as one part.
    pub fn one(graph: &Graph, has_adapters: bool) -> Parts {
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
        Parts::whole((spacing, ahead))
    }

    /// The events of an undivided graph; the arguments are the typical delay from one event to the next,
    /// and from an event to those that it causes.
    pub fn whole((spacing, ahead): (Span, Span)) -> Parts {
        Parts {
            calendars: vec![Calendar::new(spacing, ahead)],
            is_one: true,
            part_of: Vec::new(),
            apart: Span::ZERO,
            spacing,
            ahead,
            handed: Vec::new(),
            dropped: Vec::new(),
            delivered: Vec::new(),
            border: None,
        }
    }

    /// The events of one of `count` parts that run in parallel.
    pub fn beside(&self, border: Border, count: u32) -> Parts {
        let spacing = self.spacing * u64::from(count);
        Parts {
            calendars: vec![Calendar::new(spacing, self.ahead)],
            is_one: false,
            part_of: Vec::new(),
            apart: Span::ZERO,
            spacing,
            ahead: self.ahead,
            handed: Vec::new(),
            dropped: Vec::new(),
            delivered: Vec::new(),
            border: Some(Box::new(border)),
        }
    }

    /// Whether the graph is not divided.
    #[inline]
    pub fn is_one(&self) -> bool {
        self.is_one
    }

    /// From one event to the next, about, at half of what the graph carries.
    pub fn spacing(&self) -> Span {
        self.spacing
    }

    /// The events of the first part.
    #[inline]
    pub fn first(&mut self) -> &mut Calendar {
        &mut self.calendars[0]
    }

    /// The events of a part.
    #[inline]
    pub fn of(&self, part: usize) -> &Calendar {
        &self.calendars[part]
    }

    #[inline(always)]
    pub fn push(&mut self, event: Event) {
        let part = match self.part_of.is_empty() {
            true => 0,
            false => self.part_of[event.place as usize] as usize,
        };
        self.calendars[part].push(event);
    }

    #[inline(never)]
    pub fn note_handed(&mut self, now: Time, host: u32) {
        match &mut self.border {
            Some(border) => border.told.handed.push(Submission { time: now, host }),
            None => self.handed.push(Submission { time: now, host }),
        }
    }

    pub fn note_dropped(&mut self, now: Time, host: u32, why: Drop) {
        match &mut self.border {
            Some(border) => border.told.dropped.push(Loss { time: now, host, why }),
            None => self.dropped.push(Loss { time: now, host, why }),
        }
    }

    #[inline(never)]
    pub fn note_delivered(&mut self, seen: &mut Observations, one: Instants) {
        match &mut self.border {
            Some(border) => border.told.arrived.push(seen.complete_in_part(&one)),
            None => self.delivered.push(one),
        }
    }

    /// Divides the graph by the part of each switch.
    pub fn cut(&mut self, graph: &Graph, (places, is_classed): (Places, bool), part: &[u32]) {
        let own = Division { graph, is_classed, part };
        let Some(apart) = own.apart().filter(|apart| *apart > Span::ZERO) else { return };
        self.apart = apart;
        let of = own.of_places(places);
        (self.part_of, self.is_one) = (of, false);
        let count = part.iter().max().map_or(1, |last| last + 1);
        let spacing = self.spacing * u64::from(count);
        let fresh = (0..count).map(|_| Calendar::new(spacing, self.ahead)).collect();
        let mut before = std::mem::replace(&mut self.calendars, fresh);
        while let Some(event) = before.iter_mut().find_map(|own| own.pop_until(Time::NEVER)) {
            self.push(event);
        }
    }

    /// When something happens next in any part.
    pub fn earliest(&self) -> Option<Time> {
        self.calendars.iter().filter_map(Calendar::earliest).min()
    }
}

impl Engine {
    /// Runs all parts window by window. A run is stopped between two windows only.
    pub(super) fn run_parts(
        &mut self,
        until: Time,
        halt: &Halt,
        watch: &mut impl FnMut(Delivery),
    ) -> Option<Stopped> {
        while let Some(begin) = self.parts.earliest().filter(|begin| *begin <= until) {
            let last = Time(begin.0 + self.parts.apart.0 - 1).min(until);
            for part in 0..self.parts.calendars.len() {
                loop {
                    if self.classed.is_some() && self.parts.calendars[part].open(last) {
                        self.look_ahead(part);
                    }
                    let Some(event) = self.parts.calendars[part].pop_until(last) else { break };
                    self.steps += 1;
                    self.happen(event, watch);
                }
            }
            self.now = last;
            self.observe_window(watch);
            let stopped = halt.check(self.steps);
            if stopped.is_some() {
                return stopped;
            }
        }
        None
    }

    /// Observes what happened in a window in the order of a single calendar: by time, and at one time
    /// drops, then deliveries by place, then submissions.
    fn observe_window(&mut self, watch: &mut impl FnMut(Delivery)) {
        let Parts { handed, dropped, delivered, .. } = &mut self.parts;
        handed.sort_unstable();
        dropped.sort_unstable();
        delivered.sort_unstable_by_key(|one| (one.delivered, one.to));
        let mut drops = dropped.drain(..).peekable();
        let mut arrivals = delivered.drain(..).peekable();
        let seen = &mut self.observations;
        let mut end_until = |seen: &mut Observations, time: Time| {
            while let Some(one) = arrivals.next_if(|one| one.delivered <= time) {
                while let Some(drop) = drops.next_if(|drop| drop.time <= one.delivered) {
                    give_up(seen, (drop.time, drop.host, drop.why));
                }
                complete(seen, &one, watch);
            }
            while let Some(drop) = drops.next_if(|drop| drop.time <= time) {
                give_up(seen, (drop.time, drop.host, drop.why));
            }
        };
        for Submission { time, host } in handed.drain(..) {
            end_until(seen, time);
            seen.generate_from(host as usize, time);
        }
        end_until(seen, Time::NEVER);
    }
}
