//! A window as that of Data Center TCP (Alizadeh et al., "Data Center TCP (DCTCP)", SIGCOMM 2010,
//! section 3.1), which grows as that of TCP Reno does (RFC 5681) and starts as RFC 8257 says.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use weft_units::PositiveCount;

use super::{Acknowledged, Line, Loss, Share};

/// Settings of DCTCP: a window that marks reduce.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct DctcpSettings {
    /// The gain of alpha, the estimate of the share of bytes that are marked: g, 1/16 if not given
    /// (section 3.4; also in Linux, `tcp_dctcp.c`, where alpha begins as 1, too).
    pub gain: Share,
    /// The initial window of a flow in packets: 10 by default (RFC 6928).
    pub initial_window: PositiveCount,
}

impl Default for DctcpSettings {
    fn default() -> DctcpSettings {
        DctcpSettings { gain: Share::one_in(16), initial_window: super::count(10) }
    }
}

/// The sender of one flow. Windows are in bytes on the wire.
#[derive(Clone, Debug, PartialEq)]
pub struct Dctcp {
    line: f64,
    packet: f64,
    window: f64,
    /// Below it the window doubles in a round trip, from it on it grows by a packet.
    threshold: f64,
    alpha: f64,
    gain: f64,
    /// The bytes acknowledged in the present window of data, and how many of them were marked.
    acknowledged: u64,
    marked: u64,
    /// When everything before this byte is acknowledged, the present window of data ends.
    observed_to: u64,
    /// The window has been cut for what was sent before this byte.
    cut_to: u64,
}

impl Dctcp {
    /// A flow begins with alpha 1 (RFC 8257, section 3.3, so that the first mark halves the window).
    pub fn new(settings: &DctcpSettings, line: Line) -> Dctcp {
        let packet = line.packet.0 as f64;
        Dctcp {
            line: line.bits_per_second(),
            packet,
            window: f64::from(settings.initial_window.get()) * packet,
            threshold: f64::INFINITY,
            alpha: 1.0,
            gain: settings.gain.get(),
            acknowledged: 0,
            marked: 0,
            observed_to: 0,
            cut_to: 0,
        }
    }

    /// Packets are not paced.
    pub fn rate(&self) -> f64 {
        self.line
    }

    /// How many bytes may be in flight.
    #[inline]
    pub fn window(&self) -> f64 {
        self.window
    }

    /// An acknowledgment has arrived.
    pub fn acknowledged(&mut self, heard: &Acknowledged) {
        self.acknowledged += heard.bytes;
        if heard.is_marked {
            self.marked += heard.bytes;
        }
        if heard.up_to > self.observed_to {
            self.observe(heard.next);
        }
        if heard.is_marked {
            if heard.up_to > self.cut_to {
                self.cut_to = heard.next;
                // Equation 2, with the latest estimate of alpha.
                self.shrink(self.window * (1.0 - self.alpha / 2.0));
            }
        } else if heard.up_to > self.cut_to {
            self.grow(heard.bytes as f64);
        }
    }

    /// A window of data is acknowledged: equation 1. The first acknowledgment of a flow ends none.
    fn observe(&mut self, next: u64) {
        if self.observed_to > 0 && self.acknowledged > 0 {
            let share = self.marked as f64 / self.acknowledged as f64;
            self.alpha = (1.0 - self.gain) * self.alpha + self.gain * share;
            (self.acknowledged, self.marked) = (0, 0);
        }
        self.observed_to = next;
    }

    fn grow(&mut self, bytes: f64) {
        self.window += match self.window < self.threshold {
            true => bytes,
            false => self.packet * bytes / self.window,
        };
    }

    fn shrink(&mut self, window: f64) {
        self.window = window.max(self.packet).min(self.window);
        self.threshold = self.window;
    }

    /// A packet is lost: a gap halves the window once in a window of data, a timeout leaves one packet
    /// (RFC 5681, sections 3.1 and 3.2).
    pub fn lost(&mut self, loss: Loss, next: u64) {
        match loss {
            Loss::Gap | Loss::Cut if next <= self.cut_to => {}
            Loss::Gap | Loss::Cut => {
                self.cut_to = next;
                self.shrink(self.window / 2.0);
            }
            Loss::Timeout => {
                self.cut_to = next;
                let threshold = (self.window / 2.0).max(2.0 * self.packet);
                self.shrink(self.packet);
                self.threshold = threshold;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use weft_units::{Bytes, Rate, Span};

    fn flow(initial: u32) -> Dctcp {
        let rate = Rate::from_bits_per_second(10_000_000_000);
        let initial_window = PositiveCount::new(initial).unwrap();
        let settings = DctcpSettings { initial_window, ..DctcpSettings::default() };
        Dctcp::new(&settings, Line { rate, packet: Bytes(1_000), payload: Bytes(950) })
    }

    fn heard(up_to: u64, next: u64, is_marked: bool) -> Acknowledged {
        Acknowledged { bytes: 1_000, is_marked, delay: Span::ZERO, hops: 1, up_to, next }
    }

    #[test]
    fn a_window_doubles_until_the_first_mark_and_is_cut_once_a_window_of_data() {
        let mut own = flow(4);
        // Four packets are acknowledged while four more are sent, and then eight.
        for packet in 1..=4 {
            own.acknowledged(&heard(packet * 1_000, (4 + 2 * packet) * 1_000, false));
        }
        assert_eq!(own.window, 8_000.0);
        // The fifth is marked: with alpha 1 the window is halved.
        own.acknowledged(&heard(5_000, 12_000, true));
        assert_eq!((own.window, own.threshold, own.cut_to), (4_000.0, 4_000.0, 12_000));
        // Others of the same window change nothing, marked or not.
        for (up_to, is_marked) in [(6_000, true), (7_000, false), (12_000, true)] {
            own.acknowledged(&heard(up_to, 12_000, is_marked));
            assert_eq!(own.window, 4_000.0);
        }
        // Now it grows by a packet in a round trip: a quarter of a packet for each of four.
        own.acknowledged(&heard(13_000, 16_000, false));
        assert_eq!(own.window, 4_250.0);
    }

    #[test]
    fn alpha_follows_the_share_of_marked_bytes() {
        let mut own = flow(4);
        own.acknowledged(&heard(1_000, 4_000, false));
        // The first window of data ends when what was sent before that is acknowledged: the fifth
        // packet. Of five packets two were marked.
        for (packet, is_marked) in [(2, false), (3, true), (4, true), (5, false)] {
            own.acknowledged(&heard(packet * 1_000, 9_000, is_marked));
        }
        let expected = 15.0 / 16.0 + 1.0 / 16.0 * 2.0 / 5.0;
        assert_eq!(own.alpha, expected);
        // The next one is all marked, and is cut by what alpha was estimated at its end.
        let before = own.window;
        for packet in 6..=10 {
            own.acknowledged(&heard(packet * 1_000, 14_000, true));
        }
        let alpha = 15.0 / 16.0 * expected + 1.0 / 16.0;
        assert_eq!(own.alpha, alpha);
        assert_eq!(own.window, (before * (1.0 - alpha / 2.0)).max(1_000.0));
    }

    #[test]
    fn a_gap_halves_and_a_timeout_starts_over() {
        let mut own = flow(16);
        own.lost(Loss::Gap, 16_000);
        own.lost(Loss::Gap, 16_000);
        assert_eq!((own.window, own.threshold), (8_000.0, 8_000.0));
        own.lost(Loss::Timeout, 16_000);
        assert_eq!((own.window, own.threshold), (1_000.0, 4_000.0));
        // Slow start up to the threshold.
        for packet in 17..=19 {
            own.acknowledged(&heard(packet * 1_000, 20_000, false));
        }
        assert_eq!(own.window, 4_000.0);
        own.acknowledged(&heard(20_000, 24_000, false));
        assert_eq!(own.window, 4_250.0);
    }
}
