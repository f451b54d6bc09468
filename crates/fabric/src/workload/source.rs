//! The source of one host: when it hands over the next packet, and to whom.

use weft_kernel::Stream;
use weft_units::{Span, Time};

/// One packet that a program hands over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Demand {
    /// When it is handed over.
    pub time: Time,
    /// The host that it is for.
    pub target: u16,
}

/// The traffic of one host on one channel. Streams are its own, so that another architecture of
/// the channel, or another host, leaves its traffic as it was.
#[derive(Debug)]
pub struct Source {
    mean: Span,
    hosts: u16,
    host: u16,
    next: Demand,
    times: Stream,
    targets: Stream,
}

impl Source {
    /// Memoryless arrivals with a mean interval, uniform over the other hosts.
    pub fn poisson(mean: Span, host: u16, hosts: u16, times: Stream, targets: Stream) -> Source {
        let next = Demand { time: Time::ZERO, target: 0 };
        let mut source = Source { mean, hosts, host, next, times, targets };
        source.draw();
        source
    }

    /// When the next packet is handed over; [`Time::NEVER`] if none is to come by itself.
    #[inline]
    pub fn next_time(&self) -> Time {
        self.next.time
    }

    /// Hands over the next packet and draws the one after it.
    #[inline]
    pub fn take(&mut self) -> Demand {
        let demand = self.next;
        self.draw();
        demand
    }

    fn draw(&mut self) {
        let gap = (self.times.exponential() * self.mean.0 as f64) as u64;
        let other = self.targets.below(u64::from(self.hosts) - 1) as u16;
        self.next = Demand {
            time: self.next.time + Span(gap),
            target: if other >= self.host { other + 1 } else { other },
        };
    }
}
