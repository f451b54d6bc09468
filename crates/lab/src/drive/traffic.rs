//! The sources of a workload over anything that carries messages.

use weft_fabric::measure::{Latency, Observations, Passage};
use weft_fabric::workload::{Feedback, Source};
use weft_kernel::{Halt, Queue, Stopped};
use weft_units::{Bytes, Time};

use super::carrier::{Carrier, Departure, Destination, Message, Notice, RemoteAccess, Ticket};

/// A channel of messages with its traffic. A greedy source submits its next message as soon as the
/// previous one is sent, as a program does that calls `send` in a loop.
#[derive(Debug)]
pub struct Traffic<C> {
    carrier: C,
    sources: Vec<Source>,
    size: Bytes,
    due: Queue<u16>,
    journeys: Vec<Journey>,
    free: Vec<u32>,
    news: Vec<Notice>,
    observations: Observations,
    /// Whether messages of others are observed, too.
    observes_all: bool,
    /// After this instant sources submit nothing.
    until: Time,
    steps: u64,
}

/// A message in flight.
#[derive(Clone, Copy, Debug)]
struct Journey {
    from: u16,
    size: Bytes,
    generated: Time,
    /// The caller's name for it; none for a message of a source.
    ticket: Option<Ticket>,
    /// Whether it stands for the arrival of a host at a barrier, which is no message and not
    /// observed.
    barrier: bool,
    sent: bool,
    /// Targets that have neither received nor lost it.
    missing: u32,
}

impl<C: Carrier> Traffic<C> {
    /// The traffic at time zero, with messages of `size`. Without sources there is none.
    pub fn new(
        carrier: C,
        sources: Vec<Source>,
        size: Bytes,
        observations: Observations,
    ) -> Traffic<C> {
        let mut due = Queue::new();
        for (host, source) in (0..).zip(&sources) {
            if source.next_time() < Time::NEVER {
                due.push(source.next_time(), host);
            }
        }
        Traffic {
            carrier,
            sources,
            size,
            due,
            journeys: Vec::new(),
            free: Vec::new(),
            news: Vec::new(),
            observations,
            observes_all: true,
            until: Time::NEVER,
            steps: 0,
        }
    }

    /// The traffic of a channel that also carries the messages of others, who observe them; they
    /// are not observed here. It ends at `until`.
    pub fn beside(
        carrier: C,
        sources: Vec<Source>,
        until: Time,
        size: Bytes,
        observations: Observations,
    ) -> Traffic<C> {
        let traffic = Traffic::new(carrier, sources, size, observations);
        Traffic { observes_all: false, until, ..traffic }
    }

    /// Runs up to and including `until`, or until `halt` stops it.
    pub fn run(&mut self, until: Time, halt: &Halt) -> Option<Stopped> {
        loop {
            let now = self.due_time().min(self.carrier.next_time());
            if now > until || now == Time::NEVER {
                return None;
            }
            self.steps += 1;
            let mut news = std::mem::take(&mut self.news);
            self.carrier.advance(now, &mut news);
            for notice in news.drain(..) {
                self.hear(notice);
            }
            self.news = news;
            self.generate_due(now);
            let stopped = halt.check(self.steps);
            if stopped.is_some() {
                return stopped;
            }
        }
    }

    fn due_time(&self) -> Time {
        self.due.next_time().unwrap_or(Time::NEVER)
    }

    fn generate_due(&mut self, now: Time) {
        while let Some((time, host)) = self.due.pop_until(now) {
            self.generate(time, host);
        }
    }

    /// The channel under the traffic; ends the traffic.
    pub fn into_carrier(self) -> C {
        self.carrier
    }

    /// The channel under the traffic.
    pub fn carrier(&self) -> &C {
        &self.carrier
    }

    /// The observations so far.
    pub fn observations(&self) -> &Observations {
        &self.observations
    }

    /// The observations.
    pub fn observations_mut(&mut self) -> &mut Observations {
        &mut self.observations
    }

    /// The channel under the traffic, and what was observed; ends the traffic.
    pub fn into_parts(self) -> (C, Observations) {
        (self.carrier, self.observations)
    }

    /// Messages that have not been sent, once for each target.
    pub fn backlog(&self) -> u64 {
        self.missing(false)
    }

    /// Messages in flight, once for each target.
    pub fn in_flight(&self) -> u64 {
        self.missing(true)
    }

    fn missing(&self, sent: bool) -> u64 {
        let journeys = self.journeys.iter().filter(|journey| journey.sent == sent);
        let observed = journeys.filter(|journey| self.observes(journey));
        observed.map(|journey| u64::from(journey.missing)).sum()
    }

    fn observes(&self, journey: &Journey) -> bool {
        !journey.barrier && (self.observes_all || journey.ticket.is_none())
    }

    /// How many steps the traffic and its channel took.
    pub fn steps(&self) -> u64 {
        self.steps + self.carrier.steps()
    }

    fn generate(&mut self, now: Time, host: u16) {
        let source = &mut self.sources[usize::from(host)];
        if source.next_time() > now || now > self.until {
            return;
        }
        let demand = source.take();
        let next = source.next_time();
        if next < Time::NEVER {
            self.due.push(next.max(now), host);
        }
        let message = Message {
            from: host,
            to: Destination::Host(demand.target as u16),
            size: self.size,
            ticket: Ticket::default(),
        };
        self.post(now, message, None);
    }

    /// A message begins, from a source or under the ticket of another submitter.
    fn post(&mut self, now: Time, message: Message, ticket: Option<Ticket>) {
        let Message { from, to, size, .. } = message;
        let missing = to.hosts().count() as u32;
        let (generated, barrier, sent) = (now, false, false);
        let journey = Journey { from, size, generated, ticket, barrier, sent, missing };
        if self.observes(&journey) {
            let host = usize::from(from);
            (0..missing).for_each(|_| self.observations.generate_from(host, now));
            self.observations.attempt(now);
        }
        let ticket = self.begin(journey);
        self.carrier.offer(now, Message { ticket, ..message });
    }

    /// Records a message in flight. Returns the name that its notices carry.
    fn begin(&mut self, journey: Journey) -> Ticket {
        let number = match self.free.pop() {
            Some(number) => {
                self.journeys[number as usize] = journey;
                number
            }
            None => {
                self.journeys.push(journey);
                (self.journeys.len() - 1) as u32
            }
        };
        Ticket(number.into())
    }

    /// Submits an access that the adapters carry out by themselves, of which both ends get a
    /// notice. It is no message, and neither is a barrier.
    fn access(
        &mut self,
        now: Time,
        access: RemoteAccess,
        hand_over: fn(&mut C, Time, RemoteAccess) -> Result<bool, String>,
    ) -> Result<bool, String> {
        if self.observes_all {
            return Ok(false);
        }
        let RemoteAccess { from, size, ticket, .. } = access;
        let ticket = Some(ticket);
        let (sent, missing, barrier) = (true, 2, false);
        let journey = Journey { from, size, generated: now, ticket, sent, missing, barrier };
        let own = self.begin(journey);
        let done = hand_over(&mut self.carrier, now, RemoteAccess { ticket: own, ..access });
        if done != Ok(true) {
            self.free.push(own.0 as u32);
        }
        done
    }

    /// Records what became of a message. Returns the ticket of its submitter.
    fn hear(&mut self, notice: Notice) -> Option<Ticket> {
        let (number, time) = (notice.ticket().0 as u32, notice.time());
        let journey = &mut self.journeys[number as usize];
        match notice {
            Notice::Sent { .. } => journey.sent = true,
            Notice::Delivered { .. } | Notice::Lost { .. } => journey.missing -= 1,
            Notice::FallsThrough { .. } => (journey.sent, journey.missing) = (true, 0),
        }
        let journey = *journey;
        let Journey { from, size, generated, ticket, sent, missing, .. } = journey;
        if sent && missing == 0 {
            self.free.push(number);
        }
        match notice {
            // Sources get feedback about their own messages only.
            Notice::Sent { .. } if ticket.is_some() => {}
            Notice::Sent { .. } => self.wake(time, from, |source| source.ready(time)),
            Notice::Delivered { to, .. } => {
                if self.observes(&journey) {
                    let seen = &mut self.observations;
                    seen.latency(Latency::OneWay, time, time.since(generated));
                    seen.deliver_from(usize::from(from), time, size);
                    seen.pass(Passage {
                        from: from.into(),
                        to: to.into(),
                        start: generated,
                        end: time,
                    });
                }
                if ticket.is_none() {
                    self.wake(time, to, |source| source.delivered(time, from.into()));
                }
            }
            Notice::Lost { .. } if self.observes(&journey) => self.observations.abandon(time),
            Notice::Lost { .. } => {}
            Notice::FallsThrough { .. } => {
                if self.observes(&journey) {
                    self.observations.abandon(time);
                }
                if ticket.is_none() {
                    self.wake(time, from, |source| source.ready(time));
                }
            }
        }
        ticket
    }

    /// Gives a source its feedback, and asks when it continues.
    fn wake(&mut self, now: Time, host: u16, tell: impl FnOnce(&mut Source)) {
        let Some(source) = self.sources.get_mut(usize::from(host)) else { return };
        if source.feedback() == Feedback::None {
            return;
        }
        let before = source.next_time();
        tell(source);
        if source.next_time() != before && source.next_time() < Time::NEVER {
            self.due.push(source.next_time().max(now), host);
        }
    }
}

/// Wraps a channel: it carries messages of others like the channel itself, and in addition those of
/// its own sources.
impl<C: Carrier> Carrier for Traffic<C> {
    fn offer(&mut self, now: Time, message: Message) {
        self.post(now, message, Some(message.ticket));
    }

    fn next_time(&self) -> Time {
        self.due_time().min(self.carrier.next_time())
    }

    fn advance(&mut self, now: Time, notices: &mut Vec<Notice>) {
        let mut news = std::mem::take(&mut self.news);
        self.carrier.advance(now, &mut news);
        for notice in news.drain(..) {
            if let Some(ticket) = self.hear(notice) {
                notices.push(notice.under(ticket));
            }
        }
        self.news = news;
        self.generate_due(now);
    }

    fn keeps_barrier(&self) -> bool {
        self.carrier.keeps_barrier()
    }

    fn barrier(&mut self, now: Time, host: u16, hosts: u16, ticket: Ticket) -> bool {
        if !self.keeps_barrier() {
            return false;
        }
        let own = self.begin(Journey {
            from: host,
            size: Bytes(0),
            generated: now,
            ticket: Some(ticket),
            barrier: true,
            sent: true,
            missing: 1,
        });
        self.carrier.barrier(now, host, hosts, own)
    }

    fn remote_read(&mut self, now: Time, read: RemoteAccess) -> Result<bool, String> {
        self.access(now, read, C::remote_read)
    }

    fn recoverable_write(&mut self, now: Time, write: RemoteAccess) -> Result<bool, String> {
        self.access(now, write, C::recoverable_write)
    }

    fn take_departures(&mut self, departures: &mut Vec<Departure>) {
        self.carrier.take_departures(departures);
    }

    fn keeps_one_order(&self) -> bool {
        !self.observes_all && self.carrier.keeps_one_order()
    }

    fn steps(&self) -> u64 {
        Traffic::steps(self)
    }

    fn waiting(&self) -> Vec<String> {
        self.carrier.waiting()
    }
}
