//! The adapter of one host with many endpoints, and the program that serves them: when the bus fetches
//! each message to be sent and delivers each that has arrived, and when the program has handled it.

use std::collections::VecDeque;

use weft_protocol::vi::CompletionQueue;
use weft_units::{Span, Time};

use super::EndpointSettings;

/// One host. `S` names a message to be sent, `R` one that was received.
///
/// Doorbells are answered in the order in which they rang, whichever endpoint they belong to. Fetches
/// and deliveries do not delay each other on the bus. All receive queues report to one completion queue.
#[derive(Clone, Debug)]
pub struct ViHost<S, R> {
    per_message: Span,
    program: Span,
    /// Until when the bus fetches a message, and until when it takes one.
    fetching: Time,
    taking: Time,
    rung: VecDeque<S>,
    /// Whether the caller knows when to fetch the next one.
    is_due: bool,
    completions: CompletionQueue<R>,
    /// The entry that the program is processing.
    at_work: Option<R>,
    /// The most entries of the completion queue that were in use.
    most_completions: usize,
}

impl<S, R: Copy> ViHost<S, R> {
    /// A host with nothing to do.
    pub fn new(settings: &EndpointSettings) -> ViHost<S, R> {
        let entries = settings.completions.count();
        let entries = entries.map_or(usize::MAX, |count| count.as_usize());
        ViHost {
            per_message: settings.per_message,
            program: settings.program,
            fetching: Time::ZERO,
            taking: Time::ZERO,
            rung: VecDeque::new(),
            is_due: false,
            completions: CompletionQueue::new(entries),
            at_work: None,
            most_completions: 0,
        }
    }

    /// A doorbell rings.
    pub fn ring(&mut self, message: S) {
        self.rung.push_back(message);
    }

    /// The message that the bus begins to fetch now, if it is free and a doorbell has rung.
    pub fn fetch(&mut self, now: Time) -> Option<S> {
        if self.fetching > now {
            return None;
        }
        self.is_due = false;
        let message = self.rung.pop_front()?;
        self.fetching = now + self.per_message;
        Some(message)
    }

    /// When the next message can be fetched, if there is one and the caller does not know yet.
    pub fn next_fetch(&mut self) -> Option<Time> {
        let is_news = !self.rung.is_empty() && !std::mem::replace(&mut self.is_due, true);
        is_news.then_some(self.fetching)
    }

    /// A message with a descriptor is whole at the adapter: when the bus begins to take it.
    pub fn take(&mut self, now: Time) -> Time {
        let begin = self.taking.max(now);
        self.taking = begin + self.per_message;
        begin
    }

    /// The adapter writes an entry of the completion queue.
    ///
    /// # Errors
    /// The entry, if none is free.
    pub fn complete(&mut self, entry: R) -> Result<(), R> {
        self.completions.push(entry)?;
        self.most_completions = self.most_completions.max(self.completions.len());
        Ok(())
    }

    /// The program takes the next entry, if it has processed the previous one. Returns it, and how
    /// long the program is busy with it.
    pub fn begin(&mut self) -> Option<(R, Span)> {
        if self.at_work.is_some() {
            return None;
        }
        self.at_work = self.completions.poll();
        self.at_work.map(|entry| (entry, self.program))
    }

    /// The program has processed an entry, and may post its descriptor again.
    pub fn end(&mut self) -> Option<R> {
        self.at_work.take()
    }

    /// The most entries of the completion queue that were in use at the same time.
    pub fn most_completions(&self) -> usize {
        self.most_completions
    }
}

#[cfg(test)]
mod tests {
    use weft_units::Limit;

    use super::*;

    fn host(program: u64, completions: u32) -> ViHost<char, char> {
        ViHost::new(&EndpointSettings {
            per_message: Span(10),
            program: Span(program),
            completions: Limit::at_most(completions).expect("entries"),
            ..EndpointSettings::free()
        })
    }

    #[test]
    fn doorbells_are_answered_in_turn_as_the_bus_is_free() {
        let mut host = host(0, 1);
        assert_eq!((host.fetch(Time(5)), host.next_fetch()), (None, None));
        host.ring('a');
        host.ring('b');
        assert_eq!((host.fetch(Time(5)), host.fetch(Time(5))), (Some('a'), None));
        // The bus is free at 15, and that is told once.
        assert_eq!((host.next_fetch(), host.next_fetch()), (Some(Time(15)), None));
        assert_eq!((host.fetch(Time(14)), host.fetch(Time(15))), (None, Some('b')));
        assert_eq!(host.next_fetch(), None);
        // The other direction has nothing to do with it.
        assert_eq!([5, 6, 40].map(|now| host.take(Time(now))), [Time(5), Time(15), Time(40)]);
    }

    #[test]
    fn a_program_deals_with_one_completion_after_another() {
        let mut host = host(7, 2);
        assert_eq!([host.complete('a'), host.complete('b')], [Ok(()), Ok(())]);
        assert_eq!(host.complete('c'), Err('c'));
        assert_eq!((host.begin(), host.begin()), (Some(('a', Span(7))), None));
        assert_eq!(host.complete('c'), Ok(()), "an entry is free when the program has read it");
        assert_eq!((host.end(), host.begin()), (Some('a'), Some(('b', Span(7)))));
        assert_eq!(
            (host.end(), host.begin(), host.end()),
            (Some('b'), Some(('c', Span(7))), Some('c'))
        );
        assert_eq!((host.begin(), host.most_completions()), (None, 2));
    }
}
