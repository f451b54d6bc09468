//! Exact fast-forward: skips whole periods of a channel while nothing else happens.

use weft_units::Time;

use super::{CLOCK_END, Machine};
use crate::drive::carrier::Carrier;
use crate::drive::engine::{FastForward, Horizon};
use crate::table::{Cell, Table};

impl<C: Carrier> Machine<C> {
    /// Skips whole periods on all channels that can tell when they repeat themselves.
    pub fn begin_fast_forward(&mut self) {
        let channels = self.channels.iter_mut();
        let begin = |(_, own): &mut (String, C)| own.begin_fast_forward().err();
        self.forbidden = Some(channels.map(begin).collect());
    }

    /// What was skipped on each channel, in order; empty unless it was requested.
    pub fn fast_forwarded(&self) -> Vec<FastForward> {
        let all = self.channels.iter().zip(self.forbidden.iter().flatten());
        let report = |((_, own), why): (&(String, C), &Option<String>)| match why {
            Some(why) => FastForward::forbidden(why),
            None => own.fast_forwarded().unwrap_or_default(),
        };
        all.map(report).collect()
    }

    /// A row a channel with what was left out there: `channel`, `jumps`, `periods`, `packets` and `skipped_us`, and
    /// `forbidden`, what rules it out, if something does. Empty unless it was asked for.
    pub fn fast_forward_table(&self) -> Table {
        let mut table = Table::new();
        for ((name, _), own) in self.channels.iter().zip(self.fast_forwarded()) {
            table.push([
                ("channel", Cell::from(name.as_str())),
                ("jumps", own.jumps.into()),
                ("periods", own.periods.into()),
                ("packets", own.packets.into()),
                ("skipped_us", own.time.as_us().into()),
                ("forbidden", own.forbidden.unwrap_or_default().into()),
            ]);
        }
        table
    }

    /// Skips as many whole periods as fit before anything else happens, within this many steps.
    /// Returns how many steps it skipped.
    pub fn fast_forward(&mut self, most: u64) -> u64 {
        if self.forbidden.is_none() {
            return 0;
        }
        let timer = self.timers.next_time().unwrap_or(Time::NEVER).min(self.next_copy());
        for place in 0..self.channels.len() {
            let others = self.channels.iter().enumerate().filter(|(other, _)| *other != place);
            let limit = others
                .fold(timer.min(CLOCK_END), |limit, (_, (_, other))| limit.min(other.next_time()));
            let horizon = Horizon { limit, steps: most };
            if let Some(jump) = self.channels[place].1.fast_forward(horizon) {
                self.now = jump.until;
                return jump.steps;
            }
        }
        0
    }
}
