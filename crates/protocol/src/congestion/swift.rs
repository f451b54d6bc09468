//! Swift (Kumar et al., "Swift: Delay is Simple and Effective for Congestion Control in the
//! Datacenter", SIGCOMM 2020, section 3 and algorithm 1). The hosts of a channel add no delay
//! here, so that the window of the fabric is the only one and the endpoint's is left out.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use weft_units::{PositiveCount, Span, Time};

use super::{Acknowledged, Line, Loss, Share};
use crate::misfit::Misfit;

/// Settings of Swift: a window that follows delay. No constant is checked against the text of the
/// paper. Defaults are as in csg-htsim (`swift.cpp`), whose authors call them guesses, except that
/// there the base target is 20 us, a hop adds 1/6.55 of it, and flow scaling at most five times as
/// much.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SwiftSettings {
    /// The base target: the desired delay from a packet to its acknowledgment, before the additions
    /// below. It must exceed the round trip without load, since a smaller target would starve all
    /// flows. 25 us by default.
    #[serde(default = "base_target")]
    pub base_target: Span,
    /// What each switch on the route adds to the target (section 3.2).
    #[serde(default)]
    pub per_hop: Span,
    /// By how much the target grows for flows with a small window; nothing if not given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub flow_scaling: Option<FlowScaling>,
    /// By how many packets the window grows in a round trip below the target: ai, 1.
    #[serde(default = "one")]
    pub additive_increase: PositiveCount,
    /// How strongly the window shrinks above the target: beta, 0.8.
    #[serde(default = "beta")]
    pub beta: Share,
    /// The largest fraction by which the window shrinks in a round trip: 0.5.
    #[serde(default = "half")]
    pub most_decrease: Share,
    /// The initial window of a flow in packets: 10 by default, as with DCTCP.
    #[serde(default = "ten")]
    pub initial_window: PositiveCount,
    /// The smallest window, in packets: below 1 a packet is sent once in several round trips. 0.001 if
    /// not given.
    #[serde(default = "least")]
    pub least_window: Share,
    /// The largest window, in packets: 10000 if not given.
    #[serde(default = "most")]
    pub most_window: PositiveCount,
}

/// By how much the target grows with the number of flows, which a small window indicates (section
/// 3.2 and figure 5).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct FlowScaling {
    /// The most that is added: `fs_range`.
    pub range: Span,
    /// The window in packets at which all of it is added: `fs_min_cwnd`, 0.1.
    #[serde(default = "tenth")]
    pub from_window: Share,
    /// The window in packets from which on nothing is added: `fs_max_cwnd`, 100.
    #[serde(default = "hundred")]
    pub to_window: PositiveCount,
}

fn base_target() -> Span {
    Span::from_ns(25_000)
}

fn one() -> PositiveCount {
    PositiveCount::ONE
}

fn ten() -> PositiveCount {
    super::count(10)
}

fn hundred() -> PositiveCount {
    super::count(100)
}

fn most() -> PositiveCount {
    super::count(10_000)
}

fn beta() -> Share {
    Share::of(4, 5)
}

fn half() -> Share {
    Share::one_in(2)
}

fn tenth() -> Share {
    Share::one_in(10)
}

fn least() -> Share {
    Share::one_in(1_000)
}

impl Default for SwiftSettings {
    fn default() -> SwiftSettings {
        SwiftSettings {
            base_target: base_target(),
            per_hop: Span::ZERO,
            flow_scaling: None,
            additive_increase: one(),
            beta: beta(),
            most_decrease: half(),
            initial_window: ten(),
            least_window: least(),
            most_window: most(),
        }
    }
}

impl SwiftSettings {
    pub(super) fn check(&self) -> Result<(), Misfit> {
        if self.base_target == Span::ZERO {
            let key = "congestion_control.swift.base_target";
            return Err(Misfit::new(key, self.base_target, "a time above 0"));
        }
        Ok(())
    }
}

/// After this many timeouts without an acknowledgment in between the window is the smallest
/// (`RETX_RESET_THRESHOLD`, as in csg-htsim).
const RESET: u32 = 5;

/// The sender of one flow. Windows are in packets, delays in picoseconds.
#[derive(Clone, Debug, PartialEq)]
pub struct Swift {
    line: f64,
    packet: f64,
    window: f64,
    /// The last delay that was measured.
    delay: f64,
    last_decrease: Option<Time>,
    timeouts: u32,
    base_target: f64,
    per_hop: f64,
    /// What flow scaling adds: range, and alpha and beta of the term alpha / sqrt(window) + beta.
    scaling: Option<(f64, f64, f64)>,
    additive: f64,
    beta: f64,
    most_decrease: f64,
    least: f64,
    most: f64,
}

impl Swift {
    /// A flow begins.
    pub fn new(settings: &SwiftSettings, line: Line) -> Swift {
        let scaling = settings.flow_scaling.as_ref().map(|own| {
            let (from, to) = (own.from_window.get(), f64::from(own.to_window.get()));
            let range = own.range.0 as f64;
            let alpha = range / (1.0 / from.sqrt() - 1.0 / to.sqrt());
            (range, alpha, -alpha / to.sqrt())
        });
        Swift {
            line: line.bits_per_second(),
            packet: line.packet.0 as f64,
            window: f64::from(settings.initial_window.get()),
            delay: settings.base_target.0 as f64,
            last_decrease: None,
            timeouts: 0,
            base_target: settings.base_target.0 as f64,
            per_hop: settings.per_hop.0 as f64,
            scaling,
            additive: f64::from(settings.additive_increase.get()),
            beta: settings.beta.get(),
            most_decrease: settings.most_decrease.get(),
            least: settings.least_window.get(),
            most: f64::from(settings.most_window.get()),
        }
    }

    /// With a window below one packet, the flow sends one packet in several round trips; a larger
    /// window is not paced.
    #[inline]
    pub fn rate(&self) -> f64 {
        if self.window >= 1.0 {
            return self.line;
        }
        let seconds = self.delay / self.window * 1e-12;
        (self.packet * 8.0 / seconds).min(self.line)
    }

    /// How many bytes may be in flight.
    #[inline]
    pub fn window(&self) -> f64 {
        self.window * self.packet
    }

    /// The delay that is aimed at (section 3.2).
    fn target(&self, hops: u16) -> f64 {
        let scaled = self.scaling.map_or(0.0, |(range, alpha, beta)| {
            (alpha / self.window.sqrt() + beta).min(range).max(0.0)
        });
        self.base_target + f64::from(hops) * self.per_hop + scaled
    }

    /// An acknowledgment has arrived.
    pub fn acknowledged(&mut self, now: Time, heard: &Acknowledged) {
        self.timeouts = 0;
        self.delay = (heard.delay.0 as f64).max(1.0);
        let (target, packets) = (self.target(heard.hops), heard.bytes as f64 / self.packet);
        if self.delay < target {
            self.window += match self.window >= 1.0 {
                true => self.additive / self.window * packets,
                false => self.additive * packets,
            };
            self.window = self.window.min(self.most);
        } else {
            let cut = self.beta * (self.delay - target) / self.delay;
            self.decrease(now, cut.min(self.most_decrease));
        }
    }

    /// A packet is lost.
    pub fn lost(&mut self, now: Time, loss: Loss) {
        match loss {
            Loss::Gap | Loss::Cut => {
                self.timeouts = 0;
                self.decrease(now, self.most_decrease);
            }
            Loss::Timeout => {
                self.timeouts += 1;
                match self.timeouts >= RESET {
                    true => self.window = self.window.min(self.least),
                    false => self.decrease(now, self.most_decrease),
                }
            }
        }
    }

    /// Shrinks the window by a share, once in a round trip.
    fn decrease(&mut self, now: Time, share: f64) {
        let may = self.last_decrease.is_none_or(|last| now.since(last).0 as f64 >= self.delay);
        if may {
            self.window = (self.window * (1.0 - share)).max(self.least);
            self.last_decrease = Some(now);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use weft_units::{Bytes, Rate};

    fn flow(settings: &SwiftSettings) -> Swift {
        let rate = Rate::from_bits_per_second(100_000_000_000);
        Swift::new(settings, Line { rate, packet: Bytes(1_000), payload: Bytes(950) })
    }

    fn heard(delay_us: u64) -> Acknowledged {
        let delay = Span::from_ns(delay_us * 1_000);
        Acknowledged { bytes: 1_000, is_marked: false, delay, hops: 2, up_to: 0, next: 0 }
    }

    fn us(us: u64) -> Time {
        Time::ZERO + Span::from_ns(us * 1_000)
    }

    fn about(value: f64, expected: f64) {
        assert!((value / expected - 1.0).abs() < 1e-12, "{value} is not {expected}");
    }

    #[test]
    fn a_window_grows_below_the_target_and_shrinks_above_it_once_a_round_trip() {
        let per_hop = Span::from_ns(1_000);
        let mut own = flow(&SwiftSettings { per_hop, ..SwiftSettings::default() });
        // The target is 25 us and 1 us for each of two switches.
        own.acknowledged(us(20), &heard(26));
        about(own.window, 10.1);
        own.acknowledged(us(20), &heard(26));
        about(own.window, 10.1 + 1.0 / 10.1);
        // Half again as much: 0.8 x (54 - 27) / 54 = 0.4.
        let before = own.window;
        own.acknowledged(us(54), &heard(54));
        about(own.window, before * 0.6);
        // Not again within 54 us, though far above.
        own.acknowledged(us(107), &heard(54));
        about(own.window, before * 0.6);
        // Then by half at the most: 0.8 x 270 / 297 would be more.
        own.acknowledged(us(400), &heard(297));
        about(own.window, before * 0.3);
    }

    #[test]
    fn a_window_below_one_packet_is_paced() {
        let mut own = flow(&SwiftSettings::default());
        own.window = 0.5;
        own.acknowledged(us(1), &heard(50));
        // 0.8 x 25 / 50 = 0.4: 0.3 packets, one in 50 / 0.3 us.
        about(own.window, 0.3);
        about(own.rate(), 8_000.0 / (50e-6 / 0.3));
        // Below the target it grows by ai for each packet.
        own.acknowledged(us(2), &heard(10));
        about(own.window, 1.3);
        about(own.rate(), 100e9);
    }

    #[test]
    fn small_windows_have_larger_targets() {
        let range = Span::from_ns(100_000);
        let (from_window, to_window) = (tenth(), hundred());
        let flow_scaling = Some(FlowScaling { range, from_window, to_window });
        let mut own = flow(&SwiftSettings { flow_scaling, ..SwiftSettings::default() });
        for (window, added) in [(0.1, 100.0), (0.01, 100.0), (100.0, 0.0), (400.0, 0.0)] {
            own.window = window;
            assert!((own.target(0) * 1e-6 - 25.0 - added).abs() < 1e-9, "{window}");
        }
        // alpha = 100 / (sqrt(10) - 0.1); at a window of 1 alpha x (1 - 0.1) are added.
        own.window = 1.0;
        about(own.target(0) * 1e-6, 25.0 + 100.0 / (10.0_f64.sqrt() - 0.1) * 0.9);
    }

    #[test]
    fn many_timeouts_leave_the_smallest_window() {
        let mut own = flow(&SwiftSettings::default());
        for round in 1..=4 {
            own.lost(us(1_000 * round), Loss::Timeout);
        }
        about(own.window, 10.0 / 16.0);
        own.lost(us(5_000), Loss::Timeout);
        about(own.window, 0.001);
    }
}
