//! Builds one simulation from the settings of two channels that act together. The composition
//! determines which channels do, and which scheduled channels report to hosts what became of their
//! packets.

mod pipeline;
pub(crate) mod program;
mod shared_link;

use weft_fabric::adapter::{Feed, Insertion, Release};
use weft_fabric::control::{
    CarriedSettings, CarriedTiming, Distances, PipelineTiming, SignallingSettings, Speculation,
};
use weft_fabric::link::ErrorSettings;
use weft_fabric::switch::Contention;
use weft_units::{Span, Time};

use crate::assemble::engine::{self, refuse_what_differs};
use crate::assemble::{
    Site, check_errors, check_handlers, refuse, refuse_failures_elsewhere, refuse_in_workload,
    refuse_planes_elsewhere, refuse_what_is_not_read, sources,
};
use crate::composition::{ChannelSettings, ScheduledSettings, Spec, SwitchSettings};
use crate::drive::engine::{Coupled, Engine};
use crate::drive::faults::Faults;
use crate::drive::interface::InterfaceSettings;
use crate::error::Error;
pub(crate) use pipeline::pipeline;
use shared_link::Pair;

/// The key, below a scheduled channel, of the name of the one that carries its signalling.
const CARRIED_BY: &str = "switch.scheduled.signalling.carried.by";

/// The largest number of hosts for which signalling packets have room (Clint 3.3).
const MAX_HOSTS: u16 = 16;

impl ChannelSettings {
    /// The faults of the channel.
    pub(crate) fn faults(&self) -> Faults {
        Faults {
            errors: self.errors.clone().unwrap_or_default(),
            receiver: self.receiver.clone(),
            disabled: self.disabled.clone(),
        }
    }

    /// The name of the channel that carries the signalling of this one.
    pub(crate) fn carrier(&self) -> Option<&str> {
        match &self.switch {
            SwitchSettings::Scheduled(ScheduledSettings {
                signalling: SignallingSettings::Carried(carried),
                ..
            }) => Some(&carried.by),
            _ => None,
        }
    }

    /// The interface of each host and the number of send buffers on its adapter, if there is one.
    pub(crate) fn interface_with_buffers(
        &self,
        name: &str,
    ) -> Result<Option<(InterfaceSettings, u16)>, Error> {
        let Some(interface) = &self.interface else { return Ok(None) };
        let numbers = [
            ("interface.host_send_buffers", interface.host_send_buffers),
            ("interface.host_receive_buffers", interface.host_receive_buffers),
            ("interface.receive_buffers", interface.receive_buffers),
        ];
        if let Some((key, _)) = numbers.into_iter().find(|(_, count)| *count == 0) {
            return refuse(name, key, "0", "1 to 65535");
        }
        check_handlers(&interface.handlers, name)?;
        if self.receiver.is_some() {
            return refuse(name, "receiver", "given", "it or interface, not both");
        }
        if self.adapter.feed != Feed::Fifo {
            let accepted = "fifo with an interface, where interface.prefetch decides";
            return refuse(name, "adapter.feed", "per_target", accepted);
        }
        let count = self.adapter.send_buffers.count().map(|count| u16::try_from(count.get()));
        match count {
            Some(Ok(count)) => Ok(Some((interface.clone(), count))),
            _ => {
                let accepted = "1 to 65535 with an interface";
                refuse(name, "adapter.send_buffers", "unlimited, or too many", accepted)
            }
        }
    }

    /// The schedule of the channel, if the schedule itself tells hosts what became of their
    /// packets.
    pub(crate) fn schedule_by_events(&self) -> Option<&ScheduledSettings> {
        let SwitchSettings::Scheduled(switch) = &self.switch else { return None };
        if !self.fabric.is_star() {
            return None;
        }
        let faulty = self.faults().first().is_some() || self.interface.is_some();
        // With a control of their own, hosts do not need the schedule for this.
        let cares = faulty && self.control.is_none() && self.adapter.throttle.is_none();
        let ideal = switch.signalling == SignallingSettings::Ideal;
        let detailed = !ideal || switch.speculation != Speculation::Off;
        let detailed = detailed || self.recovery.is_some() || !switch.lengths.is_empty();
        (cares || detailed).then_some(switch)
    }

    /// The channel's schedule, if another channel carries its signalling, so that both run in one
    /// simulation.
    pub(crate) fn coupled_schedule(&self) -> Option<Schedule<'_>> {
        let switch = self.schedule_by_events()?;
        match &switch.signalling {
            SignallingSettings::Ideal => None,
            SignallingSettings::Carried(carried) => Some((switch, carried)),
        }
    }

    /// The channel's schedule, if its signalling is ideal, so that it is a channel like any other.
    pub(crate) fn ideal_schedule(&self) -> Option<&ScheduledSettings> {
        self.schedule_by_events().filter(|own| own.signalling == SignallingSettings::Ideal)
    }
}

/// Channels that act together carry packets, not messages of hosts.
fn refuse_messages(spec: &Spec, name: &str, settings: &ChannelSettings) -> Result<(), Error> {
    let workload = spec.workload.get(name);
    let sized = workload.is_some_and(|workload| workload.message.is_some());
    let accepted = "it only on a channel whose signalling is ideal, or for a program";
    match &settings.host {
        Some(_) => refuse(name, "host", "given", accepted),
        None if sized => refuse_in_workload(name, "message", "given", accepted),
        None => Ok(()),
    }
}

/// A channel under a schedule, with the one that carries its signalling.
pub(crate) fn coupled(
    spec: &Spec,
    settings: &ChannelSettings,
    (switch, carried): Schedule<'_>,
    site: Site<'_>,
) -> Result<Coupled, Error> {
    refuse_what_differs(settings, site.name)?;
    refuse_failures_elsewhere(settings, site.name)?;
    refuse_planes_elsewhere(settings, site.hosts, site.name)?;
    refuse_what_is_not_read(settings, spec.workload.get(site.name), site.name)?;
    let quick = carrier(spec, carried, site.name)?;
    refuse_messages(spec, site.name, settings)?;
    refuse_messages(spec, &carried.by, quick)?;
    refuse_failures_elsewhere(quick, &carried.by)?;
    refuse_planes_elsewhere(quick, site.hosts, &carried.by)?;
    refuse_what_is_not_read(quick, spec.workload.get(&carried.by), &carried.by)?;
    let traffic = |name: &str, settings| {
        let workload = spec.workload.get(name);
        let sources = workload.map(|own| sources(settings, own, Site { name, ..site }));
        sources.transpose().map(|sources| (workload, sources.unwrap_or_default()))
    };
    let (workload, sources) = traffic(site.name, settings)?;
    let schedule = pipeline(settings, switch, &sources, Some((carried, quick)), site)?;
    let bulk = engine::parts(settings, workload, sources, Some(schedule), site)?;
    let bulk = Engine::new(bulk);
    let (workload, sources) = traffic(&carried.by, quick)?;
    let quick_site = Site { name: &carried.by, ..site };
    let quick = engine::parts(quick, workload, sources, None, quick_site)?;
    Ok(Coupled::new(bulk, Engine::new(quick)))
}

/// A schedule, and how another channel carries its signalling.
pub(crate) type Schedule<'a> = (&'a ScheduledSettings, &'a CarriedSettings);

/// The channel that carries the signalling of another one, and its settings; none if signalling is
/// ideal.
type Carrier<'a> = Option<(&'a CarriedSettings, &'a ChannelSettings)>;

fn carrier<'a>(
    spec: &'a Spec,
    carried: &CarriedSettings,
    name: &str,
) -> Result<&'a ChannelSettings, Error> {
    let by = &carried.by;
    let refuse = |value: &str, accepted: &str| refuse(name, CARRIED_BY, value, accepted);
    let Some(quick) = spec.channel.get(by).filter(|_| by != name) else {
        return refuse(by, "the name of another channel of this system");
    };
    let crossbar = match &quick.switch {
        SwitchSettings::Crossbar(crossbar) => Some(crossbar),
        _ => None,
    };
    if crossbar.is_none_or(|crossbar| crossbar.contention != Contention::Drop) {
        let accepted = format!(
            "a channel with channel.{by}.switch.crossbar.contention = drop, in which what is \
             scheduled can pass"
        );
        return refuse(by, &accepted);
    }
    if quick.link.reserved.get() > 0.0 {
        let value = format!("{by}, with channel.{by}.link.reserved = {}", quick.link.reserved);
        let accepted = "a channel with reserved = 0, since what was reserved is packets now";
        return refuse(&value, accepted);
    }
    if spec.system.hosts > u32::from(MAX_HOSTS) {
        let value = format!("{by}, with system.hosts = {}", spec.system.hosts);
        return refuse(&value, "at most 16 hosts, for which its packets have room");
    }
    Ok(quick)
}

fn timing(
    settings: &ChannelSettings,
    switch: &ScheduledSettings,
    carrier: Carrier<'_>,
    site: Site<'_>,
) -> Result<PipelineTiming, Error> {
    let slot = switch.slot(settings.packet_span());
    let mut timing = PipelineTiming {
        slot,
        lead: switch.lead,
        packet: settings.packet_span(),
        wire: settings.link.propagation() * 2,
        switch: switch.latency,
        carried: None,
    };
    let misfit = |what: &str, value: Span, accepted: String| {
        let key = format!("switch.scheduled.{what}");
        refuse(site.name, &key, &value.to_string(), &accepted)
    };
    if timing.lead >= slot {
        return misfit("lead", timing.lead, format!("less than a slot, {slot}"));
    }
    let Some((carried, quick)) = carrier else {
        if timing.transit() > slot * 2 {
            let value = format!("{} on the way", timing.transit());
            let accepted = format!(
                "cables on which a packet arrives within two slots, {}, after which its initiator \
                 knows what became of it",
                slot * 2
            );
            return refuse(site.name, "link.length", &value, &accepted);
        }
        return Ok(timing);
    };
    let pair = Pair { bulk: settings, switch, carried, quick };
    let of_carried = carried_timing(&pair, &timing, site)?;
    timing.carried = Some(of_carried);
    let shortest = of_carried.shortest_lead();
    if timing.lead < shortest {
        let accepted = format!(
            "{shortest} or more: configuration, grant, cable and switch of channel.{}, and \
             signalling.carried.arbitration = {}",
            carried.by, carried.arbitration
        );
        return misfit("lead", timing.lead, accepted);
    }
    if timing.longest_transit() + of_carried.longest_acknowledgment() > slot * 2 {
        let accepted = "so little that an acknowledgment is back within two slots".to_owned();
        return misfit("signalling.carried.turn_around", carried.turn_around, accepted);
    }
    if !of_carried.calendar(slot).has_room_for(quick.packet_span()) {
        let accepted = format!(
            "smaller packets: a slot of {slot} has to have room for those of channel.{} beside",
            carried.by
        );
        return misfit("signalling.carried.configuration", of_carried.configuration, accepted);
    }
    Ok(timing)
}

/// The distances of the hosts, if their cables differ; the slots must be long enough for them.
fn distances(
    settings: &ChannelSettings,
    switch: &ScheduledSettings,
    timing: &PipelineTiming,
    site: Site<'_>,
) -> Result<Option<Distances>, Error> {
    let refuse = |key: &str, value: String, accepted: String| {
        refuse(site.name, &format!("switch.scheduled.{key}"), &value, &accepted)
    };
    let ScheduledSettings { lengths, alignment, gap, lead, .. } = switch;
    if lengths.is_empty() {
        return Ok(None);
    }
    if lengths.len() != site.hosts as usize {
        let accepted = format!("one length for each of the {} hosts", site.hosts);
        return refuse("lengths", format!("{} lengths", lengths.len()), accepted);
    }
    let link = &settings.link;
    if let Some(longer) = lengths.iter().find(|length| **length > link.length) {
        let accepted = format!("up to {}, channel.{}.link.length", link.length, site.name);
        return refuse("lengths", longer.to_string(), accepted);
    }
    if timing.carried.is_some() {
        let accepted = "without lengths, since signalling that travels has links of one length";
        return refuse("signalling", "carried".to_owned(), accepted.to_owned());
    }
    let ways = lengths.iter().map(|length| link.delay_per_metre.span(*length)).collect();
    let distances = Distances::new(ways, link.propagation(), *alignment);
    if *gap < distances.misalignment() {
        let accepted = format!(
            "{} or more, twice what the cables differ, or alignment = round_trips",
            distances.misalignment()
        );
        return refuse("gap", gap.to_string(), accepted);
    }
    // Between two samplings lies every transfer that is granted by the first.
    let transfer = Time::ZERO + *lead;
    if distances.last(transfer) >= Time::ZERO + timing.slot || *lead < link.propagation() {
        let accepted = format!(
            "{} to {}, so that all hosts start between two samplings",
            link.propagation(),
            Span(timing.slot.0.saturating_sub(link.propagation().0))
        );
        return refuse("lead", lead.to_string(), accepted);
    }
    Ok(Some(distances))
}

/// How signalling in packets divides the lead.
fn carried_timing(
    pair: &Pair<'_>,
    timing: &PipelineTiming,
    site: Site<'_>,
) -> Result<CarriedTiming, Error> {
    let Pair { carried, quick, .. } = *pair;
    Ok(CarriedTiming {
        configuration: quick.link.span(carried.configuration),
        grant: quick.link.span(carried.grant),
        acknowledgment: quick.link.span(carried.acknowledgment),
        arbitration: carried.arbitration,
        turn_around: carried.turn_around,
        latency: quick.switch_latency(),
        propagation: quick.link.propagation(),
        obstruction: quick.packet_span() + quick.link.span(carried.configuration),
        shared: pair.shared_link(timing, site)?,
    })
}

/// Whether a transfer can fail.
fn may_fail(settings: &ChannelSettings, carrier: Carrier<'_>) -> bool {
    let errors = |settings: &ChannelSettings| {
        settings.errors.as_ref().is_some_and(|errors: &ErrorSettings| !errors.is_free_of_errors())
    };
    let refuses = settings.receiver.is_some() || settings.interface.is_some();
    errors(settings) || refuses || carrier.is_some_and(|(_, by)| errors(by))
}

fn check_bulk(
    settings: &ChannelSettings,
    carrier: Carrier<'_>,
    site: Site<'_>,
) -> Result<(), Error> {
    let refuse = |key: &str, value: &str, accepted: &str| refuse(site.name, key, value, accepted);
    let adapter = &settings.adapter;
    let unread = [
        ("control", settings.control.is_some()),
        ("adapter.acknowledgments", adapter.acknowledgments != Insertion::Wait),
        ("adapter.throttle", adapter.throttle.is_some()),
    ];
    if let Some((key, _)) = unread.iter().find(|(_, given)| *given) {
        let accepted = "it only with ideal signalling, no speculation, no recovery and cables of \
                        one length: otherwise the schedule tells hosts of their packets";
        return refuse(key, "given", accepted);
    }
    let released = settings.adapter.release == Some(Release::Transmission);
    if released && may_fail(settings, carrier) {
        let accepted =
            "acknowledgment, since a packet that may be sent again keeps its send buffer";
        return refuse("adapter.release", "transmission", accepted);
    }
    check_errors(settings, true, site)?;
    check_disabled(settings, site)
}

/// Disabled initiators that do not exist are a mistake.
pub(crate) fn check_disabled(settings: &ChannelSettings, site: Site<'_>) -> Result<(), Error> {
    let named = settings.disabled.iter().flat_map(|disabled| {
        let by = disabled.by.iter().map(|target| ("by", *target));
        std::iter::once(("host", disabled.host)).chain(by)
    });
    match named.into_iter().find(|(_, host)| u32::from(*host) >= site.hosts) {
        Some((key, host)) => {
            let accepted = format!("a host, below {}", site.hosts);
            refuse(site.name, &format!("disabled.{key}"), &host.to_string(), &accepted)
        }
        None => Ok(()),
    }
}
