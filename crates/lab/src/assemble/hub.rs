//! A channel of mapped windows around a hub: which of the settings it reads, and what it is made
//! of.

use weft_fabric::adapter::{Feed, Insertion};
use weft_fabric::graph::SwitchParts;
use weft_fabric::switch::HubSettings;
use weft_fabric::workload::Source;

use super::{Driver, Site, errors, network, refuse, refuse_hosts};
use crate::composition::{ChannelSettings, SwitchSettings};
use crate::drive::engine::{Engine, EngineParts, HubParts};
use crate::error::{ABSENT, Error};

/// The channel of a hub.
pub(super) fn build(
    settings: &ChannelSettings,
    hub: &HubSettings,
    sources: Vec<Source>,
    site: Site<'_>,
) -> Result<Driver, Error> {
    refuse_what_a_hub_does_not_read(settings, site.name)?;
    errors::check(settings, false, site)?;
    let Some(window) = settings.window.clone() else {
        return refuse(site.name, "window", ABSENT, "a window, which a hub needs");
    };
    if site.hosts > u32::from(hub.ports) {
        let accepted =
            format!("at most the {} ports of channel.{}.switch.hub", hub.ports, site.name);
        return refuse_hosts(site.hosts, &accepted);
    }
    let parts = HubParts {
        name: site.name.to_owned(),
        hosts: site.hosts as u16,
        payload: settings.payload,
        overhead: settings.overhead(),
        link: settings.link.clone(),
        hub: hub.clone(),
        window,
        send_buffers: settings.adapter.send_buffers,
        errors: settings.errors.clone().unwrap_or_default(),
        sample: site.sample,
        feedback: sources.iter().map(Source::feedback).collect(),
    };
    let windows = parts.build(site.streams);
    let windows =
        windows.or_else(|error| refuse(site.name, &error.key, &error.value, &error.accepted))?;
    let switch = (!hub.is_direct()).then(|| SwitchParts::Hub(hub.latency));
    Ok(Driver::Engine(Box::new(Engine::new(EngineParts {
        switches: switch.into_iter().collect(),
        hub: Some(windows),
        ..network::bare(settings, network::fabric(settings, site)?, sources, site)
    }))))
}

/// Only a hub has windows.
pub(super) fn refuse_a_window_without(settings: &ChannelSettings, name: &str) -> Result<(), Error> {
    if settings.window.is_some() && !matches!(settings.switch, SwitchSettings::Hub(_)) {
        return refuse(name, "window", "given", "no window on a channel without a hub");
    }
    if !settings.fabric.is_star() && matches!(settings.switch, SwitchSettings::Hub(_)) {
        return refuse(
            name,
            "fabric",
            "given",
            "star with a hub, to which each adapter has a link of its own",
        );
    }
    Ok(())
}

fn refuse_what_a_hub_does_not_read(settings: &ChannelSettings, name: &str) -> Result<(), Error> {
    let refuse = |key: &str, value: &str, accepted: &str| refuse(name, key, value, accepted);
    let adapter = &settings.adapter;
    if adapter.feed != Feed::Fifo {
        return refuse("adapter.feed", "per_target", "fifo with a hub, which keeps their order");
    }
    if adapter.release.is_some() {
        return refuse(
            "adapter.release",
            "given",
            "no release with a hub, whose writes leave their buffer as they are sent",
        );
    }
    if adapter.acknowledgments != Insertion::Wait {
        let accepted = "wait with a hub, whose links carry each packet whole";
        return refuse("adapter.acknowledgments", "interleave", accepted);
    }
    if adapter.throttle.is_some() {
        let accepted = "no throttle with a hub, whose arbitration decides when an adapter sends";
        return refuse("adapter.throttle", "given", accepted);
    }
    if settings.control.is_some() {
        return refuse("control", "given", "no control with a hub, which loses nothing");
    }
    let others = [
        (settings.receiver.is_some(), "receiver", "no receiver", "writes go into mapped memory"),
        (
            !settings.disabled.is_empty(),
            "disabled",
            "no disabled",
            "`window.mappings` says who takes what",
        ),
        (
            settings.recovery.is_some(),
            "recovery",
            "no recovery",
            "software repeats what it finds missing",
        ),
        (settings.interface.is_some(), "interface", "no interface", "programs write into windows"),
    ];
    match others.iter().find(|(given, ..)| *given) {
        Some((_, key, none, reason)) => {
            refuse(key, "given", &format!("{none} with a hub, since {reason}"))
        }
        None => Ok(()),
    }
}
