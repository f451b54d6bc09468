//! Hosts that send in common slots: hosts request transmissions for the packets in their send
//! buffers, and a scheduler allows in each slot at most one packet from each host and to each host
//! (Clint 3.3). The switch of such a star has no queues. Globally scheduled channels work like
//! this, whose requests are sampled some time before their transmissions, and so do cell switches
//! with virtual output queues, which are then the send buffers.

use std::collections::VecDeque;

use weft_fabric::adapter::{AdapterSettings, HeldPackets};
use weft_fabric::scheduler::Arbiter;
use weft_kernel::Stream;
use weft_protocol::retransmit::ControlSettings;
use weft_units::{Span, Time};

use super::Engine;

/// The parts of slots.
#[derive(Debug)]
pub struct SlotParts {
    /// From one slot to the next, at least as long as a packet takes on any cable.
    pub slot: Span,
    /// How long before the transmissions of a slot its requests are sampled.
    pub lead: Span,
    /// From the start of a transmission until its send buffer is free again, if arrivals are not
    /// reported.
    pub release: Span,
    /// A host requests only for the packet that would be sent first without a scheduler.
    pub heads: bool,
    /// The name of a transmission in a trace; without a name, arrivals are recorded.
    pub traced_as: Option<&'static str>,
    /// The scheduler, for as many ports as there are hosts.
    pub arbiter: Arbiter,
    /// Its random stream.
    pub random: Stream,
}

/// The slots of a channel.
#[derive(Debug)]
pub(super) struct Slots {
    pub parts: SlotParts,
    /// The parts of send buffers.
    pub adapter: AdapterSettings,
    /// Every slot uses events, even if none is needed.
    pub by_events: bool,
    /// The packets that had not arrived at the end of a run without events.
    pub left: Option<HeldPackets>,
    /// Initiator and target of transmissions that are allowed and have not begun, in their order.
    granted: VecDeque<(u16, u16)>,
    /// How many of them there are of each pair.
    promised: Vec<u32>,
    /// The first edge at which the scheduler has not decided.
    edge: u64,
    /// Whether an event is scheduled at a future edge.
    is_armed: bool,
    /// Reused to avoid allocation: the requests of each host at an edge, in `words` words.
    rows: Vec<u64>,
    words: usize,
}

/// The events of slots: at an edge the scheduler decides, after the transmissions that begin in the
/// same instant. An event of transmissions carries their number instead.
const EDGE: u32 = u32::MAX;

/// Empty slots that are caught up with in one step of a run.
const MOST_EMPTY: u64 = 1_024;

impl Slots {
    pub fn new(parts: SlotParts, adapter: AdapterSettings, hosts: usize) -> Slots {
        Slots {
            adapter,
            by_events: false,
            left: None,
            granted: VecDeque::new(),
            promised: vec![0; hosts * hosts],
            edge: 0,
            is_armed: false,
            rows: vec![0; hosts * hosts.div_ceil(64)],
            words: hosts.div_ceil(64),
            parts,
        }
    }

    /// The scheduler decides on what is requested.
    fn decide(&mut self) {
        let SlotParts { arbiter, random, .. } = &mut self.parts;
        arbiter.decide(random);
    }

    fn pair(&self, host: u32, target: u16) -> usize {
        host as usize * self.parts.arbiter.ports() + usize::from(target)
    }

    /// Runs the scheduler for edges before this one at which there were no requests: schedulers
    /// advance in empty slots, too. Returns whether all of them are done; it catches up with a
    /// limited number at a time, so that a run can be interrupted.
    fn catch_up(&mut self, now: Time) -> bool {
        let edge = now.0 / self.parts.slot.0;
        let next = edge.min(self.edge + MOST_EMPTY);
        self.parts.arbiter.clear();
        (self.edge..next).for_each(|_| self.decide());
        self.edge = next;
        next == edge
    }

    /// Decides at an edge. Returns how many transmissions are allowed.
    fn pass(&mut self) -> u32 {
        self.parts.arbiter.ask(&self.rows);
        self.decide();
        self.edge += 1;
        let ports = self.parts.arbiter.ports();
        self.parts.arbiter.each_connection(|(host, target)| {
            self.granted.push_back((host as u16, target as u16));
            self.promised[host * ports + target] += 1;
        });
        self.parts.arbiter.connections() as u32
    }
}

impl Engine {
    /// Makes every slot use events from the beginning, even on a channel that needs none. Does not
    /// change results, which a test checks.
    pub fn keep_to_events(&mut self) {
        if let Some(slots) = &mut self.adapters.slots {
            slots.by_events = true;
        }
    }

    /// A host may have a packet to send in a slot.
    #[inline(never)]
    pub(super) fn ask_for_slot(&mut self, now: Time, host: u32) {
        let Some(slots) = &mut self.adapters.slots else { return };
        let initiator = &self.adapters.hosts[host as usize].initiator;
        if slots.is_armed || !(initiator.has_priority() || initiator.window.has_candidates()) {
            return;
        }
        slots.is_armed = true;
        let slot = slots.parts.slot;
        let edge = Time(slot.0 * slots.edge.max(now.0.div_ceil(slot.0)));
        self.schedule(edge, self.places.samples, EDGE);
    }

    /// An edge, or the beginning of a number of transmissions.
    #[inline(never)]
    pub(super) fn happen_in_slot(&mut self, now: Time, item: u32) {
        if item < EDGE {
            return self.begin_granted(now, item);
        }
        let Some(mut slots) = self.adapters.slots.take() else { return };
        if !slots.catch_up(now) {
            self.adapters.slots = Some(slots);
            return self.schedule(now, self.places.samples, EDGE);
        }
        let mut rows = std::mem::take(&mut slots.rows);
        for (host, row) in (0..).zip(rows.chunks_mut(slots.words)) {
            for (word, targets) in (0..).zip(row) {
                *targets = self.requests(now, host, word, &slots);
            }
        }
        slots.rows = rows;
        let granted = slots.pass();
        let lead = slots.parts.lead;
        slots.is_armed = false;
        self.adapters.slots = Some(slots);
        if lead == Span::ZERO {
            self.begin_granted(now, granted);
        } else if granted > 0 {
            self.schedule(now + lead, self.places.samples, granted);
        }
        (0..self.graph.hosts()).for_each(|host| self.ask_for_slot(now, host));
    }

    /// The targets that a host requests at an edge, of 64 from 64 `word` on, one bit each.
    fn requests(&self, now: Time, host: u32, word: u16, slots: &Slots) -> u64 {
        let initiator = &self.adapters.hosts[host as usize].initiator;
        let first = slots.pair(host, 0);
        let promised = &slots.promised[first..first + slots.parts.arbiter.ports()];
        let to = |id: &u32| self.adapters.flights[*id as usize].to;
        let bit = |target: u16| u64::from(target / 64 == word) << (target % 64);
        let throttle = initiator.throttle.as_ref();
        let may_request = throttle.is_none_or(|own| own.ready_at() <= now + slots.parts.lead);
        if slots.parts.heads {
            if promised.iter().any(|count| *count > 0) {
                return 0;
            }
            let request = || initiator.window.next().map(|slot| initiator.window.target(slot));
            let first = initiator.acknowledgments.front().map(to);
            let first = first.or_else(|| request().filter(|_| may_request));
            return first.map_or(0, bit);
        }
        let waiting = &initiator.acknowledgments;
        let promised = |target: u16| promised[usize::from(target)] as usize;
        let answers = |target| waiting.iter().filter(|id| to(id) == target).count();
        let is_answered = |target: &u16| answers(*target) > promised(*target);
        let answered = waiting.iter().map(to).filter(is_answered);
        let answered = answered.fold(0, |targets, target| targets | bit(target));
        let more = |target| promised(target).saturating_sub(answers(target));
        let wanted = if may_request { initiator.window.wanted(word, more) } else { 0 };
        answered | wanted
    }

    /// Starts the transmissions that were granted first. One whose packet has meanwhile become
    /// known to have arrived does not start.
    fn begin_granted(&mut self, now: Time, count: u32) {
        for _ in 0..count {
            let Some(slots) = &mut self.adapters.slots else { return };
            let Some((host, target)) = slots.granted.pop_front() else { return };
            let pair = slots.pair(host.into(), target);
            slots.promised[pair] -= 1;
            let flights = &self.adapters.flights;
            let initiator = &mut self.adapters.hosts[usize::from(host)].initiator;
            let waiting = &mut initiator.acknowledgments;
            let answer = waiting.iter().position(|id| flights[*id as usize].to == target);
            if let Some(id) = answer.and_then(|place| waiting.remove(place)) {
                waiting.push_front(id);
                self.start_acknowledgment(now, host.into());
            } else if let Some(slot) = initiator.window.next_to(target) {
                self.start_request(now, host.into(), slot);
            }
            self.transmit(now, host.into());
        }
    }

    /// For how long the send buffer of a packet sent in a slot is held, if its arrival is not
    /// reported.
    pub(super) fn held_after_start(&self) -> Span {
        self.adapters.slots.as_ref().map_or(Span::ZERO, |own| own.parts.release)
    }

    /// The number of the slot in which a transmission begins now: that after the slot of its
    /// requests.
    pub(super) fn slot_of(&self, now: Time) -> Option<u64> {
        let SlotParts { slot, lead, .. } = self.adapters.slots.as_ref()?.parts;
        Some((now - lead).0 / slot.0 + 1)
    }

    /// The name of a request in a trace.
    pub(super) fn request_in_trace(&self) -> &'static str {
        self.adapters.slots.as_ref().and_then(|own| own.parts.traced_as).unwrap_or("qreq")
    }

    /// The packets that had not arrived at the end of a run without events.
    pub(super) fn left_by_slots(&self) -> Option<HeldPackets> {
        self.adapters.slots.as_ref()?.left
    }

    /// Packets are sent in slots and never retransmitted: the transmission that arrives is the
    /// first one, and no packet waits in the switch.
    pub(super) fn sends_once_in_slots(&self) -> bool {
        self.adapters.slots.is_some() && self.adapters.control == ControlSettings::Unacknowledged
    }
}
