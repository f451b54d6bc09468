//! Whether a scheduled channel and the one that carries its signalling can be virtual channels of
//! one link.

use weft_fabric::adapter::Insertion;
use weft_fabric::control::{CarriedSettings, PipelineTiming};
use weft_fabric::link::{SharedLinkSettings, SharedLinkTiming};
use weft_fabric::switch::AcknowledgmentRule;
use weft_units::Span;

use super::CARRIED_BY;
use crate::assemble::{Site, refuse};
use crate::composition::{ChannelSettings, ScheduledSettings, SwitchSettings};
use crate::error::Error;

/// The two channels.
pub(super) struct Pair<'a> {
    pub bulk: &'a ChannelSettings,
    pub switch: &'a ScheduledSettings,
    pub carried: &'a CarriedSettings,
    pub quick: &'a ChannelSettings,
}

impl Pair<'_> {
    /// How the two share their links, if they do.
    pub fn shared_link(
        &self,
        timing: &PipelineTiming,
        site: Site<'_>,
    ) -> Result<Option<SharedLinkTiming>, Error> {
        let Some(SharedLinkSettings { guard }) = self.carried.shared_link else { return Ok(None) };
        self.check_link(site)?;
        self.check_switches(site)?;
        let shared = SharedLinkTiming {
            transfer: timing.packet,
            guard,
            reserve: self.reserve(),
            propagation: self.quick.link.propagation(),
        };
        self.check_guard(&shared, timing, site)?;
        Ok(Some(shared))
    }

    /// The part of the guard that packets of the schedule may need. During one transfer a link may
    /// carry a configuration or a grant, and two acknowledgments, the second of which belongs to
    /// the next slot; and a transfer passes two links.
    fn reserve(&self) -> Span {
        let CarriedSettings { configuration, grant, acknowledgment, .. } = self.carried;
        let of = |size| self.quick.link.span(size);
        of(*configuration) + of(*grant) + of(*acknowledgment) * 4
    }

    /// It is one link, so both channels must describe it in the same way.
    fn check_link(&self, site: Site<'_>) -> Result<(), Error> {
        let (bulk, quick, by) = (&self.bulk.link, &self.quick.link, &self.carried.by);
        let one = |key: &str, value: String, other: String| {
            let accepted =
                format!("that of channel.{by}.link, {other}: with shared_link it is one");
            refuse(site.name, &format!("link.{key}"), &value, &accepted)
        };
        if bulk.reserved != quick.reserved {
            return one("reserved", bulk.reserved.to_string(), quick.reserved.to_string());
        }
        if bulk.rate != quick.rate {
            return one("rate", bulk.rate.to_string(), quick.rate.to_string());
        }
        if bulk.propagation() != quick.propagation() {
            let what = |length, delay| format!("{length} ({delay})");
            let value = what(bulk.length, bulk.propagation());
            return one("length", value, what(quick.length, quick.propagation()));
        }
        Ok(())
    }

    /// Bytes of both channels leave by one output, in the order of their arrival, and room on it is
    /// made once for each packet.
    fn check_switches(&self, site: Site<'_>) -> Result<(), Error> {
        let (latency, by) = (self.quick.switch_latency(), &self.carried.by);
        if self.switch.latency != latency {
            let accepted = format!(
                "{latency}, that of channel.{by}.switch: with shared_link both leave by one output"
            );
            let (key, own) = ("switch.scheduled.latency", self.switch.latency.to_string());
            return refuse(site.name, key, &own, &accepted);
        }
        let interleaves = match &self.quick.switch {
            SwitchSettings::Crossbar(crossbar) => {
                crossbar.acknowledgments == AcknowledgmentRule::Interleave
            }
            _ => false,
        };
        if interleaves || self.quick.adapter.acknowledgments == Insertion::Interleave {
            let value = format!("{by}, which interleaves acknowledgments with requests");
            let accepted = format!(
                "a channel with adapter.acknowledgments = wait and switch.crossbar.acknowledgments \
                 = collide with shared_link, not channel.{by} as it is"
            );
            return refuse(site.name, CARRIED_BY, &value, &accepted);
        }
        Ok(())
    }

    fn check_guard(
        &self,
        shared: &SharedLinkTiming,
        timing: &PipelineTiming,
        site: Site<'_>,
    ) -> Result<(), Error> {
        let one = |accepted: String| {
            let key = "switch.scheduled.signalling.carried.shared_link.guard";
            refuse(site.name, key, &shared.guard.to_string(), &accepted)
        };
        let SharedLinkTiming { guard, reserve, .. } = *shared;
        let least = self.quick.packet_span() + reserve;
        if guard < least {
            return one(format!(
                "{least} or more: a packet of channel.{}, which may be on the link when a transfer \
                 begins, and {reserve} for configuration, grant and acknowledgments",
                self.carried.by
            ));
        }
        if guard > self.switch.gap {
            let gap = self.switch.gap;
            return one(format!("at most switch.scheduled.gap = {gap}, of which it is a part"));
        }
        if timing.transit() + guard >= timing.slot {
            let most = Span(timing.slot.0.saturating_sub(timing.transit().0));
            let slot = timing.slot;
            return one(format!(
                "less than {most}: the last byte is at the target before the next slot of {slot}"
            ));
        }
        Ok(())
    }
}
