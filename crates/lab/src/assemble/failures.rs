//! Cables that fail, recover or slow down: which channels support them, and which routes are left
//! at which times.

use weft_fabric::fabric::{ConnectionRoutes, LiveNextHops, Routes, RoutesSettings};
use weft_units::Time;

use super::network::RoutedFabric;
use super::{Site, engine, network, refuse};
use crate::composition::{ChannelSettings, SwitchSettings};
use crate::drive::engine::CableParts;
use crate::error::Error;

/// A cable may change only if packets wait at the ports that send them.
const ACCEPTED: &str = "it where switches share a buffer (switch.shared_buffer), alone or beside \
                        output_queued: elsewhere it is known when a packet leaves as soon as it \
                        comes, or at a slot, and nothing tells of what is lost";

/// Refuses failing cables on channels without a part that reads the setting.
pub(crate) fn refuse_elsewhere(settings: &ChannelSettings, name: &str) -> Result<(), Error> {
    let mut switches = settings.switches.values().chain([&settings.switch]);
    let shares = switches.any(|own| matches!(own, SwitchSettings::SharedBuffer(_)));
    match settings.failures {
        Some(_) if !shares || !engine::runs(settings) => {
            refuse(name, "failures", "given", ACCEPTED)
        }
        _ => Ok(()),
    }
}

/// What packets and buffers require of cables.
#[derive(Clone, Copy, Debug)]
pub(super) struct Asks {
    /// Inputs pause classes.
    pub has_pauses: bool,
    /// Inputs give credits for the bytes of classes.
    pub has_credits: bool,
    /// Nothing retransmits lost packets.
    pub loses_nothing: bool,
}

/// The failures of the cables of a channel; `None` if there are none.
pub(super) fn parts(
    settings: &ChannelSettings,
    RoutedFabric { wiring, routes }: &RoutedFabric,
    asks: Asks,
    site: Site<'_>,
) -> Result<Option<CableParts>, Error> {
    let Some(own) = &settings.failures else { return Ok(None) };
    let built = own.build(wiring).map_err(|error| network::named(site.name, error))?;
    let Some(failures) = built else { return Ok(None) };
    let has_pauses = asks.has_pauses;
    if !failures.has_failed() {
        return Ok(Some(CableParts { failures, next_hops: Vec::new(), has_pauses }));
    }
    if asks.has_credits {
        let accepted = "cables that run at a fraction of their rate where inputs give credits \
                        (shared_buffer.classes.*.credits): those on a cable that fails are lost \
                        with it, and nothing gives them again";
        refuse(site.name, "failures.cables", "a cable that fails", accepted)?;
    }
    if asks.loses_nothing {
        let accepted = "cables that run at a fraction of their rate where packets are those of \
                        messages, or a transport (adapter.transport): nothing else retransmits \
                        what a cable loses";
        refuse(site.name, "failures.cables", "a cable that fails", accepted)?;
    }
    refuse_routes_without_a_choice(settings, routes, site.name)?;
    let known = failures.known().into_iter();
    let next_hops =
        known.map(|(time, failed)| (time, LiveNextHops::new(wiring, &failed))).collect();
    Ok(Some(CableParts { failures, next_hops, has_pauses }))
}

/// Listed routes and detours have no alternatives.
fn refuse_routes_without_a_choice(
    settings: &ChannelSettings,
    routes: &Routes,
    name: &str,
) -> Result<(), Error> {
    if routes.choose_among_ports() {
        return Ok(());
    }
    let (key, value) = match &settings.routes {
        Some(RoutesSettings::PerConnection(ConnectionRoutes::Given(_))) => {
            ("routes.per_connection", "given")
        }
        Some(RoutesSettings::PerPacket(own)) => ("routes.per_packet", own.name()),
        _ => ("routes.per_packet", "valiant"),
    };
    let accepted = "random or hashed per connection, random or adaptive per packet beside a cable \
                    that fails: these choose among the ports that are left, while a route that is \
                    listed or takes a detour has no other";
    refuse(name, key, value, accepted)
}

/// The routes that packets may take at any time, if some of them exist only after a failure.
pub(super) fn all_routes(
    parts: Option<&CableParts>,
    RoutedFabric { wiring, routes }: &RoutedFabric,
) -> Option<Routes> {
    let next_hops: Vec<LiveNextHops> =
        parts?.next_hops.iter().map(|own: &(Time, LiveNextHops)| own.1.clone()).collect();
    if next_hops.is_empty() { None } else { routes.with_all(wiring, &next_hops) }
}
