//! Cables that fail, come back or run at a fraction of their rate while the channel runs.
//!
//! What happens to a cable at an instant precedes everything else of that instant: it is the last
//! event of the picosecond before. The fate of a packet is decided when its transmission starts,
//! since the failures of its cable are known by then, and takes effect when the cable fails.

use weft_fabric::fabric::{CableFailure, Failures, HostPair, LiveNextHops};
use weft_fabric::measure::Drop;
use weft_fabric::switch::shared_buffer::Ports;
use weft_fabric::workload::FlowDemand;
use weft_kernel::Event;
use weft_units::{Span, Time};

use crate::drive::engine::Engine;
use crate::drive::engine::flows::FlowUnderWay;

/// What becomes of the cables of a channel.
#[derive(Debug)]
pub struct CableParts {
    /// The cables that fail or slow down, and when.
    pub failures: Failures,
    /// The next hops that routes use from an instant on, in order.
    pub next_hops: Vec<(Time, LiveNextHops)>,
    /// Whether any switch pauses classes.
    pub has_pauses: bool,
}

/// What happens to cables, and when.
#[derive(Debug)]
pub(super) struct Cables {
    /// In order.
    changes: Vec<Change>,
    /// By port: the intervals in which its cable is down, in order.
    outages: Vec<Vec<Outage>>,
    /// By port: the number of the link that it had at first, where that changes.
    laid: Vec<Option<u32>>,
    next_hops: Vec<(Time, LiveNextHops)>,
    holds: bool,
    has_pauses: bool,
    /// When to check next whether messages in flight have a route, and since when none of them has
    /// one.
    next_look: Time,
    cut_off: Option<Time>,
}

/// A time in which nothing comes over a cable.
#[derive(Clone, Copy, Debug)]
struct Outage {
    from: Time,
    until: Time,
}

/// Something that happens to a cable, or to the routes.
#[derive(Clone, Copy, Debug)]
struct Change {
    time: Time,
    what: What,
}

#[derive(Clone, Copy, Debug)]
enum What {
    /// Both directions of a cable use a link.
    Link([u32; 2], u32),
    Fails([u32; 2]),
    IsBack([u32; 2]),
    /// Routes use other next hops, by their number.
    NextHops(u32),
}

/// What becomes of a packet that starts.
pub(super) enum Fate {
    /// It is lost at an instant.
    Lost(Time),
    /// It goes on with a wrong check code.
    Damaged,
}

/// Behind the place of samples: something happens to a cable, and a packet is lost on one.
const CHANGE: u32 = 1;
pub(super) const LOSS: u32 = 2;

impl Cables {
    /// `ports` are those of all switches and hosts.
    pub fn new(parts: CableParts, ports: &mut Ports, count: u32) -> Cables {
        let CableParts { failures, next_hops, has_pauses } = parts;
        ports.will_change();
        let (mut outages, mut laid) =
            (vec![Vec::new(); count as usize], vec![None; count as usize]);
        // Of two changes at one instant, ends come before beginnings.
        let (mut ends, mut begins) = (Vec::new(), Vec::new());
        for CableFailure { ends: of, at, until, rate } in &failures.cables {
            let (begin, end) = if *rate > Default::default() {
                let own = ports.link(of[0]);
                of.iter().for_each(|port| laid[*port as usize] = Some(own));
                let slower = ports.add_slower(of[0], *rate);
                (What::Link(*of, slower), What::Link(*of, own))
            } else {
                let outage = Outage { from: *at, until: *until };
                of.iter().for_each(|port| outages[*port as usize].push(outage));
                (What::Fails(*of), What::IsBack(*of))
            };
            begins.push(Change { time: *at, what: begin });
            ends.push(Change { time: *until, what: end });
        }
        let of_routes = (0..).zip(&next_hops).map(|(number, own)| (own.0, What::NextHops(number)));
        ends.retain(|own| own.time < Time::NEVER);
        ends.extend(begins);
        ends.extend(of_routes.map(|(time, what)| Change { time, what }));
        ends.sort_by_key(|own| own.time);
        Cables {
            changes: ends,
            outages,
            laid,
            next_hops,
            holds: failures.holds,
            has_pauses,
            next_look: Time::ZERO,
            cut_off: None,
        }
    }

    /// What happens to a packet that starts at a port, takes `span`, and whose first byte takes
    /// `cable` to the far end; `None` if it arrives intact.
    #[cold]
    pub fn fate(
        &self,
        start: Time,
        port: u32,
        waits_for_all: bool,
        span: Span,
        cable: Span,
    ) -> Option<Fate> {
        let there = start + cable + span;
        let fails = |outage: &&Outage| outage.from < there && outage.until > start;
        let Outage { from, .. } = *self.outages[port as usize].iter().find(fails)?;
        let has_begun = from >= start + cable && from > start;
        match has_begun && !waits_for_all {
            true => Some(Fate::Damaged),
            false => Some(Fate::Lost(from.max(start))),
        }
    }

    /// Whether the cable in a port is down.
    pub fn is_out(&self, now: Time, port: u32) -> bool {
        self.outages[port as usize].iter().any(|outage| outage.from <= now && now < outage.until)
    }

    /// Whether a port holds what it has until its cable is back.
    pub fn holds(&self, now: Time, port: u32) -> bool {
        self.holds && self.is_out(now, port)
    }

    /// The link that a port had at first, where that changes.
    pub fn laid(&self, port: u32) -> Option<u32> {
        self.laid[port as usize]
    }

    /// Since when no known route has led from one host to another, if none does at the end of
    /// `now`.
    fn without_a_way(&self, now: Time, HostPair { from, to }: HostPair) -> Option<Time> {
        let known = self.next_hops.iter().rev().skip_while(|(time, _)| *time > now);
        let mut since = None;
        for (time, next_hops) in known {
            if next_hops.has_way(from, to) {
                break;
            }
            since = Some(*time);
        }
        since
    }
}

impl Engine {
    /// Has cables fail and come back when they do.
    pub(super) fn begin_cables(&mut self) {
        let Some(cables) = self.classed.as_ref().and_then(|own| own.cables.as_ref()) else {
            return;
        };
        let times: Vec<Time> = cables.changes.iter().map(|own| own.time).collect();
        for (item, time) in (0..).zip(times) {
            match time.0.checked_sub(1) {
                Some(before) => self.schedule(Time(before), self.places.samples + CHANGE, item),
                None => self.change_cable(item),
            }
        }
    }

    /// What happens behind the place of samples.
    #[cold]
    pub(super) fn happen_to_cables(&mut self, Event { time: now, place, item }: Event) {
        match place - self.places.samples {
            LOSS => {
                self.give_up_classed(now, item, Drop::FailedCable);
                self.look_for_ways(now);
            }
            _ => self.change_cable(item),
        }
    }

    /// Transports retransmit forever. If no message in flight has had a route for two timeouts, and
    /// no cable will come back, no later event can matter to the programs that wait for these
    /// messages.
    fn look_for_ways(&mut self, now: Time) {
        let (Some(own), Some(flows)) = (&mut self.classed, &self.flows) else { return };
        let Some(cables) = &mut own.cables else { return };
        let is_final = cables.next_hops.last().is_some_and(|(time, _)| *time <= now);
        if !is_final || now < cables.next_look || self.supply.messages().is_none() {
            return;
        }
        let timeout = flows.timeout();
        cables.next_look = now + timeout;
        let cut_off = |flow: &FlowDemand| cables.without_a_way(now, flow.hosts()).is_some();
        if flows.under_way(now).all(|own| cut_off(own.flow)) {
            let since = *cables.cut_off.get_or_insert(now);
            self.is_cut_off = now >= since + timeout * 2;
        } else {
            cables.cut_off = None;
        }
    }

    /// A message is submitted, which may have a route.
    pub(in crate::drive::engine) fn look_for_ways_again(&mut self) {
        self.is_cut_off = false;
        if let Some(cables) = self.classed.as_mut().and_then(|own| own.cables.as_mut()) {
            cables.cut_off = None;
        }
    }

    fn change_cable(&mut self, item: u32) {
        let Some(own) = self.classed.as_deref_mut() else { return };
        let Some(cables) = &own.cables else { return };
        let Change { time: now, what } = cables.changes[item as usize];
        let (holds, tells) = (cables.holds, cables.has_pauses);
        let ends = match what {
            What::NextHops(number) => {
                self.routes.keep_to(&cables.next_hops[number as usize].1);
                return self.keep_flows_to_planes(now);
            }
            What::Link(ends, link) => {
                return ends.iter().for_each(|port| own.ports.use_link(*port, link));
            }
            What::Fails(ends) => {
                ends.iter().for_each(|port| own.ports.fail(now, *port, holds));
                ends
            }
            What::IsBack(ends) => {
                ends.iter().for_each(|port| own.ports.come_back(*port, tells));
                ends
            }
        };
        ends.into_iter().for_each(|port| self.send_on(now, port));
    }

    /// Flows that have begun and not ended and have no route left, one sentence each; and how many
    /// there are.
    pub(in crate::drive::engine) fn flows_without_a_way(&self) -> (Vec<String>, u64) {
        let (Some(own), Some(flows), Some(wiring)) = (&self.classed, &self.flows, &self.names)
        else {
            return (Vec::new(), 0);
        };
        let Some(cables) = &own.cables else { return (Vec::new(), 0) };
        let (mut lines, mut count) = (Vec::new(), 0);
        for FlowUnderWay { number, group, flow } in flows.under_way(self.now) {
            let Some(since) = cables.without_a_way(self.now, flow.hosts()) else { continue };
            count += 1;
            if lines.len() < MOST_NAMED {
                let [from, to] = [flow.from, flow.to].map(|host| wiring.host_name(host));
                let since = since.since(Time::ZERO);
                lines.push(format!(
                    "flow {number} ({group}) from {from} to {to} has had no way left since {since}"
                ));
            }
        }
        let more = count - lines.len() as u64;
        if more > 0 {
            lines.push(format!("{more} more flows have no way left"));
        }
        (lines, count)
    }
}

/// Flows that are named one by one.
const MOST_NAMED: usize = 16;
