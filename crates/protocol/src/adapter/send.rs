//! The initiator's side: the seven steps of sending a message (Clint 3.1).

use std::collections::VecDeque;
use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Prefetch, StepError};
use crate::ring::{BufferId, Doorbell, SendCompletionRing, SendRequest};

/// Why a transmission failed (`trErr`, Clint 3.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, thiserror::Error)]
pub enum TransmissionError {
    /// A negative acknowledgment arrived.
    #[error("the target had no receive buffer")]
    NoReceiveBuffer,
    /// No acknowledgment arrived within a fixed time after the request: it was lost, or its check
    /// code was wrong at the target.
    #[error("no acknowledgment came back")]
    NoAcknowledgment,
}

/// When a send buffer of the adapter is free for the next message. The paper does not say.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Release {
    /// As soon as the request is sent. A retransmission fetches the message again.
    Transmission,
    /// When the transmission is reported to the host.
    #[default]
    Acknowledgment,
}

/// The pools and policies of one sending endpoint and channel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SendSettings {
    /// Buffers in host memory (`HostSendBuffers`), and entries of every queue.
    pub buffers: u16,
    /// Buffers on the adapter (`NICSendBuffers`).
    pub adapter_buffers: u16,
    /// How many targets there are.
    pub targets: u16,
    /// Which message is fetched next.
    pub prefetch: Prefetch,
    /// When a buffer of the adapter is released.
    pub release: Release,
}

/// Where a send buffer is in its sequence.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum SendState {
    /// On the free list.
    Free,
    /// Taken by the host, not written.
    Taken,
    /// Written by the host, not posted.
    Written,
    /// Posted to the adapter, in host memory only.
    Posted,
    /// The copy to the adapter is in progress.
    Fetching,
    /// On the adapter, requesting a slot.
    Ready,
    /// Sent, not acknowledged.
    Sent,
    /// Reported, not read by the host.
    Completed,
}

/// A transmission as the host learns of it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Completion<M> {
    /// The buffer, free from now on.
    pub buffer: BufferId,
    /// The message that was in it.
    pub message: M,
    /// The outcome of the transmission.
    pub outcome: Result<(), TransmissionError>,
}

/// The send sequence of one endpoint and channel. Messages are values of any type: 32 bytes and a
/// payload in a program, an index in a simulation.
///
/// | step (Clint 3.1) | method |
/// |---|---|
/// | the host gets a free buffer | [`take_buffer`](SendSide::take_buffer) |
/// | it writes the message | [`write`](SendSide::write) |
/// | it writes {buffer, target} into `SendReg` | [`post`](SendSide::post) |
/// | the adapter begins to copy the message | [`begin_fetch`](SendSide::begin_fetch) |
/// | the copy is complete | [`end_fetch`](SendSide::end_fetch) |
/// | the adapter requests a slot | [`requests`](SendSide::requests) |
/// | once it is granted, the adapter sends | [`send`](SendSide::send) |
/// | it notifies the host of the outcome | [`complete`](SendSide::complete) |
/// | or it sends the message again | [`retry`](SendSide::retry) |
/// | the host dequeues the entry and frees the buffer | [`poll`](SendSide::poll) |
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct SendSide<M> {
    settings: SendSettings,
    slots: Vec<Slot<M>>,
    send_register: Doorbell<SendRequest>,
    completions: SendCompletionRing<Result<(), TransmissionError>>,
    /// Per target, the buffers that are ready, in the order of posting.
    ready: Vec<VecDeque<BufferId>>,
    /// Per target, how many messages the adapter holds.
    buffered: Vec<u16>,
    /// Buffers of the adapter in use.
    occupied: u16,
    /// How many messages have been posted.
    posted: u64,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Slot<M> {
    state: SendState,
    target: u16,
    /// The place of the message among all that were posted.
    order: u64,
    message: Option<M>,
}

impl<M> SendSide<M> {
    /// A side with all buffers free.
    pub fn new(settings: SendSettings) -> SendSide<M> {
        let SendSettings { buffers, targets, .. } = settings;
        let slot = || Slot { state: SendState::Free, target: 0, order: 0, message: None };
        SendSide {
            settings,
            slots: (0..buffers).map(|_| slot()).collect(),
            send_register: Doorbell::new(buffers),
            completions: SendCompletionRing::new(buffers),
            ready: (0..targets).map(|_| VecDeque::new()).collect(),
            buffered: vec![0; usize::from(targets)],
            occupied: 0,
            posted: 0,
        }
    }

    /// Step 1: the host gets a free buffer.
    pub fn take_buffer(&mut self) -> Option<BufferId> {
        let buffer = self.completions.take_free()?;
        self.slots[usize::from(buffer.0)].state = SendState::Taken;
        Some(buffer)
    }

    /// Step 2: the host writes the message into the buffer.
    ///
    /// # Errors
    /// [`StepError`] unless the host has just taken the buffer.
    pub fn write(&mut self, buffer: BufferId, message: M) -> Result<(), StepError<SendState>> {
        let slot = self.advance(buffer, "written", SendState::Taken, SendState::Written)?;
        slot.message = Some(message);
        Ok(())
    }

    /// Step 3: the host writes {buffer, target} into `SendReg`.
    ///
    /// # Errors
    /// [`StepError`] unless the buffer is written. A target that does not exist stays posted for
    /// ever, so `target` must be below [`SendSettings::targets`]; the caller routes and knows.
    pub fn post(&mut self, request: SendRequest) -> Result<(), StepError<SendState>> {
        debug_assert!(request.target < self.settings.targets, "target {}", request.target);
        let order = self.posted;
        let slot = self.advance(request.buffer, "posted", SendState::Written, SendState::Posted)?;
        slot.target = request.target;
        slot.order = order;
        self.posted += 1;
        // The register has an entry per buffer and this buffer was not in it, so it has room.
        let written = self.send_register.write(request);
        debug_assert!(written.is_ok());
        Ok(())
    }

    /// Step 4, first half: the adapter begins to copy the message that the prefetch policy picks,
    /// if a buffer of the adapter is free.
    pub fn begin_fetch(&mut self) -> Option<SendRequest> {
        if self.occupied == self.settings.adapter_buffers {
            return None;
        }
        let buffered = |target: u16| self.buffered.get(usize::from(target)).copied().unwrap_or(0);
        let place = self.settings.prefetch.choose(self.send_register.iter(), buffered)?;
        let request = self.send_register.take(place)?;
        self.slots[usize::from(request.buffer.0)].state = SendState::Fetching;
        self.buffered[usize::from(request.target)] += 1;
        self.occupied += 1;
        Some(request)
    }

    /// Step 4, second half: the message is on the adapter and requests a slot.
    ///
    /// # Errors
    /// [`StepError`] unless the copy was begun.
    pub fn end_fetch(&mut self, buffer: BufferId) -> Result<(), StepError<SendState>> {
        let slot = self.advance(buffer, "fetched", SendState::Fetching, SendState::Ready)?;
        let target = slot.target;
        self.insert_ready(buffer, target);
        Ok(())
    }

    /// Step 5, first half: the targets for which the adapter holds a message, ascending.
    pub fn requests(&self) -> impl Iterator<Item = u16> {
        (0..self.settings.targets).filter(|target| self.ready_for(*target) > 0)
    }

    /// How many messages for a target are ready on the adapter.
    pub fn ready_for(&self, target: u16) -> usize {
        self.ready.get(usize::from(target)).map_or(0, VecDeque::len)
    }

    /// Step 5, second half: the grant is here, and the oldest message for the target is sent.
    pub fn send(&mut self, target: u16) -> Option<(BufferId, &M)> {
        let buffer = self.ready.get_mut(usize::from(target))?.pop_front()?;
        let slot = &mut self.slots[usize::from(buffer.0)];
        slot.state = SendState::Sent;
        if self.settings.release == Release::Transmission {
            self.buffered[usize::from(target)] -= 1;
            self.occupied -= 1;
        }
        slot.message.as_ref().map(|message| (buffer, message))
    }

    /// Step 6: the acknowledgment is here, or its time is over; the host is notified.
    ///
    /// # Errors
    /// [`StepError`] unless the buffer is sent and not reported.
    pub fn complete(
        &mut self,
        buffer: BufferId,
        outcome: Result<(), TransmissionError>,
    ) -> Result<(), StepError<SendState>> {
        let slot = self.advance(buffer, "completed", SendState::Sent, SendState::Completed)?;
        let target = usize::from(slot.target);
        if self.settings.release == Release::Acknowledgment {
            self.buffered[target] -= 1;
            self.occupied -= 1;
        }
        // A sent buffer is in flight, so the ring has an entry for it.
        let enqueued = self.completions.complete(buffer, outcome);
        debug_assert!(enqueued.is_ok());
        Ok(())
    }

    /// Step 6 where the adapter retransmits without the host (quick channel, Clint 3.4): the
    /// message goes before every later one of its target, from the adapter if its buffer is kept
    /// until then. With release at transmission it is fetched again, and until then a later message
    /// that is on the adapter already may overtake it.
    ///
    /// # Errors
    /// [`StepError`] unless the buffer is sent and not reported.
    pub fn retry(&mut self, buffer: BufferId) -> Result<(), StepError<SendState>> {
        let next = match self.settings.release {
            Release::Acknowledgment => SendState::Ready,
            Release::Transmission => SendState::Posted,
        };
        let target = self.advance(buffer, "sent again", SendState::Sent, next)?.target;
        match self.settings.release {
            Release::Acknowledgment => self.insert_ready(buffer, target),
            Release::Transmission => self.post_again(SendRequest { buffer, target }),
        }
        Ok(())
    }

    /// Step 7: the host reads the oldest completion, and its buffer is free.
    pub fn poll(&mut self) -> Option<Completion<M>> {
        let (buffer, outcome) = self.completions.poll()?;
        let slot = &mut self.slots[usize::from(buffer.0)];
        slot.state = SendState::Free;
        let message = slot.message.take()?;
        Some(Completion { buffer, message, outcome })
    }

    /// The state of a buffer; `None` if there is no such buffer.
    pub fn state(&self, buffer: BufferId) -> Option<SendState> {
        self.slots.get(usize::from(buffer.0)).map(|slot| slot.state)
    }

    /// The message in a buffer, from its being written to its completion being read.
    pub fn message(&self, buffer: BufferId) -> Option<&M> {
        self.slots.get(usize::from(buffer.0))?.message.as_ref()
    }

    /// How many buffers are in a state. Over all states this is [`SendSettings::buffers`].
    pub fn count(&self, state: SendState) -> usize {
        self.slots.iter().filter(|slot| slot.state == state).count()
    }

    /// Buffers of the adapter in use.
    pub fn occupied(&self) -> u16 {
        self.occupied
    }

    /// Posted messages that the adapter has no buffer for although it holds none for their
    /// target: what head-of-line blocking costs at this stage (Clint 3.1).
    pub fn blocked_at_head(&self) -> usize {
        if self.occupied < self.settings.adapter_buffers {
            return 0;
        }
        let is_absent = |target: u16| self.buffered.get(usize::from(target)) == Some(&0);
        self.send_register.iter().filter(|request| is_absent(request.target)).count()
    }

    fn order(&self, buffer: BufferId) -> u64 {
        self.slots[usize::from(buffer.0)].order
    }

    /// Messages for one target keep the order of posting, even after retransmissions.
    fn insert_ready(&mut self, buffer: BufferId, target: u16) {
        let target = usize::from(target);
        let own = self.order(buffer);
        let place = self.ready[target].partition_point(|other| self.order(*other) < own);
        self.ready[target].insert(place, buffer);
    }

    /// To the front of the register, but after messages that were posted earlier for the same
    /// target.
    fn post_again(&mut self, request: SendRequest) {
        let own = self.order(request.buffer);
        let earlier =
            self.send_register.iter().enumerate().filter(|(_, other)| {
                other.target == request.target && self.order(other.buffer) < own
            });
        let place = earlier.last().map_or(0, |(place, _)| place + 1);
        self.send_register.put_back(place, request);
    }

    fn advance(
        &mut self,
        buffer: BufferId,
        step: &'static str,
        expected: SendState,
        next: SendState,
    ) -> Result<&mut Slot<M>, StepError<SendState>> {
        match self.slots.get_mut(usize::from(buffer.0)) {
            Some(slot) if slot.state == expected => {
                slot.state = next;
                Ok(slot)
            }
            found => {
                // A buffer that does not exist is treated like a free one.
                let state = found.map_or(SendState::Free, |slot| slot.state);
                Err(StepError { buffer, step, state, expected })
            }
        }
    }
}

impl SendState {
    /// Every state, in the order of the sequence.
    pub const ALL: [SendState; 8] = [
        SendState::Free,
        SendState::Taken,
        SendState::Written,
        SendState::Posted,
        SendState::Fetching,
        SendState::Ready,
        SendState::Sent,
        SendState::Completed,
    ];
}

impl fmt::Display for SendState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            SendState::Free => "free",
            SendState::Taken => "taken",
            SendState::Written => "written",
            SendState::Posted => "posted",
            SendState::Fetching => "being fetched",
            SendState::Ready => "ready",
            SendState::Sent => "sent",
            SendState::Completed => "completed",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::explore::explore;

    const SMALL: SendSettings = SendSettings {
        buffers: 3,
        adapter_buffers: 2,
        targets: 2,
        prefetch: Prefetch::Fifo,
        release: Release::Acknowledgment,
    };

    fn submit(side: &mut SendSide<char>, message: char, target: u16) -> BufferId {
        let buffer = side.take_buffer().expect("a buffer is free");
        side.write(buffer, message).unwrap();
        side.post(SendRequest { buffer, target }).unwrap();
        buffer
    }

    fn fetch_all(side: &mut SendSide<char>) {
        while let Some(request) = side.begin_fetch() {
            side.end_fetch(request.buffer).unwrap();
        }
    }

    /// The seven steps of Clint 3.1 in their order, one message.
    #[test]
    fn a_message_goes_through_the_seven_steps() {
        let mut side = SendSide::new(SMALL);
        let buffer = side.take_buffer().unwrap();
        side.write(buffer, 'm').unwrap();
        side.post(SendRequest { buffer, target: 1 }).unwrap();
        assert_eq!(side.begin_fetch(), Some(SendRequest { buffer, target: 1 }));
        assert_eq!(side.requests().count(), 0, "a copy that has not ended requests nothing");
        side.end_fetch(buffer).unwrap();
        assert_eq!(side.requests().collect::<Vec<_>>(), [1]);
        assert_eq!(side.send(0), None);
        assert_eq!(side.send(1), Some((buffer, &'m')));
        let outcome = Err(TransmissionError::NoReceiveBuffer);
        side.complete(buffer, outcome).unwrap();
        assert_eq!(side.poll(), Some(Completion { buffer, message: 'm', outcome }));
        assert_eq!((side.count(SendState::Free), side.occupied()), (3, 0));
    }

    #[test]
    fn a_step_out_of_order_is_refused_and_changes_nothing() {
        let mut side = SendSide::new(SMALL);
        let buffer = side.take_buffer().unwrap();
        let before = side.clone();
        let refusal = side.post(SendRequest { buffer, target: 0 }).unwrap_err();
        assert_eq!(refusal.to_string(), "buffer 0 cannot be posted: it is taken, expected written");
        let refusal = side.complete(BufferId(2), Ok(())).unwrap_err();
        assert_eq!(refusal.to_string(), "buffer 2 cannot be completed: it is free, expected sent");
        assert!(side.write(BufferId(77), 'x').is_err());
        assert_eq!(side, before);
    }

    /// Clint 3.1: with fetching in order, a blocked target fills the adapter; with a maximum per
    /// target it cannot, and the next message is presented to the scheduler.
    #[test]
    fn a_per_target_limit_avoids_head_of_line_blocking() {
        for (prefetch, requests, blocked) in [
            (Prefetch::Fifo, vec![0], 1),
            (Prefetch::DifferentTargets, vec![0, 1], 0),
            (Prefetch::PerTarget { limit: 1 }, vec![0, 1], 0),
        ] {
            let mut side = SendSide::new(SendSettings { prefetch, ..SMALL });
            for (message, target) in [('a', 0), ('b', 0), ('c', 1)] {
                submit(&mut side, message, target);
            }
            fetch_all(&mut side);
            assert_eq!(side.requests().collect::<Vec<_>>(), requests, "{prefetch:?}");
            assert_eq!(side.blocked_at_head(), blocked, "{prefetch:?}");
        }
    }

    /// Both messages are sent and fail; the outcomes come in either order.
    #[test]
    fn retries_keep_the_order_of_their_target() {
        for release in [Release::Acknowledgment, Release::Transmission] {
            for outcomes in [[0, 1], [1, 0]] {
                let mut side = SendSide::new(SendSettings { release, ..SMALL });
                let sent = [submit(&mut side, 'a', 0), submit(&mut side, 'b', 0)];
                submit(&mut side, 'c', 0);
                fetch_all(&mut side);
                assert_eq!(sent.map(|_| side.send(0).map(|(buffer, _)| buffer)), sent.map(Some));
                for place in outcomes {
                    side.retry(sent[place]).unwrap();
                }
                fetch_all(&mut side);
                let again = sent.map(|_| side.send(0).map(|(_, message)| *message));
                assert_eq!(again, [Some('a'), Some('b')], "{release:?} {outcomes:?}");
            }
        }
    }

    /// A message that goes back to host memory takes its place before one that is on the adapter.
    #[test]
    fn a_message_fetched_again_goes_before_a_later_one_that_was_ready() {
        let mut side = SendSide::new(SendSettings { release: Release::Transmission, ..SMALL });
        let first = submit(&mut side, 'a', 0);
        submit(&mut side, 'b', 0);
        fetch_all(&mut side);
        side.send(0);
        side.retry(first).unwrap();
        fetch_all(&mut side);
        assert_eq!(side.send(0).map(|(_, message)| *message), Some('a'));
        assert_eq!(side.send(0).map(|(_, message)| *message), Some('b'));
    }

    #[test]
    fn release_at_transmission_frees_the_adapter_earlier() {
        for (release, occupied) in [(Release::Acknowledgment, 1), (Release::Transmission, 0)] {
            let mut side = SendSide::new(SendSettings { release, ..SMALL });
            submit(&mut side, 'a', 0);
            fetch_all(&mut side);
            side.send(0);
            assert_eq!(side.occupied(), occupied);
        }
    }

    /// Every interleaving of host, adapter and network for three buffers and two targets.
    #[test]
    fn no_interleaving_loses_a_buffer_or_uses_it_twice() {
        let policies =
            [Prefetch::Fifo, Prefetch::DifferentTargets, Prefetch::PerTarget { limit: 1 }];
        for release in [Release::Acknowledgment, Release::Transmission] {
            for prefetch in policies {
                let start = SendSide::new(SendSettings { prefetch, release, ..SMALL });
                let states = explore(start, |side| {
                    assert_conserved(side);
                    successors(side)
                });
                assert!(states.all_can_reach(|side| side.count(SendState::Free) == 3));
                for state in SendState::ALL {
                    assert!(states.iter().any(|side| side.count(state) == 2), "{state} unreached");
                }
            }
        }
    }

    fn assert_conserved(side: &SendSide<()>) {
        let places = [
            (SendState::Free, side.completions.free_buffers().collect::<Vec<_>>()),
            (SendState::Posted, side.send_register.iter().map(|request| request.buffer).collect()),
            (SendState::Ready, side.ready.iter().flatten().copied().collect()),
            (SendState::Completed, side.completions.unread_buffers().collect()),
        ];
        for (state, mut found) in places {
            let expected: Vec<_> =
                (0..3).map(BufferId).filter(|buffer| side.state(*buffer) == Some(state)).collect();
            found.sort_unstable();
            assert_eq!(found, expected, "{state}");
        }
        for target in 0..2 {
            let own = side.send_register.iter().filter(|request| request.target == target);
            assert!(own.is_sorted_by_key(|request| side.order(request.buffer)), "{side:?}");
        }
        for queue in &side.ready {
            assert!(queue.iter().is_sorted_by_key(|buffer| side.order(*buffer)), "{side:?}");
        }
        let held = [SendState::Fetching, SendState::Ready].map(|state| side.count(state));
        let sent = side.count(SendState::Sent);
        let kept = if side.settings.release == Release::Acknowledgment { sent } else { 0 };
        assert_eq!(usize::from(side.occupied), held.iter().sum::<usize>() + kept);
        assert_eq!(side.occupied, side.buffered.iter().sum::<u16>());
        assert!(side.occupied <= side.settings.adapter_buffers);
        if let Prefetch::PerTarget { limit } = side.settings.prefetch {
            assert!(side.buffered.iter().all(|count| *count <= limit));
        }
    }

    /// Only the order among messages that are posted and not reported matters: with ranks in place
    /// of counts, the states are finite in number.
    fn rank_orders(side: &mut SendSide<()>) {
        let is_active = |slot: &Slot<()>| {
            !matches!(
                slot.state,
                SendState::Free | SendState::Taken | SendState::Written | SendState::Completed
            )
        };
        let mut orders: Vec<u64> =
            side.slots.iter().filter(|slot| is_active(slot)).map(|slot| slot.order).collect();
        orders.sort_unstable();
        for slot in &mut side.slots {
            let rank = orders.iter().position(|order| *order == slot.order);
            slot.order = if is_active(slot) { rank.map_or(0, |rank| rank as u64) } else { 0 };
        }
        side.posted = orders.len() as u64;
    }

    fn successors(side: &SendSide<()>) -> Vec<SendSide<()>> {
        let mut successors = Vec::new();
        let mut try_step = |step: &dyn Fn(&mut SendSide<()>) -> bool| {
            let mut next = side.clone();
            if step(&mut next) {
                rank_orders(&mut next);
                successors.push(next);
            }
        };
        try_step(&|side| side.take_buffer().is_some());
        try_step(&|side| side.begin_fetch().is_some());
        try_step(&|side| side.poll().is_some());
        for target in 0..2 {
            try_step(&|side| side.send(target).is_some());
        }
        for buffer in (0..3).map(BufferId) {
            try_step(&|side| side.write(buffer, ()).is_ok());
            try_step(&|side| side.post(SendRequest { buffer, target: buffer.0 % 2 }).is_ok());
            try_step(&|side| side.end_fetch(buffer).is_ok());
            try_step(&|side| side.retry(buffer).is_ok());
            try_step(&|side| side.complete(buffer, Ok(())).is_ok());
        }
        successors
    }
}
