//! What crosses from the part of one rank to that of another, packed as it leaves: half of the bytes that it has in
//! memory, which are the ones that are sent.

use weft_fabric::fabric::RouteState;
use weft_fabric::graph::{Beyond, Numbers};
use weft_fabric::measure::Spent;
use weft_kernel::Event;
use weft_units::Time;

use super::Engine;
use super::packets::{Forwarding, Packet};
use super::wire::Wire;
use crate::drive::carrier::MessageId;

/// What a rank sends to others.
#[derive(Debug)]
pub(super) struct Sending {
    /// Where the ports behind the border of the part are.
    pub numbers: Numbers,
    /// By rank, what goes there in this window.
    pub lists: Vec<Packed>,
}

/// What goes to one rank, one behind another.
#[derive(Debug, Default)]
pub(super) struct Packed {
    pub bytes: Vec<u8>,
    /// When the last one arrives.
    before: Time,
}

/// A packet or what the far end of a cable says, before the rest of it: when it comes to which port.
struct Coming {
    time: Time,
    port: u32,
    is_said: bool,
}

impl Packed {
    /// Nothing yet; the first bytes are left for what is known at the end only.
    pub fn behind(room: usize) -> Packed {
        Packed { bytes: vec![0; room], before: Time::ZERO }
    }

    /// What goes there; the list is empty again then, and likely to become as long.
    pub fn take(&mut self, room: usize) -> Vec<u8> {
        let mut next = Vec::with_capacity(self.bytes.len());
        next.resize(room, 0);
        self.before = Time::ZERO;
        std::mem::replace(&mut self.bytes, next)
    }

    fn begin(&mut self, Coming { time, port, is_said }: Coming) {
        (u64::from(port) << 1 | u64::from(is_said)).put(&mut self.bytes);
        // What follows another one comes soon after it, or soon before.
        let later = time.0.wrapping_sub(self.before.0) as i64;
        ((later << 1 ^ later >> 63) as u64).put(&mut self.bytes);
        self.before = time;
    }

    fn packet(&mut self, time: Time, forwarding: &Forwarding, packet: &Packet) {
        // What it has spent follows.
        let Forwarding { to, route_state, hops, channel, spent: _ } = *forwarding;
        let Packet { generated, start, from, message } = *packet;
        let bytes = &mut self.bytes;
        to.put(bytes);
        route_state.bits().put(bytes);
        hops.put(bytes);
        channel.put(bytes);
        time.0.wrapping_sub(start.0).put(bytes);
        start.0.wrapping_sub(generated.0).put(bytes);
        from.put(bytes);
        // None has the largest number.
        message.number().wrapping_add(1).put(bytes);
    }
}

impl Coming {
    fn take(from: &mut &[u8], before: Time) -> Option<Coming> {
        let place = u64::take(from)?;
        let later = u64::take(from)?;
        let later = (later >> 1) as i64 ^ -((later & 1) as i64);
        Some(Coming {
            time: Time(before.0.wrapping_add(later as u64)),
            port: u32::try_from(place >> 1).ok()?,
            is_said: place & 1 == 1,
        })
    }
}

fn take_packet(time: Time, from: &mut &[u8]) -> Option<(Forwarding, Packet)> {
    let to = u32::take(from)?;
    let route_state = RouteState::of_bits(u64::take(from)?);
    let (hops, channel) = (u16::take(from)?, u8::take(from)?);
    let start = Time(time.0.wrapping_sub(u64::take(from)?));
    let generated = Time(start.0.wrapping_sub(u64::take(from)?));
    let initiator = u32::take(from)?;
    let message = MessageId::of(u32::take(from)?.wrapping_sub(1));
    let forwarding = Forwarding { hops, ..Forwarding::starting(to, route_state, channel) };
    Some((forwarding, Packet { generated, start, from: initiator, message }))
}

impl Engine {
    /// A packet, or what the far end of a cable says, leaves for a place that may belong to another rank.
    #[inline(never)]
    pub(super) fn forward_to_rank(&mut self, event: Event) {
        let Event { time, place, item: id } = event;
        let is_said = place >= self.places.signals;
        let at = if is_said { place - self.places.signals } else { place };
        let Some(border) = &mut self.parts.border else { return self.parts.push(event) };
        let to = border.sending.as_ref().and_then(|own| own.numbers.beyond(at));
        let (Some(Beyond { part, port }), Some(sending)) = (to, &mut border.sending) else {
            return self.parts.push(event);
        };
        border.first = border.first.min(time);
        let list = &mut sending.lists[part as usize];
        list.begin(Coming { time, port, is_said });
        if is_said {
            return id.put(&mut list.bytes);
        }
        let (forwarding, packet) =
            (&self.packets.forwarding[id as usize], &self.packets.packets[id as usize]);
        list.packet(time, forwarding, packet);
        if let Some(spent) = self.packets.spent(id) {
            spent.put(&mut list.bytes);
        }
        self.packets.remove(id);
    }

    /// Takes in everything that another rank has sent, before any of it happens; `None` if it
    /// cannot be decoded.
    pub(super) fn enter_from_rank(&mut self, mut from: &[u8]) -> Option<()> {
        let mut before = Time::ZERO;
        while !from.is_empty() {
            let Coming { time, port, is_said } = Coming::take(&mut from, before)?;
            before = time;
            let border = self.parts.border.as_ref()?;
            // Nothing comes to what another rank has, or to an instant that is past.
            if !border.sending.as_ref()?.numbers.has(port) || time < self.now {
                return None;
            }
            if is_said {
                let (place, item) = (self.places.signals + port, u32::take(&mut from)?);
                self.parts.push(Event { time, place, item });
                continue;
            }
            let (forwarding, packet) = take_packet(time, &mut from)?;
            let spent = match self.packets.has_spent() {
                true => Some(Spent::take(&mut from)?),
                false => None,
            };
            let id = self.packets.insert(forwarding, packet);
            if let Some(spent) = spent {
                self.packets.set_spent(id, spent);
            }
            self.come_in(time, port, id);
        }
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::border::Crossing;
    use super::*;

    proptest! {
        #[test]
        fn what_leaves_is_what_comes(
            each in prop::collection::vec((any::<[u64; 5]>(), any::<[u32; 4]>(), any::<bool>()), 1..9),
            small in any::<(u16, u8)>(),
        ) {
            let (hops, channel) = small;
            let mut list = Packed::behind(3);
            let mut all = Vec::new();
            for (words, [port, to, from, message], is_said) in each {
                // Times of all lengths, in no order.
                let [time, generated, start] = [0, 1, 2].map(|at| Time(words[at] >> (words[3] % 64)));
                // Of a route 48 bits are used.
                let route_state = RouteState::of_bits(words[4] & 0xffff_ffff_ffff);
                let forwarding = Forwarding { hops, ..Forwarding::starting(to, route_state, channel) };
                let packet = Packet { generated, start, from, message: MessageId::of(message) };
                list.begin(Coming { time, port, is_said });
                list.packet(time,&forwarding, &packet);
                all.push((time, port, is_said, format!("{forwarding:?} {packet:?}")));
            }
            let (mut left, mut before) = (&list.bytes[3..], Time::ZERO);
            for own in all {
                let Coming { time, port, is_said } = Coming::take(&mut left, before).expect("a head");
                before = time;
                let (forwarding, packet) = take_packet(time, &mut left).expect("a packet");
                prop_assert_eq!((time, port, is_said, format!("{forwarding:?} {packet:?}")), own);
            }
            prop_assert!(left.is_empty());
            // Without its last byte the last packet cannot be read.
            let (mut cut, mut before, mut is_whole) = (&list.bytes[3..list.bytes.len() - 1], Time::ZERO, true);
            while is_whole && !cut.is_empty() {
                let head = Coming::take(&mut cut, before);
                before = head.as_ref().map_or(before, |own| own.time);
                is_whole = head.is_some_and(|own| take_packet(own.time, &mut cut).is_some());
            }
            prop_assert!(!is_whole);
        }
    }

    /// A packet in a fabric of 65,536 hosts, a microsecond before it arrives.
    #[test]
    fn a_packet_takes_half_of_its_memory() {
        let route_state = RouteState::of_bits(0x1234_5678);
        let forwarding = Forwarding { hops: 3, ..Forwarding::starting(65_535, route_state, 0) };
        let (generated, start, message) = (Time(7_000_000), Time(7_050_000), MessageId::NONE);
        let packet = Packet { generated, start, from: 60_000, message };
        let mut list = Packed::behind(0);
        for time in [8_050_000, 8_055_000] {
            let time = Time(time);
            list.begin(Coming { time, port: 90_000, is_said: false });
            list.packet(time, &forwarding, &packet);
        }
        let in_memory = size_of::<Crossing>();
        assert!(list.bytes.len() <= in_memory, "{} for two of {in_memory}", list.bytes.len());
    }
}
