//! A channel of mapped windows around a hub: which of the settings it reads, and what it is made
//! of. And hubs without windows, which are switches of a fabric.

use weft_fabric::adapter::{Feed, Insertion};
use weft_fabric::fabric::Wiring;
use weft_fabric::graph::{ClockedBusParts, ClockedHubParts, SwitchParts};
use weft_fabric::switch::{HubScheduler, HubSettings, MAX_HUB_PORTS, TransferSettings};
use weft_fabric::workload::Source;
use weft_kernel::Stream;
use weft_protocol::flow::FlowControlSettings;
use weft_units::{PositiveCount, Span};

use super::engine::Place;
use super::network::SharedCells;
use super::{Site, errors, network, refuse, refuse_hosts};
use crate::composition::{ChannelSettings, SwitchSettings};
use crate::drive::engine::{EngineParts, HubParts};
use crate::error::{ABSENT, Error};

/// The parts of the channel of a hub.
pub(super) fn channel(
    settings: &ChannelSettings,
    hub: &HubSettings,
    sources: Vec<Source>,
    site: Site<'_>,
) -> Result<EngineParts, Error> {
    refuse_what_a_hub_does_not_read(settings, site.name)?;
    errors::check(settings, false, site)?;
    let Some(window) = settings.window.clone() else {
        return refuse(site.name, "window", ABSENT, "a window for each host of this hub");
    };
    if let TransferSettings::Bus { buffer: Some(buffer), .. } = &hub.transfer {
        let accepted = "no buffer among mapped windows, whose packets wait in their adapters until the \
                        bus takes them";
        return refuse(site.name, "switch.hub.transfer.bus.buffer", &buffer.to_string(), accepted);
    }
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
    Ok(EngineParts {
        switches: switch.into_iter().collect(),
        hub: Some(windows),
        ..network::bare(settings, network::fabric(settings, site)?, sources, site)
    })
}

/// Only the hub of a star has windows.
pub(super) fn refuse_a_window_without(settings: &ChannelSettings, name: &str) -> Result<(), Error> {
    if settings.window.is_none() {
        return Ok(());
    }
    if !matches!(settings.switch, SwitchSettings::Hub(_)) {
        let accepted = "none where `switch` is no hub: mapped windows are around the hub of a star, and \
                        a hub among other switches passes packets on without them";
        return refuse(name, "window", "given", accepted);
    }
    if !settings.fabric.is_star() {
        let accepted = "star with mapped windows, whose writes have one order because one hub sees them \
                        all and knows of room at every host; a hub without `window` is a switch of any \
                        fabric";
        return refuse(name, "fabric", "given", accepted);
    }
    Ok(())
}

/// Whether a switch is a hub that passes packets on, without windows.
pub(super) fn is_of_packets(settings: &ChannelSettings, switch: &SwitchSettings) -> bool {
    settings.window.is_none() && matches!(switch, SwitchSettings::Hub(_))
}

/// A hub without windows.
#[derive(Clone, Copy, Debug)]
pub(super) struct Hub<'a> {
    settings: &'a HubSettings,
    /// How many packets each of its ports holds.
    pub buffer: u32,
    /// From a decision of its bus to the first byte, if it has one and no crossbar.
    arbitration: Option<Span>,
}

/// A hub without windows, if it can be part of a fabric.
pub(super) fn of_packets<'a>(
    settings: &ChannelSettings,
    hub: &'a HubSettings,
    place: Place<'_>,
) -> Result<Hub<'a>, Error> {
    let ports = usize::from(hub.ports);
    if !(1..=MAX_HUB_PORTS).contains(&ports) {
        let accepted = format!(
            "1 to {MAX_HUB_PORTS} ports, with `window` and without: the targets of a packet are one word \
             of bits"
        );
        place.refuse("hub.ports", &ports.to_string(), &accepted)?;
    }
    let (arbitration, buffer) = match &hub.transfer {
        TransferSettings::Bus { arbitration, buffer } => (Some(*arbitration), *buffer),
        TransferSettings::Crossbar { buffer, .. } => (None, Some(*buffer)),
        TransferSettings::Direct => {
            let accepted = "bus or crossbar without `window`: a direct cable, with nothing in its middle, \
                            is what two mapped windows have in place of a hub";
            return place.refuse("hub.transfer", "direct", accepted);
        }
    };
    let Some(buffer) = buffer.map(PositiveCount::get) else {
        let accepted = "the packets that each port of the hub holds, since without `window` they wait \
                        there for the bus";
        return place.refuse("hub.transfer.bus.buffer", ABSENT, accepted);
    };
    let hub = Hub { settings: hub, buffer, arbitration };
    hub.check_channels(settings, place)?;
    Ok(hub)
}

impl Hub<'_> {
    /// A bus passes packets of several virtual channels. An input of the crossbar has one queue.
    fn check_channels(&self, settings: &ChannelSettings, place: Place<'_>) -> Result<(), Error> {
        let Some(FlowControlSettings::VirtualChannelCredits(own)) = &settings.flow_control else {
            return Ok(());
        };
        if self.arbitration.is_some() {
            let key = format!("{}.hub.transfer.bus.buffer", place.key);
            let shared = SharedCells { key: &key, cells: self.buffer, cells_per_packet: 1 };
            return network::channels_fit(own.channels, &shared, place.channel);
        }
        if own.channels == PositiveCount::ONE {
            return Ok(());
        }
        let accepted = format!(
            "1 where {} is a hub with a crossbar: each of its inputs has one queue, in which a packet \
             of one channel would wait behind those of others",
            place.key
        );
        let key = "flow_control.virtual_channel_credits.channels";
        refuse(place.channel, key, &own.channels.to_string(), &accepted)
    }
}

/// A hub in the place of a switch has a port for each of its cables.
pub(super) fn refuse_too_few_ports(
    number: u32,
    hub: Hub<'_>,
    wiring: &Wiring,
    place: Place<'_>,
) -> Result<(), Error> {
    let (needed, ports) = (wiring.ports_of(number), hub.settings.ports);
    if needed <= u32::from(ports) {
        return Ok(());
    }
    let named = wiring.switch_name(number);
    let accepted = format!("{needed} or more, since so many cables of the fabric end at {named}");
    place.refuse("hub.ports", &ports.to_string(), &accepted)
}

/// What such a hub is made of in the place of a switch. A scheduler may draw from `random`.
pub(super) fn switch(
    hub: Hub<'_>,
    random: impl FnOnce() -> Stream,
    name: &str,
) -> Result<SwitchParts, Error> {
    let Hub { settings, buffer, arbitration } = hub;
    let latency = settings.latency;
    if let Some(arbitration) = arbitration {
        return Ok(SwitchParts::Bus(ClockedBusParts { latency, arbitration, buffer }));
    }
    let ports = usize::from(settings.ports);
    let scheduler = settings.scheduler().map(|own| HubScheduler::new(own, ports, random()));
    let scheduler = scheduler
        .transpose()
        .map_err(|error| Error::Scheduler { channel: name.to_owned(), error })?;
    let scheduler = scheduler.map(Box::new);
    Ok(SwitchParts::FifoCrossbar(ClockedHubParts { latency, buffer, scheduler }))
}

fn refuse_what_a_hub_does_not_read(settings: &ChannelSettings, name: &str) -> Result<(), Error> {
    let refuse = |key: &str, value: &str, accepted: &str| refuse(name, key, value, accepted);
    let adapter = &settings.adapter;
    if adapter.feed != Feed::Fifo {
        return refuse(
            "adapter.feed",
            "per_target",
            "fifo with mapped windows, which keep their order",
        );
    }
    if adapter.release.is_some() {
        return refuse(
            "adapter.release",
            "given",
            "no release with mapped windows, whose writes leave their buffer as they are sent",
        );
    }
    if adapter.acknowledgments != Insertion::Wait {
        let accepted = "wait with mapped windows, whose links carry each packet whole";
        return refuse("adapter.acknowledgments", "interleave", accepted);
    }
    if adapter.throttle.is_some() {
        let accepted = "no throttle with mapped windows, since the arbitration of their hub decides \
                        when an adapter sends";
        return refuse("adapter.throttle", "given", accepted);
    }
    if settings.control.is_some() {
        let accepted = "no control with mapped windows, whose hub loses nothing";
        return refuse("control", "given", accepted);
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
            refuse(key, "given", &format!("{none} with mapped windows, since {reason}"))
        }
        None => Ok(()),
    }
}
