//! Parts of the graph in processes of their own, one each: the *ranks* of a run, on one machine or several.
//!
//! They run the same windows as parts that [run beside each other](super::beside) on threads, and leave the
//! same to each other at the end of one, as bytes. Rank 0 is told what happened in each window, and at the
//! end what each rank added up, so that it shows what one process would. A rank has the cables of the whole
//! graph, and of sources, packets, events and queues those of its own part.

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use weft_fabric::graph::{Graph, PortState, PortUse};
use weft_fabric::measure::{Observations, Passage, Told};
use weft_fabric::workload::Source;
use weft_kernel::{Halt, Stopped};
use weft_units::{Limit, Span, Time};

use super::beside::Alone;
use super::border::{Border, Leaving, delivery};
use super::division::{Division, divide};
use super::limits::Overrun;
use super::supply::Supply;
use super::wire::Wire;
use super::{Delivery, Engine};
use crate::exchange::Exchange;
use crate::failure::message;

/// The part of this rank, and at rank 0 what others say of theirs.
#[derive(Debug)]
pub(super) struct Ranks {
    exchange: Arc<dyn Exchange>,
    part: Engine,
    /// The part that each place is in.
    part_of: Arc<[u16]>,
    apart: Span,
    far: Far,
}

/// What other ranks hold at the end.
#[derive(Debug, Default)]
struct Far {
    packets: u64,
    waiting_in_hosts: u64,
    /// By port, where anything waits.
    states: BTreeMap<u32, PortState>,
}

/// What a rank says at the end of a run, besides what it told before.
#[derive(Debug, Serialize, Deserialize)]
struct Closing {
    /// What it panicked with, if it did.
    defect: Option<String>,
    steps: u64,
    observations: Observations,
    /// Initiator, target, and from when to when, in picoseconds.
    passages: Vec<(u32, u32, u64, u64)>,
    /// By port of the part, until when and for how long it is in use, in picoseconds.
    uses: Vec<(u64, u64)>,
    packets: u64,
    waiting_in_hosts: u64,
    states: Vec<(u32, PortState)>,
    /// When, where, and what there is to say.
    overrun: Option<(u64, u32, String)>,
}

/// Between two windows: what each rank gives the others, and takes.
struct Meeting {
    given: Vec<Vec<u8>>,
    taken: Vec<Vec<u8>>,
    /// By rank, what happened in its part.
    told: Vec<Told>,
}

/// When something happens next in a part or because of it, and whether the run is to end.
type Head = (Time, bool);

/// A message of a rank that is none.
const UNREADABLE: &str = "another rank sent what cannot be read";

impl Ranks {
    /// The part of this rank.
    pub fn part(&self) -> &Engine {
        &self.part
    }

    /// Packets that have been handed over and not delivered.
    pub fn packets(&self) -> u64 {
        self.part.packets.len() as u64 + self.far.packets
    }

    /// Packets that wait in hosts of other parts.
    pub fn waiting_in_far_hosts(&self) -> u64 {
        self.far.waiting_in_hosts
    }

    /// What another rank says of a port; `None` of one in the part of this one.
    pub fn far_state(&self, port: u32) -> Option<&PortState> {
        const NOTHING: &PortState = &PortState {
            waiting: 0,
            is_stopped: false,
            wanted: Vec::new(),
            without_credit: Vec::new(),
            full: Vec::new(),
            wanted_behind: Vec::new(),
        };
        let is_far = u32::from(self.part_of[port as usize]) != self.exchange.rank();
        is_far.then(|| self.far.states.get(&port).unwrap_or(NOTHING))
    }

    /// Whether a port is in the part of a rank.
    fn is_of(&self, rank: u32, port: u32) -> bool {
        u32::from(self.part_of[port as usize]) == rank
    }
}

impl Engine {
    /// The rank that is to have each switch, if it is worth it to divide the graph among so many.
    ///
    /// # Errors
    /// Why one process is to have all of it.
    pub fn ranks_of_switches(&self, ranks: u32, even_if_slower: bool) -> Result<Vec<u32>, Alone> {
        self.may_be_ranked()?;
        let most = ranks.min(self.graph.switches());
        let (part, apart) = divide((&self.graph, false), most).ok_or(Alone::Whole)?;
        self.is_worth_it(apart, even_if_slower)?;
        Ok(part)
    }

    /// Keeps the part of one rank, by the rank that has each switch. For a channel that was built with silent
    /// sources and has not run: those of the hosts of the part are to be [given](Self::give_sources) to it. All
    /// ranks are to run it then. Returns which hosts are in the part.
    ///
    /// # Errors
    /// Why one process is to have all of it.
    pub fn keep_rank(
        &mut self,
        part: &[u32],
        exchange: &Arc<dyn Exchange>,
    ) -> Result<Vec<bool>, Alone> {
        self.may_be_ranked()?;
        let division = Division { graph: &self.graph, is_classed: false, part };
        let apart = division.apart().filter(|apart| *apart > Span::ZERO).ok_or(Alone::Whole)?;
        let part_of = division.of_all_places(self.places);
        let rank = exchange.rank();
        let hosts = division.of_hosts().map(|own| own == rank).collect();
        let graph = self.graph.take_part(part, rank);
        let border = Border::new(rank, exchange.ranks(), Arc::clone(&part_of));
        let own = self.part((graph, Supply::Sources(Vec::new()), None), border);
        self.supply = Supply::Sources(Vec::new());
        if rank > 0 {
            // Only rank 0 observes.
            self.observations = self.observations.of_part();
        }
        let (exchange, far) = (Arc::clone(exchange), Far::default());
        self.ranks = Some(Box::new(Ranks { exchange, part: own, part_of, apart, far }));
        Ok(hosts)
    }

    /// The sources of the hosts of the part of a rank, those of all others being silent.
    pub fn give_sources(&mut self, sources: Vec<Source>, send_buffers: Limit) {
        let Some(ranks) = &mut self.ranks else { return };
        ranks.part.supply = Supply::Sources(sources);
        for (host, time) in ranks.part.supply.begin(send_buffers) {
            ranks.part.schedule(time, self.places.generates + host, 0);
        }
    }

    fn may_be_ranked(&self) -> Result<(), Alone> {
        self.may_be_spread()?;
        match self.classed.is_some() {
            true => Err(Alone::Classed),
            false => Ok(()),
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
            own.give(&mut meeting, (next, ends));
            own.exchange.exchange(&meeting.given, &mut meeting.taken);
            let (begin, is_last) = meeting.heads();
            // What a part panicked over ends the run for all, at the end of the next window.
            keep(&mut defect, || own.take(&mut meeting));
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
        self.ranks = Some(own);
        self.close(defect, &mut meeting);
        is_stopped.then_some(Stopped::Asked)
    }

    /// Tells rank 0 what came of the part, or hears it there of all.
    fn close(&mut self, defect: Option<String>, meeting: &mut Meeting) {
        let Some(mut own) = self.ranks.take() else { return };
        let closing = own.closing(&self.graph, defect);
        meeting.given.iter_mut().for_each(Vec::clear);
        let written = postcard::to_stdvec(&closing);
        // What is stored of runs is written the same way.
        meeting.given[0] = written.unwrap_or_default();
        own.exchange.exchange(&meeting.given, &mut meeting.taken);
        let is_first = own.exchange.rank() == 0;
        let mut defects = Vec::new();
        for (rank, bytes) in (0..).zip(&mut meeting.taken).filter(|_| is_first) {
            match postcard::from_bytes::<Closing>(&std::mem::take(bytes)) {
                Ok(closing) => defects.extend(self.take_closing(&mut own, rank, closing)),
                Err(_) => defects.push(UNREADABLE.to_owned()),
            }
        }
        self.ranks = Some(own);
        if let Some(first) = defects.into_iter().next() {
            // The run has no result; whoever makes runs takes this as a defect in one of them.
            resume_unwind(Box::new(first));
        }
    }

    /// What came of the part of a rank is counted here. Returns what it panicked with, if it did.
    fn take_closing(&mut self, own: &mut Ranks, rank: u32, closing: Closing) -> Option<String> {
        let Closing { mut observations, passages, overrun, .. } = closing;
        if !passages.is_empty() {
            observations.note_passages();
        }
        for (from, to, start, end) in passages {
            observations.pass(Passage { from, to, start: Time(start), end: Time(end) });
        }
        self.observations.take_part(&mut observations);
        self.steps += closing.steps;
        let overrun = overrun.map(|(time, place, said)| Overrun { time: Time(time), place, said });
        let all = self.overrun.take().into_iter().chain(overrun);
        self.overrun = all.min_by_key(|own| (own.time, own.place));
        if rank > 0 {
            own.far.packets += closing.packets;
            own.far.waiting_in_hosts += closing.waiting_in_hosts;
            own.far.states.extend(closing.states);
            let ports = (0..self.places.frees).filter(|port| own.is_of(rank, *port));
            for (port, (free, busy)) in ports.zip(closing.uses) {
                self.graph.put_use(port, PortUse { free: Time(free), busy: Span(busy) });
            }
        }
        closing.defect
    }
}

impl Ranks {
    /// What others are to know before the next window: when something happens next here or because of this
    /// part, whether the run is to end, what comes to them, and at rank 0 what happened.
    fn give(&mut self, meeting: &mut Meeting, head: Head) {
        let rank = self.exchange.rank();
        let Some(border) = &mut self.part.parts.border else { return };
        for (to, list) in (0..).zip(&mut meeting.given) {
            list.clear();
            head.put(list);
            if to != rank {
                let leaving = &mut border.leaving[to as usize];
                leaving.put(list);
                leaving.clear();
                if to == 0 {
                    border.told.put(list);
                }
            }
        }
        let own = &mut meeting.told[rank as usize];
        own.clear();
        std::mem::swap(own, &mut border.told);
        border.told.clear();
    }

    /// What comes from others enters the part, and at rank 0 what happened there is noted; `None` if it cannot
    /// be read.
    fn take(&mut self, meeting: &mut Meeting) -> Option<()> {
        let rank = self.exchange.rank();
        for (from, bytes) in meeting.taken.iter().enumerate() {
            let mut bytes = &bytes[..];
            Head::take(&mut bytes)?;
            if from != rank as usize {
                self.part.enter_part(&mut Leaving::take(&mut bytes)?);
                if rank == 0 {
                    meeting.told[from] = Told::take(&mut bytes)?;
                }
            }
        }
        Some(())
    }

    /// When something happens next here or because of what leaves.
    fn next(&mut self) -> Time {
        let border = self.part.parts.border.as_mut();
        let first = border.map(|own| std::mem::replace(&mut own.first, Time::NEVER));
        self.part.earliest().min(first.unwrap_or(Time::NEVER))
    }

    /// What this rank says at the end. `graph` has the ports of all.
    fn closing(&mut self, graph: &Graph, defect: Option<String>) -> Closing {
        let rank = self.exchange.rank();
        let mut observations = std::mem::take(&mut self.part.observations);
        let passages = observations.take_passages();
        let passages =
            passages.iter().map(|one| (one.from, one.to, one.start.0, one.end.0)).collect();
        let mut closing = Closing {
            defect,
            steps: self.part.steps,
            observations,
            passages,
            uses: Vec::new(),
            packets: self.part.packets.len() as u64,
            waiting_in_hosts: graph.waiting_in_hosts(),
            states: Vec::new(),
            overrun: self.part.overrun.take().map(|own| (own.time.0, own.place, own.said)),
        };
        if rank == 0 {
            return closing;
        }
        let all = (0..).zip(graph.uses()).filter(|(port, _)| self.is_of(rank, *port));
        closing.uses = all.map(|(_, own)| (own.free.0, own.busy.0)).collect();
        if graph.has_limits() {
            let ports =
                (0..graph.switch_ports() + graph.ends()).filter(|own| self.is_of(rank, *own));
            let states = ports.map(|port| (port, self.part.own_port_state(port)));
            closing.states = states.filter(|(_, state)| !state.is_empty()).collect();
        }
        closing
    }
}

impl Meeting {
    fn new(ranks: u32) -> Meeting {
        let lists = || (0..ranks).map(|_| Vec::new()).collect();
        let told = (0..ranks).map(|_| Told::default()).collect();
        Meeting { given: lists(), taken: lists(), told }
    }

    /// When something happens next in any part, and whether the run is to end.
    fn heads(&self) -> Head {
        // Who says nothing that can be read has come to an end.
        let heads = self.taken.iter().map(|bytes| Head::take(&mut &bytes[..]));
        heads.fold((Time::NEVER, false), |(next, ends), head| {
            let head = head.unwrap_or((Time::NEVER, true));
            (next.min(head.0), ends | head.1)
        })
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
