//! Channels of several switches, through the same door as every other channel.

#![allow(clippy::expect_used, reason = "a test that cannot go on fails")]

mod class_credits;
mod classes;
mod credits;
mod cycle_counts;
mod deadlock;
mod dragonfly;
mod endpoints;
mod full;
mod hub_crossbars;
mod hubs;
mod hyperx;
mod large;
mod laws;
mod links;
mod mixed;
mod oversubscription;
mod parts;
mod planes;
mod rank_parts;
mod ranks;
mod refusals;
mod rings;
mod shared_buffer;
mod shared_memory;
mod slingshot;
mod stations;
mod threads;
mod torus;
mod unlike;

use weft_kernel::Halt;
use weft_lab::{ChannelRun, Plan, Request, simulate};

/// A channel with packets of 1 us, cables of 20 ns and switches of 90 ns. `channel` holds further
/// keys of the channel, `workload` those of its traffic.
pub fn file(hosts: u32, channel: &str, workload: &str, length: &str) -> String {
    format!(
        "[system]\ntitle = 'network'\nhosts = {hosts}\n\
         [channel.c]\npacket = '125 B'\npayload = '100 B'\n\
         link = {{ rate = '1 Gbit/s', length = '4 m', delay_per_metre = '5 ns' }}\n\
         adapter.send_buffers = 'unlimited'\n\
         switch.output_queued.latency = '90 ns'\n{channel}\n\
         [workload.c]\n{workload}\n\
         [run]\nlength = '{length}'\nregime = 'from_empty'\n"
    )
}

/// The same with queues at the inputs. A slot is a packet unless `switch` names a cell.
pub fn voq(hosts: u32, switch: &str, channel: &str, workload: &str, length: &str) -> String {
    let queues =
        format!("switch.input_queued = {{ latency = '90 ns', scheduler = 'islip', {switch} }}");
    file(hosts, channel, workload, length)
        .replace("switch.output_queued.latency = '90 ns'", &queues)
}

/// Two leaves with 70 hosts each, and the switches between them, of 140 ports each.
pub const MANY_PORTS: &str =
    "fabric.fat_tree = { radix = 140, tiers = 2 }\nroutes.per_packet = 'adaptive'";

/// Three switches in a ring, where each host may send two switches further and their buffers wait for each
/// other in a cycle.
const RING: &str = "fabric.table = { switches = [{ name = 'a', ports = 3 }, \
    { name = 'b', ports = 3 }, { name = 'c', ports = 3 }], cables = [\
    { from = 'host 0', to = 'a.0' }, { from = 'host 1', to = 'b.0' }, \
    { from = 'host 2', to = 'c.0' }, { from = 'a.1', to = 'b.2' }, \
    { from = 'b.1', to = 'c.2' }, { from = 'c.1', to = 'a.2' }] }\n\
    routes.per_connection.given = [{ from = 0, to = 2, switches = ['a', 'b', 'c'] }, \
    { from = 1, to = 0, switches = ['b', 'c', 'a'] }, \
    { from = 2, to = 1, switches = ['c', 'a', 'b'] }]\n\
    deadlock = 'allowed'";

pub fn run(text: &str, seed: u64) -> ChannelRun {
    let plan = Plan::new(&Request::of_text("network.toml", text)).expect(text);
    let runs = simulate(&plan.points[0].spec, seed, &Halt::new()).expect(text);
    runs.into_iter().next().expect("the channel")
}

/// Switches by name with their numbers of ports, and cables by their ends. Those between switches
/// are like `more` says.
fn table(switches: &[(&str, u32)], cables: &[(&str, &str)], more: &str) -> String {
    let switches =
        switches.iter().map(|(name, ports)| format!("{{ name = '{name}', ports = {ports} }}"));
    let cables = cables.iter().map(|(from, to)| {
        let own = if from.contains('.') { more } else { "" };
        format!("{{ from = '{from}', to = '{to}'{own} }}")
    });
    let list = |all: Vec<String>| all.join(", ");
    format!(
        "fabric.table = {{ switches = [{}], cables = [{}] }}",
        list(switches.collect()),
        list(cables.collect())
    )
}

fn refusal(text: &str) -> String {
    Plan::new(&Request::of_text("network.toml", text)).expect_err(text).to_string()
}
