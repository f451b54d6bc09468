//! Quantities that follow from a composition without a run.

mod limits;

use weft_fabric::control::SignallingSettings;
use weft_protocol::turns::Burst;
use weft_units::{Bytes, Rate, Span};

use crate::composition::{ChannelSettings, Spec, SwitchSettings};

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

fn of_channel(name: &str, channel: &ChannelSettings, hosts: u32, all: &mut Vec<Derived>) {
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
        value: rate.bytes_per_second() * 8e-9 * f64::from(hosts) * f64::from(channel.planes.get()),
        arithmetic: match channel.has_planes() {
            true => format!("{hosts} hosts x {} planes x {rate}", channel.planes),
            false => format!("{hosts} hosts x {rate}"),
        },
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
    turns(name, channel, all);
    limits::hosts_and_prices(name, channel, all);
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

/// Values that follow from the turns of the channel's link: times of frames and the rate of full frames
/// in one direction; and, if all cables and switches are alike, the path of one packet through one
/// switch (Maestro 4.1).
fn turns(name: &str, channel: &ChannelSettings, all: &mut Vec<Derived>) {
    let Some(settings) = &channel.turns else { return };
    let (rate, propagation) = (channel.link.rate, channel.link.propagation());
    let timing = settings.timing(&channel.link);
    let (Ok(rules), Ok(capacity)) = (settings.rules(), settings.capacity()) else { return };
    let packets = match rules.burst {
        // No frame has more packets than the FIFO at the other end has room for.
        Burst::Credit => u64::from(rules.most.min(capacity)),
        Burst::Fixed(packets) => packets.into(),
    };
    let full = timing.preamble + timing.packet * packets;
    let round = full + timing.preamble + timing.turn_around * 2 + propagation * 2;
    let bytes = settings.message(Bytes(0)) * packets;
    let least = timing.decided() + timing.preamble + timing.packet + propagation;
    // A cable without delay has no derived values.
    let cable = |times: u32| match (propagation, times) {
        (Span::ZERO, _) => String::new(),
        (_, 1) => format!(" + {propagation} cable"),
        _ => format!(" + {times} x {propagation} cable"),
    };
    let mut push = |quantity: &str, unit, value, arithmetic| {
        all.push(Derived { name: format!("{name}.{quantity}"), unit, value, arithmetic });
    };
    let preamble = timing.preamble;
    push("null_frame", "us", preamble.as_us(), format!("preamble at {rate}"));
    push("full_frame", "us", full.as_us(), format!("{preamble} + {packets} x {}", timing.packet));
    push(
        "burst_rate",
        "MB/s",
        bytes.0 as f64 / round.as_us(),
        format!("{bytes} / ({full} + {preamble} + 2 x {}{})", timing.turn_around, cable(2)),
    );
    let (null_turn, release) = (timing.null_turn(), timing.release_to_decision());
    let turns = match timing.undecided {
        Span::ZERO => format!("{} turn-around", timing.turn_around),
        _ => format!("2 x {} turn-around", timing.turn_around),
    };
    let released = format!("{turns} + {preamble} null frame{}", cable(1));
    push("release_to_turn", "us", release.as_us(), released);
    let SwitchSettings::FifoBus(bus) = &channel.switch else { return };
    if channel.fabric.has_own_cables() || !channel.switches.is_empty() {
        return;
    }
    let switch = bus.analysis + bus.set_up + bus.rate.span(settings.packet());
    let path = least * 2 + switch;
    push("path_least", "us", path.as_us(), format!("2 x {least} + {switch}"));
    push("path_most", "us", (path + null_turn * 4).as_us(), format!("{path} + 4 x {null_turn}"));
    push(
        "path_after_release",
        "us",
        (path + release * 2).as_us(),
        format!("{path} + 2 x {release}"),
    );
}

/// The share of another channel that the signalling of a schedule takes: one packet of each kind
/// per host in the time of a packet (as in Clint 3.3; the slot is longer by gap and re-lock).
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
