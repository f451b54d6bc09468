//! Adapters around a crossbar against the byte-by-byte model, event for event.

use proptest::prelude::*;
use weft_fabric::adapter::Insertion;
use weft_fabric::measure::Latency;
use weft_fabric::switch::{AcknowledgmentRule, Contention};
use weft_units::{Bytes, Span, Time};

use crate::adapters::byte_tick::{self, Log, Offer, Setting};
use crate::adapters::parts::{self, BYTE, Star};

const TICKS: u64 = 3_000;

fn star(setting: Setting) -> Star {
    let acknowledgments = if setting.switch_interleaves {
        AcknowledgmentRule::Interleave
    } else {
        AcknowledgmentRule::Collide
    };
    let insertion =
        if setting.adapter_interleaves { Insertion::Interleave } else { Insertion::Wait };
    Star {
        name: "quick".into(),
        ports: setting.hosts as u16,
        packet: Bytes(setting.request),
        payload: Bytes(1),
        link: parts::link(BYTE * setting.propagation),
        switch: parts::crossbar(BYTE * setting.latency, Contention::Drop, acknowledgments),
        adapter: parts::adapter(setting.buffers as u32, insertion),
        control: parts::request_acknowledge(
            BYTE * setting.timeout,
            setting.outstanding as u32,
            setting.acknowledgment,
            BYTE * setting.turn_around,
        ),
    }
}

fn compare(setting: Setting, offers: &[Offer]) {
    let expected = byte_tick::run(setting, offers, TICKS);
    let mut log = Log::new();
    let mut before = [0; 8];
    let list: Vec<_> = offers
        .iter()
        .map(|offer| (Time(offer.tick * BYTE.0), offer.from as u16, offer.to as u16))
        .collect();
    let until = Time(TICKS * BYTE.0);
    let channel = parts::run(star(setting), &list, until, |now, channel| {
        for ((what, count), before) in parts::counters(channel).into_iter().zip(&mut before) {
            if count > *before {
                *log.entry((now.0 / BYTE.0, what)).or_default() += count - *before;
                *before = count;
            }
        }
    });
    assert_eq!(log, expected.log);
    let observations = channel.observations();
    assert_eq!(parts::sum(observations, Latency::Queueing), BYTE * expected.queueing);
    assert_eq!(parts::sum(observations, Latency::RoundTrip), BYTE * expected.round_trips);
}

fn setting(switch_interleaves: bool, adapter_interleaves: bool) -> Setting {
    Setting {
        hosts: 3,
        request: 9,
        acknowledgment: 2,
        propagation: 2,
        latency: 3,
        turn_around: 1,
        timeout: 30,
        outstanding: 4,
        buffers: 4,
        switch_interleaves,
        adapter_interleaves,
    }
}

/// Two hosts send to a third at once, while it sends to both: every kind of encounter.
#[test]
fn a_small_crowd() {
    let offer = |tick, from, to| Offer { tick, from, to };
    let offers = [
        offer(0, 0, 2),
        offer(0, 1, 2),
        offer(3, 2, 0),
        offer(11, 2, 1),
        offer(14, 0, 1),
        offer(15, 1, 0),
        offer(15, 1, 2),
        offer(16, 0, 2),
    ];
    for (switch, adapter) in [(false, false), (true, true), (false, true), (true, false)] {
        compare(setting(switch, adapter), &offers);
    }
}

prop_compose! {
    fn any_setting()(
        hosts in 2_usize..5,
        request in 3_u64..12,
        acknowledgment in 1_u64..4,
        propagation in 1_u64..4,
        latency in 0_u64..4,
        turn_around in 0_u64..4,
        timeout in 8_u64..60,
        outstanding in 1_usize..5,
        buffers in 1_usize..5,
        switch_interleaves: bool,
        adapter_interleaves: bool,
    ) -> Setting {
        Setting {
            hosts, request, acknowledgment, propagation, latency, turn_around, timeout,
            outstanding, buffers, switch_interleaves, adapter_interleaves,
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn any_small_crowd(
        setting in any_setting(),
        offers in prop::collection::vec((0_u64..150, 0_usize..4, 1_usize..4), 1..16),
    ) {
        let mut offers: Vec<Offer> = offers
            .into_iter()
            .map(|(tick, from, ahead)| {
                let from = from % setting.hosts;
                let to = (from + 1 + ahead % (setting.hosts - 1)) % setting.hosts;
                Offer { tick, from, to }
            })
            .collect();
        offers.sort_by_key(|offer| offer.tick);
        compare(setting, &offers);
    }
}

#[test]
fn one_byte_takes_one_tick() {
    let parts = star(setting(true, true));
    assert_eq!(parts.packet_span(), BYTE * 9);
    assert_eq!(parts.round_trip(), Some(Span(9_000 + 2_000 + 1_000 + 2 * 7_000)));
}
