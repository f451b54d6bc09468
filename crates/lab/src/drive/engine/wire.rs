//! What one rank tells another, as bytes. A number has seven bits a byte, the least significant ones first, and no
//! more bytes than it needs (LEB128), since nearly all are small; a list has its length before it. Every field
//! of a type is named, so that one that is added and not sent does not compile.

use weft_fabric::measure::Spent;
use weft_fabric::measure::{Arrival, Drop, Loss, Submission, Told};
use weft_units::{Span, Time};

/// Something that another process can be told.
pub(super) trait Wire: Sized {
    fn put(&self, to: &mut Vec<u8>);

    /// Reads it from the beginning of `from` and advances past it; `None` if there is no such
    /// value.
    fn take(from: &mut &[u8]) -> Option<Self>;
}

impl Wire for u64 {
    #[inline]
    fn put(&self, to: &mut Vec<u8>) {
        let mut rest = *self;
        while rest >= 0x80 {
            to.push(rest as u8 | 0x80);
            rest >>= 7;
        }
        to.push(rest as u8);
    }

    #[inline]
    fn take(from: &mut &[u8]) -> Option<u64> {
        let mut number = 0;
        for shift in (0..u64::BITS).step_by(7) {
            let byte = u8::take(from)?;
            let bits = u64::from(byte & 0x7f);
            // The last byte has one bit left.
            if bits << shift >> shift != bits {
                return None;
            }
            number |= bits << shift;
            if byte < 0x80 {
                return Some(number);
            }
        }
        None
    }
}

impl Wire for u8 {
    #[inline]
    fn put(&self, to: &mut Vec<u8>) {
        to.push(*self);
    }

    #[inline]
    fn take(from: &mut &[u8]) -> Option<u8> {
        let (own, rest) = from.split_first()?;
        *from = rest;
        Some(*own)
    }
}

macro_rules! number {
    ($($type:ty),*) => {$(
        impl Wire for $type {
            #[inline]
            fn put(&self, to: &mut Vec<u8>) {
                u64::from(*self).put(to);
            }

            #[inline]
            fn take(from: &mut &[u8]) -> Option<$type> {
                <$type>::try_from(u64::take(from)?).ok()
            }
        }
    )*};
}
number!(u16, u32);

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
    Spent { wire, switches, transmission }
    Arrival { time, to, from, queueing, transit, hops, class }
    Submission { time, host, packets }
    Loss { time, host, why }
    Told { handed, dropped, arrived }
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

    proptest! {
        #[test]
        fn what_is_told_is_what_is_heard(
            words in any::<[u64; 3]>(),
            small in any::<[u8; 3]>(),
            hosts in any::<[u32; 2]>(),
            hops in any::<u16>(),
            why in 0..Drop::ALL.len(),
            repeats in 0_usize..4,
        ) {
            // Numbers of all lengths.
            let [time, queueing, transit] = [0, 1, 2].map(|at| words[at] >> (small[at] % 64));
            let [to, from] = hosts.map(|host| host >> (small[0] % 32));
            let (time, class) = (Time(time), small[1]);
            let (queueing, transit) = (Span(queueing), Span(transit));
            let told = Told {
                handed: vec![Submission { time, host: to, packets: from }],
                dropped: vec![Loss { time, host: from, why: Drop::ALL[why] }; repeats],
                arrived: vec![Arrival { time, to, from, queueing, transit, hops, class }; repeats],
            };
            let mut bytes = Vec::new();
            told.put(&mut bytes);
            let mut left = &bytes[..];
            let heard = Told::take(&mut left);
            prop_assert!(left.is_empty());
            prop_assert_eq!(format!("{heard:?}"), format!("{:?}", Some(told)));
            for length in 0..bytes.len() {
                let whole = Told::take(&mut &bytes[..length]);
                prop_assert!(whole.is_none(), "{} of {} bytes", length, bytes.len());
            }
        }
    }

    #[test]
    fn a_number_has_as_many_bytes_as_it_needs() {
        for (number, length) in [(0, 1), (0x7f, 1), (0x80, 2), (1 << 35, 6), (u64::MAX, 10)] {
            let mut bytes = Vec::new();
            number.put(&mut bytes);
            assert_eq!((bytes.len(), u64::take(&mut &bytes[..])), (length, Some(number)));
        }
        // More bits than there are.
        assert_eq!(u64::take(&mut &[0xff; 10][..]), None);
        assert_eq!(u64::take(&mut &[&[0x80; 9][..], &[2]].concat()[..]), None);
        assert_eq!(u16::take(&mut &[0x80, 0x80, 4][..]), None);
    }

    #[test]
    fn a_wrong_length_takes_no_memory() {
        let mut bytes = Vec::new();
        u64::MAX.put(&mut bytes);
        assert!(Vec::<Arrival>::take(&mut &bytes[..]).is_none());
        assert!(bool::take(&mut &[2_u8][..]).is_none());
        assert!(Drop::take(&mut &[Drop::ALL.len() as u8][..]).is_none());
    }
}
