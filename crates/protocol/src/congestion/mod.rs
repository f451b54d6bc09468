//! End-to-end congestion control: how fast a sender may send a flow, given what the network and the
//! target report about congestion.
//!
//! The caller reports what was sent, acknowledged, marked or lost, and when. The machine returns the
//! rate of the flow and how many of its bytes may be in flight. It has no timer: whenever it is called,
//! it first applies what a timer would have done up to that instant, so that a flow costs no event
//! for its timers.

mod dcqcn;
mod dctcp;
mod hpcc;
mod infiniband;
mod nscc;
mod rccc;
mod share;
mod swift;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use weft_units::{Bytes, PositiveCount, Rate, Span, Time};

use crate::misfit::Misfit;

pub use dcqcn::{Dcqcn, DcqcnSettings};
pub use dctcp::{Dctcp, DctcpSettings};
pub use hpcc::{Hpcc, HpccSettings, LinkState};
pub use infiniband::{IndexGrowth, Infiniband, InfinibandSettings};
pub use nscc::{Nscc, NsccSettings};
pub use rccc::{Demand, Grant, Pacer, Rccc, RcccSettings};
pub use share::Share;
pub use swift::{Swift, SwiftSettings};

/// The congestion control of flows.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum CongestionControlSettings {
    /// A rate that congestion notifications from the target lower, and that rises with time and
    /// bytes sent (Zhu et al., "Congestion Control for Large-Scale RDMA Deployments", SIGCOMM
    /// 2015). For switches that mark.
    Dcqcn(DcqcnSettings),
    /// A window that shrinks with the fraction of marked bytes (Alizadeh et al., "Data Center TCP
    /// (DCTCP)", SIGCOMM 2010). For switches that mark.
    Dctcp(DctcpSettings),
    /// A window that follows the utilisation of links (Li et al., "HPCC: High Precision Congestion
    /// Control", SIGCOMM 2019). Switches write their state into packets, whose headers must have
    /// room for it.
    Hpcc(HpccSettings),
    /// Delays between packets, looked up by an index that notifications from the target raise and a
    /// timer lowers (InfiniBand Architecture Specification, annex A10: FECN and BECN). For switches
    /// that mark.
    Infiniband(InfinibandSettings),
    /// A window that follows delay, marks and trimmed packets (Ultra Ethernet, UET specification
    /// 1.0, section 3.6.13). For switches that mark, ideally ones that trim packets (`trim`).
    Nscc(NsccSettings),
    /// Credits that a target grants to the flows that share its link (Ultra Ethernet, uet-htsim).
    /// Works with any switch, ideally with ones that trim packets (`trim`).
    Rccc(RcccSettings),
    /// A window that follows the delay from a packet to its acknowledgment (Kumar et al., "Swift:
    /// Delay is Simple and Effective for Congestion Control in the Datacenter", SIGCOMM 2020).
    Swift(SwiftSettings),
}

impl CongestionControlSettings {
    /// The name of the kind in files.
    pub const fn name(&self) -> &'static str {
        match self {
            CongestionControlSettings::Dcqcn(_) => "dcqcn",
            CongestionControlSettings::Dctcp(_) => "dctcp",
            CongestionControlSettings::Hpcc(_) => "hpcc",
            CongestionControlSettings::Infiniband(_) => "infiniband",
            CongestionControlSettings::Nscc(_) => "nscc",
            CongestionControlSettings::Rccc(_) => "rccc",
            CongestionControlSettings::Swift(_) => "swift",
        }
    }

    /// Whether it reacts to marks, which switches have to make.
    pub const fn needs_marks(&self) -> bool {
        match self {
            CongestionControlSettings::Dcqcn(_)
            | CongestionControlSettings::Dctcp(_)
            | CongestionControlSettings::Infiniband(_)
            | CongestionControlSettings::Nscc(_) => true,
            CongestionControlSettings::Hpcc(_)
            | CongestionControlSettings::Rccc(_)
            | CongestionControlSettings::Swift(_) => false,
        }
    }

    /// Whether packets of flows can be marked: RCCC ignores marks, but spraying uses them.
    pub const fn hears_marks(&self) -> bool {
        self.needs_marks() || matches!(self, CongestionControlSettings::Rccc(_))
    }

    /// The settings by which targets grant credits to flows, if they do.
    pub const fn credits(&self) -> Option<&RcccSettings> {
        match self {
            CongestionControlSettings::Rccc(own) => Some(own),
            _ => None,
        }
    }

    /// Whether it reads link states, which switches have to write into packets.
    pub const fn needs_telemetry(&self) -> bool {
        matches!(self, CongestionControlSettings::Hpcc(_))
    }

    /// The least interval between notifications from the target of a flow while marked packets
    /// arrive; zero to notify of each one, `None` if marks travel in acknowledgments.
    pub const fn notification_interval(&self) -> Option<Span> {
        match self {
            CongestionControlSettings::Dcqcn(own) => Some(own.notification_interval),
            CongestionControlSettings::Infiniband(_) => Some(Span::ZERO),
            CongestionControlSettings::Dctcp(_)
            | CongestionControlSettings::Hpcc(_)
            | CongestionControlSettings::Nscc(_)
            | CongestionControlSettings::Rccc(_)
            | CongestionControlSettings::Swift(_) => None,
        }
    }

    /// What is wrong with the settings, if anything is.
    pub fn check(&self) -> Result<(), Misfit> {
        match self {
            CongestionControlSettings::Dcqcn(own) => own.check(),
            CongestionControlSettings::Dctcp(_) => Ok(()),
            CongestionControlSettings::Hpcc(own) => own.check(),
            CongestionControlSettings::Infiniband(own) => own.check(),
            CongestionControlSettings::Nscc(own) => own.check(),
            CongestionControlSettings::Rccc(own) => own.check(),
            CongestionControlSettings::Swift(own) => own.check(),
        }
    }
}

/// The line over which a flow is sent, as its congestion control must know it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Line {
    /// The rate of the host's link.
    pub rate: Rate,
    /// The size on the wire of a full packet.
    pub packet: Bytes,
    /// The payload of a full packet.
    pub payload: Bytes,
}

impl Line {
    /// The rate in bits per second.
    pub fn bits_per_second(&self) -> f64 {
        self.rate.bits() as f64 / self.rate.per() as f64 * 1e12
    }
}

/// The content of an acknowledgment. Bytes are counted as they are on the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Acknowledged {
    /// How many bytes it acknowledges for the first time.
    pub bytes: u64,
    /// Whether the packet that it answers was marked on its way.
    pub is_marked: bool,
    /// From the start of that packet to the acknowledgment.
    pub delay: Span,
    /// How many switches that packet passed.
    pub hops: u16,
    /// The first byte of the flow that is not acknowledged.
    pub up_to: u64,
    /// The first byte of the flow that has never been sent.
    pub next: u64,
}

/// How the sender learned of the loss of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Loss {
    /// A later packet arrived.
    Gap,
    /// A switch trimmed the packet, and its target reported it.
    Cut,
    /// Nothing arrived within the time of the retransmission timer.
    Timeout,
}

/// The congestion control of one flow.
#[derive(Clone, Debug, PartialEq)]
pub enum CongestionControl {
    /// None: at the rate of the link.
    LineRate {
        /// In bits per second.
        rate: f64,
    },
    /// By congestion notifications.
    Dcqcn(Dcqcn),
    /// By the share of marked bytes.
    Dctcp(Dctcp),
    /// By the link states that switches write into packets.
    Hpcc(Box<Hpcc>),
    /// By an index into a table of delays.
    Infiniband(Infiniband),
    /// By delay, marks and trimmed packets.
    Nscc(Box<Nscc>),
    /// By credits of the target.
    Rccc(Rccc),
    /// By delay.
    Swift(Swift),
}

/// What a flow has sent when a loss becomes known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Flight {
    /// The first byte of the flow that was never sent.
    pub next: u64,
    /// Bytes in flight.
    pub under_way: u64,
}

impl CongestionControl {
    /// The state of a flow that begins at `now`.
    pub fn new(settings: Option<&CongestionControlSettings>, line: Line, now: Time) -> Self {
        match settings {
            None => CongestionControl::LineRate { rate: line.bits_per_second() },
            Some(CongestionControlSettings::Dcqcn(own)) => {
                CongestionControl::Dcqcn(Dcqcn::new(own, line, now))
            }
            Some(CongestionControlSettings::Dctcp(own)) => {
                CongestionControl::Dctcp(Dctcp::new(own, line))
            }
            Some(CongestionControlSettings::Hpcc(own)) => {
                CongestionControl::Hpcc(Box::new(Hpcc::new(own, line)))
            }
            Some(CongestionControlSettings::Infiniband(own)) => {
                CongestionControl::Infiniband(Infiniband::new(own, line, now))
            }
            Some(CongestionControlSettings::Nscc(own)) => {
                CongestionControl::Nscc(Box::new(Nscc::new(own, line)))
            }
            Some(CongestionControlSettings::Rccc(own)) => {
                CongestionControl::Rccc(Rccc::new(own, line))
            }
            Some(CongestionControlSettings::Swift(own)) => {
                CongestionControl::Swift(Swift::new(own, line))
            }
        }
    }

    /// The rate in bits per second at which the flow may be sent at `now`, its packets spread evenly.
    #[inline]
    pub fn rate(&mut self, now: Time) -> f64 {
        match self {
            CongestionControl::LineRate { rate } => *rate,
            CongestionControl::Dcqcn(own) => own.rate(now),
            CongestionControl::Dctcp(own) => own.rate(),
            CongestionControl::Hpcc(own) => own.rate(),
            CongestionControl::Infiniband(own) => own.rate(now),
            CongestionControl::Nscc(own) => own.rate(),
            CongestionControl::Rccc(own) => own.rate(),
            CongestionControl::Swift(own) => own.rate(),
        }
    }

    /// How many bytes of the flow may be in flight. One packet is always allowed.
    #[inline]
    pub fn window(&self) -> f64 {
        match self {
            CongestionControl::LineRate { .. }
            | CongestionControl::Dcqcn(_)
            | CongestionControl::Infiniband(_)
            | CongestionControl::Rccc(_) => f64::INFINITY,
            CongestionControl::Dctcp(own) => own.window(),
            CongestionControl::Hpcc(own) => own.window(),
            CongestionControl::Nscc(own) => own.window(),
            CongestionControl::Swift(own) => own.window(),
        }
    }

    /// Whether the flow has credit for another packet, if it needs any.
    #[inline]
    pub fn has_credit(&self) -> bool {
        match self {
            CongestionControl::Rccc(own) => own.has_credit(),
            _ => true,
        }
    }

    /// Up to where the header of a packet requests credits from the target while this many bytes
    /// wait to be sent; 0 without credits.
    pub fn pull_target(&self, waiting: u64) -> u32 {
        match self {
            CongestionControl::Rccc(own) => own.pull_target(waiting),
            _ => 0,
        }
    }

    /// The target has granted credits up to a number.
    pub fn granted(&mut self, up_to: u32) {
        if let CongestionControl::Rccc(own) = self {
            own.granted(up_to);
        }
    }

    /// A packet of this many bytes starts.
    #[inline]
    pub fn sent(&mut self, now: Time, bytes: u64) {
        match self {
            CongestionControl::Dcqcn(own) => own.sent(now, bytes),
            CongestionControl::Rccc(own) => own.sent(bytes),
            _ => {}
        }
    }

    /// An acknowledgment has arrived, with the link states recorded by the acknowledged packet, if
    /// there are any.
    #[inline]
    pub fn acknowledged(&mut self, now: Time, heard: &Acknowledged, links: &[LinkState]) {
        match self {
            CongestionControl::LineRate { .. }
            | CongestionControl::Dcqcn(_)
            | CongestionControl::Infiniband(_) => {}
            CongestionControl::Dctcp(own) => own.acknowledged(heard),
            CongestionControl::Hpcc(own) => own.acknowledged(heard, links),
            CongestionControl::Nscc(own) => own.acknowledged(now, heard),
            CongestionControl::Rccc(own) => own.heard(),
            CongestionControl::Swift(own) => own.acknowledged(now, heard),
        }
    }

    /// A congestion notification has arrived.
    #[inline]
    pub fn notified(&mut self, now: Time) {
        match self {
            CongestionControl::Dcqcn(own) => own.notified(now),
            CongestionControl::Infiniband(own) => own.notified(now),
            CongestionControl::LineRate { .. }
            | CongestionControl::Dctcp(_)
            | CongestionControl::Hpcc(_)
            | CongestionControl::Nscc(_)
            | CongestionControl::Rccc(_)
            | CongestionControl::Swift(_) => {}
        }
    }

    /// A packet is known to be lost. DCQCN, HPCC and InfiniBand's do not ask: they were made for networks that lose
    /// nothing.
    pub fn lost(&mut self, now: Time, loss: Loss, flight: Flight) {
        match self {
            CongestionControl::LineRate { .. }
            | CongestionControl::Dcqcn(_)
            | CongestionControl::Hpcc(_)
            | CongestionControl::Infiniband(_) => {}
            CongestionControl::Dctcp(own) => own.lost(loss, flight.next),
            CongestionControl::Nscc(own) if loss == Loss::Timeout => own.timed_out(),
            CongestionControl::Nscc(own) => own.lost(now, flight.under_way),
            CongestionControl::Rccc(own) => own.heard(),
            CongestionControl::Swift(own) => own.lost(now, loss),
        }
    }
}

/// A count that a default is made of.
const fn count(number: u32) -> PositiveCount {
    match PositiveCount::new(number) {
        Some(count) => count,
        None => PositiveCount::ONE,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const LINE: Line = Line {
        rate: Rate::from_bits_per_second(100_000_000_000),
        packet: Bytes(1_000),
        payload: Bytes(950),
    };

    #[derive(Clone, Copy, Debug)]
    enum Happening {
        Sent,
        Acknowledged { is_marked: bool, delay_ns: u64 },
        Notified,
        Lost(Loss),
    }

    fn happening() -> impl Strategy<Value = (u64, Happening)> {
        let what = prop_oneof![
            Just(Happening::Sent),
            (any::<bool>(), 1_000_u64..200_000).prop_map(|(is_marked, delay_ns)| {
                Happening::Acknowledged { is_marked, delay_ns }
            }),
            Just(Happening::Notified),
            Just(Happening::Lost(Loss::Gap)),
            Just(Happening::Lost(Loss::Cut)),
            Just(Happening::Lost(Loss::Timeout)),
        ];
        (0_u64..100_000_000, what)
    }

    fn kinds() -> [CongestionControlSettings; 6] {
        [
            CongestionControlSettings::Nscc(NsccSettings::new(Span::from_ns(12_000))),
            CongestionControlSettings::Rccc(RcccSettings::new(Span::from_ns(12_000))),
            CongestionControlSettings::Dcqcn(DcqcnSettings::default()),
            CongestionControlSettings::Dctcp(DctcpSettings::default()),
            CongestionControlSettings::Infiniband(InfinibandSettings::default()),
            CongestionControlSettings::Swift(SwiftSettings::default()),
        ]
    }

    proptest! {
        #[test]
        fn rates_and_windows_stay_within_their_bounds(
            story in prop::collection::vec(happening(), 1..300)
        ) {
            for settings in kinds() {
                let mut own = CongestionControl::new(Some(&settings), LINE, Time::ZERO);
                let (mut now, mut next, mut up_to) = (Time::ZERO, 0, 0);
                for (after, what) in &story {
                    now += Span(*after);
                    match *what {
                        Happening::Sent => {
                            own.sent(now, 1_000);
                            next += 1_000;
                        }
                        Happening::Acknowledged { is_marked, delay_ns } if up_to < next => {
                            up_to += 1_000;
                            let delay = Span::from_ns(delay_ns);
                            let heard =
                                Acknowledged { bytes: 1_000, is_marked, delay, hops: 3, up_to, next };
                            own.acknowledged(now, &heard, &[]);
                        }
                        Happening::Acknowledged { .. } => {}
                        Happening::Notified => own.notified(now),
                        Happening::Lost(loss) => own.lost(now, loss, Flight { next, under_way: next - up_to }),
                    }
                    let (rate, window) = (own.rate(now), own.window());
                    prop_assert!(rate > 0.0 && rate <= 100e9, "{settings:?}: {rate}");
                    prop_assert!(window > 0.0, "{settings:?}: {window}");
                }
            }
        }

        #[test]
        fn congestion_never_speeds_a_flow_up(
            story in prop::collection::vec(happening(), 1..100)
        ) {
            // A notification, or a mark where there was none before, leaves less or as much.
            for settings in kinds() {
                let mut own = CongestionControl::new(Some(&settings), LINE, Time::ZERO);
                let (mut now, mut next) = (Time::ZERO, 0);
                for (after, _) in &story {
                    now += Span(*after);
                    let before = (own.rate(now), own.window());
                    next += 1_000;
                    own.notified(now);
                    let delay = Span::from_ns(1_000_000);
                    let heard = Acknowledged {
                        bytes: 1_000, is_marked: true, delay, hops: 3, up_to: next, next,
                    };
                    own.acknowledged(now, &heard, &[]);
                    own.lost(now, Loss::Gap, Flight { next, under_way: 0 });
                    prop_assert!(own.rate(now) <= before.0, "{settings:?}");
                    prop_assert!(own.window() <= before.1, "{settings:?}");
                }
            }
        }
    }
}
