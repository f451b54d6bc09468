//! Messages, operations of the adapters, barriers and locks over a hub.

use proptest::prelude::*;
use weft_kernel::Streams;
use weft_lab::assemble::{Driver, Site};
use weft_lab::drive::Channel as _;
use weft_lab::drive::carrier::{Carrier, Destination, Message, Notice, Ticket};
use weft_lab::drive::engine::{Engine, Operation};
use weft_lab::{Options, Plan, Request};
use weft_units::{Bytes, Time};

use super::pages::mapped;

pub fn channel(name: &str, preset: &str, overrides: &[&str]) -> Engine {
    build(name, 1, preset, overrides)
}

/// Generation 2 with the random streams of a seed.
pub fn seeded(seed: u64, preset: &str, overrides: &[&str]) -> Engine {
    build("memory-channel-2", seed, preset, overrides)
}

/// Generation 2 with the sources of its workload.
pub fn with_sources(overrides: &[&str]) -> Engine {
    engine("memory-channel-2", 1, "", overrides, true)
}

fn build(name: &str, seed: u64, preset: &str, overrides: &[&str]) -> Engine {
    engine(name, seed, preset, overrides, false)
}

fn engine(name: &str, seed: u64, preset: &str, overrides: &[&str], is_fed: bool) -> Engine {
    let mut all = vec!["channel.memory.window.check_order=true".to_owned()];
    all.extend(overrides.iter().map(|text| (*text).to_owned()));
    let plan = Plan::new(&Request::new(name, Some(preset), &all))
        .unwrap_or_else(|error| panic!("{error}"));
    let spec = &plan.points[0].spec;
    let streams = Streams::new(seed);
    let (from, until) = (Time::ZERO, Time(1_000_000_000));
    let hosts = spec.system.hosts;
    let site = Site { name: "memory", hosts, streams: &streams, from, until, sample: None };
    let workload = spec.workload.get("memory").filter(|_| is_fed);
    match Driver::new(&spec.channel["memory"], workload, site) {
        Ok(Driver::Engine(channel)) => *channel,
        other => panic!("{other:?}"),
    }
}

/// Lets everything happen that is under way.
pub fn finish(channel: &mut Engine) -> Vec<Notice> {
    let mut notices = Vec::new();
    while channel.next_time() < Time::NEVER {
        let now = channel.next_time();
        channel.advance(now, &mut notices);
    }
    assert_eq!((channel.backlog(), channel.in_flight(), channel.broken_order()), (0, 0, None));
    notices
}

pub fn delivered(notices: &[Notice], ticket: u64) -> Vec<(u64, u16)> {
    let of = |notice: &Notice| match *notice {
        Notice::Delivered { time, ticket: Ticket(own), to } if own == ticket => Some((time.0, to)),
        _ => None,
    };
    notices.iter().filter_map(of).collect()
}

fn operate(preset: &str, operation: Operation) -> u64 {
    let mut channel = channel("memory-channel-2", preset, &[]);
    channel.begin_operation(Time::ZERO, 0, operation, Ticket(1)).expect("no page is mapped");
    let notices = finish(&mut channel);
    // A read tells its target, too, when its memory has been read.
    match delivered(&notices, 1)[..] {
        [(time, 0)] => time,
        [(read, 1), (time, 0)] if read < time => time,
        _ => panic!("{notices:?}"),
    }
}

/// There: store 330 ns, 4 cycles of the bus, adapters 750, link 8 cycles of 15 ns, cable 50, 4 cycles
/// of the bus. Back: no store, but memory and poll. A read brings 32 bytes: 11 cycles on either bus
/// and 22 on the link.
#[test]
fn a_sweep_and_a_read_by_hand() {
    let there = 330_000 + 121_212 + 750_000 + 120_000 + 50_000;
    let back = 750_000 + 120_000 + 50_000 + 121_212 + 580_000;
    assert_eq!(operate("virtual_hub", Operation::Sweep { targets: 2 }), there + 121_212 + back);
    let read = operate("virtual_hub", Operation::Read { target: 1, offset: 0, size: Bytes(32) });
    let longer = (330_000 - 120_000) + (333_333 - 121_212);
    assert_eq!(read, there + 333_333 + back + longer);
}

/// MC-R20: by round trip the receiver may use a message after three ways, by a conditional write
/// after one: "reducing the associated latency by more than a factor of two".
#[test]
fn a_conditional_write_more_than_halves_a_recoverable_message() {
    let round_trip = operate("virtual_hub", Operation::Sweep { targets: 2 });
    let mut one = channel("memory-channel-2", "virtual_hub", &[]);
    let message = Message { from: 0, to: Destination::Host(1), size: Bytes(8), ticket: Ticket(1) };
    one.offer(Time::ZERO, message);
    let one_way = delivered(&finish(&mut one), 1)[0].0;
    assert!(round_trip + one_way > 2 * one_way, "{round_trip} {one_way}");
    let size = Bytes(8);
    let conditional = operate("virtual_hub", Operation::Conditional { target: 1, offset: 0, size });
    assert!(conditional < round_trip + one_way, "{conditional}");
}

/// A sweep is answered behind everything that was sent before it.
#[test]
fn a_sweep_follows_what_was_sent_before() {
    let mut channel = channel("memory-channel-2", "", &[]);
    for (ticket, to) in [(1, 1), (2, 3)] {
        let message = Message {
            from: 0,
            to: Destination::Host(to),
            size: Bytes(5_000),
            ticket: Ticket(ticket),
        };
        channel.offer(Time::ZERO, message);
    }
    channel
        .begin_operation(Time::ZERO, 0, Operation::Sweep { targets: 0b1010 }, Ticket(3))
        .expect("free");
    let notices = finish(&mut channel);
    let swept = delivered(&notices, 3)[0].0;
    assert!([1, 2].iter().all(|ticket| delivered(&notices, *ticket)[0].0 < swept));
}

#[test]
fn a_remote_read_of_a_page_without_the_attribute_is_refused() {
    let pages = mapped(&[(0, 0, "reach = { point = 1 }")], &[(1, 0, "")]);
    let pages: Vec<&str> = pages.iter().map(String::as_str).collect();
    let mut channel = channel("memory-channel-2", "", &pages);
    let read = |offset| Operation::Read { target: 1, offset, size: Bytes(8) };
    let refused =
        channel.begin_operation(Time::ZERO, 0, read(0), Ticket(1)).map_err(|e| e.to_string());
    let text = "page 0 of node 1 has no attribute remote_read: it can be written and not read";
    assert_eq!(refused, Err(text.to_owned()));
    let refused =
        channel.begin_operation(Time::ZERO, 0, read(1 << 40), Ticket(1)).map_err(|e| e.to_string());
    assert!(refused.is_err_and(|text| text.contains("of a window of 128 MiB")));
}

fn program(name: &str, overrides: &[&str]) -> Vec<(String, f64)> {
    let mut all = vec!["channel.memory.window.check_order=true".to_owned()];
    all.extend(overrides.iter().map(|text| (*text).to_owned()));
    let request = Request::new(name, None, &all);
    let outcome = weft_lab::run(&request, &Options::default(), &mut |_, _| true);
    let outcome = outcome.unwrap_or_else(|error| panic!("{error}"));
    let points = outcome.tables.into_iter().find(|(name, _)| *name == "points").expect("points").1;
    let number = |column: &str| Some((column.to_owned(), points.number(0, column)?));
    ["program_lock_mean_us", "program_barrier_mean_us"].into_iter().filter_map(number).collect()
}

#[test]
fn locks_and_barriers_end_on_either_generation() {
    for name in ["memory-channel-1", "memory-channel-2"] {
        let lock = "program.run.ordered_lock={ rounds = 3, hold = '1 us', back_off = '3 us' }";
        assert_eq!(program(name, &[lock]).len(), 1, "{name}");
        let barrier = "program.run.barrier={ rounds = 3, by = 'channel' }";
        assert_eq!(program(name, &[barrier]).len(), 1, "{name}");
        let errors = "channel.memory.errors.packet_error_rate=0.005";
        let recovery = "channel.memory.window.recovery=10 us";
        let mean = |with: &[&str]| program(name, with)[0].1;
        assert!(mean(&[lock, errors, recovery]) > mean(&[lock]), "{name}");
        assert!(mean(&[barrier, errors, recovery]) > mean(&[barrier]), "{name}");
    }
}

#[test]
fn an_ordered_lock_is_refused_where_there_is_no_order() {
    let all =
        ["program.run.ordered_lock.back_off=3 us".to_owned(), "program.channel=quick".to_owned()];
    let request = Request::new("clint", None, &all);
    let refused = weft_lab::run(&request, &Options::default(), &mut |_, _| true);
    let text = refused.map(|_| ()).map_err(|error| error.to_string());
    assert!(text.as_ref().is_err_and(|text| text.contains("needs 2 to 64 ranks")), "{text:?}");
}

/// Messages of any size among four hosts, some to several.
fn offers() -> impl Strategy<Value = Vec<(u64, u16, u64, u64)>> {
    let one = (0_u64..20_000_000, 0_u16..4, 1_u64..16, 0_u64..700);
    proptest::collection::vec(one, 1..40).prop_map(|mut all| {
        all.iter_mut().for_each(|offer| offer.2 &= !(1 << offer.1));
        all.retain(|offer| offer.2 != 0);
        all.sort_unstable();
        all
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, failure_persistence: None, ..ProptestConfig::default() })]

    /// Each message leaves once and reaches each target once, those of a pair in order, and the
    /// order of all holds; the same messages bring the same notices.
    #[test]
    fn messages_arrive_once_and_in_order(
        offers in offers(),
        (name, preset) in prop::sample::select(vec![
            ("memory-channel-1", ""), ("memory-channel-2", ""), ("memory-channel-2", "flag"),
        ]),
    ) {
        let carry = || {
            let mut channel = channel(name, preset, &["system.hosts=4"]);
            let mut notices = Vec::new();
            for (ticket, (time, from, to, size)) in (0..).zip(&offers) {
                while channel.next_time() <= Time(*time) {
                    let now = channel.next_time();
                    channel.advance(now, &mut notices);
                }
                let to = Destination::Hosts(*to);
                let message =
                    Message { from: *from, to, size: Bytes(*size), ticket: Ticket(ticket) };
                channel.offer(Time(*time), message);
            }
            notices.extend(finish(&mut channel));
            notices
        };
        let notices = carry();
        prop_assert_eq!(&notices, &carry());
        let mut last = std::collections::BTreeMap::new();
        for (ticket, (_, from, to, _)) in (0..).zip(&offers) {
            let sent = |notice: &&Notice| {
                matches!(notice, Notice::Sent { ticket: Ticket(own), .. } if *own == ticket)
            };
            prop_assert_eq!(notices.iter().filter(sent).count(), 1);
            let reached = delivered(&notices, ticket);
            let targets = reached.iter().fold(0, |all, (_, to)| all | 1 << to);
            prop_assert_eq!((targets, reached.len() as u32), (*to, to.count_ones()));
            for (time, to) in reached {
                let before = last.insert((*from, to), time).unwrap_or(0);
                prop_assert!(before <= time);
            }
        }
    }
}
