//! What ranks exchange, as bytes. Numbers have their length in memory, the least significant byte first; a
//! list is preceded by its length. Every field of a type is named, so that a new field that is not sent does
//! not compile.

use weft_fabric::fabric::RouteState;
use weft_fabric::graph::Spent;
use weft_fabric::measure::{Arrival, Drop, Loss, Submission, Told};
use weft_fabric::switch::shared_buffer::Header;
use weft_kernel::Event;
use weft_units::{Span, Time};

use super::border::{Crossing, Leaving};
use super::packets::{Forwarding, Packet};
use crate::drive::carrier::MessageId;

/// A value that can be sent to another process.
pub(super) trait Wire: Sized {
    fn put(&self, to: &mut Vec<u8>);

    /// Reads it from the beginning of `from` and advances past it; `None` if there is no such
    /// value.
    fn take(from: &mut &[u8]) -> Option<Self>;
}

macro_rules! number {
    ($($type:ty),*) => {$(
        impl Wire for $type {
            #[inline]
            fn put(&self, to: &mut Vec<u8>) {
                to.extend_from_slice(&self.to_le_bytes());
            }

            #[inline]
            fn take(from: &mut &[u8]) -> Option<$type> {
                let (own, rest) = from.split_first_chunk()?;
                *from = rest;
                Some(<$type>::from_le_bytes(*own))
            }
        }
    )*};
}
number!(u8, u16, u32, u64);

/// Types that are one number.
macro_rules! as_number {
    ($($type:ident: $number:ty, $to:expr, $of:expr;)*) => {$(
        impl Wire for $type {
            #[inline]
            fn put(&self, to: &mut Vec<u8>) {
                let number: $number = $to(*self);
                number.put(to);
            }

            #[inline]
            fn take(from: &mut &[u8]) -> Option<$type> {
                $of(<$number as Wire>::take(from)?)
            }
        }
    )*};
}
as_number! {
    Time: u64, |own: Time| own.0, |number| Some(Time(number));
    Span: u64, |own: Span| own.0, |number| Some(Span(number));
    bool: u8, u8::from, |number| (number < 2).then_some(number == 1);
    MessageId: u32, MessageId::number, |number| Some(MessageId::of(number));
    RouteState: u64, RouteState::bits, |number| Some(RouteState::of_bits(number));
    Drop: u8, |own: Drop| own as u8, |number: u8| Drop::ALL.get(usize::from(number)).copied();
}

/// Types with fields.
macro_rules! fields {
    ($($type:ident { $($field:ident),* })*) => {$(
        impl Wire for $type {
            #[inline]
            fn put(&self, to: &mut Vec<u8>) {
                let $type { $($field),* } = self;
                $($field.put(to);)*
            }

            #[inline]
            fn take(from: &mut &[u8]) -> Option<$type> {
                Some($type { $($field: Wire::take(from)?),* })
            }
        }
    )*};
}
fields! {
    Forwarding { to, route_state, output, hops, channel }
    Packet { generated, start, from, message }
    Crossing { time, place, forwarding, packet }
    Spent { wire, switches, transmission }
    Header { flow, size, payload, input, class, bits }
    Event { time, place, item }
    Leaving { packets, spent, headers, said }
    Arrival { time, to, from, queueing, transit, hops, class }
    Submission { time, host }
    Loss { time, host, why }
    Told { handed, dropped, arrived }
}

impl<A: Wire, B: Wire> Wire for (A, B) {
    #[inline]
    fn put(&self, to: &mut Vec<u8>) {
        self.0.put(to);
        self.1.put(to);
    }

    #[inline]
    fn take(from: &mut &[u8]) -> Option<(A, B)> {
        Some((A::take(from)?, B::take(from)?))
    }
}

impl<A: Wire, B: Wire, C: Wire> Wire for (A, B, C) {
    #[inline]
    fn put(&self, to: &mut Vec<u8>) {
        self.0.put(to);
        self.1.put(to);
        self.2.put(to);
    }

    #[inline]
    fn take(from: &mut &[u8]) -> Option<(A, B, C)> {
        Some((A::take(from)?, B::take(from)?, C::take(from)?))
    }
}

impl<T: Wire> Wire for Vec<T> {
    fn put(&self, to: &mut Vec<u8>) {
        (self.len() as u64).put(to);
        self.iter().for_each(|one| one.put(to));
    }

    fn take(from: &mut &[u8]) -> Option<Vec<T>> {
        let count = u64::take(from)?;
        // Each element takes a byte or more, so that a wrong length requests no more memory than there is
        // to read.
        let mut list = Vec::with_capacity(count.min(from.len() as u64) as usize);
        for _ in 0..count {
            list.push(T::take(from)?);
        }
        Some(list)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn crossing(words: [u64; 4], parts: [u32; 5], small: (u16, u8, u64)) -> Crossing {
        let [time, generated, start, _] = words.map(Time);
        let [place, to, output, from, message] = parts;
        let (hops, channel, route) = small;
        // A route state uses 48 bits.
        let route_state = RouteState::of_bits(route & 0xffff_ffff_ffff);
        Crossing {
            time,
            place,
            forwarding: Forwarding { to, route_state, output, hops, channel },
            packet: Packet { generated, start, from, message: MessageId::of(message) },
        }
    }

    proptest! {
        #[test]
        fn what_is_sent_is_what_comes(
            words in any::<[u64; 4]>(),
            parts in any::<[u32; 5]>(),
            small in any::<(u16, u8, u64)>(),
            class in any::<u8>(),
            bits in any::<u8>(),
            why in 0..Drop::ALL.len(),
            repeats in 0_usize..4,
        ) {
            let [wire, switches, transmission] = [words[1], words[2], words[3]].map(Span);
            let [flow, size, payload, input, item] = parts;
            let (hops, ..) = small;
            let (time, place) = (Time(words[0]), parts[0]);
            let leaving = Leaving {
                packets: vec![crossing(words, parts, small); repeats],
                spent: vec![Spent { wire, switches, transmission }; repeats],
                headers: vec![Header { flow, size, payload, input, class, bits }; repeats],
                said: vec![Event { time, place, item }; 3 - repeats.min(3)],
            };
            let told = Told {
                handed: vec![Submission { time, host: place }],
                dropped: vec![Loss { time, host: place, why: Drop::ALL[why] }; repeats],
                arrived: vec![Arrival {
                    time,
                    to: parts[1],
                    from: parts[2],
                    queueing: wire,
                    transit: transmission,
                    hops,
                    class: bits,
                }; repeats],
            };
            let mut bytes = Vec::new();
            leaving.put(&mut bytes);
            told.put(&mut bytes);
            let mut left = &bytes[..];
            let come = (Leaving::take(&mut left), Told::take(&mut left));
            prop_assert!(left.is_empty());
            prop_assert_eq!(format!("{come:?}"), format!("{:?}", (Some(leaving), Some(told))));
            for length in 0..bytes.len() {
                let mut cut = &bytes[..length];
                let whole = Leaving::take(&mut cut).and_then(|_| Told::take(&mut cut));
                prop_assert!(whole.is_none(), "{} of {} bytes", length, bytes.len());
            }
        }
    }

    #[test]
    fn a_wrong_length_takes_no_memory() {
        let mut bytes = Vec::new();
        u64::MAX.put(&mut bytes);
        assert!(Vec::<Crossing>::take(&mut &bytes[..]).is_none());
        assert!(bool::take(&mut &[2_u8][..]).is_none());
        assert!(Drop::take(&mut &[Drop::ALL.len() as u8][..]).is_none());
    }
}
