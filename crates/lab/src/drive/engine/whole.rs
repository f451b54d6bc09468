//! The loop over the events of an undivided graph.
//!
//! Most events are those of packets that reach switches. Where nothing but the packet decides how it
//! goes on ([`Engine::cross`]), they are processed in a loop of their own, which has at hand what all
//! of them read.
//!
//! In a large graph an event finds little of what it needs in the cache. The events of the open slot of
//! the calendar are known and sorted, so that the memory is asked for what an event needs while those
//! before it are processed. What is behind a pointer is asked for in a second step.

use weft_fabric::graph::{Departure, PlainSwitches};
use weft_kernel::{Calendar, Event, Halt, Stopped, prefetch, prefetch_whole};
use weft_units::Time;

use super::packets::{Forwarding, Packets};
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

/// Up to where packets cross switches together: in time and place, and how many.
#[derive(Clone, Copy, Debug)]
struct Bounds {
    until: Time,
    place: u32,
    most: usize,
    /// How many events ahead memory is asked for; more than there are in small graphs.
    ahead: usize,
}

/// More events than there are.
const BEYOND_ALL: usize = usize::MAX >> 1;

impl Engine {
    /// Prefetches what events and edges need, however small the graph is. Does not change results, which a test
    /// checks.
    pub fn prefetch_in_any_graph(&mut self) {
        self.is_large = true;
        self.clocks.call_any_number_many();
    }

    /// Processes every event of an undivided graph on its own, and prefetches nothing for them. Does not change
    /// results, which a test checks.
    pub fn process_events_one_by_one(&mut self) {
        (self.is_plain, self.is_large) = (false, false);
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
        let may_cross = self.is_plain && self.routes.look_at_packets_alone();
        let hosts = self.ranges.hosts;
        loop {
            if may_cross {
                // It pays for two or more.
                let calendar = self.parts.first();
                let crosses = |after| calendar.ahead(after).is_some_and(|own| own.place < hosts);
                if crosses(0) && crosses(1) {
                    self.cross(until, halt);
                }
            }
            if self.is_large {
                self.look_ahead_at_events(until);
            }
            let event = self.parts.first().pop_until(until)?;
            self.now = event.time;
            self.steps += 1;
            self.happen(event, watch);
            let stopped = halt.check(self.steps);
            if stopped.is_some() {
                return stopped;
            }
        }
    }

    /// Packets cross plain switches, as long as nothing else happens before them in the open slot of the calendar.
    #[inline]
    fn cross(&mut self, until: Time, halt: &Halt) {
        // The last step before a halt is looked at is left to the caller.
        let most = halt.left(self.steps).min(0xfff - (self.steps & 0xfff)) as usize;
        let ahead = if self.is_large { FAR } else { BEYOND_ALL };
        let bounds = Bounds { until, place: self.ranges.hosts, most, ahead };
        let Engine { graph, routes, packets: Packets { forwarding, .. }, parts, .. } = self;
        let (switches, calendar) = (graph.plain_switches(), parts.first());
        let crossed = match routes.in_tree() {
            Some(tree) => cross(bounds, switches, forwarding, calendar, |switch, own| {
                tree.port(switch, own.to, &mut own.route_state)
            }),
            None => cross(bounds, switches, forwarding, calendar, |switch, own| {
                routes.port(switch, own.hops, own.to, &mut own.route_state, |_| 0)
            }),
        };
        if let Some((packets, last)) = crossed {
            self.steps += packets as u64;
            self.now = last;
        }
    }

    /// Prefetches what the events after the next one need.
    #[inline]
    pub(super) fn look_ahead_at_events(&mut self, until: Time) {
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
    #[inline]
    fn prefetch_far(&self, Event { place, item, .. }: Event) {
        let places = &self.ranges;
        if place < places.frees {
            prefetch_both_ends(&self.packets.forwarding, item);
            if place < places.hosts {
                self.graph.prefetch_port(place);
            } else {
                prefetch_both_ends(&self.packets.packets, item);
            }
        }
    }

    /// Prefetches what is behind what an event names.
    #[inline]
    fn prefetch_near(&self, Event { place, item, .. }: Event) {
        let places = &self.ranges;
        if place >= places.generates && place < places.wakes {
            self.supply.prefetch(place - places.generates);
        } else if place >= places.hosts
            && place < places.frees
            && let Some(packet) = self.packets.packets.get(item as usize)
        {
            self.observations.prefetch_of(packet.from as usize);
        }
    }
}

/// Packets cross switches, by the ports that `choose` returns for a switch and a packet, until something else is due or
/// a bound is reached. Returns how many did, and when the last of them did.
// A function of its own, so that the compiler knows that what all packets read is not written meanwhile.
#[inline(never)]
fn cross(
    Bounds { until, place, most, ahead }: Bounds,
    switches: PlainSwitches<'_>,
    forwarding: &mut [Forwarding],
    calendar: &mut Calendar,
    choose: impl Fn(u32, &mut Forwarding) -> u32,
) -> Option<(usize, Time)> {
    calendar.replace_each((until, place), most, ahead, |event, next| {
        if let Some(next) = next {
            prefetch_both_ends(forwarding, next.item);
            switches.prefetch(next.place);
        }
        let Event { time: now, place: input, item } = event;
        let own = &mut forwarding[item as usize];
        let Departure { arrival: time, place, .. } =
            switches.cross(now, input, |switch| choose(switch, own));
        own.hops += 1;
        Event { time, place, item }
    })
}

/// An element of a list may be in two lines of the cache.
#[inline(always)]
fn prefetch_both_ends<T>(all: &[T], index: u32) {
    if let Some(one) = all.get(index as usize) {
        prefetch_whole(one);
    }
}
