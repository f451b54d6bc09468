//! Hardware retransmission with a fixed timer and several packets outstanding (Clint 2, 3.3, 3.4).
//!
//! The network forwards with fixed delays, so a loss is known a fixed time after the start of the
//! transmission, and every outstanding packet is retransmitted individually. An acknowledgment is
//! matched by the identity of the packet (pair and sequence number), never by its send buffer: the
//! buffer may hold another packet by the time that a late acknowledgment arrives.

use std::collections::VecDeque;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use weft_units::{Bytes, Limit, Span, Time};

use crate::resequence::REACH;

/// How the initiator learns the outcome of a transmission.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum ControlSettings {
    /// Not at all: a dropped packet is given up. For switches that drop nothing.
    Unacknowledged,
    /// Acknowledgment packets on the channel itself, and a timer.
    RequestAcknowledge(RequestAcknowledgeSettings),
    /// After a fixed time, without any packet on the channel: an idealisation (Clint 4.2 simulates
    /// the unscheduled bulk channels free of errors and without acknowledgments).
    OutOfBand(OutOfBandSettings),
}

/// Settings of request and acknowledgment with a fixed timer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RequestAcknowledgeSettings {
    /// A request is retransmitted this long after the start of its transmission unless its
    /// acknowledgment has arrived.
    pub timeout: Span,
    /// How many packets may be sent and not yet acknowledged, per initiator.
    pub outstanding: Limit,
    /// Size of an acknowledgment packet on the wire.
    pub acknowledgment: Bytes,
    /// From the last byte of a request to the moment when its acknowledgment is ready to be sent.
    #[serde(default)]
    pub turn_around: Span,
    /// Which packets may overtake which.
    #[serde(default)]
    pub order: Order,
    /// Whether a retransmission goes before packets not yet sent.
    #[serde(default)]
    pub retries: Retries,
    /// Every timer is extended by a random time from zero up to this value.
    #[serde(default)]
    pub back_off: Span,
}

/// Settings of outcomes known without any packet on the channel.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct OutOfBandSettings {
    /// When the delay starts.
    #[serde(default)]
    pub known_after: KnownAfter,
    /// The outcome is known this long after that.
    pub delay: Span,
    /// How many packets of an initiator may have an outcome that is not yet known.
    pub outstanding: Limit,
    /// Which packets may overtake which.
    #[serde(default)]
    pub order: Order,
    /// Whether a retransmission goes before packets not yet sent.
    #[serde(default)]
    pub retries: Retries,
    /// A lost packet is retransmitted after a further random time from zero up to this value.
    #[serde(default)]
    pub back_off: Span,
}

/// When the delay of an outcome starts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum KnownAfter {
    /// At the end of the transmission.
    #[default]
    Transmission,
    /// For a success at the arrival of the last byte at the target, for a loss at the end of the
    /// transmission.
    Delivery,
}

/// Which packets of one initiator may overtake which.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Order {
    /// Retransmitted packets may be overtaken, even by packets for the same target.
    #[default]
    Unordered,
    /// Like `unordered` on the wire, but the target delivers packets in order of sequence number.
    Resequenced,
    /// A packet waits until every earlier one for the same target is acknowledged.
    PerPair,
    /// A packet waits until every earlier one of the initiator is acknowledged.
    HeadOfLine,
}

/// Whether a retransmission goes before packets not yet sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Retries {
    /// The oldest packet that may be sent is sent first.
    #[default]
    First,
    /// A packet not yet sent goes first.
    Last,
}

/// The place of a packet in a [`Window`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Slot(u32);

/// One transmission of the packet in a slot. The number differs from that of every other
/// transmission of the window, so that a timer of an earlier one is recognised as stale.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Attempt(u32);

/// The properties of a transmission that [`Window::start`] returns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Started<P> {
    /// The target of the packet.
    pub target: u16,
    /// Its sequence number in this pair.
    pub sequence: u32,
    /// The transmission.
    pub attempt: Attempt,
    /// Whether it is the packet's first.
    pub first: bool,
    /// The caller's data for the packet.
    pub packet: P,
}

/// What a packet in a window waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// Its first transmission.
    Fresh,
    /// The outcome of a transmission.
    Sent,
    /// Another transmission: one failed.
    Failed,
}

/// A packet in a window, as seen from outside.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Held<P> {
    /// The target of the packet.
    pub target: u16,
    /// Its sequence number in this pair.
    pub sequence: u32,
    /// What it waits for.
    pub standing: Standing,
    /// The caller's data for the packet.
    pub packet: P,
}

/// The send buffers of one initiator: packets stay until they are acknowledged.
#[derive(Clone, Debug)]
pub struct Window<P> {
    buffers: Limit,
    outstanding: Limit,
    order: Order,
    retries: Retries,
    entries: Vec<Entry<P>>,
    free: Vec<u32>,
    /// Occupied places, oldest packet first.
    by_age: VecDeque<u32>,
    /// The next sequence number by target.
    sequences: Vec<u32>,
    /// Packets never sent, by target. Kept only if the caller asks for the packets of a target.
    fresh: Vec<VecDeque<u32>>,
    /// Packets whose first transmission has started.
    unacknowledged: usize,
    /// Packets that wait to be retransmitted.
    failed: usize,
    /// A packet was sent before an older one. Until then those never sent are the youngest.
    overtaken: bool,
    attempts: u32,
}

#[derive(Clone, Copy, Debug)]
struct Entry<P> {
    held: Held<P>,
    attempt: Attempt,
    occupied: bool,
}

/// The rules of a window of unacknowledged packets.
#[derive(Clone, Copy, Debug)]
pub struct WindowRules {
    /// How many packets may be outstanding.
    pub outstanding: Limit,
    /// Which may overtake which.
    pub order: Order,
    /// Which goes first.
    pub retries: Retries,
}

impl ControlSettings {
    /// How many packets may be outstanding, which may overtake which, and which goes first.
    pub fn window(&self) -> WindowRules {
        let (outstanding, order, retries) = match self {
            ControlSettings::Unacknowledged => (Limit::Unlimited, Order::Unordered, Retries::First),
            ControlSettings::RequestAcknowledge(s) => (s.outstanding, s.order, s.retries),
            ControlSettings::OutOfBand(s) => (s.outstanding, s.order, s.retries),
        };
        WindowRules { outstanding, order, retries }
    }

    /// The largest random extension of the wait before a packet is retransmitted.
    pub fn back_off(&self) -> Span {
        match self {
            ControlSettings::Unacknowledged => Span::ZERO,
            ControlSettings::RequestAcknowledge(s) => s.back_off,
            ControlSettings::OutOfBand(s) => s.back_off,
        }
    }
}

impl RequestAcknowledgeSettings {
    /// When a transmission that starts now counts as lost. The caller draws `back_off`, from zero
    /// up to the setting of that name.
    pub fn deadline(&self, now: Time, back_off: Span) -> Time {
        now + self.timeout + back_off
    }
}

impl<P: Copy> Window<P> {
    /// Empty send buffers for packets to `targets` hosts.
    pub fn new(buffers: Limit, control: &ControlSettings, targets: usize) -> Window<P> {
        let WindowRules { outstanding, order, retries } = control.window();
        Window {
            buffers,
            outstanding,
            order,
            retries,
            entries: Vec::new(),
            free: Vec::new(),
            by_age: VecDeque::new(),
            sequences: vec![0; targets],
            fresh: Vec::new(),
            unacknowledged: 0,
            failed: 0,
            overtaken: false,
            attempts: 0,
        }
    }

    /// Keeps packets by target, so that the caller can choose the target of each transmission among
    /// those that [`Window::wanted`] returns.
    #[must_use]
    pub fn by_target(self) -> Window<P> {
        Window { fresh: vec![VecDeque::new(); self.sequences.len()], ..self }
    }

    /// Whether a send buffer is free.
    #[inline]
    pub fn has_space(&self) -> bool {
        self.buffers.admits(self.by_age.len())
    }

    /// Moves a packet into a free send buffer and numbers it. The caller has asked
    /// [`Window::has_space`].
    pub fn admit(&mut self, target: u16, packet: P) -> Slot {
        let sequence = self.sequences[usize::from(target)];
        self.sequences[usize::from(target)] = sequence.wrapping_add(1);
        let held = Held { target, sequence, standing: Standing::Fresh, packet };
        let entry = Entry { held, attempt: Attempt(0), occupied: true };
        let place = match self.free.pop() {
            Some(place) => {
                self.entries[place as usize] = entry;
                place
            }
            None => {
                self.entries.push(entry);
                (self.entries.len() - 1) as u32
            }
        };
        self.by_age.push_back(place);
        if !self.fresh.is_empty() {
            self.keep_by_target(target, place);
        }
        Slot(place)
    }

    // Not inlined, so that the code for windows that do not keep packets by target stays short.
    #[inline(never)]
    fn keep_by_target(&mut self, target: u16, place: u32) {
        self.fresh[usize::from(target)].push_back(place);
    }

    /// The caller's data for the packet in a slot.
    pub fn packet_mut(&mut self, slot: Slot) -> &mut P {
        &mut self.entries[slot.0 as usize].held.packet
    }

    /// The target of the packet in a slot.
    #[inline]
    pub fn target(&self, slot: Slot) -> u16 {
        self.entries[slot.0 as usize].held.target
    }

    /// Whether [`Window::next`] may find a packet; that it does not is certain if not.
    #[inline]
    pub fn has_candidates(&self) -> bool {
        let fresh = self.by_age.len() > self.unacknowledged;
        self.failed > 0 || (fresh && self.outstanding.admits(self.unacknowledged))
    }

    /// The packet to send next, if one may be sent.
    // Inlined, since one caller makes nearly all of the calls, and another one would keep it a
    // function.
    #[inline(always)]
    pub fn next(&self) -> Option<Slot> {
        if !self.has_candidates() {
            return None;
        }
        let fresh_allowed = self.outstanding.admits(self.unacknowledged);
        let strict = self.order == Order::HeadOfLine;
        let skipped =
            if self.failed > 0 || self.overtaken || strict { 0 } else { self.unacknowledged };
        let mut fallback = None;
        // Indices, not an iterator over the deque: the first entry is nearly always chosen.
        for age in skipped..self.by_age.len() {
            let place = self.by_age[age];
            let held = &self.entries[place as usize].held;
            let choose = match held.standing {
                Standing::Sent => false,
                Standing::Failed if self.retries == Retries::Last => {
                    fallback = fallback.or(Some(Slot(place)));
                    false
                }
                Standing::Failed => true,
                Standing::Fresh => fresh_allowed && self.in_turn(age, held),
            };
            if choose {
                return Some(Slot(place));
            }
            if strict {
                break;
            }
        }
        fallback
    }

    /// The targets, one bit each, for which more packets may be sent than are `promised`. For a
    /// window that keeps packets [by target](Self::by_target): of the 64 targets from 64 `word` on.
    pub fn wanted(&self, word: u16, promised: impl Fn(u16) -> usize) -> u64 {
        if self.order == Order::HeadOfLine {
            let oldest = self.by_age.front().map(|place| &self.entries[*place as usize].held);
            let oldest = oldest.filter(|held| self.may_be_sent_as_oldest(held));
            let target = oldest.map(|held| held.target).filter(|target| promised(*target) == 0);
            return target.map_or(0, |target| u64::from(target / 64 == word) << (target % 64));
        }
        // For each target, what must be retransmitted, and the oldest packet in flight.
        let mut unsettled = [(0, None); 64];
        for held in self.unsettled() {
            if held.target / 64 != word {
                continue;
            }
            let (failed, oldest) = &mut unsettled[usize::from(held.target) % 64];
            *failed += usize::from(held.standing == Standing::Failed);
            *oldest = oldest.or(Some(held.sequence));
        }
        let admits = self.outstanding.admits(self.unacknowledged);
        let mut targets = 0;
        let fresh = self.fresh.get(64 * usize::from(word)..).unwrap_or_default();
        for ((target, fresh), (failed, oldest)) in (64 * word..).zip(fresh).zip(unsettled) {
            let may_be_sent = match fresh.front() {
                Some(place) if admits && self.follows(*place, oldest) => match self.order {
                    Order::PerPair => 1,
                    _ => fresh.len(),
                },
                _ => 0,
            };
            targets |= u64::from(failed + may_be_sent > promised(target)) << (target % 64);
        }
        targets
    }

    /// The packet to send next to a target, if one may be sent, of a window that keeps them
    /// [by target](Self::by_target).
    pub fn next_to(&self, target: u16) -> Option<Slot> {
        if self.order == Order::HeadOfLine {
            let oldest = *self.by_age.front()?;
            let held = &self.entries[oldest as usize].held;
            let may_be_sent = held.target == target && self.may_be_sent_as_oldest(held);
            return may_be_sent.then_some(Slot(oldest));
        }
        let to_target = || self.unsettled().filter(|held| held.target == target);
        let admits = self.outstanding.admits(self.unacknowledged);
        let oldest = || to_target().next().map(|held| held.sequence);
        let fresh = self.fresh[usize::from(target)].front();
        let fresh = fresh.filter(|place| admits && self.follows(**place, oldest()));
        let fresh = fresh.map(|place| Slot(*place));
        if self.failed == 0 || (self.retries == Retries::Last && fresh.is_some()) {
            return fresh;
        }
        let is_failed = |place: &&u32| {
            let held = &self.entries[**place as usize].held;
            held.target == target && held.standing == Standing::Failed
        };
        self.by_age.iter().find(is_failed).map(|place| Slot(*place)).or(fresh)
    }

    /// Whether the oldest packet of all may be sent.
    fn may_be_sent_as_oldest(&self, held: &Held<P>) -> bool {
        match held.standing {
            Standing::Sent => false,
            Standing::Failed => true,
            Standing::Fresh => self.outstanding.admits(self.unacknowledged),
        }
    }

    /// Packets that have been sent, oldest first.
    fn unsettled(&self) -> impl Iterator<Item = &Held<P>> {
        let all = self.by_age.iter().map(|place| &self.entries[*place as usize].held);
        all.filter(|held| held.standing != Standing::Fresh).take(self.unacknowledged)
    }

    /// Whether the oldest unsent packet of a target may be sent, while the packet with the number
    /// `oldest` is in flight to that target.
    fn follows(&self, place: u32, oldest: Option<u32>) -> bool {
        let sequence = self.entries[place as usize].held.sequence;
        oldest.is_none_or(|oldest| {
            self.order != Order::PerPair && sequence.wrapping_sub(oldest) < REACH
        })
    }

    /// Whether the order and the target's memory allow a first transmission now.
    #[inline]
    fn in_turn(&self, age: usize, held: &Held<P>) -> bool {
        if age == 0 {
            return true;
        }
        let earlier = self.by_age.iter().take(age).map(|place| &self.entries[*place as usize].held);
        match earlier.into_iter().find(|earlier| earlier.target == held.target) {
            None => true,
            Some(_) if self.order == Order::PerPair => false,
            Some(oldest) => held.sequence.wrapping_sub(oldest.sequence) < REACH,
        }
    }

    /// Starts a transmission of the packet that [`Window::next`] chose, or [`Window::next_to`].
    pub fn start(&mut self, slot: Slot) -> Started<P> {
        self.attempts = self.attempts.wrapping_add(1);
        let attempt = Attempt(self.attempts);
        let entry = &mut self.entries[slot.0 as usize];
        let first = entry.held.standing == Standing::Fresh;
        if first {
            self.overtaken |= self.by_age.get(self.unacknowledged) != Some(&slot.0);
            self.unacknowledged += 1;
            if !self.fresh.is_empty() {
                self.fresh[usize::from(entry.held.target)].pop_front();
            }
        } else {
            self.failed -= 1;
        }
        entry.held.standing = Standing::Sent;
        entry.attempt = attempt;
        let Held { target, sequence, packet, .. } = entry.held;
        Started { target, sequence, attempt, first, packet }
    }

    /// A timer expired, or a transmission is known to be lost. Returns whether the packet must be
    /// retransmitted now; not if it has been acknowledged or retransmitted already.
    pub fn fail(&mut self, slot: Slot, attempt: Attempt) -> bool {
        let entry = &mut self.entries[slot.0 as usize];
        let current = entry.occupied && entry.attempt == attempt;
        if current {
            self.failed += usize::from(entry.held.standing == Standing::Sent);
            entry.held.standing = Standing::Failed;
        }
        current
    }

    /// An acknowledgment of a packet arrived: frees its buffer and returns the packet. `None` if
    /// the packet has been acknowledged before (a late acknowledgment, to be ignored).
    pub fn acknowledge(&mut self, slot: Slot, target: u16, sequence: u32) -> Option<Held<P>> {
        let entry = &self.entries[slot.0 as usize];
        let held = entry.held;
        let matches = entry.occupied && held.target == target && held.sequence == sequence;
        matches.then(|| self.release(slot))
    }

    /// Frees the buffer of a packet that has been sent, whatever becomes of it.
    pub fn release(&mut self, slot: Slot) -> Held<P> {
        let entry = &mut self.entries[slot.0 as usize];
        debug_assert!(entry.occupied && entry.held.standing != Standing::Fresh);
        entry.occupied = false;
        self.failed -= usize::from(entry.held.standing == Standing::Failed);
        self.unacknowledged -= 1;
        if self.by_age.front() == Some(&slot.0) {
            self.by_age.pop_front();
        } else if let Some(age) = self.by_age.iter().position(|place| *place == slot.0) {
            self.by_age.remove(age);
        }
        self.free.push(slot.0);
        entry.held
    }

    /// How many packets for `target` have been admitted so far, modulo 2^32.
    pub fn numbered(&self, target: u16) -> u32 {
        self.sequences[usize::from(target)]
    }

    /// How many send buffers are occupied.
    pub fn len(&self) -> usize {
        self.by_age.len()
    }

    /// Whether every send buffer is free.
    pub fn is_empty(&self) -> bool {
        self.by_age.is_empty()
    }

    /// The packets in the send buffers, oldest first.
    pub fn iter(&self) -> impl Iterator<Item = Held<P>> + '_ {
        self.by_age.iter().map(|place| self.entries[*place as usize].held)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn window(buffers: u32, outstanding: u32, order: Order, retries: Retries) -> Window<char> {
        let limit = |count| Limit::at_most(count).expect("positive");
        let control = ControlSettings::OutOfBand(OutOfBandSettings {
            known_after: KnownAfter::Transmission,
            delay: Span::ZERO,
            outstanding: limit(outstanding),
            order,
            retries,
            back_off: Span::ZERO,
        });
        Window::new(limit(buffers), &control, 4)
    }

    /// Starts the next transmission and returns its slot, its attempt and the packet.
    fn send(window: &mut Window<char>) -> Option<(Slot, Attempt, char)> {
        let slot = window.next()?;
        let started = window.start(slot);
        Some((slot, started.attempt, started.packet))
    }

    #[test]
    fn outstanding_packets_are_limited_and_retries_go_first() {
        let mut window = window(4, 2, Order::Unordered, Retries::First);
        for (target, packet) in [(0, 'a'), (1, 'b'), (0, 'c'), (2, 'd')] {
            assert!(window.has_space());
            window.admit(target, packet);
        }
        assert!(!window.has_space());
        let (slot_a, first_a, _) = send(&mut window).expect("a");
        let (slot_b, _, packet) = send(&mut window).expect("b");
        assert_eq!(packet, 'b');
        assert_eq!(window.next(), None, "two are outstanding");

        assert!(window.fail(slot_a, first_a));
        let (again, second_a, packet) = send(&mut window).expect("a again");
        assert_eq!((again, packet), (slot_a, 'a'));
        assert!(!window.fail(slot_a, first_a), "the timer of the first transmission is stale");

        assert!(window.acknowledge(slot_b, 1, 0).is_some());
        assert_eq!(window.acknowledge(slot_b, 1, 0), None, "late");
        let (_, _, packet) = send(&mut window).expect("c overtakes a");
        assert_eq!(packet, 'c');
        assert!(window.fail(slot_a, second_a));
        assert!(window.acknowledge(slot_a, 0, 0).is_some(), "the retry was not needed");
        assert_eq!(window.len(), 2);
    }

    #[test]
    fn a_late_acknowledgment_does_not_free_the_next_packet_in_the_buffer() {
        let mut window = window(1, 1, Order::Unordered, Retries::First);
        window.admit(3, 'a');
        let (slot, _, _) = send(&mut window).expect("a");
        window.acknowledge(slot, 3, 0);
        window.admit(3, 'b');
        let (again, _, _) = send(&mut window).expect("b");
        assert_eq!(again, slot, "the same buffer");
        assert_eq!(window.acknowledge(slot, 3, 0), None);
        assert!(window.acknowledge(slot, 3, 1).is_some());
    }

    #[test]
    fn orders_differ_in_what_may_overtake() {
        let sent = |order, retries| {
            let mut window = window(4, 4, order, retries);
            for (target, packet) in [(0, 'a'), (0, 'b'), (1, 'c')] {
                window.admit(target, packet);
            }
            let (slot, attempt, _) = send(&mut window).expect("a");
            let mut sent: String =
                std::iter::from_fn(|| send(&mut window)).map(|(_, _, packet)| packet).collect();
            window.fail(slot, attempt);
            window.admit(2, 'd');
            sent.push('|');
            sent.extend(std::iter::from_fn(|| send(&mut window)).map(|(_, _, packet)| packet));
            sent
        };
        assert_eq!(sent(Order::Unordered, Retries::First), "bc|ad");
        assert_eq!(sent(Order::Unordered, Retries::Last), "bc|da");
        assert_eq!(sent(Order::Resequenced, Retries::First), "bc|ad");
        assert_eq!(sent(Order::PerPair, Retries::First), "c|ad");
        assert_eq!(sent(Order::HeadOfLine, Retries::First), "|a");
    }

    #[test]
    fn a_caller_may_choose_the_target() {
        let mut window = window(5, 3, Order::PerPair, Retries::First).by_target();
        for (target, packet) in [(0, 'a'), (0, 'b'), (2, 'c'), (3, 'd'), (3, 'e')] {
            window.admit(target, packet);
        }
        let send_to = |window: &mut Window<char>, target| {
            let slot = window.next_to(target)?;
            let started = window.start(slot);
            Some((slot, started.attempt, started.packet))
        };
        assert_eq!((window.wanted(0, |_| 0), window.next_to(1)), (0b1101, None));
        let (slot, attempt, packet) = send_to(&mut window, 3).expect("d");
        assert_eq!((packet, window.wanted(0, |_| 0)), ('d', 0b0101), "e waits for d");
        assert_eq!(window.wanted(0, |target| usize::from(target == 2)), 0b0001, "c is promised");
        assert_eq!(send_to(&mut window, 0).map(|sent| sent.2), Some('a'));
        assert_eq!(send_to(&mut window, 2).map(|sent| sent.2), Some('c'));
        assert_eq!((window.wanted(0, |_| 0), window.next_to(0)), (0, None), "three are under way");
        window.fail(slot, attempt);
        assert_eq!(window.wanted(0, |_| 0), 0b1000);
        assert_eq!(send_to(&mut window, 3).map(|sent| sent.2), Some('d'), "again");
        window.release(slot);
        assert_eq!(window.wanted(0, |_| 0), 0b1000, "e");
    }

    /// Targets 0, 64 and 128 stand at one place of their words.
    #[test]
    fn targets_of_one_place_in_several_words_are_told_apart() {
        let limit = Limit::at_most(8).expect("positive");
        let control = ControlSettings::OutOfBand(OutOfBandSettings {
            known_after: KnownAfter::Transmission,
            delay: Span::ZERO,
            outstanding: limit,
            order: Order::PerPair,
            retries: Retries::First,
            back_off: Span::ZERO,
        });
        let mut window = Window::new(limit, &control, 130).by_target();
        for (target, packet) in [(0, 'a'), (64, 'b'), (64, 'c'), (128, 'd'), (129, 'e')] {
            window.admit(target, packet);
        }
        let wanted = |window: &Window<char>| [0, 1, 2, 3].map(|word| window.wanted(word, |_| 0));
        assert_eq!(wanted(&window), [1, 1, 0b11, 0]);
        let [first, other] = [0, 64].map(|target| {
            let slot = window.next_to(target).expect("it is wanted");
            (slot, window.start(slot).attempt)
        });
        assert_eq!(wanted(&window), [0, 0, 0b11, 0], "c waits for b");
        window.fail(first.0, first.1);
        assert_eq!(wanted(&window), [1, 0, 0b11, 0], "a failed, b has not");
        window.release(other.0);
        assert_eq!(wanted(&window), [1, 1, 0b11, 0], "c may follow b");
        assert_eq!(window.wanted(1, |target| usize::from(target == 64)), 0, "c is promised");
    }

    /// What may be sent at all may be sent to its target, and nothing else.
    #[test]
    fn choosing_the_target_of_the_next_packet_changes_nothing() {
        let orders = [Order::Unordered, Order::Resequenced, Order::PerPair, Order::HeadOfLine];
        for (order, retries) in orders
            .into_iter()
            .flat_map(|order| [Retries::First, Retries::Last].map(|retries| (order, retries)))
        {
            let mut window = window(6, 4, order, retries).by_target();
            let mut under_way: Vec<(Slot, Attempt)> = Vec::new();
            let mut number = 1_u32;
            for _ in 0..2_000 {
                number = number.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                let draw = number >> 16;
                match draw % 4 {
                    0 if window.has_space() => {
                        window.admit((draw >> 4) as u16 % 4, 'x');
                    }
                    1 if !under_way.is_empty() => {
                        let (slot, _) = under_way.swap_remove(draw as usize / 4 % under_way.len());
                        window.release(slot);
                    }
                    2 if !under_way.is_empty() => {
                        let (slot, attempt) =
                            under_way.swap_remove(draw as usize / 4 % under_way.len());
                        window.fail(slot, attempt);
                    }
                    _ => {
                        let next = window.next();
                        let target = next.map(|slot| window.target(slot));
                        let wanted = window.wanted(0, |_| 0);
                        assert_eq!(wanted == 0, next.is_none(), "{order:?} {retries:?}");
                        assert_eq!(target.and_then(|target| window.next_to(target)), next);
                        for other in 0..4 {
                            let is_wanted = wanted >> other & 1 == 1;
                            assert_eq!(is_wanted, window.next_to(other).is_some());
                        }
                        if let Some(slot) = next {
                            under_way.push((slot, window.start(slot).attempt));
                        }
                    }
                }
            }
            assert!(window.numbered(0) > 50, "{order:?} {retries:?}");
        }
    }

    #[test]
    fn a_sender_never_runs_beyond_what_the_target_remembers() {
        let mut window = window(200, 200, Order::Unordered, Retries::First);
        window.admit(0, 'x');
        send(&mut window).expect("the packet that stays lost");
        let mut sent = 1;
        for _ in 0..100 {
            window.admit(0, 'y');
            if let Some((slot, _, _)) = send(&mut window) {
                window.release(slot);
                sent += 1;
            }
        }
        assert_eq!(sent, REACH);
    }
}
