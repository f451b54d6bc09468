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
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Barrier, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread::Builder;

use weft_fabric::graph::{Graph, Together};
use weft_fabric::measure::{Observations, Told};
use weft_kernel::{Halt, Stopped};
use weft_units::{Span, Time};

use super::border::{Border, Leaving, delivery};
use super::classed::Classed;
use super::clocks::Clocks;
use super::division::{Division, divide};
use super::packets::Packets;
use super::planes::PlaneTurns;
use super::supply::Supply;
use super::{Delivery, Engine};

/// Parts per thread: several, so that what a part works with stays in the cache for a window, and threads
/// finish a window at about the same time.
const PARTS: u32 = 8;

/// The lists of what crosses grow with the square of the number of parts.
const MOST_THREADS: NonZeroUsize = NonZeroUsize::new(32).unwrap();

/// With fewer events in a window, synchronising two threads costs more than it saves. So many of the lists of what
/// crosses, of which there is one from each part to each, take as long as an event.
const LEAST_EVENTS: u64 = 4_000;
const LISTS_PER_EVENT: u64 = 4;

/// From how many events on so many parts are worth it.
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
    /// Something is recorded of all ports at once, or cables fail.
    #[error(
        "queues are noted at intervals, or cables fail, for the whole network, which more threads or ranks \
         do not take"
    )]
    Noted,
    /// Packets are marked when they have left.
    #[error(
        "packets are marked when they have left (ecn.at = 'departure'), and with more threads or ranks their \
         header is in another part of the network by then"
    )]
    Departures,
    /// Packets belong to connections, which share the memories of switches.
    #[error("connections share the memories of switches, which more threads or ranks do not take")]
    Memories,
    /// Switches decide on everything that reaches an output in an instant.
    #[error(
        "switches choose among packets of one instant, which more threads or ranks do not take"
    )]
    Deciding,
    /// Queue pairs outlive flows.
    #[error(
        "queue pairs are kept (queue_pairs = 'kept'), and what their targets know passes to the next flow when \
         that begins elsewhere, which more threads or ranks do not take"
    )]
    Kept,
    /// Flows are numbered in the order in which they begin.
    #[error(
        "flows begin when others end (closed), in an order that parts of the network would have to agree on, which \
         more threads or ranks do not take"
    )]
    Closed,
    /// Routes weigh queues of other switches, as these are at that instant.
    #[error(
        "routes weigh the queues of other switches (ugal_global), which more threads or ranks do not take"
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
    #[error("packets have traffic classes, which more threads take and more ranks do not")]
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

    /// Whether so many ranks, whose parts are so far apart, have enough to do between two meetings.
    pub(super) fn are_ranks_worth_it(
        &self,
        apart: Span,
        ranks: u32,
        even_if_slower: bool,
    ) -> Result<(), Alone> {
        self.is_worth_it(apart, LEAST_EVENTS_PER_RANK * u64::from(ranks), even_if_slower)
    }

    /// Whether as many events as it takes happen between two meetings of parts that are so far apart, or these
    /// are to be made even if they are slower.
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
            supply,
            packets: Packets::new(
                self.packets.has_spent(),
                graph.has_limits() || classed.is_some(),
            ),
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
                let work = move || crew.work(member, || false, |_, _| {});
                starts(member).spawn_scoped(scope, work).is_ok()
            };
            // If the system provides fewer threads, those that exist do the work.
            let others = (1..crew.members).take_while(join).count();
            crew.meet(1 + others);
            crew.work(
                0,
                || halt.is_asked(),
                |last, window| {
                    *now = last;
                    let mut told: Vec<_> = window.told.iter().map(lock).collect();
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

    /// Takes the lists of a window in place of its own, or puts them back.
    fn change_lists(&mut self, window: &Window, part: usize) {
        let Some(border) = &mut self.parts.border else { return };
        std::mem::swap(&mut *lock(&window.told[part]), &mut border.told);
        let count = border.leaving.len();
        let crossing = &window.crossing[part * count..][..count];
        for (crossing, leaving) in crossing.iter().zip(&mut border.leaving) {
            std::mem::swap(&mut *lock(crossing), leaving);
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
    /// For windows with even and with odd numbers: while one is written the other one is read.
    windows: [Window; 2],
    /// By part, the number of the last window for which a thread took it.
    taken: Vec<AtomicU64>,
    /// How many threads there should be, and their barrier, once it is known how many there are.
    members: usize,
    meeting: OnceLock<Barrier>,
    apart: Span,
    until: Time,
    /// The time of the first event.
    begin: Time,
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

/// What one window leaves for the next one.
#[derive(Debug)]
struct Window {
    /// By part, the time of its next event, or of the next event that it causes elsewhere.
    next: Vec<AtomicU64>,
    /// By part, its observations.
    told: Vec<Mutex<Told>>,
    /// By source and destination part.
    crossing: Vec<Mutex<Leaving>>,
    /// Whether this was the last window, whatever happens next.
    is_last: AtomicBool,
}

impl Window {
    fn new(parts: usize) -> Window {
        Window {
            next: (0..parts).map(|_| AtomicU64::new(Time::NEVER.0)).collect(),
            told: (0..parts).map(|_| Mutex::default()).collect(),
            crossing: (0..parts * parts).map(|_| Mutex::default()).collect(),
            is_last: AtomicBool::new(false),
        }
    }
}

impl Crew {
    fn new(
        parts: Vec<Engine>,
        threads: usize,
        apart: Span,
        until: Time,
        nothing_seen: impl Fn() -> Observations,
    ) -> Crew {
        let (count, members) = (parts.len(), threads.clamp(1, parts.len().max(1)));
        let begin = parts.iter().map(Engine::earliest).min().unwrap_or(Time::NEVER);
        Crew {
            parts: parts.into_iter().map(Mutex::new).collect(),
            windows: [Window::new(count), Window::new(count)],
            taken: (0..count).map(|_| AtomicU64::new(0)).collect(),
            members,
            meeting: OnceLock::new(),
            apart,
            until,
            begin,
            observations: (0..members).map(|_| Mutex::new(nothing_seen())).collect(),
            defect: Mutex::default(),
        }
    }

    /// This many threads wait for each other from now on.
    fn meet(&self, members: usize) {
        self.meeting.get_or_init(|| Barrier::new(members));
    }

    /// The loop of one thread. `asks` says whether the run should end, and `hears` receives the
    /// observations of each window while other threads continue with the next one.
    fn work(&self, member: usize, asks: impl Fn() -> bool, mut hears: impl FnMut(Time, &Window)) {
        let count = self.parts.len();
        let own = member * count / self.members;
        let mut seen = lock(&self.observations[member]);
        let (mut begin, mut number) = (self.begin, 0);
        let mut is_broken = false;
        while begin <= self.until {
            let last = Time(begin.0.saturating_add(self.apart.0 - 1)).min(self.until);
            number += 1;
            for part in (own..count).chain(0..own) {
                if self.taken[part].fetch_max(number, Ordering::Relaxed) < number {
                    is_broken |= !self.keep(|| self.run_through(part, &mut seen, number, last));
                }
            }
            let window = self.window(number);
            if asks() || is_broken {
                window.is_last.store(true, Ordering::Relaxed);
            }
            // The barrier orders these writes before the reads after it.
            self.meeting.wait().wait();
            is_broken = !self.keep(|| hears(last, window));
            if window.is_last.load(Ordering::Relaxed) {
                break;
            }
            let next = window.next.iter().map(|next| next.load(Ordering::Relaxed)).min();
            begin = Time(next.unwrap_or(Time::NEVER.0));
        }
    }

    fn window(&self, number: u64) -> &Window {
        &self.windows[(number % 2) as usize]
    }

    /// Runs `work`, and keeps its panic until all threads are at the end of a window, so that none waits for
    /// ever. Returns whether it did not panic.
    fn keep(&self, work: impl FnOnce()) -> bool {
        // Nothing reads what it leaves half done.
        let done = catch_unwind(AssertUnwindSafe(work));
        let Err(defect) = done else { return true };
        // Others may follow from the first one.
        lock(&self.defect).get_or_insert(defect);
        false
    }

    fn run_through(&self, part: usize, seen: &mut Observations, number: u64, last: Time) {
        let (before, window) = (self.window(number - 1), self.window(number));
        let count = self.parts.len();
        let mut own = lock(&self.parts[part]);
        for crossing in before.crossing.iter().skip(part).step_by(count) {
            own.enter_part(&mut lock(crossing));
        }
        // Observations of the window are in their own lists, all of which are empty by now.
        own.change_lists(window, part);
        std::mem::swap(&mut own.observations, seen);
        own.run_part(last);
        std::mem::swap(&mut own.observations, seen);
        own.change_lists(window, part);
        let first =
            own.parts.border.as_mut().map(|own| std::mem::replace(&mut own.first, Time::NEVER));
        let next = own.earliest().min(first.unwrap_or(Time::NEVER));
        window.next[part].store(next.0, Ordering::Relaxed);
    }

    fn disperse(self) -> Dispersed {
        if let Some(defect) = self.defect.into_inner().unwrap_or_else(PoisonError::into_inner) {
            resume_unwind(defect);
        }
        let mut parts: Vec<Engine> = self.parts.into_iter().map(open).collect();
        let observations = self.observations.into_iter().map(open).collect();
        let count = parts.len();
        let is_stopped = self.windows.iter().any(|window| window.is_last.load(Ordering::Relaxed));
        for window in &self.windows {
            for (between, crossing) in window.crossing.iter().enumerate() {
                let to = &mut parts[between % count];
                to.enter_part(&mut lock(crossing));
            }
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
