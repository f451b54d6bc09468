//! Whether the program of a host polls for messages or sleeps until it is interrupted.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use weft_units::{Span, Time};

use super::FlagSettings;
use super::flag::Flag;

/// How the program of a host waits for messages (SCILAN 4.7).
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
#[schemars(rename = "HostProgramSettings")]
pub struct ProgramSettings {
    /// The processor on which it runs. Required if a stage depends on what the program is doing. A
    /// message counts as sent after the last stage of the send path that uses this processor.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub processor: Option<String>,
    /// How long it polls for the next message before it sleeps. "0 ns" sleeps immediately; without
    /// a value it never sleeps.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub spin: Option<Span>,
    /// The interval between polls; without a value it polls continuously.
    pub look_every: Span,
}

/// The state of the program when a message arrives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Meeting {
    /// The program works.
    Busy,
    /// The program polls and finds this message after this time.
    Polling(Span),
    /// The program sleeps.
    Asleep,
}

/// The program of one host. Its flag decides which messages interrupt, in the form of the live
/// library or of the document: the receiver enables the flag before it sleeps, and every message
/// stimulates it.
#[derive(Debug)]
pub(super) struct Program {
    settings: ProgramSettings,
    flag: Flag,
    /// The count of the flag each time the program went to sleep.
    counted: u64,
    /// When its last work ended.
    idle_since: Time,
    /// Stages of it that work.
    working: u32,
    pub interrupts: u64,
}

impl Program {
    pub fn new(settings: ProgramSettings, flag: FlagSettings) -> Program {
        Program {
            settings,
            flag: Flag::new(flag),
            counted: 0,
            idle_since: Time::ZERO,
            working: 0,
            interrupts: 0,
        }
    }

    pub fn begin(&mut self) {
        self.working += 1;
    }

    pub fn end(&mut self, now: Time) {
        self.working -= 1;
        self.idle_since = self.idle_since.max(now);
    }

    /// A message has arrived whose receive path includes the program. `pending` says whether an
    /// earlier one is still before it.
    pub fn meet(&mut self, now: Time, pending: bool) -> Meeting {
        let idle = self.working == 0 && !pending;
        let waited = now.since(self.idle_since);
        if idle && self.settings.spin.is_some_and(|spin| waited >= spin) {
            // It went to sleep before this message came.
            self.counted += u64::from(self.flag.enable());
        }
        if self.flag.stimulate() {
            self.interrupts += 1;
            return Meeting::Asleep;
        }
        if idle { Meeting::Polling(self.until_look(waited)) } else { Meeting::Busy }
    }

    /// How many messages did not interrupt, by the word of the flag; none if it does not count.
    pub fn counted(&self) -> Option<u64> {
        Some(self.counted + u64::from(self.flag.counted()?))
    }

    fn until_look(&self, waited: Span) -> Span {
        let every = self.settings.look_every.0;
        match every {
            0 => Span::ZERO,
            _ => Span(waited.0.div_ceil(every) * every - waited.0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn waiting(flag: FlagSettings, spin: Option<u64>, look_every: u64) -> Program {
        let settings = ProgramSettings {
            processor: None,
            spin: spin.map(Span::from_ns),
            look_every: Span::from_ns(look_every),
        };
        Program::new(settings, flag)
    }

    fn program(spin: Option<u64>, look_every: u64) -> Program {
        waiting(FlagSettings::Sleepers, spin, look_every)
    }

    /// Two messages while it looks, one that wakes it, one while it works: three are counted, two of
    /// them when it went to sleep.
    #[test]
    fn the_counting_word_counts_what_does_not_interrupt() {
        let mut program = waiting(FlagSettings::Counting, Some(50), 0);
        for time in [10_000, 20_000] {
            assert_eq!(program.meet(Time(time), false), Meeting::Polling(Span::ZERO));
        }
        assert_eq!(program.meet(Time(90_000), false), Meeting::Asleep);
        assert_eq!((program.counted, program.counted()), (2, Some(2)));
        program.begin();
        assert_eq!(program.meet(Time(95_000), false), Meeting::Busy);
        assert_eq!((program.interrupts, program.counted()), (1, Some(3)));
    }

    #[test]
    fn a_program_sleeps_only_when_it_has_looked_in_vain_for_long_enough() {
        let mut program = program(Some(50), 0);
        program.begin();
        assert_eq!(program.meet(Time(900_000), false), Meeting::Busy);
        program.end(Time(1_000_000));
        assert_eq!(program.meet(Time(1_049_000), false), Meeting::Polling(Span::ZERO));
        assert_eq!(program.meet(Time(1_050_000), false), Meeting::Asleep);
        assert_eq!(program.interrupts, 1);
    }

    #[test]
    fn behind_another_message_none_interrupts() {
        let mut program = program(Some(0), 0);
        assert_eq!(program.meet(Time(5), true), Meeting::Busy);
        assert_eq!(program.meet(Time(6), false), Meeting::Asleep);
    }

    #[test]
    fn a_program_without_spin_never_sleeps() {
        let mut program = program(None, 0);
        assert_eq!(program.meet(Time(u64::MAX / 2), false), Meeting::Polling(Span::ZERO));
        assert_eq!(program.interrupts, 0);
    }

    #[test]
    fn a_message_is_found_at_the_next_look() {
        let mut program = program(None, 400);
        assert_eq!(program.meet(Time(900_000), false), Meeting::Polling(Span::from_ns(300)));
        assert_eq!(program.meet(Time(1_200_000), false), Meeting::Polling(Span::ZERO));
    }
}
