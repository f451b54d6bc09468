//! The loop over the events of an undivided graph.
//!
//! In a large graph an event finds little of what it needs in the cache. The events of the open slot of
//! the calendar are known and sorted, so that the memory is asked for what an event needs while those
//! before it are processed. What is behind a pointer is asked for in a second step.

use weft_kernel::{Event, Halt, SlottedEvents, Stopped, prefetch, prefetch_whole};
use weft_units::Time;

use super::places::Places;
use super::{Delivery, Engine};

/// How many events ahead of the present one memory is asked for, and for what only that memory tells. A few events
/// take as long as the memory.
const FAR: usize = 10;
const NEAR: usize = 5;

/// The number of directed ports from which on a graph is large: its packets, ports and sources do not fit
/// into the first cache.
const LARGE: u32 = 2_048;

/// How many events a slot of the calendar has if most events ahead are in later ones.
const FEW: usize = 4 * FAR;

impl Engine {
    /// Prefetches what events and edges need, however small the graph is. Does not change results, which a test
    /// checks.
    pub fn prefetch_in_any_graph(&mut self) {
        self.is_large = true;
        self.clocks.call_any_number_many();
    }

    /// Whether a graph of so many directed ports is large.
    pub(super) fn is_large(ports: u32) -> bool {
        ports >= LARGE
    }

    pub(super) fn run_whole(
        &mut self,
        until: Time,
        halt: &Halt,
        watch: &mut impl FnMut(Delivery),
    ) -> Option<Stopped> {
        if halt.step_limit.is_some() && self.steps == 0 {
            // The limit is counted event by event.
            self.submissions = SlottedEvents::default();
        }
        let mut due = halt.next_check(self.steps);
        loop {
            let event = match self.is_large {
                true => self.pop_and_prefetch(until)?,
                false => self.parts.first().pop_until(until)?,
            };
            self.now = event.time;
            self.steps += 1;
            let Places { hosts, frees, .. } = self.ranges;
            match event.place >= hosts && event.place < frees && !self.is_large {
                true => self.deliver_all(event, due, watch),
                false => self.happen(event, watch),
            }
            if self.steps >= due {
                // One event may stand for many.
                let stopped = halt.check_since(due - 1, self.steps);
                if stopped.is_some() {
                    return stopped;
                }
                due = halt.next_check(self.steps);
            }
        }
    }

    /// Delivers a packet, and those of the same instant whose events follow, until `most` steps have been taken.
    /// In a large graph it would have to prefetch for the events behind them as well, which costs more than it
    /// spares.
    #[inline(never)]
    fn deliver_all(&mut self, first: Event, most: u64, watch: &mut impl FnMut(Delivery)) {
        let Places { hosts, frees, .. } = self.ranges;
        let mut event = first;
        loop {
            self.deliver_one(event.time, event.place - hosts, event.item, watch);
            if self.steps >= most {
                return;
            }
            let Some(next) = self.parts.first().pop_at(first.time, hosts..frees) else { return };
            self.steps += 1;
            event = next;
        }
    }

    /// Removes the earliest event if its time is not after `until`, and prefetches what those behind it need.
    #[inline(always)]
    pub(super) fn pop_and_prefetch(&mut self, until: Time) -> Option<Event> {
        if let Some((event, near, far)) = self.parts.first().pop_with::<NEAR, FAR>(until) {
            self.prefetch_far(far);
            self.prefetch_near(near);
            return Some(event);
        }
        self.look_ahead_at_events(until);
        self.parts.first().pop_until(until)
    }

    /// Prefetches what the events after the next one need where few are left in the open slot, or others were scheduled
    /// late.
    #[inline(never)]
    fn look_ahead_at_events(&mut self, until: Time) {
        let calendar = self.parts.first();
        if calendar.open(until) && calendar.ahead(FEW).is_none() {
            self.foresee_events();
        }
        let calendar = self.parts.first();
        let (far, near) = (calendar.ahead(FAR), calendar.ahead(NEAR));
        if let Some(event) = far {
            self.prefetch_far(event);
        }
        if let Some(event) = near {
            self.prefetch_near(event);
        }
    }

    /// Prefetches what the events of the next slot of the calendar need, where slots have few events.
    #[inline(never)]
    fn foresee_events(&mut self) {
        let Engine { parts, packets, graph, ranges, .. } = self;
        let (hosts, frees) = (ranges.hosts, ranges.frees);
        parts.first().prefetch_behind();
        parts.first().foresee(|Event { place, item, .. }| {
            prefetch(&packets.forwarding, item as usize);
            if place < hosts {
                graph.prefetch_port(place);
            } else if place < frees {
                prefetch(&packets.packets, item as usize);
            }
        });
    }

    /// Prefetches what an event names. Sources are read in the order of hosts, which a processor finds out.
    #[inline(always)]
    fn prefetch_far(&self, Event { place, item, .. }: Event) {
        let places = &self.ranges;
        if place < places.hosts {
            prefetch(&self.packets.forwarding, item as usize);
            self.graph.prefetch_port(place);
        } else if place < places.frees {
            prefetch(&self.packets.forwarding, item as usize);
            prefetch_both_ends(&self.packets.packets, item);
        }
    }

    /// Prefetches what is behind what an event names.
    #[inline(always)]
    fn prefetch_near(&self, Event { place, item, .. }: Event) {
        let places = &self.ranges;
        if place < places.hosts {
            return;
        }
        if place >= places.generates && place < places.wakes {
            self.supply.prefetch(place - places.generates);
        } else if place < places.frees
            && let Some(packet) = self.packets.packets.get(item as usize)
        {
            self.observations.prefetch_of(packet.from as usize);
        }
    }
}

/// An element of a list may be in two lines of the cache.
#[inline(always)]
fn prefetch_both_ends<T>(all: &[T], index: u32) {
    if let Some(one) = all.get(index as usize) {
        prefetch_whole(one);
    }
}
