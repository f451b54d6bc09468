//! An adapter with doorbell registers, buffer pools and completion rings (Clint 3.1), in simulated
//! time: the state machines of `weft_protocol::adapter` with what host and bus take for each step.
//!
//! Two resources are occupied one use at a time: the host, by its register writes and polls, and
//! the bus, by the copies that the adapter makes. Completions go first on the bus, since they free
//! buffers; then receive and send take turns. With all costs zero every step takes no time.

use std::collections::VecDeque;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use weft_protocol::adapter::{
    Completion, Prefetch, ReceiveSettings, ReceiveSide, ReceiveState, Release, SendSettings,
    SendSide, SendState, StepError, TransmissionError,
};
use weft_protocol::ring::{BufferId, SendRequest};
use weft_units::{Bytes, Span, Time};

use super::BusSettings;

/// Settings of an adapter with doorbells, pools and rings, for one endpoint and channel.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct NicSettings {
    /// Send buffers in host memory.
    pub host_send_buffers: u16,
    /// Send buffers on the adapter.
    pub send_buffers: u16,
    /// Receive buffers in host memory.
    pub host_receive_buffers: u16,
    /// Receive buffers on the adapter.
    pub receive_buffers: u16,
    /// Size of a message without the bytes that the link adds: what is copied over the bus.
    pub message: Bytes,
    /// Size of an entry of a completion ring.
    #[serde(default)]
    pub entry: Bytes,
    /// Which message the adapter fetches next.
    #[serde(default)]
    pub prefetch: Prefetch,
    /// When a send buffer of the adapter is free for the next message.
    #[serde(default)]
    pub release: Release,
    /// The costs of crossing the bus.
    #[serde(default)]
    pub bus: BusSettings,
}

/// How often the bus was crossed and how long host and bus were occupied.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NicCounters {
    /// Writes of the host into registers of the adapter.
    pub host_writes: u64,
    /// Reads of a valid bit by the host.
    pub polls: u64,
    /// Copies that the adapter made.
    pub copies: u64,
    /// How long the host was occupied.
    pub host_busy: Span,
    /// How long the bus was occupied by copies.
    pub bus_busy: Span,
    /// Messages refused for want of a receive buffer.
    pub refused: u64,
    /// How long messages were blocked at the prefetch ([`SendSide::blocked_at_head`]), summed over
    /// them, until the last step that could have changed their number.
    pub blocked_at_prefetch: Span,
}

/// The adapter of one endpoint and channel. The driver calls it with ascending times, and at
/// [`Nic::next_time`] calls [`Nic::advance`].
#[derive(Clone, Debug)]
pub struct Nic<M> {
    send: SendSide<M>,
    receive: ReceiveSide<M>,
    settings: NicSettings,
    counters: NicCounters,
    host_free: Time,
    /// Register writes that have not reached the adapter, in order of time.
    writes: VecDeque<(Time, Write)>,
    copy: Option<(Time, Copy)>,
    reports: VecDeque<(BufferId, Result<(), TransmissionError>)>,
    send_turn: bool,
    /// When the message of each host send buffer was whole on the adapter.
    fetched: Vec<Time>,
    /// How many messages are blocked at the prefetch, and since when it was last counted.
    blocked: (u64, Time),
}

#[derive(Clone, Copy, Debug)]
enum Write {
    Send(SendRequest),
    ReceiveCompletion(BufferId),
}

/// What the adapter copies.
#[derive(Clone, Copy, Debug)]
enum Copy {
    /// A message from host memory.
    Fetch(BufferId),
    /// A message, and its entry of `RecvQueue`, to host memory.
    Store(BufferId),
    /// An entry of `SendCmplQueue` to host memory.
    Report(BufferId, Result<(), TransmissionError>),
}

impl NicSettings {
    /// The adapter in its first state, for messages to `targets` nodes.
    pub fn build<M>(&self, targets: u16) -> Nic<M> {
        let send = SendSettings {
            buffers: self.host_send_buffers,
            adapter_buffers: self.send_buffers,
            targets,
            prefetch: self.prefetch,
            release: self.release,
        };
        let receive = ReceiveSettings {
            buffers: self.host_receive_buffers,
            adapter_buffers: self.receive_buffers,
        };
        Nic {
            send: SendSide::new(send),
            receive: ReceiveSide::new(receive),
            settings: self.clone(),
            counters: NicCounters::default(),
            host_free: Time::ZERO,
            writes: VecDeque::new(),
            copy: None,
            reports: VecDeque::new(),
            send_turn: false,
            fetched: vec![Time::ZERO; self.host_send_buffers.into()],
            blocked: (0, Time::ZERO),
        }
    }
}

impl<M> Nic<M> {
    /// When something happens without a call; [`Time::NEVER`] if nothing does.
    pub fn next_time(&self) -> Time {
        let write = self.writes.front().map_or(Time::NEVER, |(time, _)| *time);
        let copy = self.copy.as_ref().map_or(Time::NEVER, |(time, _)| *time);
        write.min(copy)
    }

    /// Processes everything that is due by `now`, in order of time.
    pub fn advance(&mut self, now: Time) {
        loop {
            let time = self.next_time();
            if time > now || time == Time::NEVER {
                return;
            }
            if self.writes.front().is_some_and(|(due, _)| *due == time) {
                self.writes.pop_front().into_iter().for_each(|(_, write)| self.take_write(write));
            } else if let Some((_, copy)) = self.copy.take() {
                self.end_copy(time, copy);
            }
            self.begin_copy(time);
        }
    }

    /// The host sends a message: takes a buffer, writes it and rings the doorbell (steps 1 to 3).
    /// Returns the buffer, or the message if no buffer is free.
    ///
    /// # Errors
    /// The message itself, not taken.
    pub fn submit(&mut self, now: Time, target: u16, message: M) -> Result<BufferId, M> {
        self.advance(now);
        let Some(buffer) = self.send.take_buffer() else { return Err(message) };
        // The buffer has just been taken.
        let written = self.send.write(buffer, message);
        debug_assert!(written.is_ok());
        self.write_register(now, Write::Send(SendRequest { buffer, target }));
        self.advance(now);
        Ok(buffer)
    }

    /// The targets for which the adapter holds a message at `now`, ascending (step 5).
    pub fn requests(&mut self, now: Time) -> impl Iterator<Item = u16> + use<'_, M> {
        self.advance(now);
        self.send.requests()
    }

    /// The transmission of the oldest message for a target starts (step 5).
    pub fn transmit(&mut self, now: Time, target: u16) -> Option<BufferId> {
        self.advance(now);
        let buffer = self.send.send(target).map(|(buffer, _)| buffer)?;
        // With release at transmission a buffer of the adapter has become free.
        self.begin_copy(now);
        self.advance(now);
        Some(buffer)
    }

    /// When the message of a buffer was whole on the adapter (step 4), if it has been there.
    pub fn fetched(&self, buffer: BufferId) -> Option<Time> {
        self.fetched.get(usize::from(buffer.0)).copied()
    }

    /// The outcome of a transmission is known; the host is to be notified (step 6).
    ///
    /// # Errors
    /// [`StepError`] unless the buffer is sent and not reported.
    pub fn complete(
        &mut self,
        now: Time,
        buffer: BufferId,
        outcome: Result<(), TransmissionError>,
    ) -> Result<(), StepError<SendState>> {
        self.advance(now);
        self.expect_unreported(buffer, "completed")?;
        self.reports.push_back((buffer, outcome));
        self.begin_copy(now);
        self.advance(now);
        Ok(())
    }

    /// The adapter retransmits a message without the host.
    ///
    /// # Errors
    /// [`StepError`] unless the buffer is sent and not reported.
    pub fn retry(&mut self, now: Time, buffer: BufferId) -> Result<(), StepError<SendState>> {
        self.advance(now);
        self.expect_unreported(buffer, "sent again")?;
        self.send.retry(buffer)?;
        self.begin_copy(now);
        self.advance(now);
        Ok(())
    }

    /// The host polls for a completion at `now` (step 7). Returns what it finds and when it knows;
    /// until then it is occupied.
    pub fn poll_completion(&mut self, now: Time) -> (Time, Option<Completion<M>>) {
        self.advance(now);
        let done = self.occupy_host_for_poll(now);
        (done, self.send.poll())
    }

    /// A request packet has arrived (step 1 of receiving).
    ///
    /// # Errors
    /// The message itself if no receive buffer is available: a negative acknowledgment.
    pub fn arrive(&mut self, now: Time, message: M) -> Result<(), M> {
        self.advance(now);
        let taken = self.receive.arrive(message);
        self.counters.refused += u64::from(taken.is_err());
        self.begin_copy(now);
        self.advance(now);
        taken
    }

    /// The host polls for a message at `now` (step 5 of receiving). Returns what it finds and when
    /// it knows; it returns the buffer when it is done with it.
    pub fn poll_message(&mut self, now: Time) -> (Time, Option<(BufferId, &M)>) {
        self.advance(now);
        let done = self.occupy_host_for_poll(now);
        (done, self.receive.poll())
    }

    /// The host is done with a message (step 6 of receiving).
    ///
    /// # Errors
    /// [`StepError`] unless the host has polled the buffer.
    pub fn give_back(
        &mut self,
        now: Time,
        buffer: BufferId,
    ) -> Result<Option<M>, StepError<ReceiveState>> {
        self.advance(now);
        let message = self.receive.give_back(buffer)?;
        self.write_register(now, Write::ReceiveCompletion(buffer));
        self.advance(now);
        Ok(message)
    }

    /// The send sequence, read-only.
    pub fn send_side(&self) -> &SendSide<M> {
        &self.send
    }

    /// The receive sequence, read-only.
    pub fn receive_side(&self) -> &ReceiveSide<M> {
        &self.receive
    }

    /// How often the bus was crossed and how long host and bus were occupied.
    pub fn counters(&self) -> NicCounters {
        self.counters
    }

    /// For how long messages have been blocked at the prefetch until `now`, summed over them: the
    /// adapter had no buffer for them although it held none for their targets (Clint 3.1).
    pub fn blocked_at_prefetch(&self, now: Time) -> Span {
        let (count, since) = self.blocked;
        self.counters.blocked_at_prefetch + now.since(since) * count
    }

    /// When the host is done with all that it was asked to do.
    pub fn host_free(&self) -> Time {
        self.host_free
    }

    /// A report that is being delivered to the host is not a state of the send sequence, which ends
    /// when it arrives; for the adapter the buffer is completed.
    fn expect_unreported(
        &self,
        buffer: BufferId,
        step: &'static str,
    ) -> Result<(), StepError<SendState>> {
        let is_queued = self.reports.iter().any(|(other, _)| *other == buffer);
        let is_copied = matches!(self.copy, Some((_, Copy::Report(other, _))) if other == buffer);
        let state = match self.send.state(buffer) {
            Some(_) if is_queued || is_copied => SendState::Completed,
            Some(state) => state,
            None => SendState::Free,
        };
        if state == SendState::Sent {
            return Ok(());
        }
        Err(StepError { buffer, step, state, expected: SendState::Sent })
    }

    fn occupy_host(&mut self, now: Time, span: Span) -> Time {
        self.host_free = self.host_free.max(now) + span;
        self.counters.host_busy += span;
        self.host_free
    }

    fn occupy_host_for_poll(&mut self, now: Time) -> Time {
        self.counters.polls += 1;
        self.occupy_host(now, self.settings.bus.poll)
    }

    fn write_register(&mut self, now: Time, write: Write) {
        self.counters.host_writes += 1;
        let arrival = self.occupy_host(now, self.settings.bus.host_write);
        self.writes.push_back((arrival, write));
    }

    fn take_write(&mut self, write: Write) {
        match write {
            Write::Send(request) => {
                // The buffer was written before the doorbell was rung.
                let posted = self.send.post(request);
                debug_assert!(posted.is_ok());
            }
            // The host writes this register when it returns a buffer, and the writes arrive in
            // order: the oldest buffer that the host has returned is the one of this write.
            Write::ReceiveCompletion(buffer) => {
                let reclaimed = self.receive.reclaim();
                debug_assert_eq!(reclaimed, Some(buffer));
            }
        }
    }

    /// Begins a copy unless one is in progress. Every step that may block a message, or unblock
    /// one, ends here.
    fn begin_copy(&mut self, now: Time) {
        if self.copy.is_none()
            && let Some(copy) = self.next_copy()
        {
            self.copy_from(now, copy);
        }
        self.counters.blocked_at_prefetch = self.blocked_at_prefetch(now);
        self.blocked = (self.send.blocked_at_head() as u64, now);
    }

    fn copy_from(&mut self, now: Time, copy: Copy) {
        let NicSettings { message, entry, .. } = self.settings;
        let size = match copy {
            Copy::Fetch(_) => message,
            Copy::Store(_) => message + entry,
            Copy::Report(..) => entry,
        };
        let span = self.settings.bus.copy(size);
        self.counters.copies += 1;
        self.counters.bus_busy += span;
        self.copy = Some((now + span, copy));
    }

    fn next_copy(&mut self) -> Option<Copy> {
        if let Some((buffer, outcome)) = self.reports.pop_front() {
            return Some(Copy::Report(buffer, outcome));
        }
        for _ in 0..2 {
            self.send_turn = !self.send_turn;
            let copy = if self.send_turn {
                self.send.begin_fetch().map(|request| Copy::Fetch(request.buffer))
            } else {
                self.receive.begin_store().map(|placement| Copy::Store(placement.buffer))
            };
            if copy.is_some() {
                return copy;
            }
        }
        None
    }

    fn end_copy(&mut self, now: Time, copy: Copy) {
        // Each copy was begun in the state that its end needs.
        let is_legal = match copy {
            Copy::Fetch(buffer) => {
                if let Some(fetched) = self.fetched.get_mut(usize::from(buffer.0)) {
                    *fetched = now;
                }
                self.send.end_fetch(buffer).is_ok()
            }
            Copy::Store(buffer) => self.receive.end_store(buffer).is_ok(),
            Copy::Report(buffer, outcome) => self.send.complete(buffer, outcome).is_ok(),
        };
        debug_assert!(is_legal, "{copy:?}");
    }
}

#[cfg(test)]
mod tests {
    use weft_units::Rate;

    use super::*;

    fn ideal() -> NicSettings {
        NicSettings {
            host_send_buffers: 4,
            send_buffers: 2,
            host_receive_buffers: 2,
            receive_buffers: 1,
            message: Bytes(1000),
            entry: Bytes(0),
            prefetch: Prefetch::Fifo,
            release: Release::Acknowledgment,
            bus: BusSettings::default(),
        }
    }

    /// Register write 300 ns, poll 50 ns, copy 200 ns and 1 ns per byte.
    fn costly() -> NicSettings {
        let bus = BusSettings {
            host_write: Span::from_ns(300),
            poll: Span::from_ns(50),
            dma_setup: Span::from_ns(200),
            dma_rate: Some(Rate::from_bits_per_second(8_000_000_000)),
        };
        NicSettings { bus, entry: Bytes(8), ..ideal() }
    }

    fn ns(time: u64) -> Time {
        Time::ZERO + Span::from_ns(time)
    }

    fn requests<M>(nic: &mut Nic<M>, now: u64) -> Vec<u16> {
        nic.requests(ns(now)).collect()
    }

    #[test]
    fn without_costs_every_step_happens_at_once() {
        let (mut sender, mut receiver): (Nic<char>, Nic<char>) =
            (ideal().build(2), ideal().build(2));
        let buffer = sender.submit(ns(5), 1, 'm').unwrap();
        assert_eq!(requests(&mut sender, 5), [1]);
        assert_eq!(sender.transmit(ns(5), 1), Some(buffer));
        receiver.arrive(ns(5), 'm').unwrap();
        sender.complete(ns(5), buffer, Ok(())).unwrap();
        let completion = Completion { buffer, message: 'm', outcome: Ok(()) };
        assert_eq!(sender.poll_completion(ns(5)), (ns(5), Some(completion)));
        let (done, message) = receiver.poll_message(ns(5));
        let (received, _) = message.unwrap();
        assert_eq!(done, ns(5));
        assert_eq!(receiver.give_back(ns(5), received), Ok(Some('m')));
        assert_eq!(receiver.receive_side().count(ReceiveState::Free), 2);
        assert_eq!((sender.next_time(), receiver.next_time()), (Time::NEVER, Time::NEVER));
    }

    /// By hand: the register is written at 300 and, for the second message, at 600 ns. The first
    /// copy is set up until 500 and ends at 1500, the second until 1700 and ends at 2700 ns.
    #[test]
    fn sending_costs_register_writes_and_copies() {
        let mut nic: Nic<char> = costly().build(2);
        let first = nic.submit(ns(0), 0, 'a').unwrap();
        nic.submit(ns(0), 1, 'b').unwrap();
        assert_eq!(nic.next_time(), ns(300));
        assert_eq!(requests(&mut nic, 1499), [0; 0]);
        assert_eq!(requests(&mut nic, 1500), [0]);
        assert_eq!((requests(&mut nic, 2699), requests(&mut nic, 2700)), (vec![0], vec![0, 1]));
        nic.transmit(ns(3000), 0);
        nic.complete(ns(4000), first, Ok(())).unwrap();
        // The entry of 8 bytes is there at 4208 ns; the host knows what it saw 50 ns later.
        assert_eq!(nic.poll_completion(ns(4207)), (ns(4257), None));
        let (done, completion) = nic.poll_completion(ns(4300));
        assert_eq!((done, completion.map(|found| found.message)), (ns(4350), Some('a')));
        let counters = nic.counters();
        assert_eq!((counters.host_writes, counters.polls, counters.copies), (2, 2, 3));
        assert_eq!(counters.host_busy, Span::from_ns(700));
        assert_eq!(counters.bus_busy, Span::from_ns(1200 + 1200 + 208));
    }

    /// By hand: the copy with its entry ends at 1208 ns, so until then the only receive buffer of
    /// the adapter is in use. The buffer given back at 2000 is free at 2300 ns.
    #[test]
    fn receiving_refuses_while_the_adapter_is_full() {
        let mut nic: Nic<char> = costly().build(2);
        nic.arrive(ns(0), 'a').unwrap();
        assert_eq!(nic.arrive(ns(1207), 'b'), Err('b'));
        assert_eq!(nic.arrive(ns(1208), 'b'), Ok(()));
        let (done, message) = nic.poll_message(ns(1300));
        let (buffer, message) = message.unwrap();
        assert_eq!((done, *message), (ns(1350), 'a'));
        nic.give_back(ns(2000), buffer).unwrap();
        nic.advance(ns(2299));
        assert_eq!(nic.receive_side().count(ReceiveState::Returned), 1);
        nic.advance(ns(2300));
        assert_eq!(nic.receive_side().count(ReceiveState::Returned), 0);
        assert_eq!(nic.counters().refused, 1);
    }

    /// One bus: with both directions busy, copies alternate.
    #[test]
    fn receive_and_send_take_turns_on_the_bus() {
        let settings = NicSettings { receive_buffers: 2, entry: Bytes(0), ..costly() };
        let mut nic: Nic<char> = settings.build(1);
        nic.arrive(ns(0), 'x').unwrap();
        nic.arrive(ns(0), 'y').unwrap();
        nic.submit(ns(0), 0, 'a').unwrap();
        let stored = |nic: &Nic<char>| nic.receive_side().count(ReceiveState::Unread);
        nic.advance(ns(1200));
        assert_eq!((stored(&nic), nic.send_side().count(SendState::Ready)), (1, 0));
        nic.advance(ns(2400));
        assert_eq!((stored(&nic), nic.send_side().count(SendState::Ready)), (1, 1));
        nic.advance(ns(3600));
        assert_eq!((stored(&nic), nic.send_side().count(SendState::Ready)), (2, 1));
    }

    #[test]
    fn an_outcome_is_reported_once() {
        let mut nic: Nic<char> = costly().build(1);
        let buffer = nic.submit(ns(0), 0, 'a').unwrap();
        assert!(nic.complete(ns(0), buffer, Ok(())).is_err());
        nic.transmit(ns(2000), 0).unwrap();
        nic.complete(ns(2000), buffer, Ok(())).unwrap();
        let refusal = nic.complete(ns(2000), buffer, Ok(())).unwrap_err();
        assert_eq!(
            refusal.to_string(),
            "buffer 0 cannot be completed: it is completed, expected sent"
        );
        assert!(nic.retry(ns(2000), buffer).is_err(), "its report is on the way");
        assert_eq!(nic.retry(ns(5000), buffer).unwrap_err().state, SendState::Completed);
    }

    #[test]
    fn without_a_free_buffer_the_host_keeps_its_message() {
        let mut nic: Nic<u32> = ideal().build(1);
        let submitted: Vec<_> = (0..5).map(|number| nic.submit(ns(0), 0, number)).collect();
        assert_eq!(submitted.iter().filter(|result| result.is_ok()).count(), 4);
        assert_eq!(submitted[4], Err(4));
        assert_eq!((nic.send_side().occupied(), nic.send_side().ready_for(0)), (2, 2));
    }
}
