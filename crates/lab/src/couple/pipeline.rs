//! From the settings of a scheduled channel to a schedule that itself tells hosts what became of
//! their packets.

use weft_fabric::adapter::Release;
use weft_fabric::control::{GlobalScheduleSettings, Pipeline, Signalling};
use weft_fabric::workload::Source;

use super::{Carrier, check_bulk, distances, may_fail, timing};
use crate::assemble::{Site, refuse_endless, refuse_named_switches};
use crate::composition::{ChannelSettings, ScheduledSettings};
use crate::drive::engine::PipelineParts;
use crate::error::Error;

/// The schedule of a channel with these sources, whose signalling `carrier` carries unless it is
/// ideal.
pub(crate) fn pipeline(
    settings: &ChannelSettings,
    switch: &ScheduledSettings,
    sources: &[Source],
    carrier: Carrier<'_>,
    site: Site<'_>,
) -> Result<PipelineParts, Error> {
    refuse_named_switches(settings, site.name)?;
    let timing = timing(settings, switch, carrier, site)?;
    check_bulk(settings, carrier, site)?;
    let schedule = GlobalScheduleSettings {
        scheduler: switch.scheduler.clone(),
        speculation: switch.speculation,
    };
    let schedule = schedule
        .build(site.hosts as usize)
        .map_err(|error| Error::Scheduler { channel: site.name.to_owned(), error })?;
    let distances = distances(settings, switch, &timing, site)?;
    refuse_endless(settings, sources, site.name)?;
    let random = site.streams.stream(&format!("{}.scheduler", site.name), 0);
    let signalling = carrier.zip(timing.carried).map(|((carried, _), of_carried)| {
        Signalling::new(carried.clone(), of_carried, site.hosts as usize)
    });
    Ok(PipelineParts {
        pipeline: Pipeline::new(timing, distances, (schedule, random), signalling),
        release: match settings.adapter.release {
            Some(release) => release,
            None if may_fail(settings, carrier) => Release::Acknowledgment,
            None => Release::Transmission,
        },
        recovery: settings.recovery.unwrap_or_default(),
        quick_disabled: carrier.map_or(Vec::new(), |(_, by)| by.disabled.clone()),
    })
}
