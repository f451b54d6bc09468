//! What one rank has of a network, and how all of them end where something is wrong at one.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use weft_fabric::workload::{Demand, Source};
use weft_kernel::{Halt, Stopped};
use weft_lab::Exchange;
use weft_lab::drive::engine::{Delivery, Engine};
use weft_units::{Limit, PositiveCount, Time};

use super::parts::{build, random_table};
use super::ranks::Pipes;

/// A network, and how many hosts it has.
struct Network {
    text: String,
    hosts: u32,
}

impl Network {
    fn new(fabric: &str, hosts: u32) -> Network {
        let text = format!(
            "{fabric}\n[routes]\nper_packet = 'random'\n\
             [switch]\nlatency = '90 ns'\nbuffers = 'unlimited'\n\
             [other]\nbuffer = 60\nscheduler.islip = {{}}\n\
             [memory]\nlatency = '70 ns'\nbuffer = 8\n\
             [link]\nrate = '1 Gbit/s'\nlength = '40 m'\ndelay_per_metre = '5 ns'\n\
             [workload]\nload = 0.6\n"
        );
        Network {
            text: format!("clocked = 0\nshared = 0\nflow_control = 'credits'\n{text}"),
            hosts,
        }
    }

    /// A tree of 80 switches with 8 ports each.
    fn tree() -> Network {
        Network::new("[fabric.fat_tree]\nradix = 8\ntiers = 3", 128)
    }

    /// Four switches with two hosts each, in a row.
    fn row() -> Network {
        let (table, hosts) = random_table(&[(0, 1, 40), (1, 1, 40), (2, 1, 40)], &[]);
        Network::new(&table, hosts)
    }

    /// The part of a rank with its traffic, in which `change` may replace the source of its first host, and when
    /// its run ends.
    fn part(&self, exchange: &Arc<dyn Exchange>, change: impl Fn(&mut Source)) -> (Engine, Time) {
        let Network { text, hosts } = self;
        let (mut engine, until, _) = build(text, *hosts, 1, &|_| false);
        let part = engine.ranks_of_switches(exchange.ranks(), true).expect("parts");
        let kept = engine.keep_rank(&part, exchange).expect("a part");
        let (.., mut sources) = build(text, *hosts, 1, &|host| kept[host as usize]);
        let own = kept.iter().position(|is_own| *is_own).expect("a host");
        change(&mut sources[own]);
        engine.give_sources(sources, Limit::AtMost(PositiveCount::ONE));
        (engine, until)
    }
}

/// What a run comes to: why it stopped, or what it panicked with.
fn run(
    (mut engine, until): (Engine, Time),
    watch: impl FnMut(Delivery),
) -> Result<Option<Stopped>, String> {
    let ended = catch_unwind(AssertUnwindSafe(|| engine.run_watched(until, &Halt::new(), watch)));
    ended.map_err(|said| *said.downcast::<String>().expect("text"))
}

/// Of four ranks each has the ports of its switches, of its hosts, and one for each cable that leads to the
/// switches of others. Rank 0 has those of all besides, since it reports of them.
#[test]
fn a_rank_of_four_has_a_part_of_the_ports() {
    let whole = build(&Network::tree().text, 128, 1, &|_| true).0.ports_held();
    assert_eq!(whole, 80 * 8 + 128);
    let held = Pipes::run(4, |exchange| Network::tree().part(&exchange, |_| {}).0.ports_held());
    let [first, others @ ..] = &held[..] else { panic!("four ranks") };
    assert!(others.iter().all(|own| 10 * own < 4 * whole), "{held:?} of {whole}");
    assert!((whole + 1..whole * 14 / 10).contains(first), "{held:?} of {whole}");
    // Each port is in one part, and those beyond a border are no more than the ports of all.
    let sum: usize = held.iter().sum::<usize>() - whole;
    assert!((whole + 1..2 * whole).contains(&sum), "{held:?} of {whole}");
}

/// A packet to a host that is not there is a defect of the rank that looks for a way.
#[test]
fn a_defect_at_one_rank_ends_the_run_at_all() {
    let nowhere = |source: &mut Source| {
        *source = Source::list(vec![Demand { time: Time(9_000_000), target: u32::MAX }]);
    };
    for at in 0..3 {
        let ends = Pipes::run(3, |exchange| {
            let is_wrong = exchange.rank() == at;
            run(
                Network::row().part(&exchange, |source| {
                    if is_wrong {
                        nowhere(source)
                    }
                }),
                |_| {},
            )
        });
        let said = ends[0].as_ref().expect_err("a defect");
        assert!(said.starts_with(&format!("rank {at}: index out of bounds")), "{said}");
        assert_eq!(ends[1..], [Ok(Some(Stopped::Asked)), Ok(Some(Stopped::Asked))]);
    }
}

/// Whoever observes at rank 0 may panic, too.
#[test]
fn a_defect_of_the_observer_ends_the_run_at_all() {
    let ends = Pipes::run(3, |exchange| {
        run(Network::tree().part(&exchange, |_| {}), |_| panic!("seen {}", 1))
    });
    assert_eq!(ends[0], Err("rank 0: seen 1".to_owned()));
    assert_eq!(ends[1..], [Ok(Some(Stopped::Asked)), Ok(Some(Stopped::Asked))]);
}

/// Connects ranks, of which rank 1 once gives rank 2 something else.
#[derive(Debug)]
struct Garbled {
    by: Arc<dyn Exchange>,
    calls: AtomicU32,
    change: fn(&mut Vec<u8>),
}

impl Exchange for Garbled {
    fn rank(&self) -> u32 {
        self.by.rank()
    }

    fn ranks(&self) -> u32 {
        self.by.ranks()
    }

    fn exchange(&self, given: &mut [Vec<u8>], take: &mut dyn FnMut(u32, &[u8])) {
        if self.calls.fetch_add(1, Ordering::Relaxed) == 40 && self.rank() == 1 {
            (self.change)(&mut given[2]);
        }
        self.by.exchange(given, take);
    }
}

#[test]
fn what_cannot_be_read_ends_the_run_at_all() {
    let changes: [fn(&mut Vec<u8>); 3] = [
        |bytes| bytes.clear(),
        |bytes| bytes.truncate(bytes.len() - 1),
        // A port of no switch of the part.
        |bytes| bytes[17..].fill(0xff),
    ];
    for change in changes {
        let ends = Pipes::run(3, |exchange| {
            let garbled = Garbled { by: exchange, calls: AtomicU32::new(0), change };
            let garbled: Arc<dyn Exchange> = Arc::new(garbled);
            run(Network::tree().part(&garbled, |_| {}), |_| {})
        });
        assert_eq!(ends[0], Err("rank 2: another rank sent what cannot be read".to_owned()));
        assert_eq!(ends[1..], [Ok(Some(Stopped::Asked)), Ok(Some(Stopped::Asked))]);
    }
}
