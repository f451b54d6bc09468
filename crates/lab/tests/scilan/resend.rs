//! A sender stores again the writes that its check finds missing (SC-18, SC-42).

use proptest::prelude::*;
use weft_fabric::measure::Latency;
use weft_kernel::Halt;
use weft_lab::{ChannelRun, Plan, Request, simulate};

/// Messages at instants in us and of one size, from host 0 to 1, with errors on the ring.
fn run(presets: &str, errors: &str, size: &str, instants: &[u64]) -> ChannelRun {
    let at = |time: &u64| format!("{{ time = '{time} us', from = 0, to = 1 }}");
    let list = instants.iter().map(at).collect::<Vec<_>>().join(", ");
    let text = format!(
        "base = 'scilan'\npreset = [{presets}]\n[channel.sci]\n{errors}\n\
         [workload.sci]\nmessage = '{size}'\nsource.list = [{list}]\n\
         [run]\nlength = '50 ms'\nregime = 'from_empty'"
    );
    let plan = Plan::new(&Request::of_text("resend.toml", &text)).unwrap();
    simulate(&plan.points[0].spec, 1, &Halt::new()).unwrap().remove(0)
}

fn one_way_us(run: &ChannelRun) -> f64 {
    assert_eq!(run.observations.delivered, 1);
    run.observations.recorder(Latency::OneWay).max().unwrap().as_us()
}

fn counter(run: &ChannelRun, name: &str) -> f64 {
    let found = run.counters.iter().find(|(own, _)| own.as_ref() == name);
    found.map_or(0.0, |(_, value)| *value)
}

/// The request is damaged each time that it is sent, and given up after three repetitions, 1.88 us after
/// the first began. The check of the unit ends 4 us after the copy; then 64 B are stored again in 64/55 us, and
/// checked in 4 us. The announcement, which the repetition brings, takes the time that it ever takes.
#[test]
fn a_unit_that_a_check_finds_lost_is_stored_again_by_hand() {
    let damaged =
        [0, 1, 2, 3].map(|packet| format!("{{ host = 0, packet = {packet} }}")).join(", ");
    let errors = format!("errors.packets = [{damaged}]");
    let bare = one_way_us(&run("", "", "64 B", &[100]));
    let unharmed = run("'give_up'", "", "64 B", &[100]);
    assert_eq!((one_way_us(&unharmed), counter(&unharmed, "units_resent")), (bare, 0.0));
    let harmed = run("'give_up'", &errors, "64 B", &[100]);
    let by_hand = 3.44 + 64.0 / 55.0 + 4.0 + 64.0 / 55.0 + 4.0 + 0.585 + 0.415 + 7.66 + 64.0 / 36.0;
    assert!((one_way_us(&harmed) - by_hand).abs() < 1e-5, "{} {by_hand}", one_way_us(&harmed));
    assert_eq!(counter(&harmed, "units_resent"), 1.0);
    assert_eq!(counter(&harmed, "ring_given_up"), 1.0);
    // Without the limit the adapters repeat, and the check waits for nothing.
    let repeated = run("", &errors, "64 B", &[100]);
    assert_eq!(counter(&repeated, "ring_damaged"), 4.0);
    assert!((one_way_us(&repeated) - bare).abs() < 1e-9);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// However many requests are given up, every message arrives, whole and once.
    #[test]
    fn whatever_is_damaged_arrives_whole_and_once(
        rate in 0.05f64..0.6,
        size in prop::sample::select(vec![0u64, 64, 100, 1500, 4000]),
        gaps in prop::collection::vec(0u64..300, 1..12),
    ) {
        let instants: Vec<u64> = gaps.iter().scan(1, |time, gap| { *time += gap; Some(*time) }).collect();
        let errors = format!("errors.packet_error_rate = {rate}");
        let run = run("'give_up'", &errors, &format!("{size} B"), &instants);
        prop_assert_eq!(run.observations.delivered, instants.len() as u64);
        prop_assert_eq!(run.observations.abandoned, 0);
        let given_up = counter(&run, "ring_given_up");
        prop_assert!(counter(&run, "units_resent") <= given_up);
        prop_assert_eq!(counter(&run, "units_resent") == 0.0, given_up == 0.0);
    }
}
