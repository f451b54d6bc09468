//! Doorbell registers, completion rings and free lists between a host and its adapter
//! (Clint 3.1, Figure 2).
//!
//! The host polls only its own memory and writes the adapter only through doorbells, since an
//! access that the host begins crosses the system bus word by word. So each side knows the
//! pointers that it owns and no others: a valid bit tells the host that the adapter wrote an entry,
//! and a ring with as many entries as there are buffers needs nothing to tell the adapter that
//! there is room.

use std::collections::VecDeque;

/// The index of a buffer in a pool (`bfId`). Send and receive pools count separately.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BufferId(pub u16);

/// The entry that the host writes into `SendReg`: a ready message and its target. The target is
/// included so that the adapter can choose what to fetch before fetching it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SendRequest {
    /// The buffer that holds the message.
    pub buffer: BufferId,
    /// The node that it is for.
    pub target: u16,
}

/// Why a ring or a doorbell refused a write. With one entry per buffer, each of these means that
/// the writer passed a buffer that it did not hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RingError {
    /// The place at the in-pointer still holds an entry that was not read.
    #[error("no room for buffer {}: the ring's {entries} entries are unread", .buffer.0)]
    Full {
        /// The buffer that was passed.
        buffer: BufferId,
        /// How many entries the ring has.
        entries: u16,
    },
    /// No buffer is in flight, so none can complete.
    #[error("buffer {} completed although none of {entries} is in flight", .buffer.0)]
    NoneInFlight {
        /// The buffer that was passed.
        buffer: BufferId,
        /// How many entries the ring has.
        entries: u16,
    },
}

/// A register that is the input port of a FIFO: the host can write faster than the adapter reads
/// without losing a write (`SendReg`, `RecvCmplReg`).
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Doorbell<T> {
    entries: VecDeque<T>,
    depth: u16,
}

/// A ring of entries {buffer, value, valid} in host memory, written by the adapter at its
/// in-pointer and read by the host at its out-pointer (`SendCmplQueue`, `RecvQueue`).
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct CompletionRing<T> {
    entries: Vec<Entry<T>>,
    /// Owned by the adapter (`SendCmplIn`, `RecvIn`).
    inward: u16,
    /// Owned by the host (`SendCmplOut`, `RecvOut`).
    outward: u16,
}

/// The completion ring of the initiator, whose entries that are not valid are the free list.
///
/// Going round from the out-pointer backwards there are: entries that the host has read and whose
/// buffers are free, then entries whose buffers are in flight. One pointer more, at the oldest
/// free entry, makes a free list of the former (Clint 3.1: the entries that are not shaded in
/// Figure 2). On the target's side the free list belongs to the adapter and stays in its own
/// memory: [`FreeList`].
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct SendCompletionRing<T> {
    ring: CompletionRing<T>,
    /// Owned by the host: the oldest entry whose buffer is free.
    oldest_free: u16,
    /// Owned by the host: how many entries are free.
    free: u16,
}

/// The free receive buffers, kept on the target's adapter and used in the order of their return.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct FreeList {
    buffers: VecDeque<BufferId>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Entry<T> {
    buffer: BufferId,
    value: Option<T>,
    valid: bool,
}

/// The position this many steps behind another on a ring of `entries`, of which there may be 65535: the sum
/// of two positions then has more than sixteen bits.
fn step(place: u16, steps: u16, entries: u16) -> u16 {
    // A place is less than the number of entries.
    ((u32::from(place) + u32::from(steps)) % u32::from(entries.max(1))) as u16
}

impl<T> Doorbell<T> {
    /// An empty register whose FIFO holds `depth` entries. As many as there are buffers is enough,
    /// since each buffer waits in it at most once.
    pub fn new(depth: u16) -> Doorbell<T> {
        Doorbell { entries: VecDeque::new(), depth }
    }

    /// The host writes the register. Returns the value if the FIFO is full.
    ///
    /// # Errors
    /// The value itself, not taken.
    pub fn write(&mut self, value: T) -> Result<(), T> {
        if self.entries.len() == usize::from(self.depth) {
            return Err(value);
        }
        self.entries.push_back(value);
        Ok(())
    }

    /// The adapter puts an entry that it has taken back to `place`, counted from the oldest; at
    /// the end if there are fewer entries.
    pub fn put_back(&mut self, place: usize, value: T) {
        self.entries.insert(place.min(self.entries.len()), value);
    }

    /// The adapter takes the oldest entry.
    pub fn read(&mut self) -> Option<T> {
        self.entries.pop_front()
    }

    /// The entries, oldest first.
    pub fn iter(&self) -> impl Iterator<Item = &T> {
        self.entries.iter()
    }

    /// How many entries wait.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether no entry waits.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Takes the entry at `place`, counted from the oldest. The adapter reads the FIFO into its own
    /// memory, so it may serve it in another order.
    pub fn take(&mut self, place: usize) -> Option<T> {
        self.entries.remove(place)
    }
}

impl<T> CompletionRing<T> {
    /// A ring with one entry per buffer, none of them valid. The entries name the buffers in order.
    pub fn new(buffers: u16) -> CompletionRing<T> {
        let entries = (0..buffers)
            .map(|buffer| Entry { buffer: BufferId(buffer), value: None, valid: false })
            .collect();
        CompletionRing { entries, inward: 0, outward: 0 }
    }

    /// How many entries the ring has.
    pub fn entries(&self) -> u16 {
        self.entries.len() as u16
    }

    /// The adapter writes an entry at its in-pointer.
    ///
    /// # Errors
    /// [`RingError::Full`] if the entry there is unread, which the number of buffers excludes.
    pub fn enqueue(&mut self, buffer: BufferId, value: T) -> Result<(), RingError> {
        let entries = self.entries();
        match self.entries.get_mut(usize::from(self.inward)) {
            Some(entry) if !entry.valid => {
                *entry = Entry { buffer, value: Some(value), valid: true };
                self.inward = step(self.inward, 1, entries);
                Ok(())
            }
            _ => Err(RingError::Full { buffer, entries }),
        }
    }

    /// The host reads the valid bit at its out-pointer and takes the entry if it is set. The index
    /// stays in the entry, which the host now owns.
    pub fn poll(&mut self) -> Option<(BufferId, T)> {
        let entries = self.entries();
        let entry = self.entries.get_mut(usize::from(self.outward)).filter(|entry| entry.valid)?;
        entry.valid = false;
        let taken = entry.value.take().map(|value| (entry.buffer, value));
        self.outward = step(self.outward, 1, entries);
        taken
    }

    /// How many entries are valid.
    pub fn unread(&self) -> usize {
        self.entries.iter().filter(|entry| entry.valid).count()
    }

    /// The buffers of the valid entries, in the order of the ring's places.
    pub fn unread_buffers(&self) -> impl Iterator<Item = BufferId> {
        self.entries.iter().filter(|entry| entry.valid).map(|entry| entry.buffer)
    }
}

impl<T> SendCompletionRing<T> {
    /// A ring whose entries all name free buffers.
    pub fn new(buffers: u16) -> SendCompletionRing<T> {
        SendCompletionRing { ring: CompletionRing::new(buffers), oldest_free: 0, free: buffers }
    }

    /// The host takes a free buffer.
    pub fn take_free(&mut self) -> Option<BufferId> {
        if self.free == 0 {
            return None;
        }
        let buffer = self.ring.entries.get(usize::from(self.oldest_free))?.buffer;
        self.oldest_free = step(self.oldest_free, 1, self.ring.entries());
        self.free -= 1;
        Some(buffer)
    }

    /// The adapter reports a buffer as sent.
    ///
    /// # Errors
    /// [`RingError`] if no buffer is in flight.
    pub fn complete(&mut self, buffer: BufferId, value: T) -> Result<(), RingError> {
        let entries = self.ring.entries();
        let from_oldest_free = step(self.ring.inward, entries - self.oldest_free, entries);
        if from_oldest_free < self.free {
            return Err(RingError::NoneInFlight { buffer, entries });
        }
        self.ring.enqueue(buffer, value)
    }

    /// The host takes the oldest completion; from now on its buffer is free.
    pub fn poll(&mut self) -> Option<(BufferId, T)> {
        let completion = self.ring.poll()?;
        self.free += 1;
        Some(completion)
    }

    /// How many buffers are free.
    pub fn free(&self) -> u16 {
        self.free
    }

    /// The free buffers, oldest first.
    pub fn free_buffers(&self) -> impl Iterator<Item = BufferId> {
        let entries = self.ring.entries();
        (0..self.free).map(move |steps| {
            self.ring.entries[usize::from(step(self.oldest_free, steps, entries))].buffer
        })
    }

    /// The completions that the host has not read.
    pub fn unread_buffers(&self) -> impl Iterator<Item = BufferId> {
        self.ring.unread_buffers()
    }
}

impl FreeList {
    /// A list of all `buffers` buffers.
    pub fn new(buffers: u16) -> FreeList {
        FreeList { buffers: (0..buffers).map(BufferId).collect() }
    }

    /// Takes the buffer that has been free for longest.
    pub fn take(&mut self) -> Option<BufferId> {
        self.buffers.pop_front()
    }

    /// Gives a buffer back.
    pub fn give(&mut self, buffer: BufferId) {
        self.buffers.push_back(buffer);
    }

    /// How many buffers are free.
    pub fn len(&self) -> usize {
        self.buffers.len()
    }

    /// Whether no buffer is free.
    pub fn is_empty(&self) -> bool {
        self.buffers.is_empty()
    }

    /// The free buffers, the next one first.
    pub fn iter(&self) -> impl Iterator<Item = BufferId> {
        self.buffers.iter().copied()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::explore::explore;

    #[test]
    fn a_doorbell_keeps_the_order_of_writes_and_loses_none() {
        let mut doorbell = Doorbell::new(2);
        assert_eq!((doorbell.len(), doorbell.is_empty()), (0, true));
        assert_eq!((doorbell.write('a'), doorbell.write('b')), (Ok(()), Ok(())));
        assert_eq!((doorbell.len(), doorbell.is_empty()), (2, false));
        assert_eq!(doorbell.write('c'), Err('c'));
        assert_eq!(
            [doorbell.read(), doorbell.read(), doorbell.read()],
            [Some('a'), Some('b'), None]
        );
    }

    #[test]
    fn the_valid_bit_is_all_that_the_host_needs() {
        let mut ring = CompletionRing::new(2);
        assert_eq!(ring.poll(), None);
        ring.enqueue(BufferId(1), 'x').unwrap();
        ring.enqueue(BufferId(0), 'y').unwrap();
        assert_eq!(
            ring.enqueue(BufferId(0), 'z').unwrap_err().to_string(),
            "no room for buffer 0: the ring's 2 entries are unread"
        );
        assert_eq!(ring.poll(), Some((BufferId(1), 'x')));
        assert_eq!(ring.unread(), 1);
        ring.enqueue(BufferId(1), 'z').unwrap();
        assert_eq!(ring.unread(), 2);
        assert_eq!(
            [ring.poll(), ring.poll()],
            [Some((BufferId(0), 'y')), Some((BufferId(1), 'z'))]
        );
        assert_eq!(ring.poll(), None);
    }

    #[test]
    fn a_free_list_counts_its_buffers() {
        let mut free = FreeList::new(2);
        assert_eq!((free.len(), free.is_empty()), (2, false));
        assert_eq!([free.take(), free.take()], [Some(BufferId(0)), Some(BufferId(1))]);
        assert_eq!((free.len(), free.is_empty()), (0, true));
        free.give(BufferId(1));
        assert_eq!(free.iter().collect::<Vec<_>>(), [BufferId(1)]);
    }

    #[test]
    fn buffers_leave_the_free_list_in_the_order_of_completion() {
        let mut ring = SendCompletionRing::new(3);
        let taken = [ring.take_free(), ring.take_free(), ring.take_free(), ring.take_free()];
        assert_eq!(taken, [Some(BufferId(0)), Some(BufferId(1)), Some(BufferId(2)), None]);
        for buffer in [2, 0, 1] {
            ring.complete(BufferId(buffer), ()).unwrap();
            ring.poll();
        }
        assert_eq!(ring.free_buffers().collect::<Vec<_>>(), [2, 0, 1].map(BufferId));
        assert_eq!(
            ring.complete(BufferId(1), ()).unwrap_err().to_string(),
            "buffer 1 completed although none of 3 is in flight"
        );
    }

    /// The largest ring that its pointers can name, its in-pointer at every place once: as many places are
    /// free, in flight and unread as buffers are, also where the sum of two places exceeds sixteen bits.
    #[test]
    fn the_largest_ring_goes_round_twice() {
        const BUFFERS: u16 = u16::MAX;
        let mut ring = SendCompletionRing::new(BUFFERS);
        let mut free: Vec<_> = ring.free_buffers().collect();
        assert_eq!(free, (0..BUFFERS).map(BufferId).collect::<Vec<_>>());
        let refused = ring.complete(BufferId(0), ());
        assert_eq!(refused, Err(RingError::NoneInFlight { buffer: BufferId(0), entries: BUFFERS }));
        for _ in 0..2 {
            let taken: Vec<_> = std::iter::from_fn(|| ring.take_free()).collect();
            assert_eq!((&taken, ring.free()), (&free, 0));
            // Completions arrive in another order than that of the places.
            free = taken.into_iter().rev().collect();
            for buffer in &free {
                assert_eq!(ring.complete(*buffer, ()), Ok(()));
            }
            let full = RingError::Full { buffer: free[0], entries: BUFFERS };
            assert_eq!(ring.complete(free[0], ()), Err(full));
            let polled: Vec<_> = std::iter::from_fn(|| ring.poll()).map(|own| own.0).collect();
            assert_eq!((&polled, ring.free()), (&free, BUFFERS));
            assert_eq!(ring.free_buffers().collect::<Vec<_>>(), free);
        }
    }

    /// Beyond half of sixteen bits a place and the number of entries no longer fit them together.
    #[test]
    fn a_place_beyond_the_middle_of_a_large_ring_completes() {
        let mut ring = SendCompletionRing::new(40_000);
        for turn in 0..40_000_u16 {
            let buffer = ring.take_free().expect("a free buffer");
            assert_eq!(ring.complete(buffer, turn), Ok(()));
            assert_eq!(ring.poll(), Some((buffer, turn)));
        }
        assert_eq!(ring.free(), 40_000);
    }

    /// Every reachable state of a ring of up to four buffers, completions in any order: the ring
    /// never overflows, and no buffer is lost or free twice (Clint 3.1).
    #[test]
    fn no_order_of_completions_overflows_the_ring() {
        for buffers in 1..=4_u16 {
            let start = (SendCompletionRing::<()>::new(buffers), BTreeSet::new());
            let states = explore(start, |(ring, in_flight)| {
                let mut places: Vec<_> = ring.free_buffers().chain(ring.unread_buffers()).collect();
                places.extend(in_flight);
                places.sort_unstable();
                assert_eq!(places, (0..buffers).map(BufferId).collect::<Vec<_>>());
                ring_successors(ring, in_flight)
            });
            assert!(states.all_can_reach(|(ring, _)| ring.free() == buffers));
            // One buffer is free, in flight or completed, and the ring has one place.
            assert!(buffers > 1 || states.len() == 3, "{} states", states.len());
        }
    }

    type RingState = (SendCompletionRing<()>, BTreeSet<BufferId>);

    fn ring_successors(
        ring: &SendCompletionRing<()>,
        in_flight: &BTreeSet<BufferId>,
    ) -> Vec<RingState> {
        let mut successors = Vec::new();
        let (mut taken, mut flying) = (ring.clone(), in_flight.clone());
        if let Some(buffer) = taken.take_free() {
            assert!(flying.insert(buffer), "{buffer:?} was in flight and free");
            successors.push((taken, flying));
        }
        for buffer in in_flight {
            let (mut completed, mut flying) = (ring.clone(), in_flight.clone());
            completed.complete(*buffer, ()).expect("a buffer in flight has an entry");
            flying.remove(buffer);
            successors.push((completed, flying));
        }
        let mut polled = ring.clone();
        if polled.poll().is_some() {
            successors.push((polled, in_flight.clone()));
        }
        successors
    }
}
