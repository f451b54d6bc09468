//! Parts of the graph that run side by side, on threads.
//!
//! Each part has an engine of its own: its events, its packets, the sources of its hosts, and its counters.
//! The ports of the graph are shared; each is used only by the part with its switch. Parts run without
//! communicating for as long as nothing can get from one to another (a window). At the end of a window each
//! part leaves packets for other parts, and observations for the observer; then all threads wait for the
//! last one. Which thread runs a part is decided window by window: its own if it comes to that first, or
//! one that has nothing else to do. Since the order of events follows from time and place alone, none of
//! this shows in a result.

use std::any::Any;
use std::num::NonZeroUsize;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::Builder;

use weft_fabric::graph::{Graph, Together};
use weft_fabric::measure::{Observations, Told};
use weft_kernel::{Halt, Observed, Step, Stopped, TimeWindows, WindowBounds};
use weft_units::{Span, Time};

use super::border::{Border, Leaving, delivery};
use super::classed::Classed;
use super::clocks::Clocks;
use super::division::{Division, divide};
use super::planes::PlaneTurns;
use super::supply::Supply;
use super::{Delivery, Engine};

/// Parts per thread: several, so that what a part works with stays in the cache for a window, and threads
/// finish a window at about the same time.
const PARTS: u32 = 8;

/// The lists of what crosses grow with the square of the number of parts.
const MOST_THREADS: NonZeroUsize = NonZeroUsize::new(32).unwrap();

/// With fewer events in a window, synchronising two threads costs more than it saves. This many of
/// the lists between parts, of which there is one from each part to each, take as long as an event.
const LEAST_EVENTS: u64 = 4_000;
const LISTS_PER_EVENT: u64 = 4;

/// The events in a window from which on this many parts pay.
fn least_events(parts: u32) -> u64 {
    let (lists, of_two) = (u64::from(parts).pow(2), u64::from(2 * PARTS).pow(2));
    LEAST_EVENTS + lists.saturating_sub(of_two) / LISTS_PER_EVENT
}

/// The events that a window is to have in each of several processes: a message among them takes as long as some
/// hundreds.
const LEAST_EVENTS_PER_RANK: u64 = 8_000;

/// Why a run uses one thread, or one rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Alone {
    /// Only packets of one size between hosts without adapters cross between parts so far.
    #[error(
        "more threads or ranks only take packets that sources hand over to hosts without adapters, for \
         switches that are output_queued, input_queued with a buffer, or (threads only, with transports too) have a \
         shared_buffer, in one plane"
    )]
    Kind,
    /// Something is recorded of all ports together, or cables fail.
    #[error(
        "queues are noted at intervals, or cables fail, for the whole network at once, not part by \
         part"
    )]
    Noted,
    /// Packets are marked when they have left.
    #[error(
        "packets are marked when they have left (ecn.at = 'departure'), and with more threads or ranks their \
         header is in another part of the network by then"
    )]
    Departures,
    /// Packets belong to connections, which share the memories of switches.
    #[error("connections share the memories of switches, which threads and ranks cannot divide")]
    Memories,
    /// Switches decide on everything that reaches an output in an instant.
    #[error("switches choose among packets of one instant, which threads and ranks cannot divide")]
    Deciding,
    /// Queue pairs outlive flows.
    #[error(
        "queue pairs are kept (queue_pairs = 'kept'): what their targets know passes at once to \
         the next flow, which may begin in another part of the network"
    )]
    Kept,
    /// Flows are numbered in the order in which they begin.
    #[error(
        "flows begin when others end (closed), in an order that parts of the network would have to agree on, which \
         threads and ranks do not"
    )]
    Closed,
    /// Routes weigh queues of other switches, as these are at that instant.
    #[error(
        "routes weigh the queues of other switches (ugal_global) as they are at that instant, and \
         these may be in another part of the network"
    )]
    Weighed,
    /// Nothing takes time from one part of the graph to another.
    #[error("the network cannot be divided into parts with cables between them that take time")]
    Whole,
    /// Threads would mostly wait for each other.
    #[error(
        "parts of the network are {apart} apart, in which about {events} events happen, and more threads \
         or ranks are worth it from {least} on"
    )]
    Short {
        /// From one part to another.
        apart: Span,
        /// The approximate number of events in that time, if links carry half of what they can.
        events: u64,
        /// How many there would have to be.
        least: u64,
    },
    /// Ports of all parts keep their own counts by class.
    #[error("packets have traffic classes, which threads can divide and ranks cannot")]
    Classed,
    /// A limit on steps is counted event by event.
    #[error("a limit on steps is counted event by event")]
    StepLimit,
}

/// The parts of a graph.
#[derive(Debug)]
pub(super) struct Beside {
    parts: Vec<Engine>,
    /// The part that each place is in.
    part_of: Arc<[u16]>,
    apart: Span,
    threads: usize,
    /// Starts each thread but the first, which exists.
    starts: fn(usize) -> Builder,
}

impl Beside {
    /// Packets that have been submitted and not delivered.
    pub fn packets(&self) -> usize {
        self.parts.iter().map(|part| part.packets.len()).sum()
    }

    /// All parts.
    pub fn parts(&self) -> &[Engine] {
        &self.parts
    }
}

impl Engine {
    /// What a port sees of the packets and switches around it: the part that has it, if the graph is divided
    /// among threads.
    pub(super) fn at_port(&self, port: u32) -> &Engine {
        match &self.beside {
            Some(own) => &own.parts[own.part_of[port as usize] as usize],
            None => self,
        }
    }

    /// Divides the graph into parts that run in parallel on this many threads, if that is
    /// worthwhile or `even_if_slower`; results do not change. For a channel with sources that has
    /// not run and will run without a limit on steps.
    ///
    /// # Errors
    /// Why it keeps one thread.
    pub fn spread(&mut self, threads: NonZeroUsize, even_if_slower: bool) -> Result<(), Alone> {
        self.may_be_spread()?;
        let threads = threads.min(MOST_THREADS);
        // Each part of a classed channel has a full set of ports.
        let each = if self.classed.is_some() { 1 } else { PARTS };
        let most = each * threads.get() as u32;
        let (part, apart) =
            divide(&self.graph, self.classed.is_some(), most.min(self.graph.switches()))
                .ok_or(Alone::Whole)?;
        let parts = part.iter().max().map_or(1, |last| last + 1);
        self.is_worth_it(apart, least_events(parts), even_if_slower)?;
        self.spread_over(&part, threads)
    }

    /// Whether this many ranks, whose parts are `apart` from each other, have enough events between
    /// two exchanges.
    pub(super) fn are_ranks_worth_it(
        &self,
        apart: Span,
        ranks: u32,
        even_if_slower: bool,
    ) -> Result<(), Alone> {
        self.is_worth_it(apart, LEAST_EVENTS_PER_RANK * u64::from(ranks), even_if_slower)
    }

    /// Whether at least `least` events happen between two meetings of parts that are `apart` from
    /// each other, or the division is wanted even if it is slower.
    fn is_worth_it(&self, apart: Span, least: u64, even_if_slower: bool) -> Result<(), Alone> {
        let events = apart.0 / self.parts.spacing().0;
        match events < least && !even_if_slower {
            true => Err(Alone::Short { apart, events, least }),
            false => Ok(()),
        }
    }

    /// Like [`spread`](Self::spread), with the part of each switch given, whether or not it is worth it.
    ///
    /// # Errors
    /// Why it keeps one thread.
    pub fn spread_over(&mut self, part: &[u32], threads: NonZeroUsize) -> Result<(), Alone> {
        self.may_be_spread()?;
        let is_classed = self.classed.is_some();
        let division = Division { graph: &self.graph, is_classed, part };
        let apart = division.apart().filter(|apart| *apart > Span::ZERO).ok_or(Alone::Whole)?;
        let part_of = division.of_all_places(self.places);
        let of_hosts: Vec<u32> = division.of_hosts().collect();
        let count = part.iter().max().map_or(1, |last| last + 1);
        let supplies = self.supply.divide(&of_hosts, count).ok_or(Alone::Kind)?;
        let graphs = self.graph.divide(part, count);
        let classed = self.classed.as_mut().map(|own| own.divide(part, &of_hosts, count));
        let mut classed = classed.into_iter().flatten();
        // From the first host of each part to its last one.
        let mut hosts: Vec<Range<u32>> = vec![0..0; count as usize];
        for (host, part) in (0..).zip(&of_hosts) {
            let own = &mut hosts[*part as usize];
            *own = if own.start == own.end { host..host + 1 } else { own.start..host + 1 };
        }
        let mut parts: Vec<Engine> = Vec::with_capacity(supplies.len());
        let each = graphs.into_iter().zip(supplies).zip(hosts);
        for (number, ((graph, supply), hosts)) in (0..).zip(each) {
            let border = Border::new(number, count, Arc::clone(&part_of));
            let mut part = self.part(graph, supply, classed.next(), border, count);
            part.flows = self.flows.as_ref().map(|own| Box::new(own.of_part(hosts.clone())));
            part.submissions = part.submissions_of(hosts.clone());
            part.routes = self.routes.of_hosts(hosts);
            parts.push(part);
        }
        while let Some(event) = self.parts.first().pop_until(Time::NEVER) {
            parts[part_of[event.place as usize] as usize].parts.push(event);
        }
        let (threads, starts) = (threads.get(), |_| Builder::new());
        self.beside = Some(Box::new(Beside { parts, part_of, apart, threads, starts }));
        Ok(())
    }

    /// Starts each thread but the first with the builder that `starts` returns for its number, so that a
    /// test can have some refused; for a graph that has been divided. Does not change results.
    pub fn start_threads_by(&mut self, starts: fn(usize) -> Builder) {
        if let Some(beside) = &mut self.beside {
            beside.starts = starts;
        }
    }

    pub(super) fn may_be_spread(&self) -> Result<(), Alone> {
        self.graph.may_be_divided()?;
        let is_special = self.adapters.is_on || self.memories.is_on;
        let is_special = is_special || self.graph.planes() > 1;
        let is_special = is_special || self.ring.is_some() || self.turns.is_some();
        let is_special = is_special || self.hub.is_some();
        if is_special || !self.parts.is_one() || self.is_divided() {
            return Err(Alone::Kind);
        }
        if let Some(why) = self.flows.as_ref().and_then(|own| own.are_whole()) {
            return Err(why);
        }
        if self.routes.weigh_other_switches() {
            return Err(Alone::Weighed);
        }
        if self.marks_departures() {
            return Err(Alone::Departures);
        }
        match self.happens_to_the_whole() {
            true => Err(Alone::Noted),
            false => Ok(()),
        }
    }

    /// The engine of one of `count` parts.
    pub(super) fn part(
        &self,
        graph: Graph,
        supply: Supply,
        classed: Option<Classed>,
        border: Border,
        count: u32,
    ) -> Engine {
        Engine {
            routes: self.routes.clone(),
            tells_deliveries: supply.awaits_arrivals(),
            supply,
            submissions: Default::default(),
            packets: self.packets.of_part(graph.has_limits() || classed.is_some()),
            is_large: Engine::is_large(graph.switch_ports() + graph.ends()),
            clocks: Clocks::new(&graph),
            graph,
            observations: self.observations.of_part(),
            payload: self.payload,
            places: self.places,
            ranges: self.ranges,
            parts: self.parts.beside(border, count),
            now: Time::ZERO,
            steps: 0,
            next: Time::NEVER,
            is_cut_off: false,
            outbox: Default::default(),
            passed: Default::default(),
            names: self.names.clone(),
            overrun: None,
            memories: self.memories.without_any(),
            classed: classed.map(Box::new),
            flows: None,
            ring: None,
            turns: None,
            hub: None,
            adapters: super::Adapters::none(),
            forward: None,
            plane_turns: PlaneTurns::new(self.graph.hosts(), self.graph.planes()),
            beside: None,
            ranks: None,
        }
    }

    fn is_divided(&self) -> bool {
        self.beside.is_some() || self.ranks.is_some()
    }

    /// Runs all parts window by window. A run is stopped between two windows only.
    pub(super) fn run_beside(
        &mut self,
        until: Time,
        halt: &Halt,
        watch: &mut impl FnMut(Delivery),
    ) -> Option<Stopped> {
        let Beside { parts, part_of, apart, threads, starts } = *self.beside.take()?;
        // Whether passages are recorded is known by now.
        let crew = Crew::new(parts, threads, apart, until, || self.observations.of_part());
        let (seen, now) = (&mut self.observations, &mut self.now);
        std::thread::scope(|scope| {
            let crew = &crew;
            let join = |member: &usize| {
                let member = *member;
                let work = move || crew.work(member, || false, |_| {});
                starts(member).spawn_scoped(scope, work).is_ok()
            };
            // If the system provides fewer threads, those that exist do the work.
            let others = (1..crew.windows.members()).take_while(join).count();
            crew.windows.meet(1 + others);
            crew.work(
                0,
                || halt.is_asked(),
                |observed| {
                    *now = observed.last;
                    let mut told: Vec<_> = observed.lists().collect();
                    seen.hear(&told, |arrival| watch(delivery(arrival)));
                    told.iter_mut().for_each(|one| one.clear());
                },
            );
        });
        let Dispersed { parts, mut observations, is_stopped } = crew.disperse();
        self.steps = parts.iter().map(|part| part.steps).sum();
        observations.iter_mut().for_each(|own| self.observations.take_part(own));
        let mut beside = Box::new(Beside { parts, part_of, apart, threads, starts });
        for part in &mut beside.parts {
            if let (Some(own), Some(more)) = (&mut self.classed, &mut part.classed) {
                own.take_part(more);
            }
        }
        let overruns = beside.parts.iter_mut().filter_map(|part| part.overrun.take());
        let first = overruns.min_by_key(|own| (own.time, own.place));
        self.overrun = self.overrun.take().or(first);
        self.beside = Some(beside);
        self.gather_flows();
        is_stopped.then_some(Stopped::Asked)
    }

    /// Exchanges its own lists with those of a window, in either direction.
    fn change_lists(&mut self, step: &Step<'_, Leaving, Told>) {
        let Some(border) = &mut self.parts.border else { return };
        std::mem::swap(&mut *step.observed(), &mut border.told);
        for (mut crossing, leaving) in step.leaving().zip(&mut border.leaving) {
            std::mem::swap(&mut *crossing, leaving);
        }
    }
}

impl From<Together> for Alone {
    fn from(why: Together) -> Alone {
        match why {
            Together::Memories => Alone::Memories,
            Together::Deciding => Alone::Deciding,
        }
    }
}

/// The state shared by all threads of a run.
#[derive(Debug)]
struct Crew {
    parts: Vec<Mutex<Engine>>,
    windows: TimeWindows<Leaving, Told>,
    bounds: WindowBounds,
    /// By thread, the counters that it adds up over the parts that it runs.
    observations: Vec<Mutex<Observations>>,
    /// The panic of a thread.
    defect: Mutex<Option<Box<dyn Any + Send>>>,
}

/// What remains of a crew.
struct Dispersed {
    /// With all packets that were between them.
    parts: Vec<Engine>,
    /// What each thread added up.
    observations: Vec<Observations>,
    /// Whether the run was asked to end.
    is_stopped: bool,
}

impl Crew {
    fn new(
        parts: Vec<Engine>,
        threads: usize,
        apart: Span,
        until: Time,
        nothing_seen: impl Fn() -> Observations,
    ) -> Crew {
        let begin = parts.iter().map(Engine::earliest).min().unwrap_or(Time::NEVER);
        let windows = TimeWindows::new(parts.len(), threads);
        Crew {
            parts: parts.into_iter().map(Mutex::new).collect(),
            observations: (0..windows.members()).map(|_| Mutex::new(nothing_seen())).collect(),
            windows,
            bounds: WindowBounds { begin, apart, until },
            defect: Mutex::default(),
        }
    }

    /// The loop of one thread. `asks` says whether the run should end, and `hears` receives the
    /// observations of each window while other threads continue with the next one.
    fn work(
        &self,
        member: usize,
        asks: impl Fn() -> bool,
        mut hears: impl FnMut(&Observed<'_, Told>),
    ) {
        let mut seen = lock(&self.observations[member]);
        self.windows.work(
            member,
            self.bounds,
            asks,
            |step| self.keep(|| self.run_through(step, &mut seen)),
            |observed| self.keep(|| hears(observed)).is_some(),
        );
    }

    /// Runs `work`, and keeps its panic until all threads are at the end of a window, so that none waits for
    /// ever. Returns nothing if it did panic.
    fn keep<T>(&self, work: impl FnOnce() -> T) -> Option<T> {
        // Nothing reads what it leaves half done.
        let done = catch_unwind(AssertUnwindSafe(work));
        done.map_err(|defect| {
            // Others may follow from the first one.
            lock(&self.defect).get_or_insert(defect);
        })
        .ok()
    }

    /// Runs a part through a window, and returns when its next event is, here or elsewhere.
    fn run_through(&self, step: &Step<'_, Leaving, Told>, seen: &mut Observations) -> Time {
        let mut own = lock(&self.parts[step.part]);
        step.arriving().for_each(|mut crossing| own.enter_part(&mut crossing));
        // Observations of the window are in their own lists, all of which are empty by now.
        own.change_lists(step);
        std::mem::swap(&mut own.observations, seen);
        own.run_part(step.last);
        std::mem::swap(&mut own.observations, seen);
        own.change_lists(step);
        let first =
            own.parts.border.as_mut().map(|own| std::mem::replace(&mut own.first, Time::NEVER));
        own.earliest().min(first.unwrap_or(Time::NEVER))
    }

    fn disperse(self) -> Dispersed {
        if let Some(defect) = self.defect.into_inner().unwrap_or_else(PoisonError::into_inner) {
            resume_unwind(defect);
        }
        let mut parts: Vec<Engine> = self.parts.into_iter().map(open).collect();
        let observations = self.observations.into_iter().map(open).collect();
        let is_stopped = self.windows.is_ended();
        for (to, mut crossing) in self.windows.into_crossing() {
            parts[to].enter_part(&mut crossing);
        }
        Dispersed { parts, observations, is_stopped }
    }
}

/// A panic while a lock is held ends the run, so nothing relies on what it left behind.
fn lock<T>(shared: &Mutex<T>) -> MutexGuard<'_, T> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

fn open<T>(shared: Mutex<T>) -> T {
    shared.into_inner().unwrap_or_else(PoisonError::into_inner)
}
