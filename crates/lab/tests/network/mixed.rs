//! Two or three kinds of switch in one tree, in exact picoseconds worked by hand.
//!
//! A packet takes 1 us on a link and a cable 20 ns. At a switch of either kind it may leave 90 ns
//! after its first byte came: at one with queues at its outputs then, at one with queues at its
//! inputs at the next edge of its clock, which a slot of 1 us divides.

use weft_fabric::measure::{Drop, Latency, Stage};
use weft_kernel::Halt;
use weft_lab::{ChannelRun, Plan, Request, simulate};
use weft_units::Span;

use super::{file, refusal, run, voq};

/// Leaves `a`, `b` and `c` with two hosts each, and the spine `s` in whose cables `more` stands.
fn leaves_and_spine(more: &str) -> String {
    let (mut switches, mut cables) = (vec!["{ name = 's', ports = 3 }".to_owned()], Vec::new());
    for (number, leaf) in ["a", "b", "c"].into_iter().enumerate() {
        switches.push(format!("{{ name = '{leaf}', ports = 3 }}"));
        for port in 0..2 {
            let host = 2 * number + port;
            cables.push(format!("{{ from = 'host {host}', to = '{leaf}.{port}' }}"));
        }
        cables.push(format!("{{ from = '{leaf}.2', to = 's.{number}'{more} }}"));
    }
    format!(
        "fabric.table = {{ switches = [{}], cables = [{}] }}",
        switches.join(", "),
        cables.join(", ")
    )
}

/// Packets, each a time in nanoseconds, an initiator and a target.
type Packets<'a> = &'a [(u64, u16, u16)];

fn listed(packets: Packets<'_>) -> String {
    let one = |(ns, from, to): &(u64, u16, u16)| {
        format!("{{ time = '{ns} ns', from = {from}, to = {to} }}")
    };
    let packets: Vec<String> = packets.iter().map(one).collect();
    format!("source.list = [{}]", packets.join(", "))
}

/// Leaves with queues at their outputs and a spine with queues at its inputs, of `buffer` cells.
fn spine_in_slots(more: &str, buffer: u32, channel: &str, packets: Packets<'_>) -> ChannelRun {
    let tree = leaves_and_spine(more);
    let spine = format!(
        "switches.s.input_queued = {{ latency = '90 ns', scheduler = 'islip', buffer = {buffer} }}"
    );
    run(&file(6, &format!("{tree}\n{spine}\n{channel}"), &listed(packets), "100 us"), 1)
}

/// Leaves with queues at their inputs, of `buffer` cells, and a spine with queues at its outputs.
fn leaves_in_slots(more: &str, buffer: u32, buffers: &str, packets: Packets<'_>) -> ChannelRun {
    let tree = leaves_and_spine(more);
    let spine = format!("switches.s.output_queued = {{ latency = '90 ns', buffers = {buffers} }}");
    let switch = format!("buffer = {buffer}");
    run(&voq(6, &switch, &format!("{tree}\n{spine}"), &listed(packets), "100 us"), 1)
}

/// Smallest and largest one-way latency in nanoseconds, and how many packets arrived.
fn one_way(run: &ChannelRun) -> (u64, u64, u64) {
    let seen = run.observations.recorder(Latency::OneWay);
    let ns = |span: Option<Span>| {
        let Span(ps) = span.expect("a packet");
        assert_eq!(ps % 1_000, 0);
        ps / 1_000
    };
    (ns(seen.min()), ns(seen.max()), seen.count())
}

fn spent(run: &ChannelRun) -> [u128; 4] {
    [Stage::Transmission, Stage::Wire, Stage::Switch, Stage::SwitchWait]
        .map(|stage| run.observations.budget.sum_ps(stage) / 1_000)
}

#[test]
fn a_spine_with_a_clock_between_leaves_without() {
    // It leaves a at 4890 and may leave s from 5000 ns on, which is an edge; from b it goes at
    // 5110, and its last byte is at its host at 6130 ns.
    let on_time = spine_in_slots("", 8, "", &[(4_780, 0, 2)]);
    assert_eq!(one_way(&on_time), (1_350, 1_350, 1));
    assert_eq!(spent(&on_time), [1_000, 80, 270, 0]);
    // A nanosecond later it waits for the edge at 6000 ns.
    let late = spine_in_slots("", 8, "", &[(4_781, 0, 2)]);
    assert_eq!(one_way(&late), (2_349, 2_349, 1));
    assert_eq!(spent(&late), [1_000, 80, 270, 999]);
}

/// Cables of 16 km take 80 us: further than a clock looks ahead.
#[test]
fn a_switch_with_a_clock_expects_what_comes_after_many_slots() {
    let tree = leaves_and_spine(", link = { length = '16 km' }");
    let spine =
        "switches.s.input_queued = { latency = '90 ns', scheduler = 'islip', buffer = 200 }";
    // It leaves a at 4890 and may leave s from 84980 on, which is at 85000; from b it goes at
    // 165090, and its last byte is at its host at 166110 ns. The second one comes a slot later, as it
    // was sent; the third one a nanosecond too late for 85000.
    let packets = [(4_780, 0, 2), (5_780, 1, 2), (4_801, 4, 1)];
    let channel = format!("{tree}\n{spine}");
    let seen = run(&file(6, &channel, &listed(&packets), "400 us"), 1);
    assert_eq!(one_way(&seen), (161_330, 162_309, 3));
}

/// The second packet leaves a at 5890 ns, behind the first, and may leave s at 6000.
#[test]
fn a_leaf_waits_for_room_in_its_spine() {
    let packets = [(4_780, 0, 2), (4_780, 1, 3)];
    assert_eq!(one_way(&spine_in_slots("", 8, "", &packets)), (1_350, 2_350, 2));
    // With room for one, a knows at 6020 ns that the first has left s, from 5000 to 6000: the
    // second may leave s from 6130 on, which is at 7000, and is at its host at 8130 ns.
    assert_eq!(one_way(&spine_in_slots("", 1, "", &packets)), (1_350, 3_350, 2));
}

#[test]
fn leaves_with_a_clock_around_a_spine_without() {
    // It leaves a at 5000, s at 5110 and may leave b from 5220 on, which is at 6000 ns.
    let on_time = leaves_in_slots("", 8, "'unlimited'", &[(4_890, 0, 2)]);
    assert_eq!(one_way(&on_time), (2_130, 2_130, 1));
    assert_eq!(spent(&on_time), [1_000, 80, 270, 780]);
    // A nanosecond later: 6000 and 7000 ns.
    let late = leaves_in_slots("", 8, "'unlimited'", &[(4_891, 0, 2)]);
    assert_eq!(one_way(&late), (3_129, 3_129, 1));
}

/// Both are at a in time for the edge at 5000 ns, and leave it then and at 6000.
#[test]
fn a_spine_waits_for_room_in_its_leaf() {
    let packets = [(4_890, 0, 2), (4_890, 1, 3)];
    let of = |buffer, buffers, packets| one_way(&leaves_in_slots("", buffer, buffers, packets));
    assert_eq!(of(8, "'unlimited'", &packets), (2_130, 3_130, 2));
    // With room for one in b, which the first leaves from 6000 to 7000, s knows at 7020 and sends
    // then: from b the second goes at 8000, and is at its host at 9020 ns.
    assert_eq!(of(1, "'unlimited'", &packets), (2_130, 4_130, 2));
    // The same with one packet in the output of s: only one waits there.
    assert_eq!(of(1, "1", &packets), (2_130, 4_130, 2));
}

/// One packet of each of a and c is at the spine at 5020 ns, for b, and may leave it at 5110: an
/// output that holds one has no place for the other, one that holds two has.
#[test]
fn a_spine_that_holds_one_packet_drops_another() {
    let packets = [(4_890, 0, 2), (4_890, 4, 3)];
    let full = leaves_in_slots("", 8, "1", &packets);
    assert_eq!(one_way(&full), (2_130, 2_130, 1));
    let seen = &full.observations;
    assert_eq!((seen.dropped(Drop::Overflow), seen.abandoned, seen.outstanding()), (1, 1, 0));
    // The second leaves s at 6110 and b at 7000 ns.
    let two = leaves_in_slots("", 8, "2", &packets);
    assert_eq!((one_way(&two), two.observations.abandoned), ((2_130, 3_130, 2), 0));
    // With room for one in b the second packet of a, which may leave s at 6110, waits there until
    // 7020 as above, and takes the place that one of c wants at 6110 ns.
    let three = [(4_890, 0, 2), (4_890, 1, 3), (5_000, 4, 3)];
    let of = |buffers| {
        let seen = leaves_in_slots("", 1, buffers, &three).observations;
        (seen.delivered, seen.abandoned)
    };
    assert_eq!((of("1"), of("2")), ((2, 1), (3, 0)));
}

/// Cables of 10 Gbit/s around the spine, which a packet occupies for 100 ns: that is the slot of
/// every switch with one.
#[test]
fn a_clock_has_the_slots_of_the_fastest_cable() {
    let fast = ", link.rate = '10 Gbit/s'";
    // It takes 900 ns longer to come to a than to leave it, and waits for that: it leaves a at
    // 5790 and may leave s from 5900 on, which is an edge; b passes it on at 6010 ns.
    let on_time = spine_in_slots(fast, 8, "", &[(4_780, 0, 2)]);
    assert_eq!(one_way(&on_time), (2_250, 2_250, 1));
    assert_eq!(spent(&on_time), [1_900, 80, 270, 0]);
    // A nanosecond later: the edge at 6000 ns.
    assert_eq!(one_way(&spine_in_slots(fast, 8, "", &[(4_781, 0, 2)])), (2_349, 2_349, 1));
    // It may leave a from 5900 on, which is an edge there, s from 6010 on, and b from 6120 on, at
    // 6200 ns.
    let leaves = leaves_in_slots(fast, 8, "'unlimited'", &[(4_890, 0, 2)]);
    assert_eq!(one_way(&leaves), (2_330, 2_330, 1));
    assert_eq!(spent(&leaves), [1_900, 80, 270, 80]);
    // Two for one host: the first occupies its cable for ten slots, from 6200 to 7200 ns. The second
    // is at a at the same time, leaves it at 6000 and is at b in time for 7200.
    let two = leaves_in_slots(fast, 8, "'unlimited'", &[(4_890, 0, 2), (4_890, 1, 2)]);
    assert_eq!(one_way(&two), (2_330, 3_330, 2));
}

/// An input of the spine that holds a packet stops its cable, which hears that and that it may go
/// on 1020 ns later.
#[test]
fn a_spine_stops_a_leaf() {
    // The packets of hosts 0 and 4 are at s for the edge at 5000 ns, where that of host 0 leaves,
    // from the input with the lower number. The other one leaves at 6000: its cable is stopped
    // from 6020 to 7020. The third is in the queue of c at 6060, and may leave s at 7000 ns.
    let packets = [(4_780, 0, 2), (4_780, 4, 3), (5_950, 5, 3)];
    let credits = spine_in_slots("", 4, "", &packets);
    assert_eq!(one_way(&credits), (1_350, 2_350, 3));
    // Where it is stopped it leaves c at 7020 and s at 8000; it is at its host at 9130 ns.
    let stop = "flow_control.stop_go = { stop = 1, go = 0, reaction = '1 us' }";
    let stopped = spine_in_slots("", 4, stop, &packets);
    assert_eq!(one_way(&stopped), (1_350, 3_180, 3));
}

/// The second packet of c is at the spine for the edge at 6000 ns, at which the first still waits for
/// its turn: the stop, heard at 6020, came too late for a buffer of one.
#[test]
fn a_leaf_that_is_stopped_too_late_overruns_its_spine() {
    let packets = [(4_780, 0, 2), (4_780, 4, 3), (4_780, 5, 3)];
    let spine = "switches.s.input_queued = { latency = '90 ns', scheduler = 'islip', buffer = 1 }";
    let stop = "flow_control.stop_go = { stop = 1, go = 0, reaction = '1 us' }";
    let channel = format!("{}\n{spine}\n{stop}", leaves_and_spine(""));
    let text = file(6, &channel, &listed(&packets), "100 us");
    let plan = Plan::new(&Request::of_text("overrun.toml", &text)).expect("a plan");
    let failed = simulate(&plan.points[0].spec, 1, &Halt::new()).map(drop);
    let message = failed.map_err(|error| error.to_string()).expect_err("an overrun");
    let full = "at 6 us a cell came to port 2 of switch s, whose buffer of 1 cells was full";
    assert!(message.contains(full), "{message}");
}

/// A switch with queues at its inputs has room for the packets of each of its own, and for no
/// less than one: what is refused names the switch.
#[test]
fn a_switch_of_the_other_kind_needs_what_its_kind_needs() {
    let tree = leaves_and_spine("");
    let of = |switch: &str| {
        let own = format!("{tree}\nswitches.s.input_queued = {{ {switch} }}");
        refusal(&file(6, &own, "load = 0.1", "1 ms"))
    };
    let without = of("scheduler = 'islip'");
    assert!(without.contains("`buffer` in channel.c.switches.s.input_queued"), "{without}");
    let small = of("scheduler = 'islip', buffer = 4, cell = '25 B'");
    assert!(small.contains("channel.c.switches.s.input_queued.buffer = 4"), "{small}");
    assert!(small.contains("at least 5, those of a packet"), "{small}");
}

/// Leaves with queues at their outputs, but for those in `switches`, and a spine with a shared memory
/// of `buffer` packets an input.
fn spine_with_memory(more: &str, buffer: u32, switches: &str, packets: Packets<'_>) -> ChannelRun {
    let tree = leaves_and_spine(more);
    let spine = format!("switches.s.shared_memory = {{ latency = '90 ns', buffer = {buffer} }}");
    run(&file(6, &format!("{tree}\n{spine}\n{switches}"), &listed(packets), "100 us"), 1)
}

#[test]
fn a_spine_with_a_memory_between_leaves_without() {
    // It leaves a at 4890, s at 5000 and b at 5110; its last byte is at its host at 6130 ns.
    let one = spine_with_memory("", 8, "", &[(4_780, 0, 2)]);
    assert_eq!(one_way(&one), (1_350, 1_350, 1));
    assert_eq!(spent(&one), [1_000, 80, 270, 0]);
    // The second leaves a at 5890 and is in the memory at 6000 ns, when the first has left it.
    let packets = [(4_780, 0, 2), (4_780, 1, 3)];
    assert_eq!(one_way(&spine_with_memory("", 8, "", &packets)), (1_350, 2_350, 2));
    // With room for one, a knows at 6020 ns that there is room: it is at its host at 7260 ns.
    assert_eq!(one_way(&spine_with_memory("", 1, "", &packets)), (1_350, 2_480, 2));
}

/// Cables of 10 Gbit/s around the spine: it leaves a at 5790, when all of it is nearly there, s at
/// 5900 and b, on a slow cable again, at 6010 ns.
#[test]
fn a_memory_between_fast_cables() {
    let one = spine_with_memory(", link.rate = '10 Gbit/s'", 8, "", &[(4_780, 0, 2)]);
    assert_eq!(one_way(&one), (2_250, 2_250, 1));
    assert_eq!(spent(&one), [1_900, 80, 270, 0]);
}

#[test]
fn a_memory_beside_switches_with_a_clock() {
    let clocked = |leaf: &str, packet| {
        let own = format!(
            "switches.{leaf}.input_queued = {{ latency = '90 ns', scheduler = 'islip', buffer = 8 }}"
        );
        one_way(&spine_with_memory("", 8, &own, &[packet])).0
    };
    // It may leave a from 5000 ns on, which is an edge, then s at 5110 and b at 5220 ns; a nanosecond
    // later it waits for the edge at 6000 ns.
    assert_eq!(clocked("a", (4_890, 0, 2)), 1_350);
    assert_eq!(clocked("a", (4_891, 0, 2)), 2_349);
    // It leaves s at 4890 and may leave b from 5000 ns on.
    assert_eq!(clocked("b", (4_670, 0, 2)), 1_350);
    assert_eq!(clocked("b", (4_671, 0, 2)), 2_349);
}

/// Leaves with a shared memory of `buffer` packets an input around a spine without.
#[test]
fn a_spine_waits_for_room_in_the_memory_of_its_leaf() {
    let of = |buffer: u32| {
        let tree = leaves_and_spine("");
        let spine = "switches.s.output_queued = { latency = '90 ns', buffers = 'unlimited' }";
        let memory = format!("switch.shared_memory = {{ latency = '90 ns', buffer = {buffer} }}");
        let packets = listed(&[(4_890, 0, 2), (4_890, 1, 3)]);
        let text = file(6, &format!("{tree}\n{spine}"), &packets, "100 us")
            .replace("switch.output_queued.latency = '90 ns'", &memory);
        one_way(&run(&text, 1))
    };
    // They leave a at 5000 and 6000, s at 5110 and 6110 and b at 5220 and 6220 ns.
    assert_eq!(of(8), (1_350, 2_350, 2));
    // With room for one, s knows at 6240 ns that the first has left b, and the second leaves b at 6350.
    assert_eq!(of(1), (1_350, 2_480, 2));
}
