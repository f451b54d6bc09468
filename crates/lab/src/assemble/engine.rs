//! A channel that the engine runs: switches with queues at their outputs, each with its settings, and
//! cables, each with its link.

use weft_fabric::fabric::Wiring;
use weft_fabric::workload::{Source, WorkloadSettings};
use weft_units::{Limit, Span};

use super::{Driver, Site, network};
use crate::composition::{ChannelSettings, SwitchSettings};
use crate::drive::engine::{Engine, EngineParts};
use crate::error::Error;
use weft_fabric::switch::OutputQueuedSettings;

/// The channel of `switch` and those that the file names apart from it.
pub(super) fn build(
    settings: &ChannelSettings,
    switch: &OutputQueuedSettings,
    sources: Vec<Source>,
    site: Site<'_>,
) -> Result<Driver, Error> {
    network::refuse_what_a_fabric_does_not_read(settings, site.name)?;
    let (wiring, routes) = network::ways(settings, site)?;
    if wiring.links(&settings.link).iter().any(|link| link.span(settings.packet) == Span::ZERO) {
        let accepted = "a size that takes a picosecond or more on every link";
        super::refuse(site.name, "packet", &settings.packet.to_string(), accepted)?;
    }
    let switches = switches(settings, switch, &wiring, site.name)?;
    let drops = |own: &&OutputQueuedSettings| own.buffers != Limit::Unlimited;
    if sources.is_empty()
        && let Some(own) = switches.iter().find(drops)
    {
        let accepted = "unlimited where packets are those of messages: of what a switch drops \
                        nobody sends anything again";
        super::refuse(
            site.name,
            "switch.output_queued.buffers",
            &own.buffers.to_string(),
            accepted,
        )?;
    }
    Ok(Driver::Engine(Box::new(Engine::new(EngineParts {
        switches,
        wiring,
        routes,
        link: settings.link.clone(),
        packet: settings.packet,
        payload: settings.payload,
        send_buffers: settings.adapter.send_buffers,
        sources,
        observations: site.observations(),
        until: site.until,
    }))))
}

/// The settings of each switch.
fn switches(
    settings: &ChannelSettings,
    switch: &OutputQueuedSettings,
    wiring: &Wiring,
    channel: &str,
) -> Result<Vec<OutputQueuedSettings>, Error> {
    let mut switches = vec![switch.clone(); wiring.switches() as usize];
    for (name, own) in &settings.switches {
        let fault = |value: &str, accepted: String| Error::Assembly {
            key: format!("channel.{channel}.switches.{name}"),
            value: value.to_owned(),
            accepted,
        };
        let Some(number) = wiring.switch_named(name) else {
            let first = wiring.bare_name(0);
            return Err(fault("given", format!("a switch of the fabric, such as {first}")));
        };
        let SwitchSettings::OutputQueued(own) = own else {
            let accepted = "output_queued beside switches that are output_queued".to_owned();
            return Err(fault(own.name(), accepted));
        };
        switches[number as usize] = own.clone();
    }
    Ok(switches)
}

/// Only switches with queues at their outputs may differ, and the cables between them.
pub(crate) fn refuse_what_differs(settings: &ChannelSettings, name: &str) -> Result<(), Error> {
    let given = match settings {
        _ if runs(settings) => None,
        ChannelSettings { fabric, .. } if fabric.has_own_cables() => {
            Some(("fabric", "cables with links of their own"))
        }
        ChannelSettings { switches, .. } if !switches.is_empty() => Some(("switches", "given")),
        _ => None,
    };
    let accepted = "cables and switches that are all alike, since only output_queued switches over \
                    links without turns may differ";
    given.map_or(Ok(()), |(key, value)| super::refuse(name, key, value, accepted))
}

/// All but the engine, and whoever sends messages, counts hosts with sixteen bits.
pub(super) fn refuse_more_hosts_than_others_count(
    settings: &ChannelSettings,
    workload: Option<&WorkloadSettings>,
    site: Site<'_>,
) -> Result<(), Error> {
    let has_packets = workload.is_some() && !settings.carries_messages(workload);
    if site.hosts <= u32::from(u16::MAX) || (runs(settings) && has_packets) {
        return Ok(());
    }
    Err(Error::Assembly {
        key: "system.hosts".to_owned(),
        value: site.hosts.to_string(),
        accepted:
            "at most 65535, or on channels with output_queued switches that carry packets of \
                   a workload and no messages at most 1048576"
                .to_owned(),
    })
}

/// Whether the engine runs a channel.
fn runs(settings: &ChannelSettings) -> bool {
    matches!(settings.switch, SwitchSettings::OutputQueued(_)) && settings.turns.is_none()
}
