//! How the settings of control, interface, message and link parts are written in a file.

#![allow(clippy::unwrap_used, reason = "a test that meets an error has failed")]

use expect_test::{Expect, expect};
use serde::de::DeserializeOwned;
use weft_fabric::control::{GlobalScheduleSettings, SlotTimingSettings, Speculation};
use weft_fabric::interface::{BusSettings, NicSettings};
use weft_fabric::link::{DamagedSlot, ErrorSettings, LineCode, LinkBudgetSettings};
use weft_fabric::message::ActiveMessageSettings;
use weft_fabric::scheduler::SchedulerSettings;
use weft_protocol::adapter::{Prefetch, Release};
use weft_units::{Bytes, Rate, Span};

fn read<S: DeserializeOwned>(text: &str) -> S {
    toml::from_str(text).unwrap()
}

fn refused<S: DeserializeOwned>(text: &str, expected: Expect) {
    let error = toml::from_str::<S>(text).err().unwrap();
    expected.assert_eq(error.message());
}

#[test]
fn a_global_schedule() {
    let settings: GlobalScheduleSettings =
        read("speculation = 'fewest_requests'\n[scheduler.least_choice_first]\nround_robin = true");
    assert_eq!(settings.speculation, Speculation::FewestRequests);
    assert!(matches!(settings.scheduler, SchedulerSettings::LeastChoiceFirst(_)));
    let settings: GlobalScheduleSettings = read("[scheduler.islip]");
    assert_eq!(settings.speculation, Speculation::Off);
    refused::<GlobalScheduleSettings>(
        "speculation = 'always'\n[scheduler.islip]",
        expect![
            "unknown variant `always`, expected one of `off`, `fixed_priority`, `fewest_requests`"
        ],
    );
}

#[test]
fn the_slots_of_clint() {
    let settings: SlotTimingSettings = read("gap = '200 ns'\nrelock = 0.05\nlead = '1880 ns'");
    let packet = Rate::from_bits_per_second(2_000_000_000).span(Bytes(2086));
    let timing = settings.build(packet).unwrap();
    // (8344 + 200) / 0.95 = 8993.684 ns
    assert_eq!(timing.slot(), Span(8_993_684));
    refused::<SlotTimingSettings>("relock = 5", expect!["fraction must lie in 0..=1, got 5"]);
}

#[test]
fn an_adapter() {
    let settings: NicSettings = read(
        "host_send_buffers = 64\nsend_buffers = 16\nhost_receive_buffers = 64\n\
         receive_buffers = 16\nmessage = '2080 B'\nrelease = 'transmission'\n\
         [prefetch.per_target]\nlimit = 4\n[bus]\nhost_write = '400 ns'\ndma_rate = '2112 Mbit/s'",
    );
    assert_eq!(settings.prefetch, Prefetch::PerTarget { limit: 4 });
    assert_eq!((settings.release, settings.entry), (Release::Transmission, Bytes(0)));
    assert_eq!(settings.bus.poll, Span::ZERO);
    let error = toml::from_str::<BusSettings>("host_writes = '400 ns'").unwrap_err();
    assert!(
        error.message().starts_with("unknown field `host_writes`, expected one of `host_write`")
    );
    refused::<NicSettings>(
        "prefetch = 'random'",
        expect![
            "unknown variant `random`, expected one of `fifo`, `different_targets`, `per_target`"
        ],
    );
}

#[test]
fn errors_codes_and_budgets() {
    let settings: ErrorSettings = read("bit_error_rate = 1e-12\nslots = [{ host = 3, slot = 17 }]");
    assert_eq!(settings.slots, [DamagedSlot { host: 3, slot: 17 }]);
    assert!(!settings.is_free_of_errors());
    assert_eq!(read::<LinkBudgetSettings>("").budget().total().to_string(), "10.9 dB");
    let longer: LinkBudgetSettings = read("length = '10 m'\nconnector = '0.5 dB'");
    assert_eq!(longer.budget().total().to_string(), "12.8 dB");
    let code = |name: &str| toml::Value::from(name).try_into::<LineCode>();
    assert_eq!(code("8b10b"), Ok(LineCode::EightToTen));
    assert!(code("8B/10B").is_err());
    assert_eq!(read::<ActiveMessageSettings>("handler = '2 us'").handler, Span::from_ns(2_000));
}
