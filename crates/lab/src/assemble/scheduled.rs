//! Refuses settings that channels that act together do not read: a schedule that tells hosts what
//! became of their packets, and the channel that carries its signalling.

use weft_fabric::workload::WorkloadSettings;

use super::{flows, hub, network, refuse, turns};
use crate::composition::ChannelSettings;
use crate::error::Error;

/// Refuses settings that neither of these two channels reads. Settings that a switch does not read
/// are refused where the switch is built.
pub(crate) fn refuse_what_is_not_read(
    settings: &ChannelSettings,
    workload: Option<&WorkloadSettings>,
    name: &str,
) -> Result<(), Error> {
    hub::refuse_a_window_without(settings, name)?;
    network::refuse_deadlock_without_buffers(settings, name)?;
    network::refuse_what_needs_a_shared_memory(settings, workload, name)?;
    flows::refuse_halves(settings, workload, name)?;
    if settings.turns.is_some() {
        let accepted = "no turns under a schedule, or beside one, by which both directions of a cable carry \
                        packets at once";
        refuse(name, "turns", "given", accepted)?;
    }
    if settings.flow_control.is_some() {
        let accepted = "no flow control under a schedule, or beside one, where packets wait for no buffer: they \
                        meet no other, or are dropped";
        refuse(name, "flow_control", "given", accepted)?;
    }
    refuse_named_switches(settings, name)?;
    turns::refuse_without_turns(settings, name)
}

/// Refuses a switch by name in place of the only one, whose times a schedule has from `switch`.
pub(crate) fn refuse_named_switches(settings: &ChannelSettings, name: &str) -> Result<(), Error> {
    let Some(first) = settings.switches.keys().next() else { return Ok(()) };
    let accepted =
        "it in channel.NAME.switch, whose times a schedule goes by".replace("NAME", name);
    refuse(name, &format!("switches.{first}"), "given", &accepted)
}
