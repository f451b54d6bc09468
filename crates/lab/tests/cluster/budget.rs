//! Where the time went, in both channels at once: the stages follow each other without a gap, so
//! they add up to the latency from end to end, whatever goes wrong on the way.

use weft_fabric::measure::{Latency, Stage};

use super::{channel, runs};

const COMMON: [&str; 4] = [
    "run.length=3 ms",
    "run.regime=from_empty",
    "workload.bulk={ load = 0.6, burst.length.uniform = [1, 5] }",
    "workload.quick={ load = 0.15, burst.length.uniform = [1, 5] }",
];

/// The interface of `one_message_from_program_to_handler`, with small pools.
fn interface(message: &str) -> String {
    format!(
        "{{ host_send_buffers = 6, host_receive_buffers = 4, receive_buffers = 2, \
         message = '{message}', entry = '8 B', bus = {{ host_write = '100 ns', poll = '50 ns', \
         dma_setup = '200 ns', dma_rate = '4 Gbit/s' }}, \
         handlers = {{ dispatch = '100 ns', handler = '300 ns' }} }}"
    )
}

#[test]
fn the_budget_adds_up_to_the_latency_on_both_channels() {
    let errors = [
        "channel.bulk.adapter.release=acknowledgment",
        "channel.bulk.errors.packet_error_rate=0.05",
        "channel.quick.errors.packet_error_rate=0.02",
    ];
    let receivers = [
        "channel.bulk.adapter.release=acknowledgment",
        "channel.bulk.receiver={ buffers = 2, service = '10 us' }",
        "channel.quick.receiver={ buffers = 2, service = '0.6 us' }",
    ];
    let (bulk, quick) = (interface("2080 B"), interface("32 B"));
    let bulk = format!("channel.bulk.interface={bulk}");
    let quick = format!("channel.quick.interface={quick}");
    let interfaces = ["channel.bulk.adapter.release=acknowledgment", bulk.as_str(), quick.as_str()];
    let speculation = ["channel.bulk.switch.scheduled.speculation=fixed_priority"];
    let cases: [&[&str]; 5] = [&[], &errors, &receivers, &interfaces, &speculation];
    for preset in ["detailed", "q2+detailed"] {
        for case in cases {
            let overrides: Vec<&str> = COMMON.iter().chain(case).copied().collect();
            let runs = runs("clint", Some(preset), &overrides, 3);
            for run in &runs {
                let seen = &run.observations;
                let one_way = seen.recorder(Latency::OneWay);
                let what = format!("{} of {preset} with {case:?}", run.channel);
                assert!(one_way.count() > 500, "{what}: {}", one_way.count());
                assert_eq!(seen.budget.total_ps(), one_way.sum_ps(), "{what}");
            }
        }
    }
}

/// By hand, as in `times`: handed over at 0.5 us, sent at 10 863.158 ns without a wait for a
/// buffer, damaged; nobody answers, which is known two slots of 8983.158 ns later, at
/// 28 829.474 ns. Sampled at 4 slots, 35 932.632 ns, and sent 1880 ns later. The packet takes
/// 8344 ns, two cables of 25 ns and the switch 1.5 ns.
#[test]
fn a_lone_packet_that_is_damaged_once() {
    let overrides = [
        "system.hosts=2",
        "run.length=80 us",
        "run.regime=from_empty",
        "channel.bulk.adapter.release=acknowledgment",
        "channel.bulk.errors.packets=[{ host = 0, packet = 0 }]",
        "workload.bulk.source.list=[{ time = '500 ns', from = 0, to = 1 }]",
    ];
    for preset in [None, Some("detailed")] {
        let runs = runs("clint", preset, &overrides, 1);
        let budget = &channel(&runs, "bulk").observations.budget;
        let spent = [
            (Stage::BufferWait, 0),
            (Stage::SlotWait, 10_863_158 - 500_000),
            (Stage::Retry, 35_932_632 + 1_880_000 - 10_863_158),
            (Stage::Transmission, 8_344_000),
            (Stage::Wire, 50_000),
            (Stage::Switch, 1_500),
        ];
        for (stage, sum) in spent {
            assert_eq!(budget.sum_ps(stage), sum, "{preset:?} {}", stage.name());
            assert_eq!(budget.count(stage), 1);
        }
    }
}

/// By hand: the register write takes 100 ns and the copy 200 ns + 2080 B at 4 Gbit/s = 4160 ns, so
/// that a message handed over at 500 ns is on the adapter at 4960 ns. It is sent at 10 863.158 ns.
#[test]
fn the_way_through_an_interface_is_a_stage_of_its_own() {
    let bulk = format!("channel.bulk.interface={}", interface("2080 B"));
    let overrides = [
        "system.hosts=2",
        "run.length=60 us",
        "run.regime=from_empty",
        "channel.bulk.adapter.release=acknowledgment",
        bulk.as_str(),
        "workload.bulk.source.list=[{ time = '500 ns', from = 0, to = 1 }]",
    ];
    for preset in [None, Some("detailed")] {
        let runs = runs("clint", preset, &overrides, 1);
        let budget = &channel(&runs, "bulk").observations.budget;
        assert_eq!(budget.sum_ps(Stage::InitiatorHost), 4_460_000, "{preset:?}");
        assert_eq!(budget.sum_ps(Stage::SlotWait), 10_863_158 - 4_960_000, "{preset:?}");
        assert_eq!(budget.count(Stage::BufferWait), 0, "{preset:?}");
    }
}
