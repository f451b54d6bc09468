//! Hand-worked picoseconds of one packet through the whole path.

use weft_fabric::measure::Latency;

use super::{channel, counter, runs, trace};

const BULK: &str = "workload.bulk.source.list=[{ time = '500 ns', from = 0, to = 1 }]";

fn entries(overrides: &[&str]) -> Vec<(&'static str, u64, u64)> {
    let fixed = ["system.hosts=2", "run.length=40 us", "run.trace=true", "run.regime=from_empty"];
    let all: Vec<&str> = fixed.iter().chain(overrides).copied().collect();
    let runs = runs("clint", Some("detailed"), &all, 1);
    trace(&runs).iter().map(|entry| (entry.kind, entry.time.0, entry.until.0)).collect()
}

/// The slot is (8344 + 190) / 0.95 = 8983.158 ns; the packet comes at 0.5 us, after the sampling of
/// cycle 0. Cycle 1 is sampled at 8983.158 ns:
///
/// * `cfg`, 19 bytes at 528 Mbit/s = 287.879 ns, and 25 ns of cable: there at 9296.037 ns;
/// * `gnt` 1260 ns later, at 10 556.037 ns; 90 ns of switch, 60.606 ns of packet and 25 ns of
///   cable: there at 10 731.643 ns;
/// * `breq` 1880 ns after the sampling, at 10 863.158 ns; 8344 ns of packet, 1.5 ns of switch and
///   50 ns of cable: there at 19 258.658 ns;
/// * `back` at once: 60.606 ns of packet, 90 ns of switch and 50 ns of cable: 19 459.264 ns.
#[test]
fn one_bulk_packet_from_configuration_to_acknowledgment() {
    let all = entries(&[BULK]);
    let of = |kind: &str| -> Vec<(u64, u64)> {
        let of_kind = all.iter().filter(|entry| entry.0 == kind);
        of_kind.map(|entry| (entry.1, entry.2)).collect()
    };
    assert_eq!(of("cfg")[2..4], [(8_983_158, 9_296_037); 2]);
    assert_eq!(of("gnt")[2..4], [(10_556_037, 10_731_643); 2]);
    assert_eq!(of("breq"), [(10_863_158, 19_258_658)]);
    assert_eq!(of("back"), [(19_258_658, 19_459_264)]);
}

/// 36 bytes at 528 Mbit/s are 545.455 ns, 4 bytes 60.606 ns; each way has 50 ns of cable and 90 ns
/// of switch. From 2000 ns on, the request is there at 2685.455 ns and the acknowledgment at
/// 2886.061 ns.
#[test]
fn one_quick_packet_there_and_back() {
    let quick = "workload.quick.source.list=[{ time = '2 us', from = 1, to = 0 }]";
    let all = entries(&[quick]);
    let quick: Vec<_> = all.into_iter().filter(|entry| entry.0.starts_with('q')).collect();
    assert_eq!(quick, [("qreq", 2_000_000, 2_685_455), ("qack", 2_685_455, 2_886_061)]);
}

/// Configurations occupy the links up to 287.879 ns. Grants reach the outputs 1572.879 ns after
/// the sampling, as if they came from an input, and are through 60.606 ns later: a request of
/// 545.455 ns starts by 1002.424 ns, or else after 1608.485 ns, 25 ns of cable before that.
#[test]
fn requests_keep_clear_of_configurations_and_grants() {
    let start = |time: &str| {
        let list = format!("workload.quick.source.list=[{{ time = '{time}', from = 0, to = 1 }}]");
        entries(&[&list]).iter().find(|entry| entry.0 == "qreq").unwrap().1
    };
    assert_eq!(start("100 ns"), 287_879);
    assert_eq!(start("1002424 ps"), 1_002_424);
    assert_eq!(start("1002425 ps"), 1_608_485);
    assert_eq!(start("8.437703 us"), 8_437_703, "ends as the next configuration starts");
    assert_eq!(start("8.437704 us"), 8_983_158 + 287_879);
}

/// CL-R15: "calculated round-trip times". Quick: 36 + 4 bytes and two ways, 886.061 ns, the paper's
/// "1 us". Bulk: 8344 ns and 4 bytes and two ways, 8596.106 ns; the paper's two digits are lost.
#[test]
fn round_trips_without_disturbance() {
    let overrides = [
        "system.hosts=2",
        "run.length=40 us",
        "run.regime=from_empty",
        BULK,
        "workload.quick.source.list=[{ time = '2 us', from = 1, to = 0 }]",
    ];
    let runs = runs("clint", Some("detailed"), &overrides, 1);
    let trip = |name| channel(&runs, name).observations.recorder(Latency::RoundTrip).mean_ps();
    assert_eq!(trip("bulk"), Some(8_596_106.0));
    assert_eq!(trip("quick"), Some(886_061.0));
}

/// CL-R6: "the transmission of the acknowledgment and scheduling packets consumes 5 % of the quick
/// channel bandwidth": 27 bytes at 66 Mbyte/s in each slot of 8983.158 ns are 4.554 % if every slot
/// transfers; `cfg` and `gnt` alone are 3.879 %. At a bulk load of 0.8, 86 % of the slots transfer.
#[test]
fn signalling_takes_its_share_of_the_quick_channel() {
    let share = |load: &str| {
        let load = format!("workload.bulk.load={load}");
        let overrides = ["run.length=2 ms", "run.regime=from_empty", &load];
        let runs = runs("clint", Some("detailed"), &overrides, 1);
        counter(channel(&runs, "bulk"), "signalling_share")
    };
    assert!((share("0") - 0.038_79).abs() < 0.000_1, "{}", share("0"));
    let loaded = share("0.8");
    assert!((0.0442..0.0447).contains(&loaded), "{loaded}");
}

/// CL-60: cables of 5, 2 and 4 m, 25, 10 and 20 ns, with ideal signalling. At the longest cable cycle 1
/// starts at 10 863.158 ns. By the gap alone host 1, whose grant comes 15 ns earlier, starts as much
/// earlier, and its packet is at the switch 30 ns before that of host 0; with measured round trips it
/// starts as much later. On its way to host 2 the packet takes 8344 ns, 30 ns of cable and 1.5 ns.
#[test]
fn hosts_at_different_distances_fall_into_step() {
    let lengths = "channel.bulk.switch.scheduled.lengths=['5 m', '2 m', '4 m']";
    let list = "workload.bulk.source.list=[{ time = '500 ns', from = 0, to = 1 }, \
                { time = '500 ns', from = 1, to = 2 }]";
    let of = |alignment: &str| {
        let alignment = format!("channel.bulk.switch.scheduled.alignment={alignment}");
        let overrides = [
            "system.hosts=3",
            "run.length=40 us",
            "run.trace=true",
            "run.regime=from_empty",
            lengths,
            &alignment,
            list,
        ];
        let runs = runs("clint", None, &overrides, 1);
        let bulk = channel(&runs, "bulk");
        let mut sent: Vec<_> = bulk
            .trace
            .iter()
            .map(|entry| (entry.initiator.unwrap(), entry.time.0, entry.until.0))
            .collect();
        sent.sort_unstable();
        (sent, counter(bulk, "misalignment_ns"))
    };
    let first = (0, 10_863_158, 10_863_158 + 8_344_000 + 35_000 + 1_500);
    let transit = 8_344_000 + 30_000 + 1_500;
    let second = |start| (1, start, start + transit);
    assert_eq!(of("gap"), (vec![first, second(10_848_158)], 30.0));
    assert_eq!(of("round_trips"), (vec![first, second(10_878_158)], 0.0));
}
