//! A stage of one host with what waits before it and what it works on.

use std::collections::VecDeque;

use weft_units::{Bytes, Rate, Span, Time};

use super::program::Meeting;
use super::{Piece, ResourceSettings, StageSettings, Unit, When};

/// How pieces become units.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Cut {
    /// As they arrive.
    AsIs,
    /// Pieces of this many bytes, and the rest of a message.
    Into(u64),
}

#[derive(Debug)]
pub(super) struct Station {
    settings: StageSettings,
    cut: Cut,
    /// The resources it holds, by number, and how often each byte crosses them.
    pub uses: Vec<(usize, u8)>,
    /// The rate at which it moves its bytes across each resource that has one.
    rates: Vec<(Rate, u8)>,
    /// Whether the program does its work.
    pub of_program: bool,
    /// Bytes of messages that are less than a unit.
    gathered: Vec<Piece>,
    ready: VecDeque<Piece>,
    working: VecDeque<(Time, Piece)>,
    free_since: Time,
    pub performed: u64,
    pub residence: Span,
    pub ends: u64,
}

impl Station {
    /// A stage of a path whose packets carry `payload`; `as_is` where packets come from the
    /// channel.
    pub fn new(
        settings: &StageSettings,
        resources: &[(&String, &ResourceSettings)],
        payload: Bytes,
        as_is: bool,
        processor: Option<&String>,
    ) -> Station {
        let number = |name: &String| resources.iter().position(|(other, _)| *other == name);
        let of = |(name, times): (&String, &u8)| number(name).map(|number| (number, *times));
        let uses: Vec<(usize, u8)> = settings.uses.iter().filter_map(of).collect();
        let rate = |(number, times): &(usize, u8)| Some((resources[*number].1.rate?, *times));
        Station {
            cut: match settings.unit {
                Unit::Message => Cut::Into(u64::MAX),
                Unit::Packet if as_is => Cut::AsIs,
                Unit::Packet => Cut::Into(payload.0.max(1)),
                Unit::Chunk(bytes) => Cut::Into(bytes.0),
            },
            rates: uses.iter().filter_map(rate).collect(),
            of_program: processor.is_some_and(|name| settings.uses.contains_key(name)),
            uses,
            settings: settings.clone(),
            gathered: Vec::new(),
            ready: VecDeque::new(),
            working: VecDeque::new(),
            free_since: Time::ZERO,
            performed: 0,
            residence: Span::ZERO,
            ends: 0,
        }
    }

    /// Whether bytes of a message move on immediately.
    pub fn lets_pass(&self, size: Bytes) -> bool {
        self.settings.in_passing && self.settings.is_for(size)
    }

    pub fn looks_at_program(&self) -> bool {
        self.settings.looks_at_program()
    }

    pub fn is_in_passing(&self) -> bool {
        self.settings.in_passing
    }

    /// Records the state in which the message at the front found the program.
    pub fn note(&mut self, met: Option<Meeting>) {
        if let Some(front) = self.ready.front_mut() {
            front.met = met;
        }
    }

    /// Whether the station is idle: nothing is queued, being gathered or in progress.
    pub fn is_empty(&self) -> bool {
        self.ready.is_empty() && self.working.is_empty() && self.gathered.is_empty()
    }

    /// Whether it accepts another unit from the previous stage.
    pub fn has_room(&self) -> bool {
        // A stage that only delays leaves nothing that could wait for it.
        let delayed = if self.uses.is_empty() { self.working.len() } else { 0 };
        self.settings.room.admits(self.ready.len() + delayed)
    }

    /// A message to which the stage does not apply passes it unchanged.
    fn cut_of(&self, piece: &Piece) -> Cut {
        if self.settings.is_for(piece.size) { self.cut } else { Cut::AsIs }
    }

    /// Takes a piece, whose `since` is now.
    pub fn enqueue(&mut self, piece: Piece) {
        let Cut::Into(unit) = self.cut_of(&piece) else {
            self.ready.push_back(piece);
            return;
        };
        let place = self.gathered.iter().position(|other| other.message == piece.message);
        let held = place.map_or(0, |place| self.gathered[place].bytes.0);
        let total = held + piece.bytes.0;
        let whole = if piece.last { total } else { total / unit * unit };
        let rest = Piece { bytes: Bytes(total - whole), ..piece };
        match place {
            Some(place) if rest.bytes.0 == 0 => drop(self.gathered.swap_remove(place)),
            Some(place) => self.gathered[place] = rest,
            None if rest.bytes.0 > 0 => self.gathered.push(rest),
            None => {}
        }
        if whole > 0 || piece.last {
            self.ready.push_back(Piece { bytes: Bytes(whole), ..piece });
        }
    }

    /// Takes the whole of a message before all that waits. Its `since` is now.
    pub fn put_first(&mut self, piece: Piece) {
        self.ready.push_front(piece);
    }

    /// Since when the next unit could have been processed, if there is one and the stage is free.
    pub fn waits_since(&self) -> Option<Time> {
        if !self.uses.is_empty() && !self.working.is_empty() {
            return None;
        }
        Some(self.ready.front()?.since.max(self.free_since))
    }

    /// The next unit; to be called where one is ready.
    pub fn next_unit(&self) -> Option<Piece> {
        let front = *self.ready.front()?;
        Some(match self.cut_of(&front) {
            Cut::Into(unit) if front.bytes.0 > unit => {
                Piece { bytes: Bytes(unit), last: false, ..front }
            }
            _ => front,
        })
    }

    /// Takes the next unit out.
    pub fn take_unit(&mut self, unit: &Piece) {
        let Some(front) = self.ready.front_mut() else { return };
        front.bytes = Bytes(front.bytes.0 - unit.bytes.0);
        if self.settings.looks_at_program() {
            // The rest arrives when the program has begun with the first part.
            front.met = None;
        }
        if front.bytes.0 == 0 {
            self.ready.pop_front();
        }
    }

    /// How long a unit takes, if the stage processes it at all.
    pub fn work(&self, unit: &Piece) -> Option<Span> {
        let stage = &self.settings;
        let looked = match (stage.when, unit.met) {
            (When::Always, _) | (When::Asleep, Some(Meeting::Asleep)) => Span::ZERO,
            (When::Polling, Some(Meeting::Polling(until_look))) => until_look,
            _ => return None,
        };
        let rest = unit.bytes.0 == 0 && unit.size.0 > 0;
        let nothing = rest && matches!(stage.unit, Unit::Chunk(_));
        if nothing || !stage.is_for(unit.size) {
            return None;
        }
        let own = stage.rate.map_or(Span::ZERO, |rate| rate.span(unit.bytes));
        let of = |(rate, times): &(Rate, u8)| rate.span(unit.bytes * u64::from(*times));
        let slowest = self.rates.iter().map(of).fold(own, Span::max);
        Some(looked + stage.fixed + slowest)
    }

    /// Begins a unit; without resources not before the one ahead is done.
    pub fn begin(&mut self, now: Time, span: Span, unit: Piece) {
        let ahead = self.working.back().map_or(now, |(end, _)| *end);
        self.working.push_back((ahead.max(now + span), unit));
    }

    /// When it finishes its current unit.
    pub fn next_end(&self) -> Time {
        self.working.front().map_or(Time::NEVER, |(end, _)| *end)
    }

    /// The unit that is done.
    pub fn finish(&mut self) -> Option<(Time, Piece)> {
        let (end, piece) = self.working.pop_front()?;
        self.free_since = end;
        Some((end, piece))
    }

    /// Whether a unit that takes no work may pass now.
    pub fn lets_idle_pass(&self) -> bool {
        self.working.is_empty()
    }
}
