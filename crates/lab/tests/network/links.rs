//! How busy each cable was, on every fabric and every kind of switch that works packet by packet.

use weft_lab::{Cell, Options, Request, Table};

use super::{file, voq};

fn links(text: &str) -> Table {
    let request = Request::of_text("links.toml", text);
    let outcome = weft_lab::run(&request, &Options::default(), &mut |_, _| true).expect(text);
    outcome.table("links")
}

fn text(table: &Table, row: usize, name: &str) -> String {
    match table.get(row, name) {
        Some(Cell::Text(text)) => text,
        other => format!("{other:?}"),
    }
}

fn load(table: &Table, row: usize) -> f64 {
    match table.get(row, "link_load") {
        Some(Cell::Number(Some(load))) => load,
        _ => f64::NAN,
    }
}

/// The cables that carried anything, and how much of the time.
fn busy(table: &Table) -> Vec<(String, f64)> {
    let rows = (0..table.rows()).map(|row| (text(table, row, "name"), load(table, row)));
    rows.filter(|(_, load)| *load > 0.0).collect()
}

/// A packet of 1 us in a run of 100 us.
const ONE: &str = "source.list = [{ time = '5 us', from = 0, to = 2 }]";

#[test]
fn one_packet_is_on_the_cables_of_its_way_and_no_others() {
    let fabrics = [
        ("fabric.torus.dimensions = [4]", 3),
        ("fabric.mesh.dimensions = [2, 2]", 2),
        ("fabric.k_ary_tree = { arity = 2, levels = 2 }", 3),
        ("fabric.fat_tree = { radix = 4, tiers = 2 }", 3),
        ("fabric.leaf_spine = { hosts_per_leaf = 2, leaves = 2, spines = 3 }", 3),
        ("fabric.dragonfly = { hosts_per_router = 1, groups = 2 }", 2),
        ("fabric.hyperx = { dimensions = [2, 2], order = 'any' }", 2),
        (
            "fabric.table = { switches = [{ name = 'a', ports = 3 }, { name = 'b', ports = 3 }], \
          cables = [{ from = 'host 0', to = 'a.0' }, { from = 'host 1', to = 'a.1' }, \
          { from = 'host 2', to = 'b.0' }, { from = 'host 3', to = 'b.1' }, \
          { from = 'a.2', to = 'b.2' }] }",
            2,
        ),
    ];
    let memory = "switch.shared_memory = { latency = '90 ns', buffer = 8 }";
    for (fabric, switches) in fabrics {
        let queues = file(4, fabric, ONE, "100 us");
        let shared = queues.replace("switch.output_queued.latency = '90 ns'", memory);
        let inputs = format!("{fabric}\ndeadlock = 'allowed'");
        let shared = shared.replace(fabric, &inputs);
        for file in [&queues, &shared, &voq(4, "buffer = 8", &inputs, ONE, "100 us")] {
            let table = links(file);
            let found = busy(&table);
            assert_eq!(found.len(), switches + 1, "{fabric}: {found:?}");
            for (name, load) in &found {
                assert!((load - 0.01).abs() < 1e-12, "{fabric}: {name} {load}");
            }
            assert!(
                found.iter().any(|(name, _)| name.starts_with("host 0 to switch ")),
                "{fabric}"
            );
            assert!(found.iter().any(|(name, _)| name.ends_with(" to host 2")), "{fabric}");
        }
    }
}

#[test]
fn a_star_has_two_directions_for_each_host() {
    let star = file(4, "", ONE, "100 us");
    let kinds = [
        "switch.output_queued.latency = '90 ns'",
        "switch.input_queued.scheduler = 'islip'",
        "switch.scheduled = { latency = '90 ns', lead = '1 us', scheduler = 'islip' }",
        "switch.crossbar = { latency = '90 ns', contention = 'back_pressure' }",
        "switch.output_buffered = { latency = '90 ns', buffers = 8, writers = 'unlimited' }",
    ];
    for switch in kinds {
        let table = links(&star.replace(kinds[0], switch));
        assert_eq!(table.rows(), 8, "{switch}");
        let found = busy(&table);
        let names: Vec<&str> = found.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, ["port 2 of switch 0.0 to host 2", "host 0 to switch 0.0"], "{switch}");
        assert!(found.iter().all(|(_, load)| (load - 0.01).abs() < 1e-12), "{switch}: {found:?}");
    }
}

/// Each host of a ring of four sends to the next: the direction up is as busy as the hosts, the
/// direction down idle. At twice what a link carries all are busy for ever, whatever waits behind.
#[test]
fn overload_is_no_more_than_all_of_the_time() {
    let workload = "load = 2.0\npattern.shift = 1";
    let ring = "fabric.torus.dimensions = [4]\nflow_control.virtual_channel_credits.channels = 2";
    let queues = file(4, "fabric.torus.dimensions = [4]", workload, "2 ms");
    for file in [&queues, &voq(4, "buffer = 16", ring, workload, "2 ms")] {
        let table = links(file);
        assert_eq!(table.rows(), 4 * 4);
        for row in 0..table.rows() {
            let (name, load) = (text(&table, row, "name"), load(&table, row));
            let is_down = name.starts_with("port 2 ");
            assert!(
                if is_down { load == 0.0 } else { (0.97..=1.0).contains(&load) },
                "{name} {load}"
            );
        }
    }
}
