//! What a reader of a result should know about the run, and that no type can refuse because it may
//! be intended.

use weft_fabric::fabric::FabricSettings;

use crate::composition::ChannelSettings;
use crate::plan::Plan;
use crate::program::background::offers;

/// One sentence for each thing worth knowing, none twice, in the order of the points.
pub fn notes(plan: &Plan) -> Vec<String> {
    let mut notes: Vec<String> = inherited(plan).into_iter().collect();
    for point in &plan.points {
        for (name, channel) in &point.spec.channel {
            let own = [empty_ports(channel, point.spec.system.hosts), cycles(channel)];
            for note in own.into_iter().flatten() {
                let note = format!("channel {name}: {note}");
                if !notes.contains(&note) {
                    notes.push(note);
                }
            }
        }
    }
    notes
}

/// Inherited traffic, which the file itself does not mention.
fn inherited(plan: &Plan) -> Option<String> {
    let spec = &plan.points.first()?.spec;
    let is_heard = |name: &String| match spec.workload.get(name) {
        Some(workload) => spec.running_program().is_none() || offers(workload),
        None => false,
    };
    let said: Vec<String> = plan
        .inherited
        .iter()
        .filter(|(name, _)| is_heard(name))
        .map(|(name, file)| format!("workload.{name} of {file}"))
        .collect();
    if said.is_empty() {
        return None;
    }
    let beside = if spec.running_program().is_some() { ", beside the program" } else { "" };
    Some(format!(
        "the base adds traffic that this file does not mention{beside}: {}",
        said.join(", ")
    ))
}

/// Hosts that a fabric has ports for and that are not there.
fn empty_ports(channel: &ChannelSettings, hosts: u32) -> Option<String> {
    let room = channel.fabric.room(channel.link.rate).filter(|room| *room > u64::from(hosts))?;
    let kind = match channel.fabric {
        FabricSettings::Star => "star",
        FabricSettings::KAryTree(_) => "k_ary_tree",
        FabricSettings::FatTree(_) => "fat_tree",
        FabricSettings::LeafSpine(_) => "leaf_spine",
        FabricSettings::Dragonfly(_) => "dragonfly",
        FabricSettings::HyperX(_) => "hyperx",
        FabricSettings::FoldedTree => "folded_tree",
        FabricSettings::Torus(_) => "torus",
        FabricSettings::Mesh(_) => "mesh",
        FabricSettings::Table(_) => "table",
    };
    Some(format!(
        "fabric.{kind} has ports for {room} hosts and system.hosts is {hosts}; the last {} ports \
         are empty, and a pattern knows of {hosts} hosts only",
        room - u64::from(hosts)
    ))
}

/// Buffers that may wait for each other.
fn cycles(channel: &ChannelSettings) -> Option<String> {
    let is_allowed = !channel.deadlock.is_refused();
    is_allowed.then(|| {
        "with deadlock = allowed nobody looked for cycles of buffers; packets that wait for each \
         other for good end a run as `stuck` or `partly stuck`, without a mean"
            .to_owned()
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source::Request;

    fn of(hosts: u32, fabric: &str, more: &str) -> Vec<String> {
        let text = format!(
            "[system]\ntitle = 'n'\nhosts = {hosts}\n[channel.c]\npacket = '64 B'\n\
             payload = '48 B'\nlink.rate = '1 Gbit/s'\nadapter.send_buffers = 'unlimited'\n\
             switch.input_queued = {{ buffer = 8, scheduler = 'islip' }}\nfabric.{fabric}\n{more}\n\
             [workload.c]\nload = 0.1\n"
        );
        notes(&Plan::new(&Request::of_text("notes.toml", &text)).unwrap())
    }

    const APART: &str = "flow_control.virtual_channel_credits.channels = 2";

    #[test]
    fn ports_without_hosts_are_counted() {
        for (fabric, room) in [
            ("torus.dimensions = [4, 5]", 20),
            ("mesh = { dimensions = [3, 2], hosts_per_switch = 3 }", 18),
            ("k_ary_tree = { arity = 4, levels = 2 }", 16),
            ("fat_tree = { radix = 6, tiers = 2 }", 18),
            ("fat_tree = { radix = 4, tiers = 3 }", 16),
        ] {
            let [note] = &of(15, fabric, APART)[..] else { panic!("{fabric}") };
            assert!(note.contains(&format!("has ports for {room} hosts and system.hosts is 15")));
            assert!(note.contains(&format!("the last {} ports are empty", room - 15)), "{note}");
            assert_eq!(of(room, fabric, APART), Vec::<String>::new());
        }
    }

    #[test]
    fn buffers_that_nobody_looked_at_are_told() {
        let [note] = &of(16, "torus.dimensions = [4, 4]", "deadlock = 'allowed'")[..] else {
            panic!("one note")
        };
        assert!(note.starts_with("channel c: with deadlock = allowed nobody looked"), "{note}");
        assert_eq!(of(16, "torus.dimensions = [4, 4]", APART), Vec::<String>::new());
    }
}
