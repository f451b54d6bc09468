//! The contract of every channel with the layer above it: each driver that carries messages is in
//! the list of [`channels`].

#![allow(clippy::expect_used, clippy::panic, reason = "a test that cannot go on fails")]

mod channels;

use std::collections::BTreeMap;

use channels::{Channel, channels};
use proptest::prelude::*;
use weft_fabric::measure::{Latency, Observations};
use weft_kernel::Halt;
use weft_lab::assemble::Driver;
use weft_lab::drive::Channel as _;
use weft_lab::drive::carrier::{Carrier, Destination, Message, Notice, Ticket};
use weft_units::{Bytes, Span, Time};

/// A message that is handed over at a certain time: from, to, bytes.
type Offer = (u64, u16, u16, u64);

/// Hands messages over and lets the channel run until nothing happens any more. The ticket of a
/// message is its place in `offers`, which are in order of time.
fn carry(driver: &mut Driver, offers: &[Offer]) -> Vec<Notice> {
    let (mut notices, mut next) = (Vec::new(), 0);
    loop {
        let offered = offers.get(next).map_or(Time::NEVER, |offer| Time(offer.0));
        let now = offered.min(driver.next_time());
        if now == Time::NEVER {
            return notices;
        }
        if offered == now {
            let (_, from, to, size) = offers[next];
            let message = Message {
                from,
                to: Destination::Host(to),
                size: Bytes(size),
                ticket: Ticket(next as u64),
            };
            driver.offer(now, message);
            next += 1;
        } else {
            driver.advance(now, &mut notices);
        }
    }
}

/// The channel's observations of the same packets if sources submit them.
fn by_sources(channel: &Channel, offers: &[Offer], until: Time) -> Observations {
    let packets = offers.iter().flat_map(|(time, from, to, size)| {
        let packet = format!("{{ time = '{time} ps', from = {from}, to = {to} }}");
        std::iter::repeat_n(packet, size.div_ceil(100).max(1) as usize)
    });
    let packets: Vec<String> = packets.collect();
    let workload = format!("[workload.c]\nsource.list = [{}]\n", packets.join(", "));
    let mut driver = channel.build(&workload);
    assert_eq!(driver.run(until, &Halt::new()), None);
    driver.into_observations()
}

/// The channel's observations of the packets of messages, and of the same packets submitted by
/// sources.
fn both_ways(channel: &Channel, offers: &[Offer]) -> [Observations; 2] {
    let mut driver = channel.build("");
    let notices = carry(&mut driver, offers);
    let until = notices.iter().map(|notice| notice.time()).max().expect("some");
    [driver.into_observations(), by_sources(channel, offers, until + Span(100_000_000))]
}

/// Messages of up to four packets among four hosts within 40 us, each at a picosecond of its own:
/// all that happens in a channel is whole nanoseconds apart, so that no two of them meet by chance.
/// Which of two packets that meet goes first, no channel promises.
fn offers() -> impl Strategy<Value = Vec<Offer>> {
    let offer = (0..40_000_u64, 0..4_u16, 1..4_u16, 0..400_u64);
    proptest::collection::vec(offer, 1..40).prop_map(|mut offers| {
        offers.sort();
        let own = |(place, (time, from, ahead, size))| {
            (time * 1_000 + place, from, (from + ahead) % 4, size)
        };
        (0..).zip(offers).map(own).collect()
    })
}

fn check_laws(channel: &Channel, offers: &[Offer], notices: &[Notice]) {
    let name = channel.name;
    let times: Vec<Time> = notices.iter().map(|notice| notice.time()).collect();
    assert!(times.is_sorted(), "{name}: notices out of order: {notices:?}");
    let mut sent = BTreeMap::new();
    let mut last = BTreeMap::new();
    let mut delivered = 0;
    for notice in notices {
        let place = notice.ticket().0 as usize;
        let (time, from, to, size) = offers[place];
        match *notice {
            Notice::Sent { time: at, .. } => {
                let least = Time(time) + channel.least_to_send(size);
                assert!(at >= least, "{name}: sent at {at} before its last byte, at {least}");
                assert_eq!(sent.insert(place, at), None, "{name}: message {place} sent twice");
            }
            Notice::Delivered { time: at, to: host, .. } => {
                assert_eq!(host, to, "{name}: message {place} went astray");
                let before = last.insert((from, to), place);
                assert!(before < Some(place), "{name}: message {place} after {before:?}");
                let least = Time(time) + channel.least(size) + channel.way;
                assert!(at >= least, "{name}: delivered at {at}, before {least}");
                delivered += 1;
            }
            Notice::Lost { .. } => panic!("{name} loses nothing"),
            Notice::FallsThrough { .. } => panic!("{name} connects nobody"),
        }
    }
    assert_eq!((sent.len(), delivered), (offers.len(), offers.len()), "{name}: conservation");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn messages_arrive_once_in_order_and_not_too_early(offers in offers()) {
        for channel in channels() {
            let notices = carry(&mut channel.build(""), &offers);
            check_laws(&channel, &offers, &notices);
        }
    }

    #[test]
    fn packets_of_messages_take_as_long_as_those_of_sources(offers in offers()) {
        for channel in channels().into_iter().filter(|channel| !channel.draws_ways) {
            let mut offers = offers.clone();
            if channel.is_window {
                // A submission of a source is one write.
                offers.iter_mut().for_each(|offer| offer.3 = 100);
            }
            let [own, other] = both_ways(&channel, &offers);
            for latency in [Latency::Queueing, Latency::OneWay] {
                let of = |seen: &Observations| {
                    let recorder = seen.recorder(latency);
                    (recorder.count(), recorder.sum_ps(), recorder.max())
                };
                prop_assert_eq!(of(&own), of(&other), "{}: {:?}", channel.name, latency);
            }
            prop_assert_eq!(own.attempts, other.attempts, "{}", channel.name);
        }
    }
}

/// Packets of hosts 2 and 3 leave at 25.53 us for the same output: whichever goes first, both go.
#[test]
fn packets_that_meet_take_as_long_together_whoever_goes_first() {
    let offers = [(24_530_000, 2, 0, 301), (25_530_000, 3, 0, 101), (25_540_000, 3, 0, 0)];
    let queues =
        |channel: &Channel| channel.name.starts_with("output-queued") && !channel.draws_ways;
    let channels: Vec<Channel> = channels().into_iter().filter(queues).collect();
    assert_eq!(channels.len(), 2);
    for channel in channels {
        let seen = both_ways(&channel, &offers).map(|seen| {
            let recorder = seen.recorder(Latency::OneWay);
            (recorder.count(), recorder.sum_ps())
        });
        assert_eq!(seen[0], seen[1], "{}", channel.name);
        assert_eq!(seen[0].0, 7);
    }
}

#[test]
fn a_message_of_one_packet_is_delivered_when_its_packet_is() {
    for channel in channels() {
        let mut driver = channel.build("");
        let notices = carry(&mut driver, &[(700_000, 0, 1, 100)]);
        // Behind an interface it is there when its handler has ended.
        let counters = driver.counters(Time(1_000_000_000));
        let handled = counters.iter().find(|(column, _)| *column == "handled_mean_us");
        let seen = driver.into_observations();
        let one_way = seen.recorder(Latency::OneWay).max().expect("one packet");
        let one_way = handled.map_or(one_way, |(_, us)| Span((us * 1e6).round() as u64));
        let delivered =
            Notice::Delivered { time: Time(700_000) + one_way, ticket: Ticket(0), to: 1 };
        assert!(notices.contains(&delivered), "{}: {notices:?}", channel.name);
    }
}

#[test]
fn a_multicast_reaches_every_target_and_is_sent_once() {
    for channel in channels() {
        let mut driver = channel.build("");
        let (to, ticket) = (Destination::Hosts(0b1101), Ticket(77));
        driver.offer(Time::ZERO, Message { from: 1, to, size: Bytes(250), ticket });
        let notices = carry(&mut driver, &[]);
        let sent = notices.iter().filter(|notice| matches!(notice, Notice::Sent { .. })).count();
        let mut targets: Vec<u16> = notices
            .iter()
            .filter_map(|notice| match notice {
                Notice::Delivered { to, .. } => Some(*to),
                _ => None,
            })
            .collect();
        targets.sort_unstable();
        assert_eq!((sent, targets), (1, vec![0, 2, 3]), "{}", channel.name);
        assert!(notices.iter().all(|notice| notice.ticket() == ticket));
    }
}

#[test]
fn what_collides_where_nothing_is_sent_again_is_lost_and_said_so() {
    let text = "[channel.c.switch.crossbar]\nlatency = '10 ns'\ncontention = 'drop'";
    let mut driver = Channel::new("unacknowledged crossbar", text).build("");
    let offers = [(0, 0, 2, 300), (500_000, 1, 2, 100), (600_000, 1, 2, 100)];
    let notices = carry(&mut driver, &offers);
    let fates: Vec<(u64, bool)> = notices
        .iter()
        .filter_map(|notice| match notice {
            Notice::Sent { .. } => None,
            Notice::Delivered { ticket, .. } => Some((ticket.0, true)),
            Notice::Lost { ticket, .. } | Notice::FallsThrough { ticket, .. } => {
                Some((ticket.0, false))
            }
        })
        .collect();
    assert_eq!(fates, [(1, false), (2, false), (0, true)]);
    assert_eq!(driver.backlog() + driver.in_flight(), 0);
}

#[test]
fn the_same_messages_bring_the_same_notices() {
    let offers: Vec<Offer> = (0..60)
        .map(|n| (n * 300_000, (n % 4) as u16, ((n + 1 + n / 7 % 3) % 4) as u16, n * 9))
        .collect();
    let offers: Vec<Offer> = offers.into_iter().filter(|offer| offer.1 != offer.2).collect();
    for channel in channels() {
        let run = || carry(&mut channel.build(""), &offers);
        assert_eq!(run(), run(), "{}", channel.name);
    }
}
