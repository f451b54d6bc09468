//! Checks listed errors: they may name only hosts that exist, and slots only on channels with
//! slots.

use super::{Site, refuse};
use crate::composition::ChannelSettings;
use crate::error::Error;

/// Refuses listed errors that could affect no packet. Slots are counted only by a schedule, or by a switch with a
/// clock whose hosts wait for its slots.
pub(crate) fn check(
    settings: &ChannelSettings,
    has_slots: bool,
    site: Site<'_>,
) -> Result<(), Error> {
    let Some(errors) = &settings.errors else { return Ok(()) };
    if !has_slots && !errors.slots.is_empty() {
        let accepted = "`errors.packets` on this channel, whose hosts do not send in slots that could be counted";
        return refuse(site.name, "errors.slots", "given", accepted);
    }
    let packets = errors.packets.iter().map(|own| ("errors.packets.host", own.host));
    let slots = errors.slots.iter().map(|own| ("errors.slots.host", own.host));
    match packets.chain(slots).find(|(_, host)| u32::from(*host) >= site.hosts) {
        Some((key, host)) => {
            let accepted = format!("a host below {}", site.hosts);
            refuse(site.name, key, &host.to_string(), &accepted)
        }
        None => Ok(()),
    }
}
