//! A channel of several switches: which of the settings its driver reads, and what it is made of.

use weft_fabric::adapter::{Feed, Insertion, Release};
use weft_fabric::fabric::{FabricError, Routes};
use weft_fabric::workload::Source;
use weft_protocol::retransmit::ControlSettings;
use weft_units::Span;

use super::{Driver, Site, refuse};
use crate::composition::{ChannelSettings, SwitchSettings};
use crate::drive::network::{NetworkParts, OutputQueuedNetwork};
use crate::error::Error;

/// The channel of a fabric that is not a star.
pub(super) fn build(
    settings: &ChannelSettings,
    sources: Vec<Source>,
    site: Site<'_>,
) -> Result<Driver, Error> {
    refuse_what_a_fabric_does_not_read(settings, site.name)?;
    let latency = latency(&settings.switch, site.name)?;
    let wiring = settings.fabric.wiring(site.hosts).map_err(|error| named(site.name, error))?;
    let random = site.streams.stream(&format!("{}.routes", site.name), 0);
    let routes = settings.routes.clone().unwrap_or_default();
    let routes = Routes::new(&routes, &wiring, random).map_err(|error| named(site.name, error))?;
    let parts = NetworkParts {
        wiring,
        routes,
        packet: settings.packet_span(),
        payload: settings.payload,
        propagation: settings.link.propagation(),
        latency,
        send_buffers: settings.adapter.send_buffers,
        sources,
        observations: site.observations(),
    };
    Ok(Driver::Network(Box::new(OutputQueuedNetwork::new(parts))))
}

/// The latency of a kind of switch that there is in stages.
fn latency(switch: &SwitchSettings, channel: &str) -> Result<Span, Error> {
    match switch {
        SwitchSettings::OutputQueued(switch) => Ok(switch.latency),
        other => Err(Error::Assembly {
            key: format!("channel.{channel}.switch"),
            value: other.name().to_owned(),
            accepted: "output_queued in a fabric other than star".to_owned(),
        }),
    }
}

/// The number of hosts is a setting of the system, everything else one of the channel.
fn named(channel: &str, error: FabricError) -> Error {
    let FabricError { key, value, accepted } = error;
    let key = match key.as_str() {
        "hosts" => "system.hosts".to_owned(),
        _ => format!("channel.{channel}.{key}"),
    };
    Error::Assembly { key, value, accepted }
}

fn refuse_what_a_fabric_does_not_read(settings: &ChannelSettings, name: &str) -> Result<(), Error> {
    let adapter = &settings.adapter;
    let refuse = |key: &str, value: &str, accepted: &str| refuse(name, key, value, accepted);
    if settings.control.as_ref().is_some_and(|own| *own != ControlSettings::Unacknowledged) {
        let accepted = "no control in a fabric other than star, which loses nothing";
        return refuse("control", "given", accepted);
    }
    if adapter.feed != Feed::Fifo {
        let accepted = "fifo in a fabric other than star";
        return refuse("adapter.feed", "per_target", accepted);
    }
    if adapter.release == Some(Release::Acknowledgment) {
        let accepted = "transmission, since nothing acknowledges in a fabric other than star";
        return refuse("adapter.release", "acknowledgment", accepted);
    }
    if adapter.acknowledgments != Insertion::Wait {
        let accepted = "wait, since nothing acknowledges in a fabric other than star";
        return refuse("adapter.acknowledgments", "interleave", accepted);
    }
    if adapter.throttle.is_some() {
        return refuse("adapter.throttle", "given", "no throttle in a fabric other than star");
    }
    let given = settings.faults().first().or(settings.recovery.map(|_| "recovery"));
    let given = given.or(settings.interface.as_ref().map(|_| "interface"));
    match given {
        Some(key) => refuse(key, "given", "it only in a star"),
        None => Ok(()),
    }
}

/// A star has one way from a host to another.
pub(super) fn refuse_what_a_star_does_not_read(
    settings: &ChannelSettings,
    name: &str,
) -> Result<(), Error> {
    match &settings.routes {
        Some(_) => {
            let accepted = "no routes in a star, where every host is one switch from every other";
            refuse(name, "routes", "given", accepted)
        }
        None => Ok(()),
    }
}
