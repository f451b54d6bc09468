//! Hosts that send flows: what their adapters need, and what flows require of switches.

use weft_fabric::adapter::TransportParts;
use weft_fabric::fabric::{ConnectionRoutes, RoutesSettings};
use weft_fabric::switch::shared_buffer::MOST_CLASSES;
use weft_fabric::workload::{FlowList, WorkloadSettings};
use weft_protocol::congestion::CongestionControlSettings;
use weft_protocol::misfit::Misfit;
use weft_protocol::transport::LossRecovery;

use super::engine::Kind;
use super::network::RoutedFabric;
use super::{Site, engine, refuse};
use crate::composition::ChannelSettings;
use crate::drive::engine::{ClassedParts, FlowParts};
use crate::error::{ABSENT, Error};

/// What flows require of switches.
const NEEDED: &str = "shared_buffer, alone or beside output_queued, where the workload is flows: \
                      their packets have sizes of their own";

/// Whether hosts submit flows, or messages, each of which is a flow if there is a transport.
fn sends(workload: Option<&WorkloadSettings>) -> bool {
    workload.is_none_or(WorkloadSettings::has_flows)
}

/// Whether messages of programs use a transport, which retransmits lost packets.
pub(super) fn carries_messages(
    settings: &ChannelSettings,
    workload: Option<&WorkloadSettings>,
) -> bool {
    workload.is_none() && settings.adapter.transport.is_some()
}

/// Whether switches write their state into packets.
pub(super) fn needs_telemetry(settings: &ChannelSettings) -> bool {
    let transport = settings.adapter.transport.as_ref();
    let control = transport.and_then(|own| own.congestion_control.as_ref());
    control.is_some_and(CongestionControlSettings::needs_telemetry)
}

/// The highest traffic class of a flow, or of its acknowledgments; `None` without flows.
pub(super) fn highest_class(
    settings: &ChannelSettings,
    workload: Option<&WorkloadSettings>,
) -> Option<u8> {
    let said = settings.adapter.transport.as_ref().map_or(0, |own| own.acknowledgment_class);
    match workload {
        Some(own) => Some(own.highest_class_of_flows()?.max(said)),
        None => settings.adapter.transport.as_ref().map(|_| said),
    }
}

/// The transports of a channel whose hosts send flows, or messages by a transport; `None`
/// otherwise.
pub(super) fn parts(
    settings: &ChannelSettings,
    workload: Option<&WorkloadSettings>,
    RoutedFabric { wiring, routes }: &RoutedFabric,
    kinds: &[Kind<'_>],
    classed: Option<&ClassedParts>,
    site: Site<'_>,
) -> Result<Option<FlowParts>, Error> {
    let name = site.name;
    let Some(transport) = settings.adapter.transport.as_ref().filter(|_| sends(workload)) else {
        return Ok(None);
    };
    let Some(classed) = classed else {
        refuse(name, "switch", settings.switch.name(), NEEDED)?;
        return Ok(None);
    };
    if let Err(Misfit { key, value, accepted }) = transport.check() {
        refuse(name, &format!("adapter.transport.{key}"), &value, &accepted)?;
    }
    refuse_a_class_beyond_all(transport.acknowledgment_class, name)?;
    refuse_two_sprays(settings, name)?;
    if settings.has_planes()
        && let Some(RoutesSettings::PerConnection(ConnectionRoutes::Given(_))) = settings.routes
    {
        let accepted = "random or hashed beside planes: a flow draws the plane to which it keeps, \
                        while a listed route leads through one";
        refuse(name, "routes.per_connection", "given", accepted)?;
    }
    let list = match workload {
        Some(own) => own.flows(&settings.facts(site), site.streams, site.until)?,
        None => FlowList::default(),
    };
    let classes = match workload {
        Some(_) => list.flows.iter().map(|flow| flow.class).collect(),
        None => vec![classed.class],
    };
    refuse_deafness(settings, kinds, classes, name)?;
    if transport.reliability == LossRecovery::GoBackN {
        refuse_trimming(kinds, name)?;
    }
    let links = wiring.links(&settings.link);
    // Packets that choose a route one by one use all ports of a host.
    let is_sprayed =
        !routes.is_per_connection() || transport.spraying.is_some_and(|own| own.values > 1);
    let (ports, planes) = if is_sprayed { (wiring.planes(), 1) } else { (1, wiring.planes()) };
    let rate = |host| links[wiring.link_of(wiring.host_port(host))].rate.times(ports);
    let FlowList { groups, flows, loops } = list;
    let transports = TransportParts {
        settings: transport.clone(),
        payload: settings.payload,
        overhead: settings.overhead(),
        rates: (0..wiring.hosts()).map(rate).collect(),
        planes,
        classes: classed.classes,
        flows,
        loops,
        from: site.from,
        key: site.streams.stream(&format!("{name}.spraying"), 0).bits(),
    };
    Ok(Some(FlowParts { transports, groups, class: classed.class }))
}

/// Refuses a traffic class of acknowledgments that no switch has.
fn refuse_a_class_beyond_all(class: u8, name: &str) -> Result<(), Error> {
    if usize::from(class) < MOST_CLASSES {
        return Ok(());
    }
    let accepted = format!("a class in 0..={}", MOST_CLASSES - 1);
    refuse(name, "adapter.transport.acknowledgment_class", &class.to_string(), &accepted)
}

/// Refuses flows without a transport or through switches that forward packets of one size only, and
/// packets of a workload if there is a transport. Messages are then flows.
pub(super) fn refuse_halves(
    settings: &ChannelSettings,
    workload: Option<&WorkloadSettings>,
    name: &str,
) -> Result<(), Error> {
    let has_flows = workload.is_some_and(WorkloadSettings::has_flows);
    match &settings.adapter.transport {
        Some(_) if !sends(workload) && !settings.carries_messages(workload) => {
            let accepted = format!(
                "a transport only for flows (workload.{name}.source.flows) and messages \
                 (workload.{name}.message, programs)"
            );
            refuse(name, "adapter.transport", "given", &accepted)
        }
        None if has_flows => {
            refuse(name, "adapter.transport", ABSENT, "a transport where the workload is flows")
        }
        _ if has_flows && !engine::runs(settings) => {
            refuse(name, "switch", settings.switch.name(), NEEDED)
        }
        _ => Ok(()),
    }
}

/// A flow is sprayed by its initiator or by switches. One value sprays nothing.
fn refuse_two_sprays(settings: &ChannelSettings, name: &str) -> Result<(), Error> {
    let spraying = settings.adapter.transport.as_ref().and_then(|own| own.spraying);
    match (&settings.routes, spraying) {
        (Some(RoutesSettings::PerPacket(_)), Some(own)) if own.values > 1 => {
            let accepted = format!(
                "it only with channel.{name}.routes.per_connection, or without routes: where each \
                 packet has a way of its own its value decides nothing, but for 1, by which \
                 nothing is sprayed"
            );
            refuse(name, "adapter.transport.spraying.values", &own.values.to_string(), &accepted)
        }
        _ => Ok(()),
    }
}

/// Go-back-N cannot request the payload of a trimmed packet.
fn refuse_trimming(kinds: &[Kind<'_>], name: &str) -> Result<(), Error> {
    let classes = kinds.iter().filter_map(|kind| match kind {
        Kind::Buffer(own) => Some(&own.classes),
        _ => None,
    });
    let Some((class, _)) = classes.flatten().find(|(_, own)| own.trim.is_some()) else {
        return Ok(());
    };
    let key = format!("switch.shared_buffer.classes.{class}.trim");
    let accepted = "it only where a transport asks for the packet that was trimmed \
                    (adapter.transport.reliability = 'selective_repeat'): go_back_n asks for all \
                    behind it";
    refuse(name, &key, "given", accepted)
}

/// A congestion control that reacts to marks needs a switch that makes them.
fn refuse_deafness(
    settings: &ChannelSettings,
    kinds: &[Kind<'_>],
    mut classes: Vec<u8>,
    name: &str,
) -> Result<(), Error> {
    let control =
        settings.adapter.transport.as_ref().and_then(|own| own.congestion_control.as_ref());
    let Some(control) = control.filter(|own| own.needs_marks()) else { return Ok(()) };
    let marks = |class: u8| {
        kinds.iter().any(|kind| match kind {
            Kind::Buffer(own) => {
                own.classes.get(&class.to_string()).is_some_and(|own| own.ecn.is_some())
            }
            _ => false,
        })
    };
    classes.sort_unstable();
    classes.dedup();
    let Some(class) = classes.into_iter().find(|class| !marks(*class)) else { return Ok(()) };
    let accepted = format!(
        "it where switches mark (channel.{name}.switch.shared_buffer.classes.{class}.ecn): it \
         slows down by marks alone"
    );
    refuse(name, "adapter.transport.congestion_control", control.name(), &accepted)
}
