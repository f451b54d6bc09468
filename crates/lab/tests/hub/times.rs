//! Hand-worked picoseconds of one write from program to program.

use weft_fabric::measure::Latency;
use weft_lab::drive::Channel as _;
use weft_lab::drive::carrier::{Carrier, Destination, Message, Notice, Ticket};
use weft_lab::{Cell, Options, Request};
use weft_protocol::window::{Identification, Node};
use weft_units::{Bytes, Time};

use super::operations::{channel, seeded};
use super::{megabytes_per_second, run};

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

/// The time until the first byte of a packet reaches the hub, without its bus: store 330 ns,
/// adapter 375, cable 50.
const TO_HUB: u64 = 330_000 + 375_000 + 50_000;
/// What it spends from the grant to the program, without its length on link and bus: hub 450 ns, cable
/// 50, adapter 375, memory 180, poll 400.
const FROM_HUB: u64 = 450_000 + 50_000 + 375_000 + 180_000 + 400_000;
/// The same until the bus of the target.
const TO_BUS: u64 = 450_000 + 50_000 + 375_000;
/// Writes of 32 and 256 bytes on a bus: 11 and 67 cycles of 30.303 ns.
const BUS: [u64; 2] = [333_333, 2_030_303];

/// The hub is cut through: a packet is on both cables at the same time, and its length counts once
/// on the link and once on each bus.
#[test]
fn one_write_through_the_hub() {
    // 4 cycles of each bus, 8 cycles of 15 ns.
    let short = TO_HUB + 121_212 + FROM_HUB + 120_000 + 121_212;
    assert_eq!((short, latency(GENERATION_2, "", "4 B")), (2_572_424, short));
    // 22 cycles of 15 ns.
    let middle = TO_HUB + BUS[0] + FROM_HUB + 330_000 + BUS[0];
    assert_eq!((middle, latency(GENERATION_2, "", "32 B")), (3_206_666, middle));
    // 134 cycles of 15 ns.
    let long = TO_HUB + BUS[1] + FROM_HUB + 2_010_000 + BUS[1];
    assert_eq!((long, latency(GENERATION_2, "", "256 B")), (8_280_606, long));
}

/// Offers messages at picoseconds, from, to a set of hosts, of a size; a write is at most 256 B.
/// Returns when each is delivered to each of its targets.
fn deliveries(overrides: &[&str], offers: &[(u64, u16, u64, u64)]) -> Vec<(u64, u16, u64)> {
    let mut all = vec!["channel.memory.window.write=256 B"];
    all.extend(overrides);
    let mut channel = channel(GENERATION_2, "", &all);
    let (mut notices, mut rest) = (Vec::new(), (0..).zip(offers).peekable());
    loop {
        let offered = rest.peek().map_or(Time::NEVER, |(_, offer)| Time(offer.0));
        let now = offered.min(channel.next_time());
        if now == Time::NEVER {
            break;
        }
        if offered > now {
            channel.advance(now, &mut notices);
        } else if let Some((ticket, &(_, from, targets, size))) = rest.next() {
            let to = Destination::Hosts(targets);
            channel.offer(now, Message { from, to, size: Bytes(size), ticket: Ticket(ticket) });
        }
    }
    assert_eq!(channel.broken_order(), None);
    let of = |notice: &Notice| match *notice {
        Notice::Delivered { time, ticket, to } => Some((ticket.0, to, time.0)),
        _ => None,
    };
    let mut all: Vec<_> = notices.iter().filter_map(of).collect();
    all.sort_unstable();
    all
}

/// Two inputs ask for an output at the same time: the lower goes first, the other follows by 22
/// cycles of the link; then it waits until the bus of the target is done with the first.
#[test]
fn two_inputs_for_one_output() {
    let alone = 3_206_666;
    let both = deliveries(&[], &[(0, 1, 0b100, 32), (0, 0, 0b100, 32)]);
    assert_eq!(both, [(0, 2, alone + BUS[0]), (1, 2, alone)]);
    // A host whose bus never limits shows the hub alone: 330 ns.
    let fast = ["channel.memory.window.bus.rate=1056 Gbit/s"];
    let both = deliveries(&fast, &[(0, 1, 0b100, 32), (0, 0, 0b100, 32)]);
    assert_eq!(both[0].2 - both[1].2, 330_000);
}

/// 256 bytes from 0 to 1 pass from 2,785,303 to 4,795,303 ps. A broadcast of 2 is at the hub at
/// 3,000,000, and waits until all outputs are ready. A packet for the idle output 0 is there 1 ps
/// later, and waits for the broadcast of 330 ns.
#[test]
fn a_broadcast_takes_over_the_crossbar() {
    let [broadcast, later] = [3_000_000, 3_000_001].map(|at_hub| at_hub - TO_HUB - BUS[0]);
    let offers = [(0, 0, 0b10, 256), (broadcast, 2, 0b1011, 32), (later, 3, 0b1, 32)];
    let granted = TO_HUB + BUS[1] + 2_010_000;
    assert_eq!(granted, 4_795_303);
    let all = granted + FROM_HUB + 330_000 + BUS[0];
    // At 1 its bus is busy with the 256 bytes until it is free for the broadcast.
    let bus_of_1 = TO_HUB + BUS[1] + TO_BUS + 2_010_000 + BUS[1];
    // At 0 the later packet comes 330 ns after the broadcast, whose bus takes 333.
    let bus_of_0 = granted + TO_BUS + 330_000 + BUS[0];
    let expected = [
        (0, 1, bus_of_1 + 580_000),
        (1, 0, all),
        (1, 1, bus_of_1 + BUS[0] + 580_000),
        (1, 3, all),
        (2, 0, bus_of_0 + BUS[0] + 580_000),
    ];
    assert_eq!(deliveries(&[], &offers), expected);
}

const PLACES: &str = "channel.memory.window.places_per_control";

/// The hub has read 256 bytes of node 0 at 4,795,303 ps and tells it that the place is free: 12 B, 90
/// ns, on the link on which a packet for node 0 comes at 4,800,000. It begins when that is over.
#[test]
fn a_control_packet_of_the_hub_goes_first() {
    let at_hub = 4_800_000;
    let offers = [(0, 0, 0b10, 256), (at_hub - TO_HUB - BUS[0], 2, 0b1, 32)];
    let delivered = |places: &str| deliveries(&[&format!("{PLACES}={places}")], &offers)[1].2;
    let alone = at_hub + FROM_HUB + 330_000 + BUS[0];
    assert_eq!(delivered("1"), 4_795_303 + 90_000 + FROM_HUB + 330_000 + BUS[0]);
    assert_eq!(delivered("2"), alone, "one place is not told of alone");
}

/// Node 1 sends 256 bytes from 2,735,303 to 4,745,303 ps, and has 32 more. Meanwhile its bus is done
/// with 4 bytes of node 0, of which the adapter tells the hub before the 32 bytes: 90 ns.
#[test]
fn a_control_packet_of_an_adapter_goes_first() {
    let offers = [(0, 1, 0b1000, 256), (0, 1, 0b100, 32), (2_000_000, 0, 0b10, 4)];
    let delivered = |places: &str| deliveries(&[&format!("{PLACES}={places}")], &offers)[1].2;
    let first = 330_000 + BUS[1] + 375_000;
    let alone = first + 2_010_000 + 50_000 + FROM_HUB + 330_000 + BUS[0];
    assert_eq!(delivered("2"), alone);
    assert_eq!(delivered("1"), alone + 90_000);
}

/// Both directions full of 256 bytes: 134 cycles for each, and 6 for each control packet.
#[test]
fn what_control_packets_take() {
    let both = "workload.memory={ source = 'greedy', pattern = { shift = 1 } }";
    for (places, cycles) in [("1", 134.0 + 6.0), ("2", 134.0 + 3.0)] {
        let places = format!("{PLACES}={places}");
        let set = [
            both,
            "channel.memory.window.write=256 B",
            "system.hosts=4",
            "run.length=1 ms",
            "run.regime={ skip = '50 us' }",
            &places,
        ];
        let found = megabytes_per_second(&run(GENERATION_2, "network", &set)) / 4.0;
        let limit = 256.0 / (cycles * 15e-3);
        assert!((found / limit - 1.0).abs() < 0.004, "{places}: {found}, not {limit}");
    }
}

/// A host path stands before the window as before any other channel: 500 ns of copying come first.
#[test]
fn hosts_stand_in_front_of_the_window() {
    let host = "channel.memory.host={ send = ['copy'], stage.copy = { fixed = '500 ns' } }";
    let set = [ONE, host, "channel.memory.window.write=256 B", "run.length=20 us"];
    let set = [&set[..], &["run.regime=from_empty"]].concat();
    let run = run(GENERATION_2, "", &set);
    let latency = run.observations.recorder(Latency::OneWay).max().map_or(0, |span| span.0);
    assert_eq!(latency, 8_280_606 + 500_000);
}

/// The flag follows its message by 5 cycles of the bus and the stall of one, and costs 255 ns to read
/// the message.
#[test]
fn a_message_and_its_flag() {
    let plain = latency(GENERATION_2, "virtual_hub", "8 B");
    let flagged = latency(GENERATION_2, "virtual_hub+flag", "8 B");
    assert_eq!(flagged, plain + 181_818 + 255_000);
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

/// The stages are in the order of the path.
#[test]
fn the_budget_follows_the_way_of_a_packet() {
    let set = ["workload.memory={ load = 0.6, arrivals = 'poisson' }", "run.length=300 us"];
    let run = run(GENERATION_2, "flag+compare", &set);
    let names: Vec<&str> = run.observations.budget.rows(1).map(|row| row.stage).collect();
    assert_eq!(
        names.join(" "),
        "store initiator_bus_wait initiator_bus transmit_adapter slot_wait transmission wire switch \
         switch_wait receive_adapter target_bus_wait target_bus memory poll read"
    );
}

const ACCESS: &str = "channel.memory.window.accesses=[{ at = '1 us', node = 0, what.read = { target = 1, offset = '0 B', size = '32 B' } }]";

/// A read from a file is that of a program: there 4 cycles of the bus and 8 of the link, at the target
/// 11 cycles, back 22 of the link and 11 cycles; it is over 5.14 us after it began.
#[test]
fn an_access_of_a_file_is_made() {
    let set = [ONE, ACCESS, "run.length=20 us", "run.regime=from_empty"];
    let seen = run(GENERATION_2, "virtual_hub", &set).observations;
    // The write of the source, the request, and the answer.
    assert_eq!((seen.generated, seen.delivered), (3, 3));
}

const ON_LINE: &str = "channel.memory.window.configuration={ answer = '1 us' }";

/// An adapter asks and its port answers: 90 ns of a control packet and 50 of a cable each, and 1 us
/// between. A store at zero reaches the bus at 330 ns and waits for the number until 1280.
#[test]
fn a_node_has_its_number_before_its_adapter_takes_anything() {
    let exchange = 140_000 + 1_000_000 + 140_000;
    let first = "workload.memory.source.list=[{ time = '0 us', from = 0, to = 1 }]";
    let set = [first, ON_LINE, "run.length=20 us", "run.regime=from_empty"];
    let run = run(GENERATION_2, "", &set);
    let latency = run.observations.recorder(Latency::OneWay).max().map_or(0, |span| span.0);
    assert_eq!(latency, 3_206_666 + exchange - 330_000);
    let column = |name: &str| run.counters.iter().find(|(own, _)| *own == name).map(|(_, v)| *v);
    assert_eq!(column("configuration_packets"), Some(16.0));
    assert_eq!(column("configuration_max_us"), Some(1.28));
}

/// Two adapters on a cable tell each other what they drew: one is node 0, the other node 1, after one
/// control packet each; whoever drew the same draws again 1 us later.
#[test]
fn a_pair_numbers_itself() {
    let mut again = 0;
    for seed in 0..200 {
        let mut channel = seeded(seed, "virtual_hub", &[ON_LINE]);
        let message =
            Message { from: 0, to: Destination::Host(1), size: Bytes(32), ticket: Ticket(0) };
        channel.offer(Time::ZERO, message);
        let mut notices = Vec::new();
        while channel.next_time() < Time::NEVER {
            let now = channel.next_time();
            channel.advance(now, &mut notices);
        }
        let mut numbers = channel.windows().expect("a hub").identities();
        numbers.sort_by_key(|own| matches!(own, Identification::Known(Node(1))));
        assert_eq!(numbers, [0, 1].map(|node| Identification::Known(Node(node))));
        let delivered = notices.iter().map(|notice| notice.time().0).max();
        // Without a second draw the numbers are there before the store is at the bus.
        let rounds = delivered.map_or(0, |time| (time - 2_516_666) / 1_140_000);
        let wait = if rounds == 0 { 0 } else { 140_000 + rounds * 1_140_000 - 330_000 };
        assert_eq!(delivered, Some(2_706_666 + wait));
        again += u32::from(rounds > 0);
    }
    // One of 64 pairs draws the same.
    assert!((1..12).contains(&again), "{again}");
}

/// A node that comes on line while traffic runs asks for its number behind the packets on its link.
#[test]
fn a_node_is_numbered_while_traffic_runs() {
    let set = [
        "workload.memory={ load = 0.3 }",
        "channel.memory.window.cluster={ heartbeat = '100 us', time_out = '300 us', \
         retry = '200 us', events = [{ at = '1 ms', what = { joins = 3 } }] }",
        ON_LINE,
        "channel.memory.window.check_order=true",
        "run.length=2 ms",
        "run.regime=from_empty",
    ];
    let run = run(GENERATION_2, "", &set);
    let column = |name: &str| run.counters.iter().find(|(own, _)| *own == name).map(|(_, v)| *v);
    assert_eq!(column("configuration_packets"), Some(16.0));
    let longest = column("configuration_max_us").unwrap_or(0.0);
    // At most one packet of 32 B, 330 ns, is in the way on either link.
    assert!((1.28..=1.28 + 0.66).contains(&longest), "{longest}");
    assert!(run.observations.delivered > 1_000);
}

/// A write of 32 B takes 22 cycles of 15 ns, or 10 of 30 ns, of each cable on its way, and nothing of
/// any other.
#[test]
fn a_write_is_on_the_cables_of_its_way_and_no_others() {
    let hub = ["port 1 of switch 0.0 to host 1", "host 0 to switch 0.0"];
    assert_eq!(busy(GENERATION_2, ""), hub.map(|way| (way.to_owned(), 330)));
    assert_eq!(busy("memory-channel-1", ""), hub.map(|way| (way.to_owned(), 300)));
    assert_eq!(busy(GENERATION_2, "virtual_hub"), [("host 0 to host 1".to_owned(), 330)]);
}

/// The directions of cables that carry anything of one write, and for how many nanoseconds.
fn busy(name: &str, preset: &str) -> Vec<(String, u64)> {
    let write = "channel.memory.window.write=32 B";
    let set = [ONE, write, "run.length=20 us", "run.regime=from_empty"].map(str::to_owned);
    let request = Request::new(name, Some(preset), &set);
    let outcome = weft_lab::run(&request, &Options::default(), &mut |_, _| true).expect(name);
    let links = outcome.table("links");
    let row = |row| match (links.get(row, "name"), links.get(row, "link_load")) {
        (Some(Cell::Text(way)), Some(Cell::Number(Some(load)))) => {
            (way, (load * 20_000.0).round() as u64)
        }
        other => panic!("{other:?}"),
    };
    (0..links.rows()).map(row).filter(|(_, span)| *span > 0).collect()
}

/// MC-7: the time to send 8 bytes over that of a floating-point operation, 6 ns in generation 2.
#[test]
fn the_q_ratio_is_the_latency_in_operations() {
    let points = |name: &str| {
        let set =
            ["workload.memory.load=0.01", "channel.memory.window.write=8 B", "run.length=200 us"]
                .map(str::to_owned);
        let request = weft_lab::Request::new(name, Some("virtual_hub"), &set);
        let outcome = weft_lab::run(&request, &weft_lab::Options::default(), &mut |_, _| true);
        let outcome = outcome.unwrap_or_else(|error| panic!("{error}"));
        let points =
            outcome.tables.into_iter().find(|(name, _)| *name == "points").expect("points").1;
        (points.number(0, "one_way_mean_us").expect("a latency"), points.number(0, "q_ratio"))
    };
    let (latency, ratio) = points("memory-channel-2");
    assert!((ratio.expect("a ratio") - latency / 0.006).abs() < 1e-9, "{latency} {ratio:?}");
    assert_eq!(points("memory-channel-1").1, None, "nothing says how long an operation takes");
}

/// MC-29: "equal to the time it takes to transfer the largest size packets, independent of the number
/// of ports". A packet of 256 bytes is on the link for 2.01 us, and a control packet for 90 ns.
#[test]
fn the_crossbar_is_ready_for_a_broadcast_within_the_time_of_the_largest_packet() {
    for hosts in ["3", "16"] {
        let hosts = format!("system.hosts={hosts}");
        let set = [
            &hosts,
            "channel.memory.window.write=256 B",
            "channel.memory.window.broadcast=0.05",
            "workload.memory.load=0.3",
            "run.length=4 ms",
        ];
        let run = run(GENERATION_2, "network", &set);
        let longest = run.counters.iter().find(|(name, _)| name == "synchronisation_max_us");
        let longest = longest.expect("a column").1;
        assert!((1.5..=2.01 + 2.0 * 0.09).contains(&longest), "{hosts}: {longest}");
    }
}

/// MC-48: "crossbar switches are practical to implement for a modest number of nodes (8 to 32)".
#[test]
fn a_hub_of_32_ports_carries_32_streams() {
    let streams = |hosts: &str| {
        let hosts = format!("system.hosts={hosts}");
        let set = [
            &hosts,
            "channel.memory.switch.hub.ports=32",
            "channel.memory.window.write=256 B",
            "workload.memory={ source = 'greedy', pattern = { shift = 1 } }",
            "run.length=60 us",
        ];
        super::megabytes_per_second(&run(GENERATION_2, "network", &set))
    };
    assert!((streams("32") / streams("8") - 4.0).abs() < 0.01);
}
