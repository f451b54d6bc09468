//! Whether the parts that a file names fit together: rules that no single type can express. Every
//! point of a study is checked before its first run, so that a refusal names the file and the line.

use std::borrow::Cow;

use weft_fabric::host::HostSettings;
use weft_fabric::scheduler::SchedulerError;
use weft_fabric::workload::{SourceSettings, WorkloadSettings};
use weft_kernel::Streams;
use weft_units::{Limit, Span, Time};

use crate::assemble::{Driver, Site};
use crate::composition::{ChannelSettings, Spec, SwitchSettings};
use crate::couple;
use crate::error::{ABSENT, Error};
use crate::experiment::{Band, Regime};
use crate::program::background::offers;
use crate::spec::{SpecError, Tree};

/// Refuses the composition that was read from `tree` if its parts do not fit together.
pub fn check(tree: &Tree, spec: &Spec) -> Result<(), Error> {
    check_workloads(tree, spec)?;
    check_run(tree, spec)?;
    check_published(tree, spec)?;
    if let Some(program) = &spec.program {
        program.check(spec).map_err(|error| placed(tree, error))?;
    }
    let spec = &heard(spec);
    for (name, channel) in &spec.channel {
        check_sizes(tree, name, channel)?;
        check_source(tree, name, channel, spec.workload.get(name))?;
        assemble(spec, name, channel).map_err(|error| placed(tree, error))?;
    }
    Ok(())
}

/// Beside a program, a workload without a load has no effect. Hosts in front of the program's channels
/// have been checked with it.
fn heard(spec: &Spec) -> Cow<'_, Spec> {
    let Some(program) = spec.running_program() else { return Cow::Borrowed(spec) };
    let of_program = program.scheduled_channels(spec);
    let mut spec = spec.clone();
    spec.workload.retain(|_, workload| offers(workload));
    for (_, channel) in spec.channel.iter_mut().filter(|(name, _)| of_program.contains(name)) {
        channel.host = None;
    }
    Cow::Owned(spec)
}

/// Traffic needs a channel that exists.
fn check_workloads(tree: &Tree, spec: &Spec) -> Result<(), SpecError> {
    match spec.workload.keys().find(|name| !spec.channel.contains_key(*name)) {
        Some(name) => {
            let path = format!("workload.{name}");
            let names: Vec<&String> = spec.channel.keys().collect();
            Err(tree.refuse(&path, format!("there is no channel `{name}`")).names(&names, name))
        }
        None => Ok(()),
    }
}

/// A part of the run must be measured.
fn check_run(tree: &Tree, spec: &Spec) -> Result<(), SpecError> {
    let length = spec.run.length;
    match spec.run.regime {
        _ if length == Span::ZERO => {
            Err(misfit(tree, "run.length", &length.to_string(), "more than no time"))
        }
        Regime::Skip(span) if span >= length => {
            let accepted = format!("less than run.length, {length}");
            Err(misfit(tree, "run.regime.skip", &span.to_string(), &accepted))
        }
        _ => Ok(()),
    }
}

/// A band around a number needs the number, and what is printed is a number or words.
fn check_published(tree: &Tree, spec: &Spec) -> Result<(), SpecError> {
    for (index, published) in spec.published.iter().enumerate() {
        let (key, wrong, accepted) = match (published.value, &published.statement, published.band) {
            (
                None,
                _,
                Band::Relative(_)
                | Band::Rounding(_)
                | Band::Reading(_)
                | Band::Spread(_)
                | Band::OneRun(_),
            ) => (
                "band",
                "a band around a number in print without the `value`",
                "a `value`, or { between = [low, high] } where no number is printed",
            ),
            (Some(_), Some(_), _) => (
                "statement",
                "a `statement` beside a `value`",
                "a `value` where a number is printed, a `statement` where none is",
            ),
            (None, None, _) | (None, _, Band::ReportOnly) if published.computed => (
                "computed",
                "`computed` without a `statement` and a band",
                "a `statement` of what was computed, and a band around it",
            ),
            (Some(_), None, _) if published.computed => (
                "computed",
                "a `value` that is `computed`",
                "a `value` where a number is printed, `computed` where no document prints one",
            ),
            _ => continue,
        };
        let message = format!("published[{index}] ({}) has {wrong}", published.quantity);
        return Err(tree.refuse_in("published", index, key, message).accepts(accepted));
    }
    Ok(())
}

fn check_sizes(tree: &Tree, name: &str, channel: &ChannelSettings) -> Result<(), SpecError> {
    let refuse = |key: &str, value: &dyn ToString, accepted: &str| {
        Err(misfit(tree, &format!("channel.{name}.{key}"), &value.to_string(), accepted))
    };
    if channel.turns.is_none() && channel.payload > channel.packet {
        let accepted = format!("at most the packet that carries it, {}", channel.packet);
        return refuse("payload", &channel.payload, &accepted);
    }
    if channel.link.reserved.get() >= 1.0 {
        return refuse("link.reserved", &channel.link.reserved, "a fraction below 1");
    }
    match &channel.switch {
        SwitchSettings::Scheduled(switch) if switch.relock.get() >= 1.0 => {
            refuse("switch.scheduled.relock", &switch.relock, "a fraction below 1")
        }
        _ => Ok(()),
    }
}

/// A greedy source fills the space that there is: without a bound it would never stop.
fn check_source(
    tree: &Tree,
    name: &str,
    channel: &ChannelSettings,
    workload: Option<&WorkloadSettings>,
) -> Result<(), SpecError> {
    let greedy = workload.is_some_and(|workload| workload.source == SourceSettings::Greedy);
    // Over hosts it has one message at a time.
    let takes_turns = channel.carries_messages(workload)
        && channel.host.as_ref().is_none_or(HostSettings::takes_time_to_send);
    if !greedy || takes_turns || channel.adapter.send_buffers != Limit::Unlimited {
        return Ok(());
    }
    let accepted = format!("greedy only with a limited channel.{name}.adapter.send_buffers");
    Err(misfit(tree, &format!("workload.{name}.source"), "greedy", &accepted))
}

/// Whatever a part of the channel refuses is found, as if the channel were built.
fn assemble(spec: &Spec, name: &str, channel: &ChannelSettings) -> Result<(), Error> {
    let (streams, until) = (Streams::new(spec.run.seed), Time::ZERO + spec.run.length);
    let hosts = spec.system.hosts;
    let site = Site { name, hosts, streams: &streams, from: Time::ZERO, until, sample: None };
    match channel.coupled_schedule() {
        Some(switch) => couple::coupled(spec, channel, switch, site).map(drop),
        None => Driver::check(channel, spec.workload.get(name), site),
    }
}

/// Returns the error with the place in the file of the key that caused it.
fn placed(tree: &Tree, error: Error) -> Error {
    match error {
        Error::Assembly { key, value, accepted } => misfit(tree, &key, &value, &accepted).into(),
        Error::Workload(error) => misfit(tree, &error.key, &error.value, &error.accepted).into(),
        Error::Scheduler { error: SchedulerError::Ports { ports, most }, .. } => {
            let accepted = match most {
                64 => {
                    "2 to 64 where a schedule tells hosts of their packets (as with speculation or \
                       recovery), since the requests of a host are one word"
                        .to_owned()
                }
                _ => format!("2 to {most} on a switch with a scheduler"),
            };
            misfit(tree, "system.hosts", &ports.to_string(), &accepted).into()
        }
        other => other,
    }
}

fn misfit(tree: &Tree, key: &str, value: &str, accepted: &str) -> SpecError {
    match key.rsplit_once('.').filter(|_| value == ABSENT) {
        Some((table, name)) => {
            tree.refuse(key, format!("missing key `{name}` in {table}")).accepts(accepted)
        }
        None => {
            let refusal = tree.refuse(key, format!("{key} = {value} does not fit"));
            refusal.value(value.to_owned()).accepts(accepted)
        }
    }
}
