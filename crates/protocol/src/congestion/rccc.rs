//! RCCC, the congestion control at the target of Ultra Ethernet, as in the authors' simulator (uet-htsim,
//! `uec.cpp`): a flow sends on credits that its target grants, and all flows to a host share the rate of its
//! link. Before the first response a flow is sent without, up to a window.
//!
//! The header of each packet says up to where its initiator asks for credits, and a grant up to where they are
//! given, both counted from the beginning of the flow, so that the next one makes up for one that was lost.

use std::collections::VecDeque;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use weft_units::{Bytes, Span};

use super::{Line, Share};
use crate::misfit::Misfit;

/// Settings of RCCC. Names in backquotes and values are those of uet-htsim; the text of the specification was
/// not at hand.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RcccSettings {
    /// The round trip of the longest route without load: `_base_rtt`. One and a half times what the
    /// link of a host carries in this time is `_configured_maxwnd`: how much a flow sends without
    /// credits at its beginning, and the most credits that an initiator requests in advance and
    /// keeps.
    pub base_round_trip: Span,
    /// The fraction of its link's rate that a target grants: `pull_rate_modifier`, 0.99.
    #[serde(default = "pace")]
    pub pace: Share,
    /// The largest number of bytes of a flow that one grant allows, counted as on the wire and
    /// rounded down to 256: `_credit_per_pull`. The payload of four packets by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub per_grant: Option<Bytes>,
}

fn pace() -> Share {
    Share::of(99, 100)
}

impl RcccSettings {
    /// The constants of the simulator, for routes with this round trip without load.
    pub fn new(base_round_trip: Span) -> RcccSettings {
        RcccSettings { base_round_trip, pace: pace(), per_grant: None }
    }

    pub(super) fn check(&self) -> Result<(), Misfit> {
        if self.base_round_trip == Span::ZERO {
            let key = "congestion_control.rccc.base_round_trip";
            return Err(Misfit::new(key, self.base_round_trip, "a time above 0"));
        }
        match self.per_grant {
            Some(own) if !(QUANTUM..=MOST_GRANT).contains(&own.0) => {
                let key = "congestion_control.rccc.per_grant";
                Err(Misfit::new(key, own, "256 B to 1 GB: credits are counted in 256 B"))
            }
            _ => Ok(()),
        }
    }
}

/// The unit of credits in bytes: `UEC_PULL_QUANTUM`.
const QUANTUM: u64 = 256;
/// The most that one grant may allow, in bytes.
const MOST_GRANT: u64 = 1_000_000_000;
/// The window by the bandwidth-delay product of the link.
const WINDOW: f64 = 1.5;
/// The payload of how many packets a grant allows by default: `_mtus_per_pull`.
const PACKETS: u64 = 4;
/// For how many quanta a pacer rests after a grant that allowed nothing new.
const EMPTY: u32 = 4;

/// The distance from one credit number to another. They are counted modulo 2^32, as in headers.
fn behind(from: u32, to: u32) -> u32 {
    let distance = to.wrapping_sub(from);
    if distance < 1 << 31 { distance } else { 0 }
}

/// The initiator of one flow. Sizes are in bytes, as they are on the wire.
#[derive(Clone, Debug, PartialEq)]
pub struct Rccc {
    line: f64,
    packet: i64,
    /// The window.
    most: i64,
    /// The credit; the last packet may exceed it.
    credit: i64,
    /// The number up to which credits were received.
    granted: u32,
    /// Whether nothing has been received from the target yet.
    is_first_window: bool,
}

impl Rccc {
    /// A flow begins.
    pub fn new(settings: &RcccSettings, line: Line) -> Rccc {
        let bytes_per_ps = line.bits_per_second() / 8e12;
        let packet = line.packet.0 as i64;
        let most = (WINDOW * settings.base_round_trip.0 as f64 * bytes_per_ps) as i64;
        let most = most.max(packet);
        let line = line.bits_per_second();
        Rccc { line, packet, most, credit: most, granted: 0, is_first_window: true }
    }

    /// Packets with credit are sent back to back.
    #[inline]
    pub fn rate(&self) -> f64 {
        self.line
    }

    /// Whether another packet may start. Any credit is enough for a whole one.
    #[inline]
    pub fn has_credit(&self) -> bool {
        self.credit > 0
    }

    /// A packet of this many bytes starts.
    pub fn sent(&mut self, bytes: u64) {
        self.credit -= bytes as i64;
    }

    /// The target has answered: from now on every packet needs credits, also the rest of the first window.
    pub fn heard(&mut self) {
        if std::mem::replace(&mut self.is_first_window, false) {
            self.credit = self.credit.min(0);
        }
    }

    /// A grant has arrived.
    pub fn granted(&mut self, up_to: u32) {
        self.heard();
        let more = behind(self.granted, up_to);
        if more > 0 {
            self.credit = (self.credit + i64::from(more) * QUANTUM as i64).min(self.most);
            self.granted = up_to;
        }
    }

    /// The credit number to request while this many bytes wait to be sent, again or for the first
    /// time.
    pub fn pull_target(&self, waiting: u64) -> u32 {
        let waiting = waiting.min(self.most as u64) as i64;
        let mut wanted = waiting - self.credit;
        // Flows that continue after the first window have credits when it ends.
        if self.is_first_window && waiting > 0 {
            wanted = wanted.max(self.packet);
        }
        let quanta = (wanted + QUANTUM as i64 - 1).div_euclid(QUANTUM as i64);
        self.granted.wrapping_add(quanta as u32)
    }
}

/// The target's state of the credits of one flow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Demand {
    /// The numbers up to which the initiator requested credits, and up to which they were granted.
    asked: u32,
    granted: u32,
    grants: u32,
    /// Whether it is in the queue of the pacer.
    is_waiting: bool,
}

impl Demand {
    /// A packet has arrived. Returns whether the flow must join the queue of the pacer.
    pub fn ask(&mut self, pull_target: u32) -> bool {
        self.asked = self.asked.wrapping_add(behind(self.asked, pull_target));
        self.left() > 0 && self.join()
    }

    /// The header of a trimmed packet has arrived. The packet has to be retransmitted, which its initiator
    /// did not know when it requested credits. Returns whether the flow must join the queue of the pacer.
    pub fn ask_again(&mut self, pull_target: u32, packet: Bytes) -> bool {
        let joins = self.ask(pull_target);
        if self.left() > 0 {
            return joins;
        }
        self.asked = self.granted.wrapping_add(packet.0.div_ceil(QUANTUM) as u32);
        self.join()
    }

    /// The initiator has received no credits for some time. It is sent what it was granted again. Returns
    /// whether the flow must join the queue of the pacer.
    pub fn ask_in_vain(&mut self, pull_target: u32) -> bool {
        self.ask(pull_target) || self.join()
    }

    /// How many grants were given.
    pub fn grants(&self) -> u32 {
        self.grants
    }

    fn join(&mut self) -> bool {
        !std::mem::replace(&mut self.is_waiting, true)
    }

    /// Credits that are requested and not granted.
    fn left(&self) -> u32 {
        behind(self.granted, self.asked)
    }
}

/// The pacer grants credits to the flows to one host, in round-robin order among those that request them,
/// and no faster than the host's link carries what they allow.
#[derive(Clone, Debug, PartialEq)]
pub struct Pacer {
    /// The flows that ask.
    waiting: VecDeque<u32>,
    /// How long the link takes for a quantum at the pace, in whole picoseconds.
    quantum: Span,
    per_grant: u32,
    is_resting: bool,
}

/// A grant to a flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Grant {
    /// Up to where credits are given.
    pub up_to: u32,
    /// For how long nothing else is granted.
    pub rest: Span,
}

impl Pacer {
    /// The pacer of a host.
    pub fn new(settings: &RcccSettings, line: Line) -> Pacer {
        let bytes_per_ps = line.bits_per_second() / 8e12;
        let per_grant = settings.per_grant.map_or(PACKETS * line.payload.0, |own| own.0);
        Pacer {
            waiting: VecDeque::new(),
            quantum: Span((QUANTUM as f64 / bytes_per_ps / settings.pace.get()) as u64),
            per_grant: (per_grant.min(MOST_GRANT) / QUANTUM).max(1) as u32,
            is_resting: false,
        }
    }

    /// A flow asks that did not.
    pub fn join(&mut self, flow: u32) {
        self.waiting.push_back(flow);
    }

    /// The rest after a grant is over.
    pub fn wake(&mut self) {
        self.is_resting = false;
    }

    /// The flow whose turn it is, unless the pacer pauses: the caller must grant it credits, or drop
    /// it from the queue.
    pub fn turn(&mut self) -> Option<u32> {
        if self.is_resting { None } else { self.waiting.pop_front() }
    }

    /// Grants credits to the next flow in turn, which goes to the end of the queue if it requests more.
    pub fn grant(&mut self, flow: u32, demand: &mut Demand) -> Grant {
        let more = demand.left().min(self.per_grant);
        demand.granted = demand.granted.wrapping_add(more);
        demand.grants = demand.grants.wrapping_add(1);
        demand.is_waiting = demand.left() > 0;
        if demand.is_waiting {
            self.waiting.push_back(flow);
        }
        self.is_resting = true;
        let quanta = if more > 0 { more } else { EMPTY };
        Grant { up_to: demand.granted, rest: self.quantum * u64::from(quanta) }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use weft_units::Rate;

    use super::*;

    /// 100 Gbit/s and 12 us, which are 150 kB: a window of 225 000 B. 256 B take 20.48 ns.
    const LINE: Line = Line {
        rate: Rate::from_bits_per_second(100_000_000_000),
        packet: Bytes(4_096),
        payload: Bytes(4_032),
    };

    fn settings() -> RcccSettings {
        RcccSettings::new(Span::from_ns(12_000))
    }

    #[test]
    fn the_first_window_needs_no_credits_and_ends_with_the_first_answer() {
        let mut own = Rccc::new(&settings(), LINE);
        assert_eq!(own.credit, 225_000);
        for _ in 0..54 {
            assert!(own.has_credit());
            own.sent(4_096);
        }
        assert_eq!(own.credit, 3_816);
        own.heard();
        assert_eq!((own.credit, own.has_credit()), (0, false));
        // Once: what was granted stays.
        own.granted(16);
        own.heard();
        assert_eq!(own.credit, 4_096);
        // The last packet may exceed the credit; later credits make up for it.
        let mut own = Rccc::new(&settings(), LINE);
        for _ in 0..55 {
            own.sent(4_096);
        }
        own.heard();
        assert_eq!((own.credit, own.has_credit()), (-280, false));
        own.granted(1);
        assert_eq!((own.credit, own.has_credit()), (-24, false));
        own.granted(2);
        assert_eq!((own.credit, own.has_credit()), (232, true));
    }

    #[test]
    fn a_flow_asks_for_what_it_waits_to_send_up_to_its_window() {
        let mut own = Rccc::new(&settings(), LINE);
        own.sent(4_096);
        // The window less what is left of it: what was sent, 16 quanta.
        assert_eq!(own.pull_target(2_000_000), 16);
        own.sent(4_096);
        assert_eq!(own.pull_target(2_000_000), 32);
        // All fits the first window: a packet in any case; nothing if nothing waits.
        assert_eq!(own.pull_target(100), 16);
        assert_eq!(own.pull_target(0) as i32, (-216_808_i32 + 255).div_euclid(256));
        own.heard();
        // 225 000 B are 878.9 quanta.
        assert_eq!((own.pull_target(2_000_000), own.pull_target(257)), (879, 2));
        own.granted(64);
        // 64 were given and are not spent.
        assert_eq!(own.pull_target(2_000_000), 879);
        own.sent(16_384);
        assert_eq!(own.pull_target(2_000_000), 64 + 879);
    }

    #[test]
    fn grants_make_up_for_lost_ones_and_more_than_the_window_is_not_kept() {
        let mut own = Rccc::new(&settings(), LINE);
        own.heard();
        own.granted(64);
        own.granted(192);
        own.granted(128);
        assert_eq!(own.credit, 192 * 256);
        own.granted(10_000);
        assert_eq!(own.credit, 225_000);
        // Numbers wrap at 2^32.
        own.granted = u32::MAX - 1;
        own.credit = 0;
        own.granted(2);
        assert_eq!((own.credit, own.granted), (4 * 256, 2));
    }

    /// 4 x 4032 B are 63 quanta; each takes 20.48 ns / 0.99 = 20.686 ns, in whole picoseconds.
    #[test]
    fn flows_that_ask_are_granted_four_packets_in_turn_at_the_pace() {
        let mut pacer = Pacer::new(&settings(), LINE);
        let mut demands = [Demand::default(); 2];
        assert!(demands[0].ask(100));
        assert!(!demands[0].ask(90), "it stands there");
        pacer.join(0);
        assert!(demands[1].ask(40));
        pacer.join(1);
        let mut given = Vec::new();
        while let Some(flow) = pacer.turn() {
            let grant = pacer.grant(flow, &mut demands[flow as usize]);
            given.push((flow, grant.up_to, grant.rest.0));
            assert_eq!(pacer.turn(), None, "it rests");
            pacer.wake();
        }
        assert_eq!(given, [(0, 63, 1_303_218), (1, 40, 827_440), (0, 100, 765_382)]);
        assert!(demands[0].ask(101) && !demands[1].ask(40));
    }

    #[test]
    fn what_was_cut_is_asked_for_and_who_asks_in_vain_is_told_again() {
        let mut pacer = Pacer::new(&settings(), LINE);
        let mut own = Demand::default();
        // All was in the first window, and was trimmed.
        assert!(own.ask_again(u32::MAX - 100, Bytes(4_096)));
        assert!(!own.ask_again(u32::MAX - 90, Bytes(4_096)));
        assert_eq!(pacer.grant(0, &mut own).up_to, 16);
        assert!(own.ask_again(20, Bytes(4_096)));
        assert_eq!(pacer.grant(0, &mut own).up_to, 20);
        // That grant is lost: 4 quanta of rest for repeating it.
        assert!(own.ask_in_vain(18));
        assert_eq!(pacer.grant(0, &mut own), Grant { up_to: 20, rest: Span(82_744) });
        assert!(own.ask_in_vain(30));
        assert_eq!((pacer.grant(0, &mut own).up_to, own.grants()), (30, 4));
    }

    proptest! {
        /// Whatever grants are lost, an initiator has no more credit than its window, and what it sent is
        /// never more than its first window, what it was granted, and a packet.
        #[test]
        fn nothing_is_sent_without_credits(
            story in prop::collection::vec((any::<bool>(), any::<bool>()), 1..400)
        ) {
            let mut own = Rccc::new(&settings(), LINE);
            let mut pacer = Pacer::new(&settings(), LINE);
            let mut demand = Demand::default();
            let mut sent = 0;
            for (sends, is_lost) in story {
                if sends && own.has_credit() {
                    own.sent(4_096);
                    sent += 4_096;
                    if demand.ask(own.pull_target(10_000_000)) {
                        pacer.join(0);
                    }
                }
                pacer.wake();
                if let Some(flow) = pacer.turn() {
                    let grant = pacer.grant(flow, &mut demand);
                    if !is_lost {
                        own.granted(grant.up_to);
                    }
                }
                prop_assert!(own.credit <= 225_000 && own.credit > -4_096);
                let granted = u64::from(demand.granted) * QUANTUM;
                prop_assert!(sent <= 225_000 + granted + 4_096);
            }
        }

        /// Flows that always ask for more get the same share, within one grant, of 0.99 of the link.
        #[test]
        fn flows_share_a_target_equally(flows in 1_u32..40, grants in 1_usize..400) {
            let mut pacer = Pacer::new(&settings(), LINE);
            let mut demands = vec![Demand::default(); flows as usize];
            for (flow, own) in (0..).zip(&mut demands) {
                prop_assert!(own.ask(1 << 20));
                pacer.join(flow);
            }
            let mut time = 0;
            for _ in 0..grants {
                let flow = pacer.turn().expect("all ask");
                time += pacer.grant(flow, &mut demands[flow as usize]).rest.0;
                pacer.wake();
            }
            let most = demands.iter().map(|own| own.granted).max();
            let least = demands.iter().map(|own| own.granted).min();
            prop_assert!(most.zip(least).is_some_and(|(most, least)| most - least <= 63));
            let bytes: u64 = demands.iter().map(|own| u64::from(own.granted) * QUANTUM).sum();
            let share = bytes as f64 * 8e12 / time as f64 / 100e9;
            prop_assert!((share - 0.99).abs() < 1e-4, "{}", share);
        }
    }
}
