//! HPCC (Li et al., "HPCC: High Precision Congestion Control", SIGCOMM 2019, section 3 and
//! algorithm 1): a window that follows the utilisation reported by the links of the route.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use weft_units::{Bytes, PositiveCount, Rate, Span, Time};

use super::{Acknowledged, Line, Share};
use crate::misfit::Misfit;

/// Settings of HPCC. eta and `maxStage` are the defaults of the authors' simulator (`rdma-hw.cc`); the 50 Mbit/s
/// of its `README.md` at the round trip of 13 us of its `run.py` make 81 bytes of `W_AI`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct HpccSettings {
    /// The round trip of the longest route without load: T.
    pub base_round_trip: Span,
    /// The target utilisation of links: eta, 0.95.
    #[serde(default = "utilisation")]
    pub utilisation: Share,
    /// For how many round trips in a row a window grows only additively: `maxStage`, 5.
    #[serde(default = "stages")]
    pub stages: PositiveCount,
    /// By how much a window grows: `W_AI`, 80 bytes.
    #[serde(default = "additive_increase")]
    pub additive_increase: Bytes,
}

fn utilisation() -> Share {
    Share::of(19, 20)
}

fn stages() -> PositiveCount {
    super::count(5)
}

fn additive_increase() -> Bytes {
    Bytes(80)
}

impl HpccSettings {
    pub(super) fn check(&self) -> Result<(), Misfit> {
        if self.base_round_trip == Span::ZERO {
            let key = "congestion_control.hpcc.base_round_trip";
            return Err(Misfit::new(key, self.base_round_trip, "a time above 0"));
        }
        if self.additive_increase == Bytes(0) {
            let key = "congestion_control.hpcc.additive_increase";
            return Err(Misfit::new(key, self.additive_increase, "a size above 0"));
        }
        Ok(())
    }
}

/// The state of a link as it wrote it into a packet that left by it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LinkState {
    /// The identity of the link.
    pub link: u32,
    /// Its rate: B.
    pub rate: Rate,
    /// When: ts.
    pub time: Time,
    /// How many bytes it had sent: `txBytes`.
    pub sent: u64,
    /// How many bytes were queued for it: qlen.
    pub queue: u32,
}

impl LinkState {
    /// No link.
    pub const NONE: LinkState = LinkState {
        link: u32::MAX,
        rate: Rate::from_ratio(1, 1),
        time: Time::ZERO,
        sent: 0,
        queue: 0,
    };
}

/// The number of links of a route that count; later ones are ignored.
const MOST_LINKS: usize = 8;

/// The sender of one flow. Windows are in bytes.
#[derive(Clone, Debug, PartialEq)]
pub struct Hpcc {
    base: Span,
    /// `W_init`: what the link of the host carries in a round trip.
    most: f64,
    window: f64,
    /// `W_c`, from which windows are computed.
    reference: f64,
    /// U.
    utilisation: f64,
    aim: f64,
    stage: u32,
    stages: u32,
    additive: f64,
    line: f64,
    /// The reference is renewed when everything before this byte is acknowledged.
    renewed_to: u64,
    links: [LinkState; MOST_LINKS],
}

impl Hpcc {
    /// A flow begins at the rate of the link.
    pub fn new(settings: &HpccSettings, line: Line) -> Hpcc {
        let most = line.bits_per_second() / 8.0 * settings.base_round_trip.as_secs();
        Hpcc {
            base: settings.base_round_trip,
            most,
            window: most,
            reference: most,
            utilisation: 1.0,
            aim: settings.utilisation.get(),
            stage: 0,
            stages: settings.stages.get(),
            additive: settings.additive_increase.0 as f64,
            line: line.bits_per_second(),
            renewed_to: 0,
            links: [LinkState::NONE; MOST_LINKS],
        }
    }

    /// The rate in bits per second: a window in a round trip.
    #[inline]
    pub fn rate(&self) -> f64 {
        self.line * (self.window / self.most)
    }

    /// How many bytes may be in flight.
    #[inline]
    pub fn window(&self) -> f64 {
        self.window
    }

    /// An acknowledgment has arrived, with the link states recorded by the acknowledged packet.
    pub fn acknowledged(&mut self, heard: &Acknowledged, links: &[LinkState]) {
        let is_known = self.measure(links);
        for (own, link) in self.links.iter_mut().zip(links) {
            *own = *link;
        }
        if !is_known {
            return;
        }
        let renews = heard.up_to > self.renewed_to;
        self.window = self.compute(renews);
        if renews {
            self.renewed_to = heard.next;
        }
    }

    /// `MeasureInflight`. Returns whether any link was seen before, which is not so on a new route.
    fn measure(&mut self, links: &[LinkState]) -> bool {
        let mut most: Option<(f64, Span)> = None;
        for (before, link) in self.links.iter().zip(links) {
            let tau = link.time.since(before.time);
            if before.link != link.link || tau == Span::ZERO {
                continue;
            }
            let bytes_per_ps = link.rate.bits() as f64 / 8.0 / link.rate.per() as f64;
            let sent = link.sent.saturating_sub(before.sent) as f64 / tau.0 as f64;
            let queue = f64::from(link.queue.min(before.queue));
            let own = queue / (bytes_per_ps * self.base.0 as f64) + sent / bytes_per_ps;
            if most.is_none_or(|most| own > most.0) {
                most = Some((own, tau));
            }
        }
        let Some((most, tau)) = most else { return false };
        let share = tau.min(self.base).0 as f64 / self.base.0 as f64;
        self.utilisation = (1.0 - share) * self.utilisation + share * most;
        true
    }

    /// `ComputeWind`. The link of the host carries no more than a window of `W_init`.
    fn compute(&mut self, renews: bool) -> f64 {
        let scales = self.utilisation >= self.aim || self.stage >= self.stages;
        let window = match scales {
            true => self.reference / (self.utilisation / self.aim) + self.additive,
            false => self.reference + self.additive,
        };
        let window = window.min(self.most);
        if renews {
            self.stage = if scales { 0 } else { self.stage + 1 };
            self.reference = window;
        }
        window
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 100 Gbit/s are 12.5 bytes a nanosecond; in a round trip of 8 us 100 kB.
    fn flow() -> Hpcc {
        let rate = Rate::from_bits_per_second(100_000_000_000);
        let settings = HpccSettings {
            base_round_trip: Span::from_ns(8_000),
            utilisation: utilisation(),
            stages: stages(),
            additive_increase: additive_increase(),
        };
        Hpcc::new(&settings, Line { rate, packet: Bytes(1_000), payload: Bytes(950) })
    }

    fn link(link: u32, ns: u64, sent: u64, queue: u32) -> LinkState {
        let rate = Rate::from_bits_per_second(100_000_000_000);
        LinkState { link, rate, time: Time::ZERO + Span::from_ns(ns), sent, queue }
    }

    fn heard(up_to: u64, next: u64) -> Acknowledged {
        Acknowledged { bytes: 1_000, is_marked: false, delay: Span(0), hops: 2, up_to, next }
    }

    fn about(value: f64, expected: f64) {
        assert!((value / expected - 1.0).abs() < 1e-12, "{value} is not {expected}");
    }

    #[test]
    fn a_window_follows_the_link_that_is_used_most() {
        let mut own = flow();
        about(own.window(), 100_000.0);
        own.acknowledged(
            &heard(1_000, 100_000),
            &[link(7, 1_000, 0, 0), link(9, 1_500, 0, 50_000)],
        );
        about(own.window(), 100_000.0);
        // 800 ns later: the first link has sent 5000 of 10000 bytes and has no queue, 0.5; the second all
        // of them, with 20000 bytes in its queue at the least: 0.2 + 1. U = 0.9 x 1 + 0.1 x 1.2.
        own.acknowledged(
            &heard(2_000, 101_000),
            &[link(7, 1_800, 5_000, 0), link(9, 2_300, 10_000, 20_000)],
        );
        let first = 100_000.0 / (1.02 / 0.95) + 80.0;
        about(own.utilisation, 1.02);
        about(own.window(), first);
        about(own.rate(), 100e9 * first / 100_000.0);
        assert_eq!((own.reference, own.renewed_to), (own.window, 101_000));
        // Within the same window of data it is computed from the same reference.
        own.acknowledged(
            &heard(3_000, 102_000),
            &[link(7, 2_600, 10_000, 0), link(9, 3_100, 20_000, 0)],
        );
        about(own.utilisation, 0.9 * 1.02 + 0.1);
        about(own.window(), first / (1.018 / 0.95) + 80.0);
        about(own.reference, first);
    }

    #[test]
    fn below_its_aim_a_window_grows_by_addition_for_some_round_trips_and_then_by_its_share() {
        let mut own = flow();
        own.window = 10_000.0;
        own.reference = 10_000.0;
        own.utilisation = 0.5;
        // Half of the link is used all the time, so that U stays; each acknowledgment ends a window.
        own.acknowledged(&heard(1, 1), &[link(7, 0, 0, 0)]);
        for round in 1..=5 {
            own.acknowledged(
                &heard(round + 1, round + 1),
                &[link(7, 8_000 * round, 50_000 * round, 0)],
            );
            about(own.window(), 10_000.0 + 80.0 * round as f64);
        }
        own.acknowledged(&heard(7, 7), &[link(7, 48_000, 300_000, 0)]);
        about(own.window(), 10_400.0 / (0.5 / 0.95) + 80.0);
        assert_eq!(own.stage, 0);
    }

    #[test]
    fn another_way_is_measured_from_its_first_packet_on() {
        let mut own = flow();
        own.acknowledged(&heard(1, 1), &[link(7, 1_000, 0, 0)]);
        let before = own.clone();
        own.acknowledged(&heard(2, 2), &[link(8, 2_000, 900_000, 90_000)]);
        assert_eq!((own.window, own.utilisation), (before.window, before.utilisation));
    }
}
