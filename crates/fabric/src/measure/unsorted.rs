//! What happened in a window of which the nodes were processed one after another.

use weft_units::Time;

use super::{Arrival, Told};

/// What happened in a window, in no order.
#[derive(Debug, Default)]
pub struct Unsorted {
    /// What happened. Each kind is in the order of time once it is [sorted](Self::sorted).
    pub told: Told,
    /// Room to sort deliveries: how many come before those of each share of the window, and the deliveries.
    before: Vec<u32>,
    room: Vec<Arrival>,
}

impl Unsorted {
    /// Sorts what happened.
    pub fn sorted(&mut self) -> &Told {
        self.told.handed.sort_unstable();
        self.told.dropped.sort_unstable();
        self.distribute();
        insert(&mut self.told.arrived);
        &self.told
    }

    /// Distributes deliveries among equal shares of the time in which they happened, a few in each.
    fn distribute(&mut self) {
        let arrived = &mut self.told.arrived;
        let all = || arrived.iter().map(|one| one.time.0);
        let (Some(first), Some(last)) = (all().min(), all().max()) else { return };
        let shares = (arrived.len() / 4).next_power_of_two();
        // The least power of two of which there are not more than that in the time.
        let shift = ((last - first) / shares as u64).checked_ilog2().map_or(0, |digit| digit + 1);
        let share = |time: Time| ((time.0 - first) >> shift) as usize;
        self.before.clear();
        self.before.resize(share(Time(last)) + 2, 0);
        arrived.iter().for_each(|one| self.before[share(one.time) + 1] += 1);
        let mut sum = 0;
        for before in &mut self.before {
            sum += *before;
            *before = sum;
        }
        self.room.clone_from(arrived);
        for one in &self.room {
            let place = &mut self.before[share(one.time)];
            arrived[*place as usize] = *one;
            *place += 1;
        }
    }
}

/// Sorts deliveries of which each is near its place by time; in one instant, by target.
fn insert(arrived: &mut [Arrival]) {
    let key = |one: &Arrival| (one.time, one.to);
    for place in 1..arrived.len() {
        let one = arrived[place];
        let mut to = place;
        while to > 0 && key(&arrived[to - 1]) > key(&one) {
            arrived[to] = arrived[to - 1];
            to -= 1;
        }
        // At an instant at which many arrive the shares do not help.
        if place - to > FAR {
            arrived[to] = one;
            return arrived.sort_unstable_by_key(key);
        }
        arrived[to] = one;
    }
}

/// From how many places on a delivery is not near its place.
const FAR: usize = 256;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use weft_units::Span;

    use super::*;

    proptest! {
        #[test]
        fn deliveries_are_sorted_by_time_and_target(
            first in 0_u64..1 << 40,
            width in prop_oneof![Just(1_u64), Just(3), Just(1_000), Just(1 << 40)],
            all in prop::collection::vec((any::<u64>(), 0_u32..1_000), 0..1_500),
        ) {
            let mut own = Unsorted::default();
            let (queueing, transit) = (Span::ZERO, Span::ZERO);
            let one = |(time, to)| Arrival {
                time: Time(first + time % width), to, from: to, queueing, transit, hops: 0, class: 0,
            };
            own.told.arrived.extend(all.into_iter().map(one));
            let mut usual = own.told.arrived.clone();
            usual.sort_by_key(|one| (one.time, one.to));
            prop_assert_eq!(&own.sorted().arrived, &usual);
        }
    }
}
