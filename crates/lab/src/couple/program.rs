//! Channels that act together, for a program that sends over one of them or over both.

use super::{CARRIED_BY, coupled};
use crate::assemble::{Driver, Site, in_front_of, refuse, refuse_programs_that_never_end};
use crate::composition::Spec;
use crate::drive::engine::Half;
use crate::error::Error;
use crate::program::background::offers;

/// A scheduled channel and the one that carries its signalling, by name.
pub(crate) type Together<'a> = (&'a str, &'a str);

/// The channels that act together and both have traffic when a program uses the channels of these
/// names: messages of the program, or traffic beside it.
///
/// # Errors
/// One of them would carry the signalling of two.
pub(crate) fn both_in_use<'a>(
    spec: &'a Spec,
    names: &[String],
) -> Result<Vec<Together<'a>>, Error> {
    let is_named = |name: &str| names.iter().any(|other| other == name);
    let sends = |name: &str| is_named(name) || spec.workload.get(name).is_some_and(offers);
    let mut found: Vec<Together<'a>> = Vec::new();
    for (name, settings) in &spec.channel {
        let Some(by) = settings.carrier().filter(|by| *by != name.as_str()) else { continue };
        let is_driven = settings.schedule_by_events().is_some() && spec.channel.contains_key(by);
        let is_used = (is_named(name) && sends(by)) || (is_named(by) && sends(name));
        if !is_driven || !is_used {
            continue;
        }
        if let Some((first, _)) = found.iter().find(|(_, other)| *other == by) {
            let accepted = format!(
                "another channel than channel.{first} has, where a program uses them together"
            );
            return refuse(name, CARRIED_BY, by, &accepted);
        }
        found.push((name, by));
    }
    Ok(found)
}

/// The names of a program's channels, followed by those with traffic that act together with one of
/// them.
pub(crate) fn with_partners(names: &[String], together: &[Together<'_>]) -> Vec<String> {
    let mut all = names.to_vec();
    for name in together.iter().flat_map(|(name, by)| [*name, *by]) {
        if !all.iter().any(|other| other == name) {
            all.push(name.to_owned());
        }
    }
    all
}

/// The channels of a program whose schedule itself tells hosts what became of their packets, and
/// those that carry their signalling: hosts with stages stand in front of them for programs only.
pub(crate) fn scheduled_with_carriers(spec: &Spec, names: &[String]) -> Result<Vec<String>, Error> {
    let all = with_partners(names, &both_in_use(spec, names)?);
    let is_scheduled = |name: &&String| spec.channel[*name].schedule_by_events().is_some();
    let scheduled = all.iter().filter(is_scheduled);
    let each = scheduled.flat_map(|name| {
        let by = spec.channel[name].carrier().map(str::to_owned);
        std::iter::once(name.clone()).chain(by)
    });
    Ok(each.collect())
}

/// Both channels, in this order, for messages on either.
pub(crate) fn halves(
    spec: &Spec,
    (name, by): Together<'_>,
    site: Site<'_>,
) -> Result<[(String, Driver); 2], Error> {
    let bare = bare(spec);
    let Some(switch) = bare.channel[name].coupled_schedule() else {
        return refuse(name, CARRIED_BY, by, "a scheduled channel");
    };
    let bulk_site = Site { name, ..site };
    let [bulk, quick] = Half::both(coupled(&bare, &bare.channel[name], switch, bulk_site)?);
    let behind = |name: &str, half| {
        let site = Site { name, ..site };
        behind_hosts(spec, Driver::Half(Box::new(half)), site)
            .map(|driver| (name.to_owned(), driver))
    };
    Ok([behind(name, bulk)?, behind(by, quick)?])
}

/// One channel for messages, together with the channel that carries its signalling if it is
/// scheduled; that one carries nothing else.
pub(crate) fn alone(spec: &Spec, site: Site<'_>) -> Result<Driver, Error> {
    let bare = bare(spec);
    let settings = &bare.channel[site.name];
    let driver = match settings.coupled_schedule() {
        Some(own) => Driver::Coupled(Box::new(coupled(&bare, settings, own, site)?)),
        None => {
            let settings = &spec.channel[site.name];
            refuse_programs_that_never_end(settings, site)?;
            return Driver::new(settings, None, site);
        }
    };
    behind_hosts(spec, driver, site)
}

/// Without workloads, since background traffic is sent as messages beside the program, and without
/// hosts, since these stand in front of the channels.
fn bare(spec: &Spec) -> Spec {
    let mut bare = spec.clone();
    bare.workload.clear();
    bare.channel.values_mut().for_each(|channel| channel.host = None);
    bare
}

fn behind_hosts(spec: &Spec, driver: Driver, site: Site<'_>) -> Result<Driver, Error> {
    let settings = &spec.channel[site.name];
    match settings.host {
        Some(_) => in_front_of(settings, driver, settings.message(None), Vec::new(), site),
        None => Ok(driver),
    }
}
