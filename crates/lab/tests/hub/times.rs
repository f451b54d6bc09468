//! Hand-worked picoseconds of one write from program to program.

use weft_fabric::measure::Latency;

use super::run;

const GENERATION_2: &str = "memory-channel-2";
const ONE: &str = "workload.memory.source.list=[{ time = '1 us', from = 0, to = 1 }]";

/// The latency of one write of a size, in picoseconds.
fn latency(name: &str, preset: &str, write: &str) -> u64 {
    let write = format!("channel.memory.window.write={write}");
    let run = run(name, preset, &[ONE, &write, "run.length=20 us", "run.regime=from_empty"]);
    assert_eq!(run.observations.delivered, run.observations.generated);
    run.observations.recorder(Latency::OneWay).max().map_or(0, |span| span.0)
}

/// What every write through a direct pair spends: store 330 ns, two adapters of 375 ns, a cable of 50
/// ns, memory 180 ns, poll 400 ns: 1710 ns. On each bus (3 + n/4) cycles of 30.303 ns, on the link
/// (6 + n/2) cycles of 15 ns.
#[test]
fn one_write_through_a_direct_pair() {
    // 4 cycles = 121.212 ns twice, 8 cycles = 120 ns.
    assert_eq!(latency(GENERATION_2, "virtual_hub", "4 B"), 1_710_000 + 2 * 121_212 + 120_000);
    // 5 cycles = 151.515 ns twice, 10 cycles = 150 ns: 2.163 us, published as 2.17.
    assert_eq!(latency(GENERATION_2, "virtual_hub", "8 B"), 1_710_000 + 2 * 151_515 + 150_000);
    // 11 cycles = 333.333 ns twice, 22 cycles = 330 ns.
    assert_eq!(latency(GENERATION_2, "virtual_hub", "32 B"), 1_710_000 + 2 * 333_333 + 330_000);
    // 67 cycles = 2030.303 ns twice, 134 cycles = 2010 ns.
    let long = 1_710_000 + 2 * 2_030_303 + 2_010_000;
    assert_eq!(latency(GENERATION_2, "virtual_hub", "256 B"), long);
}

/// The hub is cut through: it adds its 450 ns and a second cable of 50 ns, whatever the size.
#[test]
fn one_write_through_the_hub() {
    for write in ["4 B", "32 B", "256 B"] {
        let direct = latency(GENERATION_2, "virtual_hub", write);
        assert_eq!(latency(GENERATION_2, "", write), direct + 500_000, "{write}");
    }
}

/// The flag follows its message by 5 cycles of the bus and the stall of one, and costs 248 ns to read
/// the message.
#[test]
fn a_message_and_its_flag() {
    let plain = latency(GENERATION_2, "virtual_hub", "8 B");
    let flagged = latency(GENERATION_2, "virtual_hub+flag", "8 B");
    assert_eq!(flagged, plain + 181_818 + 248_000);
}

/// The stages of the budget add up to the latency.
#[test]
fn the_budget_adds_up() {
    for preset in ["", "virtual_hub", "virtual_hub+flag", "network"] {
        for arrivals in [ONE, "workload.memory={ load = 0.6, arrivals = 'poisson' }"] {
            let run = run(
                GENERATION_2,
                preset,
                &[
                    arrivals,
                    "run.length=300 us",
                    "run.regime=from_empty",
                    "channel.memory.window.check_order=true",
                ],
            );
            let recorder = run.observations.recorder(Latency::OneWay);
            let sum = recorder.mean_ps().unwrap_or(0.0) * recorder.count() as f64;
            let budget = run.observations.budget.total_ps() as f64;
            assert!((sum / budget - 1.0).abs() < 1e-9, "{preset} {arrivals}: {sum} {budget}");
        }
    }
}
