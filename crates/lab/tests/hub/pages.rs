//! Stores to mapped pages arrive, and nothing else; what the attributes of a page do, and when.

use std::cell::RefCell;
use std::rc::Rc;

use weft_fabric::measure::Latency;
use weft_kernel::Halt;
use weft_lab::ChannelRun;
use weft_lab::assemble::Driver;
use weft_lab::drive::Channel as _;
use weft_lab::drive::carrier::{Carrier, Destination, Message, Notice, Ticket};
use weft_lab::drive::engine::{Engine, Operation};
use weft_units::{Bytes, Span, Time};

use super::operations::{channel, delivered, finish};
use super::services::{crew, start};
use super::try_run;

/// The overrides by which pages are mapped: node, page, and the entry, on either side.
pub fn mapped(outgoing: &[(u8, u32, &str)], incoming: &[(u8, u32, &str)]) -> Vec<String> {
    let list = |side: &str, pages: &[(u8, u32, &str)]| {
        let page = |(node, page, entry): &(u8, u32, &str)| {
            format!("{{ node = {node}, page = {page}, entry = {{ {entry} }} }}")
        };
        let pages: Vec<String> = pages.iter().map(page).collect();
        format!("channel.memory.window.{side}=[{}]", pages.join(", "))
    };
    vec![
        "channel.memory.window.mappings=listed".to_owned(),
        list("outgoing", outgoing),
        list("incoming", incoming),
    ]
}

fn with<'a>(pages: &'a [String], others: &[&'a str]) -> Vec<&'a str> {
    pages.iter().map(String::as_str).chain(others.iter().copied()).collect()
}

fn one_way() -> Vec<String> {
    mapped(&[(0, 0, "reach = { point = 1 }")], &[(1, 0, "")])
}

fn column(run: &ChannelRun, name: &str) -> f64 {
    let found = run.counters.iter().find(|(own, _)| own == name);
    found.map_or_else(|| panic!("no column {name}"), |(_, value)| *value)
}

/// One flow of writes among four hosts, of which node 0 has mapped a page of node 1.
fn flow(from: u8, to: u8, name: &str) -> ChannelRun {
    let flow = format!("workload.memory.pattern={{ flows = [{{ from = {from}, to = {to} }}] }}");
    let pages = one_way();
    let others = [&flow, "system.hosts=4", "workload.memory.load=0.1", "run.length=100 us"];
    try_run(name, "", &with(&pages, &others)).unwrap_or_else(|error| panic!("{error}"))
}

#[test]
fn traffic_arrives_where_it_is_mapped_and_nowhere_else() {
    for name in ["memory-channel-1", "memory-channel-2"] {
        let run = flow(0, 1, name);
        assert!(run.observations.delivered > 20, "{name}");
        assert_eq!(column(&run, "unmapped_packets"), 0.0, "{name}");
        for (from, to) in [(2, 3), (0, 2), (1, 0)] {
            let run = flow(from, to, name);
            let seen = &run.observations;
            assert_eq!((seen.delivered, run.in_flight), (0, 0), "{name}: {from} to {to}");
            assert!(seen.generated > 20 && seen.abandoned == seen.generated, "{name}");
            assert_eq!(column(&run, "unmapped_packets"), seen.generated as f64, "{name}");
            assert_eq!(column(&run, "host_bus_busy"), 0.0, "{name}: it is not on any bus");
        }
    }
}

/// A greedy source whose stores no target accepts continues, and its run ends.
#[test]
fn a_source_that_is_always_ready_is_not_stuck_behind_what_is_not_mapped() {
    let pages = one_way();
    let others = ["system.hosts=4", "run.length=20 us", "workload.memory.source=greedy"];
    let run = try_run("memory-channel-2", "", &with(&pages, &others)).expect("it runs");
    assert!(run.observations.delivered > 0);
    assert!(column(&run, "unmapped_packets") > 10.0);
}

/// A receive table that has not enabled its page: the packet is on the bus of its initiator and
/// on the link, and not on the bus of its target, whose adapter has room for ever.
#[test]
fn what_a_target_has_not_enabled_is_filtered_in_its_adapter() {
    let pages = mapped(&[(0, 0, "reach = { point = 1 }")], &[(1, 0, "enabled = false")]);
    let others = [
        "system.hosts=2",
        "workload.memory.pattern={ flows = [{ from = 0, to = 1 }] }",
        "workload.memory.load=0.3",
        "run.length=100 us",
    ];
    let run = try_run("memory-channel-2", "", &with(&pages, &others)).expect("it runs");
    let seen = &run.observations;
    assert_eq!((seen.delivered, column(&run, "unmapped_packets")), (0, 0.0));
    let filtered = column(&run, "filtered_packets");
    assert_eq!(filtered, seen.abandoned as f64);
    // Far more than the adapter of the target holds.
    assert!(filtered > 100.0, "{filtered}");
    let plain = mapped(&[(0, 0, "reach = { point = 1 }")], &[(1, 0, "")]);
    let taken = try_run("memory-channel-2", "", &with(&plain, &others)).expect("it runs");
    let [one, both] = [&run, &taken].map(|run| column(run, "host_bus_busy"));
    assert!(
        (both / one - 11.0 / 12.0 - 1.0).abs() < 0.02,
        "12 cycles there, 11 here: {one} {both}"
    );
}

/// Of three others two map the page; the page that node 0 maps twice is one.
#[test]
fn a_broadcast_reaches_those_that_map_it_and_takes_memory_there_alone() {
    let entry = "reach = 'broadcast', local_copy = true";
    let pages =
        mapped(&[(0, 3, entry), (0, 3, entry)], &[(0, 3, ""), (1, 3, ""), (3, 3, ""), (0, 3, "")]);
    let mut channel = channel("memory-channel-2", "", &with(&pages, &["system.hosts=4"]));
    let message =
        Message { from: 0, to: Destination::Hosts(0b1110), size: Bytes(8), ticket: Ticket(1) };
    channel.offer(Time::ZERO, message);
    let notices = finish(&mut channel);
    let reached: Vec<u16> = delivered(&notices, 1).iter().map(|(_, to)| *to).collect();
    assert_eq!(reached, [1, 3], "its own copy is not what it asked for: {notices:?}");
    let lost = |notice: &Notice| matches!(notice, Notice::Lost { to: 2, .. });
    assert_eq!(notices.iter().filter(|notice| lost(notice)).count(), 1);
    assert_eq!(counter(&channel, "filtered_packets"), 1.0);
    assert_eq!(counter(&channel, "mapped_memory_kib"), 24.0);
    assert_eq!(counter(&channel, "mapped_memory_max_kib"), 8.0);
}

fn counter(channel: &Engine, name: &str) -> f64 {
    let columns = channel.counters(Time(1_000_000_000));
    let found = columns.iter().find(|(own, _)| *own == name);
    found.map_or_else(|| panic!("no column {name}"), |(_, value)| *value)
}

/// Figure 1, with nodes counted from 0: node 1 outgoing to nodes 3 and 4 and incoming to itself, node
/// 4 outgoing to 2: four physical pages.
#[test]
fn the_memory_of_figure_1_is_in_a_run() {
    let shared = "reach = 'broadcast', local_copy = true";
    let outgoing = [(1, 3, shared), (4, 7, "reach = { point = 2 }")];
    let incoming = [(1, 3, ""), (3, 3, ""), (4, 3, ""), (2, 7, "")];
    let pages = mapped(&outgoing, &incoming);
    let channel = channel("memory-channel-2", "", &with(&pages, &["system.hosts=5"]));
    assert_eq!(counter(&channel, "mapped_memory_kib"), 4.0 * 8.0);
    assert_eq!(counter(&channel, "mapped_memory_max_kib"), 8.0);
}

/// From the store of 8 bytes on one cable to the end of the write on the bus of the target: store,
/// 5 cycles, two adapters, 10 cycles of the link, cable, 5 cycles.
const THERE: u64 = 330_000 + 151_515 + 750_000 + 150_000 + 50_000 + 151_515;

fn one_store(out: &str, incoming: &str, others: &[&str]) -> (u64, Engine) {
    let out = format!("reach = {{ point = 1 }}, {out}");
    let pages = mapped(&[(0, 0, &out)], &[(1, 0, incoming)]);
    let mut channel = channel("memory-channel-2", "virtual_hub", &with(&pages, others));
    let message = Message { from: 0, to: Destination::Host(1), size: Bytes(8), ticket: Ticket(1) };
    channel.offer(Time::ZERO, message);
    let notices = finish(&mut channel);
    (delivered(&notices, 1)[0].0, channel)
}

/// MC-9: a sweep is answered when the bus of the target is done with what came before, an
/// acknowledgment of the packet alone when its adapter has it. Either comes back as a word.
#[test]
fn acknowledgments_come_back_in_hand_worked_time() {
    let back = 750_000 + 120_000 + 50_000 + 121_212 + 580_000;
    let (plain, channel) = one_store("enabled = true", "", &[]);
    assert_eq!((plain, counter(&channel, "acknowledged_packets")), (THERE + 580_000, 0.0));
    for (attribute, there) in [("sweep", THERE), ("acknowledge", THERE - 151_515)] {
        // On its way back an acknowledgment takes nothing of what the message takes.
        let (seen, channel) = one_store(&format!("{attribute} = true"), "", &[]);
        assert_eq!(seen, plain, "{attribute}");
        assert_eq!(counter(&channel, "acknowledged_packets"), 1.0, "{attribute}");
        let waited = counter(&channel, "acknowledgment_mean_us");
        assert!((waited - (there + back) as f64 * 1e-6).abs() < 1e-9, "{attribute}: {waited}");
    }
}

/// MC-10: an interrupt notifies a program instead of polling.
#[test]
fn an_interrupt_stands_in_the_place_of_the_poll() {
    let interrupt = "channel.memory.window.interrupt=7 us";
    let (polled, channel) = one_store("enabled = true", "", &[interrupt]);
    assert_eq!((polled, counter(&channel, "interrupts")), (THERE + 580_000, 0.0));
    let (told, channel) = one_store("enabled = true", "interrupt = true", &[interrupt]);
    assert_eq!(told, polled - 400_000 + 7_000_000);
    assert_eq!(counter(&channel, "interrupts"), 1.0);
    let (message, channel) = one_store("enabled = true", "remap = 9", &[]);
    assert_eq!((message, counter(&channel, "remapped_packets")), (polled, 1.0));
}

/// The stages add up to the latency where some packets interrupt and some do not.
#[test]
fn the_budget_adds_up_with_interrupts() {
    let out = [(0, 0, "reach = { point = 1 }"), (0, 1, "reach = { point = 2 }")];
    let pages = mapped(&out, &[(1, 0, "interrupt = true"), (2, 1, "")]);
    let others = [
        "system.hosts=3",
        "channel.memory.window.interrupt=3 us",
        "workload.memory.pattern={ flows = [{ from = 0, to = 1 }, { from = 0, to = 2 }] }",
        "workload.memory.load=0.2",
        "run.length=200 us",
        "run.regime=from_empty",
    ];
    let run = try_run("memory-channel-2", "", &with(&pages, &others)).expect("it runs");
    let interrupts = column(&run, "interrupts");
    assert!(interrupts > 10.0 && interrupts < run.observations.delivered as f64 - 10.0);
    let recorder = run.observations.recorder(Latency::OneWay);
    let sum = recorder.mean_ps().unwrap_or(0.0) * recorder.count() as f64;
    let budget = run.observations.budget.total_ps() as f64;
    assert!((sum / budget - 1.0).abs() < 1e-9, "{sum} {budget}");
}

/// MC-22: a disk writes 256 bytes as one packet, which no processor stores: 67 cycles of either bus, 134
/// of the link. The processor's own stores of as much are eight packets.
#[test]
fn a_device_writes_over_the_pci_by_itself() {
    let write = |what: &str| {
        let pages = mapped(&[(0, 0, "reach = { point = 1 }")], &[(1, 0, "")]);
        let access = format!(
            "channel.memory.window.accesses=[{{ at = '1 us', node = 0, \
             what.{what} = {{ offset = '256 B', size = '256 B' }} }}]"
        );
        let mut channel = channel("memory-channel-2", "virtual_hub", &with(&pages, &[&access]));
        finish(&mut channel);
        let seen = channel.into_observations();
        (seen.delivered, seen.budget.total_ps())
    };
    let there = 2_030_303 + 750_000 + 2_010_000 + 50_000 + 2_030_303 + 580_000;
    assert_eq!(write("device_write"), (1, there));
    let (packets, all) = write("write");
    // Of the processor eight packets, each with its store, its turn on the bus and its poll.
    assert!(packets == 8 && all > 8 * (330_000 + 580_000), "{packets} {all}");
}

/// A copy of what a node stores to another one comes back at its place in the order, and takes the
/// bus of the node.
#[test]
fn a_local_copy_comes_back_to_its_node() {
    let entry = "reach = { point = 1 }, local_copy = true";
    let copied = mapped(&[(0, 0, entry)], &[(0, 0, ""), (1, 0, "")]);
    let others = [
        "system.hosts=3",
        "workload.memory.pattern={ flows = [{ from = 0, to = 1 }] }",
        "workload.memory.load=0.1",
        "run.length=100 us",
        "channel.memory.window.check_order=true",
    ];
    let run = |pages: &[String]| {
        let run = try_run("memory-channel-2", "", &with(pages, &others)).expect("it runs");
        (
            run.observations.generated,
            column(&run, "filtered_packets"),
            column(&run, "host_bus_busy"),
        )
    };
    let (alone, none, bus) = run(&one_way());
    let (both, filtered, more) = run(&copied);
    assert_eq!((both, none, filtered), (2 * alone, 0.0, 0.0));
    assert!(more > 1.4 * bus, "{bus} {more}");
    // Without the page incoming its own adapter filters it.
    let (_, filtered, _) = run(&mapped(&[(0, 0, entry)], &[(1, 0, "")]));
    assert!(filtered > 20.0);
}

/// A store of a program on a node that maps nothing does not arrive; a program that waits for a
/// message learns what was lost.
#[test]
fn a_store_of_a_program_does_not_arrive_from_a_node_that_maps_nothing() {
    let run = |from: u16, to: u16, waits: bool| {
        let pages = one_way();
        let mut crew = crew("memory-channel-2", "", &with(&pages, &["system.hosts=4"]));
        let seen = Rc::new(RefCell::new(None));
        start(&mut crew, |me| {
            let seen = Rc::clone(&seen);
            async move {
                if me.rank() == from && waits {
                    me.send(to, 0, Bytes(8)).await;
                } else if me.rank() == from {
                    drop(me.store(to, 0, 42, Bytes(8)));
                } else if me.rank() == to && waits {
                    me.receive(from, 0).await;
                } else if me.rank() == to {
                    me.compute(Span(50_000_000)).await;
                    *seen.borrow_mut() = Some(me.load(0));
                }
            }
        });
        let ended = crew.run(&Halt::new()).map(|_| ()).map_err(|error| error.to_string());
        let channels = crew.into_machine().into_channels();
        let counted = channels.iter().find_map(|(_, driver)| match driver {
            Driver::Engine(channel) => Some(counter(channel, "unmapped_packets")),
            _ => None,
        });
        (ended, seen.take(), counted)
    };
    assert_eq!(run(0, 1, false), (Ok(()), Some(42), Some(0.0)));
    for (from, to) in [(2, 1), (1, 0), (0, 2)] {
        assert_eq!(run(from, to, false), (Ok(()), Some(0), Some(1.0)), "{from} to {to}");
        let (told, _, counted) = run(from, to, true);
        let text = told.expect_err("its receiver waits in vain");
        assert!(text.contains(&format!("from rank {from} to rank {to}")), "{text}");
        assert_eq!(counted, Some(1.0), "{from} to {to}");
    }
}

/// What is read comes back to the same address, where its reader must have mapped it incoming.
#[test]
fn a_read_needs_the_entries_of_both_sides() {
    let out = [(0, 2, "reach = { point = 1 }")];
    let read = |outgoing: &[(u8, u32, &str)], incoming: &[(u8, u32, &str)]| {
        let pages = mapped(outgoing, incoming);
        let mut channel = channel("memory-channel-2", "virtual_hub", &with(&pages, &[]));
        let read = Operation::Read { target: 1, offset: 2 * 8192 + 8, size: Bytes(8) };
        channel
            .begin_operation(Time::ZERO, 0, read, Ticket(1))
            .map_err(|error| error.to_string())?;
        Ok::<_, String>(delivered(&finish(&mut channel), 1).len())
    };
    let page = (1, 2, "remote_read = true");
    assert_eq!(read(&out, &[page, (0, 2, "")]), Ok(2));
    assert_eq!(read(&out, &[page]), Err("page 2 is not mapped incoming on node 0".to_owned()));
    let refused = read(&[], &[page, (0, 2, "")]);
    assert_eq!(refused, Err("page 2 is not mapped outgoing on node 0".to_owned()));
}

/// A sweep, a barrier and a lock need pages that acknowledge and that copy.
#[test]
fn a_barrier_of_the_channel_needs_pages_that_acknowledge_and_copy() {
    let keeps = |entry: &str| {
        let entry = format!("reach = 'broadcast', {entry}");
        let all: Vec<(u8, u32, &str)> = (0..3).map(|node| (node, 0, entry.as_str())).collect();
        let pages = mapped(&all, &[(0, 0, ""), (1, 0, ""), (2, 0, "")]);
        let mut channel = channel("memory-channel-2", "", &with(&pages, &["system.hosts=3"]));
        let sweep = Operation::Sweep { targets: 0b110 };
        let begun = channel.begin_operation(Time::ZERO, 0, sweep, Ticket(1)).is_ok();
        (channel.keeps_barrier(), channel.keeps_one_order(), begun)
    };
    assert_eq!(keeps("local_copy = true, sweep = true"), (true, true, true));
    assert_eq!(keeps("local_copy = true"), (false, true, false));
    assert_eq!(keeps("acknowledge = true"), (false, false, true));
}

/// What is filtered is not asked for again: with damaged packets, copies and acknowledgments every packet
/// is delivered or given up, and the order of all holds.
#[test]
fn damaged_packets_of_mapped_pages_come_again_and_filtered_ones_do_not() {
    let entry = "reach = 'broadcast', local_copy = true, sweep = true";
    let incoming = [(0, 0, ""), (1, 0, ""), (2, 0, "enabled = false")];
    let pages = mapped(&[(0, 0, entry), (1, 0, entry)], &incoming);
    let others = [
        "system.hosts=3",
        "channel.memory.window.broadcast=1",
        "channel.memory.window.check_order=true",
        "channel.memory.errors.packet_error_rate=0.003",
        "channel.memory.window.recovery=10 us",
        "workload.memory.load=0.05",
        "run.length=4 ms",
        "run.regime=from_empty",
    ];
    let run = try_run("memory-channel-2", "", &with(&pages, &others)).expect("it runs");
    let seen = &run.observations;
    let dropped = column(&run, "filtered_packets") + column(&run, "unmapped_packets");
    assert_eq!(seen.abandoned as f64, dropped, "nothing else is given up");
    let is_tried = column(&run, "filtered_packets") > 400.0 && column(&run, "recoveries") > 8.0;
    assert!(is_tried, "{:?}", run.counters);
    // Acknowledgments that software sends again leave the adapter as stores do: its eight places do
    // not run out.
    assert!(column(&run, "acknowledged_packets") > 400.0, "{:?}", run.counters);
    assert_eq!(seen.generated, seen.delivered + seen.abandoned + run.backlog + run.in_flight);
}
