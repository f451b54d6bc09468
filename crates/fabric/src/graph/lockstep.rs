//! All switches of a graph deciding together, once a slot, where every packet is one cell.
//!
//! If all switches have queues at their inputs and slots of one length, and a cell takes a slot on every cable, then
//! a packet that leaves at an edge can be decided on at the far end a number of slots later that depends on the cable
//! alone. A cable is a delay line: what comes to all inputs at an edge is one row of a table, and no times are
//! compared. Credits are counted at the senders alone. Switches do at an edge what they would do each by itself, with
//! the same queues and schedulers; graphs that differ from this decide switch by switch.

use weft_kernel::prefetch_all;
use weft_units::{Span, Time};

use super::{Departure, Graph, Heard, Kind};
use crate::scheduler::PortSet;
use crate::switch::{CellSwitch, InputQueued, PortPair};

/// The most rows, so that the edges ahead are the bits of a word.
const MOST_ROWS: u64 = 64;

/// The far end of a cable that no switch has.
const ELSEWHERE: u32 = u32::MAX;

/// Whether the switches of a graph decide together.
#[derive(Debug, Default)]
pub(super) enum Pace {
    /// That is decided when the first packet is sent to a switch: before that, a graph may be divided.
    #[default]
    Open,
    /// Each decides by itself.
    Apart,
    /// They decide together.
    Together(Box<Lockstep>),
}

/// What switches ask about a packet.
pub trait Passing {
    /// The output by which a packet leaves a switch, given how many wait for each, and its virtual channel there.
    fn choose(&mut self, switch: u32, packet: u32, waiting: &[u32]) -> (u32, u8);

    /// A packet leaves a switch on a virtual channel, by ports of the graph, between which it takes a step of a
    /// [kind](Graph::step_across). Returns the virtual channel on which it came.
    fn leave(
        &mut self,
        graph: &Graph,
        across: (u32, PortPair, usize),
        packet: u32,
        channel: u8,
    ) -> u8;

    /// The next packet in each packet's queue.
    fn behind(&mut self) -> &mut [u32];

    /// Prefetches what is read of a packet.
    fn prefetch(&self, packet: u32);
}

/// The effects of an edge beyond the switches that decide together.
#[derive(Debug, Default)]
pub struct Passed {
    /// Packets that leave for other places, and how.
    pub departures: Vec<(u32, Departure)>,
    /// Ports that get a credit back, and its virtual channel.
    pub credits: Vec<(Heard, u8)>,
    /// Edges at which switches take part, and at which none did before.
    pub edges: Vec<Time>,
}

/// The switches of a graph that decide together.
#[derive(Debug)]
pub(super) struct Lockstep {
    slot: Span,
    switches: Vec<CellSwitch>,
    /// By switch: from the first byte at an input until a packet can be decided on.
    latencies: Box<[Span]>,
    /// By place.
    cables: Box<[[Cable; 64]]>,
    /// The places of a switch, a power of two that is not below its ports.
    width: u32,
    /// The number of the last row; there is a power of two of them.
    last_row: u64,
    /// By row and place, a packet that can be decided on at an edge whose number is that of the row, modulo the rows.
    packets: Box<[[u32; 64]]>,
    /// By row, a bit for each place to which a packet comes.
    coming: Box<[u64]>,
    /// How many words a row of bits has; a row of packets has as many groups of 64.
    words: usize,
    /// The rows at whose edges switches take part.
    occupied: u64,
    /// A bit for each place, one of which is set for a switch that holds packets.
    busy: Box<[u64]>,
    /// By port and virtual channel, the credits that are on their way back to it.
    returning: Box<[u32]>,
    channels: u32,
    has_credits: bool,
    /// The switches that take part at an edge, and the inputs to which packets come.
    attending: Vec<(u32, u64)>,
}

/// The cable in a port, as the way out and as the way in.
#[derive(Clone, Copy, Debug)]
struct Cable {
    /// The place among those of all inputs at which what leaves arrives; [`ELSEWHERE`] if that is no switch.
    far: u32,
    /// How many slots after its departure a packet can be decided on there: one or more, since a switch whose cables
    /// take no time has a latency.
    slots: u16,
    /// The number of its link on the way out.
    link: u16,
    /// The place of the credits of the port at the far end, of its first virtual channel.
    sender: u32,
    /// How many credits that port has, those that are returning included, if another one counts at once.
    enough: u32,
    /// The first kind of the [steps](Graph::step_across) of packets that come by it.
    steps: u32,
    /// For how long packets that left by it occupied it within the window.
    busy: Span,
}

/// An edge at which switches decide.
#[derive(Clone, Copy, Debug)]
struct Edge {
    now: Time,
    /// The end of its slot.
    free: Time,
    /// How many slots come before it.
    number: u64,
    /// How much of its slot is within the window.
    used: Span,
    /// The first group of packets that can be decided on.
    row: usize,
}

impl Cable {
    /// That of a place at which there is no port.
    const NONE: Cable = Cable {
        far: ELSEWHERE,
        slots: 0,
        link: 0,
        sender: 0,
        enough: 0,
        steps: 0,
        busy: Span::ZERO,
    };
}

impl Graph {
    /// From now on each switch decides by itself. Does not change results, which a test checks. Only before the first
    /// packet is sent.
    pub fn decide_apart(&mut self) {
        self.pace = Pace::Apart;
    }

    /// Whether all switches decide together.
    #[inline]
    pub fn decides_together(&self) -> bool {
        matches!(self.pace, Pace::Together(_))
    }

    /// All switches decide together from now on, if they can.
    #[cold]
    #[inline(never)]
    pub(super) fn set_pace(&mut self) {
        self.pace = match Lockstep::of(self) {
            Some(own) => Pace::Together(Box::new(own)),
            None => Pace::Apart,
        };
    }

    /// An edge at which switches decide together: prefetches if at least `many` take part.
    pub fn edge_of_all(
        &mut self,
        now: Time,
        many: usize,
        passing: &mut impl Passing,
        passed: &mut Passed,
    ) -> bool {
        match std::mem::take(&mut self.pace) {
            Pace::Together(mut own) => {
                let are_many = own.begin(now) >= many;
                own.edge(now, self, are_many, passing, passed);
                self.pace = Pace::Together(own);
                are_many
            }
            other => {
                self.pace = other;
                false
            }
        }
    }
}

impl Lockstep {
    /// The switches of a graph in which nothing has happened yet; nothing if they cannot decide together.
    fn of(graph: &mut Graph) -> Option<Lockstep> {
        let slot = graph.clocked.first()?.slot();
        let is_own =
            |(number, kind): (u32, &Kind)| matches!(kind, Kind::Clocked(index) if *index == number);
        let are_all =
            graph.clocked.len() == graph.kinds.len() && (0..).zip(&graph.kinds).all(is_own);
        let fits = graph.clocked.iter().all(|own| own.works_in_cells() && own.slot() == slot);
        let ports = 0..graph.switch_ports();
        let in_time = |port| {
            let link = graph.link(port);
            graph.peer(port).is_none() || (link.span == slot && link.short == slot)
        };
        // A host sends between two edges, so that its packet may be decided on one edge later than that of a switch.
        let rows = (graph.longest_way(slot) + 2).next_power_of_two();
        if !are_all
            || !fits
            || !ports.clone().all(in_time)
            || rows > MOST_ROWS
            || graph.links.len() > u16::MAX.into()
        {
            return None;
        }
        let most = graph.clocked.iter().map(|own| own.ports()).max()?;
        let width = most.next_power_of_two() as u32;
        let places = graph.clocked.len() * width as usize;
        let words = places.div_ceil(64);
        let mut cables = vec![[Cable::NONE; 64]; words];
        for port in ports {
            let switch = graph.switch_of(port);
            let place = (switch * width + port - graph.first_port(switch)) as usize;
            cables[place / 64][place % 64] = graph.cable(port, slot, width);
        }
        let channels = u32::from(graph.channels());
        let clocked = std::mem::take(&mut graph.clocked);
        Some(Lockstep {
            slot,
            latencies: clocked.iter().map(InputQueued::latency).collect(),
            switches: clocked.into_iter().filter_map(|own| own.into_cells()).collect(),
            cables: cables.into(),
            width,
            last_row: rows - 1,
            packets: vec![[0; 64]; rows as usize * words].into(),
            coming: vec![0; rows as usize * words].into(),
            words,
            occupied: 0,
            busy: vec![0; words].into(),
            returning: vec![0; graph.ports.len() * channels as usize].into(),
            channels,
            has_credits: graph.flow.has_credits(),
            attending: Vec::new(),
        })
    }

    /// A packet is sent to an input of a switch, where its first byte will be at `arrival`. Returns the edge at which
    /// it can be decided on if no switch took part then before.
    #[inline]
    pub fn expect(
        &mut self,
        arrival: Time,
        packet: u32,
        (switch, input): (u32, u32),
    ) -> Option<Time> {
        let ready = arrival + self.latencies[switch as usize];
        let edge = ready.0.div_ceil(self.slot.0);
        let place = (switch * self.width + input) as usize;
        let word = (edge & self.last_row) as usize * self.words + place / 64;
        debug_assert!(self.coming[word] >> (place % 64) & 1 == 0, "two packets in a slot");
        self.coming[word] |= 1 << (place % 64);
        self.packets[word][place % 64] = packet;
        self.attend(edge)
    }

    /// Some switch takes part at the edge of a number. Returns when that is if none did before.
    #[inline]
    fn attend(&mut self, edge: u64) -> Option<Time> {
        let before = self.occupied;
        self.occupied |= 1 << (edge & self.last_row);
        (self.occupied != before).then_some(Time(edge * self.slot.0))
    }

    /// A credit is back at a port.
    pub fn end_return(&mut self, port: u32, channel: u8) {
        let returning = &mut self.returning[(port * self.channels) as usize + usize::from(channel)];
        *returning = returning.saturating_sub(1);
    }

    /// The first credit of an output of a switch has returned. Returns an edge as [`expect`](Self::expect) does.
    pub fn regain_credit(
        &mut self,
        now: Time,
        (switch, output): (u32, u32),
        channel: u8,
    ) -> Option<Time> {
        let own = &mut self.switches[switch as usize];
        own.open(output, channel);
        if own.busy().is_empty() { None } else { self.attend(now.0.div_ceil(self.slot.0)) }
    }

    /// From now on no credit counts before it is back.
    pub fn report_every_credit(&mut self) {
        self.cables.as_flattened_mut().iter_mut().for_each(|cable| cable.enough = u32::MAX);
    }

    /// A switch.
    pub fn switch(&self, switch: u32) -> &CellSwitch {
        &self.switches[switch as usize]
    }

    /// For how long a port of a switch was busy within the window.
    pub fn busy(&self, (switch, port): (u32, u32)) -> Span {
        let place = (switch * self.width + port) as usize;
        self.cables[place / 64][place % 64].busy
    }

    /// How many credits of a port are on their way back to it.
    pub fn returning(&self, port: u32, channel: u8) -> u32 {
        self.returning[(port * self.channels) as usize + usize::from(channel)]
    }

    /// An edge: finds the switches that take part. Returns how many these are.
    fn begin(&mut self, now: Time) -> usize {
        let row = ((now.0 / self.slot.0) & self.last_row) as usize;
        self.occupied &= !(1 << row);
        self.attending.clear();
        let (words, shift) = (self.words, self.width.trailing_zeros());
        let group = u64::MAX >> (64 - self.width);
        let coming = &mut self.coming[row * words..(row + 1) * words];
        for (word, (coming, busy)) in coming.iter_mut().zip(&self.busy).enumerate() {
            let coming = std::mem::take(coming);
            let mut left = coming | *busy;
            while left != 0 {
                let place = left.trailing_zeros() >> shift << shift;
                let switch = (word as u32 * 64 + place) >> shift;
                self.attending.push((switch, coming >> place & group));
                left &= !(group << place);
            }
        }
        self.attending.len()
    }

    /// The switches that were found decide, in the order of their numbers.
    #[inline(always)]
    fn edge(
        &mut self,
        now: Time,
        graph: &Graph,
        are_many: bool,
        passing: &mut impl Passing,
        passed: &mut Passed,
    ) {
        let (number, free) = (now.0 / self.slot.0, now + self.slot);
        let used = graph.window.overlap_of(now, free, self.slot);
        let row = (number & self.last_row) as usize * self.words;
        let (edge, before) = (Edge { now, free, number, used, row }, self.occupied);
        for turn in 0..self.attending.len() {
            if are_many {
                self.prepare(turn, row, graph, passing);
            }
            let (switch, coming) = self.attending[turn];
            self.decide(&edge, (switch, coming), graph, passing, passed);
        }
        for row in PortSet::<1>::from_words(&[self.occupied & !before]) {
            let ahead = (row as u64).wrapping_sub(number) & self.last_row;
            passed.edges.push(Time((number + ahead) * self.slot.0));
        }
    }

    /// A switch decides: packets come to some of its inputs, and those that the scheduler chooses leave.
    #[inline(always)]
    fn decide(
        &mut self,
        edge: &Edge,
        (switch, coming): (u32, u64),
        graph: &Graph,
        passing: &mut impl Passing,
        passed: &mut Passed,
    ) {
        let first = graph.first_port(switch);
        let place = (switch * self.width) as usize;
        let own = &mut self.switches[switch as usize];
        let (those, cables) = (&self.packets[edge.row + place / 64], &mut self.cables[place / 64]);
        for input in PortSet::<1>::from_words(&[coming]) {
            let packet = those[(place + input) % 64];
            let target = passing.choose(switch, packet, own.waiting_by_output());
            own.join(packet, input, target, passing.behind());
        }
        let (outputs, lone) = own.choose();
        for output in outputs {
            let input = lone.unwrap_or_else(|| own.partner(output));
            let Some((packet, channel)) = own.take(input, output, passing.behind()) else {
                continue;
            };
            let Cable { sender, enough, steps, .. } = cables[(place + input) % 64];
            let out = &mut cables[(place + output) % 64];
            let Cable { far, slots, link, .. } = *out;
            out.busy = Span(out.busy.0 + edge.used.0);
            let ports = PortPair { input: first + input as u32, output: first + output as u32 };
            let step = steps.wrapping_add(link.into()) as usize;
            let came_by = passing.leave(graph, (switch, ports, step), packet, channel);
            if self.has_credits {
                let lot = (sender + u32::from(came_by)) as usize;
                if !graph.flow.restore_beyond(lot, enough) {
                    let (sent, returning) = ((ports.input, came_by), &mut self.returning[lot]);
                    give_back(graph, edge.free, sent, (lot, enough, returning), passed);
                }
                if graph.flow.spend(ports.output, channel) {
                    own.lose_credit(output as u32, channel);
                }
            }
            if far == ELSEWHERE {
                passed.departures.push((packet, graph.departure(edge.now, ports.output)));
            } else {
                let row = (edge.number + u64::from(slots)) & self.last_row;
                let (word, place) = (far as usize / 64, far as usize % 64);
                let word = row as usize * self.words + word;
                self.packets[word][place] = packet;
                self.coming[word] |= 1 << place;
                self.occupied |= 1 << row;
            }
        }
        let is_busy = !own.busy().is_empty();
        let (busy, bit) = (&mut self.busy[place / 64], place % 64);
        *busy = *busy & !(1 << bit) | u64::from(is_busy) << bit;
        if own.may_go_on() {
            self.occupied |= 1 << ((edge.number + 1) & self.last_row);
        }
    }

    /// Prefetches what the switches behind one read that take part at an edge, as [`Graph::prepare_edge`] does.
    #[inline]
    fn prepare(&self, turn: usize, row: usize, graph: &Graph, passing: &impl Passing) {
        let next = |ahead: usize| self.attending.get(turn + ahead).copied();
        let row_of = |switch: u32| {
            let place = (switch * self.width) as usize;
            &self.packets[row + place / 64][place % 64..][..self.width as usize]
        };
        if let Some((switch, _)) = next(4) {
            self.switches[switch as usize].prefetch_head();
            prefetch_all(row_of(switch));
        }
        if let Some((switch, _)) = next(3) {
            self.switches[switch as usize].prefetch_tables();
            let ports = graph.numbers_of(switch);
            let place = (switch * self.width) as usize;
            prefetch_all(&self.cables[place / 64][place % 64..][..ports.len()]);
            graph.flow.prefetch_all(ports);
        }
        if let Some((switch, coming)) = next(2) {
            self.switches[switch as usize].prefetch_queues();
            let (place, row) = ((switch * self.width) as usize, row_of(switch));
            for input in PortSet::<1>::from_words(&[coming]) {
                passing.prefetch(row[input]);
                self.switches[switch as usize].prefetch_lanes(input);
                let cable = &self.cables[place / 64][(place + input) % 64];
                graph.flow.prefetch_lot(cable.sender as usize);
            }
        }
        if let Some((switch, _)) = next(1) {
            self.switches[switch as usize]
                .each_packet(Time::ZERO, |packet| passing.prefetch(packet));
        }
    }
}

/// A packet has left an input on a virtual channel, and few credits are left before it. `free` is the end of its slot.
#[cold]
#[inline(never)]
fn give_back(
    graph: &Graph,
    free: Time,
    (input, channel): (u32, u8),
    (lot, enough, returning): (usize, u32, &mut u32),
    passed: &mut Passed,
) {
    if graph.flow.restore_beyond(lot, enough.saturating_sub(*returning)) {
        return;
    }
    *returning += 1;
    let (time, port) = (free + graph.link(input).propagation, graph.ports[input as usize].peer());
    passed.credits.push((Heard { time, port }, channel));
}

impl Graph {
    /// The most slots from the departure of a packet from a switch until it can be decided on at the next one.
    fn longest_way(&self, slot: Span) -> u64 {
        let ports = 0..self.switch_ports();
        let latency = |port| {
            self.clocked.get(self.switch_of(port) as usize).map_or(Span::ZERO, InputQueued::latency)
        };
        let slots = |port| (self.link(port).propagation + latency(port)).0.div_ceil(slot.0.max(1));
        ports.map(slots).max().unwrap_or(0)
    }

    /// The cable in a port, between switches each of which has `width` places.
    fn cable(&self, port: u32, slot: Span, width: u32) -> Cable {
        let switch = self.switch_of(port);
        let own = &self.clocked[switch as usize];
        let peer = self.ports[port as usize].peer();
        let far = self.owners.get(peer as usize).copied();
        let slots = |far: u32| {
            let latency = self.clocked[far as usize].latency();
            (self.link(port).propagation + latency).0.div_ceil(slot.0) as u16
        };
        Cable {
            far: far.map_or(ELSEWHERE, |far| far * width + peer - self.first_port(far)),
            slots: far.map_or(0, slots),
            link: self.ports[port as usize].link() as u16,
            steps: (self.step_across(switch, PortPair { input: port, output: port }) as u32)
                .wrapping_sub(self.ports[port as usize].link()),
            busy: Span::ZERO,
            sender: peer.wrapping_mul(self.channels().into()),
            enough: own.room().saturating_sub(own.spare(port - self.first_port(switch))),
        }
    }

    /// The departure of a packet by a port that is free.
    #[inline]
    fn departure(&self, start: Time, port: u32) -> Departure {
        let own = &self.ports[port as usize];
        Departure {
            start,
            arrival: start + self.links[own.link() as usize].arrival,
            place: own.peer(),
        }
    }

    /// The numbers of the ports of a switch.
    #[inline]
    fn numbers_of(&self, switch: u32) -> std::ops::Range<usize> {
        let next =
            self.switches.get(switch as usize + 1).map_or(self.switch_ports(), |next| next.first);
        self.first_port(switch) as usize..next as usize
    }
}

#[cfg(test)]
mod tests {
    use weft_kernel::Streams;
    use weft_units::Bytes;

    use super::*;
    use crate::fabric::FabricSettings;
    use crate::graph::{ClockedParts, GraphParts, RecordingWindow, SwitchParts, Wakes};
    use crate::link::{FlowControl, LinkSettings};
    use crate::scheduler::SchedulerSettings;
    use crate::switch::OutputQueuedSettings;

    /// A tree of six switches and eight hosts, whose cells take 1 us on a cable; `higher` is what differs above the
    /// switches of the hosts, and some switches have queues at their outputs instead.
    fn tree(higher: &str, cell: u64, plain: u32) -> Graph {
        let text =
            format!("k_ary_tree = {{ arity = 2, levels = 2, links = [{{}}, {{ {higher} }}] }}");
        let fabric: FabricSettings = toml::from_str(&text).expect("a tree");
        let link = "rate = '1 Gbit/s'\nlength = '10 m'\ndelay_per_metre = '5 ns'";
        let link: LinkSettings = toml::from_str(link).expect("a link");
        let wiring = fabric.wiring(4_u32, link.rate).expect("a tree of four hosts");
        let (_, scheduler) = SchedulerSettings::all_defaults().remove(0);
        let flow = toml::from_str("it = 'credits'").map(|own: Flow| own.it).expect("credits");
        let switch = |number: u32| {
            if number < plain {
                let own = toml::from_str::<OutputQueuedSettings>("latency = '100 ns'");
                return SwitchParts::OutputQueued(own.expect("queues at outputs"));
            }
            SwitchParts::InputQueued(Box::new(ClockedParts {
                latency: Span::from_ns(100),
                cell: Bytes(cell),
                buffer: 8,
                arbiter: scheduler.arbiter(wiring.ports_of(number) as usize).expect("few ports"),
                random: Streams::new(1).stream("switch", number as usize),
            }))
        };
        Graph::new(GraphParts {
            wiring: &wiring,
            link: &link,
            packet: Bytes(125),
            switches: (0..wiring.switches()).map(switch).collect(),
            flow: FlowControl::new(&flow, 8).expect("credits"),
            virtual_channels: 1,
            receive: None,
            window: RecordingWindow { from: Time::ZERO, until: Time::NEVER },
            acknowledgment: None,
        })
    }

    #[derive(serde::Deserialize)]
    struct Flow {
        it: weft_protocol::flow::FlowControlSettings,
    }

    /// Packets leave by the output that is their number modulo 4.
    struct ByNumber([u32; 8]);

    impl Passing for ByNumber {
        fn choose(&mut self, _: u32, packet: u32, _: &[u32]) -> (u32, u8) {
            (packet % 4, 0)
        }

        fn leave(&mut self, _: &Graph, _: (u32, PortPair, usize), _: u32, _: u8) -> u8 {
            0
        }

        fn behind(&mut self) -> &mut [u32] {
            &mut self.0
        }

        fn prefetch(&self, _: u32) {}
    }

    #[test]
    fn switches_decide_together_if_all_have_the_same_slots_and_cells() {
        for (higher, cell, plain, expected) in [
            ("", 125, 0, true),
            ("length = '9 km'", 125, 0, true),
            ("length = '30 km'", 125, 0, false),
            ("rate = '2 Gbit/s'", 125, 0, false),
            ("", 50, 0, false),
            ("", 200, 0, false),
            ("", 125, 1, false),
        ] {
            let mut graph = tree(higher, cell, plain);
            graph.set_pace();
            assert_eq!(graph.decides_together(), expected, "{higher} {cell} {plain}");
        }
    }

    /// Two packets of hosts 0 and 1 for output 2, which leads up by a cable of 1.5 us.
    #[test]
    fn a_packet_is_decided_on_at_the_edge_after_its_way() {
        let mut graph = tree("length = '300 m'", 125, 0);
        let (ports, mut passing, mut passed) =
            (graph.switch_ports(), ByNumber([0; 8]), Passed::default());
        let peers = [0, 1].map(|host| graph.peer(ports + host).expect("a cable"));
        assert_eq!(peers, [0, 1]);
        let sent = [2, 6].map(|packet| graph.expect((Time(50_000), packet / 4), packet, 0));
        assert_eq!(sent, [Some(Wakes::Switch(0, Time(1_000_000))), Some(Wakes::Nobody)]);
        let mut edge = |now: u64| {
            passed = Passed::default();
            graph.edge_of_all(Time(now), 1, &mut passing, &mut passed);
            let times = passed.edges.drain(..).map(|edge| edge.0);
            (times.collect::<Vec<_>>(), passed.departures.len())
        };
        // With the latency, each is decided on two edges after it left, where output 2 leads to the other leaf.
        assert_eq!(edge(1_000_000), (vec![2_000_000, 3_000_000], 0));
        assert_eq!(edge(2_000_000), (vec![4_000_000], 0));
    }
}
