//! Whether the program of a host looks for messages or sleeps until it is interrupted.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use weft_protocol::interrupt_flag::{InterruptFlag, Sleep};
use weft_units::{Span, Time};

/// How the program of a host waits for messages (SCILAN 4.7).
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
#[schemars(rename = "HostProgramSettings")]
pub struct ProgramSettings {
    /// The resource that it works with. Needed where a stage asks what the program does; a message
    /// counts as sent with the last stage of the send way that uses it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub processor: Option<String>,
    /// How long it looks for the next message before it sleeps. "0 ns" sleeps at once; without a
    /// value it never does.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub spin: Option<Span>,
    /// From one look to the next; without a value it looks all the time.
    pub look_every: Span,
}

/// What a message meets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Meeting {
    /// The program works.
    Busy,
    /// The program looks for messages and finds this one after so long.
    Polling(Span),
    /// The program sleeps.
    Asleep,
}

/// The program of one host. It decides by the very flag of the live library when a message
/// interrupts: the receiver arms it before it sleeps, every message stimulates it.
#[derive(Debug)]
pub(super) struct Program {
    settings: ProgramSettings,
    flag: InterruptFlag,
    /// When its last work ended.
    idle_since: Time,
    /// Stages of it that work.
    working: u32,
    pub interrupts: u64,
}

impl Program {
    pub fn new(settings: ProgramSettings) -> Program {
        Program {
            settings,
            flag: InterruptFlag::default(),
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

    /// A message has come whose way leads through the program. `pending` says whether an earlier
    /// one is still before it.
    pub fn meet(&mut self, now: Time, pending: bool) -> Meeting {
        let idle = self.working == 0 && !pending;
        let waited = now.since(self.idle_since);
        if idle && self.settings.spin.is_some_and(|spin| waited >= spin) {
            // It went to sleep before this message came. The flag's word is what the kernel would
            // sleep on; here nobody does.
            let _ = self.flag.arm(Sleep::InKernel);
        }
        if self.flag.stimulate().includes(Sleep::InKernel) {
            self.interrupts += 1;
            return Meeting::Asleep;
        }
        if idle { Meeting::Polling(self.until_look(waited)) } else { Meeting::Busy }
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

    fn program(spin: Option<u64>, look_every: u64) -> Program {
        Program::new(ProgramSettings {
            processor: None,
            spin: spin.map(Span::from_ns),
            look_every: Span::from_ns(look_every),
        })
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
