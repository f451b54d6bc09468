//! Which packets are marked as having met congestion.

use weft_kernel::Stream;
use weft_units::Time;

use super::settings::{ClassSettings, EcnLaw, EcnSettings, MarkAt};
use super::{Header, Ports, SwitchRule};

/// Marks a packet behind or in front of `bytes` bytes, if the law says so and the packet is
/// ECN-capable.
#[inline]
pub(super) fn mark(
    ecn: &EcnSettings,
    bytes: u64,
    header: &mut Header,
    random: Option<&mut Stream>,
) -> bool {
    if !header.has(Header::ECN_CAPABLE) {
        return false;
    }
    let is_marked = match &ecn.law {
        EcnLaw::Step { threshold } => bytes > threshold.0,
        EcnLaw::Red { kmin, .. } if bytes <= kmin.0 => false,
        EcnLaw::Red { kmax, .. } if bytes > kmax.0 => true,
        EcnLaw::Red { kmin, kmax, pmax } => {
            let share = (bytes - kmin.0) as f64 / (kmax.0 - kmin.0) as f64;
            random.is_some_and(|random| random.chance(pmax.get() * share))
        }
    };
    if is_marked {
        header.bits |= Header::MARKED;
    }
    is_marked
}

/// Whether a class is marked when its packets have left.
pub(super) fn at_departure(own: &ClassSettings) -> bool {
    own.ecn.as_ref().is_some_and(|ecn| ecn.at == MarkAt::Departure)
}

/// Whether any class of any switch is marked when its packets have left.
pub(super) fn any_at_departure(switches: &[SwitchRule]) -> bool {
    switches.iter().any(|own| own.classes.iter().any(at_departure))
}

impl Ports {
    /// Whether any port marks packets that [have left](Self::mark_departure).
    #[inline]
    pub fn marks_departures(&self) -> bool {
        self.marks_departures
    }

    /// The last byte of a packet has left a port: it is marked by what waits there now, before the
    /// port sends what is next.
    pub fn mark_departure(&mut self, now: Time, port: u32, header: &mut Header) {
        let rule = self.kind_of(port).rule;
        let rule = &mut self.rules[rule as usize];
        let class = usize::from(header.class);
        let place = port as usize * self.classes + class;
        if let Some(ecn) = &rule.ecn[class]
            && ecn.at == MarkAt::Departure
            && mark(ecn, self.queues[place].bytes, header, rule.random.as_mut())
        {
            self.counts[place].marked += u64::from(now >= self.window.from);
        }
    }
}
