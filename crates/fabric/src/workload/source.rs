//! The source of one host: when it submits the next packet, and the target.

use std::sync::Arc;

use weft_kernel::{Purpose, Stream, prefetch_whole};
use weft_units::{Span, Time};

use super::arrivals::Arrivals;
use super::burst::Burst;
use super::pattern::Targets;

/// One packet that a program submits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Demand {
    /// When it is submitted.
    pub time: Time,
    /// The host that it is for.
    pub target: u32,
}

/// The feedback that a source needs to continue its traffic.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Feedback {
    /// Nothing: its traffic does not depend on the fabric.
    None,
    /// When the adapter can take another packet: [`Source::ready`].
    Ready,
    /// When a packet reaches this host: [`Source::delivered`].
    Delivered,
}

/// The traffic of one host on one channel. It has its own random streams, so that another
/// architecture of the channel, or another host, leaves its traffic as it was.
///
/// An engine takes a packet at [`Source::next_time`] and then asks again. Only sources that need
/// feedback from the fabric get it, see [`Source::feedback`].
#[derive(Debug)]
pub struct Source {
    next: Demand,
    // Boxed, since the next demand is read more often than drawn, by all hosts in turn.
    kind: Kind,
}

// A separate tag, which is read several times for each packet.
#[derive(Debug)]
#[repr(u8)]
enum Kind {
    Silent,
    OpenLoop(Box<Ahead>),
    OfMany(Box<OfMany>),
    Greedy(Box<Greedy>),
    PingPong(Box<PingPong>),
    List(Box<std::vec::IntoIter<Demand>>),
}

/// How many demands are drawn at a time.
const DRAWN: usize = 8;

/// Demands of an open loop that were drawn already. They are drawn several at a time, since what a
/// draw reads is in the cache once for all of them; with thousands of hosts it is not from one
/// packet of a host to its next.
#[derive(Debug)]
struct Ahead {
    demands: Demands,
    process: OpenLoop,
}

/// The demands that were drawn, and which of them is next.
#[derive(Debug)]
struct Demands {
    next: usize,
    drawn: [Demand; DRAWN],
}

/// The source of one of very many hosts, in half as many bytes: it stores how many words of its streams have
/// been drawn, and creates them anew when it draws. That costs each stream a block of words, most of which the
/// packets drawn at a time use.
#[derive(Debug)]
struct OfMany {
    next: u32,
    host: u32,
    times: [Time; DRAWN_OF_MANY],
    targets: [u32; DRAWN_OF_MANY],
    law: Law,
    /// Of the stream of times and that of targets.
    words: [u64; 2],
    all: Arc<OpenLoops>,
}

/// How many demands one of very many hosts draws at a time.
const DRAWN_OF_MANY: usize = 18;

/// The number of hosts from which they count as very many. With fewer, all sources fit into the cache, and
/// drawing in this way takes one or two percent longer.
const VERY_MANY: u32 = 16_384;

/// Arrivals that do not depend on the fabric.
#[derive(Debug)]
pub(super) struct OpenLoop {
    pub law: Law,
    pub times: Stream,
    pub destinations: Stream,
}

/// What the open loops of all hosts of a channel have in common.
#[derive(Debug)]
pub(super) struct OpenLoops {
    pub hosts: u32,
    /// The streams of the times of all hosts, and those of their targets.
    pub times: Purpose,
    pub destinations: Purpose,
}

impl OpenLoops {
    /// The two streams of a host after this many words each.
    fn streams(&self, host: u32, words: [u64; 2]) -> [Stream; 2] {
        let [times, destinations] = words;
        let host = host as usize;
        [self.times.stream_after(host, times), self.destinations.stream_after(host, destinations)]
    }
}

/// How arrivals are drawn.
#[derive(Debug)]
pub(super) struct Law {
    pub arrivals: Arrivals,
    pub targets: Targets,
    pub bursts: Option<Box<Bursts>>,
}

/// The bursts of one host.
#[derive(Debug)]
pub(super) struct Bursts {
    pub law: Burst,
    pub lengths: Stream,
    /// How many packets of the present burst are still to come.
    pub left: u64,
}

#[derive(Debug)]
struct Greedy {
    targets: Targets,
    destinations: Stream,
}

/// One end of a pair that sends one packet back and forth.
#[derive(Clone, Copy, Debug)]
struct PingPong {
    partner: u32,
    turnaround: Span,
}

const NOTHING: Demand = Demand { time: Time::NEVER, target: 0 };

impl Source {
    /// Sends nothing.
    pub fn silent() -> Source {
        Source { next: NOTHING, kind: Kind::Silent }
    }

    /// Memoryless arrivals with a mean interval, uniform over the other hosts, of which there must
    /// be at least one.
    pub fn poisson(mean: Span, host: u32, hosts: u32, times: Stream, targets: Stream) -> Source {
        let law = Law {
            arrivals: Arrivals::Poisson { mean: mean.0 as f64 },
            targets: Targets::Others { host, others: hosts - 1 },
            bursts: None,
        };
        let mut process = OpenLoop { law, times, destinations: targets };
        let next = process.first();
        Source::ahead(process, next)
    }

    /// Exactly these packets, in order of time; those of one time in the order given.
    pub fn list(mut demands: Vec<Demand>) -> Source {
        demands.sort_by_key(|demand| demand.time);
        let mut rest = demands.into_iter();
        Source { next: rest.next().unwrap_or(NOTHING), kind: Kind::List(Box::new(rest)) }
    }

    /// The open loop of one host among all.
    pub(super) fn open_loop(law: Law, host: u32, all: &Arc<OpenLoops>) -> Source {
        let [times, destinations] = all.streams(host, [0; 2]);
        let mut process = OpenLoop { law, times, destinations };
        let next = process.first();
        if all.hosts < VERY_MANY {
            return Source::ahead(process, next);
        }
        let OpenLoop { law, times, destinations } = process;
        let of_many = OfMany {
            next: DRAWN_OF_MANY as u32,
            host,
            times: [next.time; DRAWN_OF_MANY],
            targets: [next.target; DRAWN_OF_MANY],
            law,
            words: [times.words(), destinations.words()],
            all: Arc::clone(all),
        };
        Source { next, kind: Kind::OfMany(Box::new(of_many)) }
    }

    /// An open loop that keeps its streams, and its first demand.
    fn ahead(process: OpenLoop, next: Demand) -> Source {
        let demands = Demands { next: DRAWN, drawn: [next; DRAWN] };
        let ahead = Ahead { demands, process };
        Source { next, kind: Kind::OpenLoop(Box::new(ahead)) }
    }

    /// Always has a packet, from time zero on.
    pub(super) fn greedy(targets: Targets, mut destinations: Stream) -> Source {
        let next = Demand { time: Time::ZERO, target: targets.draw(&mut destinations) };
        Source { next, kind: Kind::Greedy(Box::new(Greedy { targets, destinations })) }
    }

    /// Answers each packet of `partner` after `turnaround`; `initiates` sends the first at time
    /// zero.
    pub(super) fn ping_pong(partner: u32, turnaround: Span, initiates: bool) -> Source {
        let next = if initiates { Demand { time: Time::ZERO, target: partner } } else { NOTHING };
        Source { next, kind: Kind::PingPong(Box::new(PingPong { partner, turnaround })) }
    }

    /// When the next packet is submitted; [`Time::NEVER`] if none will be without feedback.
    #[inline]
    pub fn next_time(&self) -> Time {
        self.next.time
    }

    /// Prefetches the demands that were drawn.
    #[inline]
    pub fn prefetch(&self) {
        if let Kind::OpenLoop(ahead) = &self.kind {
            prefetch_whole(&ahead.demands);
        } else if let Kind::OfMany(ahead) = &self.kind {
            prefetch_whole(&**ahead);
        }
    }

    /// Hands over the next packet and draws the one after it. There must be one, see
    /// [`Source::next_time`].
    #[inline(always)]
    pub fn take(&mut self) -> Demand {
        let demand = self.next;
        // The usual kind without a table of kinds.
        self.next = if let Kind::OpenLoop(ahead) = &mut self.kind {
            ahead.after()
        } else {
            self.after_other()
        };
        demand
    }

    fn after_other(&mut self) -> Demand {
        match &mut self.kind {
            Kind::OpenLoop(ahead) => ahead.after(),
            Kind::OfMany(ahead) => ahead.after(),
            Kind::List(rest) => rest.next().unwrap_or(NOTHING),
            Kind::Silent | Kind::Greedy(_) | Kind::PingPong(_) => NOTHING,
        }
    }

    /// The slot at whose beginnings it submits all of its packets, if it does so.
    pub fn slot(&self) -> Option<Span> {
        match &self.kind {
            Kind::OpenLoop(own) => own.process.law.arrivals.slot(),
            Kind::OfMany(own) => own.law.arrivals.slot(),
            Kind::Silent | Kind::Greedy(_) | Kind::PingPong(_) | Kind::List(_) => None,
        }
    }

    /// Whether it sends nothing.
    pub fn is_silent(&self) -> bool {
        matches!(self.kind, Kind::Silent)
    }

    /// The feedback that the engine must give this source; the same for the whole run.
    pub fn feedback(&self) -> Feedback {
        match self.kind {
            Kind::Silent | Kind::OpenLoop(_) | Kind::OfMany(_) | Kind::List(_) => Feedback::None,
            Kind::Greedy(_) => Feedback::Ready,
            Kind::PingPong(_) => Feedback::Delivered,
        }
    }

    /// The adapter can take another packet at `now`. A greedy source then has one, unless the one
    /// before has not been taken yet; it means nothing to others.
    pub fn ready(&mut self, now: Time) {
        if let Kind::Greedy(greedy) = &mut self.kind
            && self.next.time == Time::NEVER
        {
            let target = greedy.targets.draw(&mut greedy.destinations);
            self.next = Demand { time: now, target };
        }
    }

    /// The last byte of a packet from host `from` reached this host at `now`. A ping-pong source
    /// then has the response; it means nothing to others.
    pub fn delivered(&mut self, now: Time, from: u32) {
        if let Kind::PingPong(own) = &self.kind
            && own.partner == from
        {
            let PingPong { partner, turnaround } = **own;
            self.next = Demand { time: now + turnaround, target: partner };
        }
    }
}

impl Ahead {
    /// The demand after the one that was returned last.
    #[inline]
    fn after(&mut self) -> Demand {
        if self.demands.next == DRAWN {
            self.draw();
        }
        let Demands { next, drawn } = &mut self.demands;
        *next += 1;
        drawn[*next - 1]
    }

    #[inline(never)]
    fn draw(&mut self) {
        let Demands { next, drawn } = &mut self.demands;
        let OpenLoop { law, times, destinations } = &mut self.process;
        let (times, targets) = law.draw::<DRAWN>(drawn[DRAWN - 1], times, destinations);
        for (demand, (time, target)) in drawn.iter_mut().zip(times.into_iter().zip(targets)) {
            *demand = Demand { time, target };
        }
        *next = 0;
    }
}

impl OfMany {
    /// The demand after the one that was returned last.
    #[inline]
    fn after(&mut self) -> Demand {
        if self.next as usize == DRAWN_OF_MANY {
            self.draw();
        }
        let place = self.next as usize;
        self.next += 1;
        Demand { time: self.times[place], target: self.targets[place] }
    }

    #[inline(never)]
    fn draw(&mut self) {
        let [mut times, mut destinations] = self.all.streams(self.host, self.words);
        let last = DRAWN_OF_MANY - 1;
        let last = Demand { time: self.times[last], target: self.targets[last] };
        (self.times, self.targets) = self.law.draw(last, &mut times, &mut destinations);
        self.words = [times.words(), destinations.words()];
        self.next = 0;
    }
}

impl OpenLoop {
    fn first(&mut self) -> Demand {
        let OpenLoop { law, times, destinations } = self;
        if let Some(bursts) = &mut law.bursts {
            bursts.left = bursts.law.draw(&mut bursts.lengths) - 1;
        }
        let time = law.arrivals.first(times);
        Demand { time, target: law.targets.draw(destinations) }
    }
}

impl Law {
    /// The times and targets of the `N` packets after the last one. Times saturate at [`Time::NEVER`].
    #[inline]
    fn draw<const N: usize>(
        &mut self,
        mut last: Demand,
        times: &mut Stream,
        destinations: &mut Stream,
    ) -> ([Time; N], [u32; N]) {
        let (mut drawn, mut targets) = ([last.time; N], [last.target; N]);
        if self.bursts.is_some() {
            for (time, target) in drawn.iter_mut().zip(&mut targets) {
                last = self.after(last, times, destinations);
                (*time, *target) = (last.time, last.target);
            }
            return (drawn, targets);
        }
        self.arrivals.follow(last.time, &mut drawn, times);
        self.targets.draw_all(&mut targets, destinations);
        (drawn, targets)
    }

    /// The packet after the last one.
    #[inline]
    fn after(&mut self, last: Demand, times: &mut Stream, destinations: &mut Stream) -> Demand {
        if let Some(bursts) = &mut self.bursts {
            if bursts.left > 0 {
                bursts.left -= 1;
                let time = Time(last.time.0.saturating_add(bursts.law.spacing));
                if bursts.law.same_target {
                    return Demand { time, target: last.target };
                }
                return Demand { time, target: self.targets.draw(destinations) };
            }
            bursts.left = bursts.law.draw(&mut bursts.lengths) - 1;
        }
        let time = Time(last.time.0.saturating_add(self.arrivals.gap(times)));
        Demand { time, target: self.targets.draw(destinations) }
    }
}

#[cfg(test)]
mod tests {
    use weft_kernel::Streams;

    use super::super::burst::{BurstLength, BurstSettings, BurstTargets};
    use super::*;

    #[test]
    fn a_list_is_handed_over_in_order_of_time() {
        let demand = |time, target| Demand { time: Time(time), target };
        let mut source = Source::list(vec![demand(50, 1), demand(20, 2), demand(50, 0)]);
        let taken: Vec<Demand> = (0..3).map(|_| source.take()).collect();
        assert_eq!(taken, [demand(20, 2), demand(50, 1), demand(50, 0)]);
        assert_eq!(source.next_time(), Time::NEVER);
    }

    #[test]
    fn a_greedy_source_has_one_packet_whenever_the_adapter_is_ready() {
        let mut source = Source::greedy(Targets::Fixed(3), Streams::new(1).stream("t", 0));
        assert_eq!(source.feedback(), Feedback::Ready);
        source.ready(Time(5));
        assert_eq!(source.take(), Demand { time: Time::ZERO, target: 3 });
        assert_eq!(source.next_time(), Time::NEVER);
        source.ready(Time(70));
        source.ready(Time(80));
        assert_eq!(source.take(), Demand { time: Time(70), target: 3 });
    }

    #[test]
    fn ping_pong_keeps_one_packet_on_the_way() {
        let mut initiator = Source::ping_pong(1, Span(10), true);
        let mut target = Source::ping_pong(0, Span(10), false);
        assert_eq!(target.next_time(), Time::NEVER);
        assert_eq!(initiator.take(), Demand { time: Time::ZERO, target: 1 });
        target.delivered(Time(100), 7);
        assert_eq!(target.next_time(), Time::NEVER);
        target.delivered(Time(100), 0);
        assert_eq!(target.take(), Demand { time: Time(110), target: 0 });
        assert_eq!(initiator.next_time(), Time::NEVER);
        initiator.delivered(Time(210), 1);
        assert_eq!(initiator.take(), Demand { time: Time(220), target: 1 });
    }

    #[test]
    fn a_source_is_small_beside_its_process() {
        assert!(size_of::<Source>() <= 32, "{} bytes", size_of::<Source>());
        let (one, of_many) = (size_of::<Ahead>(), size_of::<OfMany>());
        assert!(of_many <= 312 && 2 * of_many <= one, "{of_many} bytes beside {one}");
    }

    #[test]
    fn one_of_very_many_hosts_sends_what_one_of_few_would() {
        let settings = BurstSettings {
            length: BurstLength::Geometric(3.0),
            targets: BurstTargets::Same,
            spacing: Span(40),
        };
        let law = settings.build().unwrap();
        for (number, has_bursts) in [(1, false), (2, true)] {
            let taken = |hosts| {
                let streams = Streams::new(number);
                let bursts = || Bursts { law, lengths: streams.stream("bursts", 7), left: 0 };
                let [times, destinations] = ["times", "to"].map(|name| streams.purpose(name));
                let all = Arc::new(OpenLoops { hosts, times, destinations });
                let law = Law {
                    arrivals: Arrivals::Poisson { mean: 1e4 },
                    targets: Targets::Others { host: 7, others: 99 },
                    bursts: has_bursts.then(|| Box::new(bursts())),
                };
                let mut source = Source::open_loop(law, 7, &all);
                (0..1_000).map(|_| source.take()).collect::<Vec<_>>()
            };
            assert_eq!(taken(VERY_MANY), taken(VERY_MANY - 1));
        }
    }
}
