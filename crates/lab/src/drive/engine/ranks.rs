//! Parts of the graph in processes of their own, one each: the *ranks* of a run, on one machine or several.
//!
//! They run the same windows as parts that [run beside each other](super::beside) on threads, and
//! exchange the same at the end of each, as bytes. Rank 0 is sent what happened in each window, and
//! at the end what each rank added up, so that its results are those of one process. A rank holds
//! the ports, sources, packets, events and queues of its own part only; rank 0 also holds all other
//! ports, since it reports on them.

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use weft_fabric::graph::{Apart, Graph, PortState, PortUse};
use weft_fabric::measure::{Observations, Passage, Told};
use weft_fabric::workload::Source;
use weft_kernel::{Halt, Stopped};
use weft_units::{Limit, Span, Time};

use super::beside::Alone;
use super::border::{Border, delivery};
use super::division::{Division, divide};
use super::packed::{Packed, Sending};
use super::places::Places;
use super::supply::Supply;
use super::wire::Wire;
use super::{Delivery, Engine};
use crate::exchange::Exchange;
use crate::failure::message;

/// The part of this rank, and at rank 0 what came of all.
#[derive(Debug)]
pub(super) struct Ranks {
    exchange: Arc<dyn Exchange>,
    part: Engine,
    apart: Span,
    /// By switch of the whole, the rank that has it.
    rank_of: Vec<u32>,
    left: Left,
}

/// What ranks hold at the end.
#[derive(Debug, Default)]
struct Left {
    packets: u64,
    waiting_in_hosts: u64,
    /// By port, where anything waits.
    states: BTreeMap<u32, PortState>,
}

/// What a rank says at the end of a run, besides what it told before. Ports have the numbers of the whole.
#[derive(Debug, Serialize, Deserialize)]
struct Closing {
    steps: u64,
    observations: Observations,
    /// Initiator, target, and from when to when, in picoseconds.
    passages: Vec<(u32, u32, u64, u64)>,
    /// By port of the part, until when and for how long it is in use, in picoseconds.
    uses: Vec<(u64, u64)>,
    packets: u64,
    waiting_in_hosts: u64,
    states: Vec<(u32, PortState)>,
    /// When, where, and how many cells the buffer has.
    overrun: Option<(u64, u32, u32)>,
}

/// Between two windows: what each rank gives the others, and by rank what happened in its part.
struct Meeting {
    given: Vec<Vec<u8>>,
    told: Vec<Told>,
}

/// What each rank tells every other one between two windows before all else.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Head {
    /// When something happens next in its part or because of it.
    next: Time,
    /// Whether the run is to end.
    ends: bool,
    /// How many bytes what crosses has; behind it is what rank 0 is told.
    crossing: u64,
}

/// A message of a rank that is none.
const UNREADABLE: &str = "another rank sent what cannot be read";

impl Head {
    const LENGTH: usize = 17;

    /// Where room was left for it.
    fn put(self, bytes: &mut [u8]) {
        let Head { next, ends, crossing } = self;
        let words = next.0.to_le_bytes().into_iter().chain(crossing.to_le_bytes());
        let words = words.chain([u8::from(ends)]);
        bytes.iter_mut().zip(words).for_each(|(place, own)| *place = own);
    }

    fn take(from: &mut &[u8]) -> Option<Head> {
        let (head, rest) = from.split_first_chunk::<{ Head::LENGTH }>()?;
        let (next, crossing) = (head.first_chunk()?, head[8..].first_chunk()?);
        *from = rest;
        let (next, crossing) = (u64::from_le_bytes(*next), u64::from_le_bytes(*crossing));
        Some(Head { next: Time(next), crossing, ends: head[16] != 0 })
    }
}

impl Ranks {
    /// Packets that have been handed over and not delivered, once the run is over.
    pub fn packets(&self) -> u64 {
        self.left.packets
    }

    /// Those of them that wait in hosts.
    pub fn waiting_in_hosts(&self) -> u64 {
        self.left.waiting_in_hosts
    }

    /// What waits at a port.
    pub fn state(&self, port: u32) -> PortState {
        self.left.states.get(&port).cloned().unwrap_or_default()
    }

    /// The ports of `whole` that a rank has, in their order.
    fn ports_of<'a>(&'a self, whole: &'a Graph, rank: u32) -> impl Iterator<Item = u32> + 'a {
        let ports = whole.switch_ports();
        (0..ports + whole.ends()).filter(move |port| {
            let at = if *port < ports { Some(*port) } else { whole.peer(*port) };
            at.is_some_and(|at| self.rank_of[whole.switch_of(at) as usize] == rank)
        })
    }
}

impl Engine {
    /// The rank of each switch, if it pays to divide the graph among this many ranks.
    ///
    /// # Errors
    /// Why one process must have the whole graph.
    pub fn ranks_of_switches(&self, ranks: u32, even_if_slower: bool) -> Result<Vec<u32>, Alone> {
        self.may_be_ranked()?;
        let most = ranks.min(self.graph.switches());
        let (part, apart) = divide(&self.graph, false, most).ok_or(Alone::Whole)?;
        self.are_ranks_worth_it(apart, most, even_if_slower)?;
        Ok(part)
    }

    /// Keeps the part of one rank, by the rank that has each switch. For a channel that was built with silent
    /// sources and has not run: those of the hosts of the part are to be [given](Self::give_sources) to it. All
    /// ranks are to run it then. Returns which hosts are in the part.
    ///
    /// # Errors
    /// Why one process must have the whole graph.
    pub fn keep_rank(
        &mut self,
        part: &[u32],
        exchange: &Arc<dyn Exchange>,
    ) -> Result<Vec<bool>, Alone> {
        self.may_be_ranked()?;
        let division = Division { graph: &self.graph, is_classed: false, part };
        let apart = division.apart().filter(|apart| *apart > Span::ZERO).ok_or(Alone::Whole)?;
        let (rank, ranks) = (exchange.rank(), exchange.ranks());
        let is_own = division.of_hosts().map(|own| own == rank).collect();
        let Apart { graph, numbers, hosts } = self.graph.take_apart(part, rank);
        let lists = (0..ranks).map(|_| Packed::behind(Head::LENGTH)).collect();
        let sending = Some(Box::new(Sending { numbers, lists }));
        let border = Border { sending, ..Border::of_rank(rank) };
        let mut own = self.part(graph, Supply::Sources(Vec::new()), None, border, ranks);
        own.places = Places::new(&own.graph, false, false);
        own.ranges = own.places;
        own.routes = self.routes.of_hosts(hosts);
        // Rank 0 alone reports on ports.
        own.names = None;
        self.routes = self.routes.of_hosts(0..0);
        self.supply = Supply::Sources(Vec::new());
        if rank > 0 {
            self.observations = self.observations.of_part();
            self.graph = self.graph.without_ports();
            self.names = None;
        }
        let (exchange, rank_of, left) = (Arc::clone(exchange), part.to_vec(), Left::default());
        self.ranks = Some(Box::new(Ranks { exchange, part: own, apart, rank_of, left }));
        Ok(is_own)
    }

    /// The sources of the hosts of the part of a rank, those of all others being silent.
    pub fn give_sources(&mut self, sources: Vec<Source>, send_buffers: Limit) {
        let Some(ranks) = &mut self.ranks else { return };
        let part = &mut ranks.part;
        let mut all = Supply::Sources(sources);
        for (host, time) in all.begin(send_buffers) {
            part.schedule(time, part.places.generates + host, 0);
        }
        let of_others = |host| u32::from(!part.graph.has_host(host));
        let of_hosts: Vec<u32> = (0..part.graph.hosts()).map(of_others).collect();
        let own = all.divide(&of_hosts, 2).and_then(|parts| parts.into_iter().next());
        part.supply = own.unwrap_or(Supply::Sources(Vec::new()));
        part.tells_deliveries = part.supply.awaits_arrivals();
        part.submissions = part.submissions_of(0..part.graph.hosts());
    }

    /// How many ranks have a part of it, if they were made to have one.
    pub fn ranks_with_a_part(&self) -> Option<u32> {
        let parts = &self.ranks.as_ref()?.rank_of;
        let mut with: Vec<u32> = parts.clone();
        with.sort_unstable();
        with.dedup();
        Some(with.len() as u32)
    }

    /// How many directed ports this process holds, for whoever wants to see that a rank has few.
    pub fn ports_held(&self) -> usize {
        let part = self.ranks.as_ref().map_or(0, |ranks| ranks.part.graph.ports_held());
        self.graph.ports_held() + part
    }

    fn may_be_ranked(&self) -> Result<(), Alone> {
        match self.classed.is_some() {
            true => Err(Alone::Classed),
            false => self.may_be_spread(),
        }
    }

    /// Runs the part of this rank window by window, and at rank 0 takes over what came of the others. A run is
    /// stopped between two windows only, by rank 0.
    pub(super) fn run_ranks(
        &mut self,
        until: Time,
        halt: &Halt,
        watch: &mut impl FnMut(Delivery),
    ) -> Option<Stopped> {
        let mut own = self.ranks.take()?;
        // Whether passages are noted is known by now.
        own.part.observations = self.observations.of_part();
        let mut meeting = Meeting::new(own.exchange.ranks());
        let (mut next, mut defect) = (own.part.earliest(), None);
        let is_stopped = loop {
            let ends = halt.is_asked() || defect.is_some();
            // What a part panicked over ends the run for all, at the end of the next window.
            let Outlook { next: begin, ends: is_last } =
                own.meet(&mut meeting, Outlook { next, ends }, &mut defect);
            if own.exchange.rank() == 0 {
                keep(&mut defect, || {
                    let told: Vec<&Told> = meeting.told.iter().collect();
                    self.observations.hear(&told, |arrival| watch(delivery(arrival)));
                    Some(())
                });
            }
            if is_last || begin > until {
                break is_last;
            }
            let last = Time(begin.0.saturating_add(own.apart.0 - 1)).min(until);
            self.now = last;
            keep(&mut defect, || {
                own.part.run_part(last);
                Some(())
            });
            next = own.next();
        };
        self.close(own, defect, &mut meeting);
        is_stopped.then_some(Stopped::Asked)
    }

    /// Tells rank 0 what came of the part, or hears it there of all.
    fn close(&mut self, mut own: Box<Ranks>, mut defect: Option<String>, meeting: &mut Meeting) {
        let mut written = Vec::new();
        keep(&mut defect, || {
            let closing: Result<Closing, String> = Ok(own.closing());
            // What is stored of runs is written the same way.
            written = postcard::to_stdvec(&closing).ok()?;
            Some(())
        });
        if let Some(defect) = defect {
            // No other rank can have a part in what is wrong with this message.
            written = postcard::to_stdvec(&Err::<Closing, _>(defect)).unwrap_or_default();
        }
        meeting.given.iter_mut().for_each(Vec::clear);
        meeting.given[0] = written;
        let exchange = Arc::clone(&own.exchange);
        let is_first = exchange.rank() == 0;
        let mut first = None;
        exchange.exchange(&mut meeting.given, &mut |rank, bytes| {
            let mut defect = None;
            keep(&mut defect, || match postcard::from_bytes::<Result<Closing, String>>(bytes) {
                _ if !is_first => Some(()),
                Ok(Ok(closing)) => {
                    self.take_closing(&mut own, rank, closing);
                    Some(())
                }
                Ok(Err(said)) => {
                    first.get_or_insert(format!("rank {rank}: {said}"));
                    Some(())
                }
                Err(_) => None,
            });
            if let Some(said) = defect {
                first.get_or_insert(said);
            }
        });
        self.ranks = Some(own);
        if let Some(first) = first {
            // The run has no result; whoever makes runs takes this as a defect in one of them.
            resume_unwind(Box::new(first));
        }
    }

    /// What came of the part of a rank is counted here.
    fn take_closing(&mut self, own: &mut Ranks, rank: u32, closing: Closing) {
        let Closing { mut observations, passages, .. } = closing;
        if !passages.is_empty() {
            observations.note_passages();
        }
        for (from, to, start, end) in passages {
            observations.pass(Passage { from, to, start: Time(start), end: Time(end) });
        }
        self.observations.take_part(&mut observations);
        self.steps += closing.steps;
        if let Some((time, port, space)) = closing.overrun {
            self.note_overrun(Time(time), port, space);
        }
        own.left.packets += closing.packets;
        own.left.waiting_in_hosts += closing.waiting_in_hosts;
        own.left.states.extend(closing.states);
        for (port, (free, busy)) in own.ports_of(&self.graph, rank).zip(closing.uses) {
            self.graph.put_use(port, PortUse { free: Time(free), busy: Span(busy) });
        }
    }
}

/// What a part expects, or all parts together.
#[derive(Clone, Copy, Debug)]
struct Outlook {
    /// When something happens next there, or because of it.
    next: Time,
    /// Whether the run is to end.
    ends: bool,
}

impl Ranks {
    /// Gives others what they are to know before the next window, and takes what they give. Returns what they
    /// expect together.
    fn meet(
        &mut self,
        meeting: &mut Meeting,
        own: Outlook,
        defect: &mut Option<String>,
    ) -> Outlook {
        self.give(meeting, own);
        let Ranks { exchange, part, .. } = self;
        let (is_first, told) = (exchange.rank() == 0, &mut meeting.told);
        let (mut begin, mut is_last) = (Time::NEVER, false);
        exchange.exchange(&mut meeting.given, &mut |from, mut bytes| {
            let head = Head::take(&mut bytes);
            // Where that cannot be read all meet once more, at which the others hear of it.
            begin = begin.min(head.map_or(part.now, |head| head.next));
            is_last |= head.is_some_and(|head| head.ends);
            keep(defect, || {
                let (crossing, rest) = bytes.split_at_checked(head?.crossing.try_into().ok()?)?;
                part.enter_from_rank(crossing)?;
                if is_first && from > 0 {
                    told[from as usize] = Told::take(&mut &*rest)?;
                }
                Some(())
            });
        });
        Outlook { next: begin, ends: is_last }
    }

    /// Puts together what is given: what this part expects, what crosses, and for rank 0 what happened.
    fn give(&mut self, meeting: &mut Meeting, Outlook { next, ends }: Outlook) {
        let rank = self.exchange.rank();
        let Some(border) = &mut self.part.parts.border else { return };
        let Border { sending: Some(sending), told, .. } = &mut **border else { return };
        for (to, (list, given)) in (0..).zip(sending.lists.iter_mut().zip(&mut meeting.given)) {
            let mut bytes = list.take(Head::LENGTH);
            let crossing = (bytes.len() - Head::LENGTH) as u64;
            if to == 0 && rank > 0 {
                told.put(&mut bytes);
                told.clear();
            }
            Head { next, ends, crossing }.put(&mut bytes);
            *given = bytes;
        }
        if rank == 0 {
            std::mem::swap(&mut meeting.told[0], told);
            told.clear();
        }
    }

    /// When something happens next here or because of what leaves.
    fn next(&mut self) -> Time {
        let border = self.part.parts.border.as_mut();
        let first = border.map(|own| std::mem::replace(&mut own.first, Time::NEVER));
        self.part.earliest().min(first.unwrap_or(Time::NEVER))
    }

    /// What this rank says at the end.
    fn closing(&mut self) -> Closing {
        let part = &mut self.part;
        let mut observations = std::mem::take(&mut part.observations);
        let passages = observations.take_passages();
        let passages =
            passages.iter().map(|one| (one.from, one.to, one.start.0, one.end.0)).collect();
        let overrun = part.overrun.take();
        let sending = part.parts.border.as_ref().and_then(|border| border.sending.as_ref());
        let in_whole = |port: u32| sending?.numbers.in_whole(&part.graph, port);
        let own =
            || (0..).zip(part.graph.uses()).filter_map(|(port, own)| Some((in_whole(port)?, own)));
        let mut states = Vec::new();
        if part.graph.has_limits() {
            for port in 0..part.graph.ports_held() as u32 {
                let Some(whole) = in_whole(port) else { continue };
                let mut state = part.own_port_state(port);
                state
                    .wanted_behind
                    .iter_mut()
                    .for_each(|port| *port = in_whole(*port).unwrap_or(*port));
                if !state.is_empty() {
                    states.push((whole, state));
                }
            }
        }
        Closing {
            steps: part.steps,
            observations,
            passages,
            uses: own().map(|(_, own)| (own.free.0, own.busy.0)).collect(),
            packets: part.packets.len() as u64,
            waiting_in_hosts: part.graph.waiting_in_hosts(),
            states,
            overrun: overrun.and_then(|own| Some((own.time.0, in_whole(own.place)?, own.space))),
        }
    }
}

impl Meeting {
    fn new(ranks: u32) -> Meeting {
        let given = (0..ranks).map(|_| Vec::new()).collect();
        let told = (0..ranks).map(|_| Told::default()).collect();
        Meeting { given, told }
    }
}

/// Does something, unless something went wrong before, and notes what it panics with, so that all ranks come
/// to the end of the run together.
fn keep(defect: &mut Option<String>, work: impl FnOnce() -> Option<()>) {
    if defect.is_some() {
        return;
    }
    // Whatever it leaves half done is looked at no more.
    match catch_unwind(AssertUnwindSafe(work)) {
        Ok(Some(())) => {}
        Ok(None) => *defect = Some(UNREADABLE.to_owned()),
        Err(panic) => *defect = Some(message(panic.as_ref()).to_owned()),
    }
}
