//! The throughput and latency that a host's rates allow, computed without a run.

use weft_units::Bytes;

use super::{HostSettings, StageSettings};

/// The size of a long message, whose fixed costs do not count.
const LONG: Bytes = Bytes(1 << 20);

/// The throughput that the hosts of a channel allow long messages, from their rates alone, in bytes
/// per second; infinite without a limit.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct HostLimits {
    /// If all stages work at the same time: the limit of the busiest resource of either host.
    pub occupancy: f64,
    /// The limit of the busiest resource on the send path (SCILAN 4.2, Xt).
    pub send: f64,
    /// The limit of the processor on the receive path, if one is named (SCILAN 4.2, Xr).
    pub receive: f64,
}

impl HostLimits {
    /// If sending ended before receiving begins: `Xt Xr / (Xt + Xr)` (SCILAN 4.2).
    pub fn serial(&self) -> f64 {
        1.0 / (1.0 / self.send + 1.0 / self.receive)
    }
}

impl HostSettings {
    /// The limit that follows from the rates of the stages and resources.
    pub fn limits(&self) -> HostLimits {
        let busiest = |way: &[String]| {
            let all = self.resource.keys().map(|resource| self.occupancy(way, resource));
            all.fold(0.0, f64::max)
        };
        let processor = self.program.processor.as_ref();
        let receive = processor.map_or(0.0, |name| self.occupancy(&self.receive, name));
        let (send, all) = (busiest(&self.send), busiest(&self.receive));
        HostLimits { occupancy: 1.0 / send.max(all), send: 1.0 / send, receive: 1.0 / receive }
    }

    /// How often each byte of a message crosses a resource on the send path and on the receive
    /// path.
    pub fn traversals(&self, resource: &str) -> [u32; 2] {
        [&self.send, &self.receive].map(|way| {
            let crossings = self.of_long(way).filter_map(|stage| stage.uses.get(resource));
            crossings.map(|times| u32::from(*times)).sum()
        })
    }

    /// For how long the stages of a path hold a resource for each byte, in seconds.
    fn occupancy(&self, way: &[String], resource: &str) -> f64 {
        let using = self.of_long(way).filter(|stage| stage.uses.contains_key(resource));
        using.map(|stage| self.per_byte(stage)).sum()
    }

    fn per_byte(&self, stage: &StageSettings) -> f64 {
        let own = stage.rate.map_or(0.0, |rate| 1.0 / rate.bytes_per_second());
        let crossings = stage.uses.iter().filter_map(|(name, times)| {
            let rate = self.resource.get(name)?.rate?;
            Some(f64::from(*times) / rate.bytes_per_second())
        });
        crossings.fold(own, f64::max)
    }

    fn of_long<'a>(&'a self, way: &'a [String]) -> impl Iterator<Item = &'a StageSettings> {
        way.iter().filter_map(|name| self.stage.get(name)).filter(|stage| stage.is_for(LONG))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Sender 55 MB/s; receiver 1 / 55 + 1 / 36 us/B on its bus.
    #[test]
    fn the_serial_formula_is_the_occupancy_of_a_bus_that_both_copies_hold() {
        let text = r#"
            send = ["copy"]
            receive = ["deposit", "receive_copy"]
            program = { processor = "cpu" }
            [resource.cpu]
            [resource.bus]
            [stage.copy]
            rate = "55 MB/s"
            uses = { cpu = 0, bus = 2 }
            [stage.deposit]
            rate = "55 MB/s"
            uses = { bus = 1 }
            [stage.receive_copy]
            rate = "36 MB/s"
            uses = { cpu = 0, bus = 2 }
        "#;
        let settings: HostSettings = toml::from_str(text).expect("legal settings");
        let limits = settings.limits();
        assert!((limits.serial() - 21.758e6).abs() < 1e3, "{limits:?}");
        assert!((limits.occupancy - limits.serial()).abs() < 1.0, "{limits:?}");
        assert_eq!(settings.traversals("bus"), [2, 3]);
    }
}
