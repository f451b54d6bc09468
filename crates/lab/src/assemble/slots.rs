//! Slots: a star whose hosts send when a scheduler lets them, under a global schedule or into a
//! cell switch with unlimited queues at its inputs.

use weft_fabric::adapter::Release;
use weft_fabric::control::{SignallingSettings, Speculation};
use weft_fabric::fabric::Wiring;
use weft_fabric::scheduler::SchedulerSettings;
use weft_fabric::switch::InputQueues;
use weft_units::{Limit, PositiveCount, Span};

use super::{Site, adapter, refuse};
use crate::composition::{ChannelSettings, SwitchSettings};
use crate::drive::engine::SlotParts;
use crate::error::Error;

/// A switch that lets hosts send in slots.
#[derive(Clone, Copy, Debug)]
pub(super) struct Slotting<'a> {
    /// From an input to an output.
    pub latency: Span,
    scheduler: &'a SchedulerSettings,
    lead: Span,
    /// Hosts have one queue for all targets.
    is_fifo: bool,
}

/// The slot settings of a switch, if hosts send in slots through it.
pub(super) fn of<'a>(
    settings: &ChannelSettings,
    switch: &'a SwitchSettings,
) -> Option<Slotting<'a>> {
    match switch {
        _ if !settings.fabric.has_one_switch() => None,
        SwitchSettings::Scheduled(own) => Some(Slotting {
            latency: own.latency,
            scheduler: &own.scheduler,
            lead: own.lead,
            is_fifo: false,
        }),
        SwitchSettings::InputQueued(own) if own.buffer.is_none() && own.cell.is_none() => {
            Some(Slotting {
                latency: own.latency,
                scheduler: &own.scheduler,
                lead: Span::ZERO,
                is_fifo: own.queues == InputQueues::Fifo,
            })
        }
        _ => None,
    }
}

/// The slots of a channel whose switch is `switch`, if it has any. A slot has room for a packet on
/// the slowest cable.
pub(super) fn build(
    settings: &ChannelSettings,
    switch: &SwitchSettings,
    wiring: &Wiring,
    site: Site<'_>,
) -> Result<Option<SlotParts>, Error> {
    let Some(own) = of(settings, switch) else { return Ok(None) };
    refuse_what_slots_do_not_read(settings, switch, site)?;
    let spans = wiring.links(&settings.link).into_iter().map(|link| link.span(settings.packet));
    let packet = spans.max().unwrap_or_else(|| settings.packet_span());
    let slot = match switch {
        SwitchSettings::Scheduled(own) => own.slot(packet),
        _ => packet,
    };
    let arbiter = own
        .scheduler
        .arbiter(site.hosts as usize)
        .map_err(|error| Error::Scheduler { channel: site.name.to_owned(), error })?;
    Ok(Some(SlotParts {
        slot,
        lead: own.lead,
        release: match settings.adapter.release {
            // The acknowledgment is back by the end of the slot after the transfer's.
            Some(Release::Acknowledgment) => slot * 2,
            Some(Release::Transmission) | None => Span::ZERO,
        },
        heads: own.is_fifo && adapter::is_told(settings),
        traced_as: match switch {
            SwitchSettings::Scheduled(_) if !adapter::is_told(settings) => Some("breq"),
            _ => None,
        },
        arbiter,
        random: site.streams.stream(&format!("{}.scheduler", site.name), 0),
    }))
}

/// Refuses settings with which a schedule itself tells hosts what became of their packets: that
/// works only for the `switch` of a star.
fn refuse_what_slots_do_not_read(
    settings: &ChannelSettings,
    switch: &SwitchSettings,
    site: Site<'_>,
) -> Result<(), Error> {
    let SwitchSettings::Scheduled(own) = switch else { return Ok(()) };
    let unread = [
        ("signalling", own.signalling != SignallingSettings::Ideal),
        ("speculation", own.speculation != Speculation::Off),
        ("lengths", !own.lengths.is_empty()),
    ];
    let Some((key, _)) = unread.into_iter().find(|(_, is_given)| *is_given) else { return Ok(()) };
    let named = settings.switches.iter().find(|(_, named)| std::ptr::eq(*named, switch));
    let place = named.map_or("switch".to_owned(), |(name, _)| format!("switches.{name}"));
    let accepted = "it only in channel.NAME.switch with channel.NAME.fabric = star, where the \
                    schedule tells hosts of their packets";
    let accepted = accepted.replace("NAME", site.name);
    refuse(site.name, &format!("{place}.scheduled.{key}"), "given", &accepted)
}

/// How many send buffers a host has for a switch: with one queue a single one, for the head, which
/// is requested from the scheduler, unless the host keeps what it has sent.
pub(super) fn send_buffers(settings: &ChannelSettings, switch: &SwitchSettings) -> Limit {
    match of(settings, switch) {
        Some(own) if own.is_fifo && !adapter::is_told(settings) => {
            Limit::AtMost(PositiveCount::ONE)
        }
        _ => settings.adapter.send_buffers,
    }
}
