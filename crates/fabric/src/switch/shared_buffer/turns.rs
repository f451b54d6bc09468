//! Which class of an output is next: strict ones by number, the others by deficit round robin.

use super::MOST_CLASSES;
use super::settings::ScheduleSettings;

/// How the classes of a port share its cable.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sharing {
    /// A bit for each class that goes before others.
    strict: u8,
    /// What each of the others may send in a round, in bytes.
    quanta: [u32; MOST_CLASSES],
}

/// Whose turn it is at one port.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Turn {
    class: u8,
    /// Whether the class has had its share of this round.
    has_share: bool,
}

impl Sharing {
    /// Classes of these schedules; `packet` is the largest packet, so that each may send one or
    /// more in a round.
    pub fn new(schedules: impl Iterator<Item = ScheduleSettings>, packet: u32) -> Sharing {
        let mut sharing = Sharing { strict: 0, quanta: [packet; MOST_CLASSES] };
        for (class, own) in schedules.enumerate().take(MOST_CLASSES) {
            match own {
                ScheduleSettings::Strict => sharing.strict |= 1 << class,
                ScheduleSettings::Weight(weight) => {
                    sharing.quanta[class] = packet.saturating_mul(weight.get());
                }
            }
        }
        sharing
    }

    /// The class of `ready`, which has any, that sends next. `oldest` tells the size of the next
    /// packet of a class, and `deficits` what each may still send in its round.
    #[inline]
    pub fn next(
        &self,
        turn: &mut Turn,
        ready: u8,
        deficits: &mut [u32],
        oldest: impl Fn(u8) -> u32,
    ) -> u8 {
        let strict = ready & self.strict;
        if strict != 0 {
            return strict.ilog2() as u8;
        }
        // A class that is alone has nothing to share.
        if ready.is_power_of_two() {
            return ready.trailing_zeros() as u8;
        }
        self.share(turn, ready, deficits, oldest)
    }

    fn share(
        &self,
        turn: &mut Turn,
        ready: u8,
        deficits: &mut [u32],
        oldest: impl Fn(u8) -> u32,
    ) -> u8 {
        loop {
            let class = turn.class;
            if ready >> class & 1 != 0 {
                let deficit = &mut deficits[usize::from(class)];
                if !std::mem::replace(&mut turn.has_share, true) {
                    *deficit = deficit.saturating_add(self.quanta[usize::from(class)]);
                }
                let size = oldest(class);
                if size <= *deficit {
                    *deficit -= size;
                    return class;
                }
            }
            // The next one after it that is ready, or the first.
            let above = ready & !((2_u16 << class) - 1) as u8;
            let next = if above != 0 { above } else { ready };
            *turn = Turn { class: next.trailing_zeros() as u8, has_share: false };
        }
    }
}

#[cfg(test)]
mod tests {
    use weft_units::PositiveCount;

    use super::*;

    fn weight(count: u32) -> ScheduleSettings {
        ScheduleSettings::Weight(PositiveCount::new(count).expect("a weight"))
    }

    /// Weights 1, 2 and 5 with packets of 1000, 300 and 700 bytes: shares of bytes, not of packets.
    #[test]
    fn shares_are_those_of_the_weights_whatever_the_size() {
        let sharing = Sharing::new([weight(1), weight(2), weight(5)].into_iter(), 1000);
        let (sizes, mut sent) = ([1000, 300, 700], [0_u64; 3]);
        let (mut turn, mut deficits) = (Turn::default(), [0; 3]);
        for _ in 0..80_000 {
            let class =
                sharing.next(&mut turn, 0b111, &mut deficits, |class| sizes[class as usize]);
            sent[class as usize] += u64::from(sizes[class as usize]);
        }
        let whole: u64 = sent.iter().sum();
        for (class, weight) in [1, 2, 5].into_iter().enumerate() {
            let share = sent[class] as f64 / whole as f64;
            assert!((share - f64::from(weight) / 8.0).abs() < 1e-3, "{class}: {share}");
        }
    }

    #[test]
    fn strict_classes_go_first_and_the_highest_of_them() {
        use ScheduleSettings::Strict;
        let all = [weight(1), Strict, weight(1), Strict];
        let sharing = Sharing::new(all.into_iter(), 100);
        let (mut turn, mut deficits) = (Turn::default(), [0; 4]);
        let mut next = |ready| sharing.next(&mut turn, ready, &mut deficits, |_| 100);
        assert_eq!([next(0b1111), next(0b0111), next(0b0101), next(0b0101)], [3, 1, 0, 2]);
        assert_eq!([next(0b0101), next(0b0100), next(0b0010)], [0, 2, 1]);
    }
}
