//! The hierarchical timing wheel under the event queue, and the pool that holds the events.

/// Binary digits of a time that one level tells apart; a level's occupied slots fit one word.
const DIGIT: u32 = 6;
const SLOTS: usize = 1 << DIGIT;
const LEVELS: usize = u64::BITS.div_ceil(DIGIT) as usize;

/// The end of a list of nodes.
const NONE: u32 = u32::MAX;

/// When an event leaves, and where the pool keeps it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Due {
    /// In picoseconds.
    pub time: u64,
    pub node: u32,
}

/// What [`Wheel::take_earliest`] took.
pub(crate) enum Taken {
    /// Every event up to and including this time.
    UpTo(u64),
    /// Every event there was.
    All,
}

/// The waiting events. A place that is left is the next to be used, while it is in the cache.
#[derive(Clone, Debug)]
pub(crate) struct Pool<E> {
    nodes: Vec<Node<E>>,
    free: u32,
}

#[derive(Clone, Copy, Debug)]
struct Node<E> {
    time: u64,
    event: E,
    /// The node below in the slot's stack, or in the stack of free nodes.
    next: u32,
}

/// Events later than those in the queue's front. An event stands on the level of the highest
/// base-64 digit in which its time differs from `base`, in the slot of that digit. All events of
/// one time therefore stand in one slot. A slot is a stack, because adding to a stack touches no
/// other event; what is taken is turned round.
#[derive(Clone, Debug)]
pub(crate) struct Wheel {
    /// No event is earlier; moves only to the time of the event that leaves next.
    base: u64,
    /// Which levels have events, by bit.
    levels: u32,
    /// Which slots of each level have events, by bit.
    occupied: [u64; LEVELS],
    slots: Box<[[Slot; SLOTS]; LEVELS]>,
    len: usize,
}

#[derive(Clone, Copy, Debug)]
struct Slot {
    /// The event that was added last.
    top: u32,
    count: u32,
    /// The earliest time in the slot.
    earliest: u64,
}

const EMPTY: Slot = Slot { top: NONE, count: 0, earliest: u64::MAX };

impl<E: Copy> Pool<E> {
    pub const fn new() -> Pool<E> {
        Pool { nodes: Vec::new(), free: NONE }
    }

    #[inline]
    pub fn store(&mut self, time: u64, event: E) -> u32 {
        let node = self.free;
        match self.nodes.get_mut(node as usize) {
            Some(place) => {
                self.free = place.next;
                place.time = time;
                place.event = event;
                node
            }
            None => self.grow(time, event),
        }
    }

    #[cold]
    fn grow(&mut self, time: u64, event: E) -> u32 {
        self.nodes.push(Node { time, event, next: NONE });
        (self.nodes.len() - 1) as u32
    }

    #[inline]
    pub fn release(&mut self, node: u32) -> E {
        let place = &mut self.nodes[node as usize];
        place.next = self.free;
        self.free = node;
        place.event
    }
}

impl Wheel {
    pub fn new() -> Wheel {
        Wheel {
            base: 0,
            levels: 0,
            occupied: [0; LEVELS],
            slots: Box::new([[EMPTY; SLOTS]; LEVELS]),
            len: 0,
        }
    }

    pub fn len(&self) -> usize {
        self.len
    }

    /// The time of the earliest event, found without moving any.
    #[inline]
    pub fn earliest(&self) -> Option<u64> {
        self.lowest().map(|(level, slot)| self.slots[level][slot].earliest)
    }

    /// Adds an event that is not earlier than any that was taken.
    #[inline]
    pub fn insert<E>(&mut self, pool: &mut Pool<E>, due: Due) {
        self.len += 1;
        self.add(pool, level_of(due.time ^ self.base), due);
    }

    /// Moves the earliest events, sorted, to the empty `front`: those of one slot, narrowed until
    /// it holds at most `limit` events or only one time. Events of one time keep the order in
    /// which they were inserted. The earliest event must leave the queue next, since the wheel
    /// moves on to its time.
    pub fn take_earliest<E>(
        &mut self,
        pool: &mut Pool<E>,
        limit: u32,
        front: &mut Vec<Due>,
    ) -> Taken {
        let Some((mut level, place)) = self.lowest() else {
            return Taken::All;
        };
        let mut slot = std::mem::replace(&mut self.slots[level][place], EMPTY);
        self.mark_empty(level, place);
        self.base = slot.earliest;
        while slot.count > limit && level > 0 {
            let difference = difference_within(pool, slot);
            level = level_of(difference);
            if difference == 0 {
                break;
            }
            slot = self.spread(pool, slot, level);
        }
        self.len -= slot.count as usize;
        let mut node = slot.top;
        while let Some(&Node { time, next, .. }) = pool.nodes.get(node as usize) {
            front.push(Due { time, node });
            node = next;
        }
        front.reverse();
        if level > 0 {
            sort(front);
        }
        let within_slot = (1 << (level as u32 * DIGIT)) - 1;
        if self.len == 0 { Taken::All } else { Taken::UpTo(slot.earliest | within_slot) }
    }

    /// Spreads a slot over those of `level`, except for the events that share the digit of the
    /// earliest one: these are returned.
    fn spread<E>(&mut self, pool: &mut Pool<E>, slot: Slot, level: usize) -> Slot {
        let digit = level as u32 * DIGIT;
        let mut near = Slot { earliest: slot.earliest, ..EMPTY };
        let mut node = turn_round(pool, slot.top);
        while let Some(&mut Node { time, ref mut next, .. }) = pool.nodes.get_mut(node as usize) {
            let following = *next;
            if (time ^ slot.earliest) >> digit == 0 {
                *next = near.top;
                near.top = node;
                near.count += 1;
            } else {
                self.add(pool, level, Due { time, node });
            }
            node = following;
        }
        near
    }

    /// Puts an event on top of the slot of its time on `level`.
    #[inline]
    fn add<E>(&mut self, pool: &mut Pool<E>, level: usize, due: Due) {
        let place = (due.time >> (level as u32 * DIGIT)) as usize % SLOTS;
        self.levels |= 1 << level;
        self.occupied[level] |= 1 << place;
        let slot = &mut self.slots[level][place];
        slot.earliest = slot.earliest.min(due.time);
        slot.count += 1;
        pool.nodes[due.node as usize].next = slot.top;
        slot.top = due.node;
    }

    /// The lowest level that has events, and its first slot that has: all other events are later,
    /// because they differ from `base` in a higher digit or by more in the same one.
    #[inline]
    fn lowest(&self) -> Option<(usize, usize)> {
        let level = self.levels.trailing_zeros() as usize;
        let occupied = self.occupied.get(level)?;
        Some((level, occupied.trailing_zeros() as usize))
    }

    #[inline]
    fn mark_empty(&mut self, level: usize, place: usize) {
        self.occupied[level] &= !(1 << place);
        if self.occupied[level] == 0 {
            self.levels &= !(1 << level);
        }
    }
}

/// The bits in which times of a slot differ from the earliest. Knowing them, events of one time,
/// however many, pass all lower levels at once.
fn difference_within<E>(pool: &Pool<E>, slot: Slot) -> u64 {
    let (mut node, mut difference) = (slot.top, 0);
    while let Some(place) = pool.nodes.get(node as usize) {
        difference |= place.time ^ slot.earliest;
        node = place.next;
    }
    difference
}

/// Reverses a stack and returns its new top.
fn turn_round<E>(pool: &mut Pool<E>, top: u32) -> u32 {
    let (mut node, mut turned) = (top, NONE);
    while let Some(place) = pool.nodes.get_mut(node as usize) {
        let below = std::mem::replace(&mut place.next, turned);
        turned = node;
        node = below;
    }
    turned
}

/// Sorts a few events by time and leaves equal times in their order.
#[inline]
fn sort(front: &mut [Due]) {
    for sorted in 1..front.len() {
        let due = front[sorted];
        let mut place = sorted;
        while place > 0 && front[place - 1].time > due.time {
            front[place] = front[place - 1];
            place -= 1;
        }
        front[place] = due;
    }
}

/// The highest base-64 digit of a difference that is not zero; zero for no difference.
#[inline]
fn level_of(difference: u64) -> usize {
    ((difference | 1).ilog2() / DIGIT) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_are_the_digits_of_the_difference() {
        assert_eq!(level_of(0), 0);
        assert_eq!(level_of(63), 0);
        assert_eq!(level_of(64), 1);
        assert_eq!(level_of(u64::MAX), LEVELS - 1);
    }

    #[test]
    fn places_are_used_again() {
        let (mut wheel, mut pool, mut front) = (Wheel::new(), Pool::new(), Vec::new());
        for round in 0..1_000_u64 {
            for event in 0..40_u64 {
                let time = round * 1_000 + event;
                let node = pool.store(time, event);
                wheel.insert(&mut pool, Due { time, node });
            }
            while wheel.len() > 0 {
                wheel.take_earliest(&mut pool, 4, &mut front);
                for due in front.drain(..) {
                    assert_eq!(round * 1_000 + pool.release(due.node), due.time);
                }
            }
        }
        assert_eq!(pool.nodes.len(), 40);
    }
}
