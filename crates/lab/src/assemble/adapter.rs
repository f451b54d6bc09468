//! The adapters of hosts: whether any setting needs them, and which settings go together.

use weft_fabric::adapter::{AdapterSettings, Feed, Insertion, Release};
use weft_fabric::fabric::Wiring;
use weft_fabric::switch::{AcknowledgmentRule, Contention, CrossbarSettings};
use weft_fabric::workload::{Feedback, Source};
use weft_protocol::retransmit::ControlSettings;
use weft_units::{Limit, Span};

use super::{Site, errors, hub, network, refuse, refuse_hosts, ring, slots};
use crate::composition::{ChannelSettings, SwitchSettings};
use crate::couple::check_disabled;
use crate::drive::engine::{AdapterParts, PipelineParts};
use crate::error::Error;

/// Whether the hosts of a channel need adapters: to learn what became of packets, to hold packets
/// back, or to send to a switch that distinguishes kinds of packets.
pub(super) fn is_needed(settings: &ChannelSettings) -> bool {
    let adapter = &settings.adapter;
    switch_that(settings, decides).is_some()
        || switch_that(settings, |own| slots::of(settings, own).is_some()).is_some()
        || is_told(settings)
        || adapter.feed != Feed::Fifo
        || adapter.throttle.is_some()
        || adapter.acknowledgments != Insertion::Wait
        || adapter.release == Some(Release::Acknowledgment)
        || settings.interface.is_some()
        || settings.recovery.is_some()
        || settings.faults().first().is_some()
}

/// Whether a switch considers all packets that reach an output in one instant, by kinds of packets.
pub(super) fn decides(switch: &SwitchSettings) -> bool {
    matches!(switch, SwitchSettings::Crossbar(_) | SwitchSettings::OutputBuffered(_))
}

/// The key of a switch of a kind, and its name, if the channel has one.
pub(super) fn switch_that(
    settings: &ChannelSettings,
    is_so: impl Fn(&SwitchSettings) -> bool,
) -> Option<(String, &'static str)> {
    let named = settings.switches.iter().map(|(name, own)| (format!("switches.{name}"), own));
    let mut all = std::iter::once(("switch".to_owned(), &settings.switch)).chain(named);
    all.find(|(_, own)| is_so(own)).map(|(key, own)| (key, own.name()))
}

/// Whether an initiator learns what became of its packets, and retransmits lost ones.
pub(super) fn is_told(settings: &ChannelSettings) -> bool {
    settings.control.as_ref().is_some_and(|own| *own != ControlSettings::Unacknowledged)
}

/// Whether acknowledgments travel as packets of another length.
pub(super) fn has_two_sizes(settings: &ChannelSettings) -> bool {
    matches!(&settings.control, Some(ControlSettings::RequestAcknowledge(control))
        if control.acknowledgment != settings.packet)
}

/// The adapters of a channel whose switches are each one of `switches`.
pub(super) fn build(
    settings: &ChannelSettings,
    wiring: &Wiring,
    sources: &[Source],
    schedule: Option<PipelineParts>,
    switches: &[&SwitchSettings],
    site: Site<'_>,
) -> Result<Option<AdapterParts>, Error> {
    // Connections have hosts of their own, and stations of rings do by themselves what they can.
    let has_others = network::hosts_without_adapters(settings).is_some()
        || switches.iter().any(|own| ring::is_ring(own));
    if !is_needed(settings) || has_others {
        return Ok(None);
    }
    let name = site.name;
    if site.hosts < 2 {
        return refuse_hosts(site.hosts, "2 to 65535");
    }
    if settings.recovery.is_some() && schedule.is_none() {
        let accepted = "it only with a scheduled switch in a star, whose slots tell a sender what \
                        was lost; others send again by `control`";
        refuse(name, "recovery", "given", accepted)?;
    }
    check_disabled(settings, site)?;
    check_acknowledgment(settings, wiring, name)?;
    let own_slots = match &schedule {
        Some(_) => None,
        None => slots::build(settings, switches[0], wiring, site)?,
    };
    if schedule.is_none() {
        check_release(settings, own_slots.is_some(), name)?;
    }
    let mut crossbars = switches.iter().filter_map(|own| match own {
        SwitchSettings::Crossbar(own) => Some(own),
        _ => None,
    });
    let crossbar = crossbars.next();
    check_insertion(settings, crossbar, name)?;
    let interface = settings.interface_with_buffers(name)?;
    if schedule.is_none() {
        check_faults(settings, name)?;
        errors::check(settings, own_slots.is_some(), site)?;
        check_greedy(settings, sources, name)?;
    }
    check_neighbours(settings, crossbar, switches, name)?;
    Ok(Some(AdapterParts {
        name: name.to_owned(),
        streams: *site.streams,
        packet: settings.packet,
        settings: AdapterSettings {
            send_buffers: slots::send_buffers(settings, switches[0]),
            ..settings.adapter.clone()
        },
        control: settings.control.clone().unwrap_or(ControlSettings::Unacknowledged),
        interface,
        bodies: None,
        faults: settings.faults(),
        interleaves: settings.adapter.acknowledgments == Insertion::Interleave
            && crossbar.is_some_and(|own| own.acknowledgments == AcknowledgmentRule::Interleave),
        slots: own_slots,
        pipeline: schedule,
    }))
}

fn is_acknowledged(settings: &ChannelSettings) -> bool {
    matches!(settings.control, Some(ControlSettings::RequestAcknowledge(_)))
}

fn check_acknowledgment(
    settings: &ChannelSettings,
    wiring: &Wiring,
    name: &str,
) -> Result<(), Error> {
    let Some(ControlSettings::RequestAcknowledge(control)) = &settings.control else {
        return Ok(());
    };
    let size = control.acknowledgment;
    if wiring.links(&settings.link).iter().all(|link| link.span(size) > Span::ZERO) {
        return Ok(());
    }
    let key = "control.request_acknowledge.acknowledgment";
    refuse(name, key, &size.to_string(), "a size that takes a picosecond or more on every link")
}

fn check_release(settings: &ChannelSettings, in_slots: bool, name: &str) -> Result<(), Error> {
    let (value, accepted) = match (settings.adapter.release, is_told(settings)) {
        (Some(Release::Transmission), true) => (
            "transmission",
            "acknowledgment, since a packet that may be sent again keeps its send buffer",
        ),
        // In slots it is known when an acknowledgment would arrive.
        (Some(Release::Acknowledgment), false) if !in_slots => (
            "acknowledgment",
            "transmission, since with control = unacknowledged nothing tells of an arrival",
        ),
        _ => return Ok(()),
    };
    refuse(name, "adapter.release", value, accepted)
}

/// Only a crossbar that drops can follow what is inserted into a packet.
fn check_insertion(
    settings: &ChannelSettings,
    crossbar: Option<&CrossbarSettings>,
    name: &str,
) -> Result<(), Error> {
    let interleaves =
        crossbar.is_some_and(|own| own.acknowledgments == AcknowledgmentRule::Interleave);
    let only = "since only control.request_acknowledge sends acknowledgments";
    if interleaves && !is_acknowledged(settings) {
        let key = "switch.crossbar.acknowledgments";
        return refuse(name, key, "interleave", &format!("collide, {only}"));
    }
    if settings.adapter.acknowledgments != Insertion::Interleave {
        return Ok(());
    }
    let key = "adapter.acknowledgments";
    if !is_acknowledged(settings) {
        return refuse(name, key, "interleave", &format!("wait, {only}"));
    }
    if crossbar.is_some_and(|own| own.contention == Contention::Drop) {
        return Ok(());
    }
    let accepted = "wait, since only a crossbar with contention = drop can follow an insertion";
    refuse(name, key, "interleave", accepted)
}

/// Packets that are lost or refused must be detected and retransmitted.
fn check_faults(settings: &ChannelSettings, name: &str) -> Result<(), Error> {
    let faults = settings.faults();
    let interface = settings.interface.as_ref().map(|_| "interface");
    match faults.first().or(interface) {
        Some(key) if !is_acknowledged(settings) => {
            let accepted =
                "it only with control.request_acknowledge, which sends again what is lost";
            refuse(name, key, "given", accepted)
        }
        _ => Ok(()),
    }
}

/// What switches require of their neighbours if hosts have adapters.
fn check_neighbours(
    settings: &ChannelSettings,
    crossbar: Option<&CrossbarSettings>,
    switches: &[&SwitchSettings],
    name: &str,
) -> Result<(), Error> {
    let crossbars = |own: &SwitchSettings| matches!(own, SwitchSettings::Crossbar(_));
    if let (false, Some((key, value))) =
        (settings.fabric.is_star(), switch_that(settings, crossbars))
    {
        let accepted = "output_queued, output_buffered or input_queued in a fabric other than \
                        star: a crossbar without buffers cuts packets short, or holds them on \
                        their links, and only a host can hear of that";
        return refuse(name, &key, value, accepted);
    }
    if let Some(crossbar) = crossbar {
        check_back_pressure(settings, crossbar, name)?;
    }
    check_slots(settings, switches, name)?;
    let has_buffer = |own: &&&SwitchSettings| match own {
        SwitchSettings::InputQueued(_) => slots::of(settings, own).is_none(),
        own => hub::is_of_packets(settings, own),
    };
    let Some(buffered) = switches.iter().find(has_buffer) else { return Ok(()) };
    let kind = buffered.name();
    if let (true, Some(ControlSettings::RequestAcknowledge(control))) =
        (has_two_sizes(settings), &settings.control)
    {
        let reason = match hub::is_of_packets(settings, buffered) {
            true => "which gives each credit when a packet of that size has passed it",
            false => "whose slots all have the length of one",
        };
        let accepted = format!("{}, the size of a packet, with {kind}, {reason}", settings.packet);
        let key = "control.request_acknowledge.acknowledgment";
        return refuse(name, key, &control.acknowledgment.to_string(), &accepted);
    }
    if !settings.disabled.is_empty() {
        let accepted = format!("it only without {kind}, which does not ask who has sent a packet");
        return refuse(name, "disabled", "given", &accepted);
    }
    if let Some((key, value)) = switch_that(settings, decides) {
        let accepted = format!(
            "output_queued beside {kind}: buffers into which few can write at a time know when a packet \
             leaves, which is not known before a buffer of limited size"
        );
        return refuse(name, &key, value, &accepted);
    }
    Ok(())
}

/// A packet must fit its slot.
fn check_slots(
    settings: &ChannelSettings,
    switches: &[&SwitchSettings],
    name: &str,
) -> Result<(), Error> {
    let Some(ControlSettings::RequestAcknowledge(control)) = &settings.control else {
        return Ok(());
    };
    let size = control.acknowledgment;
    if size <= settings.packet || slots::of(settings, switches[0]).is_none() {
        return Ok(());
    }
    let accepted = format!("at most {}, the packet that a slot has room for", settings.packet);
    refuse(name, "control.request_acknowledge.acknowledgment", &size.to_string(), &accepted)
}

/// A packet held back must still occupy its sender, or the next one would pass it on the wire.
fn check_back_pressure(
    settings: &ChannelSettings,
    crossbar: &CrossbarSettings,
    name: &str,
) -> Result<(), Error> {
    if crossbar.contention != Contention::BackPressure {
        return Ok(());
    }
    let packet = settings.packet_span();
    let shortest = match &settings.control {
        Some(ControlSettings::RequestAcknowledge(control)) => {
            packet.min(settings.link.span(control.acknowledgment))
        }
        _ => packet,
    };
    let propagation = settings.link.propagation();
    if propagation < shortest {
        return Ok(());
    }
    let value = format!("{} ({propagation})", settings.link.length);
    let accepted = format!("a delay below {shortest}, the shortest packet, with back_pressure");
    refuse(name, "link.length", &value, &accepted)
}

/// A source that fills free buffers never stops if nothing is ever full.
pub(super) fn check_greedy(
    settings: &ChannelSettings,
    sources: &[Source],
    name: &str,
) -> Result<(), Error> {
    refuse_endless(settings, sources, name)?;
    if settings.interface.is_some() && are_greedy(sources) {
        let accepted = "another source, since an interface takes whatever it is given";
        refuse(name, "interface", "given with a greedy source", accepted)?;
    }
    Ok(())
}

/// A greedy source would fill unlimited buffers without end.
pub(crate) fn refuse_endless(
    settings: &ChannelSettings,
    sources: &[Source],
    name: &str,
) -> Result<(), Error> {
    if are_greedy(sources) && settings.adapter.send_buffers == Limit::Unlimited {
        let accepted = "a number, since a greedy source fills them all at once";
        return refuse(name, "adapter.send_buffers", "unlimited", accepted);
    }
    Ok(())
}

fn are_greedy(sources: &[Source]) -> bool {
    sources.iter().any(|source| source.feedback() == Feedback::Ready)
}
