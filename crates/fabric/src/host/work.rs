//! A host at work: its stages, their resources, and what leaves at both ends.

use std::sync::Arc;

use weft_protocol::byte_ring::Capacity;
use weft_units::{Bytes, Limit, Span, Time};

use super::program::{Meeting, Program};
use super::shared::{SharedReceiver, Sharing};
use super::station::Station;
use super::window::{Receiver, Receivers, Transmitter};
use super::{Connection, HostSettings, Resource, SharedBuffer};

/// A part of a message on its path through a host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Piece {
    /// The caller's number of the message.
    pub message: u32,
    /// The host at the other end, if there is one.
    pub peer: Option<u16>,
    /// The payload of the whole message.
    pub size: Bytes,
    /// Its position in the message.
    pub bytes: Bytes,
    /// Whether it is the end of the message, which may have no bytes.
    pub last: bool,
    /// When it reached its stage.
    pub(super) since: Time,
    /// The state in which it found the program of the target.
    pub(super) met: Option<Meeting>,
    /// Whether its message counts in the records of stages.
    pub(super) counts: bool,
    /// Whether it is stored again: it ends in the memory of the target.
    pub(super) again: bool,
}

/// What leaves a host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Output {
    /// A part of a message is given to the channel.
    Packet(Piece),
    /// The program of the initiator is done with a message.
    Sent(u32),
    /// A packet of a message is no longer in flight.
    Released(u32),
    /// A message has passed the whole receive path.
    Delivered(u32),
    /// There is room again for the sleeping program of this host.
    Room(u16),
    /// The program requests the lock of a host's buffer.
    Turn(u16),
    /// The other host has released the lock of this host's buffer.
    TurnEnded(u16),
}

/// The work of one stage.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StageRecord {
    /// The stage.
    pub name: String,
    /// Whether it is on the send path.
    pub of_initiator: bool,
    /// Units that were worked on.
    pub performed: u64,
    /// Messages whose end has left it.
    pub messages: u64,
    /// From when the end of a message reached the stage to when it left it, summed over all
    /// messages. The sum over all stages of a path is the time that messages spent on it.
    pub residence: Span,
}

impl StageRecord {
    /// Adds what was done in the same stage of another host.
    pub fn add(&mut self, other: &StageRecord) {
        self.performed += other.performed;
        self.messages += other.messages;
        self.residence += other.residence;
    }
}

/// One host of a channel.
#[derive(Debug)]
pub struct Host {
    names: Vec<String>,
    /// The send path, then the receive path.
    stations: Vec<Station>,
    sends: usize,
    /// The stage at whose end a message counts as sent.
    sent_by: usize,
    /// The stage at whose end a packet is no longer in flight.
    released_by: Option<usize>,
    resources: Vec<Resource>,
    resource_names: Vec<String>,
    program: Program,
    window: Option<Window>,
    posted: Limit,
    on_the_way: usize,
    payload: Bytes,
    /// When recording of the time in stages begins.
    from: Time,
}

/// The flow control of a host: where it acts, its cost, and its peers.
#[derive(Debug)]
struct Window {
    fill: usize,
    release: usize,
    look: Span,
    capacity: Capacity,
    transmitters: Vec<Transmitter>,
    receivers: Receivers,
    /// Hosts whose buffers the program wants to lock.
    wishes: Vec<u16>,
}

/// A unit of a stage that may begin.
#[derive(Clone, Copy, Debug)]
struct Startable {
    /// Since when it has waited.
    since: Time,
    /// The stage, by its place.
    place: usize,
    unit: Piece,
    /// How long it takes; `None` if it passes.
    work: Option<Span>,
}

impl Piece {
    /// A part of a message from or to `peer`.
    pub fn new(message: u32, peer: Option<u16>, size: Bytes, bytes: Bytes, last: bool) -> Piece {
        let (since, met, counts, again) = (Time::ZERO, None, true, false);
        Piece { message, peer, size, bytes, last, since, met, counts, again }
    }

    /// Marks a unit that is stored again: it ends at the stage at which the target counts a packet
    /// as arrived.
    #[must_use]
    pub fn again(self) -> Piece {
        Piece { again: true, ..self }
    }

    /// Marks a part of a message that no program submitted: the time that it spends in stages is
    /// not recorded.
    #[must_use]
    pub fn uncounted(self) -> Piece {
        Piece { counts: false, ..self }
    }
}

impl Host {
    pub(super) fn new(settings: &HostSettings, payload: Bytes) -> Host {
        let resources: Vec<_> = settings.resource.iter().collect();
        let processor = settings.program.processor.as_ref();
        let mut stations = Vec::new();
        for (way, as_is) in [(&settings.send, false), (&settings.receive, true)] {
            let stages = way.iter().filter_map(|name| settings.stage.get(name));
            stations.extend(
                stages.map(|stage| Station::new(stage, &resources, payload, as_is, processor)),
            );
        }
        let sends = settings.send.len();
        let of_program = |station: &Station| station.of_program;
        let posted = settings.posted.as_ref();
        let until = posted.and_then(|posted| posted.until.as_ref());
        let place = |name: &String| settings.receive.iter().position(|other| other == name);
        Host {
            names: settings.send.iter().chain(&settings.receive).cloned().collect(),
            sent_by: stations[..sends].iter().rposition(of_program).unwrap_or(sends.max(1) - 1),
            stations,
            sends,
            released_by: until.and_then(place).map(|place| sends + place),
            resources: vec![Resource::default(); resources.len()],
            resource_names: settings.resource.keys().cloned().collect(),
            window: Window::new(settings),
            program: Program::new(settings.program.clone(), settings.flag),
            posted: posted.map_or(Limit::Unlimited, |posted| Limit::AtMost(posted.packets)),
            on_the_way: 0,
            payload,
            from: Time::ZERO,
        }
    }

    /// Records the time in stages only from an instant on.
    pub fn record_from(&mut self, from: Time) {
        self.from = from;
    }

    /// A connection to another host begins. Without flow control it means nothing.
    pub fn connect(&mut self, peer: u16, connection: &Arc<Connection>) {
        if let Some(window) = &mut self.window {
            let (connection, capacity) = (Arc::clone(connection), window.capacity);
            window.transmitters.push(Transmitter::new(peer, connection, capacity));
        }
    }

    /// A connection from another host begins. Without flow control it means nothing.
    pub fn accept(&mut self, peer: u16, connection: &Arc<Connection>) {
        if let Some(window) = &mut self.window {
            let (connection, capacity) = (Arc::clone(connection), window.capacity);
            if let Receivers::Connected(all) = &mut window.receivers {
                all.push(Receiver::new(peer, connection, capacity));
            }
        }
    }

    /// All others write into this buffer of the host. Without flow control it means nothing.
    pub fn own(&mut self, buffer: &Arc<SharedBuffer>) {
        if let Some(window) = &mut self.window {
            window.receivers = Receivers::Shared(SharedReceiver::new(buffer, window.capacity));
        }
    }

    /// Makes this host, with its number, a transmitter of the shared buffer of another one.
    pub fn share(&mut self, number: u16, peer: u16, buffer: &Arc<SharedBuffer>) {
        if let Some(window) = &mut self.window {
            let sharing = Sharing::new(number, buffer, window.capacity);
            window.transmitters.push(Transmitter::sharing(peer, sharing));
        }
    }

    /// One attempt to lock the buffer of another host. Returns whether it succeeds.
    pub fn try_turn(&mut self, peer: u16) -> bool {
        self.sharing(peer).is_some_and(Sharing::try_turn)
    }

    /// The program knows where to write in the buffer of another host, which it has locked.
    pub fn begin_turn(&mut self, now: Time, peer: u16, out: &mut Vec<Output>) {
        if let Some(own) = self.sharing(peer) {
            own.begin();
        }
        self.start(now, out);
    }

    /// The store that unlocks has reached the other host.
    pub fn turn_ended(&mut self, now: Time, peer: u16, out: &mut Vec<Output>) {
        if let Some(own) = self.sharing(peer) {
            own.let_go();
        }
        self.start(now, out);
    }

    fn sharing(&mut self, peer: u16) -> Option<&mut Sharing> {
        self.window.as_mut()?.transmitter(peer)?.shares()
    }

    /// Whether a connection to a host has yet to begin.
    pub fn lacks_connection(&self, peer: u16) -> bool {
        let known = |window: &Window| window.transmitters.iter().any(|own| own.peer == peer);
        self.window.as_ref().is_some_and(|window| !known(window))
    }

    /// The program that slept for room in the buffer of another host goes on.
    pub fn wake(&mut self, now: Time, peer: u16, out: &mut Vec<Output>) {
        if let Some(transmitter) = self.window.as_mut().and_then(|own| own.transmitter(peer)) {
            transmitter.wake();
        }
        self.start(now, out);
    }

    /// A program submits a message as one piece. Without a send path, the channel reports when it
    /// is sent.
    pub fn send(&mut self, now: Time, piece: Piece, out: &mut Vec<Output>) {
        let piece = Piece { since: now, ..piece };
        if self.sends == 0 {
            return self.leave(piece, out);
        }
        self.enter(now, 0, piece, out);
        self.start(now, out);
    }

    /// A packet has arrived over the channel.
    pub fn receive(&mut self, now: Time, piece: Piece, out: &mut Vec<Output>) {
        if self.released_by.is_none() {
            out.push(Output::Released(piece.message));
        }
        if self.sends == self.stations.len() {
            if piece.last {
                out.push(Output::Delivered(piece.message));
            }
            return;
        }
        self.enter(now, self.sends, piece, out);
        self.start(now, out);
    }

    /// A unit is stored again, from the stage on that writes into the buffer of the target. If the buffer is shared,
    /// the unit goes before what waits there, which may be the next message that waits for the lock which this unit
    /// holds.
    pub fn store_again(&mut self, now: Time, piece: Piece, out: &mut Vec<Output>) {
        let fill = self.window.as_ref().map_or(0, |window| window.fill);
        match self.window.as_ref().map(|window| &window.receivers) {
            Some(Receivers::Shared(_)) => {
                self.stations[fill].put_first(Piece { since: now, ..piece });
            }
            _ => self.enter(now, fill, piece, out),
        }
        self.start(now, out);
    }

    /// A part of a message that was stored again is in the memory of this host.
    pub fn receive_stored(&mut self, now: Time, piece: Piece, out: &mut Vec<Output>) {
        if let Some(place) = self.released_by {
            self.end_turn(&piece, out);
            self.hand_on(now, place, piece, out);
            self.start(now, out);
        }
    }

    /// A packet that this host sent is no longer in flight.
    pub fn release(&mut self, now: Time, out: &mut Vec<Output>) {
        self.on_the_way = self.on_the_way.saturating_sub(1);
        self.start(now, out);
    }

    /// When the next stage finishes.
    pub fn next_time(&self) -> Time {
        self.stations.iter().map(Station::next_end).min().unwrap_or(Time::NEVER)
    }

    /// Lets the stages that are done at [`Host::next_time`] hand on what they have.
    pub fn advance(&mut self, out: &mut Vec<Output>) {
        let now = self.next_time();
        if now == Time::NEVER {
            return;
        }
        for place in (0..self.stations.len()).rev() {
            while self.stations[place].next_end() <= now {
                self.finish(place, out);
            }
        }
        self.start(now, out);
    }

    /// Whether the host holds no part of any message.
    pub fn is_idle(&self) -> bool {
        self.stations.iter().all(Station::is_empty)
    }

    /// The first stage of each path at which something waits or works, for the report of a run that
    /// is stuck.
    pub fn occupied(&self) -> impl Iterator<Item = &str> {
        let occupied = self.stations.iter().map(|station| !station.is_empty());
        occupied.zip(&self.names).filter(|(occupied, _)| *occupied).map(|(_, name)| name.as_str())
    }

    /// The work of each resource, by name.
    pub fn resources(&self) -> impl Iterator<Item = (&str, &Resource)> {
        self.resource_names.iter().map(String::as_str).zip(&self.resources)
    }

    /// The work of each stage, in the order of the send path and then of the receive path.
    pub fn stages(&self) -> impl Iterator<Item = StageRecord> {
        let stages = self.names.iter().zip(&self.stations).enumerate();
        stages.map(|(place, (name, station))| StageRecord {
            name: name.clone(),
            of_initiator: place < self.sends,
            performed: station.performed,
            messages: station.ends,
            residence: station.residence,
        })
    }

    /// How often a message found the program asleep.
    pub fn interrupts(&self) -> u64 {
        self.program.interrupts
    }

    /// How many stimuli of the flag did not interrupt, by its word; none if it counts nothing.
    pub fn stimuli_counted(&self) -> Option<u64> {
        self.program.counted()
    }

    /// A piece reaches a stage.
    fn enter(&mut self, now: Time, place: usize, piece: Piece, out: &mut Vec<Output>) {
        let piece = Piece { since: now, ..piece };
        if self.stations[place].lets_pass(piece.size) && piece.bytes.0 > 0 {
            self.hand_on(now, place, Piece { last: false, ..piece }, out);
        }
        self.stations[place].enqueue(piece);
    }

    /// A piece leaves a stage.
    fn hand_on(&mut self, now: Time, place: usize, piece: Piece, out: &mut Vec<Output>) {
        if place + 1 == self.sends {
            return self.leave(piece, out);
        }
        let ends = piece.again && Some(place) == self.released_by;
        if place + 1 < self.stations.len() && !ends {
            return self.enter(now, place + 1, piece, out);
        }
        if piece.last {
            out.push(Output::Delivered(piece.message));
        }
    }

    /// A piece goes to the channel, in packets.
    fn leave(&mut self, piece: Piece, out: &mut Vec<Output>) {
        let (mut rest, payload) = (piece, self.payload.0.max(1));
        while rest.bytes.0 > payload {
            let packet = Piece { bytes: self.payload, last: false, ..rest };
            rest.bytes = Bytes(rest.bytes.0 - payload);
            self.on_the_way += 1;
            out.push(Output::Packet(packet));
        }
        self.on_the_way += 1;
        out.push(Output::Packet(rest));
    }

    /// The unit at work in a stage is done.
    fn finish(&mut self, place: usize, out: &mut Vec<Output>) {
        let station = &mut self.stations[place];
        let Some((end, unit)) = station.finish() else { return };
        for (number, _) in &station.uses {
            self.resources[*number].held = false;
        }
        if station.of_program {
            self.program.end(end);
        }
        self.complete(end, place, unit, out);
    }

    /// A unit leaves a stage, whether it took work or not.
    fn complete(&mut self, now: Time, place: usize, unit: Piece, out: &mut Vec<Output>) {
        let station = &mut self.stations[place];
        if unit.last && unit.counts && now >= self.from {
            station.ends += 1;
            station.residence += now.since(unit.since);
        }
        let passed = station.lets_pass(unit.size);
        if unit.last && place == self.sent_by && place < self.sends {
            out.push(Output::Sent(unit.message));
        }
        if Some(place) == self.released_by {
            out.push(Output::Released(unit.message));
            self.end_turn(&unit, out);
        }
        self.move_window(place, &unit, out);
        match (passed, unit.last) {
            (false, _) => self.hand_on(now, place, unit, out),
            (true, true) => self.hand_on(now, place, Piece { bytes: Bytes(0), ..unit }, out),
            (true, false) => {}
        }
    }

    /// Begins every unit that can begin: the one that has waited longest first, of equal ones the
    /// one that is further along.
    fn start(&mut self, now: Time, out: &mut Vec<Output>) {
        while let Some(Startable { place, unit, work, .. }) = self.next_start(now) {
            self.stations[place].take_unit(&unit);
            let Some(span) = work else {
                self.complete(now, place, unit, out);
                continue;
            };
            let span = span + self.pay_looks(place, &unit);
            let station = &mut self.stations[place];
            station.performed += 1;
            station.begin(now, span, unit);
            for (number, times) in &station.uses {
                self.resources[*number].hold(span, unit.bytes * u64::from(*times));
            }
            if station.of_program {
                self.program.begin();
            }
        }
        if let Some(window) = &mut self.window {
            out.extend(window.wishes.drain(..).map(Output::Turn));
        }
    }

    fn next_start(&mut self, now: Time) -> Option<Startable> {
        let mut best: Option<Startable> = None;
        for place in (0..self.stations.len()).rev() {
            let Some(since) = self.stations[place].waits_since() else { continue };
            if best.is_some_and(|other| other.since <= since) || !self.has_room_behind(place) {
                continue;
            }
            let Some(mut unit) = self.stations[place].next_unit() else { continue };
            if self.stations[place].looks_at_program() && unit.met.is_none() {
                if !self.stations[place].lets_idle_pass() {
                    continue;
                }
                unit.met = Some(self.meet(now, place));
                self.stations[place].note(unit.met);
            }
            let station = &self.stations[place];
            let work = station.work(&unit);
            let free = match work {
                Some(_) => station.uses.iter().all(|(number, _)| !self.resources[*number].held),
                None => station.lets_idle_pass(),
            };
            if free && self.may_fill(place, &unit) {
                best = Some(Startable { since, place, unit, work });
            }
        }
        best
    }

    /// The state of the program when the end of a message reaches the stage at `place`.
    fn meet(&mut self, now: Time, place: usize) -> Meeting {
        let ahead = self.stations[place + 1..].iter().chain(&self.stations[..self.sends]);
        let pending = ahead.clone().any(|station| !station.is_empty());
        self.program.meet(now, pending)
    }

    /// Whether what leaves a stage finds room: in the next one that does not let bytes pass, or on
    /// the channel.
    fn has_room_behind(&self, place: usize) -> bool {
        let end = if place < self.sends { self.sends } else { self.stations.len() };
        match (place + 1..end).find(|next| !self.stations[*next].is_in_passing()) {
            Some(next) => self.stations[next].has_room(),
            None if place < self.sends => self.posted.admits(self.on_the_way),
            None => true,
        }
    }

    /// Whether flow control lets a stage work on a unit.
    fn may_fill(&mut self, place: usize, unit: &Piece) -> bool {
        let Some(window) = self.window.as_mut().filter(|window| window.fill == place) else {
            return true;
        };
        let Some(peer) = unit.peer else { return true };
        let Some(transmitter) = window.transmitter(peer) else { return true };
        let may = transmitter.may_write(unit.message, unit.bytes);
        if transmitter.shares().is_some_and(Sharing::take_wish) {
            window.wishes.push(peer);
        }
        may
    }

    /// The cost of reading the read pointer for a unit.
    fn pay_looks(&mut self, place: usize, unit: &Piece) -> Span {
        let Some(window) = self.window.as_mut().filter(|window| window.fill == place) else {
            return Span::ZERO;
        };
        let look = window.look;
        let transmitter = unit.peer.and_then(|peer| window.transmitter(peer));
        transmitter.map_or(Span::ZERO, |transmitter| look * transmitter.take_looks())
    }

    /// A unit that leaves a stage was written into the buffer of the target, or makes room in the
    /// own one.
    fn move_window(&mut self, place: usize, unit: &Piece, out: &mut Vec<Output>) {
        let (Some(window), Some(peer)) = (&mut self.window, unit.peer) else { return };
        if place == window.fill
            && let Some(transmitter) = window.transmitter(peer)
        {
            transmitter.publish(unit.bytes, unit.last);
        }
        if place == window.release
            && let Some(woken) = window.receivers.release(peer, unit.bytes)
        {
            out.push(Output::Room(woken));
        }
    }

    /// With the last store of a message its sender unlocks a buffer that others share.
    fn end_turn(&mut self, unit: &Piece, out: &mut Vec<Output>) {
        let receivers = self.window.as_ref().map(|window| &window.receivers);
        if let (Some(Receivers::Shared(own)), Some(peer), true) = (receivers, unit.peer, unit.last)
        {
            own.buffer.unlock();
            out.push(Output::TurnEnded(peer));
        }
    }
}

impl Window {
    fn new(settings: &HostSettings) -> Option<Window> {
        let window = settings.window.as_ref()?;
        let place = |way: &[String], name: &String| way.iter().position(|other| other == name);
        Some(Window {
            fill: place(&settings.send, &window.fill)?,
            release: settings.send.len() + place(&settings.receive, &window.release)?,
            look: window.look,
            capacity: Capacity::new(window.buffer.0).ok()?,
            transmitters: Vec::new(),
            receivers: Receivers::Connected(Vec::new()),
            wishes: Vec::new(),
        })
    }

    fn transmitter(&mut self, peer: u16) -> Option<&mut Transmitter> {
        self.transmitters.iter_mut().find(|own| own.peer == peer)
    }
}
