//! What the rates of hosts allow, and the prices of technologies.

use weft_fabric::host::HostSettings;

use super::Derived;
use crate::composition::ChannelSettings;

/// What the rates of hosts allow, and the prices of technologies.
pub(super) fn hosts_and_prices(name: &str, channel: &ChannelSettings, all: &mut Vec<Derived>) {
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
                arithmetic: format!("crossings of {resource} by the stages of the {way} path"),
            });
        }
    }
}
