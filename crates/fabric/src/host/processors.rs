//! The processors of hosts, of which there may be fewer than computations: first come, first
//! served, each to its end.

use std::collections::VecDeque;

use weft_units::{PositiveCount, Span};

/// The processors of all hosts, as many on each. The caller assigns each computation an identifier.
#[derive(Clone, Debug)]
pub struct Processors<J> {
    count: PositiveCount,
    hosts: Vec<Own<J>>,
}

#[derive(Clone, Debug)]
struct Own<J> {
    busy: u32,
    queue: VecDeque<(J, Span)>,
}

impl<J: Copy + PartialEq> Processors<J> {
    /// All of them free.
    pub fn new(count: PositiveCount) -> Processors<J> {
        Processors { count, hosts: Vec::new() }
    }

    /// Requests a computation on a host. Returns whether it begins; otherwise it waits.
    pub fn begin(&mut self, host: u16, job: J, span: Span) -> bool {
        let place = usize::from(host);
        while self.hosts.len() <= place {
            self.hosts.push(Own { busy: 0, queue: VecDeque::new() });
        }
        let own = &mut self.hosts[place];
        let begins = own.busy < self.count.get();
        if begins {
            own.busy += 1;
        } else {
            own.queue.push_back((job, span));
        }
        begins
    }

    /// A computation on a host has ended. Returns the one that gets its processor.
    pub fn end(&mut self, host: u16) -> Option<(J, Span)> {
        let own = self.hosts.get_mut(usize::from(host))?;
        let next = own.queue.pop_front();
        if next.is_none() {
            own.busy -= 1;
        }
        next
    }

    /// Whether a computation on a host waits for a processor.
    pub fn waits(&self, host: u16, job: J) -> bool {
        let own = self.hosts.get(usize::from(host));
        // The one that is looked for usually came last.
        own.is_some_and(|own| own.queue.iter().rev().any(|(other, _)| *other == job))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_came_first_computes_first_on_each_host() {
        let mut processors = Processors::new(PositiveCount::new(2).unwrap_or(PositiveCount::ONE));
        let mut begin = |host, job: u32| processors.begin(host, job, Span(u64::from(job)));
        assert_eq!(
            [begin(3, 1), begin(3, 2), begin(3, 3), begin(3, 4)],
            [true, true, false, false]
        );
        assert!(begin(0, 5), "another host");
        assert!(processors.waits(3, 4) && !processors.waits(3, 1) && !processors.waits(7, 4));
        assert_eq!(processors.end(3), Some((3, Span(3))));
        assert_eq!(processors.end(3), Some((4, Span(4))));
        assert_eq!([processors.end(3), processors.end(3)], [None, None]);
        assert!(processors.begin(3, 6, Span(1)), "both are free again");
    }
}
