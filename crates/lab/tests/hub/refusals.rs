//! What does not fit, with its reason.

use expect_test::{Expect, expect};

use super::try_run;

fn refused(overrides: &[&str], message: Expect) {
    let mut all = vec!["workload.memory.load=0.1", "run.length=10 us"];
    all.extend(overrides);
    let error = try_run("memory-channel-2", "", &all).expect_err("it was carried out");
    message.assert_eq(&error.to_string());
}

#[test]
fn more_nodes_than_ports() {
    refused(
        &["system.hosts=17"],
        expect![[r#"
        --set system.hosts=17: system.hosts = 17 does not fit
            accepted: at most the 16 ports of channel.memory.switch.hub"#]],
    );
}

#[test]
fn more_ports_than_a_hub_can_have() {
    refused(
        &["channel.memory.switch.hub.ports=65"],
        expect![[r#"
            --set channel.memory.switch.hub.ports=65: channel.memory.switch.hub.ports = 65 does not fit
                accepted: 1 to 64 ports"#]],
    );
}

#[test]
fn a_page_that_nobody_maps_incoming() {
    let page = "channel.memory.window.outgoing=[{ node = 0, page = 3, entry = { reach = { point = 1 } } }]";
    refused(
        &[page],
        expect![[r#"
            --set channel.memory.window.outgoing=[{ node = 0, page = 3, entry = { reach = { point = 1 } } }]: channel.memory.window.outgoing = given does not fit
                accepted: what both sides agree on; node 0 maps page 3 outgoing to node 1, which maps it incoming nowhere: both sides must consent"#]],
    );
}

#[test]
fn a_page_past_the_window() {
    let page = "channel.memory.window.incoming=[{ node = 0, page = 20000, entry = {} }]";
    refused(
        &[page],
        expect![[r#"
        --set channel.memory.window.incoming=[{ node = 0, page = 20000, entry = {} }]: channel.memory.window = given does not fit
            accepted: what both sides agree on; page 20000 of a window of 16384 pages: accepted is a number below 16384"#]],
    );
}

#[test]
fn pages_of_another_size() {
    refused(
        &["channel.memory.window.page=16 KiB"],
        expect![[
            r#"--set channel.memory.window.page=16 KiB: channel.memory.window.page = "16 KiB": pages of 16 KiB: accepted are 4 KiB and 8 KiB"#
        ]],
    );
}

#[test]
fn writes_longer_than_a_packet() {
    refused(
        &["channel.memory.window.write=512 B"],
        expect![[r#"
        --set channel.memory.window.write=512 B: channel.memory.window.write = 512 B does not fit
            accepted: at most the payload of a packet, 256 B"#]],
    );
}

#[test]
fn a_cable_between_three() {
    refused(
        &["system.hosts=3", "channel.memory.switch.hub.transfer=direct"],
        expect![[r#"
        --set channel.memory.switch.hub.transfer=direct: channel.memory.switch.hub.transfer = direct does not fit
            accepted: a hub for 3 hosts: a direct cable connects two"#]],
    );
}

#[test]
fn a_hub_without_a_window_and_a_window_without_a_hub() {
    let error = try_run(
        "clint",
        "",
        &["channel.bulk.switch.hub={ ports = 16, transfer = 'direct' }", "workload.bulk.load=0.1"],
    )
    .expect_err("it was carried out");
    expect![[r#"
        --set channel.bulk.switch.hub={ ports = 16, transfer = 'direct' }: channel.bulk.switch.hub.transfer = direct does not fit
            accepted: bus or crossbar without `window`: a direct cable, with nothing in its middle, is what two mapped windows have in place of a hub"#]].assert_eq(&error.to_string());
}

#[test]
fn pages_beside_all_and_none_where_they_are_listed() {
    let page = "channel.memory.window.incoming=[{ node = 0, page = 0, entry = {} }]";
    refused(
        &[page],
        expect![[r#"
            systems/memory-channel-2.toml:34:1: channel.memory.window.mappings = all does not fit
                34 | mappings = { value = "all", derived = "the document describes the mappings of none of its measurements; the nodes that it writes between have mapped the pages" }
                   | ^^^^^^^^
                accepted: listed, with pages in window.outgoing and window.incoming"#]],
    );
    refused(
        &["channel.memory.window.mappings=listed"],
        expect![[r#"
        --set channel.memory.window.mappings=listed: channel.memory.window.mappings = listed does not fit
            accepted: all, or pages in window.outgoing and window.incoming"#]],
    );
}

#[test]
fn attributes_that_have_no_setting() {
    let listed = "channel.memory.window.mappings=listed";
    let page = |entry: &str| {
        format!("channel.memory.window.incoming=[{{ node = 0, page = 0, entry = {{ {entry} }} }}]")
    };
    refused(
        &[listed, &page("interrupt = true")],
        expect![[r#"
        --set channel.memory.window.incoming=[{ node = 0, page = 0, entry = { interrupt = true } }]: missing key `interrupt` in channel.memory.window
            accepted: the time from memory to the program by an interrupt, which pages request"#]],
    );
    let no_remap = "channel.memory.window.remapping=false";
    refused(
        &[listed, &page("remap = 3"), no_remap],
        expect![[r#"
        --set channel.memory.window.incoming=[{ node = 0, page = 0, entry = { remap = 3 } }]: channel.memory.window.incoming = remap does not fit
            accepted: no remap: window.remapping is false"#]],
    );
    refused(
        &[listed, &page("remap = 600000")],
        expect![[r#"
        --set channel.memory.window.incoming=[{ node = 0, page = 0, entry = { remap = 600000 } }]: channel.memory.window = given does not fit
            accepted: what both sides agree on; page 0 of node 0 is remapped to page 600000: accepted is 0 to 524287"#]],
    );
    let copied = "channel.memory.window.outgoing=[{ node = 0, page = 0, \
                  entry = { reach = { point = 1 }, local_copy = true } }]";
    let cable = "channel.memory.switch.hub.transfer=direct";
    let taken = "channel.memory.window.incoming=[{ node = 1, page = 0, entry = {} }]";
    refused(
        &["system.hosts=2", listed, copied, taken, cable],
        expect![[r#"
        --set channel.memory.window.outgoing=[{ node = 0, page = 0, entry = { reach = { point = 1 }, local_copy = true } }]: channel.memory.window.outgoing = local_copy does not fit
            accepted: no local_copy on a direct cable, which has no point of ordering"#]],
    );
}

#[test]
fn a_store_into_a_page_of_requests() {
    let pages = super::pages::mapped(
        &[(0, 0, "reach = { point = 1 }")],
        &[(1, 0, "conditional_write = true")],
    );
    let mut pages: Vec<&str> = pages.iter().map(String::as_str).collect();
    pages.push(
        "channel.memory.window.accesses=[{ at = '1 us', node = 0, \
         what.write = { offset = '0 B', size = '8 B' } }]",
    );
    refused(
        &pages,
        expect![[r#"
        --set channel.memory.window.accesses=[{ at = '1 us', node = 0, what.write = { offset = '0 B', size = '8 B' } }]: channel.memory.window.accesses = node 0 writes 8 B at 0 B does not fit
            accepted: what the page control tables allow; page 0 of node 1 has the attribute conditional_write: it takes no stores"#]],
    );
}
