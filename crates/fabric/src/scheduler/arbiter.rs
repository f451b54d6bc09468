//! A scheduler with its requests and its matching, for a switch of any size.

use weft_kernel::Stream;

use super::{AnyScheduler, MAX_PORTS, Matching, PortSet, Requests, Scheduler};
use super::{SchedulerError, SchedulerSettings};

/// A scheduler, what it decides on, and what it has decided, all of one size.
#[derive(Clone, Debug)]
pub struct Matcher<const W: usize> {
    /// The scheduler.
    pub scheduler: AnyScheduler<W>,
    /// Which initiators ask for which targets.
    pub requests: Requests<W>,
    /// The connections of the last decision.
    pub matching: Matching<W>,
}

/// A matcher whose sets have as many words as its switch needs.
#[derive(Clone, Debug)]
pub enum Arbiter {
    /// Up to 64 ports.
    Narrow(Box<Matcher<1>>),
    /// Up to 256 ports.
    Wide(Box<Matcher<4>>),
    /// Up to [`MAX_PORTS`].
    Widest(Box<Matcher<16>>),
}

/// The same for each size.
macro_rules! of_any_size {
    ($arbiter:expr, $own:ident => $result:expr) => {
        match $arbiter {
            Arbiter::Narrow($own) => $result,
            Arbiter::Wide($own) => $result,
            Arbiter::Widest($own) => $result,
        }
    };
}

impl SchedulerSettings {
    /// The scheduler in its first state, without requests.
    ///
    /// # Errors
    /// [`SchedulerError::Ports`] unless the switch has 1 to [`MAX_PORTS`] ports.
    pub fn arbiter(&self, ports: usize) -> Result<Arbiter, SchedulerError> {
        match ports {
            1..=64 => Ok(Arbiter::Narrow(Box::new(Matcher::new(self, ports)?))),
            65..=256 => Ok(Arbiter::Wide(Box::new(Matcher::new(self, ports)?))),
            257..=MAX_PORTS => Ok(Arbiter::Widest(Box::new(Matcher::new(self, ports)?))),
            _ => Err(SchedulerError::Ports { ports, most: MAX_PORTS }),
        }
    }
}

impl<const W: usize> Matcher<W> {
    /// A scheduler in its first state, without requests.
    ///
    /// # Errors
    /// [`SchedulerError::Ports`] unless the switch has 1 to [`PortSet::MOST`] ports.
    pub fn new(settings: &SchedulerSettings, ports: usize) -> Result<Matcher<W>, SchedulerError> {
        let scheduler = settings.build(ports)?;
        Ok(Matcher { scheduler, requests: Requests::new(ports), matching: Matching::new(ports) })
    }

    fn ask(&mut self, rows: &[u64]) {
        let words = if W == 1 { 1 } else { self.requests.ports().div_ceil(64) };
        for (initiator, row) in rows.chunks(words).enumerate() {
            self.requests.set_row(initiator, PortSet::from_words(row));
        }
    }

    #[inline]
    fn decide(&mut self, random: &mut Stream) {
        self.scheduler.schedule(&self.requests, random, &mut self.matching);
    }
}

impl Arbiter {
    /// Number of initiators, and of targets.
    #[inline]
    pub fn ports(&self) -> usize {
        of_any_size!(self, own => own.requests.ports())
    }

    /// Initiators, none of whom asks for anything, ask for targets: a set after another, each in as
    /// many words as there are for the ports, the lowest ports first.
    pub fn ask(&mut self, rows: &[u64]) {
        of_any_size!(self, own => own.ask(rows));
    }

    /// Removes all requests.
    pub fn clear(&mut self) {
        of_any_size!(self, own => own.requests.clear_all());
    }

    /// Matches the requests.
    #[inline]
    pub fn decide(&mut self, random: &mut Stream) {
        of_any_size!(self, own => own.decide(random));
    }

    /// How many connections were decided on.
    pub fn connections(&self) -> usize {
        of_any_size!(self, own => own.matching.len())
    }

    /// Tells the connections that were decided on, as (initiator, target) by ascending target.
    #[inline]
    pub fn each_connection(&self, tell: impl FnMut((usize, usize))) {
        of_any_size!(self, own => own.matching.by_target().for_each(tell));
    }
}

#[cfg(test)]
mod tests {
    use weft_kernel::Streams;

    use super::*;

    /// The first and the last initiator each ask for the target of their number and are served as
    /// long as they do.
    #[test]
    fn an_arbiter_of_any_size_serves_who_asks() {
        for ports in [2, 64, 65, 256, 257, MAX_PORTS] {
            for (name, settings) in SchedulerSettings::all_defaults() {
                let mut arbiter = settings.arbiter(ports).unwrap();
                let mut random = Streams::new(1).stream("test", 0);
                assert_eq!(arbiter.ports(), ports);
                let ends = [0, ports - 1];
                for asking in [&ends[..], &ends[1..], &ends[..1], &[]] {
                    arbiter.clear();
                    let words = ports.div_ceil(64);
                    let mut rows = vec![0; ports * words];
                    for port in asking {
                        rows[port * words + port / 64] = 1 << (port % 64);
                    }
                    arbiter.ask(&rows);
                    for _ in 0..2 {
                        arbiter.decide(&mut random);
                        let mut served = Vec::new();
                        arbiter.each_connection(|connection| served.push(connection));
                        let expected: Vec<_> = asking.iter().map(|port| (*port, *port)).collect();
                        assert_eq!(served, expected, "{name}, {ports} ports");
                        assert_eq!(arbiter.connections(), expected.len());
                    }
                }
            }
        }
    }
}
