//! Hosts in front of a channel: programs submit messages to their hosts, and what leaves a host
//! travels over the channel packet by packet, so that the stages of both hosts and the channel work
//! in parallel.

mod libraries;
mod repair;
mod set_up;
mod slots;
mod turns;
mod ways;

use std::collections::VecDeque;

use weft_fabric::host::{
    FlagSettings, Host, HostError, HostSettings, Output, Piece, Resource, StageRecord,
};
use weft_kernel::Queue;
use weft_protocol::sockets::SetUp;
use weft_units::{Bytes, Span, Time};

use libraries::Libraries;
pub use libraries::SocketCounters;
use repair::{Repairs, Stored};
use set_up::Step;
use slots::Slots;
pub use turns::TurnCounters;
use turns::{Step as TurnStep, Turns};
use ways::Spent;
pub use ways::Ways;

use super::carrier::{Carrier, Destination, Message, Notice, Ticket};

/// A channel with a host in front of each adapter. It is a channel itself: its messages are those
/// of programs.
///
/// A message of which the channel loses a packet goes through the stages of the target like a
/// complete one, and is then reported lost. A barrier that the channel provides goes through the
/// send path of a host like a message without bytes, and the news that it is complete goes through
/// the receive path in the same way.
#[derive(Debug)]
pub struct HostPath<C> {
    carrier: C,
    hosts: Vec<Host>,
    /// How many stages the send path has.
    sends: usize,
    /// From a release until the program that slept for lack of room is working again.
    wake: Span,
    /// The word of the flags on which transmitters sleep.
    flag: FlagSettings,
    /// When each host must be processed.
    due: Queue<Due>,
    armed: Vec<Time>,
    messages: Slots<Held>,
    packets: Slots<Packet>,
    out: Vec<Output>,
    todo: VecDeque<(u16, Output)>,
    news: Vec<Notice>,
    /// What happened when messages were offered.
    told: Vec<Notice>,
    /// Ends of messages on the channel.
    on_channel: Spent,
    /// None if connections exist from the beginning.
    libraries: Option<Libraries>,
    /// None if each pair of hosts has a buffer of its own.
    turns: Option<Turns>,
    /// None if nothing stores again what the channel has given up.
    repairs: Option<Repairs>,
    /// Messages that waited for a connection.
    connecting: Spent,
    from: Time,
    steps: u64,
}

/// What must be done with a host.
#[derive(Clone, Copy, Debug)]
enum Due {
    /// A stage of it is done.
    Stage(u16),
    /// Its program, which slept for lack of room at the other host, continues.
    Wake(u16, u16),
    /// A connection goes on.
    SetUp(Step),
    /// The lock of a shared buffer.
    Turn(TurnStep),
}

/// A message between two programs, or two libraries.
#[derive(Clone, Copy, Debug)]
struct Held {
    from: u16,
    to: Destination,
    size: Bytes,
    ticket: Ticket,
    offered: Time,
    /// The message of a socket library that it is; none for a program's.
    said: Option<SetUp>,
    /// The message of which it stores a unit again.
    repairs: Option<u32>,
    /// How much of it the channel has reported, and whether its program waits for the rest.
    told: u64,
    sent_waits: bool,
    /// Targets that have neither received nor lost it.
    missing: u32,
    /// For a barrier: the number of hosts. It is then not a message.
    barrier: Option<u16>,
    /// Packets that targets have released, each once per target.
    released: u32,
    targets: u32,
    /// Targets below 64 that lost a packet of it, and whether another one did.
    lost: u64,
    lost_beyond: bool,
    sent: bool,
}

/// A packet on the channel.
#[derive(Clone, Copy, Debug)]
struct Packet {
    message: u32,
    bytes: Bytes,
    last: bool,
    offered: Time,
    /// Notices that are still to come.
    expected: u32,
}

impl<C: Carrier> HostPath<C> {
    /// `hosts` hosts in front of a channel whose packets carry `payload`.
    ///
    /// # Errors
    ///
    /// Where the settings do not fit together.
    pub fn new(
        settings: &HostSettings,
        hosts: u16,
        payload: Bytes,
        carrier: C,
    ) -> Result<HostPath<C>, HostError> {
        let build = |_| settings.build(payload);
        let mut built: Vec<Host> = (0..hosts).map(build).collect::<Result<_, _>>()?;
        Ok(HostPath {
            carrier,
            turns: Turns::new(settings, &mut built),
            hosts: built,
            sends: settings.send.len(),
            wake: settings.window.as_ref().map_or(Span::ZERO, |window| window.wake),
            flag: settings.flag,
            due: Queue::new(),
            armed: vec![Time::NEVER; usize::from(hosts)],
            messages: Slots::new(),
            packets: Slots::new(),
            out: Vec::new(),
            todo: VecDeque::new(),
            news: Vec::new(),
            told: Vec::new(),
            on_channel: Spent::default(),
            libraries: settings.sockets.clone().map(|sockets| Libraries::new(sockets, hosts)),
            repairs: settings.checked_unit().map(Repairs::new),
            connecting: Spent::default(),
            from: Time::ZERO,
            steps: 0,
        })
    }

    /// Records the times of messages only from an instant on.
    pub fn record_from(&mut self, from: Time) {
        self.from = from;
        self.hosts.iter_mut().for_each(|host| host.record_from(from));
    }

    /// The channel behind the hosts.
    pub fn carrier(&self) -> &C {
        &self.carrier
    }

    /// The hosts.
    pub fn hosts(&self) -> &[Host] {
        &self.hosts
    }

    /// How often a message found its program asleep.
    pub fn interrupts(&self) -> u64 {
        self.hosts.iter().map(Host::interrupts).sum()
    }

    /// How many stimuli have not interrupted, if the words of the flags count them.
    pub fn stimuli_counted(&self) -> Option<u64> {
        self.hosts.iter().map(Host::stimuli_counted).sum()
    }

    /// What was done to connect hosts, if they are not connected from the beginning.
    pub fn sockets(&self) -> Option<SocketCounters> {
        self.libraries.as_ref().map(|libraries| libraries.counters)
    }

    /// The work of each resource, all hosts together, by name.
    pub fn resources(&self) -> Vec<(String, Resource)> {
        let mut sums: Vec<(String, Resource)> = Vec::new();
        let all = self.hosts.iter().flat_map(|host| host.resources().enumerate());
        for (place, (name, used)) in all {
            match sums.get_mut(place) {
                Some((_, sum)) => sum.add(used),
                None => sums.push((name.to_owned(), *used)),
            }
        }
        sums
    }

    /// The work of each stage, all hosts together, in the order of the path.
    pub fn stages(&self) -> Vec<StageRecord> {
        let mut sums: Vec<StageRecord> = Vec::new();
        for (place, record) in self.hosts.iter().flat_map(|host| host.stages().enumerate()) {
            match sums.get_mut(place) {
                Some(sum) => sum.add(&record),
                None => sums.push(record),
            }
        }
        sums
    }

    /// Where messages spent their time.
    pub fn ways(&self) -> Ways {
        let (on_channel, connecting) = (self.on_channel, self.connecting);
        Ways { stages: self.stages(), sends: self.sends, on_channel, connecting }
    }

    /// The channel behind the hosts; ends them.
    pub fn into_carrier(self) -> C {
        self.carrier
    }

    /// A packet leaves a host.
    fn offer_packet(&mut self, now: Time, piece: Piece) {
        let Held { from, to, targets, barrier, .. } = *self.messages.get(piece.message);
        let Piece { message, bytes, last, .. } = piece;
        // For a barrier the channel reports once that it is complete.
        let expected = if barrier.is_some() { 1 } else { targets + 1 };
        let packet = Packet { message, bytes, last, offered: now, expected };
        let ticket = Ticket(self.packets.insert(packet).into());
        match barrier {
            None => self.carrier.offer(now, Message { from, to, size: bytes, ticket }),
            Some(hosts) => {
                self.carrier.barrier(now, from, hosts, ticket);
                // None of it stays in the host while the other packets are awaited.
                self.make_room(now, from);
            }
        }
    }

    /// The channel reports a packet.
    fn hear(&mut self, notice: Notice, notices: &mut Vec<Notice>) {
        let number = notice.ticket().0 as u32;
        let packet = self.packets.get(number);
        packet.expected -= 1;
        let Packet { message, bytes, last, offered, expected } = *packet;
        if expected == 0 {
            self.packets.remove(number);
        }
        let (time, to, given_up) = match notice {
            Notice::Sent { time, .. } => {
                return self.sent_by_channel(time, message, last, notices);
            }
            Notice::Delivered { time, to, .. } => (time, to, false),
            Notice::Lost { time, to, .. } | Notice::FallsThrough { time, to, .. } => {
                (time, to, true)
            }
        };
        let held = *self.messages.get(message);
        if last && held.is_message() && time >= self.from {
            self.on_channel.add(time.since(offered));
        }
        let from = held.peer().map(|_| held.from);
        let piece = held.piece(Piece::new(message, from, held.size, bytes, last));
        if self.repairs.is_some() && held.is_checked() {
            return self.checked(time, to, piece, given_up, notices);
        }
        if given_up {
            self.messages.get(message).lose(to);
        }
        self.hosts[usize::from(to)].receive(time, piece, &mut self.out);
        self.settle(time, to, notices);
    }

    /// If hosts do nothing for a message before the channel, it counts as sent when the channel says
    /// so.
    fn sent_by_channel(
        &mut self,
        time: Time,
        message: u32,
        is_last: bool,
        notices: &mut Vec<Notice>,
    ) {
        if is_last && self.sends == 0 {
            self.sent(time, message, notices);
        }
    }

    /// The program of the initiator, or its library, is done with a message.
    fn sent(&mut self, time: Time, message: u32, notices: &mut Vec<Notice>) {
        let waits = self.is_awaited(message);
        let held = self.messages.get(message);
        (held.sent, held.sent_waits) = (!waits, waits);
        if waits {
            return;
        }
        let held = *held;
        let Held { ticket, to, said, .. } = held;
        match said {
            Some(said) => self.said(time, to, said),
            None if held.is_message() => notices.push(Notice::Sent { time, ticket }),
            None => {}
        }
        self.forget(message);
    }

    /// A message has passed the whole path to one of its targets.
    fn arrived(&mut self, time: Time, to: u16, message: u32, notices: &mut Vec<Notice>) {
        let held = self.messages.get(message);
        held.missing -= 1;
        let Held { ticket, from, said, repairs, .. } = *held;
        let lost = held.has_lost(to);
        self.forget(message);
        if let Some(repaired) = repairs {
            return self.repaired(time, to, Stored { again: message, of: repaired }, notices);
        }
        match (said, lost) {
            (None, false) => notices.push(Notice::Delivered { time, ticket, to }),
            (None, true) => notices.push(Notice::Lost { time, ticket, to }),
            (Some(said), false) => self.heard(time, from, to, said, notices),
            // Libraries do not continue before their message has arrived completely.
            (Some(said), true) => self.say(time, from, to, said, notices),
        }
    }

    /// A message enters its host.
    fn enter(&mut self, now: Time, number: u32, notices: &mut Vec<Notice>) {
        let held = *self.messages.get(number);
        let peer = held.peer();
        if let Some(to) = peer {
            self.connect(held.from, to);
        }
        let piece = held.piece(Piece::new(number, peer, held.size, held.size, true));
        self.hosts[usize::from(held.from)].send(now, piece, &mut self.out);
        self.settle(now, held.from, notices);
    }

    /// Processes what has left a host, until nothing more follows.
    fn settle(&mut self, now: Time, host: u16, notices: &mut Vec<Notice>) {
        self.put_out(host);
        while let Some((host, output)) = self.todo.pop_front() {
            match output {
                Output::Packet(piece) => self.offer_packet(now, piece),
                Output::Sent(message) => self.sent(now, message, notices),
                Output::Released(message) => self.release(now, message),
                Output::Room(peer) => self.due.push(now + self.wake, Due::Wake(peer, host)),
                Output::Turn(peer) => self.wish_turn(now, host, peer),
                Output::TurnEnded(peer) => self.end_turn(now, peer, host),
                Output::Delivered(message) => self.arrived(now, host, message, notices),
            }
        }
    }

    /// A target has released a packet. With the last of several targets the initiator knows.
    fn release(&mut self, now: Time, message: u32) {
        let held = self.messages.get(message);
        held.released += 1;
        if held.barrier.is_none() && held.released.is_multiple_of(held.targets) {
            let from = held.from;
            self.make_room(now, from);
        }
    }

    /// A packet of a host is no longer in flight.
    fn make_room(&mut self, now: Time, host: u16) {
        self.hosts[usize::from(host)].release(now, &mut self.out);
        self.put_out(host);
    }

    /// Processes what has left a host.
    fn put_out(&mut self, host: u16) {
        self.rearm(host);
        self.todo.extend(self.out.drain(..).map(|output| (host, output)));
    }

    fn forget(&mut self, message: u32) {
        let held = self.messages.get(message);
        if held.sent && held.missing == 0 {
            self.messages.remove(message);
        }
    }

    /// Schedules the processing of a host for when its next stage finishes.
    fn rearm(&mut self, host: u16) {
        let place = usize::from(host);
        let next = self.hosts[place].next_time();
        if next < self.armed[place] {
            self.armed[place] = next;
            self.due.push(next, Due::Stage(host));
        }
    }

    /// The hosts that are due at an instant go on.
    fn advance_host(&mut self, notices: &mut Vec<Notice>) {
        let Some((time, due)) = self.due.pop() else { return };
        let host = match due {
            Due::Stage(host) => host,
            Due::Wake(host, peer) => {
                self.hosts[usize::from(host)].wake(time, peer, &mut self.out);
                return self.settle(time, host, notices);
            }
            Due::SetUp(step) => {
                self.steps += 1;
                return self.set_up(time, step, notices);
            }
            Due::Turn(step) => {
                self.steps += 1;
                return self.turn(time, step, notices);
            }
        };
        let place = usize::from(host);
        if self.armed[place] == time {
            self.armed[place] = Time::NEVER;
        }
        if self.hosts[place].next_time() <= time {
            self.steps += 1;
            self.hosts[place].advance(&mut self.out);
        }
        self.settle(time, host, notices);
    }
}

impl<C: Carrier> Carrier for HostPath<C> {
    fn offer(&mut self, now: Time, message: Message) {
        let held = Held::new(now, message);
        let number = self.messages.insert(held);
        let mut told = std::mem::take(&mut self.told);
        match held.peer() {
            Some(to) => self.judge(now, number, to, &mut told),
            None => self.enter(now, number, &mut told),
        }
        self.told = told;
    }

    fn keeps_barrier(&self) -> bool {
        self.carrier.keeps_barrier()
    }

    fn barrier(&mut self, now: Time, host: u16, hosts: u16, ticket: Ticket) -> bool {
        if !self.keeps_barrier() {
            return false;
        }
        let own = Message { from: host, to: Destination::Host(host), size: Bytes(0), ticket };
        // Without a send path there is no end of it to report.
        let sent = self.sends == 0;
        let held = Held { barrier: Some(hosts), sent, ..Held::new(now, own) };
        let number = self.messages.insert(held);
        let mut told = std::mem::take(&mut self.told);
        self.enter(now, number, &mut told);
        self.told = told;
        true
    }

    fn next_time(&self) -> Time {
        let told = self.told.first().map_or(Time::NEVER, |notice| notice.time());
        let due = self.due.next_time().unwrap_or(Time::NEVER);
        told.min(due).min(self.carrier.next_time())
    }

    fn advance(&mut self, now: Time, notices: &mut Vec<Notice>) {
        notices.append(&mut self.told);
        loop {
            let due = self.due.next_time().unwrap_or(Time::NEVER);
            let channel = self.carrier.next_time();
            if due.min(channel) > now {
                return;
            }
            if due < channel {
                self.advance_host(notices);
                continue;
            }
            let mut news = std::mem::take(&mut self.news);
            self.carrier.advance(channel, &mut news);
            for notice in news.drain(..) {
                self.hear(notice, notices);
            }
            self.news = news;
        }
    }

    fn steps(&self) -> u64 {
        self.steps + self.carrier.steps()
    }

    fn waiting(&self) -> Vec<String> {
        let mut waiting = self.carrier.waiting();
        waiting.extend(self.libraries.iter().flat_map(Libraries::waiting));
        for (host, at) in self.hosts.iter().enumerate().filter(|(_, host)| !host.is_idle()) {
            let stages: Vec<&str> = at.occupied().collect();
            waiting.push(format!("in host {host} something waits at {}", stages.join(", ")));
        }
        waiting
    }
}

impl Held {
    fn new(now: Time, message: Message) -> Held {
        let Message { from, to, size, ticket } = message;
        let targets = to.hosts().count() as u32;
        Held {
            from,
            to,
            size,
            ticket,
            offered: now,
            said: None,
            repairs: None,
            told: 0,
            sent_waits: false,
            missing: targets,
            barrier: None,
            released: 0,
            targets,
            lost: 0,
            lost_beyond: false,
            sent: false,
        }
    }

    /// Whether it is a message of a program: not one of a socket library, no barrier, and no retransmission of
    /// a unit.
    fn is_message(&self) -> bool {
        self.said.is_none() && self.barrier.is_none() && self.repairs.is_none()
    }

    /// The target, if this is a message of a program to one host: only such messages use connections.
    fn peer(&self) -> Option<u16> {
        match self.to {
            Destination::Host(to) if self.is_message() => Some(to),
            _ => None,
        }
    }

    /// A part of the message, as its host records it.
    fn piece(&self, piece: Piece) -> Piece {
        match (self.said, self.repairs) {
            (None, None) => piece,
            (Some(_), _) => piece.uncounted(),
            (None, Some(_)) => piece.uncounted().again(),
        }
    }

    fn lose(&mut self, to: u16) {
        match 1u64.checked_shl(to.into()) {
            Some(bit) => self.lost |= bit,
            None => self.lost_beyond = true,
        }
    }

    /// Beyond 64 hosts a message has one target.
    fn has_lost(&self, to: u16) -> bool {
        1u64.checked_shl(to.into()).map_or(self.lost_beyond, |bit| self.lost & bit != 0)
    }
}
