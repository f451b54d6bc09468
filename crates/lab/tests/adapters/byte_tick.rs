//! The oracle: Q1 and Q2 moved byte by byte, with nothing in common with the driver but its rules.
//!
//! One tick is the time of one byte. Every byte is on a link or in a switch at every tick; a
//! request into which bytes are inserted passes through a delay line that grows by as many.

use std::collections::{BTreeMap, VecDeque};

/// Sizes in bytes and times in ticks.
#[derive(Clone, Copy, Debug)]
pub struct Setting {
    pub hosts: usize,
    pub request: u64,
    pub acknowledgment: u64,
    pub propagation: u64,
    pub latency: u64,
    pub turn_around: u64,
    pub timeout: u64,
    pub outstanding: usize,
    pub buffers: usize,
    /// The switch inserts acknowledgments into requests.
    pub switch_interleaves: bool,
    /// The adapter inserts acknowledgments into requests.
    pub adapter_interleaves: bool,
}

/// A packet that host `from` hands over at `tick` for host `to`.
#[derive(Clone, Copy, Debug)]
pub struct Offer {
    pub tick: u64,
    pub from: usize,
    pub to: usize,
}

/// What happened when: the count by (tick, what).
pub type Log = BTreeMap<(u64, &'static str), u64>;

/// The log and the sum of the queueing times, in ticks.
pub struct Outcome {
    pub log: Log,
    pub queueing: u64,
    pub round_trips: u64,
}

#[derive(Clone, Copy, PartialEq)]
struct Wire {
    /// Index of the transmission in `Model::flights`.
    flight: usize,
    first: bool,
    last: bool,
}

#[derive(Clone, Copy)]
struct Flight {
    from: usize,
    to: usize,
    acknowledges: Option<usize>,
    packet: usize,
    start: u64,
    lost: bool,
}

#[derive(Clone, Copy, PartialEq)]
enum State {
    Queued,
    Fresh,
    Sent,
    Failed,
    Done,
}

struct Packet {
    offer: Offer,
    state: State,
    deadline: u64,
    arrived: bool,
}

#[derive(Clone, Default)]
struct Adapter {
    acknowledgments: VecDeque<usize>,
    /// The transmission and how many of its bytes are sent.
    request: Option<(usize, u64)>,
    acknowledgment: Option<(usize, u64)>,
}

#[derive(Clone, Default)]
struct Output {
    /// The request that holds the output, and its bytes and gaps that have not left.
    request: Option<usize>,
    line: VecDeque<Option<Wire>>,
    last_is_in: bool,
    acknowledgment: Option<usize>,
    favoured: usize,
}

struct Model {
    setting: Setting,
    packets: Vec<Packet>,
    flights: Vec<Flight>,
    adapters: Vec<Adapter>,
    outputs: Vec<Output>,
    /// What each host put on its link, and each output on its, newest last.
    up: Vec<VecDeque<Option<Wire>>>,
    down: Vec<VecDeque<Option<Wire>>>,
    ready: Vec<(u64, usize)>,
    outcome: Outcome,
}

pub fn run(setting: Setting, offers: &[Offer], ticks: u64) -> Outcome {
    let line = |length: u64| vec![VecDeque::from(vec![None; length as usize]); setting.hosts];
    let packet =
        |offer: &Offer| Packet { offer: *offer, state: State::Queued, deadline: 0, arrived: false };
    let mut model = Model {
        setting,
        packets: offers.iter().map(packet).collect(),
        flights: Vec::new(),
        adapters: vec![Adapter::default(); setting.hosts],
        outputs: vec![Output::default(); setting.hosts],
        up: line(setting.propagation),
        down: line(setting.latency + setting.propagation + 1),
        ready: Vec::new(),
        outcome: Outcome { log: Log::new(), queueing: 0, round_trips: 0 },
    };
    for tick in 0..=ticks {
        for host in 0..setting.hosts {
            model.receive(tick, host);
        }
        model.expire(tick);
        for host in 0..setting.hosts {
            let sent = model.send(tick, host);
            model.up[host].push_back(sent);
        }
        let arrived: Vec<_> =
            model.up.iter_mut().map(|line| line.pop_front().expect("filled")).collect();
        for output in 0..setting.hosts {
            let left = model.switch(tick, output, &arrived);
            model.down[output].push_back(left);
        }
    }
    model.outcome
}

impl Model {
    fn note(&mut self, tick: u64, what: &'static str) {
        *self.outcome.log.entry((tick, what)).or_default() += 1;
    }

    /// The byte that came in during the tick before this one.
    fn receive(&mut self, tick: u64, host: usize) {
        let Some(wire) = self.down[host].pop_front().expect("filled") else { return };
        let flight = self.flights[wire.flight];
        if !wire.last || flight.lost {
            return;
        }
        let packet = &mut self.packets[flight.packet];
        match flight.acknowledges {
            Some(request) => {
                if packet.state == State::Done {
                    return self.note(tick, "late acknowledgment");
                }
                packet.state = State::Done;
                self.outcome.round_trips += tick - self.flights[request].start;
                self.note(tick, "acknowledged");
            }
            None => {
                let again = std::mem::replace(&mut packet.arrived, true);
                if again {
                    self.note(tick, "duplicate");
                } else {
                    self.outcome.queueing += flight.start - packet.offer.tick;
                    self.note(tick, "delivered");
                }
                self.ready.push((tick + self.setting.turn_around, wire.flight));
            }
        }
    }

    fn expire(&mut self, tick: u64) {
        for packet in &mut self.packets {
            if packet.state == State::Sent && packet.deadline == tick {
                packet.state = State::Failed;
            }
        }
        let ready: Vec<usize> =
            self.ready.iter().filter(|(at, _)| *at == tick).map(|(_, flight)| *flight).collect();
        for request in ready {
            let Flight { from, to, packet, .. } = self.flights[request];
            let acknowledges = Some(request);
            let flight =
                Flight { from: to, to: from, acknowledges, packet, start: tick, lost: false };
            self.flights.push(flight);
            self.adapters[to].acknowledgments.push_back(self.flights.len() - 1);
        }
    }

    /// The byte that a host puts on its link in this tick.
    fn send(&mut self, tick: u64, host: usize) -> Option<Wire> {
        let wait = !self.setting.adapter_interleaves;
        let adapter = &mut self.adapters[host];
        let may_insert = adapter.request.is_none() || !wait;
        if adapter.acknowledgment.is_none() && may_insert {
            adapter.acknowledgment = adapter.acknowledgments.pop_front().map(|flight| (flight, 0));
        }
        if let Some((flight, sent)) = adapter.acknowledgment {
            let last = sent + 1 == self.setting.acknowledgment;
            adapter.acknowledgment = (!last).then_some((flight, sent + 1));
            return Some(Wire { flight, first: sent == 0, last });
        }
        if adapter.request.is_none() {
            let flight = self.start_request(tick, host)?;
            self.adapters[host].request = Some((flight, 0));
        }
        let adapter = &mut self.adapters[host];
        let (flight, sent) = adapter.request?;
        let last = sent + 1 == self.setting.request;
        adapter.request = (!last).then_some((flight, sent + 1));
        Some(Wire { flight, first: sent == 0, last })
    }

    fn start_request(&mut self, tick: u64, host: usize) -> Option<usize> {
        let mine = |packet: &&Packet| packet.offer.from == host && packet.offer.tick <= tick;
        let held = |state| state != State::Queued && state != State::Done;
        let mut free = self.setting.buffers
            - self.packets.iter().filter(mine).filter(|p| held(p.state)).count();
        for packet in self.packets.iter_mut().filter(|packet| mine(&&**packet)) {
            if packet.state == State::Queued && free > 0 {
                packet.state = State::Fresh;
                free -= 1;
            }
        }
        let sent = |state| state == State::Sent || state == State::Failed;
        let outstanding = self.packets.iter().filter(mine).filter(|p| sent(p.state)).count();
        let may = |packet: &&Packet| match packet.state {
            State::Failed => true,
            State::Fresh => outstanding < self.setting.outstanding,
            _ => false,
        };
        let packet = self.packets.iter().position(|packet| mine(&packet) && may(&packet))?;
        self.packets[packet].state = State::Sent;
        self.packets[packet].deadline = tick + self.setting.timeout;
        let Offer { from, to, .. } = self.packets[packet].offer;
        let acknowledges = None;
        self.flights.push(Flight { from, to, acknowledges, packet, start: tick, lost: false });
        self.note(tick, "attempt");
        Some(self.flights.len() - 1)
    }

    /// The byte that leaves an output in this tick.
    fn switch(&mut self, tick: u64, output: usize, arrived: &[Option<Wire>]) -> Option<Wire> {
        let mut firsts: Vec<Wire> = arrived.iter().flatten().copied().collect();
        firsts.retain(|wire| wire.first && self.flights[wire.flight].to == output);
        let (hosts, favoured) = (self.setting.hosts, self.outputs[output].favoured);
        firsts.sort_by_key(|wire| {
            let flight = &self.flights[wire.flight];
            (flight.acknowledges.is_none(), (flight.from + hosts - favoured) % hosts)
        });
        if firsts.len() > 1 {
            self.outputs[output].favoured = (self.flights[firsts[0].flight].from + 1) % hosts;
        }
        for wire in firsts {
            self.contend(tick, output, wire.flight);
        }
        let arriving =
            |flight: usize| arrived.iter().flatten().find(|wire| wire.flight == flight).copied();
        let state = &mut self.outputs[output];
        if let Some(request) = state.request.filter(|_| !state.last_is_in) {
            let wire = arriving(request);
            state.last_is_in = wire.is_some_and(|wire| wire.last);
            let from = |flight: usize| self.flights[flight].from;
            let filled = state.acknowledgment.is_some_and(|a| from(a) == from(request));
            if wire.is_some() || !filled {
                state.line.push_back(wire);
            }
        }
        if let Some(acknowledgment) = state.acknowledgment {
            let wire = arriving(acknowledgment);
            if wire.is_some_and(|wire| wire.last) {
                state.acknowledgment = None;
            }
            return wire;
        }
        let wire = state.line.pop_front().flatten();
        if wire.is_some_and(|wire| wire.last) {
            state.request = None;
        }
        wire
    }

    fn contend(&mut self, tick: u64, output: usize, flight: usize) {
        let interleaves = self.setting.switch_interleaves;
        let state = &mut self.outputs[output];
        if self.flights[flight].acknowledges.is_some() {
            if state.acknowledgment.is_some() {
                self.flights[flight].lost = true;
                return self.note(tick, "acknowledgment lost");
            }
            state.acknowledgment = Some(flight);
            let from = |flight: usize| self.flights[flight].from;
            let apart = |request: &usize| state.last_is_in || from(*request) != from(flight);
            if let Some(request) = state.request.filter(apart).filter(|_| !interleaves) {
                state.request = None;
                state.line.clear();
                self.flights[request].lost = true;
                self.note(tick, "lost to acknowledgment");
            }
        } else if state.request.is_some() {
            self.flights[flight].lost = true;
            self.note(tick, "lost to request");
        } else if state.acknowledgment.is_some() && !interleaves {
            self.flights[flight].lost = true;
            self.note(tick, "lost to acknowledgment");
        } else {
            state.request = Some(flight);
            state.line.clear();
            state.last_is_in = false;
        }
    }
}
