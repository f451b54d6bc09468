//! The target's side: the seven steps of receiving a message (Clint 3.1).

use std::collections::VecDeque;
use std::fmt;

use super::StepError;
use crate::ring::{BufferId, CompletionRing, Doorbell, FreeList};

/// The pools of one receiving endpoint and channel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ReceiveSettings {
    /// Buffers in host memory (`HostRecvBuffers`), and entries of every queue.
    pub buffers: u16,
    /// Buffers on the adapter (`NICRecvBuffers`).
    pub adapter_buffers: u16,
}

/// Where a receive buffer of the host is in its sequence.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ReceiveState {
    /// On the adapter's free list.
    Free,
    /// Being filled from the adapter.
    Storing,
    /// In `RecvQueue`, not read by the host.
    Unread,
    /// Read and in use by the host.
    Held,
    /// In `RecvCmplReg`, not read by the adapter.
    Returned,
}

/// A message that is being copied from the adapter to host memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Placement {
    /// The buffer in host memory.
    pub buffer: BufferId,
}

/// The receive sequence of one endpoint and channel.
///
/// | step (Clint 3.1) | method |
/// |---|---|
/// | the adapter writes the message into its own buffer | [`arrive`](ReceiveSide::arrive) |
/// | it gets a free host buffer and copies | [`begin_store`](ReceiveSide::begin_store) |
/// | it enqueues {buffer, valid} into `RecvQueue` | [`end_store`](ReceiveSide::end_store) |
/// | the host dequeues the entry | [`poll`](ReceiveSide::poll) |
/// | it writes the buffer into `RecvCmplReg` | [`give_back`](ReceiveSide::give_back) |
/// | the adapter dequeues it and frees the buffer | [`reclaim`](ReceiveSide::reclaim) |
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ReceiveSide<M> {
    settings: ReceiveSettings,
    slots: Vec<Slot<M>>,
    /// Messages on the adapter that wait for a buffer of the host.
    arrived: VecDeque<M>,
    /// Messages that are being copied; each keeps its buffer on the adapter until the end.
    storing: u16,
    free: FreeList,
    receive_queue: CompletionRing<()>,
    completion_register: Doorbell<BufferId>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Slot<M> {
    state: ReceiveState,
    message: Option<M>,
}

impl<M> ReceiveSide<M> {
    /// A side with all buffers free.
    pub fn new(settings: ReceiveSettings) -> ReceiveSide<M> {
        let buffers = settings.buffers;
        let slot = || Slot { state: ReceiveState::Free, message: None };
        ReceiveSide {
            settings,
            slots: (0..buffers).map(|_| slot()).collect(),
            arrived: VecDeque::new(),
            storing: 0,
            free: FreeList::new(buffers),
            receive_queue: CompletionRing::new(buffers),
            completion_register: Doorbell::new(buffers),
        }
    }

    /// Step 1: a request packet is here. Returns the message if no receive buffer is available,
    /// which is what a negative acknowledgment says (Clint 3.3).
    ///
    /// # Errors
    /// The message itself, not taken.
    pub fn arrive(&mut self, message: M) -> Result<(), M> {
        if self.occupied() == usize::from(self.settings.adapter_buffers) {
            return Err(message);
        }
        self.arrived.push_back(message);
        Ok(())
    }

    /// Steps 2 and 3: the adapter gets a free buffer of the host and begins to copy the oldest
    /// message into it.
    pub fn begin_store(&mut self) -> Option<Placement> {
        if self.arrived.is_empty() {
            return None;
        }
        let buffer = self.free.take()?;
        let message = self.arrived.pop_front();
        self.slots[usize::from(buffer.0)] = Slot { state: ReceiveState::Storing, message };
        self.storing += 1;
        Some(Placement { buffer })
    }

    /// Step 4: the copy is complete, and the host is notified through `RecvQueue`.
    ///
    /// # Errors
    /// [`StepError`] unless the copy was begun.
    pub fn end_store(&mut self, buffer: BufferId) -> Result<(), StepError<ReceiveState>> {
        self.advance(buffer, "stored", ReceiveState::Storing, ReceiveState::Unread)?;
        self.storing -= 1;
        // The queue has an entry per buffer and this buffer was not in it, so it has room.
        let enqueued = self.receive_queue.enqueue(buffer, ());
        debug_assert!(enqueued.is_ok());
        Ok(())
    }

    /// Step 5: the host dequeues the oldest entry and may read the message.
    pub fn poll(&mut self) -> Option<(BufferId, &M)> {
        let (buffer, ()) = self.receive_queue.poll()?;
        let slot = &mut self.slots[usize::from(buffer.0)];
        slot.state = ReceiveState::Held;
        slot.message.as_ref().map(|message| (buffer, message))
    }

    /// Step 6: the host is done with the message and writes the buffer into `RecvCmplReg`. Returns
    /// the message, which is nowhere else any more.
    ///
    /// # Errors
    /// [`StepError`] unless the host has polled the buffer.
    pub fn give_back(&mut self, buffer: BufferId) -> Result<Option<M>, StepError<ReceiveState>> {
        let slot =
            self.advance(buffer, "given back", ReceiveState::Held, ReceiveState::Returned)?;
        let message = slot.message.take();
        // The register has an entry per buffer and this buffer was not in it, so it has room.
        let written = self.completion_register.write(buffer);
        debug_assert!(written.is_ok());
        Ok(message)
    }

    /// Step 7: the adapter dequeues a buffer from `RecvCmplReg` and adds it to the free list.
    pub fn reclaim(&mut self) -> Option<BufferId> {
        let buffer = self.completion_register.read()?;
        self.slots[usize::from(buffer.0)].state = ReceiveState::Free;
        self.free.give(buffer);
        Some(buffer)
    }

    /// The state of a buffer; `None` if there is no such buffer.
    pub fn state(&self, buffer: BufferId) -> Option<ReceiveState> {
        self.slots.get(usize::from(buffer.0)).map(|slot| slot.state)
    }

    /// How many buffers of the host are in a state. Over all states this is
    /// [`ReceiveSettings::buffers`].
    pub fn count(&self, state: ReceiveState) -> usize {
        self.slots.iter().filter(|slot| slot.state == state).count()
    }

    /// Buffers of the adapter in use.
    pub fn occupied(&self) -> usize {
        self.arrived.len() + usize::from(self.storing)
    }

    fn advance(
        &mut self,
        buffer: BufferId,
        step: &'static str,
        expected: ReceiveState,
        next: ReceiveState,
    ) -> Result<&mut Slot<M>, StepError<ReceiveState>> {
        match self.slots.get_mut(usize::from(buffer.0)) {
            Some(slot) if slot.state == expected => {
                slot.state = next;
                Ok(slot)
            }
            found => {
                // A buffer that does not exist is treated like a free one.
                let state = found.map_or(ReceiveState::Free, |slot| slot.state);
                Err(StepError { buffer, step, state, expected })
            }
        }
    }
}

impl ReceiveState {
    /// Every state, in the order of the sequence.
    pub const ALL: [ReceiveState; 5] = [
        ReceiveState::Free,
        ReceiveState::Storing,
        ReceiveState::Unread,
        ReceiveState::Held,
        ReceiveState::Returned,
    ];
}

impl fmt::Display for ReceiveState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            ReceiveState::Free => "free",
            ReceiveState::Storing => "being stored",
            ReceiveState::Unread => "unread",
            ReceiveState::Held => "held",
            ReceiveState::Returned => "returned",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::explore::explore;

    const SMALL: ReceiveSettings = ReceiveSettings { buffers: 3, adapter_buffers: 2 };

    /// The seven steps of Clint 3.1 in their order, one message.
    #[test]
    fn a_message_goes_through_the_seven_steps() {
        let mut side = ReceiveSide::new(SMALL);
        side.arrive('m').unwrap();
        let Placement { buffer } = side.begin_store().unwrap();
        assert_eq!(side.poll(), None, "a copy that has not ended is not announced");
        side.end_store(buffer).unwrap();
        assert_eq!(side.poll(), Some((buffer, &'m')));
        assert_eq!(side.give_back(buffer), Ok(Some('m')));
        assert_eq!(side.count(ReceiveState::Free), 2, "only the adapter frees a receive buffer");
        assert_eq!(side.reclaim(), Some(buffer));
        assert_eq!(side.count(ReceiveState::Free), 3);
    }

    #[test]
    fn without_a_receive_buffer_the_message_is_refused() {
        let mut side = ReceiveSide::new(SMALL);
        assert_eq!(
            [side.arrive('a'), side.arrive('b'), side.arrive('c')],
            [Ok(()), Ok(()), Err('c')]
        );
        let first = side.begin_store().unwrap();
        assert_eq!(side.arrive('c'), Err('c'), "the copy holds the adapter's buffer to its end");
        side.end_store(first.buffer).unwrap();
        assert_eq!(side.arrive('c'), Ok(()));
    }

    #[test]
    fn a_step_out_of_order_is_refused_and_changes_nothing() {
        let mut side = ReceiveSide::new(SMALL);
        side.arrive('m').unwrap();
        let before = side.clone();
        let refusal = side.give_back(BufferId(1)).unwrap_err();
        assert_eq!(refusal.to_string(), "buffer 1 cannot be given back: it is free, expected held");
        assert!(side.end_store(BufferId(77)).is_err());
        assert_eq!(side, before);
    }

    /// Every interleaving of network, adapter and host for three buffers.
    #[test]
    fn no_interleaving_loses_a_buffer_or_uses_it_twice() {
        let states = explore(ReceiveSide::new(SMALL), |side| {
            assert_conserved(side);
            successors(side)
        });
        assert!(states.all_can_reach(|side| side.count(ReceiveState::Free) == 3));
        for state in ReceiveState::ALL {
            assert!(states.iter().any(|side| side.count(state) == 2), "{state} is never reached");
        }
    }

    fn assert_conserved(side: &ReceiveSide<()>) {
        let places = [
            (ReceiveState::Free, side.free.iter().collect::<Vec<_>>()),
            (ReceiveState::Unread, side.receive_queue.unread_buffers().collect()),
            (ReceiveState::Returned, side.completion_register.iter().copied().collect()),
        ];
        for (state, mut found) in places {
            let expected: Vec<_> =
                (0..3).map(BufferId).filter(|buffer| side.state(*buffer) == Some(state)).collect();
            found.sort_unstable();
            assert_eq!(found, expected, "{state}");
        }
        assert_eq!(usize::from(side.storing), side.count(ReceiveState::Storing));
        assert!(side.occupied() <= usize::from(side.settings.adapter_buffers));
    }

    fn successors(side: &ReceiveSide<()>) -> Vec<ReceiveSide<()>> {
        let mut successors = Vec::new();
        let mut try_step = |step: &dyn Fn(&mut ReceiveSide<()>) -> bool| {
            let mut next = side.clone();
            if step(&mut next) {
                successors.push(next);
            }
        };
        try_step(&|side| side.arrive(()).is_ok());
        try_step(&|side| side.begin_store().is_some());
        try_step(&|side| side.poll().is_some());
        try_step(&|side| side.reclaim().is_some());
        for buffer in (0..3).map(BufferId) {
            try_step(&|side| side.end_store(buffer).is_ok());
            try_step(&|side| side.give_back(buffer).is_ok());
        }
        successors
    }
}
