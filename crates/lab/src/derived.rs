//! Quantities that follow from a composition without a run.

use weft_fabric::host::HostSettings;
use weft_units::{Rate, Span};

use crate::composition::{ChannelSettings, Spec, SwitchSettings};
use crate::drive::cluster::SignallingSettings;

/// A quantity that follows from the composition by arithmetic alone.
#[derive(Clone, Debug, PartialEq)]
pub struct Derived {
    /// Its name; a published number refers to it as `derived.NAME`.
    pub name: String,
    /// Its unit; empty for a ratio.
    pub unit: &'static str,
    /// Its value.
    pub value: f64,
    /// How it was computed, with the numbers put in.
    pub arithmetic: String,
}

/// Everything that follows from `spec`, channel by channel, then across channels.
pub fn derive(spec: &Spec) -> Vec<Derived> {
    let mut all = Vec::new();
    for (name, channel) in &spec.channel {
        of_channel(name, channel, spec.system.hosts, &mut all);
        all.extend(signalling(name, channel, spec));
    }
    for (name, channel) in &spec.channel {
        for (other_name, other) in &spec.channel {
            if name != other_name {
                between(name, channel, other_name, other, &mut all);
            }
        }
    }
    all
}

fn of_channel(name: &str, channel: &ChannelSettings, hosts: u16, all: &mut Vec<Derived>) {
    let rate = channel.link.rate;
    let packet = rate.span(channel.packet);
    all.push(Derived {
        name: format!("{name}.packet_span"),
        unit: "us",
        value: packet.as_us(),
        arithmetic: format!("{} at {rate}", channel.packet),
    });
    all.push(Derived {
        name: format!("{name}.aggregate_rate"),
        unit: "Gbit/s",
        value: rate.bytes_per_second() * 8e-9 * f64::from(hosts),
        arithmetic: format!("{hosts} hosts x {rate}"),
    });
    if let Some(code) = channel.coding {
        let line = code.line_rate(rate);
        all.push(Derived {
            name: format!("{name}.line_rate"),
            unit: "Gbit/s",
            value: line.bytes_per_second() * 8e-9,
            arithmetic: format!("{rate} x {:.2}", ratio_of(line, rate)),
        });
    }
    if let Some(settings) = &channel.attenuation {
        let budget = settings.budget();
        all.push(Derived {
            name: format!("{name}.attenuation"),
            unit: "dB",
            value: budget.total().0 as f64 * 1e-3,
            arithmetic: format!(
                "{} cable + {} connectors + {} traces",
                budget.cable, budget.connectors, budget.traces
            ),
        });
    }
    slots(name, channel, packet, all);
    hosts_and_prices(name, channel, all);
}

/// What the rates of hosts allow, and what technologies cost.
fn hosts_and_prices(name: &str, channel: &ChannelSettings, all: &mut Vec<Derived>) {
    if let Some(host) = &channel.host {
        host_limits(name, host, all);
    }
    for (price, (offer, of)) in
        channel.price.iter().flat_map(|price| std::iter::repeat(price).zip(&price.offers))
    {
        all.push(Derived {
            name: format!("{name}.price.{offer}"),
            unit: "USD",
            value: price.system(of) as f64,
            arithmetic: format!("{} x ({} + {})", price.nodes, of.adapter, of.port),
        });
    }
}

fn host_limits(name: &str, host: &HostSettings, all: &mut Vec<Derived>) {
    let limits = host.limits();
    let mb = |rate: f64| rate * 1e-6;
    let rates = [
        ("occupancy_limit", limits.occupancy, "1 / the busiest resource of either host".to_owned()),
        (
            "serial_limit",
            limits.serial(),
            format!("Xt Xr / (Xt + Xr), {:.1} and {:.1}", mb(limits.send), mb(limits.receive)),
        ),
    ];
    for (quantity, value, arithmetic) in rates.into_iter().filter(|rate| rate.1.is_finite()) {
        let (name, value) = (format!("{name}.{quantity}"), mb(value));
        all.push(Derived { name, unit: "MB/s", value, arithmetic });
    }
    for resource in host.resource.keys() {
        for (way, times) in ["send", "receive"].into_iter().zip(host.traversals(resource)) {
            all.push(Derived {
                name: format!("{name}.{way}.{resource}_traversals"),
                unit: "",
                value: f64::from(times),
                arithmetic: format!("crossings of {resource} by the stages of the {way} way"),
            });
        }
    }
}

fn slots(name: &str, channel: &ChannelSettings, packet: Span, all: &mut Vec<Derived>) {
    if let SwitchSettings::Scheduled(scheduled) = &channel.switch {
        let slot = scheduled.slot(packet);
        all.push(Derived {
            name: format!("{name}.slot"),
            unit: "us",
            value: slot.as_us(),
            arithmetic: format!(
                "({packet} packet + {} gap) / (1 - {} re-lock)",
                scheduled.gap, scheduled.relock
            ),
        });
        all.push(Derived {
            name: format!("{name}.unloaded_latency"),
            unit: "us",
            value: slot.as_us() / 2.0 + scheduled.lead.as_us(),
            arithmetic: format!("{slot} slot / 2 + {} lead", scheduled.lead),
        });
    }
}

/// The share of another channel that the signalling of a schedule takes: one packet of each kind
/// per host in the time of a packet (Clint 3.3 counts so; the slot is longer by gap and re-lock).
fn signalling(name: &str, channel: &ChannelSettings, spec: &Spec) -> Option<Derived> {
    let SwitchSettings::Scheduled(scheduled) = &channel.switch else { return None };
    let SignallingSettings::Carried(own) = &scheduled.signalling else { return None };
    let carrier = spec.channel.get(&own.by)?;
    let sizes = own.configuration + own.grant + own.acknowledgment;
    let (span, packet) = (carrier.link.rate.span(sizes), channel.link.rate.span(channel.packet));
    Some(Derived {
        name: format!("{name}.signalling_share_of_{}", own.by),
        unit: "",
        value: ratio(span, packet),
        arithmetic: format!("{sizes} at {} = {span}, in {packet}", carrier.link.rate),
    })
}

/// How many packets one channel carries in the time of one packet of another.
fn between(
    name: &str,
    channel: &ChannelSettings,
    other_name: &str,
    other: &ChannelSettings,
    all: &mut Vec<Derived>,
) {
    let own = channel.link.rate.span(channel.packet);
    let others = other.link.rate.span(other.packet);
    all.push(Derived {
        name: format!("{name}_per_{other_name}_packet"),
        unit: "",
        value: ratio(others, own),
        arithmetic: format!("{others} / {own}"),
    });
}

fn ratio_of(one: Rate, other: Rate) -> f64 {
    one.bytes_per_second() / other.bytes_per_second()
}

fn ratio(numerator: Span, denominator: Span) -> f64 {
    numerator.0 as f64 / denominator.0 as f64
}
