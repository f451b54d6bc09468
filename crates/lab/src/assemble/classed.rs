//! A channel in which any switch shares a memory among its ports: packets have sizes and traffic
//! classes of their own there.

use weft_fabric::fabric::{Peer, Routes, Wiring};
use weft_fabric::link::{FlowControl, LinkSettings};
use weft_fabric::switch::shared_buffer::{
    ClassSettings, HeadroomParts, MOST_CLASSES, MOST_CREDIT, MarkAt, Memory, MemoryParts,
    PAUSE_FRAME, SwitchForwarding, SwitchRule, headroom,
};
use weft_fabric::switch::{OutputQueuedSettings, SharedBufferSettings};
use weft_fabric::workload::{ChannelFacts, Feedback, SourceSettings, WorkloadSettings};
use weft_protocol::misfit::Misfit;
use weft_units::{Bytes, Span, Time};

use super::engine::{Kind, Place};
use super::network::RoutedFabric;
use super::{Site, failures, flows, network, refuse, refuse_in_workload};
use crate::composition::{ChannelSettings, SwitchSettings};
use crate::drive::engine::{ClassedParts, Traffic};
use crate::error::Error;

/// The key of a switch, and its settings by class.
struct Listed<'a> {
    own: &'a SharedBufferSettings,
    classes: Vec<ClassSettings>,
    place: Place<'a>,
}

/// The parts of a channel whose switches are of these kinds, each named by its key; `None` if none
/// of them shares its memory. The largest packet is that of the channel.
pub(super) fn parts(
    settings: &ChannelSettings,
    workload: Option<&WorkloadSettings>,
    fabric: &RoutedFabric,
    kinds: &[(Kind<'_>, String)],
    site: Site<'_>,
) -> Result<Option<ClassedParts>, Error> {
    if !kinds.iter().any(|(kind, _)| matches!(kind, Kind::Buffer(_))) {
        return Ok(None);
    }
    refuse_what_does_not_fit(settings, kinds, site.name)?;
    let class = workload.map_or(Ok(0), |own| class_of(own, "", site.name))?;
    let traffic = workload.map_or_else(|| Ok(Vec::new()), |own| traffic(settings, own, site))?;
    let links = fabric.wiring.links(&settings.link);
    if links.iter().any(|link| link.span(PAUSE_FRAME) == Span::ZERO) {
        let accepted = "a rate at which 64 bytes take a picosecond or more";
        refuse(site.name, "link.rate", &settings.link.rate.to_string(), accepted)?;
    }
    let mut listed = list(kinds, site.name)?;
    let of_switches = listed.iter().flatten().map(|own| own.classes.len()).max().unwrap_or(1);
    let of_flows = flows::highest_class(settings, workload).unwrap_or(0);
    let of_traffic =
        traffic.iter().map(|own| own.class).chain([class, of_flows]).max().unwrap_or(0);
    let classes = of_switches.max(usize::from(of_traffic) + 1).min(MOST_CLASSES);
    for own in listed.iter_mut().flatten() {
        own.classes.resize(classes, ClassSettings::default());
    }
    let is_of_messages = settings.carries_messages(workload) || workload.is_none();
    let is_lossless = is_of_messages && !flows::carries_messages(settings, workload);
    if is_lossless {
        refuse_loss(&listed, class)?;
    }
    let cables = failures::parts(settings, fabric, asks(&listed, is_lossless), site)?;
    let all_routes = failures::all_routes(cables.as_ref(), fabric);
    let routes = all_routes.as_ref().unwrap_or(&fabric.routes);
    for class in 0..classes {
        refuse_a_cycle(settings, &fabric.wiring, routes, &listed, class, site.name)?;
    }
    refuse_marks_behind_a_header(&fabric.wiring, &links, &listed)?;
    let hosts = listed.iter().flatten().next();
    Ok(Some(ClassedParts {
        switches: rules(settings, &fabric.wiring, &links, &listed, kinds, site)?,
        classes,
        hosts: hosts.map_or(Vec::new(), |own| own.classes.iter().map(|own| own.schedule).collect()),
        class,
        overhead: settings.overhead(),
        traffic,
        has_telemetry: flows::needs_telemetry(settings),
        sample: site.sample,
        cables,
    }))
}

/// By switch, its settings by class; `None` unless it shares its memory.
fn list<'a>(
    kinds: &'a [(Kind<'a>, String)],
    name: &'a str,
) -> Result<Vec<Option<Listed<'a>>>, Error> {
    let one = |(kind, key): &'a (Kind<'a>, String)| -> Result<Option<Listed<'a>>, Error> {
        let Kind::Buffer(own) = kind else { return Ok(None) };
        let place = Place { channel: name, key };
        let classes = own.by_class().or_else(|Misfit { key, value, accepted }| {
            place.refuse(&format!("shared_buffer.{key}"), &value, &accepted)
        })?;
        Ok(Some(Listed { own, classes, place }))
    };
    kinds.iter().map(one).collect()
}

/// What packets, and the classes of switches, require of cables.
fn asks(listed: &[Option<Listed<'_>>], loses_nothing: bool) -> failures::Asks {
    let any = |is: fn(&ClassSettings) -> bool| {
        listed.iter().flatten().any(|own| own.classes.iter().any(is))
    };
    failures::Asks {
        has_pauses: any(|own| own.pfc.is_some()),
        has_credits: any(|own| own.credits.is_some()),
        loses_nothing,
    }
}

/// What each switch does with packets.
fn rules(
    settings: &ChannelSettings,
    wiring: &Wiring,
    links: &[LinkSettings],
    listed: &[Option<Listed<'_>>],
    kinds: &[(Kind<'_>, String)],
    site: Site<'_>,
) -> Result<Vec<SwitchRule>, Error> {
    let mut switches = Vec::with_capacity(kinds.len());
    for (number, ((kind, _), own)) in (0..).zip(kinds.iter().zip(listed)) {
        let random = site.streams.stream(&format!("{}.marks", site.name), number as usize);
        switches.push(match (kind, own) {
            (_, Some(own)) => SwitchRule {
                latency: own.own.latency,
                forwarding: own.own.forwarding,
                most: u32::MAX,
                classes: own.classes.clone(),
                memory: Some(memory(settings, wiring, links, number, own)?),
                random,
            },
            (Kind::Output(OutputQueuedSettings { latency, buffers }), _) => SwitchRule {
                latency: *latency,
                forwarding: SwitchForwarding::CutThrough,
                most: buffers.count().map_or(u32::MAX, |count| count.get()),
                classes: Vec::new(),
                memory: None,
                random,
            },
            // Such switches have been refused.
            _ => continue,
        });
    }
    Ok(switches)
}

/// The class of a workload, whose key below that of the channel is `below`.
fn class_of(workload: &WorkloadSettings, below: &str, name: &str) -> Result<u8, Error> {
    let class = workload.class.unwrap_or(0);
    if usize::from(class) < MOST_CLASSES {
        return Ok(class);
    }
    let accepted = format!("a class in 0..={}", MOST_CLASSES - 1);
    refuse_in_workload(name, &format!("{below}class"), &class.to_string(), &accepted)
}

/// Refuses settings of a workload that only switches with traffic classes read, and some that only
/// additional traffic may have.
pub(super) fn refuse_what_one_class_does_not_read(
    settings: &ChannelSettings,
    workload: &WorkloadSettings,
    name: &str,
) -> Result<(), Error> {
    let mut switches = settings.switches.values().chain([&settings.switch]);
    if !switches.any(|own| matches!(own, SwitchSettings::SharedBuffer(_))) {
        let given = [("class", workload.class.is_some()), ("beside", !workload.beside.is_empty())];
        if let Some((key, _)) = given.iter().find(|(_, given)| *given) {
            let accepted = "it only where a switch tells classes apart (switch.shared_buffer)";
            refuse_in_workload(name, key, "given", accepted)?;
        }
    }
    if settings.carries_messages(Some(workload)) {
        refuse_classes_of_messages(workload, name)?;
    }
    let of_further = [
        ("packet", workload.packet.is_some()),
        ("start", workload.start.is_some()),
        ("end", workload.end.is_some()),
    ];
    match of_further.iter().find(|(_, given)| *given) {
        Some((key, _)) => {
            let accepted =
                format!("it only in further traffic (workload.{name}.beside.NAME.{key})");
            refuse_in_workload(name, key, "given", &accepted)
        }
        None => Ok(()),
    }
}

/// Messages have no class of their own.
pub(crate) fn refuse_classes_of_messages(
    workload: &WorkloadSettings,
    name: &str,
) -> Result<(), Error> {
    let given = [("class", workload.class.is_some()), ("beside", !workload.beside.is_empty())];
    match given.iter().find(|(_, given)| *given) {
        Some((key, _)) => {
            let accepted = "it only for packets that come alone: those of messages go by class 0";
            refuse_in_workload(name, key, "given", accepted)
        }
        None => Ok(()),
    }
}

/// The additional traffic.
fn traffic(
    settings: &ChannelSettings,
    workload: &WorkloadSettings,
    site: Site<'_>,
) -> Result<Vec<Traffic>, Error> {
    let mut all = Vec::with_capacity(workload.beside.len());
    for (name, own) in &workload.beside {
        let below = format!("beside.{name}.");
        let refuse = |key: &str, value: &str, accepted: &str| {
            refuse_in_workload(site.name, &format!("{below}{key}"), value, accepted)
        };
        if own.message.is_some() || !own.beside.is_empty() {
            let key = if own.message.is_some() { "message" } else { "beside" };
            refuse(key, "given", "no such setting in further traffic, whose packets come alone")?;
        }
        let (packet, overhead) = (own.packet.unwrap_or(settings.packet), settings.overhead());
        if packet > settings.packet || packet < overhead || packet == Bytes(0) {
            let least = overhead.max(Bytes(1));
            let accepted =
                format!("{least} to {}, the largest packet of the channel", settings.packet);
            refuse("packet", &packet.to_string(), &accepted)?;
        }
        let facts = ChannelFacts {
            name: &format!("{}.beside.{name}", site.name),
            hosts: site.hosts,
            packet,
            packet_span: settings.span_at_host(packet),
            slot_span: None,
        };
        let sources = own.build(&facts, site.streams)?;
        let waits = sources.iter().any(|own| own.feedback() != Feedback::None);
        if waits || matches!(own.source, SourceSettings::Streams(_) | SourceSettings::Flows(_)) {
            let accepted = "open_loop, paced or list, which do not wait for the fabric";
            refuse("source", "given", accepted)?;
        }
        all.push(Traffic {
            sources,
            class: class_of(own, &below, site.name)?,
            packet,
            payload: Bytes(packet.0 - overhead.0),
            start: own.start.unwrap_or(Span::ZERO),
            end: own.end.map_or(site.until, |end| Time::ZERO + end),
        });
    }
    Ok(all)
}

/// Refuses settings, and other switches, that have no meaning beside a shared buffer.
fn refuse_what_does_not_fit(
    settings: &ChannelSettings,
    kinds: &[(Kind<'_>, String)],
    name: &str,
) -> Result<(), Error> {
    if let Some(own) = &settings.flow_control {
        let accepted = format!(
            "no flow control beside shared_buffer: its inputs give no credits for cells but pause \
             a class of their cable, or give credits for its bytes \
             (channel.{name}.switch.shared_buffer.classes.*.pfc, .credits)"
        );
        refuse(name, "flow_control", own.name(), &accepted)?;
    }
    if settings.packet.0 > u64::from(u32::MAX / 8) {
        let accepted = "at most 512 MiB beside shared_buffer";
        refuse(name, "packet", &settings.packet.to_string(), accepted)?;
    }
    refuse_switches_beside(kinds, name)
}

/// Refuses switches that could not pass packets on to a shared buffer, or take them from it.
fn refuse_switches_beside(kinds: &[(Kind<'_>, String)], name: &str) -> Result<(), Error> {
    let has_credits = kinds.iter().any(|(kind, _)| match kind {
        Kind::Buffer(own) => own.classes.values().any(|own| own.credits.is_some()),
        _ => false,
    });
    for (kind, key) in kinds {
        let (kind, reason) = match kind {
            Kind::Output(_) if has_credits => {
                let accepted = "shared_buffer alone where a class has credits: one queue for all \
                                classes would count the credits of none";
                refuse(name, key, "output_queued", accepted)?;
                continue;
            }
            Kind::Input(..) => (
                "input_queued",
                "a switch with a clock has slots for packets of one size and gives credits for \
                 them, which the far end of the cable would have to count",
            ),
            Kind::Memory(_) => (
                "shared_memory",
                "it passes on the cells of connections, which a switch that tells classes apart \
                 does not know",
            ),
            Kind::Crossbar(_) => (
                "crossbar",
                "it has no buffers, and drops or holds back what its hosts send by kinds of \
                 packets and not by classes",
            ),
            Kind::Buffered(_) => (
                "output_buffered",
                "its outputs count in packets of one size how many may be written at a time",
            ),
            Kind::Slots(_) => {
                ("a switch whose hosts send in slots", "a slot has room for packets of one size")
            }
            Kind::Ring(_) => ("ring", "its bridges keep packets of one size and class"),
            Kind::Hub(_) => (
                "hub",
                "it gives credits for packets of one size, which the far end of the cable would have \
                 to count",
            ),
            Kind::Output(_) | Kind::Buffer(_) => continue,
        };
        let accepted = format!("output_queued or shared_buffer beside shared_buffer: {reason}");
        refuse(name, key, kind, &accepted)?;
    }
    Ok(())
}

/// Messages need a channel that loses nothing.
fn refuse_loss(listed: &[Option<Listed<'_>>], class: u8) -> Result<(), Error> {
    let loses = |own: &&Listed<'_>| !own.classes[usize::from(class)].loses_nothing();
    let Some(own) = listed.iter().flatten().find(loses) else { return Ok(()) };
    own.place.refuse(
        "shared_buffer.classes",
        &format!("{class} without pfc or credits"),
        &format!(
            "pfc or credits in class {class} where packets are those of messages, or a transport \
             (adapter.transport): nothing else retransmits what a switch drops"
        ),
    )
}

/// Refuses marks at departure where these come too late: by then the next switch may have passed
/// the header on, or the host may have the packet.
fn refuse_marks_behind_a_header(
    wiring: &Wiring,
    links: &[LinkSettings],
    listed: &[Option<Listed<'_>>],
) -> Result<(), Error> {
    let passes_on_at_once = |switch: u32| {
        let own = listed[switch as usize].as_ref();
        own.is_none_or(|own| own.own.forwarding == SwitchForwarding::CutThrough)
    };
    for (switch, own) in (0..).zip(listed) {
        let Some(Listed { classes, place, .. }) = own else { continue };
        let is_late =
            |own: &ClassSettings| own.ecn.as_ref().is_some_and(|ecn| ecn.at == MarkAt::Departure);
        let Some(class) = classes.iter().position(is_late) else { continue };
        for port in (0..wiring.ports_of(switch)).map(|number| wiring.port(switch, number)) {
            let (far, accepted) = match wiring.peer(port) {
                Peer::Port(far) if passes_on_at_once(wiring.switch_of(far)) => (
                    wiring.switch_name(wiring.switch_of(far)),
                    "enqueue or dequeue before a switch that passes packets on as their header \
                     comes (forwarding = 'cut_through', output_queued): the header is gone before \
                     the packet has left",
                ),
                Peer::Host(host) if links[wiring.link_of(port)].propagation() == Span::ZERO => (
                    wiring.host_name(host),
                    "enqueue or dequeue before a host at a cable without length: a packet is there \
                     in the instant in which it leaves",
                ),
                _ => continue,
            };
            let key = format!("shared_buffer.classes.{class}.ecn.at");
            let value = format!("departure in {}, before {far}", wiring.switch_name(switch));
            place.refuse(&key, &value, accepted)?;
        }
    }
    Ok(())
}

/// The memory of a switch, if it can hold what has to have room.
fn memory(
    settings: &ChannelSettings,
    wiring: &Wiring,
    links: &[LinkSettings],
    switch: u32,
    listed: &Listed<'_>,
) -> Result<Memory, Error> {
    let Listed { own, classes, place } = listed;
    refuse_credit_for_no_packet(settings, listed)?;
    let ports = wiring.ports_of(switch);
    // A pause frame concerns all classes, and takes effect when the slowest of them must obey.
    let responses = classes.iter().filter_map(|own| own.pfc.as_ref()).map(|pfc| pfc.response);
    let response = responses.max().unwrap_or(Span::ZERO);
    let mut kept = Vec::with_capacity(ports as usize * classes.len());
    for port in (0..ports).map(|number| wiring.port(switch, number)) {
        for (number, class) in classes.iter().enumerate() {
            let is_used = wiring.peer(port) != Peer::Unused;
            let Some(pfc) = class.pfc.as_ref().filter(|_| is_used) else {
                kept.push(class.credits.filter(|_| is_used).unwrap_or(Bytes(0)));
                continue;
            };
            let needed = headroom(HeadroomParts {
                link: &links[wiring.link_of(port)],
                packet: settings.packet,
                response,
                latency: own.latency,
            });
            if let Some(given) = pfc.headroom.filter(|given| *given < needed) {
                let key = format!("shared_buffer.classes.{number}.pfc.headroom");
                let accepted = format!(
                    "at least {needed}, which may still come by {} after a pause",
                    wiring.port_name(port)
                );
                place.refuse(&key, &given.to_string(), &accepted)?;
            }
            kept.push(pfc.headroom.unwrap_or(needed));
        }
    }
    let reserved = classes.iter().map(|own| own.reserved.map_or(0, |bytes| bytes.0));
    let reserved = reserved.sum::<u64>() * u64::from(ports);
    let headrooms: u64 = kept.iter().map(|bytes| bytes.0).sum();
    let least = Bytes(headrooms + reserved + settings.packet.0);
    if own.memory < least {
        let accepted = format!(
            "at least {least} in {}: {} of headroom and buffers for {} inputs and classes, {} that \
             queues reserve, and a packet",
            wiring.switch_name(switch),
            Bytes(headrooms),
            kept.iter().filter(|bytes| bytes.0 > 0).count(),
            Bytes(reserved),
        );
        place.refuse("shared_buffer.memory", &own.memory.to_string(), &accepted)?;
    }
    Ok(Memory::new(MemoryParts {
        memory: own.memory,
        ports: ports as usize,
        classes,
        headroom: kept,
    }))
}

/// A buffer of an input has room for a packet, and is as large as credits can be counted.
fn refuse_credit_for_no_packet(
    settings: &ChannelSettings,
    Listed { classes, place, .. }: &Listed<'_>,
) -> Result<(), Error> {
    let fits = |own: Bytes| own >= settings.packet && own.0 <= MOST_CREDIT;
    let mut given = (0..).zip(classes).filter_map(|(number, own)| Some((number, own.credits?)));
    let Some((number, credits)) = given.find(|(_, own)| !fits(*own)) else { return Ok(()) };
    let key = format!("shared_buffer.classes.{number}.credits");
    let accepted = format!("{}, the largest packet, to {}", settings.packet, Bytes(MOST_CREDIT));
    place.refuse(&key, &credits.to_string(), &accepted)
}

/// No inputs that pause a class, or give credits for it, can wait for each other in a cycle, unless
/// the file accepts that.
fn refuse_a_cycle(
    settings: &ChannelSettings,
    wiring: &Wiring,
    routes: &Routes,
    listed: &[Option<Listed<'_>>],
    class: usize,
    name: &str,
) -> Result<(), Error> {
    let pauses = |own: &Listed<'_>| own.classes[class].loses_nothing();
    let holds = |switch: u32| listed[switch as usize].as_ref().is_some_and(pauses);
    if !settings.deadlock.is_refused() || !(0..wiring.switches()).any(holds) {
        return Ok(());
    }
    // A packet keeps to its class, which is its only virtual channel.
    let Some(cycle) = routes.cycle(wiring, 1, holds) else { return Ok(()) };
    let value = format!(
        "refused (a cycle of inputs, each of which can hold up class {class} for packets that wait \
         for the next: those behind {})",
        network::name_cycle(wiring, 1, &cycle)
    );
    let accepted = "routes without a cycle (such as routes.per_connection.given), the class \
                    without pfc and credits, or deadlock = \"allowed\" for a run that may end as \
                    `stuck`";
    refuse(name, "deadlock", &value, accepted)
}

/// Nothing but pauses limits packets.
pub(super) fn no_flow_control() -> FlowControl {
    FlowControl { channels: 1, has_credits: false, stop_go: None, quench: None }
}
