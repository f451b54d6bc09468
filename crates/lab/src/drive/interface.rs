//! A host with its network interface in front of a channel: doorbells, buffer pools, completion
//! rings, the bus between them, and the handlers that messages call (Clint 3.1).

mod bodies;
mod head_of_line;

use std::collections::VecDeque;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use weft_fabric::interface::{BusSettings, Nic, NicCounters, NicSettings};
use weft_fabric::message::{
    ActiveMessageCounters, ActiveMessageSettings, ActiveMessages, Called, Content,
};
use weft_protocol::adapter::{Prefetch, ReceiveState, Release, SendState, TransmissionError};
use weft_protocol::endpoint::{NetworkNumber, VirtualNetworks};
use weft_protocol::packet::{EndpointName, Message};
use weft_protocol::ring::BufferId;
use weft_units::{Bytes, Span, Time};

pub use bodies::{
    Bodies, Body, CallOutcome, EndpointReport, HandlerCall, HandlerReport, Text, UNNAMED,
};
use head_of_line::HeadOfLine;

/// Settings of the interface between a host and one channel (Clint 3.1, Figure 2).
/// `adapter.send_buffers` gives the number of send buffers on the adapter. Bus and host serve one
/// use at a time; each channel has its own bus and host.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct InterfaceSettings {
    /// Send buffers in host memory, and entries of `SendCmplQueue`.
    pub host_send_buffers: u16,
    /// Receive buffers in host memory, and entries of `RecvQueue`.
    pub host_receive_buffers: u16,
    /// Receive buffers on the adapter. Without a free one a request is refused (Clint 3.3).
    pub receive_buffers: u16,
    /// Size of a message without the bytes that the link adds: what is copied over the bus.
    pub message: Bytes,
    /// Size of an entry of a completion ring.
    #[serde(default)]
    pub entry: Bytes,
    /// Which message the adapter fetches next.
    #[serde(default)]
    pub prefetch: Prefetch,
    /// The costs of crossing the bus.
    #[serde(default)]
    pub bus: BusSettings,
    /// The handlers of endpoints, and the cost of a call for the host.
    #[serde(default)]
    pub handlers: ActiveMessageSettings,
    /// The hosts of each virtual network (Clint 3.1). A host has an endpoint in each of its
    /// networks. A message uses the network that its list names, or the first one that both hosts
    /// are in; it is refused if there is none. By default there is one network of all hosts.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub virtual_networks: Vec<Vec<u16>>,
}

/// A message between two hosts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Letter {
    /// The host that sends it.
    pub from: u16,
    /// The target.
    pub to: u16,
    /// When a program submitted it.
    pub generated: Time,
    /// Its sequence number within the pair, once its adapter has assigned it.
    pub sequence: u64,
}

/// The oldest message for a target, as its adapter sends it.
#[derive(Clone, Copy, Debug)]
pub struct Transmitted {
    /// Where it is on the adapter.
    pub buffer: BufferId,
    /// The message.
    pub letter: Letter,
    /// When it was whole on the adapter.
    pub fetched: Time,
}

/// What the interfaces of a channel did.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct InterfaceCounters {
    /// Of all adapters together.
    pub nic: NicCounters,
    /// Of all hosts together.
    pub messages: ActiveMessageCounters,
    /// From generation to the end of the handler, summed over all messages handled.
    pub handled_time: Span,
    /// How long messages waited for a send buffer in host memory while none held a message for
    /// their target, summed over them.
    pub blocked_at_host: Span,
    /// How long messages waited for a send buffer of the adapter, which the prefetch fills, while
    /// none held a message for their target, summed over them.
    pub blocked_at_prefetch: Span,
}

/// One host with its interface.
#[derive(Debug)]
pub struct Interface {
    nic: Nic<Letter>,
    /// Messages that wait for a send buffer in host memory.
    waiting: VecDeque<Letter>,
    /// Messages that wait for buffers which hold other messages.
    blocked: HeadOfLine,
    messages: ActiveMessages,
    networks: VirtualNetworks,
    /// By other host, the endpoints on both sides of their connection, if they may communicate.
    endpoints: Vec<Option<u16>>,
    /// When the handler of each message ends, and its buffer; in order of time.
    handled: VecDeque<(Time, BufferId)>,
    handled_time: Span,
    /// The responses of handlers since the last call, and their hosts.
    answers: Vec<(u16, Text)>,
    /// How many words of payload fit.
    room: usize,
    /// For when an event is scheduled.
    armed: Time,
}

impl InterfaceSettings {
    /// How many words of payload fit into a message, beside the 32 bytes of Figure 1.
    pub fn payload_words(&self) -> usize {
        let payload = self.message.0.saturating_sub(Message::SIZE as u64);
        (payload / ActiveMessageSettings::WORD.0) as usize
    }

    /// The interface of `host` among `hosts`, with this many send buffers on the adapter.
    pub fn build(&self, host: u16, hosts: u16, send_buffers: u16) -> Interface {
        let nic = NicSettings {
            host_send_buffers: self.host_send_buffers,
            send_buffers,
            host_receive_buffers: self.host_receive_buffers,
            receive_buffers: self.receive_buffers,
            message: self.message,
            entry: self.entry,
            prefetch: self.prefetch,
            // A message that may be retransmitted keeps its buffer.
            release: Release::Acknowledgment,
            bus: self.bus.clone(),
        };
        let mut networks = VirtualNetworks::new();
        let mut messages = self.handlers.build(host);
        let mut endpoints = vec![None; usize::from(hosts)];
        let everybody = [(0..hosts).collect()];
        let all = match self.virtual_networks.as_slice() {
            [] => everybody.as_slice(),
            named => named,
        };
        // An endpoint has the number of its network.
        for (number, members) in (0_u16..).zip(all) {
            for node in members {
                let name = EndpointName { node: *node, endpoint: number };
                networks.join(name, NetworkNumber(number.into()));
            }
            if members.contains(&host) {
                messages.open(number);
                for other in members {
                    if let Some(first) = endpoints.get_mut(usize::from(*other)) {
                        first.get_or_insert(number);
                    }
                }
            }
        }
        Interface {
            nic: nic.build(hosts),
            waiting: VecDeque::new(),
            blocked: HeadOfLine::new(hosts),
            messages,
            networks,
            endpoints,
            handled: VecDeque::new(),
            handled_time: Span::ZERO,
            answers: Vec::new(),
            room: self.payload_words(),
            armed: Time::NEVER,
        }
    }
}

impl Interface {
    /// Whether a message may pass: both hosts have an endpoint in one virtual network.
    pub fn admits(&self, from: u16, to: u16) -> bool {
        let Some(message) = self.message(from, to, to) else { return false };
        self.messages.compose(&self.networks, message).is_ok()
    }

    /// The full content of a message from this host, `from`, if it is allowed.
    pub fn compose(&self, from: u16, to: u16, text: Text) -> Option<Body> {
        let Text { network, content: Content { handler, arguments, payload } } = text;
        let endpoint = match network {
            Some(endpoint) => endpoint,
            None => self.endpoints.get(usize::from(to)).copied().flatten()?,
        };
        let name = |node| EndpointName { node, endpoint };
        let message = Message { initiator: name(from), target: name(to), handler, arguments };
        let message = self.messages.compose(&self.networks, message).ok()?;
        Some(Body { message, payload })
    }

    /// A program submits a message that [may pass](Interface::admits).
    pub fn submit(&mut self, now: Time, letter: Letter) {
        self.blocked.wait(now, letter.to);
        self.waiting.push_back(letter);
        self.feed(now);
    }

    /// The targets for which the adapter holds a message, one bit each, below 64 as in a schedule.
    pub fn requests(&mut self, now: Time) -> u64 {
        self.nic.requests(now).fold(0, |set, target| set | 1 << target)
    }

    /// The lowest target for which the adapter holds a message.
    pub fn lowest_request(&mut self, now: Time) -> Option<u16> {
        self.nic.requests(now).min()
    }

    /// The oldest message for a target is sent.
    pub fn transmit(&mut self, now: Time, target: u16) -> Option<Transmitted> {
        let buffer = self.nic.transmit(now, target)?;
        let letter = *self.nic.send_side().message(buffer)?;
        Some(Transmitted { buffer, letter, fetched: self.nic.fetched(buffer)? })
    }

    /// The outcome of a transmission is known, and the host is told of it.
    pub fn complete(
        &mut self,
        now: Time,
        buffer: BufferId,
        outcome: Result<(), TransmissionError>,
    ) {
        // The caller knows its buffers: each has been sent and not been reported.
        let legal = self.nic.complete(now, buffer, outcome);
        debug_assert!(legal.is_ok(), "{legal:?}");
    }

    /// The adapter must retransmit a message.
    pub fn retry(&mut self, now: Time, buffer: BufferId) {
        let legal = self.nic.retry(now, buffer);
        debug_assert!(legal.is_ok(), "{legal:?}");
    }

    /// A message is whole at the adapter. Returns whether a receive buffer took it.
    pub fn arrive(&mut self, now: Time, letter: Letter) -> bool {
        self.nic.arrive(now, letter).is_ok()
    }

    /// Lets host and adapter do what is due: the host reads what the adapter has written into its
    /// memory, handlers run, buffers are returned, and the next messages are submitted. Calls
    /// `handled` for every message whose handler has ended. `bodies` has the contents of messages, if
    /// they have any; the caller must then [take](Self::take_answers) the responses of handlers.
    /// Returns when to call it again, unless the caller knows already.
    pub fn serve(
        &mut self,
        now: Time,
        mut bodies: Option<&mut Bodies>,
        mut handled: impl FnMut(Letter),
    ) -> Option<Time> {
        if self.armed <= now {
            self.armed = Time::NEVER;
        }
        self.nic.advance(now);
        while self.nic.send_side().count(SendState::Completed) > 0 {
            if let (_, Some(completion)) = self.nic.poll_completion(now) {
                self.blocked.release(now, completion.message.to);
            }
        }
        self.read_messages(now, bodies.as_deref());
        while self.handled.front().is_some_and(|(done, _)| *done <= now) {
            let Some((_, buffer)) = self.handled.pop_front() else { break };
            // The host has polled the buffer and gives it back once.
            let legal = self.nic.give_back(now, buffer);
            debug_assert!(legal.is_ok(), "{legal:?}");
            if let Ok(Some(letter)) = legal {
                if let Some(bodies) = &mut bodies {
                    self.call_handler(now, &letter, bodies);
                }
                handled(letter);
            }
        }
        self.feed(now);
        let done = self.handled.front().map_or(Time::NEVER, |(done, _)| *done);
        let next = self.nic.next_time().min(done);
        if next >= self.armed {
            return None;
        }
        self.armed = next;
        Some(next)
    }

    /// Messages that a program has submitted and whose transmission has never begun, together with
    /// those that must be retransmitted.
    pub fn unsent(&self) -> usize {
        let side = self.nic.send_side();
        let states = [
            SendState::Taken,
            SendState::Written,
            SendState::Posted,
            SendState::Fetching,
            SendState::Ready,
        ];
        self.waiting.len() + states.into_iter().map(|state| side.count(state)).sum::<usize>()
    }

    /// Whether the host has a free send buffer for the next message.
    pub fn has_space(&self) -> bool {
        self.waiting.is_empty() && self.nic.send_side().count(SendState::Free) > 0
    }

    /// Adds the counts of this interface until `now`.
    pub fn count(&self, now: Time, sum: &mut InterfaceCounters) {
        let (nic, own) = (self.nic.counters(), self.messages.counters());
        sum.nic.host_writes += nic.host_writes;
        sum.nic.polls += nic.polls;
        sum.nic.copies += nic.copies;
        sum.nic.host_busy += nic.host_busy;
        sum.nic.bus_busy += nic.bus_busy;
        sum.nic.refused += nic.refused;
        sum.messages.handled += own.handled;
        sum.messages.protected += own.protected;
        sum.messages.unclaimed += own.unclaimed;
        sum.handled_time += self.handled_time;
        sum.blocked_at_host += self.blocked.until(now);
        sum.blocked_at_prefetch += self.nic.blocked_at_prefetch(now);
    }

    /// The responses of the handlers that have ended since the last call, and their hosts.
    pub fn take_answers(&mut self) -> Vec<(u16, Text)> {
        std::mem::take(&mut self.answers)
    }

    /// What the handlers of the endpoints of this host, `host`, did.
    pub fn report_endpoints(&self, host: u16) -> impl Iterator<Item = EndpointReport> {
        self.messages.states().iter().map(move |(network, state)| EndpointReport {
            host,
            network: *network,
            calls: state.calls.clone(),
            failed: state.failed,
            memory: state.memory.clone(),
        })
    }

    /// A handler takes effect when it ends.
    fn call_handler(&mut self, now: Time, letter: &Letter, bodies: &mut Bodies) {
        let Some(Body { message, payload }) = bodies.take(letter) else { return };
        let Ok(outcome) = self.messages.call(&self.networks, &message, &payload, self.room) else {
            return;
        };
        bodies.note(HandlerCall {
            host: letter.to,
            network: message.target.endpoint,
            handler: message.handler.0,
            from: letter.from,
            posted: letter.generated,
            start: Time(now.0.saturating_sub(self.messages.occupation().0)),
            end: now,
            arguments: message.arguments,
            payload_words: payload.len() as u32,
            outcome: match &outcome {
                Called::Done => CallOutcome::Done,
                Called::Answers(_) => CallOutcome::Answered,
                Called::Failed => CallOutcome::Failed,
            },
        });
        if let Called::Answers(content) = outcome {
            // Both ends of a message are in one network, whose number their endpoints have.
            let network = Some(message.target.endpoint);
            self.answers.push((letter.from, Text { network, content }));
        }
    }

    fn read_messages(&mut self, now: Time, bodies: Option<&Bodies>) {
        while self.nic.receive_side().count(ReceiveState::Unread) > 0 {
            let (known, Some((buffer, letter))) = self.nic.poll_message(now) else { return };
            let Letter { from, to, generated, .. } = *letter;
            let message = match bodies {
                Some(bodies) => bodies.of(letter).map(|body| body.message),
                None => self.message(from, to, from),
            };
            let message = message.unwrap_or_default();
            let done = match self.messages.deliver(known, &self.networks, &message) {
                Ok(done) => {
                    self.handled_time += done.since(generated);
                    done
                }
                Err(_) => known,
            };
            let place = self.handled.partition_point(|(other, _)| *other <= done);
            self.handled.insert(place, (done, buffer));
        }
    }

    /// A message between two hosts: `other` is the one that is not here.
    fn message(&self, from: u16, to: u16, other: u16) -> Option<Message> {
        let endpoint = self.endpoints.get(usize::from(other)).copied().flatten()?;
        let name = |node| EndpointName { node, endpoint };
        let (initiator, target) = (name(from), name(to));
        Some(Message { initiator, target, ..Message::default() })
    }

    /// Submits messages while there are free buffers.
    fn feed(&mut self, now: Time) {
        while let Some(letter) = self.waiting.front() {
            let target = letter.to;
            if self.nic.submit(now, target, *letter).is_err() {
                return;
            }
            self.blocked.hold(now, target);
            self.waiting.pop_front();
        }
    }
}

impl InterfaceCounters {
    /// The columns of a run until `until` with this many hosts. Shares are the mean shares of
    /// hosts, or of buses, that were occupied; messages blocked are the mean number at a host.
    pub fn columns(&self, hosts: u16, until: Time) -> Vec<(&'static str, f64)> {
        let all = until.0 as f64 * f64::from(hosts);
        let handled = self.messages.handled;
        let mean = self.handled_time.as_us() / handled.max(1) as f64;
        vec![
            ("handled_messages", handled as f64),
            ("handled_mean_us", mean),
            ("unclaimed_messages", (self.messages.protected + self.messages.unclaimed) as f64),
            ("host_writes", self.nic.host_writes as f64),
            ("polls", self.nic.polls as f64),
            ("copies", self.nic.copies as f64),
            ("host_share", self.nic.host_busy.0 as f64 / all),
            ("bus_share", self.nic.bus_busy.0 as f64 / all),
            ("blocked_at_host", self.blocked_at_host.0 as f64 / all),
            ("blocked_at_prefetch", self.blocked_at_prefetch.0 as f64 / all),
        ]
    }
}
